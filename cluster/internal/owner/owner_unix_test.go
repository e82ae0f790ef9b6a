//go:build unix

package owner

import (
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ownedBy is a directory as another user would have it.
type ownedBy struct {
	mode     fs.FileMode
	uid, gid uint32
}

func (o ownedBy) Name() string       { return "data" }
func (o ownedBy) Size() int64        { return 0 }
func (o ownedBy) Mode() fs.FileMode  { return fs.ModeDir | o.mode }
func (o ownedBy) ModTime() time.Time { return time.Time{} }
func (o ownedBy) IsDir() bool        { return true }
func (o ownedBy) Sys() any {
	var st syscall.Stat_t
	st.Uid, st.Gid = o.uid, o.gid
	return &st
}

func TestOthers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		dir    ownedBy
		user   int
		advice string
	}{
		{ownedBy{0o700, 1000, 1000}, 1000, ""},
		{ownedBy{0o755, 1000, 50}, 1000, ""},
		{ownedBy{0o775, 1000, 1000}, 1000, ""}, // umask 002 and a group of the user's own
		{ownedBy{0o775, 1000, 50}, 1000, "chmod go-w '/data'"},
		{ownedBy{0o775, 0, 0}, 1000, "chmod go-w '/data'"},
		{ownedBy{0o755, 0, 0}, 1000, ""},
		{ownedBy{0o757, 0, 0}, 0, "chmod go-w '/data'"},
		{ownedBy{0o777 | fs.ModeSticky, 0, 0}, 1000, "chmod go-w '/data'"},
		{ownedBy{0o700, 65534, 65534}, 0, "chown 0 '/data'"},
		{ownedBy{0o700, 1001, 1001}, 1000, "chown 1000 '/data'"},
	} {
		why, advice := others("/data", c.dir, c.user)
		if (why == "") != (c.advice == "") || !strings.HasPrefix(advice, c.advice) || advice != "" && c.advice == "" {
			t.Errorf("%+v, for user %d: %q, %q, want %q", c.dir, c.user, why, advice, c.advice)
		}
		if below := strings.Contains(advice, "a directory in it"); below != (c.dir.mode&fs.ModeSticky != 0) {
			t.Errorf("%+v, for user %d: %q sends to a directory in it", c.dir, c.user, advice)
		}
	}
}

func TestReplaces(t *testing.T) {
	t.Parallel()
	const sticky = fs.ModeSticky
	for _, c := range []struct {
		dir    ownedBy
		user   int
		advice string // a part of it
	}{
		{ownedBy{0o755, 0, 0}, 1000, ""},
		{ownedBy{0o775, 0, 0}, 1000, ""},
		{ownedBy{0o700, 1000, 1000}, 1000, ""},
		{ownedBy{0o775, 1000, 1000}, 1000, ""},
		{ownedBy{0o777 | sticky, 0, 0}, 1000, ""},
		{ownedBy{0o777 | sticky, 1000, 50}, 1000, ""},
		{ownedBy{0o777, 0, 0}, 1000, "chmod go-w '/data'"},
		{ownedBy{0o775, 0, 50}, 1000, "chmod go-w '/data'"},
		{ownedBy{0o777, 0, 0}, 0, "chmod go-w '/data'"},
		{ownedBy{0o755, 65534, 65534}, 1000, "run it as user 65534"},
		{ownedBy{0o777 | sticky, 65534, 65534}, 0, "run it as user 65534"},
		{ownedBy{0o755, 1000, 1000}, 0, "run it as user 1000"},
	} {
		why, advice := replaces("/data", c.dir, c.user)
		if (why == "") != (c.advice == "") || (advice == "") != (c.advice == "") || !strings.Contains(advice, c.advice) {
			t.Errorf("%+v, for user %d: %q, %q, want %q", c.dir, c.user, why, advice, c.advice)
		}
	}
}

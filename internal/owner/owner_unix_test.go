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
		{ownedBy{0o700, 65534, 65534}, 0, "chown 0 '/data'"},
		{ownedBy{0o700, 1001, 1001}, 1000, "chown 1000 '/data'"},
	} {
		why, advice := others("/data", c.dir, c.user)
		if (why == "") != (c.advice == "") || !strings.HasPrefix(advice, c.advice) || advice != "" && c.advice == "" {
			t.Errorf("%+v, for user %d: %q, %q, want %q", c.dir, c.user, why, advice, c.advice)
		}
	}
}

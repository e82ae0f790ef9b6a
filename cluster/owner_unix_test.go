//go:build unix

package cluster

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestDirectoryOfOthers: a data directory into which others may put files is refused with what to do, and left as it was.
func TestDirectoryOfOthers(t *testing.T) {
	t.Parallel()
	for _, mode := range []os.FileMode{0o777, 0o1777, 0o702} {
		dir := filepath.Join(t.TempDir(), "data")
		change(t, os.Mkdir(dir, 0o700))
		special := mode &^ 0o777
		if special != 0 {
			special = os.ModeSticky
		}
		change(t, os.Chmod(dir, mode.Perm()|special))
		before := snapshot(t, dir)
		_, err := Open(t.Context(), Options{Dir: dir})
		wantErr(t, "a directory of others", err, ErrWritable)
		if err == nil || !strings.Contains(err.Error(), "chmod go-w '"+dir+"'") || !strings.Contains(err.Error(), dir) {
			t.Errorf("mode %o: %v, want what to do in it", mode, err)
		}
		if d := cmp.Diff(snapshot(t, dir), before); d != "" {
			t.Errorf("mode %o: the directory was changed (-got +want):\n%s", mode, d)
		}
		change(t, os.Chmod(dir, 0o755)) // As told.
		n := must[*Node](t)(Open(t.Context(), Options{Dir: dir}))
		change(t, n.Close(t.Context()))
	}
}

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

func TestOthersMayWrite(t *testing.T) {
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
		why, advice := othersMayWrite("/data", c.dir, c.user)
		if (why == "") != (c.advice == "") || !strings.HasPrefix(advice, c.advice) || advice != "" && c.advice == "" {
			t.Errorf("%+v, for user %d: %q, %q, want %q", c.dir, c.user, why, advice, c.advice)
		}
	}
}

//go:build unix

package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

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

// TestDirectoryBelowOthers: a data directory that others may replace, as they may write one above it, is refused with what to do, and nothing is made there. Where
// the sticky bit keeps them from that, it is used.
func TestDirectoryBelowOthers(t *testing.T) {
	t.Parallel()
	shared := filepath.Join(t.TempDir(), "shared")
	change(t, os.Mkdir(shared, 0o700))
	change(t, os.Chmod(shared, 0o777))
	link := filepath.Join(t.TempDir(), "link")
	change(t, os.Symlink(filepath.Join(shared, "below"), link))
	for _, dir := range []string{filepath.Join(shared, "new"), filepath.Join(shared, "below", "new"), filepath.Join(shared, "below"), link} {
		before := snapshot(t, shared)
		_, err := Open(t.Context(), Options{Dir: dir})
		wantErr(t, "a directory in one of others", err, ErrWritable)
		if err == nil || !strings.Contains(err.Error(), "chmod go-w '"+shared+"'") || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v, want what to do in it", dir, err)
		}
		if d := cmp.Diff(snapshot(t, shared), before); d != "" {
			t.Errorf("something was made (-got +want):\n%s", d)
		}
		if dir == filepath.Join(shared, "new") {
			change(t, os.Mkdir(filepath.Join(shared, "below"), 0o700))
		}
	}
	change(t, os.Chmod(shared, 0o777|os.ModeSticky))
	for _, dir := range []string{filepath.Join(shared, "new"), link} {
		n := must[*Node](t)(Open(t.Context(), Options{Dir: dir}))
		change(t, n.Close(t.Context()))
	}
}

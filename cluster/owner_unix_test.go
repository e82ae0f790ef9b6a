//go:build unix

package cluster

import (
	"bytes"
	"log/slog"
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

// TestDirectoryBelowOthers: a data directory that others may replace, as they may write one above it, is used, and the log says so and what to do. Where
// the sticky bit keeps them from that, there is nothing to say.
func TestDirectoryBelowOthers(t *testing.T) {
	t.Parallel()
	shared := filepath.Join(t.TempDir(), "shared")
	change(t, os.Mkdir(shared, 0o700))
	link := filepath.Join(t.TempDir(), "link")
	change(t, os.Symlink(filepath.Join(shared, "below"), link))
	for _, mode := range []os.FileMode{0o777, 0o777 | os.ModeSticky} {
		change(t, os.Chmod(shared, mode))
		for _, dir := range []string{filepath.Join(shared, "below", "new"), filepath.Join(shared, "below"), link} {
			var log bytes.Buffer
			n := must[*Node](t)(Open(t.Context(), Options{Dir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))}))
			change(t, n.Close(t.Context()))
			if said := strings.Contains(log.String(), "chmod go-w '"+shared+"'"); said != (mode == 0o777) {
				t.Errorf("%s, mode %v: it says %s", dir, mode, &log)
			}
			change(t, os.RemoveAll(filepath.Join(shared, "below")))
			if dir != link {
				change(t, os.Mkdir(filepath.Join(shared, "below"), 0o700))
			}
		}
		change(t, os.RemoveAll(filepath.Join(shared, "below")))
		change(t, os.Mkdir(filepath.Join(shared, "below"), 0o700))
	}
}

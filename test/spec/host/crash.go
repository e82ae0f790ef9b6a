package host

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
)

// CopyDir returns a copy of a data directory, as a crash would leave it now.
func CopyDir(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(filepath.Join(to, "d"), os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(to, "d")
}

// Crashed returns a host on a copy of a data directory, and a client of the other host, which still runs on that
// directory, moved to it.
func Crashed(t *testing.T, dir string, o troupe.Options, c *kit.Client) (*Host, *kit.Client) {
	t.Helper()
	o.Dir = CopyDir(t, dir)
	h := New(t, o, nil)
	return h, h.Moved(c)
}

// Moved returns a copy of c, with its session, that talks to h.
func (h *Host) Moved(c *kit.Client) *kit.Client {
	m := *c
	m.HTTP = h.HTTP
	return &m
}

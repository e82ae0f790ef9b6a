package kit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/troupe-run/troupe/test/kit/when"
)

// SmallDisk mounts a file system of size bytes for the test and returns its path.
func SmallDisk(t *testing.T, size int) string {
	t.Helper()
	when.Full(t, "mounts a file system")
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+strconv.Itoa(size)); err != nil {
		when.Lacking(t, fmt.Sprintf("a small file system cannot be mounted, which takes root: %v", err))
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// FillDisk takes all the room that the disk at dir has, and returns a function that gives
// it back.
func FillDisk(t *testing.T, dir string) (free func()) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for chunk := make([]byte, 1<<20); len(chunk) > 0; {
		n, err := f.Write(chunk)
		switch {
		case err == nil:
		case !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, io.ErrShortWrite):
			t.Fatal(err)
		case n == 0:
			chunk = chunk[:len(chunk)/2]
		}
	}
	return func() {
		if err := os.Remove(f.Name()); err != nil {
			t.Error(err)
		}
	}
}

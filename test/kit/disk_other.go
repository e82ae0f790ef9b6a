//go:build !linux

package kit

import "testing"

// SmallDisk skips the test: it can mount only on Linux.
func SmallDisk(t *testing.T, _ int) string {
	t.Helper()
	t.Skip("NOT TESTED: a small file system is only mounted on Linux")
	return ""
}

// FillDisk is for a disk of SmallDisk.
func FillDisk(*testing.T, string) (free func()) { return func() {} }

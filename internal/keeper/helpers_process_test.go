//go:build unix

package keeper

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func fcntl(fd, command, value int) (int, error) {
	return unix.FcntlInt(uintptr(fd), command, value)
}

// filesOf returns the open files of a process, each as its number and what it is. Where there is no /proc there are none.
func filesOf(t testing.TB, pid int) []string {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var all []string
	for _, entry := range entries {
		if target, err := os.Readlink(dir + "/" + entry.Name()); err == nil {
			all = append(all, entry.Name()+" "+target)
		}
	}
	return all
}

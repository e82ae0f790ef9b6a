//go:build unix

package keeper

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

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

// busy returns how long the threads of a process have had a processor. Where there is no /proc it is none.
func busy(pid int) time.Duration {
	paths, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	sum := 0
	for _, path := range paths {
		text, _ := os.ReadFile(path)
		first, _, _ := strings.Cut(string(text), " ")
		n, _ := strconv.Atoi(first)
		sum += n
	}
	return time.Duration(sum)
}

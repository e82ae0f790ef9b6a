//go:build unix

package keeper

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
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

// ticks returns how long a process has had a processor, in hundredths of a second. Where there is no /proc it is none.
func ticks(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return user + system
}

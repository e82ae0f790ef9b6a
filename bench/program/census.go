package program

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Seen is a process as the system lists it.
type Seen struct {
	PID, Parent int
	Name        string // the first 15 bytes of its program's name
	Zombie      bool   // it has ended, and its parent has not asked how
}

// Look reads what the system says of a process. It is false for one that is not there, and on systems without /proc.
func Look(pid int) (Seen, bool) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	from, to := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if err != nil || from < 0 || to < from {
		return Seen{}, false
	}
	rest := strings.Fields(string(stat[to+1:]))
	if len(rest) < 2 {
		return Seen{}, false
	}
	parent, err := strconv.Atoi(rest[1])
	return Seen{pid, parent, string(stat[from+1 : to]), rest[0] == "Z"}, err == nil
}

// Named returns the processes whose program has a name, of which only the first 15 bytes count: those that have ended and
// were not waited for, too.
func Named(name string) []Seen {
	return those(func(s Seen) bool { return s.Name == name[:min(len(name), 15)] })
}

// Children returns the processes of which one is the parent.
func Children(of int) []Seen { return those(func(s Seen) bool { return s.Parent == of }) }

// those returns the processes that are wanted.
func those(wanted func(Seen) bool) (all []Seen) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if s, ok := Look(pid); ok && wanted(s) {
				all = append(all, s)
			}
		}
	}
	return all
}

// Files is how many files a process has open, 0 where that cannot be known.
func Files(pid int) int {
	entries, _ := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "fd"))
	return len(entries)
}

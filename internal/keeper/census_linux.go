package keeper

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// procDir is where the system lists processes.
const procDir = "/proc"

// listProcesses returns all processes of the system, by pid. One that ends meanwhile may be missing.
func listProcesses() (map[int]procEntry, error) {
	dir, err := os.Open(procDir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	all := make(map[int]procEntry, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if p, ok := readProcess(pid); ok {
				all[pid] = p
			}
		}
	}
	return all, nil
}

// readProcess reads what the system says of one process.
func readProcess(pid int) (procEntry, bool) {
	text, err := os.ReadFile(procDir + "/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return procEntry{}, false
	}
	return parseStat(pid, text)
}

// parseStat reads a line of /proc/PID/stat. The name of the program, in brackets, may have any characters.
func parseStat(pid int, text []byte) (procEntry, bool) {
	end := bytes.LastIndexByte(text, ')')
	if end < 0 {
		return procEntry{}, false
	}
	// After the name: the state, and from there on the fields 4 and following of proc(5).
	fields := strings.Fields(string(text[end+1:]))
	if len(fields) < 20 {
		return procEntry{}, false
	}
	// A process whose first thread has ended is shown as a zombie, too, and has more than one thread.
	p := procEntry{pid: pid, zombie: (fields[0] == "Z" || fields[0] == "X") && fields[17] < "2" && len(fields[17]) == 1}
	p.parent, _ = strconv.Atoi(fields[1])
	p.group, _ = strconv.Atoi(fields[2])
	p.session, _ = strconv.Atoi(fields[3])
	p.start, _ = strconv.ParseUint(fields[19], 10, 64)
	if len(fields) > 21 {
		p.pages, _ = strconv.ParseInt(fields[21], 10, 64)
	}
	return p, true
}

// markOf returns the mark in the environment of a process, and nothing for one whose environment this user may not read.
func markOf(pid int) string {
	text, err := os.ReadFile(procDir + "/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return ""
	}
	for entry := range bytes.SplitSeq(text, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, []byte(MarkName+"=")); ok {
			return string(value)
		}
	}
	return ""
}

// A badge is a limit that is never reached, another one for each family: a process has it from the one that made it, and can neither drop it nor take another's. It tells where a process comes from that
// has left its parents, its session and its environment.
const (
	badgeLimit = unix.RLIMIT_RTTIME // microseconds of real-time scheduling, of which there are 100,000 years
	firstBadge = 1 << 62
	badgeStep  = 1 << 36
)

// setNewBadge gives this process, and so what it makes next, a badge that nobody has. A limit may always be lowered; by how much is left to chance, since a keeper below this one does the same.
func setNewBadge() (uint64, error) {
	var now unix.Rlimit
	if err := unix.Prlimit(0, badgeLimit, nil, &now); err != nil {
		return 0, err
	}
	next := min(now.Max, firstBadge)
	if next < 2*badgeStep {
		return 0, errors.New("there are no more")
	}
	next -= 1 + rand.Uint64N(badgeStep)
	return next, unix.Prlimit(0, badgeLimit, &unix.Rlimit{Cur: next, Max: next}, nil)
}

// badgeOf returns the badge of a process, or 0 if this one may not know.
func badgeOf(pid int) uint64 {
	var limit unix.Rlimit
	if unix.Prlimit(pid, badgeLimit, nil, &limit) != nil {
		return 0
	}
	return limit.Max
}

// hasBadge reports whether a process has a badge, or may have one: it has ended, or this one may not know.
func hasBadge(pid int) bool { return badgeOf(pid) != unix.RLIM_INFINITY }

// signalProcess sends a signal to one process and to nobody who has got its pid meanwhile.
func signalProcess(p procEntry, signal syscall.Signal) error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err == nil {
		defer func() { _ = unix.Close(fd) }()
	}
	if now, ok := readProcess(p.pid); !ok || now.start != p.start {
		return syscall.ESRCH
	}
	switch {
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
		return syscall.Kill(p.pid, signal) // before Linux 5.3, or where a filter forbids it
	case err != nil:
		return err
	}
	return unix.PidfdSendSignal(fd, signal, nil, 0)
}

// becomeSubreaper makes this process the parent of each descendant whose parent has ended.
func becomeSubreaper() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

//go:build unix

package keeper

import (
	"errors"
	"sync"
	"syscall"
	"time"
)

// errNoCensus says that the system does not list processes.
var errNoCensus = errors.New("this system does not list processes")

// A forest lists the processes of the system, for who looks for the members of families.
type forest struct {
	keeper int // the pid of this process if it is a subreaper, else 0

	// forking is held while a process is made and entered, while ended ones are reaped, and while all are listed: so that nobody is reaped or judged who is not entered yet.
	forking sync.Mutex

	mu     sync.Mutex // held while processes are listed, so that those who wait share a list
	newest *census
}

// A census is the processes of the system at one time.
type census struct {
	begun   time.Time
	all     map[int]procEntry
	origins map[int]origin // of those whose family their parents do not tell
	failure error

	judged bool
	found  map[*family][]procEntry // by attribute
}

// withForkingLock calls do while nobody is reaped or listed.
func (f *forest) withForkingLock(do func()) {
	f.forking.Lock()
	defer f.forking.Unlock()
	do()
}

// takeCensus returns a census that was begun after a time. roots are the processes whose origin nobody needs.
func (f *forest) takeCensus(after time.Time, roots func() map[int]bool) *census {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.newest != nil && f.newest.begun.After(after) {
		return f.newest
	}
	c := &census{begun: time.Now(), origins: map[int]origin{}}
	f.withForkingLock(func() { c.all, c.failure = listProcesses() })
	known := roots()
	for pid, p := range c.all {
		if (f.keeper == 0 || p.parent == f.keeper) && !known[pid] && !p.zombie {
			o := origin{mark: markOf(pid)}
			if f.keeper != 0 {
				o.badge = badgeOf(pid)
			}
			if o != (origin{}) {
				c.origins[pid] = o
			}
		}
	}
	f.newest = c
	return c
}

// judge says whose the processes of a census are. The caller guards the families.
func (f *forest) judge(c *census, families []*family) map[*family][]procEntry {
	if !c.judged {
		c.judged = true
		c.found = attribute(c.all, f.keeper, families, c.origins)
	}
	return c.found
}

// groupLeft reports whether a process group has members, where nothing else is known.
func groupLeft(group int) bool {
	err := syscall.Kill(-group, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

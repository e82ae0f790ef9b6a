// Package procs decides how many goroutines of a process run at a time.
package procs

import (
	"context"
	"os"
	"runtime"
	"time"
)

const (
	// many is the number of processors from which on Go's own setting is kept: one of them is soon free.
	many = 8
	// lookEvery is how often a goroutine wakes to see how long it had to wait for that.
	lookEvery = 20 * time.Millisecond
	// long is a wait that others cause who keep a processor: small requests that come before a new one take less, even if hundreds are under way.
	long = 6 * time.Millisecond
	// longAgain is within how many looks a second wait must be long, so that a single one, as a collection makes, changes nothing,
	longAgain = 8
	// unless it is tooLong.
	tooLong = 20 * time.Millisecond
	// calmFor is how many looks without such waits end the spreading: a minute of them.
	calmFor = 3000
)

// Spread gives Go twice the processors that the machine has, at most 8, while goroutines have to wait for one, until ctx is done. A goroutine keeps
// its processor for up to 10 ms, and Go's run queue is first come, first served; with some more processors the system's scheduler shares the
// machine among them, and lets what has just woken run first. It costs each request a tenth of its processor time where none keeps a processor for long, since
// goroutines are handed from one to the other. Of eight processors and more, and where GOMAXPROCS is set in the environment, it changes
// nothing. It is of the whole process: only a program that has the process for itself should call it.
func Spread(ctx context.Context) {
	n := runtime.GOMAXPROCS(0)
	if os.Getenv("GOMAXPROCS") != "" || n >= many {
		return
	}
	go look(ctx, newSpreader(n), runtime.GOMAXPROCS)
}

// look wakes again and again, and sets the number of processors by how late that is.
func look(ctx context.Context, s *spreader, set func(int) int) {
	t := time.NewTimer(lookEvery)
	defer t.Stop()
	for due := time.Now().Add(lookEvery); ; due = time.Now().Add(lookEvery) {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		if n := s.waited(time.Since(due)); n != 0 {
			set(n)
		}
		t.Reset(lookEvery)
	}
}

// spreader decides from waits how many processors there are.
type spreader struct {
	few    int  // processors of the machine
	spread bool // there are more
	since  int  // looks since the last long wait
	calm   int  // looks since there were last two, or one that was too long
}

func newSpreader(few int) *spreader { return &spreader{few: few, since: longAgain} }

// waited takes how long a wait was, and returns the number of processors if that changes, or 0.
func (s *spreader) waited(wait time.Duration) int {
	s.since++
	s.calm++
	if wait >= long {
		again := s.since <= longAgain
		if s.since = 0; again || wait >= tooLong {
			s.calm = 0
		}
	}
	switch {
	case !s.spread && s.calm == 0:
		s.spread = true
		return min(2*s.few, many)
	case s.spread && s.calm >= calmFor:
		s.spread = false
		return s.few
	}
	return 0
}

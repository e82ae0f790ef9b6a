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
	// lookOften and lookSeldom are how often a goroutine wakes to see how long it had to wait for that, and how often while it has not waited.
	lookOften, lookSeldom = 20 * time.Millisecond, 160 * time.Millisecond
	// short is a wait after which it need not look so often.
	short = time.Millisecond
	// long is a wait that others cause who keep a processor: small requests that come before a new one take less, even if hundreds are under way.
	long = 6 * time.Millisecond
	// longAgain is within which time a second wait must be long, so that a single one, as a collection makes, changes nothing,
	longAgain = 8 * lookOften
	// unless it is tooLong.
	tooLong = 20 * time.Millisecond
	// calmAfter is how long there are more processors after the last such waits.
	calmAfter = time.Minute
)

// Spread gives Go twice the processors that it has by itself, at most 8, while goroutines have to wait for one, until ctx is done. A goroutine keeps
// its processor for up to 10 ms, and Go's run queue is first come, first served; with some more processors the system's scheduler shares the
// machine among them, and lets what has just woken run first. It costs each request a tenth of its processor time where none keeps a processor for long, since
// goroutines are handed from one to the other. Of eight processors and more, and where GOMAXPROCS is set in the environment, it changes
// nothing. It is of the whole process: only a program that has the process for itself should call it.
func Spread(ctx context.Context) {
	if os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) < many {
		go look(ctx, spread, runtime.SetDefaultGOMAXPROCS)
	}
}

// spread doubles the number of processors, which may have changed with the limit of a container.
func spread() {
	if n := runtime.GOMAXPROCS(0); n < many {
		runtime.GOMAXPROCS(min(2*n, many))
	}
}

// look wakes again and again, and calls more and fewer by how late that is.
func look(ctx context.Context, more, fewer func()) {
	s, began := newSpreader(), time.Now()
	t := time.NewTimer(s.every)
	defer t.Stop()
	for due := time.Now().Add(s.every); ; due = time.Now().Add(s.every) {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		was := s.spread
		s.waited(time.Since(began), time.Since(due))
		switch {
		case s.spread && !was:
			more()
		case was && !s.spread:
			fewer()
		}
		t.Reset(s.every)
	}
}

// spreader decides from waits whether there are more processors.
type spreader struct {
	spread  bool          // there are
	every   time.Duration // until the next look
	long    time.Duration // when the last long wait was over
	trouble time.Duration // when the last two, or the last that was too long
}

func newSpreader() *spreader { return &spreader{every: lookOften, long: -longAgain - 1} }

// waited takes how long a wait was that is over now.
func (s *spreader) waited(now, wait time.Duration) {
	if s.every = min(2*s.every, lookSeldom); wait >= short {
		s.every = lookOften
	}
	if wait >= long {
		if now-s.long <= longAgain || wait >= tooLong {
			s.spread, s.trouble = true, now
		}
		s.long = now
	}
	if now-s.trouble >= calmAfter {
		s.spread = false
	}
}

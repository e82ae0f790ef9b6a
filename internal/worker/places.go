package worker

import (
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/internal/limits"
)

const (
	// lastPlaces is the part of the places that only principals with few tasks running get: with less than a few-th of all places.
	lastPlaces = 8
	few        = 64
	// putOff is how much work is looked at again in a second: enough to keep the places busy, and little beside what is new.
	putOff = 2000
)

// places are those of the attempts that run. Work that finds none waits in the process, in a line of its principal, and a place that
// becomes free goes to the principal with the fewest that run, by turns among equals. Work of a principal whose line is long is
// put off: it lies in the store, and comes again.
type places struct {
	most int // places
	room int // for work that waits in the process

	mu      sync.Mutex // guards the fields below
	taken   int
	running map[string]int      // attempts that run, by principal
	lines   map[string][]*given // work that waits, oldest first; none is empty
	turn    []string            // the principals of lines
	held    int                 // in all lines
	second  time.Time           // for which work was put off last
	off     int                 // how much, for that second
}

// newPlaces returns places for running attempts. Where other processes have the same store, less work waits in this one: they may
// have places for it.
func newPlaces(running int, shared bool) *places {
	room := limits.TasksInLine.Value()
	if shared {
		room /= 16
	}
	return &places{most: max(1, running), room: room, running: make(map[string]int), lines: make(map[string][]*given)}
}

// admit gives work a place, or has it wait in the process, or says for how long it is to be put off.
func (l *places) admit(g *given, now time.Time) (runs bool, later time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.lines[g.who]
	switch {
	case g.s.ctx.Err() != nil:
		return false, time.Nanosecond
	case line == nil && l.may(g.who):
		l.enter(g.who)
		return true, 0
	case len(line) >= 2*(l.room-l.held): // alone it has two thirds, and leaves room for one more
		return false, l.later(now)
	case line == nil:
		l.turn = append(l.turn, g.who)
	}
	l.lines[g.who] = append(line, g)
	l.held++
	return false, 0
}

// may reports whether a principal gets one more place. mu is held.
func (l *places) may(who string) bool {
	return l.taken < l.most-l.most/lastPlaces || l.taken < l.most && l.running[who] < max(1, l.most/few)
}

// enter takes a place. mu is held.
func (l *places) enter(who string) {
	l.taken++
	l.running[who]++
}

// take takes a place for what runs already: if anyway is set, also if there is none left. It reports whether it did.
func (l *places) take(who string, anyway bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !anyway && !l.may(who) {
		return false
	}
	l.enter(who)
	return true
}

// later spreads the work that is put off over the seconds to come. All of a second comes at once: the store looks at all that was put
// off each time that some is due. mu is held.
func (l *places) later(now time.Time) time.Duration {
	next := now.Truncate(time.Second).Add(time.Second)
	switch {
	case next.After(l.second):
		l.second, l.off = next, 0
	case l.off == putOff:
		l.second, l.off = l.second.Add(time.Second), 0
	}
	l.off++
	return l.second.Sub(now)
}

// again is for how long work is put off that has a place and cannot use it now.
func (l *places) again(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.later(now)
}

// leave gives a place back, and returns the work that has it now, nil if there is none.
func (l *places) leave(who string) *given {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken--
	if l.running[who]--; l.running[who] == 0 {
		delete(l.running, who)
	}
	best := -1
	for i, other := range l.turn {
		if (best < 0 || l.running[other] < l.running[l.turn[best]]) && l.may(other) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	who = l.turn[best]
	l.turn = slices.Delete(l.turn, best, best+1)
	g := l.lines[who][0]
	l.lines[who][0] = nil
	l.held--
	if l.lines[who] = l.lines[who][1:]; len(l.lines[who]) == 0 {
		delete(l.lines, who)
	} else {
		l.turn = append(l.turn, who)
	}
	l.enter(who)
	return g
}

// release returns the work of a service that waits in the process, which then waits no more.
func (l *places) release(s *serving) (all []*given) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for who, line := range l.lines {
		kept := slices.DeleteFunc(slices.Clone(line), func(g *given) bool { return g.s == s })
		for _, g := range line {
			if g.s == s {
				all = append(all, g)
			}
		}
		if l.lines[who] = kept; len(kept) == 0 {
			delete(l.lines, who)
			l.turn = slices.DeleteFunc(l.turn, func(other string) bool { return other == who })
		}
	}
	l.held -= len(all)
	return all
}

// waiting is the work that waits in the process.
func (l *places) waiting() []*given {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*given, 0, l.held)
	for _, line := range l.lines {
		all = append(all, line...)
	}
	return all
}

// counts is how many run, and how much work waits in the process.
func (l *places) counts() (running, waiting int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.taken, l.held
}

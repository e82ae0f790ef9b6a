package quota

import (
	"slices"
	"sync"
	"time"
)

const (
	// lastPlaces is the part of the places that only clients with little work running get: with
	// less than a fewPlaces-th of all places.
	lastPlaces = 8
	fewPlaces  = 64
	// putOffEach is how much work that was put off comes back in a second: enough to keep the
	// places busy, and little beside what is new.
	putOffEach = 2000
)

// Places gives out places for work that runs. Work that finds no place waits in a line of its
// client. A place that becomes free goes to the client with the least work running, by turns among
// equals. Work of a client whose line is long is put off: it lies elsewhere, and comes back.
// [NewPlaces] makes one; the zero value is not usable. The methods are safe for concurrent use.
type Places[W any] struct {
	most int // places
	room int // for work in the lines

	mu      sync.Mutex // guards the fields below
	taken   int
	running map[string]int // places in use, by client
	lines   map[string][]W // work that waits, oldest first; none is empty
	turn    []string       // the clients that have a line
	waiting int            // the work in all lines
	second  time.Time      // to which work was put off last
	putOff  int            // how much, to that second
}

// NewPlaces returns so many places, at least 1, and lines with room for so much work.
func NewPlaces[W any](most, room int) *Places[W] {
	return &Places[W]{most: max(1, most), room: room, running: make(map[string]int), lines: make(map[string][]W)}
}

// Admit gives work a place (runs is set), or has it wait in the line of its client, or says for how
// long the caller puts it off.
func (p *Places[W]) Admit(client string, work W, now time.Time) (runs bool, later time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	line := p.lines[client]
	switch {
	case line == nil && p.mayTake(client):
		p.takePlace(client)
		return true, 0
	case len(line) >= 2*(p.room-p.waiting): // a client alone has two thirds, and leaves room for one more
		return false, p.nextSecond(now)
	case line == nil:
		p.turn = append(p.turn, client)
	}
	p.lines[client] = append(line, work)
	p.waiting++
	return false, 0
}

// mayTake reports whether a client gets one more place. mu is held.
func (p *Places[W]) mayTake(client string) bool {
	return p.taken < p.most-p.most/lastPlaces || p.taken < p.most && p.running[client] < max(1, p.most/fewPlaces)
}

// takePlace takes a place. mu is held.
func (p *Places[W]) takePlace(client string) {
	p.taken++
	p.running[client]++
}

// TakePlace takes a place for work that runs already, and reports whether it did: where none is left,
// only if anyway is set.
func (p *Places[W]) TakePlace(client string, anyway bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !anyway && !p.mayTake(client) {
		return false
	}
	p.takePlace(client)
	return true
}

// PutOff is for how long work is put off that has a place and cannot use it now.
func (p *Places[W]) PutOff(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.nextSecond(now)
}

// nextSecond spreads the work that is put off over the seconds to come. All of a second comes back
// at once: whoever has it meanwhile looks at all of it each time that some is due. mu is held.
func (p *Places[W]) nextSecond(now time.Time) time.Duration {
	next := now.Truncate(time.Second).Add(time.Second)
	switch {
	case next.After(p.second):
		p.second, p.putOff = next, 0
	case p.putOff == putOffEach:
		p.second, p.putOff = p.second.Add(time.Second), 0
	}
	p.putOff++
	return p.second.Sub(now)
}

// LeavePlace gives a place of a client back, and returns the work that has it from now on, if any waits.
func (p *Places[W]) LeavePlace(client string) (next W, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.running[client]--; p.running[client] == 0 {
		delete(p.running, client)
	}
	best := -1
	for i, other := range p.turn {
		if (best < 0 || p.running[other] < p.running[p.turn[best]]) && p.mayTake(other) {
			best = i
		}
	}
	if best < 0 {
		return next, false
	}
	client = p.turn[best]
	p.turn = slices.Delete(p.turn, best, best+1)
	line := p.lines[client]
	next = line[0]
	clear(line[:1]) // the array below the line stays
	p.waiting--
	if p.lines[client] = line[1:]; len(line) == 1 {
		delete(p.lines, client)
	} else {
		p.turn = append(p.turn, client)
	}
	p.takePlace(client)
	return next, true
}

// TakeOut takes the work out of the lines of which out returns true, and returns it. out must not
// block or use p.
func (p *Places[W]) TakeOut(out func(W) bool) (all []W) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for client, line := range p.lines {
		var kept []W
		for _, work := range line {
			if out(work) {
				all = append(all, work)
			} else {
				kept = append(kept, work)
			}
		}
		if p.lines[client] = kept; len(kept) == 0 {
			delete(p.lines, client)
			p.turn = slices.DeleteFunc(p.turn, func(other string) bool { return other == client })
		}
	}
	p.waiting -= len(all)
	return all
}

// WaitingWork returns the work in the lines.
func (p *Places[W]) WaitingWork() []W {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]W, 0, p.waiting)
	for _, line := range p.lines {
		all = append(all, line...)
	}
	return all
}

// Counts is how much work has a place, and how much waits for one.
func (p *Places[W]) Counts() (running, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken, p.waiting
}

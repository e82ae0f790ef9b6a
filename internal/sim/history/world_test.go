package history

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// world is one history: the only clock, the only source of chance, and everything that happens. It has one goroutine.
type world struct {
	plan     plan
	rnd      *rand.Rand
	now      time.Duration
	serial   uint64
	heap     []event
	hash     uint64 // of all that has happened
	events   int
	store    *store
	nodes    []*node // by place; the newest boot of each
	clients  []*client
	judge    *judge
	troubled bool // faults still happen
	told     bool
	tale     []string
}

// event is something that happens at a time. Of two at one time the one that was planned first comes first.
type event struct {
	at time.Duration
	n  uint64
	do func()
}

func (e event) before(f event) bool { return e.at < f.at || e.at == f.at && e.n < f.n }

// after plans f for d from now.
func (w *world) after(d time.Duration, f func()) {
	w.serial++
	h := append(w.heap, event{w.now + max(d, 0), w.serial, f})
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].before(h[up]) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
	w.heap = h
}

// next has the next event happen. It returns false if there is none until the end.
func (w *world) next(end time.Duration) bool {
	h := w.heap
	if len(h) == 0 || h[0].at > end {
		return false
	}
	e := h[0]
	last := len(h) - 1
	h[0], h[last] = h[last], event{}
	h = h[:last]
	for i := 0; ; {
		least := i
		for k := 2*i + 1; k <= 2*i+2 && k < last; k++ {
			if h[k].before(h[least]) {
				least = k
			}
		}
		if least == i {
			break
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
	w.heap = h
	w.now = e.at
	w.events++
	w.mix(uint64(e.at))
	w.mix(e.n)
	e.do()
	return true
}

// mix adds to the hash of the history.
func (w *world) mix(v uint64) {
	w.hash = (w.hash ^ v) * 0x100000001b3
	w.hash ^= w.hash >> 29
}

// note says what happens, for people.
func (w *world) note(format string, args ...any) {
	if w.told {
		w.tale = append(w.tale, fmt.Sprintf("%10.3fs  ", w.now.Seconds())+fmt.Sprintf(format, args...))
	}
}

// chance is true n times out of 1,000.
func (w *world) chance(n int) bool { return n > 0 && w.rnd.IntN(1000) < n }

// span is a time between from and to.
func (w *world) span(from, to time.Duration) time.Duration {
	if to <= from {
		return from
	}
	return from + time.Duration(w.rnd.Int64N(int64(to-from)))
}

package quota

import (
	"context"
	"slices"
	"sync"
)

// Turns gives out a number of places, by turns to those that wait: each key has a line of its own, and
// a place that becomes free goes to the first of the key whose turn it is. So a key with many in its line waits for
// all others once for each of them, and a key with one waits for each other key once. Make it with
// NewTurns. The methods are safe for concurrent use.
type Turns[K comparable] struct {
	places int

	mu    sync.Mutex // guards the fields below
	taken int
	lines map[K][]chan struct{} // none is empty
	next  []K                   // the keys of lines, in turn
}

// NewTurns returns Turns with a number of places, at least 1.
func NewTurns[K comparable](places int) *Turns[K] {
	return &Turns[K]{places: max(1, places), lines: make(map[K][]chan struct{})}
}

// Take takes a place for k, and waits for it until ctx is done. It reports whether it has
// one; the caller then calls Leave.
func (t *Turns[K]) Take(ctx context.Context, k K) bool {
	t.mu.Lock()
	if t.taken < t.places { // nobody waits
		t.taken++
		t.mu.Unlock()
		return true
	}
	called := make(chan struct{})
	if len(t.lines[k]) == 0 {
		t.next = append(t.next, k)
	}
	t.lines[k] = append(t.lines[k], called)
	t.mu.Unlock()
	select {
	case <-called:
		return true
	case <-ctx.Done():
		return !t.quitLine(k, called)
	}
}

// Leave gives a place back.
func (t *Turns[K]) Leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.passTurn()
}

// passTurn gives a place to whose turn it is, if anybody waits. mu is held.
func (t *Turns[K]) passTurn() {
	if len(t.next) == 0 {
		t.taken--
		return
	}
	k := t.next[0]
	t.next = slices.Delete(t.next, 0, 1)
	close(t.lines[k][0])
	if t.lines[k] = slices.Delete(t.lines[k], 0, 1); len(t.lines[k]) == 0 {
		delete(t.lines, k)
		return
	}
	t.next = append(t.next, k)
}

// Waiting is how many wait for a place.
func (t *Turns[K]) Waiting() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, line := range t.lines {
		n += len(line)
	}
	return n
}

// quitLine takes one that waits out of its line. It reports whether it was still there; otherwise it has
// just got a place.
func (t *Turns[K]) quitLine(k K, called chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.lines[k], called)
	if i < 0 {
		return false
	}
	if t.lines[k] = slices.Delete(t.lines[k], i, i+1); len(t.lines[k]) == 0 {
		delete(t.lines, k)
		t.next = slices.DeleteFunc(t.next, func(other K) bool { return other == k })
	}
	return true
}

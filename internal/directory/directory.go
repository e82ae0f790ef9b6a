// Package directory finds live values in this process by key. Package kernel has it for actors; it is a package of its own
// for those that need no actor system.
package directory

import (
	"hash/maphash"
	"sync"
)

// Shards is the number of parts of a [Directory], each with a lock of its own.
const Shards = 32

// Directory finds the live actor of a key in this process, five times faster than the
// registry of names does, and makes it when there is none. Its values may be of any
// comparable type; usually they are pointers to actors. [New]
// makes one; the zero value is not usable. The methods are safe for concurrent use, and
// hold no lock while an actor is made.
type Directory[K, A comparable] struct {
	seed   maphash.Seed
	shards [Shards]struct {
		mu sync.RWMutex // guards m and making
		m  map[K]A
		// making has the activations under way, for callers that wait for one.
		making map[K]*activation[A]
		_      [24]byte
	}
}

type activation[A any] struct {
	done chan struct{}
	a    A
	err  error
}

// New makes an empty directory.
func New[K, A comparable]() *Directory[K, A] {
	d := &Directory[K, A]{seed: maphash.MakeSeed()}
	for i := range d.shards {
		d.shards[i].m = make(map[K]A)
		d.shards[i].making = make(map[K]*activation[A])
	}
	return d
}

func (d *Directory[K, A]) shard(k K) int {
	return int(maphash.Comparable(d.seed, k) % Shards)
}

// Get returns the actor of k, and false when there is none, or none yet.
func (d *Directory[K, A]) Get(k K) (A, bool) {
	s := &d.shards[d.shard(k)]
	s.mu.RLock()
	a, ok := s.m[k]
	s.mu.RUnlock()
	return a, ok
}

// Current is [Directory.Get], but first waits for an [Directory.Obtain] under way.
func (d *Directory[K, A]) Current(k K) (A, bool) {
	s := &d.shards[d.shard(k)]
	s.mu.RLock()
	a, ok := s.m[k]
	w := s.making[k]
	s.mu.RUnlock()
	if ok || w == nil {
		return a, ok
	}
	<-w.done
	return w.a, w.err == nil
}

// Begins reports whether an [Directory.Obtain] of k is under way.
func (d *Directory[K, A]) Begins(k K) bool {
	s := &d.shards[d.shard(k)]
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.making[k] != nil
}

// Put makes a the actor of k, in place of any other.
func (d *Directory[K, A]) Put(k K, a A) {
	s := &d.shards[d.shard(k)]
	s.mu.Lock()
	s.m[k] = a
	s.mu.Unlock()
}

// Drop removes a if it is the actor of k, and leaves another one in its place.
func (d *Directory[K, A]) Drop(k K, a A) {
	s := &d.shards[d.shard(k)]
	s.mu.Lock()
	if s.m[k] == a {
		delete(s.m, k)
	}
	s.mu.Unlock()
}

// Obtain returns the actor of k, and calls produce to make it when there is none. At
// most one produce runs for a key, on the goroutine of its caller and without a lock;
// other callers wait and get the same actor or error. After an error the key has no
// actor, and the next Obtain tries again.
func (d *Directory[K, A]) Obtain(k K, produce func() (A, error)) (A, error) {
	s := &d.shards[d.shard(k)]
	s.mu.Lock()
	if a, ok := s.m[k]; ok {
		s.mu.Unlock()
		return a, nil
	}
	if w, ok := s.making[k]; ok {
		s.mu.Unlock()
		<-w.done
		return w.a, w.err
	}
	w := &activation[A]{done: make(chan struct{})}
	s.making[k] = w
	s.mu.Unlock()
	w.a, w.err = produce()
	s.mu.Lock()
	delete(s.making, k)
	if w.err == nil {
		s.m[k] = w.a
	}
	s.mu.Unlock()
	close(w.done)
	return w.a, w.err
}

// Sweep removes the actors of a shard, 0 to Shards-1, for which end returns true, and
// returns their number. It holds the shard's lock: end must not block or use the directory.
func (d *Directory[K, A]) Sweep(shard int, end func(A) bool) (gone int) {
	s := &d.shards[shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, a := range s.m {
		if end(a) {
			delete(s.m, k)
			gone++
		}
	}
	return gone
}

// Each calls f for every actor, without a lock. It may miss actors that are added
// meanwhile, and meet actors that are removed.
func (d *Directory[K, A]) Each(f func(A)) {
	var all []A
	for i := range d.shards {
		s := &d.shards[i]
		s.mu.RLock()
		for _, a := range s.m {
			all = append(all, a)
		}
		s.mu.RUnlock()
	}
	for _, a := range all {
		f(a)
	}
}

// Len is the number of actors.
func (d *Directory[K, A]) Len() int {
	n := 0
	for i := range d.shards {
		s := &d.shards[i]
		s.mu.RLock()
		n += len(s.m)
		s.mu.RUnlock()
	}
	return n
}

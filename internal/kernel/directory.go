package kernel

import (
	"hash/maphash"
	"sync"
)

const Shards = 32

// directory finds the live actor of a key on this node.
type Directory[K, A comparable] struct {
	seed   maphash.Seed
	shards [Shards]struct {
		mu sync.RWMutex // guards m and making
		m  map[K]A
		// making holds those that wait for an activation under way.
		making map[K]*activation[A]
		_      [24]byte
	}
}

type activation[A any] struct {
	done chan struct{}
	a    A
	err  error
}

func NewDirectory[K, A comparable]() *Directory[K, A] {
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

func (d *Directory[K, A]) Get(k K) (A, bool) {
	s := &d.shards[d.shard(k)]
	s.mu.RLock()
	a, ok := s.m[k]
	s.mu.RUnlock()
	return a, ok
}

// current is get that waits for an activation under way.
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

func (d *Directory[K, A]) Put(k K, a A) {
	s := &d.shards[d.shard(k)]
	s.mu.Lock()
	s.m[k] = a
	s.mu.Unlock()
}

// drop forgets that k's actor is a; another one in its place stays.
func (d *Directory[K, A]) Drop(k K, a A) {
	s := &d.shards[d.shard(k)]
	s.mu.Lock()
	if s.m[k] == a {
		delete(s.m, k)
	}
	s.mu.Unlock()
}

// obtain returns the actor of k, making it when there is none; one maker runs
// at a time per key, and the others wait for what it makes.
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

// sweep forgets those of one shard that end says have ended, and returns how many
// they were. end must not use the directory.
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

// each calls f for every live actor, on a copy of the directory.
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

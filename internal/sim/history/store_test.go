package history

import (
	"errors"
	"maps"
	"time"

	"github.com/troupe-run/troupe/internal/record"
	"github.com/troupe-run/troupe/internal/stream"
)

// What operations of the store fail with.
var (
	errMissing  = errors.New("not there")
	errConflict = errors.New("another revision")
	errAgain    = errors.New("not done, for now")
	errUnsure   = errors.New("done or not done")
	errFull     = errors.New("full")
)

// passes reports whether a write was not done for now, or has an unknown outcome.
func passes(err error) bool {
	return errors.Is(err, errAgain) || errors.Is(err, errUnsure) || errors.Is(err, errFull)
}

// store is the model of the store, which package sim has for tests with goroutines: the same revisions, guards, lifetimes and ring.
type store struct {
	w       *world
	skew    time.Duration // of its clock
	seq     uint64
	full    bool
	entries map[string]entry
	written uint64 // the revision of the entry that was written last
	streams map[string]*slog
	taken   map[string]bool          // boots whose streams were taken over, as MarkTaken notes it
	absent  map[string]time.Duration // when the entry of a boot was last seen to be gone
}

// entry is a node's.
type entry struct {
	boot    string
	rev     uint64
	expires time.Duration
}

// slog is one stream: its writer record, whether its body is there, and the ring.
type slog struct {
	rec         record.Stream
	rev         uint64
	expires     time.Duration
	bodyExpires time.Duration // 0 is none
	ring        map[uint64]slot
}

type slot struct {
	num     uint64
	data    []byte
	expires time.Duration
}

func newStore(w *world) *store {
	return &store{w: w, skew: 1000 * time.Hour, entries: map[string]entry{}, streams: map[string]*slog{}, taken: map[string]bool{}, absent: map[string]time.Duration{}}
}

func (s *store) clock() time.Duration { return s.w.now + s.skew }

func (s *store) clone() *store {
	c := *s
	c.entries, c.taken = maps.Clone(s.entries), maps.Clone(s.taken)
	c.streams = make(map[string]*slog, len(s.streams))
	for id, l := range s.streams {
		k := *l
		k.ring = maps.Clone(l.ring)
		c.streams[id] = &k
	}
	return &c
}

// entry returns a node's entry, unless it has expired.
func (s *store) entry(name string) (entry, error) {
	e, ok := s.entries[name]
	if ok && s.clock() >= e.expires {
		delete(s.entries, name)
		s.absent[e.boot] = s.w.now
		ok = false
	}
	if !ok {
		return entry{}, errMissing
	}
	return e, nil
}

// enter writes a node's entry over revision rev; 0 is none.
func (s *store) enter(name, boot string, rev uint64) (uint64, error) {
	old, err := s.entry(name)
	switch {
	case s.full:
		return 0, errFull
	case err != nil && rev != 0, err == nil && old.rev != rev:
		return 0, errConflict
	}
	if err == nil && old.boot != boot {
		s.absent[old.boot] = s.w.now
	}
	s.written++
	s.entries[name] = entry{boot, s.written, s.clock() + s.w.plan.Lease}
	return s.written, nil
}

func (s *store) record(id string) (*slog, error) {
	l := s.streams[id]
	if l == nil || l.rev == 0 || s.clock() >= l.expires {
		return nil, errMissing
	}
	return l, nil
}

// open stores the writer record of a stream that has none.
func (s *store) open(id string, rec record.Stream, body bool) (uint64, error) {
	if s.full {
		return 0, errFull
	}
	if _, err := s.record(id); err == nil {
		return 0, errConflict
	}
	l := s.streams[id]
	if l == nil {
		l = &slog{ring: map[uint64]slot{}}
		s.streams[id] = l
	}
	s.seq++
	l.rec, l.rev, l.expires = rec, s.seq, s.clock()+s.w.plan.recordTTL()
	if body {
		l.bodyExpires = l.expires
	}
	return l.rev, nil
}

func (s *store) rewrite(id string, rec record.Stream, rev uint64) (uint64, error) {
	l, err := s.record(id)
	switch {
	case s.full:
		return 0, errFull
	case err != nil || l.rev != rev:
		return 0, errConflict
	}
	s.w.judge.rewritten(id, &l.rec, &rec)
	s.seq++
	l.rec, l.rev, l.expires = rec, s.seq, s.clock()+s.w.plan.recordTTL()
	return l.rev, nil
}

func (s *store) hasBody(l *slog) bool { return s.clock() < l.bodyExpires }

func (s *store) keepBody(id string, rev uint64) error {
	l, err := s.record(id)
	switch {
	case s.full:
		return errFull
	case err != nil || l.rev != rev:
		return errConflict
	case !s.hasBody(l):
		return errMissing
	}
	l.bodyExpires = s.clock() + s.w.plan.recordTTL()
	return nil
}

// append stores an append if the writer record has revision rev.
func (s *store) append(id string, rev, num uint64, data []byte) error {
	l, err := s.record(id)
	switch {
	case s.full:
		return errFull
	case err != nil || l.rev != rev:
		return errConflict
	}
	s.seq++
	l.ring[num%stream.Ring] = slot{num, data, s.clock() + s.w.plan.eventTTL()}
	s.w.judge.stored(id, num, data)
	return nil
}

func (s *store) at(id string, num uint64) slot {
	if l := s.streams[id]; l != nil {
		if e := l.ring[num%stream.Ring]; s.clock() < e.expires {
			return e
		}
	}
	return slot{}
}

// read calls f with the appends from..to that are there.
func (s *store) read(id string, from, to uint64, f func(num uint64, data []byte)) {
	if from = max(from, 1); to >= from && to-from >= stream.Ring {
		from = to - stream.Ring + 1
	}
	for num := from; num <= to; num++ {
		if e := s.at(id, num); e.num == num && len(e.data) > 0 {
			f(num, e.data)
		}
	}
}

// tail returns the number of the last append, searched forward from hint.
func (s *store) tail(id string, hint uint64) uint64 {
	for tail := hint; ; {
		found, alive := s.newest(id, tail, 64)
		if !alive {
			found, _ = s.newest(id, tail, stream.Ring)
		}
		tail = found
		e := s.at(id, tail+1)
		if e.num <= tail {
			return tail
		}
		tail = e.num
	}
}

func (s *store) newest(id string, from, n uint64) (num uint64, alive bool) {
	num = from
	for i := range n {
		if e := s.at(id, from+i); e.num >= max(from, 1) {
			num, alive = max(num, e.num), true
		}
	}
	return num, alive
}

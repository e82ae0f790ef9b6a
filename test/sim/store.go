package sim

import (
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/internal/store"
)

const (
	// RingSize is how many appends of a stream are kept: append n replaces n-RingSize.
	RingSize = 1000

	// markerTTL is how long a tombstone stays.
	markerTTL = 5 * time.Second
	// tailStep is how many appends a search for the tail reads at once.
	tailStep = 64
)

// Store is what processes share, and what survives them. Make one with New. Its operations
// take no time and fail only because of what is stored: processes reach it by a Link.
type Store struct {
	eventTTL time.Duration

	mu sync.Mutex // guards the rest
	clock
	now      state
	full     bool
	observed func(path string, before, after []byte)
}

// state is all that is stored. Its values are replaced, never changed.
type state struct {
	seq     uint64
	records map[string]message
	streams map[string]*log
}

// message is one record. One without data is a tombstone.
type message struct {
	seq     uint64
	data    []byte
	expires time.Time // the zero time is never
}

// log is one stream: its writer record, its body, and the ring.
type log struct {
	open, body message
	ring       map[uint64]slot
}

type slot struct {
	num     uint64
	data    []byte
	expires time.Time
}

// New returns an empty store whose events expire after eventTTL.
func New(eventTTL time.Duration) *Store {
	return &Store{eventTTL: eventTTL, now: state{records: make(map[string]message), streams: make(map[string]*log)}}
}

// Now returns the store's clock.
func (s *Store) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.skewed()
}

// Jump moves the store's clock by d, which may be negative.
func (s *Store) Jump(d time.Duration) {
	s.mu.Lock()
	s.skew += d
	s.mu.Unlock()
}

// Fill makes all writes fail for lack of room, or ends that.
func (s *Store) Fill(full bool) {
	s.mu.Lock()
	s.full = full
	s.mu.Unlock()
}

// Observe has f called with each writer record that is stored, and with the one before it, nil if there was none. f must
// neither use the store nor wait.
func (s *Store) Observe(f func(path string, before, after []byte)) {
	s.mu.Lock()
	s.observed = f
	s.mu.Unlock()
}

// writes stores a writer record.
func (s *Store) writes(path string, l *log, rec []byte, ttl time.Duration) uint64 {
	before := s.alive(l.open).data
	l.open = s.put(rec, ttl)
	if s.observed != nil {
		s.observed(path, before, l.open.data)
	}
	return l.open.seq
}

// Snapshot is the content of a Store at some time.
type Snapshot struct{ of state }

// Snapshot returns the store's content now.
func (s *Store) Snapshot() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Snapshot{s.now.clone()}
}

// Shards is in how many streams of a server the log lies. The records lie in one more.
const Shards = 3

// Apart returns what is left where streams are restored at different instants: those with a bit in older as they are in s, the others as they are
// in later. Bit 0 is that of the records, the others those of the shards of the log. Revisions go on from those of later.
func (s Snapshot) Apart(later Snapshot, older uint8) Snapshot {
	mixed := later.of.clone()
	if older&1 != 0 {
		mixed.records = s.of.records
	}
	isOlder := func(path string, _ *log) bool { return older>>(1+shard(path))&1 != 0 }
	maps.DeleteFunc(mixed.streams, isOlder)
	for path, l := range s.of.streams {
		if isOlder(path, l) {
			mixed.streams[path] = l
		}
	}
	return Snapshot{mixed}
}

// shard is where a stream of the log lies.
func shard(path string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(path))
	return h.Sum32() % Shards
}

// Restore puts the content of snap back, revisions included. The clock stays. Nothing else
// may use the store meanwhile: processes that know of a later revision must be gone.
func (s *Store) Restore(snap Snapshot) {
	s.mu.Lock()
	s.now = snap.of.clone()
	s.mu.Unlock()
}

// fork returns a store with the content and the clock that this one has now.
func (s *Store) fork() *Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Store{eventTTL: s.eventTTL, clock: s.clock, now: s.now.clone()}
}

func (st state) clone() state {
	st.records = maps.Clone(st.records)
	streams := make(map[string]*log, len(st.streams))
	for path, l := range st.streams {
		c := *l
		c.ring = maps.Clone(l.ring)
		streams[path] = &c
	}
	st.streams = streams
	return st
}

// Size returns the number of stored messages that have not expired.
func (s *Store) Size() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.now.records {
		n += count(s.lives(m.expires))
	}
	for _, l := range s.now.streams {
		n += count(l.open.seq != 0 && s.lives(l.open.expires)) + count(l.body.seq != 0 && s.lives(l.body.expires))
		for _, e := range l.ring {
			n += count(s.lives(e.expires))
		}
	}
	return n
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// put returns a message of data.
func (s *Store) put(data []byte, ttl time.Duration) message {
	s.now.seq++
	if data != nil {
		data = slices.Clone(data)
	}
	return message{seq: s.now.seq, data: data, expires: s.after(ttl)}
}

func (s *Store) get(key string) ([]byte, uint64, error) {
	m := s.alive(s.now.records[key])
	if m.data == nil {
		return nil, 0, store.ErrNotFound
	}
	return m.data, m.seq, nil
}

func (s *Store) create(key string, data []byte, ttl time.Duration) (uint64, error) {
	switch {
	case s.full:
		return 0, store.ErrFull
	case s.alive(s.now.records[key]).data != nil:
		return 0, store.ErrConflict
	}
	m := s.put(data, ttl)
	s.now.records[key] = m
	return m.seq, nil
}

func (s *Store) update(key string, data []byte, rev uint64, ttl time.Duration) (uint64, error) {
	switch {
	case s.full:
		return 0, store.ErrFull
	case rev == 0 || s.alive(s.now.records[key]).seq != rev:
		return 0, store.ErrConflict
	}
	m := s.put(data, ttl)
	s.now.records[key] = m
	return m.seq, nil
}

func (s *Store) remove(key string, rev uint64) error {
	switch m := s.alive(s.now.records[key]); {
	case rev != 0 && m.seq != rev:
		return store.ErrConflict
	case m.data != nil:
		s.now.records[key] = s.put(nil, markerTTL)
	}
	return nil
}

// openStream stores the writer record and the body. With half it omits the body.
func (s *Store) openStream(path string, rec, body []byte, ttl time.Duration, half bool) (uint64, error) {
	l := s.now.streams[path]
	switch {
	case s.full:
		return 0, store.ErrFull
	case l != nil && s.alive(l.open).data != nil:
		return 0, store.ErrConflict
	case l == nil:
		l = &log{ring: make(map[uint64]slot)}
		s.now.streams[path] = l
	}
	rev := s.writes(path, l, rec, ttl)
	if body != nil && !half {
		l.body = s.put(body, ttl)
	}
	return rev, nil
}

func (s *Store) writer(path string) ([]byte, uint64, error) {
	if l := s.now.streams[path]; l != nil {
		if m := s.alive(l.open); m.data != nil {
			return m.data, m.seq, nil
		}
	}
	return nil, 0, store.ErrNotFound
}

func (s *Store) body(path string) ([]byte, error) {
	if l := s.now.streams[path]; l != nil {
		if m := s.alive(l.body); m.data != nil {
			return m.data, nil
		}
	}
	return nil, store.ErrNotFound
}

// rewrite rewrites the writer record.
func (s *Store) rewrite(path string, rec []byte, rev uint64, ttl time.Duration) (uint64, error) {
	l := s.now.streams[path]
	switch {
	case s.full:
		return 0, store.ErrFull
	case l == nil || rev == 0 || s.alive(l.open).seq != rev:
		return 0, store.ErrConflict
	}
	return s.writes(path, l, rec, ttl), nil
}

// keepBody stores the body, or renews the stored one.
func (s *Store) keepBody(path string, body []byte, rev uint64, ttl time.Duration) error {
	l := s.now.streams[path]
	if body == nil && l != nil {
		body = s.alive(l.body).data
	}
	switch {
	case body == nil:
		return store.ErrNotFound
	case s.full:
		return store.ErrFull
	case l == nil || rev == 0 || s.alive(l.open).seq != rev:
		return store.ErrFenced
	}
	l.body = s.put(body, ttl)
	return nil
}

func (s *Store) append(path string, rev, num uint64, data []byte) error {
	l := s.now.streams[path]
	switch {
	case s.full:
		return store.ErrFull
	case l == nil || rev == 0 || s.alive(l.open).seq != rev:
		return store.ErrFenced
	}
	s.now.seq++
	l.ring[num%RingSize] = slot{num: num, data: slices.Clone(data), expires: s.after(s.eventTTL)}
	return nil
}

// at returns the append in the slot of num, whichever append that is.
func (s *Store) at(path string, num uint64) (e slot) {
	if l := s.now.streams[path]; l != nil {
		if e = l.ring[num%RingSize]; !s.lives(e.expires) {
			return slot{}
		}
	}
	return e
}

func (s *Store) read(path string, from, to uint64, f func(num uint64, data []byte)) {
	if from = max(from, 1); to >= from && to-from >= RingSize {
		from = to - RingSize + 1
	}
	for num := from; num <= to; num++ {
		if e := s.at(path, num); e.num == num && len(e.data) > 0 {
			f(num, e.data)
		}
	}
}

func (s *Store) tail(path string, hint uint64) uint64 {
	tail := hint
	for {
		found, alive := s.newest(path, tail, tailStep)
		if !alive {
			found, _ = s.newest(path, tail, RingSize)
		}
		tail = found
		e := s.at(path, tail+1)
		if e.num <= tail {
			return tail
		}
		tail = e.num
	}
}

// newest returns the highest append number in the n slots from append from on.
func (s *Store) newest(path string, from, n uint64) (num uint64, alive bool) {
	num = from
	for i := range n {
		if e := s.at(path, from+i); e.num >= max(from, 1) {
			num, alive = max(num, e.num), true
		}
	}
	return num, alive
}

// endStream removes the writer record and then the rest. With half it leaves the rest.
func (s *Store) endStream(path string, half bool) {
	l := s.now.streams[path]
	if l == nil {
		return
	}
	if s.alive(l.open).data != nil {
		l.open = s.put(nil, markerTTL)
	}
	if !half {
		l.body, l.ring = message{}, make(map[uint64]slot)
	}
}

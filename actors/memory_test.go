package actors

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/mcp"
)

// memory is a Store that a test can look into and hold up.
type memory struct {
	mu      sync.Mutex // guards the rest
	rev     uint64
	records map[string]stored // of sessions by key, of writers by stream
	appends map[string]map[uint64][]byte
	bodies  map[string][]byte

	reads atomic.Int64 // appends that were read
	skew  atomic.Int64 // of the clock, nanoseconds

	used, limit [store.Budgets]atomic.Int64

	// before runs ahead of each operation, without the lock; after runs when the
	// operation is done and not yet reported. An error of either becomes the result of
	// the operation.
	before, after func(op, key string) error
}

type stored struct {
	data []byte
	rev  uint64
}

var _ store.Store = (*memory)(nil)

func newMemory() *memory {
	return &memory{records: make(map[string]stored), appends: make(map[string]map[uint64][]byte), bodies: make(map[string][]byte)}
}

// do runs one operation.
func (m *memory) do(op, key string, f func() error) error {
	if m.before != nil {
		if err := m.before(op, key); err != nil {
			return err
		}
	}
	m.mu.Lock()
	err := f()
	m.mu.Unlock()
	if err == nil && m.after != nil {
		err = m.after(op, key)
	}
	return err
}

func (m *memory) read(op, key string) (s stored, err error) {
	err = m.do(op, key, func() error {
		var ok bool
		if s, ok = m.records[key]; !ok {
			return store.ErrNotFound
		}
		return nil
	})
	return s, err
}

// write stores data if the revision there is rev, 0 for none.
func (m *memory) write(op, key string, data []byte, rev uint64) (next uint64, err error) {
	err = m.do(op, key, func() error {
		if m.records[key].rev != rev {
			return store.ErrConflict
		}
		m.rev++
		next = m.rev
		m.records[key] = stored{slices.Clone(data), next}
		return nil
	})
	return next, err
}

func (m *memory) Peek(_ context.Context, key string) ([]byte, uint64, error) {
	s, err := m.read("Peek", key)
	return s.data, s.rev, err
}

func (m *memory) Get(_ context.Context, key string) ([]byte, uint64, error) {
	s, err := m.read("Get", key)
	return s.data, s.rev, err
}

func (m *memory) Create(_ context.Context, key string, data []byte, _ time.Duration) (uint64, error) {
	return m.write("Create", key, data, 0)
}

func (m *memory) Update(_ context.Context, key string, data []byte, rev uint64, _ time.Duration) (uint64, error) {
	return m.write("Update", key, data, rev)
}

func (m *memory) Delete(_ context.Context, key string, rev uint64) error {
	return m.do("Delete", key, func() error {
		if rev != 0 && m.records[key].rev != rev {
			return store.ErrConflict
		}
		delete(m.records, key)
		return nil
	})
}

func (m *memory) OpenStream(_ context.Context, path string, rec, body []byte, _ time.Duration) (uint64, error) {
	rev, err := m.write("OpenStream", path, rec, 0)
	if err == nil && body != nil {
		m.mu.Lock()
		m.bodies[path] = slices.Clone(body)
		m.mu.Unlock()
	}
	return rev, err
}

func (m *memory) Writer(_ context.Context, path string) ([]byte, uint64, error) {
	s, err := m.read("Writer", path)
	return s.data, s.rev, err
}

func (m *memory) Holds(_ context.Context, path string, rev uint64) error {
	s, err := m.read("Holds", path)
	if errors.Is(err, store.ErrNotFound) || err == nil && s.rev != rev {
		return store.ErrFenced
	}
	return err
}

func (m *memory) Body(_ context.Context, path string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if body, ok := m.bodies[path]; ok {
		return slices.Clone(body), nil
	}
	return nil, store.ErrNotFound
}

func (m *memory) KeepBody(_ context.Context, path string, body []byte, rev uint64, _ time.Duration) error {
	return m.do("KeepBody", path, func() error {
		switch {
		case m.records[path].rev != rev:
			return store.ErrFenced
		case body != nil:
			m.bodies[path] = slices.Clone(body)
		case m.bodies[path] == nil:
			return store.ErrNotFound
		}
		return nil
	})
}

func (m *memory) Now() time.Time { return time.Now().Add(time.Duration(m.skew.Load())).Round(0) }

func (m *memory) Rewrite(_ context.Context, path string, rec []byte, rev uint64, _ time.Duration) (uint64, error) {
	return m.write("Rewrite", path, rec, rev)
}

func (m *memory) Append(path string, rev, num uint64, data []byte, done func(error)) {
	data = slices.Clone(data)
	go func() {
		done(m.do("Append", path, func() error {
			if m.records[path].rev != rev {
				return store.ErrFenced
			}
			if m.appends[path] == nil {
				m.appends[path] = make(map[uint64][]byte)
			}
			m.appends[path][num] = data
			delete(m.appends[path], num-stream.Ring) // the log has the same place for these
			delete(m.appends[path], num+stream.Ring)
			return nil
		}))
	}()
}

func (m *memory) Read(_ context.Context, path string, from, to uint64, f func(uint64, []byte)) error {
	return m.do("Read", path, func() error {
		for num := from; num <= to; num++ {
			if data, ok := m.appends[path][num]; ok {
				m.reads.Add(1)
				f(num, data)
			}
		}
		return nil
	})
}

func (m *memory) Tail(_ context.Context, path string, hint uint64) (tail uint64, err error) {
	err = m.do("Tail", path, func() error {
		tail = hint
		for num := range m.appends[path] { // appends in between may have expired
			tail = max(tail, num)
		}
		return nil
	})
	return tail, err
}

func (m *memory) EndStream(_ context.Context, path string) error {
	return m.do("EndStream", path, func() error {
		delete(m.records, path)
		delete(m.appends, path)
		return nil
	})
}

func (m *memory) Use(b store.Budget) (used, limit int64) { return m.used[b].Load(), m.limit[b].Load() }

func (m *memory) MarkTaken(_ context.Context, boot string, _ time.Duration) error {
	return m.do("MarkTaken", boot, func() error { return nil })
}

func (m *memory) Taken(context.Context) (bool, error) { return false, nil }
func (m *memory) Lapsed() bool                        { return false }
func (m *memory) Suspended() bool                     { return false }

// plainHandler serves nothing and has no catalogue.
type plainHandler struct{ Handler }

func (plainHandler) Opened(*Peer, bool)                                                   {}
func (plainHandler) Safe(_, _ []byte) bool                                                { return false }
func (plainHandler) Observe(*Peer, Origin, *codec.Message) func(mcp.Revision, *mcp.Error) { return nil }

// noConn is a connection that drops everything.
type noConn struct{}

var _ Conn = noConn{}

func (noConn) SetSession(string)          {}
func (noConn) Answer(int, []byte) bool    { return false }
func (noConn) Accepted()                  {}
func (noConn) Reject(*refusal.Refusal)    {}
func (noConn) Open() bool                 { return false }
func (noConn) Event(string, int, []byte)  {}
func (noConn) Comment()                   {}
func (noConn) Flush()                     {}
func (noConn) Finish()                    {}
func (noConn) Cut()                       {}
func (noConn) Room(context.Context) error { return errGone }
func (noConn) Gone(func())                {}

// heard is the connection of a GET, and keeps what comes over it.
type heard struct {
	noConn
	mu     sync.Mutex // guards the rest
	status int        // 0 before the answer has begun
	ended  bool
	events []string // without priming events
	gone   []func()
}

var _ Conn = (*heard)(nil)

func (h *heard) Reject(no *refusal.Refusal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status, h.ended = no.Status, true
}

func (h *heard) Answer(status int, _ []byte) bool {
	h.Reject(refusal.New(status, 0, ""))
	return true
}

func (h *heard) Accepted() { h.Answer(202, nil) }

func (h *heard) Open() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status = 200
	return true
}

func (h *heard) Event(_ string, _ int, data []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(data) > 0 {
		h.events = append(h.events, string(data))
	}
}

func (h *heard) Room(context.Context) error { return nil }
func (h *heard) Finish()                    { h.skipResponse() }
func (h *heard) Cut()                       { h.skipResponse() }

func (h *heard) skipResponse() {
	h.mu.Lock()
	h.ended = true
	gone := h.gone
	h.gone = nil
	h.mu.Unlock()
	for _, f := range gone {
		go f()
	}
}

func (h *heard) Gone(f func()) {
	h.mu.Lock()
	ended := h.ended
	if !ended {
		h.gone = append(h.gone, f)
	}
	h.mu.Unlock()
	if ended {
		go f()
	}
}

// now returns the state of the connection so far.
func (h *heard) now() (status int, live bool, events []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.status, h.status == 200 && !h.ended, slices.Clone(h.events)
}

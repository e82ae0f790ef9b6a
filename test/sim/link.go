package sim

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	leases "github.com/troupe-run/troupe/internal/lease"
	"github.com/troupe-run/troupe/internal/store"
)

// answerWait is how long an append waits for its acknowledgement.
const answerWait = 5 * time.Second

// Fate is what happens to one operation. The zero value does it at once.
type Fate struct {
	There, Back time.Duration // how long it travels, each way
	Again       bool          // it is refused with ErrRetry, and not done
	Lost        bool          // it is done, and its acknowledgement is lost: ErrUnavailable
	Stray       bool          // if the caller gives it up on its way there, it is done nevertheless
	Half        bool          // and then only the first of several messages is stored
	Hang        bool          // while the link is down it hangs until it is given up, instead of failing at once
}

// Link is a process's connection to a store. Make one with NewLink. Its methods return the
// errors of this package.
type Link struct {
	process
	fate  func(op string) Fate
	ahead atomic.Int64 // of the store's clock, in nanoseconds
}

// NewLink returns a link that is up. It calls fate once for each operation. lease is how
// long the link may be down before Suspended returns true.
func NewLink(s *Store, lease time.Duration, fate func(op string) Fate) *Link {
	now := time.Now()
	return &Link{fate: fate, process: process{
		store: s, lease: lease, since: now, steady: now.Add(lease + leases.Reconnect), changed: make(chan struct{}),
	}}
}

// Gone reports whether the other process is dead: another boot has its node's name, or it has given
// its entry back, or the store has no entry of it and this one has held its own for a while. This
// one has renewed its own after that was seen. If it cannot tell, the error is ErrUnavailable.
func (l *Link) Gone(ctx context.Context, other *Link) (gone bool, err error) {
	certain := false
	err = l.do(ctx, "Gone", func(bool) error { gone, certain = !other.entered(), other.over(); return nil })
	if err == nil && gone {
		err = l.do(ctx, "Renew", func(bool) error { return nil })
	}
	if err != nil || gone && (!l.entered() || !certain && !l.knows()) {
		return false, store.ErrUnavailable
	}
	return gone, nil
}

// do carries out one operation. f runs while the store is locked; half tells it to store
// only the first of its messages.
func (l *Link) do(ctx context.Context, op string, f func(half bool) error) error {
	return l.carry(ctx, op, l.store, f)
}

// read carries out an operation that only reads, which finds what an old leader has while the
// process is behind.
func (l *Link) read(ctx context.Context, op string, f func(s *Store) error) error {
	s := l.source()
	return l.carry(ctx, op, s, func(bool) error { return f(s) })
}

func (l *Link) carry(ctx context.Context, op string, s *Store, f func(half bool) error) error {
	fate := l.fate(op)
	if !l.runs(ctx) {
		return store.ErrUnavailable
	}
	p, changed := l.now()
	switch {
	case p == dead:
		return store.ErrUnavailable
	case p == down, p == behind && s == l.store:
		return l.outage(ctx, fate)
	}
	if !pass(ctx, fate.There, changed) {
		if fate.Stray {
			_ = apply(s, fate.Half, f)
		}
		return l.outage(ctx, fate)
	}
	if fate.Again {
		return store.ErrRetry
	}
	err := apply(s, false, f)
	if !pass(ctx, fate.Back, changed) {
		return l.outage(ctx, fate)
	}
	if !l.runs(ctx) || fate.Lost {
		return store.ErrUnavailable
	}
	return err
}

func apply(s *Store, half bool, f func(half bool) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return f(half)
}

// outage returns the error of an operation that gets no answer.
func (l *Link) outage(ctx context.Context, fate Fate) error {
	p, changed := l.now()
	for (p == down || p == behind) && fate.Hang {
		select {
		case <-ctx.Done():
			return store.ErrUnavailable
		case <-changed:
			p, changed = l.now()
		}
	}
	if p == down || p == behind { // a connection is refused soon, not at once
		pass(ctx, fate.There, changed)
	}
	return store.ErrUnavailable
}

// pass waits for d. It returns false if ctx ends or the link changes first.
func pass(ctx context.Context, d time.Duration, changed <-chan struct{}) bool {
	if d <= 0 {
		select {
		case <-changed:
			return false
		default:
			return ctx.Err() == nil
		}
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-changed:
	case <-ctx.Done():
	}
	return false
}

// Get reads a record. ErrNotFound is certain.
func (l *Link) Get(ctx context.Context, key string) (data []byte, rev uint64, err error) {
	return l.find(ctx, "Get", func(s *Store) ([]byte, uint64, error) { return s.get(key) })
}

// Peek reads a record. It may be there although it was not found.
func (l *Link) Peek(ctx context.Context, key string) (data []byte, rev uint64, err error) {
	return l.look(ctx, "Peek", func(s *Store) ([]byte, uint64, error) { return s.get(key) })
}

// find is look, which concludes from a write that there is nothing.
func (l *Link) find(ctx context.Context, op string, f func(s *Store) ([]byte, uint64, error)) (data []byte, rev uint64, err error) {
	if data, rev, err = l.look(ctx, op, f); !errors.Is(err, store.ErrNotFound) {
		return data, rev, err
	}
	failed := l.do(ctx, "Conclude", func(bool) error {
		data, rev, err = f(l.store)
		return err
	})
	if failed != nil {
		return nil, 0, failed
	}
	return data, rev, nil
}

func (l *Link) look(ctx context.Context, op string, f func(s *Store) ([]byte, uint64, error)) (data []byte, rev uint64, err error) {
	failed := l.read(ctx, op, func(s *Store) error {
		data, rev, err = f(s)
		return err
	})
	if failed != nil {
		return nil, 0, failed
	}
	return data, rev, nil
}

// write carries out an operation that returns a revision.
func (l *Link) write(ctx context.Context, op string, f func(half bool) (uint64, error)) (uint64, error) {
	var rev uint64
	err := l.do(ctx, op, func(half bool) (err error) {
		rev, err = f(half)
		return err
	})
	if err != nil {
		return 0, err
	}
	return rev, nil
}

// Create stores a record that must not exist.
func (l *Link) Create(ctx context.Context, key string, data []byte, ttl time.Duration) (uint64, error) {
	return l.write(ctx, "Create", func(bool) (uint64, error) { return l.store.create(key, data, ttl) })
}

// Update replaces a record that has revision rev.
func (l *Link) Update(ctx context.Context, key string, data []byte, rev uint64, ttl time.Duration) (uint64, error) {
	return l.write(ctx, "Update", func(bool) (uint64, error) { return l.store.update(key, data, rev, ttl) })
}

// Delete removes a record that has revision rev, or any if that is 0.
func (l *Link) Delete(ctx context.Context, key string, rev uint64) error {
	return l.do(ctx, "Delete", func(bool) error { return l.store.remove(key, rev) })
}

// OpenStream stores the writer record of a new stream, and its body.
func (l *Link) OpenStream(ctx context.Context, path string, rec, body []byte, ttl time.Duration) (uint64, error) {
	return l.write(ctx, "OpenStream", func(half bool) (uint64, error) { return l.store.openStream(path, rec, body, ttl, half) })
}

// Writer reads the writer record of a stream. ErrNotFound is certain.
func (l *Link) Writer(ctx context.Context, path string) (rec []byte, rev uint64, err error) {
	return l.find(ctx, "Writer", func(s *Store) ([]byte, uint64, error) { return s.writer(path) })
}

// Holds fails unless the writer record has revision rev.
func (l *Link) Holds(ctx context.Context, path string, rev uint64) error {
	return l.do(ctx, "Holds", func(bool) error {
		if _, now, _ := l.store.writer(path); now != rev {
			return store.ErrFenced
		}
		return nil
	})
}

// Body reads the body of a stream.
func (l *Link) Body(ctx context.Context, path string) (body []byte, err error) {
	failed := l.read(ctx, "Body", func(s *Store) error {
		body, err = s.body(path)
		return err
	})
	if failed != nil {
		return nil, failed
	}
	return body, nil
}

// Rewrite rewrites the writer record if it has revision rev.
func (l *Link) Rewrite(ctx context.Context, path string, rec []byte, rev uint64, ttl time.Duration) (uint64, error) {
	return l.write(ctx, "Rewrite", func(bool) (uint64, error) { return l.store.rewrite(path, rec, rev, ttl) })
}

// KeepBody stores the body, or renews the stored one if body is nil, if the writer record
// has revision rev.
func (l *Link) KeepBody(ctx context.Context, path string, body []byte, rev uint64, ttl time.Duration) error {
	return l.do(ctx, "KeepBody", func(bool) error { return l.store.keepBody(path, body, rev, ttl) })
}

// Now returns the store's clock as far as the process knows it, also while the link is down.
func (l *Link) Now() time.Time { return l.store.Now().Round(0).Add(time.Duration(l.ahead.Load())) }

// Ahead has the process believe that the store's clock is d later than it is.
func (l *Link) Ahead(d time.Duration) { l.ahead.Store(int64(d)) }

// Append stores append num under the writer record's revision rev, and calls done
// once, from another goroutine.
func (l *Link) Append(path string, rev, num uint64, data []byte, done func(error)) {
	data = append([]byte(nil), data...)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), answerWait)
		defer cancel()
		err := l.do(ctx, "Append", func(bool) error { return l.store.append(path, rev, num, data) })
		if p, _ := l.now(); p == dead {
			err = store.ErrFenced
		}
		done(err)
	}()
}

// Read calls f with the appends from..to that are stored.
func (l *Link) Read(ctx context.Context, path string, from, to uint64, f func(num uint64, data []byte)) error {
	var all []slot
	err := l.read(ctx, "Read", func(s *Store) error {
		s.read(path, from, to, func(num uint64, data []byte) { all = append(all, slot{num: num, data: data}) })
		return nil
	})
	if err != nil {
		return err
	}
	for _, e := range all {
		f(e.num, append([]byte(nil), e.data...))
	}
	return nil
}

// Tail returns the number of the last append, searched forward from hint.
func (l *Link) Tail(ctx context.Context, path string, hint uint64) (tail uint64, err error) {
	err = l.read(ctx, "Tail", func(s *Store) error {
		tail = s.tail(path, hint)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return tail, nil
}

// EndStream removes a stream.
func (l *Link) EndStream(ctx context.Context, path string) error {
	return l.do(ctx, "EndStream", func(half bool) error {
		l.store.endStream(path, half)
		return nil
	})
}

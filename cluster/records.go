package cluster

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/troupe-run/troupe/internal/store"
)

// Records keeps small values under keys: see store.Records.
type Records struct {
	*messages
	*usage
}

// Get reads a record and its revision from the stream's leader.
//
// ErrNotFound is certain, which costs a write on replicated servers; ErrUnavailable
// says nothing about the record; ErrNewer and ErrDamaged say that it is there and
// cannot be read. What is found may be older than the last write, by as long as a
// leader that was replaced takes to notice that (20 s).
func (n *Records) Get(ctx context.Context, key string) (data []byte, rev uint64, err error) {
	return n.getBy(ctx, key, n.findRecord)
}

// Peek is Get for a key that may be made up, on which no write is spent: a record that was
// created just now may be ErrNotFound on replicated servers.
func (n *Records) Peek(ctx context.Context, key string) (data []byte, rev uint64, err error) {
	return n.getBy(ctx, key, n.getRecord)
}

func (n *Records) getBy(ctx context.Context, key string, get func(ctx context.Context, stream, subject string) ([]byte, uint64, error)) (data []byte, rev uint64, err error) {
	stream, err := n.streamOfKey(key)
	if err != nil {
		return nil, 0, fmt.Errorf("cluster: get: %w", err)
	}
	data, rev, err = get(ctx, stream, n.subjectOf(key))
	if err != nil {
		return nil, 0, fmt.Errorf("cluster: get %s: %w", key, err)
	}
	if f := n.recordFill(key); f != nil {
		f.sizes.note(rev, len(data))
	}
	return data, rev, nil
}

// Create stores a record that must not exist yet and returns its revision. The
// record expires after ttl, rounded up to seconds; with 0 it never does.
// ErrConflict: it exists.
func (n *Records) Create(ctx context.Context, key string, data []byte, ttl time.Duration) (rev uint64, err error) {
	stream, err := n.streamOfKey(key)
	if err == nil {
		rev, err = n.createRecord(ctx, stream, n.subjectOf(key), data, ttl)
	}
	if err != nil {
		return 0, fmt.Errorf("cluster: create %s: %w", key, err)
	}
	n.countRecord(key, len(data), rev, 0)
	return rev, nil
}

// Update replaces a record that has revision rev and gives it a new lifetime.
// ErrConflict: it has another revision or is gone.
func (n *Records) Update(ctx context.Context, key string, data []byte, rev uint64, ttl time.Duration) (uint64, error) {
	_, err := n.streamOfKey(key)
	var next uint64
	switch {
	case err != nil:
	case len(data) > MaxRecord:
		err = store.ErrTooBig
	case rev == 0:
		err = fmt.Errorf("%w: no revision given", store.ErrConflict)
	default:
		next, err = n.putMessage(ctx, n.subjectOf(key), encodeRecord(data), ttl, guard{seq: rev})
	}
	if err != nil {
		return 0, fmt.Errorf("cluster: update %s: %w", key, err)
	}
	n.countRecord(key, len(data), next, rev)
	return next, nil
}

// Delete removes a record that has revision rev, or any revision if rev is 0.
// With 0 a missing record is no error. The tombstone that Delete leaves for
// watchers expires within seconds.
func (n *Records) Delete(ctx context.Context, key string, rev uint64) error {
	stream, err := n.streamOfKey(key)
	if err == nil {
		err = n.removeRecord(ctx, stream, n.subjectOf(key), rev)
	}
	if err != nil {
		return fmt.Errorf("cluster: delete %s: %w", key, err)
	}
	return nil
}

// StoredSession is a session's record as a list has it.
type StoredSession struct {
	Tenant, Server, ID string // the tokens of its key
	Rev                uint64
	Data               []byte
}

// Sessions returns at most limit sessions whose records have a revision of at least from, in the order of their revisions, as
// AllTasks does for tasks. It is for operators: each session costs a question to the store.
func (n *Records) Sessions(ctx context.Context, from uint64, limit int) (found []StoredSession, err error) {
	err = n.walkRecords(ctx, "sessions", n.subjectOf("session.*.*.*"), from, limit, func(subject string, rev uint64, data []byte) {
		t := n.tokensOf(subject)
		found = append(found, StoredSession{t[1], t[2], t[3], rev, data})
	})
	if err != nil {
		return nil, fmt.Errorf("cluster: list sessions: %w", err)
	}
	return found, nil
}

// SessionsOf returns the sessions of a tenant, each of which costs a question to the store.
func (n *Records) SessionsOf(ctx context.Context, tenant string) (found []StoredSession, err error) {
	if !validTokens(tenant, 1) {
		return nil, fmt.Errorf("cluster: list sessions: %w: sessions of %q", store.ErrBadKey, tenant)
	}
	err = n.walkRecords(ctx, "sessions", n.subjectOf("session."+tenant+".*.*"), 0, math.MaxInt, func(subject string, rev uint64, data []byte) {
		t := n.tokensOf(subject)
		found = append(found, StoredSession{t[1], t[2], t[3], rev, data})
	})
	if err != nil {
		return nil, fmt.Errorf("cluster: list sessions: %w", err)
	}
	return found, nil
}

// FindSession reads the record of the session whose id is the wanted one. It goes through the keys of all sessions, and is for
// operators. ErrNotFound: there is none.
func (n *Records) FindSession(ctx context.Context, wanted func(id string) bool) (StoredSession, error) {
	found, err := n.findSession(ctx, wanted)
	if err != nil {
		return found, fmt.Errorf("cluster: find session: %w", err)
	}
	return found, nil
}

func (n *Records) findSession(ctx context.Context, wanted func(id string) bool) (found StoredSession, err error) {
	if n.leaving.Load() {
		return found, store.ErrClosed
	}
	for offset := 0; ; {
		subjects, total, err := n.subjectsFrom(ctx, "sessions", "session.*.*.*", offset)
		if err != nil {
			return found, err
		}
		for subject := range subjects {
			t := n.tokensOf(subject)
			if !wanted(t[3]) {
				continue
			}
			data, rev, err := n.getRecord(ctx, n.streamName("sessions"), subject)
			if errors.Is(err, store.ErrNotFound) {
				continue // It ended just now.
			}
			return StoredSession{t[1], t[2], t[3], rev, data}, err
		}
		if offset += len(subjects); len(subjects) == 0 || offset >= total {
			return found, store.ErrNotFound
		}
	}
}

// EachAPIKey calls f for each record under keys.api. It is for operators: each costs a question to the store.
func (n *Records) EachAPIKey(ctx context.Context, f func(data []byte, rev uint64)) error {
	if err := n.walkRecords(ctx, "keys", n.subjectOf(apiKeys+"*"), 0, math.MaxInt, func(_ string, rev uint64, data []byte) { f(data, rev) }); err != nil {
		return fmt.Errorf("cluster: list API keys: %w", err)
	}
	return nil
}

// Revocations calls f for each record under keys.revoked that has a revision of at least from, in the order of their revisions, and without data for one that was deleted in
// the last seconds. Each costs a question to the store, and one more says that there are no others.
func (n *Records) Revocations(ctx context.Context, from uint64, f func(id string, rev uint64, data []byte)) error {
	var err error
	if n.leaving.Load() {
		err = store.ErrClosed
	}
	for err == nil {
		var s stored
		var subject string
		if s, subject, err = n.nextMessage(ctx, n.streamName("keys"), n.subjectOf(revoked+"*"), from); err != nil {
			break
		}
		from = s.seq + 1
		data, bad := decodeRecord(s.data)
		if bad == nil || errors.Is(bad, store.ErrNotFound) {
			f(n.tokensOf(subject)[2], s.seq, data)
		}
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("cluster: list revocations: %w", err)
	}
	return nil
}

// RevocationRoom reports whether another record under keys.revoked may be made: API keys leave it as much again as what stays free for the key ring.
func (n *Records) RevocationRoom(ctx context.Context) (bool, error) {
	s, err := n.fillOfKind(ctx, "keys")
	if err != nil {
		return false, fmt.Errorf("cluster: room for revocations: %w", err)
	}
	return s.MaxBytes == 0 || s.Bytes < s.MaxBytes/4*3, nil
}

// APIKeyRoom reports whether another record under keys.api may be made: half of what the key ring has for itself stays free.
func (n *Records) APIKeyRoom(ctx context.Context) (bool, error) {
	s, err := n.fillOfKind(ctx, "keys")
	if err != nil {
		return false, fmt.Errorf("cluster: room for API keys: %w", err)
	}
	return s.MaxBytes == 0 || s.Bytes < s.MaxBytes/2, nil
}

// streamOfKey returns the stream that a record's key belongs to.
func (n *Records) streamOfKey(key string) (stream string, err error) {
	if n.leaving.Load() {
		return "", store.ErrClosed
	}
	head, _, _ := strings.Cut(key, ".")
	for i := range n.kinds {
		k := &n.kinds[i]
		if k.subject == head && k.wholeName() != events && !k.queue && k.holdsKey(key) {
			return n.streamName(k.name), nil
		}
	}
	return "", fmt.Errorf("%w: %q", store.ErrBadKey, key)
}

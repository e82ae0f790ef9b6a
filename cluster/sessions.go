package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"

	"github.com/troupe-run/troupe/internal/store"
)

// StoredSession is a session's record as a list has it.
type StoredSession struct {
	Tenant, Server, ID string // the tokens of its key
	Rev                uint64
	Data               []byte
}

// StoredStream is the writer record of a stream, with the last token of its key.
type StoredStream struct {
	ID   string
	Data []byte
}

// Sessions returns at most limit sessions whose records have a revision of at least from, in the order of their revisions, as
// AllTasks does for tasks. It is for operators: each session costs a question to the store.
func (n *Node) Sessions(ctx context.Context, from uint64, limit int) (found []StoredSession, err error) {
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
func (n *Node) SessionsOf(ctx context.Context, tenant string) (found []StoredSession, err error) {
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
func (n *Node) FindSession(ctx context.Context, wanted func(id string) bool) (StoredSession, error) {
	found, err := n.findSession(ctx, wanted)
	if err != nil {
		return found, fmt.Errorf("cluster: find session: %w", err)
	}
	return found, nil
}

func (n *Node) findSession(ctx context.Context, wanted func(id string) bool) (found StoredSession, err error) {
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
func (n *Node) EachAPIKey(ctx context.Context, f func(data []byte, rev uint64)) error {
	if err := n.walkRecords(ctx, "keys", n.subjectOf(apiKeys+"*"), 0, math.MaxInt, func(_ string, rev uint64, data []byte) { f(data, rev) }); err != nil {
		return fmt.Errorf("cluster: list API keys: %w", err)
	}
	return nil
}

// Revocations calls f for each record under keys.revoked that has a revision of at least from, in the order of their revisions, and without data for one that was deleted in
// the last seconds. Each costs a question to the store, and one more says that there are no others.
func (n *Node) Revocations(ctx context.Context, from uint64, f func(id string, rev uint64, data []byte)) error {
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
func (n *Node) RevocationRoom(ctx context.Context) (bool, error) {
	s, err := n.fillOfKind(ctx, "keys")
	if err != nil {
		return false, fmt.Errorf("cluster: room for revocations: %w", err)
	}
	return s.MaxBytes == 0 || s.Bytes < s.MaxBytes/4*3, nil
}

// APIKeyRoom reports whether another record under keys.api may be made: half of what the key ring has for itself stays free.
func (n *Node) APIKeyRoom(ctx context.Context) (bool, error) {
	s, err := n.fillOfKind(ctx, "keys")
	if err != nil {
		return false, fmt.Errorf("cluster: room for API keys: %w", err)
	}
	return s.MaxBytes == 0 || s.Bytes < s.MaxBytes/2, nil
}

// subjectsFrom lists a page of the subjects of a stream that match filter, and says how many there are.
func (n *Node) subjectsFrom(ctx context.Context, stream, filter string, offset int) (subjects map[string]uint64, total int, err error) {
	var info struct {
		Total int `json:"total"`
		State struct {
			Subjects map[string]uint64 `json:"subjects"`
		} `json:"state"`
	}
	err = n.askAPI(ctx, "STREAM.INFO."+n.streamName(stream), map[string]any{"subjects_filter": n.subjectOf(filter), "offset": offset}, &info)
	return info.State.Subjects, info.Total, err
}

// Streams reads the writer records of a session's streams, at most limit, and returns how many there are. It is for operators.
func (n *Node) Streams(ctx context.Context, session string, limit int) (found []StoredStream, all int, err error) {
	if n.leaving.Load() {
		err = store.ErrClosed
	} else if !validTokens(session, 3) {
		err = fmt.Errorf("%w: session %q", store.ErrBadKey, session)
	}
	subjects := make(map[string]uint64)
	for _, shard := range n.shards {
		if err == nil {
			var some map[string]uint64
			some, err = n.listSubjects(ctx, shard.name, shard.subject+"."+session+".*.open")
			maps.Copy(subjects, some)
		}
	}
	for subject := range subjects {
		if err != nil || len(found) == limit {
			break
		}
		id := n.tokensOf(subject)[4]
		rec, _, gone := n.getRecord(ctx, n.eventStream(session+"."+id), subject)
		switch {
		case errors.Is(gone, store.ErrNotFound): // It ended just now, or its tombstone is still there.
			all--
		case json.Valid(rec):
			found = append(found, StoredStream{id, rec})
		case errors.Is(gone, store.ErrUnavailable):
			err = gone
		}
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, 0, fmt.Errorf("cluster: streams of session %s: %w", session, err)
	}
	return found, all + len(subjects), nil
}

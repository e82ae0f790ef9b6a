package cluster

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/troupe-run/troupe/internal/store"
)

func bodyLeaf(part int) string {
	if part == 0 {
		return "body"
	}
	return "body" + strconv.Itoa(part)
}

// Log keeps the event logs of streams: see store.Log.
type Log struct {
	*logReader
	*usage
}

// OpenStream creates a stream: its writer record and, unless body is nil, the
// body beside it. Both expire after ttl unless Rewrite and KeepBody renew them.
// Append needs rev. ErrConflict: the stream exists.
//
// If the record was stored but not the whole body, OpenStream removes what it can
// and returns an error; the rest expires.
func (n *Log) OpenStream(ctx context.Context, stream string, rec, body []byte, ttl time.Duration) (rev uint64, err error) {
	if err = n.checkStream(stream); err == nil && len(body) > MaxBody {
		err = store.ErrTooBig
	}
	open := n.eventSubject(stream, "open")
	if err == nil {
		rev, err = n.createRecord(ctx, n.eventStream(stream), open, rec, ttl)
	}
	if err == nil && body != nil {
		if err = n.putBody(ctx, stream, body, rev, ttl); err != nil {
			undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_ = n.buryMessage(undo, n.eventStream(stream), open, rev)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("cluster: open stream %s: %w", stream, err)
	}
	n.countWritten(store.EventBudget, len(rec)+len(body))
	return rev, nil
}

// putBody stores the parts of a body one after the other, each under the fence: a
// writer that lost the stream must not change its body.
func (n *Log) putBody(ctx context.Context, stream string, body []byte, rev uint64, ttl time.Duration) error {
	g := guard{subject: n.eventSubject(stream, "open"), seq: rev}
	return n.putMessages(ctx, func(i int) string { return n.eventSubject(stream, bodyLeaf(i)) }, body, g, ttl)
}

// Writer reads a stream's writer record and its revision from the leader. ErrNotFound is certain, and what is found may be old, as with Get.
func (n *Log) Writer(ctx context.Context, stream string) (rec []byte, rev uint64, err error) {
	if err = n.checkStream(stream); err == nil {
		rec, rev, err = n.findRecord(ctx, n.eventStream(stream), n.eventSubject(stream, "open"))
	}
	if err != nil {
		return nil, 0, fmt.Errorf("cluster: writer of %s: %w", stream, err)
	}
	return rec, rev, nil
}

// Holds returns nil if the writer record of a stream has revision rev, and ErrFenced if it has not. Both are certain: on replicated servers a
// message that expires within seconds is stored under the condition that it has.
func (n *Log) Holds(ctx context.Context, stream string, rev uint64) error {
	err := n.checkStream(stream)
	if err == nil && n.replicas > 1 {
		_, err = n.putMessage(ctx, n.eventSubject(stream, "held"), nil, markerTTL, guard{subject: n.eventSubject(stream, "open"), seq: rev})
		if err != nil && !errors.Is(err, store.ErrFenced) { // That it could not be stored leaves it open, whatever the reason.
			err = fmt.Errorf("%w: %v", store.ErrUnavailable, err)
		}
	} else if err == nil {
		var now uint64
		if _, now, err = n.getRecord(ctx, n.eventStream(stream), n.eventSubject(stream, "open")); err == nil && now != rev || errors.Is(err, store.ErrNotFound) {
			err = store.ErrFenced
		}
	}
	if err != nil {
		return fmt.Errorf("cluster: whether the writer of %s is the same: %w", stream, err)
	}
	return nil
}

// Body reads the body stored by OpenStream from the leader. ErrNotFound: there
// is none, or a part of it is missing.
func (n *Log) Body(ctx context.Context, stream string) ([]byte, error) {
	err := n.checkStream(stream)
	var body []byte
	if err == nil {
		body, err = n.readBody(ctx, stream)
	}
	if err != nil {
		return nil, fmt.Errorf("cluster: body of %s: %w", stream, err)
	}
	return body, nil
}

func (n *Log) readBody(ctx context.Context, stream string) ([]byte, error) {
	return n.getMessages(ctx, n.eventShard(stream).name, func(i int) string { return n.eventSubject(stream, bodyLeaf(i)) }, MaxBody)
}

// Rewrite replaces the writer record if it has revision rev, and renews its
// lifetime: for a takeover, or for a refresh by the writer itself. It does not
// renew the body. From then on appends under rev are refused. ErrConflict:
// another writer was faster, or the record has expired.
func (n *Log) Rewrite(ctx context.Context, stream string, rec []byte, rev uint64, ttl time.Duration) (uint64, error) {
	err := n.checkStream(stream)
	if err == nil && len(rec) > MaxRecord {
		err = store.ErrTooBig
	}
	if err == nil && rev == 0 {
		err = fmt.Errorf("%w: no revision given", store.ErrConflict)
	}
	var next uint64
	if err == nil {
		next, err = n.putMessage(ctx, n.eventSubject(stream, "open"), encodeRecord(rec), ttl, guard{seq: rev})
	}
	if err != nil {
		return 0, fmt.Errorf("cluster: rewrite the record of %s: %w", stream, err)
	}
	return next, nil
}

// KeepBody stores the body of a stream for ttl from now, if the writer record has
// revision rev. If body is nil, it renews the stored body. ErrNotFound: there is
// none, or a part of it is missing. ErrFenced: another writer has the stream.
// After another error some parts may have been renewed; the content of the body
// is unchanged.
func (n *Log) KeepBody(ctx context.Context, stream string, body []byte, rev uint64, ttl time.Duration) error {
	err := n.checkStream(stream)
	if err == nil && len(body) > MaxBody {
		err = store.ErrTooBig
	}
	if err == nil && body == nil {
		body, err = n.readBody(ctx, stream)
	}
	if err == nil {
		err = n.putBody(ctx, stream, body, rev, ttl)
	}
	if err != nil {
		return fmt.Errorf("cluster: keep the body of %s: %w", stream, err)
	}
	return nil
}

// appendMsg is what an append needs until the connection has copied it. It is
// reused, because appends are the hot path of the store.
type appendMsg struct {
	msg                  nats.Msg
	expected, guard, ttl []string
	payload, subject     []byte
}

var appendMsgs = sync.Pool{New: func() any {
	a := &appendMsg{expected: make([]string, 1), guard: make([]string, 1), ttl: make([]string, 1)}
	a.msg.Header = nats.Header{headerExpected: a.expected, headerGuard: a.guard, headerTTL: a.ttl}
	return a
}}

// Append stores data as append number num of a stream, in the slot of
// num-RingSize, if the writer record still has revision rev. It does not wait. It
// calls done exactly once, from another goroutine, with
//
//   - nil: stored. The append survives the death of this process and, with a
//     negative Options.Sync, a power cut;
//   - ErrFenced: another writer has the stream. Not stored, and nothing will be;
//   - ErrFull, ErrRetry, ErrTooBig, ErrBadKey: not stored;
//   - ErrUnavailable: unknown, within 5 s. Append the same number again or
//     Rewrite.
//
// The caller must number the appends of a stream from 1 without a gap, and have
// at most one of them in flight. Empty data empties a slot: Read then treats the
// number as evicted. Append copies data before it returns. done must not block.
func (n *Log) Append(stream string, rev, num uint64, data []byte, done func(error)) {
	err := n.checkStream(stream)
	switch {
	case err != nil:
	case len(data) > MaxAppend:
		err = store.ErrTooBig
	case num == 0:
		err = fmt.Errorf("%w: append number 0", store.ErrBadKey)
	case rev == 0:
		err = fmt.Errorf("%w: no revision given", store.ErrFenced)
	default:
		err = n.outageError()
	}
	start, size := time.Now(), len(data)
	if err == nil {
		a := appendMsgs.Get().(*appendMsg)
		shard := n.eventShard(stream)
		a.subject = append(append(append(append(a.subject[:0], n.prefix...), shard.subject...), '.'), stream...)
		head := len(a.subject) + 1
		a.subject = strconv.AppendUint(append(a.subject, '.'), num%RingSize, 10)
		a.msg.Subject = string(a.subject)
		a.subject = append(a.subject[:head], "open"...)
		a.guard[0] = string(a.subject)
		a.expected[0] = strconv.FormatUint(rev, 10)
		a.ttl[0] = n.replayTTL
		a.payload = binary.BigEndian.AppendUint64(append(a.payload[:0], eventVersion), num)
		a.payload = append(a.payload, data...)
		a.msg.Data = a.payload
		_, err = n.acks.sendCall(&a.msg, false, func(m *nats.Msg, err error) bool {
			if err == nil {
				_, err = parseAck(m.Data, store.ErrFenced)
			}
			told := func(err error) {
				n.counters.countAppend(time.Since(start), size, err)
				if err != nil {
					err = fmt.Errorf("cluster: append %d to %s: %w", num, stream, err)
				}
				done(err)
			}
			if err == nil && n.flusher != nil {
				n.flusher.afterFlush(shard.name, told)
			} else {
				told(err)
			}
			return false
		})
		appendMsgs.Put(a)
	}
	if err != nil {
		n.counters.countAppend(time.Since(start), len(data), err)
		err = fmt.Errorf("cluster: append %d to %s: %w", num, stream, err)
		go done(err)
	}
}

// EndStream removes a stream: first the writer record, so that nothing more can
// be appended, then body and appends by their exact subjects. What is left after
// an error expires by itself.
func (n *Log) EndStream(ctx context.Context, stream string) error {
	err := n.checkStream(stream)
	if err == nil {
		err = n.endStream(ctx, stream)
	}
	if err != nil {
		return fmt.Errorf("cluster: end stream %s: %w", stream, err)
	}
	return nil
}

func (n *Log) endStream(ctx context.Context, stream string) error {
	open := n.eventSubject(stream, "open")
	if err := n.removeRecord(ctx, n.eventStream(stream), open, 0); err != nil {
		return err
	}
	shard := n.eventShard(stream)
	subjects, err := n.listSubjects(ctx, shard.name, shard.subject+"."+stream+".*")
	if err != nil {
		return err
	}
	var first error
	for subject := range subjects {
		if subject == open {
			continue
		}
		if err := n.askAPI(ctx, "STREAM.PURGE."+n.streamName(shard.name), map[string]any{"filter": subject}, nil); err != nil && first == nil {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return first
}

// StoredStream is the writer record of a stream, with the last token of its key.
type StoredStream struct {
	ID   string
	Data []byte
}

// Streams reads the writer records of a session's streams, at most limit, and returns how many there are. It is for operators.
func (n *Log) Streams(ctx context.Context, session string, limit int) (found []StoredStream, all int, err error) {
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
		case errors.Is(gone, store.ErrNewer): // It is counted, and only a newer release can say more.
		case errors.Is(gone, store.ErrUnavailable):
			err = gone
		}
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, 0, fmt.Errorf("cluster: streams of session %s: %w", session, err)
	}
	return found, all + len(subjects), nil
}

// Read calls f with the appends from..to, both included, in order. to must not lie
// beyond the stream's tail. A number that is missing is gone, which the leader has
// confirmed: overwritten, emptied or expired. f owns the data. After an error,
// which says nothing about any of them, f was not called.
func (n *Log) Read(ctx context.Context, stream string, from, to uint64, f func(num uint64, data []byte)) error {
	err := n.checkStream(stream)
	var found []event
	if err == nil && to >= max(from, 1) {
		found, err = n.readAppends(ctx, stream, max(from, 1), to)
	}
	if err != nil {
		return fmt.Errorf("cluster: read %s: %w", stream, err)
	}
	for _, e := range found {
		f(e.Num, e.Data)
	}
	return nil
}

// Tail returns the number of a stream's last append. It searches forward from
// hint, a number that was appended, or 0 if none is known. It returns hint if
// nothing later is stored. The leader has confirmed the end.
func (n *Log) Tail(ctx context.Context, stream string, hint uint64) (uint64, error) {
	err := n.checkStream(stream)
	tail := hint
	if err == nil {
		tail, err = tailFinder{n.logReader}.findTail(ctx, stream, hint)
	}
	if err != nil {
		return 0, fmt.Errorf("cluster: tail of %s: %w", stream, err)
	}
	return tail, nil
}

package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/troupe-run/troupe/internal/store"
)

const (
	// RingSize is how many appends of a stream are kept: append n replaces n-RingSize.
	RingSize = 1000

	eventVersion = 1
	eventHeader  = 9 // version, append number
	bodyPart     = 512 << 10
	bodyHeader   = 1 + 4 // version (in encodeRecord), total size
)

// eventSubject returns the subject of one message of a stream.
func (n *Node) eventSubject(stream, leaf string) string {
	return n.prefix + n.eventShard(stream).subject + "." + stream + "." + leaf
}

// eventStream returns the name in NATS of the stream that has a stream's messages.
func (n *Node) eventStream(stream string) string { return n.streamName(n.eventShard(stream).name) }

func bodyLeaf(part int) string {
	if part == 0 {
		return "body"
	}
	return "body" + strconv.Itoa(part)
}

// checkStream refuses an invalid name of a stream, and every call once the node
// is closing.
func (n *Node) checkStream(stream string) error {
	if n.leaving.Load() {
		return store.ErrClosed
	}
	if !validTokens(stream, 4) {
		return fmt.Errorf("%w: stream %q", store.ErrBadKey, stream)
	}
	return nil
}

// OpenStream creates a stream: its writer record and, unless body is nil, the
// body beside it. Both expire after ttl unless Rewrite and KeepBody renew them.
// Append needs rev. ErrConflict: the stream exists.
//
// If the record was stored but not the whole body, OpenStream removes what it can
// and returns an error; the rest expires.
func (n *Node) OpenStream(ctx context.Context, stream string, rec, body []byte, ttl time.Duration) (rev uint64, err error) {
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
func (n *Node) putBody(ctx context.Context, stream string, body []byte, rev uint64, ttl time.Duration) error {
	g := guard{subject: n.eventSubject(stream, "open"), seq: rev}
	return n.putMessages(ctx, func(i int) string { return n.eventSubject(stream, bodyLeaf(i)) }, body, g, ttl)
}

// Writer reads a stream's writer record and its revision from the leader. ErrNotFound is certain, and what is found may be old, as with Get.
func (n *Node) Writer(ctx context.Context, stream string) (rec []byte, rev uint64, err error) {
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
func (n *Node) Holds(ctx context.Context, stream string, rev uint64) error {
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
func (n *Node) Body(ctx context.Context, stream string) ([]byte, error) {
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

func (n *Node) readBody(ctx context.Context, stream string) ([]byte, error) {
	return n.getMessages(ctx, n.eventShard(stream).name, func(i int) string { return n.eventSubject(stream, bodyLeaf(i)) }, MaxBody)
}

// Rewrite replaces the writer record if it has revision rev, and renews its
// lifetime: for a takeover, or for a refresh by the writer itself. It does not
// renew the body. From then on appends under rev are refused. ErrConflict:
// another writer was faster, or the record has expired.
func (n *Node) Rewrite(ctx context.Context, stream string, rec []byte, rev uint64, ttl time.Duration) (uint64, error) {
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
func (n *Node) KeepBody(ctx context.Context, stream string, body []byte, rev uint64, ttl time.Duration) error {
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
func (n *Node) Append(stream string, rev, num uint64, data []byte, done func(error)) {
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

// decodeEvent splits a stored append.
func decodeEvent(payload []byte) (num uint64, data []byte, err error) {
	switch {
	case len(payload) == 0:
		return 0, nil, store.ErrNotFound
	case payload[0] > eventVersion:
		return 0, nil, fmt.Errorf("append version %d: %w", payload[0], store.ErrNewer)
	case payload[0] != eventVersion || len(payload) < eventHeader:
		return 0, nil, fmt.Errorf("append of %d bytes: %w", len(payload), store.ErrDamaged)
	}
	if num = binary.BigEndian.Uint64(payload[1:]); num == 0 {
		return 0, nil, fmt.Errorf("append number 0: %w", store.ErrDamaged)
	}
	return num, payload[eventHeader:], nil
}

// EndStream removes a stream: first the writer record, so that nothing more can
// be appended, then body and appends by their exact subjects. What is left after
// an error expires by itself.
func (n *Node) EndStream(ctx context.Context, stream string) error {
	err := n.checkStream(stream)
	if err == nil {
		err = n.endStream(ctx, stream)
	}
	if err != nil {
		return fmt.Errorf("cluster: end stream %s: %w", stream, err)
	}
	return nil
}

func (n *Node) endStream(ctx context.Context, stream string) error {
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

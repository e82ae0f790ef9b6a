package cluster

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/troupe-run/troupe/internal/store"
)

// messages reads and writes single messages of the streams, and what is stored in several.
type messages struct {
	*wire
	conclusions conclusions // what is not there
}

// stored is a message as the leader has it.
type stored struct {
	seq  uint64
	data []byte
	at   time.Time // when it was stored, by the clock of the server
}

// guard is the compare-and-set condition of a write: the last message of subject
// has sequence seq; 0 means that there is none. Subject "" is that of the write.
type guard struct {
	subject string
	seq     uint64
	any     bool // there is no condition
}

const (
	bodyPart   = 512 << 10
	bodyHeader = 1 + 4 // version (in encodeRecord), total size
)

// recordVersion is the first byte of a stored record or body part.
const recordVersion = 1

const (
	headerTTL      = "Nats-TTL"
	headerExpected = "Nats-Expected-Last-Subject-Sequence"
	headerStream   = "Nats-Expected-Stream"
	headerGuard    = "Nats-Expected-Last-Subject-Sequence-Subject"
)

const (
	// undecidedFirst and undecidedMost are the first and the longest pause before a write is sent again whose guard the
	// servers could not decide.
	undecidedFirst = time.Millisecond
	undecidedMost  = 50 * time.Millisecond
)

// isUndecided reports whether a write was refused only because an earlier one is not decided.
func isUndecided(err error) bool {
	no, ok := errors.AsType[*apiError](err)
	return ok && no.ErrCode == codeWrongLastInFlight
}

// encodeRecord prepends the version.
func encodeRecord(data []byte) []byte {
	return append(append(make([]byte, 0, 1+len(data)), recordVersion), data...)
}

// decodeRecord strips the version. It returns ErrNotFound for a tombstone.
func decodeRecord(payload []byte) ([]byte, error) {
	switch {
	case len(payload) == 0:
		return nil, store.ErrNotFound
	case payload[0] > recordVersion:
		return nil, fmt.Errorf("record version %d: %w", payload[0], store.ErrNewer)
	case payload[0] == 0:
		return nil, fmt.Errorf("record version 0: %w", store.ErrDamaged)
	}
	return payload[1:], nil
}

// conclusions has each question about a subject put once at a time: a thousand streams may have a reason to ask the same. Each asker gets
// the answer to a question that was put after it came. The zero value is ready.
type conclusions struct {
	mu    sync.Mutex             // guards the fields below
	asked map[string]*conclusion // by subject
}

// conclusion is the question about a subject that is put next, and whether one is under way.
type conclusion struct {
	next *pendingAnswer
	busy bool
}

type pendingAnswer struct {
	done chan struct{} // closed when it is there
	s    stored
	err  error
}

func (c *conclusions) askShared(ctx context.Context, subject string, put func(ctx context.Context) (stored, error)) (stored, error) {
	c.mu.Lock()
	q := c.asked[subject]
	if q == nil {
		if c.asked == nil {
			c.asked = make(map[string]*conclusion)
		}
		q = new(conclusion)
		c.asked[subject] = q
	}
	if q.next == nil {
		q.next = &pendingAnswer{done: make(chan struct{})}
	}
	a := q.next
	if !q.busy {
		q.busy = true
		go c.runQuestion(q, subject, put)
	}
	c.mu.Unlock()
	select {
	case <-a.done:
		return a.s, a.err
	case <-ctx.Done():
		return stored{}, fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
	}
}

// runQuestion puts the question as long as somebody has it.
func (c *conclusions) runQuestion(q *conclusion, subject string, put func(ctx context.Context) (stored, error)) {
	for {
		c.mu.Lock()
		a := q.next
		if q.next = nil; a == nil {
			delete(c.asked, subject)
		}
		c.mu.Unlock()
		if a == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		a.s, a.err = put(ctx)
		cancel()
		close(a.done)
	}
}

// putMessage stores payload under subject and returns its sequence. With a ttl of 0 it
// never expires.
func (n *messages) putMessage(ctx context.Context, subject string, payload []byte, ttl time.Duration, g guard) (uint64, error) {
	if err := n.outageError(); err != nil {
		return 0, err
	}
	h := nats.Header{}
	if !g.any {
		h[headerExpected] = []string{strconv.FormatUint(g.seq, 10)}
	}
	if g.subject != "" {
		h[headerGuard] = []string{g.subject}
	}
	if ttl > 0 {
		h[headerTTL] = []string{formatTTL(ttl)}
	}
	conflict := store.ErrConflict
	if g.subject != "" {
		conflict = store.ErrFenced
	}
	seq, err := n.sendDecided(ctx, conflict, func() *nats.Msg { return &nats.Msg{Subject: subject, Header: h, Data: payload} })
	if err == nil {
		err = n.awaitFlush(ctx, n.streamOf(subject))
	}
	if err != nil {
		return 0, err
	}
	return seq, nil
}

// sendDecided sends a guarded write until the servers have decided its guard: on a replicated stream they cannot while an earlier
// write to the guarded subject is on its way to the replicas.
func (n *messages) sendDecided(ctx context.Context, conflict error, write func() *nats.Msg) (seq uint64, err error) {
	start, pause := time.Now(), undecidedFirst
	for {
		m, err := n.acks.askAndWait(ctx, write())
		if err != nil {
			return 0, err
		}
		seq, err = parseAck(m.Data, conflict)
		if !isUndecided(err) || time.Since(start) > callTimeout || !sleep(ctx, pause) {
			return seq, err
		}
		n.counters.undecided.Add(1)
		pause = min(2*pause, undecidedMost)
	}
}

// lastMessage reads the last message of subject from the stream's leader. It also
// returns a tombstone, whose data is empty.
func (n *messages) lastMessage(ctx context.Context, stream, subject string) (stored, error) {
	in := n.reads
	switch ofLog := strings.HasPrefix(stream, n.streamName(events)); { // or of a shard
	case ofLog && n.replicas == 0: // the server of this process has it alone
		return n.lastHere(ctx, stream, subject)
	case ofLog:
		in = n.logReads
	}
	var r struct {
		Error   *apiError `json:"error"`
		Message struct {
			Seq  uint64    `json:"seq"`
			Data []byte    `json:"data"`
			Time time.Time `json:"time"`
		} `json:"message"`
	}
	m, err := in.askAndWait(ctx, &nats.Msg{Subject: "$JS.API.STREAM.MSG.GET." + stream, Data: []byte(`{"last_by_subj":"` + subject + `"}`)})
	if err != nil {
		return stored{}, err
	}
	if err := json.Unmarshal(m.Data, &r); err != nil {
		return stored{}, fmt.Errorf("%w: answer: %w", store.ErrUnavailable, err)
	}
	if r.Error != nil {
		return stored{}, r.Error.cause(store.ErrConflict)
	}
	return stored{r.Message.Seq, r.Message.Data, r.Message.Time}, nil
}

// lastHere reads the last message of subject of a stream of events by a direct get, which costs a third of what asking the leader does. It
// is for a stream without replicas.
func (n *messages) lastHere(ctx context.Context, stream, subject string) (stored, error) {
	m, err := n.logReads.askAndWait(ctx, &nats.Msg{Subject: directGet + stream, Data: []byte(`{"last_by_subj":"` + subject + `"}`)})
	if err != nil {
		return stored{}, err
	}
	if err := directFault(m); err != nil {
		return stored{}, err
	}
	seq, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	if err != nil {
		return stored{}, fmt.Errorf("%w: answer: %w", store.ErrUnavailable, err)
	}
	at, err := time.Parse(time.RFC3339Nano, m.Header.Get("Nats-Time-Stamp"))
	if err != nil {
		return stored{}, fmt.Errorf("%w: answer: %w", store.ErrUnavailable, err)
	}
	return stored{seq, m.Data, at}, nil
}

// listSubjects lists the subjects of a stream that match filter, a key with
// wildcards, and how many messages each has.
func (n *messages) listSubjects(ctx context.Context, stream, filter string) (map[string]uint64, error) {
	var info struct {
		State struct {
			Subjects map[string]uint64 `json:"subjects"`
		} `json:"state"`
	}
	err := n.askAPI(ctx, "STREAM.INFO."+n.streamName(stream), map[string]any{"subjects_filter": n.subjectOf(filter)}, &info)
	return info.State.Subjects, err
}

// subjectsFrom lists a page of the subjects of a stream that match filter, and says how many there are.
func (n *messages) subjectsFrom(ctx context.Context, stream, filter string, offset int) (subjects map[string]uint64, total int, err error) {
	var info struct {
		Total int `json:"total"`
		State struct {
			Subjects map[string]uint64 `json:"subjects"`
		} `json:"state"`
	}
	err = n.askAPI(ctx, "STREAM.INFO."+n.streamName(stream), map[string]any{"subjects_filter": n.subjectOf(filter), "offset": offset}, &info)
	return info.State.Subjects, info.Total, err
}

// getRecord reads and decodes a record. With ErrNotFound, rev is a tombstone's.
func (n *messages) getRecord(ctx context.Context, stream, subject string) (data []byte, rev uint64, err error) {
	s, err := n.lastMessage(ctx, stream, subject)
	if err != nil {
		return nil, 0, err
	}
	data, err = decodeRecord(s.data)
	return data, s.seq, err
}

// findRecord is getRecord, whose ErrNotFound is certain. A leader that was replaced answers reads with what it had for up to 20 s, until it notices; what
// it cannot do is store. So on replicated servers it is concluded from a write: a tombstone under the very key.
func (n *messages) findRecord(ctx context.Context, stream, subject string) (data []byte, rev uint64, err error) {
	data, rev, err = n.getRecord(ctx, stream, subject)
	if n.replicas <= 1 || !errors.Is(err, store.ErrNotFound) || rev != 0 && n.isTombstoneFinal(subject) {
		return data, rev, err
	}
	seq := rev // The question may be put, for others, after this call has returned.
	s, err := n.conclusions.askShared(ctx, subject, func(ctx context.Context) (stored, error) { return n.concludeMissing(ctx, stream, subject, seq) })
	if err != nil {
		return nil, s.seq, err
	}
	data, err = decodeRecord(s.data)
	return data, s.seq, err
}

// isTombstoneFinal reports whether a tombstone under a subject is enough: ids of sessions and tasks do not return. A writer stores the record of its
// stream again, and a node its entry.
func (n *messages) isTombstoneFinal(subject string) bool {
	kind, _, _ := strings.Cut(strings.TrimPrefix(subject, n.prefix), ".")
	return kind == "session" || kind == "task"
}

// concludeMissing stores a tombstone under a subject that has nothing, or only the tombstone seq, and returns ErrNotFound; or what is there. If it can neither
// store nor see what is in the way, the error is ErrUnavailable.
func (n *messages) concludeMissing(ctx context.Context, stream, subject string, seq uint64) (stored, error) {
	n.counters.concluded.Add(1)
	var err error
	for range 3 { // The first try may meet a tombstone, or that one may have expired, and so the second.
		if _, err = n.putMessage(ctx, subject, nil, markerTTL, guard{seq: seq}); err == nil {
			return stored{}, store.ErrNotFound
		}
		if !errors.Is(err, store.ErrConflict) {
			break
		}
		s, failed := n.lastMessage(ctx, stream, subject)
		switch {
		case errors.Is(failed, store.ErrNotFound):
			seq = 0
		case failed != nil:
			return stored{}, failed
		case len(s.data) > 0:
			return s, nil
		case n.isTombstoneFinal(subject):
			return stored{seq: s.seq}, store.ErrNotFound
		default:
			seq = s.seq
		}
	}
	return stored{}, fmt.Errorf("%w: whether it is there: %v", store.ErrUnavailable, err) // not a conflict for the caller, nor a full store
}

func (n *messages) createRecord(ctx context.Context, stream, subject string, data []byte, ttl time.Duration) (uint64, error) {
	if len(data) > MaxRecord {
		return 0, store.ErrTooBig
	}
	payload := encodeRecord(data)
	var seq uint64
	var err error
	// The tombstone of a deleted record counts as a message: the second attempt
	// replaces exactly that one. It may expire just then, hence the third.
	for range 3 {
		var rev uint64
		if rev, err = n.putMessage(ctx, subject, payload, ttl, guard{seq: seq}); !errors.Is(err, store.ErrConflict) {
			return rev, err
		}
		s, lastErr := n.lastMessage(ctx, stream, subject)
		switch {
		case errors.Is(lastErr, store.ErrNotFound):
			seq = 0
		case lastErr != nil || len(s.data) > 0:
			return 0, err
		default:
			seq = s.seq
		}
	}
	return 0, err
}

func (n *messages) removeRecord(ctx context.Context, stream, subject string, rev uint64) error {
	if rev != 0 {
		return n.buryMessage(ctx, stream, subject, rev)
	}
	var err error
	for range 5 {
		var s stored
		if s, err = n.lastMessage(ctx, stream, subject); errors.Is(err, store.ErrNotFound) || err == nil && len(s.data) == 0 {
			return nil
		} else if err != nil {
			return err
		}
		if err = n.buryMessage(ctx, stream, subject, s.seq); !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return err
}

// buryMessage replaces the message seq of subject by a tombstone. A plain deletion by
// sequence would not be checked against writes that are still on their way in a
// replicated stream, so a record could outlive it.
func (n *messages) buryMessage(ctx context.Context, stream, subject string, seq uint64) error {
	_, err := n.putMessage(ctx, subject, nil, markerTTL, guard{seq: seq})
	if !errors.Is(err, store.ErrFull) {
		return err
	}
	// A full store refuses even the tombstone if that is bigger than the record,
	// and deleting must be possible just then.
	err = n.deleteMessage(ctx, stream, seq)
	if errors.Is(err, store.ErrNotFound) {
		return store.ErrConflict
	}
	if err == nil {
		err = n.awaitFlush(ctx, n.streamOf(subject))
	}
	return err
}

// deleteMessage removes the message seq of a stream, whatever is on its way there.
func (n *messages) deleteMessage(ctx context.Context, stream string, seq uint64) error {
	return n.askAPI(ctx, "STREAM.MSG.DELETE."+stream, map[string]any{"seq": seq, "no_erase": true}, nil)
}

// putMessages stores data in messages of at most bodyPart bytes, one after the other, each under the guard.
func (n *messages) putMessages(ctx context.Context, subject func(i int) string, data []byte, g guard, ttl time.Duration) error {
	for i := 0; i == 0 || i*bodyPart < len(data); i++ {
		chunk := data[i*bodyPart : min(len(data), (i+1)*bodyPart)]
		payload := make([]byte, bodyHeader, bodyHeader+len(chunk))
		payload[0] = recordVersion
		binary.BigEndian.PutUint32(payload[1:], uint32(len(data)))
		if _, err := n.putMessage(ctx, subject(i), append(payload, chunk...), ttl, g); err != nil {
			return fmt.Errorf("part %d: %w", i, err)
		}
	}
	return nil
}

// getMessages reads what putMessages has stored.
func (n *messages) getMessages(ctx context.Context, stream string, subject func(i int) string, most int) ([]byte, error) {
	all, size := []byte{}, 0
	for i := 0; i == 0 || len(all) < size; i++ {
		done, err := n.readSlots.waitForSlot(ctx)
		if err != nil {
			return nil, err
		}
		data, _, err := n.getRecord(ctx, n.streamName(stream), subject(i))
		done()
		if err != nil {
			return nil, err
		}
		if len(data) < 4 {
			return nil, fmt.Errorf("part %d: %w", i, store.ErrDamaged)
		}
		total := int(binary.BigEndian.Uint32(data))
		data = data[4:]
		if i == 0 {
			size = total
		}
		if total != size || size > most || len(all)+len(data) > size || len(data) == 0 && size > 0 {
			return nil, fmt.Errorf("part %d: %w", i, store.ErrDamaged)
		}
		all = append(all, data...)
	}
	return all, nil
}

// nextMessage reads the first message at or behind a sequence whose subject matches filter, from the stream's leader.
func (n *messages) nextMessage(ctx context.Context, stream, filter string, from uint64) (s stored, subject string, err error) {
	var r struct {
		Error   *apiError `json:"error"`
		Message struct {
			Subject string `json:"subject"`
			Seq     uint64 `json:"seq"`
			Data    []byte `json:"data"`
		} `json:"message"`
	}
	ask, err := json.Marshal(map[string]any{"seq": max(from, 1), "next_by_subj": filter})
	if err != nil {
		return stored{}, "", err
	}
	m, err := n.reads.askAndWait(ctx, &nats.Msg{Subject: "$JS.API.STREAM.MSG.GET." + stream, Data: ask})
	if err != nil {
		return stored{}, "", err
	}
	if err := json.Unmarshal(m.Data, &r); err != nil {
		return stored{}, "", fmt.Errorf("%w: answer: %w", store.ErrUnavailable, err)
	}
	if r.Error != nil {
		return stored{}, "", r.Error.cause(store.ErrConflict)
	}
	return stored{seq: r.Message.Seq, data: r.Message.Data}, r.Message.Subject, nil
}

// walkRecords calls f for at most limit records of a stream whose subjects match filter, in the order of their revisions, from one on. A record
// that cannot be read is left out.
func (n *messages) walkRecords(ctx context.Context, stream, filter string, from uint64, limit int, f func(subject string, rev uint64, data []byte)) (err error) {
	if n.leaving.Load() {
		err = store.ErrClosed
	}
	for seen := 0; err == nil && seen < limit; {
		var s stored
		var subject string
		if s, subject, err = n.nextMessage(ctx, n.streamName(stream), filter, from); err != nil {
			break
		}
		from = s.seq + 1
		if data, bad := decodeRecord(s.data); bad == nil {
			f(subject, s.seq, data)
			seen++
		}
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// fillOfKind asks how full a stream is, or all shards of one together.
func (n *messages) fillOfKind(ctx context.Context, name string) (sum StreamStats, err error) {
	shards, most := uint64(0), uint64(0)
	for i := range n.kinds {
		k := &n.kinds[i]
		if k.wholeName() != name {
			continue
		}
		s, err := n.fillOfStream(ctx, k.name)
		if err != nil {
			return StreamStats{}, err
		}
		sum.Bytes += s.Bytes
		sum.MaxBytes += s.MaxBytes
		sum.Messages += s.Messages
		sum.Missing = max(sum.Missing, s.Missing) // a server that is away is one replica, not one for each shard
		shards, most = shards+1, max(most, s.Bytes)
	}
	sum.fullest = most * shards
	return sum, nil
}

func (n *messages) fillOfStream(ctx context.Context, name string) (StreamStats, error) {
	var info struct {
		Created time.Time `json:"created"`
		Config  struct {
			MaxBytes int64             `json:"max_bytes"`
			Replicas int               `json:"num_replicas"`
			Metadata map[string]string `json:"metadata"`
		} `json:"config"`
		Cluster *struct {
			Leader   string `json:"leader"`
			Replicas []struct {
				Current bool `json:"current"`
				Offline bool `json:"offline"`
			} `json:"replicas"`
		} `json:"cluster"`
		State struct {
			Messages uint64 `json:"messages"`
			Bytes    uint64 `json:"bytes"`
		} `json:"state"`
		Time time.Time `json:"ts"` // by the clock of the stream's leader
	}
	sent := n.opts.now()
	if err := n.askAPI(ctx, "STREAM.INFO."+n.streamName(name), nil, &info); err != nil {
		return StreamStats{}, err
	}
	if name == clockOf && n.opts.Remote.isSet() && !info.Time.IsZero() {
		n.clock.Hear(sent, n.opts.now(), info.Time)
	}
	s := StreamStats{Bytes: info.State.Bytes, MaxBytes: uint64(max(info.Config.MaxBytes, 0)), Messages: info.State.Messages, created: info.Created, shards: shardsOf(info.Config.Metadata)}
	if c := info.Cluster; c != nil {
		s.Missing = max(info.Config.Replicas, 1)
		if c.Leader != "" {
			s.Missing--
		}
		for _, r := range c.Replicas {
			if r.Current && !r.Offline {
				s.Missing--
			}
		}
		s.Missing = max(s.Missing, 0)
	}
	return s, nil
}

// clockOf is the stream whose leader's clock counts: several servers may have several.
const clockOf = "sessions"

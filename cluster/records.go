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

// recordVersion is the first byte of a stored record or body part.
const recordVersion = 1

const (
	headerTTL      = "Nats-TTL"
	headerExpected = "Nats-Expected-Last-Subject-Sequence"
	headerStream   = "Nats-Expected-Stream"
	headerGuard    = "Nats-Expected-Last-Subject-Sequence-Subject"
)

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

// putMessage stores payload under subject and returns its sequence. With a ttl of 0 it
// never expires.
func (n *Node) putMessage(ctx context.Context, subject string, payload []byte, ttl time.Duration, g guard) (uint64, error) {
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

const (
	// undecidedFirst and undecidedMost are the first and the longest pause before a write is sent again whose guard the
	// servers could not decide.
	undecidedFirst = time.Millisecond
	undecidedMost  = 50 * time.Millisecond
)

// sendDecided sends a guarded write until the servers have decided its guard: on a replicated stream they cannot while an earlier
// write to the guarded subject is on its way to the replicas.
func (n *Node) sendDecided(ctx context.Context, conflict error, write func() *nats.Msg) (seq uint64, err error) {
	start, pause := time.Now(), undecidedFirst
	for {
		m, err := n.acks.askAndWait(ctx, write())
		if err != nil {
			return 0, err
		}
		seq, err = parseAck(m.Data, conflict)
		if !isUndecided(err) || time.Since(start) > callTimeout || !sleepFor(ctx, pause) {
			return seq, err
		}
		n.counters.undecided.Add(1)
		pause = min(2*pause, undecidedMost)
	}
}

// isUndecided reports whether a write was refused only because an earlier one is not decided.
func isUndecided(err error) bool {
	no, ok := errors.AsType[*apiError](err)
	return ok && no.ErrCode == codeWrongLastInFlight
}

func formatTTL(d time.Duration) string {
	return strconv.FormatInt(int64(wholeSeconds(d)/time.Second), 10) + "s"
}

// askAPI sends a JetStream request and decodes its answer into out. It returns an
// error object in the answer as an error.
func (n *Node) askAPI(ctx context.Context, subject string, req, out any) error {
	var body []byte
	if req != nil {
		var err error
		if body, err = json.Marshal(req); err != nil {
			return err
		}
	}
	m, err := n.reads.askAndWait(ctx, &nats.Msg{Subject: "$JS.API." + subject, Data: body})
	if err != nil {
		return err
	}
	var failed struct {
		Error *apiError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &failed); err != nil {
		return fmt.Errorf("%w: answer: %w", store.ErrUnavailable, err)
	}
	if failed.Error != nil {
		return failed.Error.cause(store.ErrConflict)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(m.Data, out); err != nil {
		return fmt.Errorf("%w: answer: %w", store.ErrUnavailable, err)
	}
	return nil
}

// lastMessage reads the last message of subject from the stream's leader. It also
// returns a tombstone, whose data is empty.
func (n *Node) lastMessage(ctx context.Context, stream, subject string) (stored, error) {
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
func (n *Node) lastHere(ctx context.Context, stream, subject string) (stored, error) {
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
func (n *Node) listSubjects(ctx context.Context, stream, filter string) (map[string]uint64, error) {
	var info struct {
		State struct {
			Subjects map[string]uint64 `json:"subjects"`
		} `json:"state"`
	}
	err := n.askAPI(ctx, "STREAM.INFO."+n.streamName(stream), map[string]any{"subjects_filter": n.subjectOf(filter)}, &info)
	return info.State.Subjects, err
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

// Get reads a record and its revision from the stream's leader.
//
// ErrNotFound is certain, which costs a write on replicated servers; ErrUnavailable
// says nothing about the record; ErrNewer and ErrDamaged say that it is there and
// cannot be read. What is found may be older than the last write, by as long as a
// leader that was replaced takes to notice that (20 s).
func (n *Node) Get(ctx context.Context, key string) (data []byte, rev uint64, err error) {
	return n.getBy(ctx, key, n.findRecord)
}

// Peek is Get for a key that may be made up, on which no write is spent: a record that was
// created just now may be ErrNotFound on replicated servers.
func (n *Node) Peek(ctx context.Context, key string) (data []byte, rev uint64, err error) {
	return n.getBy(ctx, key, n.getRecord)
}

func (n *Node) getBy(ctx context.Context, key string, get func(ctx context.Context, stream, subject string) ([]byte, uint64, error)) (data []byte, rev uint64, err error) {
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

// getRecord reads and decodes a record. With ErrNotFound, rev is a tombstone's.
func (n *Node) getRecord(ctx context.Context, stream, subject string) (data []byte, rev uint64, err error) {
	s, err := n.lastMessage(ctx, stream, subject)
	if err != nil {
		return nil, 0, err
	}
	data, err = decodeRecord(s.data)
	return data, s.seq, err
}

// findRecord is getRecord, whose ErrNotFound is certain. A leader that was replaced answers reads with what it had for up to 20 s, until it notices; what
// it cannot do is store. So on replicated servers it is concluded from a write: a tombstone under the very key.
func (n *Node) findRecord(ctx context.Context, stream, subject string) (data []byte, rev uint64, err error) {
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
func (n *Node) isTombstoneFinal(subject string) bool {
	kind, _, _ := strings.Cut(strings.TrimPrefix(subject, n.prefix), ".")
	return kind == "session" || kind == "task"
}

// concludeMissing stores a tombstone under a subject that has nothing, or only the tombstone seq, and returns ErrNotFound; or what is there. If it can neither
// store nor see what is in the way, the error is ErrUnavailable.
func (n *Node) concludeMissing(ctx context.Context, stream, subject string, seq uint64) (stored, error) {
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

// Create stores a record that must not exist yet and returns its revision. The
// record expires after ttl, rounded up to seconds; with 0 it never does.
// ErrConflict: it exists.
func (n *Node) Create(ctx context.Context, key string, data []byte, ttl time.Duration) (rev uint64, err error) {
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

func (n *Node) createRecord(ctx context.Context, stream, subject string, data []byte, ttl time.Duration) (uint64, error) {
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

// Update replaces a record that has revision rev and gives it a new lifetime.
// ErrConflict: it has another revision or is gone.
func (n *Node) Update(ctx context.Context, key string, data []byte, rev uint64, ttl time.Duration) (uint64, error) {
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
func (n *Node) Delete(ctx context.Context, key string, rev uint64) error {
	stream, err := n.streamOfKey(key)
	if err == nil {
		err = n.removeRecord(ctx, stream, n.subjectOf(key), rev)
	}
	if err != nil {
		return fmt.Errorf("cluster: delete %s: %w", key, err)
	}
	return nil
}

func (n *Node) removeRecord(ctx context.Context, stream, subject string, rev uint64) error {
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
func (n *Node) buryMessage(ctx context.Context, stream, subject string, seq uint64) error {
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
func (n *Node) deleteMessage(ctx context.Context, stream string, seq uint64) error {
	return n.askAPI(ctx, "STREAM.MSG.DELETE."+stream, map[string]any{"seq": seq, "no_erase": true}, nil)
}

// putMessages stores data in messages of at most bodyPart bytes, one after the other, each under the guard.
func (n *Node) putMessages(ctx context.Context, subject func(i int) string, data []byte, g guard, ttl time.Duration) error {
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
func (n *Node) getMessages(ctx context.Context, stream string, subject func(i int) string, most int) ([]byte, error) {
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
func (n *Node) nextMessage(ctx context.Context, stream, filter string, from uint64) (s stored, subject string, err error) {
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
func (n *Node) walkRecords(ctx context.Context, stream, filter string, from uint64, limit int, f func(subject string, rev uint64, data []byte)) (err error) {
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

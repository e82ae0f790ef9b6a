package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/stream"
	"github.com/troupe-run/troupe/mcp"
)

// find returns the writer of a stream, taking the stream over when its writer is
// gone. A stream that has ended has no writer: w is nil then.
func (n *Node) find(ctx context.Context, svc *Service, s *sessionActor, key StreamKey) (w *streamActor, rec streamRecord, err error) {
	if w, ok := n.streams.get(key); ok {
		if <-w.ready; !w.stopped() {
			return w, w.rec, nil
		}
		n.streams.drop(key, w)
	}
	w, err = n.streams.obtain(key, func() (*streamActor, error) {
		w, r, err := n.takeOver(ctx, svc, s, key)
		rec = r
		if err == nil && w == nil {
			err = errEnded
		}
		return w, err
	})
	if errors.Is(err, errEnded) {
		if rec.Version == 0 { // another resume found it out
			if rec, _, err = n.readWriter(ctx, key); err != nil {
				return nil, rec, err
			}
		}
		return nil, rec, nil
	}
	if err != nil {
		return nil, rec, err
	}
	if w.svc.life.over.Load() {
		w.retire()
	}
	if svc.life.over.Load() {
		return nil, rec, ErrRetired
	}
	if w.stopped() { // it ended before the directory had it
		n.streams.drop(key, w)
		return nil, w.rec, nil
	}
	return w, w.rec, nil
}

// errEnded stands for a stream whose last append is in the log.
var errEnded = errors.New("actors: the stream has ended")

func (n *Node) writerOf(ctx context.Context, svc *Service, s *sessionActor, id string) (*streamActor, error) {
	w, _, err := n.find(ctx, svc, s, StreamKey{s.key, id})
	if errors.Is(err, errBadEvent) || (err == nil && w == nil) {
		return nil, ErrNoStream
	}
	return w, err
}

func (n *Node) readWriter(ctx context.Context, key StreamKey) (rec streamRecord, rev uint64, err error) {
	data, rev, err := n.store.Writer(ctx, key.path())
	if errors.Is(err, ErrNotFound) {
		return rec, 0, errBadEvent
	}
	if err != nil {
		return rec, 0, fmt.Errorf("actors: read writer record: %w", err)
	}
	if err := codec.Unmarshal(data, &rec); err != nil {
		return rec, 0, fmt.Errorf("actors: read writer record: %w", err)
	}
	if rec.Version > streamRecordVersion {
		return rec, 0, fmt.Errorf("actors: writer record of version %d, this release reads %d", rec.Version, streamRecordVersion)
	}
	return rec, rev, nil
}

// takeOver makes this node the writer of a stream whose writer is gone: a
// compare-and-set of the writer record to the next epoch, then the tail. From
// then on no append of the old writer is accepted.
func (n *Node) takeOver(ctx context.Context, svc *Service, s *sessionActor, key StreamKey) (*streamActor, streamRecord, error) {
	rec, rev, err := n.readWriter(ctx, key)
	if err != nil {
		return nil, rec, err
	}
	if rec.ended, err = n.hasEnded(ctx, key, &rec); err != nil || rec.ended {
		return nil, rec, err
	}
	log, err := n.readLog(ctx, key, rec.Tail)
	if err != nil || log.last {
		return nil, rec, err
	}
	if n.store.Suspended() {
		return nil, rec, fmt.Errorf("actors: take over: lease not certain: %w", ErrUnavailable)
	}
	rec.Node, rec.Boot, rec.Epoch, rec.Tail = n.name, n.boot, rec.Epoch+1, log.tail
	sent := rec.sents()
	sent.note(log.entries)
	rec.setSents(sent)
	rev, err = n.rewriteWriter(ctx, key.path(), rec, rev, n.recordTTL(svc))
	if err != nil {
		return nil, rec, fmt.Errorf("actors: take over: %w: %w", ErrUnavailable, err)
	}
	// The old writer may have got appends in before the record changed.
	if log, err = n.readLog(ctx, key, log.tail); err != nil || log.last {
		return nil, rec, err
	}
	n.takeover.Add(1)
	w := &streamActor{node: n, svc: svc, sess: s, key: key, path: key.path(), rec: rec, m: stream.New(svc.Limits.Stream), ready: make(chan struct{})}
	w.told, w.sent = log.tail, sent
	w.sent.note(log.entries)
	w.left.Store(time.Now().UnixNano())
	n.k.start(&w.cell, KindStream, w)
	w.due.Store(time.Now().Add(n.recordTTL(svc) / 4).UnixNano())
	w.commit()
	_ = w.post(takenOver{rev: rev, log: log})
	if len(rec.Calls) > 0 {
		n.finishCalls(ctx, s, w, log)
	}
	return w, rec, nil
}

// hasEnded looks at the last append alone, and notes its number in rec.
func (n *Node) hasEnded(ctx context.Context, key StreamKey, rec *streamRecord) (ended bool, err error) {
	if rec.Tail, err = n.store.Tail(ctx, key.path(), rec.Tail); err != nil {
		return false, fmt.Errorf("actors: find tail: %w", err)
	}
	if rec.Tail == 0 {
		return false, nil
	}
	err = n.store.Read(ctx, key.path(), rec.Tail, rec.Tail, func(_ uint64, data []byte) { ended = stream.Last(data) })
	if err != nil {
		return false, fmt.Errorf("actors: read last append: %w", err)
	}
	return ended, nil
}

// takenOver begins a stream that another writer left.
type takenOver struct {
	rev uint64
	log *pastLog
}

// pastLog is what a stream's log holds.
type pastLog struct {
	tail    uint64
	last    bool
	sizes   []int
	entries []stream.Entry
}

// readLog reads what is left of a stream's log.
func (n *Node) readLog(ctx context.Context, key StreamKey, hint uint64) (*pastLog, error) {
	tail, err := n.store.Tail(ctx, key.path(), hint)
	if err != nil {
		return nil, fmt.Errorf("actors: find tail: %w", err)
	}
	log := &pastLog{tail: tail}
	if tail == 0 {
		return log, nil
	}
	from := uint64(1)
	if tail > 1000 {
		from = tail - 999
	}
	var rd stream.Reader
	var fault error
	next := from
	err = n.store.Read(ctx, key.path(), from, tail, func(num uint64, data []byte) {
		if num != next { // older ones have been evicted
			log.sizes, log.entries, rd = nil, nil, stream.Reader{}
		}
		next = num + 1
		log.sizes = append(log.sizes, len(data))
		a, ok, err := rd.Add(num, data)
		if err != nil {
			fault = err
		}
		if ok {
			log.entries = append(log.entries, a.Entries...)
			log.last = a.Last
		}
	})
	if err == nil {
		err = fault
	}
	if err != nil {
		return nil, fmt.Errorf("actors: read log: %w", err)
	}
	return log, nil
}

// rewriteWriter rewrites a writer record. When the outcome of an attempt was
// unknown and a later one finds the record changed, it may be by us.
func (n *Node) rewriteWriter(ctx context.Context, path string, rec streamRecord, rev uint64, ttl time.Duration) (uint64, error) {
	data, err := codec.Marshal(rec)
	if err != nil {
		return 0, fmt.Errorf("actors: writer record: %w", err)
	}
	next, err := n.store.Take(ctx, path, data, rev, ttl)
	if !errors.Is(err, ErrConflict) {
		return next, err
	}
	stored, cur, err := n.store.Writer(ctx, path)
	if errors.Is(err, ErrNotFound) {
		return 0, ErrFenced
	}
	if err != nil {
		return 0, err
	}
	var other streamRecord
	if codec.Unmarshal(stored, &other) == nil && other.Boot == rec.Boot && other.Epoch == rec.Epoch {
		return cur, nil
	}
	return 0, ErrFenced
}

// finishCalls sees to the calls of a stream whose node was lost: they run again
// where that is declared safe, else the client learns that the outcome is
// unknown.
func (n *Node) finishCalls(ctx context.Context, s *sessionActor, w *streamActor, log *pastLog) {
	answered := map[string]bool{}
	for _, e := range log.entries {
		if e.Kind == stream.Final || e.Kind == stream.End {
			answered[string(e.Meta)] = true
		}
	}
	_ = w.post(alreadyAnswered(maps.Clone(answered))) // the stream adds to its own
	if w.rec.Safe {
		body, err := n.store.Body(ctx, w.path)
		if err == nil {
			n.rerunCalls(s, w, log, body, answered)
			return
		}
		n.log.Warn("call cannot run again", "stream", w.key.ID, "error", err)
	}
	_ = w.post(&pushEntries{entries: lostCalls(w.rec.Calls, answered), last: true})
}

// alreadyAnswered tells a stream that was taken over which calls of its batch need
// no answer any more.
type alreadyAnswered map[string]bool

// rerunCalls runs again what may of the calls that are not answered, and ends the
// others.
func (n *Node) rerunCalls(s *sessionActor, w *streamActor, log *pastLog, body []byte, answered map[string]bool) {
	bodies := requestsOf(body)
	var lost []callRecord
	var begin []func()
	for i, c := range w.rec.Calls {
		switch {
		case answered[string(c.ID)]:
		case c.Never || i >= len(bodies):
			lost = append(lost, c)
		default:
			j := newJournal(log, w.sent.of(i), i)
			n.questions.reopen(w, n.accounts.billed(s), j)
			begin = append(begin, func() { n.rerun(s, w, c, bodies[i], j) })
		}
	}
	for _, f := range begin { // only now: what is sent changes w.sent
		go f()
	}
	if len(lost) > 0 {
		_ = w.post(&pushEntries{entries: lostCalls(lost, nil), last: true})
	}
}

// lostCalls are the answers to calls whose outcome nobody knows.
func lostCalls(calls []callRecord, answered map[string]bool) []stream.Entry {
	info, _ := mcp.LookupError(mcp.CodeCallLost)
	var finals []stream.Entry
	for _, c := range calls {
		if !answered[string(c.ID)] {
			finals = append(finals, stream.Entry{Kind: stream.Final, Meta: c.ID, Data: codec.AppendError(nil, c.ID, mcp.CodeCallLost, info.Message, nil)})
		}
	}
	return finals
}

// rerun runs a call again from its stored body, on the stream it had.
func (n *Node) rerun(s *sessionActor, w *streamActor, c callRecord, body []byte, j *journal) {
	defer n.questions.end(j)
	lost := func() {
		_ = w.post(&pushEntries{entries: lostCalls([]callRecord{c}, nil), last: true})
	}
	var m codec.Message
	if err := codec.Scan(body, &m, codec.Limits{MaxDepth: w.svc.Limits.Depth}); err != nil {
		n.log.Error("stored call not readable", "stream", w.key.ID, "error", err)
		lost()
		return
	}
	r := n.takeRequest(n.readmit(s))
	r.used = true
	call := &Call{attempt: w.rec.Epoch, journal: j, member: j.member}
	if len(w.rec.Principal) > 0 {
		call.principal = json.RawMessage(w.rec.Principal)
	}
	r.begins(s, noConn{}, &m, body, call)
	r.notified = j.sent.Messages
	if j.sent.Progressed {
		r.progressGate().Raise(j.sent.Progress)
	}
	_ = r.post(adoptStream{w})
	err := r.run(0) // it was admitted once
	for errors.Is(err, ErrStopped) {
		// The session has just left memory.
		ctx, cancel := context.WithTimeout(n.base, w.svc.Limits.StoreWait)
		if s, err = n.session(ctx, w.svc, w.key.Session); err == nil {
			r.sess, call.sess = s, s
			err = r.run(0)
		}
		cancel()
	}
	if errors.Is(err, ErrRetired) {
		_ = w.post(handOver{})
		r.release()
		return
	}
	if err != nil {
		// The client has a request with the same id in flight, or the session is
		// gone: nobody can tell what became of this one.
		n.log.Info("call does not run again", "stream", w.key.ID, "error", err)
		lost()
		r.release()
	}
}

// adoptStream gives a call that runs again the stream it had.
type adoptStream struct{ w *streamActor }

// journal is what the log of a call holds from its earlier runs. A nil journal
// is that of a first run.
type journal struct {
	sent   sent // does not change
	member int  // place of the call in its batch

	mu      sync.Mutex // guards the rest: handlers may ask from several goroutines
	skipped int        // messages of this run that an earlier one has sent
	asked   []pastQuestion
}

type pastQuestion struct {
	id, key  string
	answered bool
	used     bool
	answer   Answer
	open     *question // waits for the answer, nil if that is here
}

func newJournal(log *pastLog, s sent, member int) *journal {
	j := &journal{sent: s, member: member}
	for _, e := range log.entries {
		switch e.Kind {
		case stream.Request:
			id, key, by := askedMeta(e.Meta)
			if by != member {
				continue
			}
			j.asked = append(j.asked, pastQuestion{id: id, key: key})
		case stream.Answer:
			for i := range j.asked {
				if q := &j.asked[i]; q.id == string(e.Meta) && !q.answered && len(e.Data) > 0 {
					q.answered = true
					if q.answer = (Answer{Result: clone(e.Data[1:])}); e.Data[0] == 'e' {
						q.answer = Answer{Err: wireError(e.Data[1:])}
					}
				}
			}
		}
	}
	return j
}

// skipMessage reports that an earlier run has sent this message.
func (j *journal) skipMessage() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.skipped == j.sent.Messages {
		return false
	}
	j.skipped++
	return true
}

// has reports whether the earlier run has asked a question with that key which this
// one has not.
func (j *journal) has(key string) bool {
	if j == nil {
		return false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.asked, func(q pastQuestion) bool { return q.key == key && !q.used })
}

// question returns the earlier run's next question with that key.
func (j *journal) question(key string) *pastQuestion {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range j.asked {
		if q := &j.asked[i]; q.key == key && !q.used {
			q.used = true
			return q
		}
	}
	return nil
}

// noConn is the connection of a call that runs again: its client is attached to
// its stream, if anywhere.
type noConn struct{}

var _ Conn = noConn{}

func (noConn) SetSession(string)                                      {}
func (noConn) Answer(int, []byte) bool                                { return false }
func (noConn) Accepted()                                              {}
func (noConn) Reject(int, int, string, []byte, []byte, time.Duration) {}
func (noConn) Open() bool                                             { return false }
func (noConn) Event(string, int, []byte)                              {}
func (noConn) Comment()                                               {}
func (noConn) Flush()                                                 {}
func (noConn) Finish()                                                {}
func (noConn) Cut()                                                   {}
func (noConn) Room(context.Context) error                             { return errGone }
func (noConn) Gone(func())                                            {}

package actors

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/stream"
	"github.com/troupe-run/troupe/mcp"
)

// streamActor is the writer of one SSE stream: it appends to the log, and hands
// what has been acknowledged to the one live connection.
type streamActor struct {
	cell
	node *Node
	svc  *Service
	sess *sessionActor
	key  StreamKey
	path string
	rec  streamRecord
	m    *stream.Machine

	fx       []stream.Effect
	att      *attachment
	reqs     []*requestActor // none for a standalone stream
	gather   *gathering      // a batch of which nothing has been sent or stored, else nil
	answered map[string]bool // calls of a batch that need no answer any more, by id
	muted    map[int]bool    // calls of a batch that were cancelled, by their places
	silent   bool            // the stream was cancelled: deliver nothing more
	told     uint64          // last append delivered
	entries  int             // entries of append told, 0 if not known
	sent     sents           // what append told and those before it hold
	due      atomic.Int64    // when the writer record is to be rewritten, unix nanoseconds; 0 not yet
	left     atomic.Int64    // when the last connection left, unix nanoseconds
	queued   atomic.Int64
	heard    atomic.Bool   // there is a live connection
	unstored atomic.Bool   // it could not begin, and the client knows
	ready    chan struct{} // closed once the connection is committed or refused
	opened   bool
	// closeEarly is set when the connection is to be closed as soon as it is open.
	closeEarly bool
}

// streamRecord is the writer record of a stream; for a call it is the call
// record too.
type streamRecord struct {
	Version   int             `json:"v"`
	Node      string          `json:"node"`
	Boot      string          `json:"boot"`
	Epoch     int             `json:"epoch"`
	Tail      uint64          `json:"tail"`
	Revision  string          `json:"revision"`
	Calls     []callRecord    `json:"calls,omitempty"`
	Safe      bool            `json:"safe,omitempty"`
	Principal json.RawMessage `json:"principal,omitempty"`

	// ended is set on a copy whose Tail is known to be the stream's end.
	ended bool
	Sent  sent `json:"sent,omitzero"` // of the first call
	// More is Sent for the other calls of a batch.
	More sents `json:"more,omitempty"`
}

// sents is how far each call of the stream had got when the record was written.
func (r *streamRecord) sents() sents { return append(sents{r.Sent}, r.More...) }

func (r *streamRecord) setSents(s sents) {
	r.Sent, r.More = s.of(0), nil
	if len(s) > 1 {
		r.More = append(sents(nil), s[1:]...)
	}
}

type callRecord struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Token  json.RawMessage `json:"token,omitempty"`
	Never  bool            `json:"never,omitempty"` // of a batch with calls that may run again: this one may not
}

// recorded is a method as records name it: one that nobody knows may be long.
func recorded(method []byte) string { return string(method[:min(len(method), 128)]) }

const streamRecordVersion = 1

type (
	recordStored struct {
		rev uint64
		err error
	}
	pushEntries struct {
		entries []stream.Entry
		last    bool
		silent  bool
		told    bool // to the session, by no call of its own
	}
	appended  struct{ err error }
	refreshed struct {
		rev uint64
		err error
	}
	resend struct{}
	// attach makes att the stream's only live connection and answers its tail.
	attach struct {
		reply
		att  *attachment   // nil only asks
		sess *sessionActor // that the connection belongs to now
		tail uint64
		n    int // entries of the tail's append, 0 if not known
		err  error
	}
	// detach forgets a connection that is gone.
	detach    struct{ att *attachment }
	refresh   struct{}
	endStream struct{}
	// handOver leaves a stream to whoever resumes it: a call that may run again
	// keeps its record, and any other ends with -32010.
	handOver struct{}
	// quitStream ends a stream's actor with its node.
	quitStream struct{}
	// serveCall names the request whose answer ends the stream.
	serveCall struct{ req *requestActor }
)

func (a *attach) refused(err error) { a.err = err; a.done() }
func (p *pushEntries) refused(err error) {
	for i := range p.entries {
		p.entries[i].Drop(err)
	}
}

// What a call sends is bounded where its handler waits; what is told to sessions
// is not, and can be made good when it is refused.
func (p *pushEntries) bulk() bool { return p.told }

func (s *streamActor) receive(m any) {
	switch m := m.(type) {
	case *pushEntries:
		if s.gather != nil {
			s.gathered(m)
		} else {
			s.push(m)
		}
	case beginNow:
		s.begin()
	case discard:
		s.discard()
	case appended:
		s.appended(m.err)
	case recordStored:
		s.recordStored(m)
	case refreshed:
		s.refreshed(m)
	case resend:
		s.fx = s.m.Resend(s.fx[:0])
		s.perform()
	case refresh:
		if s.abandoned(time.Now()) {
			s.leave()
			return
		}
		s.step(stream.Event{Op: stream.Refresh})
	case *attach:
		m.tail, m.n = s.told, s.entries
		if m.att != nil {
			// The session may have left memory and come back since the stream began.
			s.sess = m.sess
			s.attach(m.att)
		}
		m.done()
	case detach:
		if s.att == m.att {
			s.att = nil
			s.left.Store(time.Now().UnixNano())
		}
	case closeConn:
		s.begin()
		if !s.opened {
			s.closeEarly = true
		} else if s.att != nil {
			s.att.finish()
			s.att = nil
		}
	case alreadyAnswered:
		s.answered = m
	case takenOver:
		s.step(stream.Event{Op: stream.Opened, Rev: m.rev, Tail: m.log.tail, Sizes: m.log.sizes})
	case handOver:
		s.handOver()
	case quitStream:
		s.quit()
	case serveCall:
		s.reqs = append(s.reqs, m.req)
	case endStream:
		s.step(stream.Event{Op: stream.Fenced, Err: ErrSessionEnded})
	}
	s.queued.Store(int64(s.m.Queued()))
	s.heard.Store(s.att != nil)
}

func (s *streamActor) failed(m any, last bool) {
	switch m := m.(type) {
	case *attach:
		m.refused(errInternal)
	case *pushEntries:
		m.refused(errInternal)
	}
	if last {
		s.lost(errInternal)
	}
}

// push sends entries of a call, or to a session.
func (s *streamActor) push(m *pushEntries) {
	e := stream.Event{Op: stream.Push, Entries: m.entries, Last: m.last}
	switch {
	case len(s.rec.Calls) > 1:
		e.Last = s.settle(m)
	case m.silent:
		s.mute()
		e.Op = stream.Cancel
	}
	s.step(e)
}

func (s *streamActor) step(e stream.Event) {
	s.fx = s.m.Step(e, s.fx[:0])
	s.perform()
}

// perform carries effects out in order. None of them blocks.
func (s *streamActor) perform() {
	for i := range s.fx {
		switch e := &s.fx[i]; e.Do {
		case stream.DoAppend:
			s.node.appends.Add(1)
			s.node.store.Append(s.path, s.m.Rev(), e.Num, e.Data, func(err error) { _ = s.post(appended{err}) })
		case stream.DoDeliver:
			s.deliver(e)
		case stream.DoRefresh:
			s.rewrite(e.Num)
		case stream.DoRetry:
			time.AfterFunc(e.After, func() { _ = s.post(resend{}) })
		case stream.DoDrop:
			for i := range e.Entries {
				e.Entries[i].Drop(e.Err)
			}
		case stream.DoLost:
			s.lost(e.Err)
		}
		s.fx[i] = stream.Effect{}
	}
	s.fx = s.fx[:0]
}

// maxTries is how often a write is tried, about a minute with the pauses in
// between, before the stream counts as lost.
const maxTries = 64

func (s *streamActor) appended(err error) {
	switch {
	case err == nil:
		s.step(stream.Event{Op: stream.Stored})
	case errors.Is(err, ErrFenced):
		s.step(stream.Event{Op: stream.Fenced, Err: err})
	case s.m.Tries() < maxTries && (errors.Is(err, ErrAgain) || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrFull)):
		// Not done, or unknown: the same append under the same guard and
		// number is the same message, so that it may be written again.
		s.step(stream.Event{Op: stream.Again, Err: err})
	default:
		s.node.log.Error("append refused", "stream", s.key.ID, "error", err)
		s.step(stream.Event{Op: stream.Fenced, Err: err})
	}
}

// deliver hands an acknowledged append to the live connection.
func (s *streamActor) deliver(e *stream.Effect) {
	from := s.told + 1
	s.told, s.entries = e.Num, len(e.Entries)
	s.sent.note(e.Entries)
	for i := range e.Entries {
		if f := e.Entries[i].Acked; f != nil {
			f(nil)
			e.Entries[i].Acked = nil
		}
	}
	if s.att != nil && !s.silent {
		s.att.frame(frame{from: from, num: e.Num, entries: s.unmuted(e.Entries), last: e.Last})
	}
	if e.Last {
		if s.att != nil && s.silent {
			s.att.finish()
		}
		s.leave()
	}
}

func (s *streamActor) handOver() {
	if s.gather != nil {
		s.giveUpGathering()
		return
	}
	if !s.rec.Safe && len(s.rec.Calls) > 0 {
		s.step(stream.Event{Op: stream.Push, Entries: lostCalls(s.rec.Calls, s.answered), Last: true})
		return
	}
	s.quit()
}

// quit leaves the stream as it is stored, and what is not to nobody.
func (s *streamActor) quit() {
	switch {
	case s.att == nil:
	case s.opened:
		s.att.leave()
	default: // nobody knows the stream yet
		s.node.unavailable(s.att.conn, s.callID())
		s.unstored.Store(true)
	}
	s.att = nil
	s.commit()
	s.leave()
	cause := ErrClosing
	if s.svc.life.over.Load() {
		cause = ErrRetired
	}
	for _, e := range s.m.Step(stream.Event{Op: stream.Fenced, Err: cause}, nil) {
		for i := range e.Entries {
			e.Entries[i].Drop(e.Err)
		}
	}
}

// abandoned reports that nothing can be resumed from here any more: no call
// answers on the stream, and nobody has listened for as long as events last.
// Its record is not renewed then, and expires.
func (s *streamActor) abandoned(now time.Time) bool {
	return len(s.reqs) == 0 && s.att == nil && now.UnixNano()-s.left.Load() > int64(s.svc.Limits.ReplayAge)
}

// mute ends delivery: what is in flight when a cancel is processed may get to
// the log, but is not sent.
func (s *streamActor) mute() { s.silent = true }

// attach makes att the one live connection; the old one is cut.
func (s *streamActor) attach(att *attachment) {
	if old := s.att; old != nil {
		old.cut()
	}
	s.att = att
	sess := s.sess
	att.conn.Gone(func() {
		_ = sess.post(holdStream{-1})
		_ = s.post(detach{att})
	})
	_ = sess.post(holdStream{1})
}

// recordStored begins the stream: headers and priming may go out.
func (s *streamActor) recordStored(m recordStored) {
	if m.err != nil {
		switch {
		case s.att == nil:
		case errors.Is(m.err, ErrNotFound): // the session's record
			unknownSession(s.att.conn, s.callID())
		default:
			s.node.unavailable(s.att.conn, s.callID())
		}
		s.att = nil
		s.unstored.Store(true)
		s.commit()
		s.step(stream.Event{Op: stream.OpenFailed, Err: m.err})
		return
	}
	s.due.Store(time.Now().Add(s.node.recordTTL(s.svc) / 4).UnixNano())
	if s.att != nil {
		if s.att.open(true) {
			att := s.att
			s.att = nil
			s.attach(att)
			if s.closeEarly {
				att.finish()
				s.att = nil
			}
		} else {
			s.att = nil
		}
	}
	s.heard.Store(s.att != nil)
	s.commit()
	s.step(stream.Event{Op: stream.Opened, Rev: m.rev})
}

// callID is the raw id of the one request that the stream answers, nil if there is
// none.
func (s *streamActor) callID() []byte {
	if len(s.rec.Calls) != 1 {
		return nil
	}
	return s.rec.Calls[0].ID
}

func (s *streamActor) commit() {
	if !s.opened {
		s.opened = true
		close(s.ready)
	}
}

// rewrite renews the writer record, which outlives the events it guards.
func (s *streamActor) rewrite(tail uint64) {
	rec, rev := s.rec, s.m.Rev()
	rec.Tail = tail
	rec.setSents(s.sent)
	s.due.Store(time.Now().Add(s.node.recordTTL(s.svc) / 4).UnixNano())
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), s.svc.Limits.StoreWait)
		defer cancel()
		rev, err := s.node.rewriteWriter(ctx, s.path, rec, rev, s.node.recordTTL(s.svc))
		_ = s.post(refreshed{rev, err})
	}()
}

func (s *streamActor) refreshed(m refreshed) {
	switch {
	case m.err == nil:
		s.step(stream.Event{Op: stream.Refreshed, Rev: m.rev})
	case errors.Is(m.err, ErrFenced), s.m.Tries() >= maxTries:
		s.step(stream.Event{Op: stream.Fenced, Err: m.err})
	default:
		s.step(stream.Event{Op: stream.Refused, Err: m.err})
	}
}

// lost ends a stream that another writer has, or that cannot be stored.
func (s *streamActor) lost(err error) {
	if s.att != nil {
		if !s.opened {
			s.refuse()
		} else if errors.Is(err, ErrSessionEnded) {
			s.att.finish()
		} else {
			s.att.cut()
		}
		s.att = nil
	}
	s.commit() // only now: whoever waits for the answer takes none for a fault
	for _, r := range s.reqs {
		_ = r.post(streamGone{err})
	}
	s.leave()
}

// refuse answers a request whose stream ends before it has begun: a call's session
// is gone, while a standalone stream may only have been replaced.
func (s *streamActor) refuse() {
	if len(s.rec.Calls) == 0 {
		s.att.conn.Open()
		s.att.conn.Finish()
		return
	}
	s.att.conn.Reject(404, mcp.CodeInvalidRequest, "the session has ended", nil, s.callID(), 0)
}

// leave takes the stream out of the directory and stops it. The log goes on
// without it: an ended stream is resumed from there.
func (s *streamActor) leave() {
	s.node.streams.drop(s.key, s)
	s.node.k.stop(&s.cell)
}

// startCallStream begins the stream of a call that is becoming resumable.
func (n *Node) startCallStream(r *requestActor) *streamActor {
	rec := streamRecord{
		Version: streamRecordVersion, Node: n.name, Boot: n.boot, Epoch: 1, Revision: r.sess.view.Load().rec.Revision,
		Calls: []callRecord{{ID: clone(r.id), Method: recorded(r.call.msg.Method), Token: clone(r.call.msg.ProgressToken)}},
		Safe:  r.svc.Handler.Safe(r.call.msg.Method, r.call.msg.Name),
	}
	var body []byte
	if rec.Safe {
		body = clone(r.body)
		rec.Principal, _ = codec.Marshal(r.call.principal)
	}
	s := n.makeStream(r.svc, r.sess, n.newID(), rec, r.conn)
	s.reqs = []*requestActor{r}
	n.startStream(s)
	n.storeStream(s, body)
	return s
}

// startStream starts the actor of a new stream, of which nothing is stored.
func (n *Node) startStream(s *streamActor) {
	n.k.start(&s.cell, KindStream, s)
	n.streams.put(s.key, s)
}

func (n *Node) makeStream(svc *Service, sess *sessionActor, id string, rec streamRecord, conn Conn) *streamActor {
	s := &streamActor{node: n, svc: svc, sess: sess, key: StreamKey{sess.key, id}, rec: rec, m: stream.New(svc.Limits.Stream), ready: make(chan struct{})}
	s.path = s.key.path()
	if conn != nil {
		s.att = n.newAttachment(svc, sess, s.key, rec.Revision, conn, stream.Position{Stream: id})
		s.att.live = true
	}
	return s
}

// storeStream stores the record of a new stream, and beside it the body of calls
// that may run again.
func (n *Node) storeStream(s *streamActor, body []byte) {
	svc := s.svc
	data, err := codec.Marshal(s.rec)
	if err == nil && n.store.NearFull() {
		n.refusals.count(StoreFull)
		err = ErrFull
	}
	// Also a refusal comes from elsewhere: whoever begins the stream is still at it.
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), svc.Limits.StoreWait)
		defer cancel()
		var rev uint64
		if err == nil {
			rev, err = n.store.OpenStream(ctx, s.path, data, body, n.recordTTL(svc))
		}
		_ = s.post(recordStored{rev, err})
	}()
}

// recordTTL is the lifetime of a writer record that is rewritten every quarter
// of it: never less than ReplayAge remains.
func (n *Node) recordTTL(svc *Service) time.Duration { return RecordTTL(svc.Limits.ReplayAge) }

// RecordTTL is the lifetime of the record of a stream whose events can be replayed
// for the given time. Stores must keep events longer than that.
func RecordTTL(replayAge time.Duration) time.Duration { return replayAge * 4 / 3 }

func clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append([]byte{}, b...)
}

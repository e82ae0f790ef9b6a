package actors

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/faults"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/record"
	"github.com/troupe-run/troupe/internal/stream"
	"github.com/troupe-run/troupe/mcp"
)

// streamActor is the writer of one SSE stream: it appends to the log, and hands
// what has been acknowledged to the one live connection.
type streamActor struct {
	kernel.Actor
	node *Node
	svc  *Service
	sess *sessionActor
	key  StreamKey
	path string
	rec  record.Stream // as the stream began here; it does not change
	live record.Stream // as it is to be stored next
	past record.Past   // what the log has come to tell
	m    *stream.Machine

	fx        []stream.Effect
	att       *attachment
	reqs      []*requestActor // none for a standalone stream
	order     uint64          // of a standalone stream that begins here: later ones have more
	gather    *gathering      // a batch of which nothing has been sent or stored, else nil
	answered  map[string]bool // calls of a batch that need no answer any more, by id
	muted     map[int]bool    // calls of a batch that were cancelled, by their places
	silent    bool            // the stream was cancelled: deliver nothing more
	delivered uint64          // last append delivered
	due       atomic.Int64    // when the writer record is to be rewritten, by clock.running; 0 not yet
	left      atomic.Int64    // when the last connection left, unix nanoseconds
	queued    atomic.Int64
	heard     atomic.Bool   // there is a live connection
	unstored  atomic.Bool   // it could not begin, and the client knows
	renew     bool          // the lifetime of record and body is to be renewed
	written   time.Duration // how far ahead the clock was when the record was stored: see outlives
	attempt   time.Duration // and when it was tried since, if trying
	trying    bool
	body      []byte        // of calls that may run again, where it is small: see create
	ready     chan struct{} // closed once the connection is committed or refused
	opened    bool
	// closeEarly is set when the connection is to be closed as soon as it is open.
	closeEarly *closeConn
}

type (
	recordStored struct {
		rev uint64
		err error
	}
	pushEntries struct {
		entries   []stream.Entry
		last      bool
		silent    bool
		ofSession bool // to the session, by no call of its own
		taken     bool // the machine has the entries
	}
	appended  struct{ err error }
	refreshed struct {
		rev     uint64
		err     error
		renewed bool // and the body
	}
	resend   struct{}
	outlived struct{}
	// attach makes att the stream's only live connection and answers its tail.
	attach struct {
		kernel.Reply
		att  *attachment   // nil only asks
		sess *sessionActor // that the connection belongs to now
		at   extent
		err  error
	}
	// detach forgets a connection that is gone.
	detach    struct{ att *attachment }
	refresh   struct{}
	endStream struct{}
	// passOn leaves the stream to who resumes it, if its calls can go on elsewhere and its client comes back by itself.
	passOn struct{}
	// handOver leaves a stream to whoever resumes it: a call that may run again
	// keeps its record, and any other ends with -32010.
	handOver struct{}
	// quitStream ends a stream's actor with its node.
	quitStream struct{}
	// serveCall names the request whose answer ends the stream.
	serveCall struct{ req *requestActor }
)

func (m serveCall) Refused(err error) { _ = m.req.Post(streamGone{err}) }
func (a *attach) Refused(err error)   { a.err = err; a.Done() }
func (p *pushEntries) Refused(err error) {
	for i := range p.entries {
		p.entries[i].Drop(err)
	}
}

// What a call sends is bounded where its handler waits; what is told to sessions
// is not, and can be made good when it is refused.
func (p *pushEntries) Bulk() bool { return p.ofSession }

func (s *streamActor) Receive(m any) {
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
	case looked:
		s.looked(m)
	case created:
		s.created(m)
	case outlived:
		s.step(stream.Event{Op: stream.Outlived})
	case resend:
		s.fx = s.m.Resend(s.fx[:0])
		s.perform()
	case refresh:
		if s.abandoned(time.Now()) {
			// What waits for the store is told: it may be away for longer than this.
			s.step(stream.Event{Op: stream.Fenced, Err: kernel.ErrStopped})
			return
		}
		s.renew = true
		s.due.Store(int64(s.node.clock.running() + s.svc.Limits.StoreWait)) // until it is done
		s.step(stream.Event{Op: stream.Refresh})
	case *attach:
		m.at = extent{tail: s.delivered, watermarks: append(s.live.Watermarks(), record.Watermark{Seen: s.past.Digest.Seen, Upto: s.delivered})}
		if m.att != nil {
			// The session may have left memory and come back since the stream began.
			s.sess = m.sess
			s.attach(m.att)
		}
		m.Done()
	case detach:
		if s.att == m.att {
			s.att = nil
			s.left.Store(time.Now().UnixNano())
		}
	case closeConn:
		s.begin()
		if !s.opened {
			s.closeEarly = &m
		} else if s.att != nil {
			s.att.close(m)
			s.att = nil
		}
	case alreadyAnswered:
		s.answered = m
	case keepBody:
		s.keepBody(m)
	case takenOver:
		s.step(stream.Event{Op: stream.Opened, Rev: m.rev, Epoch: s.rec.Epoch, Tail: m.log.tail, Covered: s.rec.Tail, Sizes: m.log.sizes})
	case handOver:
		s.handOver()
	case passOn:
		s.passOn()
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

// push sends entries of a call, or to a session.
func (s *streamActor) push(m *pushEntries) {
	m.taken = true
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
			if s.outlives() {
				_ = s.Post(outlived{})
				break
			}
			s.node.appends.Add(1)
			s.node.store.Append(s.path, s.m.Rev(), e.Num, e.Data, func(err error) { _ = s.Post(appended{err}) })
		case stream.DoDeliver:
			s.deliver(e)
		case stream.DoRefresh:
			s.rewrite(e.Num)
		case stream.DoLook:
			s.look()
		case stream.DoCreate:
			s.create(e.Num)
		case stream.DoRetry:
			time.AfterFunc(e.After, func() { _ = s.Post(resend{}) })
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

// appended takes the outcome of the append in flight. There is no count of tries: a
// store may be away for as long as the calls' own limits let them run.
func (s *streamActor) appended(err error) {
	switch {
	case err == nil && s.outlives(): // the clock went back just then
		s.step(stream.Event{Op: stream.Outlived})
	case err == nil:
		s.step(stream.Event{Op: stream.Stored})
	case errors.Is(err, ErrFenced):
		s.step(stream.Event{Op: stream.Guarded})
	case passes(err):
		// Not done, or unknown: the same append under the same guard and
		// number is the same message, so that it may be written again.
		s.step(stream.Event{Op: stream.Again})
	default:
		s.node.log.Error("append refused", "stream", s.key.ID, "error", err)
		s.step(stream.Event{Op: stream.Fenced, Err: err})
	}
}

// deliver hands an acknowledged append to the live connection.
func (s *streamActor) deliver(e *stream.Effect) {
	from := s.delivered + 1
	s.delivered = e.Num
	s.recall(s.past.Note(&s.live, e.Num, e.Epoch, e.Entries))
	bytes := 0
	for i := range e.Entries {
		bytes += len(e.Entries[i].Data)
		e.Entries[i].Drop(nil)
	}
	s.sess.billed().Used[EventBudget].Add(time.Now(), int64(bytes), s.svc.recordTTL())
	if s.att != nil && !s.silent {
		s.att.frame(frame{from: from, num: e.Num, epoch: e.Epoch, entries: s.unmuted(e.Entries), last: e.Last})
	}
	if e.Last {
		if s.att != nil && s.silent {
			s.att.finish()
		}
		s.remove()
	}
}

// recall counts calls that have lost their right to run again.
func (s *streamActor) recall(calls int) {
	for range calls {
		s.node.refusals.count(Recall)
	}
}

func (s *streamActor) handOver() {
	if s.gather != nil {
		s.giveUpGathering()
		return
	}
	if len(s.rec.Calls) > 0 && !s.runsAgain() {
		s.step(stream.Event{Op: stream.Push, Entries: lostCalls(s.rec.Calls, s.answered), Last: true})
		return
	}
	s.quit()
}

// runsAgain reports whether a call of the stream that needs an answer may run again.
func (s *streamActor) runsAgain() bool {
	for i := range s.live.Calls {
		if s.live.May(i) && !s.answered[string(s.live.Calls[i].ID)] {
			return true
		}
	}
	return false
}

// quit leaves the stream as it is stored, and what is not to nobody.
func (s *streamActor) quit() {
	switch {
	case s.att == nil:
	case s.opened:
		s.att.reconnect()
	default: // nobody knows the stream yet
		s.refuseStart(errUnavailable)
		s.unstored.Store(true)
	}
	s.att = nil
	s.commit()
	s.remove()
	cause := ErrClosing
	if s.svc.life.over.Load() {
		cause = ErrUnmounted
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
	old := s.att
	s.att = att
	if old != nil {
		s.Contain(old.cut)
	}
	sess := s.sess
	att.conn.Gone(func() {
		_ = sess.Post(holdStream{-1})
		_ = s.Post(detach{att})
	})
	_ = sess.Post(holdStream{1})
}

// callID is the raw id of the one request that the stream answers, nil if there is
// none.
func (s *streamActor) callID() []byte {
	if len(s.rec.Calls) != 1 {
		return nil
	}
	return s.rec.Calls[0].ID
}

// refuseStart answers whoever waits for a stream that cannot begin because of err.
func (s *streamActor) refuseStart(err error) {
	if _, limited := errors.AsType[verdict](err); !limited {
		err = errUnavailable
	}
	switch calls := s.rec.Calls; len(calls) {
	case 0:
		s.node.refusals.refuseError(s.att.conn, err, nil)
	case 1:
		s.node.refusals.refuseInSession(s.att.conn, err, calls[0].ID)
	default:
		s.node.refusals.refuseBatch(s.att.conn, err, func(yield func([]byte) bool) {
			for i := range calls {
				if !yield(calls[i].ID) {
					return
				}
			}
		})
	}
}

func (s *streamActor) commit() {
	if !s.opened {
		s.opened = true
		close(s.ready)
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
	if !s.opened {
		s.unstored.Store(true)
	}
	s.commit() // only now: whoever waits for the answer takes none for a fault
	for _, r := range s.reqs {
		_ = r.Post(streamGone{err})
	}
	s.remove()
}

// refuse answers a request whose stream ends before it has begun: a call's session
// is gone, while a standalone stream may only have been replaced.
func (s *streamActor) refuse() {
	if len(s.rec.Calls) == 0 {
		s.att.conn.Open()
		s.att.conn.Finish()
		return
	}
	faults.SessionEnded.Tell(s.att.conn, s.callID())
}

// remove takes the stream out of the directory and stops it. The log goes on
// without it: an ended stream is resumed from there.
func (s *streamActor) remove() {
	s.node.streams.Drop(s.key, s)
	s.Actor.Stop()
}

// start starts the actor of a new stream, of which nothing is stored.
func (s *streamActor) start() {
	n := s.node
	n.k.Start(&s.Actor, KindStream, s.path, s)
	n.streams.Put(s.key, s)
}

// Failed ends the stream after a panic that may have left a step half done: the append
// that comes next may never have been sent, and nobody could tell. The record is still
// ours, so that whoever resumes the stream takes it over, and its calls run again or end
// with -32010 as after a crash.
func (s *streamActor) Failed(m any, last bool) {
	switch m := m.(type) {
	case *attach:
		// It is the fault of one connection, and nothing of the stream's has changed.
		if s.att != nil && s.att == m.att {
			s.att = nil
			s.heard.Store(false)
		}
		m.Refused(errInternal)
		if !last {
			return
		}
	case detach, serveCall:
		if !last {
			return
		}
	case *pushEntries:
		if !m.taken {
			m.Refused(errInternal)
		}
	}
	s.cutShort()
}

// cutShort carries out what is left of a step, as far as somebody waits for it, and ends
// the stream as lost. Each part of that may fail for the reason that the step did.
func (s *streamActor) cutShort() {
	left := s.fx // without what was carried out
	s.fx = nil
	s.Contain(func() { left = s.m.Step(stream.Event{Op: stream.Fenced, Err: errInternal}, left) })
	for i := range left {
		for k := range left[i].Entries {
			e := &left[i].Entries[k]
			s.Contain(func() { e.Drop(left[i].Err) }) // nil for those that are stored
		}
	}
	if att := s.att; att != nil {
		s.att = nil
		if !s.opened {
			status := 200
			if len(s.rec.Calls) == 0 {
				status = 500
			}
			s.Contain(func() { fault(att.conn, s.callID(), status) })
		}
		s.Contain(att.cut)
	}
	s.lost(errInternal)
}

func (s *streamActor) passOn() {
	if !s.opened || !s.rec.Safe || !has(s.rec.Revision, mcp.FeatureStreamPriming) {
		return
	}
	for _, c := range s.rec.Calls {
		if c.Never && !s.answered[string(c.ID)] {
			return
		}
	}
	for _, r := range s.reqs {
		_ = r.Post(giveUp{ErrClosing})
	}
}

// extent is how far a stream has got, and what is known of it without the log.
type extent struct {
	tail       uint64 // last append
	watermarks []record.Watermark
}

// unmount ends a standalone stream here. A call's stream ends with its call.
func (s *streamActor) unmount() {
	if len(s.rec.Calls) == 0 {
		_ = s.Post(handOver{})
	}
}

// takenOver begins a stream that another writer left.
type takenOver struct {
	rev uint64
	log *pastLog
}

// streams are the streams that a node writes now, by their keys, and the way to those that
// others write or nobody does.
type streams struct {
	*kernel.Directory[StreamKey, *streamActor]
	node *Node
}

// readWriter reads the writer record of a stream, with its revision. It fails with
// errBadEvent when there is none.
func (d *streams) readWriter(ctx context.Context, key StreamKey) (rec record.Stream, rev uint64, err error) {
	data, rev, err := d.node.store.Writer(ctx, key.path())
	if errors.Is(err, ErrNotFound) {
		return rec, 0, errBadEvent
	}
	if err != nil {
		return rec, 0, fmt.Errorf("actors: read writer record: %w", err)
	}
	if err := codec.Unmarshal(data, &rec); err != nil {
		return rec, 0, fmt.Errorf("actors: read writer record: %w", err)
	}
	if rec.Version > record.Version {
		return rec, 0, fmt.Errorf("actors: writer record of version %d, of a newer release; this one reads %d", rec.Version, record.Version)
	}
	return rec, rev, nil
}

// build makes the actor of a stream, which start starts. conn is its live connection, nil
// for none.
func (d *streams) build(svc *Service, sess *sessionActor, id string, rec record.Stream, conn Conn) *streamActor {
	n := d.node
	s := &streamActor{node: n, svc: svc, sess: sess, key: StreamKey{sess.key, id}, rec: rec, live: rec, m: stream.New(svc.Limits.Stream), written: n.clock.ahead(), ready: make(chan struct{})}
	s.path = s.key.path()
	if conn != nil {
		s.att = sess.newAttachment(svc, s.key, &rec, conn, stream.Position{Stream: id})
		s.att.live = true
	}
	return s
}

// endOf ends the streams that are written here of a session that is gone.
func (d *streams) endOf(key SessionKey) {
	d.Each(func(st *streamActor) {
		if st.key.Session == key {
			st.endStream()
		}
	})
}

// forget takes a stream's record out of the store; its events expire.
func (d *streams) forget(path string) {
	n := d.node
	ctx, cancel := context.WithTimeout(n.base, 30*time.Second)
	defer cancel()
	if err := n.store.EndStream(ctx, path); err != nil && !errors.Is(err, ErrNotFound) {
		n.log.Debug("events left to expire", "stream", path, "error", err)
	}
}

package actors

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors/internal/attachment"
	"github.com/troupe-run/troupe/actors/internal/record"
	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/store"
)

// streamActor is the writer of one SSE stream: it appends to the log, and hands acknowledged
// appends to the one live connection.
type streamActor struct {
	kernel.Actor
	streams *streams
	svc     *Terms
	key     StreamKey

	// ready is closed once, when the connection that began the stream is committed or refused;
	// unstored says then that the stream could not begin, and that its client knows. A stream that
	// was taken over is ready from the start.
	ready    chan struct{}
	unstored atomic.Bool

	// connected and left are the copies of att for other goroutines: there is a live connection,
	// and when the last one left, in unix nanoseconds.
	connected atomic.Bool
	left      atomic.Int64

	// complete says that the last append is stored. It is set before the actor stops, and says nothing
	// until then: the stream of an actor that has stopped without it goes on elsewhere, or later.
	complete bool

	recordState
	batchState
	waitState

	// order is that of a standalone stream that began here: later ones have a higher order. It
	// never changes.
	order uint64

	// The rest belongs to the actor's turn.

	m    *stream.Machine
	fx   []stream.Effect // of the step under way; those that were carried out are zero
	sess streamSession   // pays for the stream: the actor that the last connection belonged to

	// calls are the requests that the stream answers; none for a standalone stream, nor for those
	// of a lost node that have not begun again.
	calls []*kernel.Actor

	// att is the one live connection, nil for none. A new stream has conn, too, until opened is
	// set: then the response has begun, or was refused. closeEarly says to close the connection as
	// soon as it is open.
	att        reader
	conn       Conn
	closeEarly *closeConn

	// delivered is the last append that is stored and was handed on: connections get appends in
	// order, without a gap.
	delivered uint64

	// silent is set when the stream was cancelled: what is stored from then on is delivered to
	// nobody.
	opened, silent bool
}

// waitState is what of a stream waits for the log.
type waitState struct {
	// queued are the bytes that wait, for other goroutines.
	queued atomic.Int64

	// waits counts what waits on the account of the session, in steps of waitingStep: waiting is
	// what it holds.
	waits   quota.Holding
	waiting int64

	// steps are those of calls whose results are stored, or about to be, and stepBytes their size.
	steps, stepBytes atomic.Int64

	// turn says that the append under way has waited for its client's turn.
	turn bool
}

// askStream posts m to a stream and returns how far its writer has got.
func (m *attach) askStream(w *streamActor) (extent, error) {
	m.Init()
	if err := w.Post(m); err != nil {
		return extent{}, err
	}
	m.Wait()
	return m.at, m.err
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
		ofSession bool // sent to the session, not by a call
		taken     bool // the machine has the entries
	}
	appended        struct{ err error }
	recordRefreshed struct {
		rev     uint64
		err     error
		renewed bool // the body was renewed too
	}
	resend   struct{ turn bool } // turn: it has waited for its turn, see writeAppend
	outlived struct{}
	// attach makes att the stream's only live connection and returns the stream's tail.
	attach struct {
		kernel.Reply
		att  reader        // nil: only return the tail
		sess streamSession // the actor that the connection belongs to now
		at   extent
		err  error
	}
	// detach forgets a connection that is gone.
	detach    struct{ att reader }
	refresh   struct{}
	endStream struct{}
	// passOn leaves the stream to its next writer if its calls can go on there and its client comes
	// back by itself.
	passOn struct{}
	// handOver leaves a stream to its next writer: a call that may run again keeps its record, and
	// any other ends with -32010.
	handOver struct{}
	// quitStream ends a stream's actor with its node.
	quitStream struct{}
	// serveCall names the request whose response ends the stream.
	serveCall struct{ call *kernel.Actor }
)

func (m serveCall) Refused(err error) { _ = m.call.Post(streamGone{err}) }
func (a *attach) Refused(err error)   { a.err = err; a.Done() }
func (p *pushEntries) Refused(err error) {
	for i := range p.entries {
		p.entries[i].Drop(err)
	}
}

// Bulk reports that the message may be refused when many wait. The entries of a call are bounded,
// because its handler waits; notifications to sessions are not, and can be made good when refused.
func (p *pushEntries) Bulk() bool { return p.ofSession }

func (s *streamActor) Receive(m any) {
	switch m := m.(type) {
	case *pushEntries:
		if s.gather != nil {
			batchStream{s}.gatherEntries(m)
		} else {
			s.pushToLog(m)
		}
	case beginNow:
		batchStream{s}.beginBatch()
	case discardBatch:
		batchStream{s}.discardBatch()
	case appended:
		s.onAppended(m.err)
	case recordStored:
		writerRecord{s}.onRecordStored(m)
	case recordRefreshed:
		writerRecord{s}.onRecordRefreshed(m)
	case writerChecked:
		writerRecord{s}.onWriterChecked(m)
	case recordCreated:
		writerRecord{s}.onRecordCreated(m)
	case outlived:
		s.applyEvent(stream.Event{Op: stream.Outlived})
	case resend:
		s.turn = m.turn
		s.fx = s.m.Resend(s.fx[:0])
		s.performEffects()
		s.turn = false
	case refresh:
		if s.isAbandoned(time.Now()) {
			// Senders that wait for the store must not wait on: it may be away for longer than
			// ReplayAge.
			s.applyEvent(stream.Event{Op: stream.Fenced, Err: kernel.ErrStopped})
			return
		}
		s.renew = true
		s.due.Store(int64(s.streams.clock.sinceStart() + s.svc.Limits.StoreWait)) // or sooner, once this rewrite is done
		s.applyEvent(stream.Event{Op: stream.Refresh})
	case *attach:
		_, bytes := s.m.Kept()
		m.at = extent{tail: s.delivered, bytes: bytes, watermarks: append(s.live.Watermarks(), record.Watermark{Seen: s.past.Digest.Seen, Upto: s.delivered})}
		if m.att != nil {
			// The session may have left memory and come back since the stream began.
			s.sess = m.sess
			s.attachReader(m.att)
		}
		m.Done()
	case detach:
		if s.att == m.att {
			s.att = nil
			s.left.Store(time.Now().UnixNano())
		}
	case closeConn:
		batchStream{s}.beginBatch()
		if !s.opened {
			s.closeEarly = &m
		} else if s.att != nil {
			m.closeReader(s.att)
			s.att = nil
		}
	case alreadyAnswered:
		s.answered = m
	case adoptBody:
		writerRecord{s}.keepBody(m)
	case takenOver:
		s.applyEvent(stream.Event{Op: stream.Opened, Rev: m.rev, Epoch: s.rec.Epoch, Tail: m.log.Tail, Covered: s.rec.Tail, Sizes: m.log.Sizes})
	case handOver:
		streamEnd{s}.handOver()
	case passOn:
		streamEnd{s}.passOn()
	case quitStream:
		streamEnd{s}.quit()
	case serveCall:
		s.calls = append(s.calls, m.call)
	case endStream:
		s.applyEvent(stream.Event{Op: stream.Fenced, Err: ErrSessionEnded})
	}
	s.queued.Store(int64(s.m.Queued()))
	s.countWaiting()
	s.connected.Store(s.att != nil)
}

// pushToLog sends entries of a call, or to a session.
func (s *streamActor) pushToLog(m *pushEntries) {
	m.taken = true
	e := stream.Event{Op: stream.Push, Entries: m.entries, Last: m.last}
	switch {
	case len(s.rec.Calls) > 1:
		e.Last = batchStream{s}.noteEnds(m)
	case m.silent:
		s.muteDelivery()
		e.Op = stream.Cancel
	}
	s.applyEvent(e)
}

func (s *streamActor) applyEvent(e stream.Event) {
	s.chargeEntries(e.Entries)
	s.fx = s.m.Step(e, s.fx[:0])
	s.performEffects()
}

// performEffects carries effects out in order. None of them blocks.
func (s *streamActor) performEffects() {
	for i := range s.fx {
		switch e := &s.fx[i]; e.Do {
		case stream.DoAppend:
			if (writerRecord{s}).outlivesRecord() {
				_ = s.Post(outlived{})
				break
			}
			s.writeAppend(e.Num, e.Data)
		case stream.DoDeliver:
			s.deliverAppend(e)
		case stream.DoRefresh:
			writerRecord{s}.rewriteRecord(e.Num)
		case stream.DoLook:
			writerRecord{s}.checkWriter()
		case stream.DoCreate:
			writerRecord{s}.createRecord(e.Num)
		case stream.DoRetry:
			time.AfterFunc(e.After, func() { _ = s.Post(resend{}) })
		case stream.DoDrop:
			for i := range e.Entries {
				e.Entries[i].Drop(e.Err)
			}
		case stream.DoLost:
			streamEnd{s}.endLost(e.Err)
		}
		s.fx[i] = stream.Effect{}
	}
	s.fx = s.fx[:0]
}

// onAppended takes the outcome of the append in flight. It counts no tries: the store may be away
// for as long as the calls' own limits let them run.
func (s *streamActor) onAppended(err error) {
	switch {
	case err == nil && writerRecord{s}.outlivesRecord(): // the clock went back meanwhile
		s.applyEvent(stream.Event{Op: stream.Outlived})
	case err == nil:
		s.applyEvent(stream.Event{Op: stream.Stored})
	case errors.Is(err, store.ErrFenced):
		s.applyEvent(stream.Event{Op: stream.Guarded})
	case mayRetry(err):
		// Not done, or unknown. The same append with the same guard and number is the same message,
		// so it may be written again.
		s.applyEvent(stream.Event{Op: stream.Again})
	default:
		s.streams.log.Error("append refused", "stream", s.key.ID, "error", err)
		s.applyEvent(stream.Event{Op: stream.Fenced, Err: err})
	}
}

// deliverAppend hands an acknowledged append to the live connection.
func (s *streamActor) deliverAppend(e *stream.Effect) {
	from := s.delivered + 1
	s.delivered = e.Num
	s.countRecalls(s.past.NoteAppend(&s.live, e.Num, e.Epoch, e.Entries))
	for i := range e.Entries {
		e.Entries[i].Drop(nil)
	}
	s.cacheAppend(from, e)
	if s.att != nil && !s.silent {
		s.att.Frame(attachment.Frame{From: from, Append: stream.Append{Num: e.Num, Epoch: e.Epoch, Entries: batchStream{s}.withoutMuted(e.Entries), Last: e.Last}})
	}
	if e.Last {
		if s.att != nil && s.silent {
			s.att.Finish()
		}
		s.removeStream()
	}
}

// countRecalls counts calls that may no longer run again because their digest is full.
func (s *streamActor) countRecalls(calls int) {
	for range calls {
		s.streams.refusals.Refused(limits.Recall.Row)
	}
}

// isAbandoned reports whether nothing can be resumed from here any more: no call answers on the
// stream, and no connection has listened for the replay age. The stream's record is not renewed
// then, and expires.
func (s *streamActor) isAbandoned(now time.Time) bool {
	return len(s.calls) == 0 && s.att == nil && now.UnixNano()-s.left.Load() > int64(s.svc.Limits.ReplayAge)
}

// muteDelivery ends delivery. Entries that are in flight when a cancel is processed may be stored,
// but are not sent.
func (s *streamActor) muteDelivery() { s.silent = true }

// attachReader makes att the one live connection and cuts the old one.
func (s *streamActor) attachReader(att reader) {
	old := s.att
	s.att = att
	if old != nil {
		s.Contain(old.Cut)
	}
	sess := s.sess
	att.Gone(func() {
		_ = sess.Post(pinSession{-1})
		_ = s.Post(detach{att})
	})
	_ = sess.Post(pinSession{1})
}

// callID is the raw id of the one request that the stream answers, nil if there is none.
func (s *streamActor) callID() []byte {
	if len(s.rec.Calls) != 1 {
		return nil
	}
	return s.rec.Calls[0].ID
}

func (s *streamActor) markReady() {
	if !s.opened {
		s.opened, s.conn = true, nil
		close(s.ready)
	}
}

// removeStream takes the stream out of the directory and stops it. An ended stream is resumed from
// the log.
func (s *streamActor) removeStream() {
	s.streams.Drop(s.key, s)
	if s.complete = s.m.Phase() == stream.Ended; !s.complete { // another writer may go on
		s.streams.cache.DropStream(s.path)
	}
	s.waits.Reset()
	s.waiting = 0
	s.Actor.Stop()
}

// start starts the actor of a new stream that is not stored yet.
func (s *streamActor) start() {
	n := s.streams
	n.k.Start(&s.Actor, KindStream, s.path, s)
	n.Put(s.key, s)
}

// endStream ends the stream for good.
func (s *streamActor) endStream() {
	_ = s.Post(endStream{})
	go s.streams.forgetRecord(s.path)
}

// Failed ends the stream after a panic that may have left a step half done: the next append may
// never have been sent, and no later check would find out. The record still names this writer. So
// the next resume takes the stream over, and its calls run again or end with -32010 as after a
// crash.
func (s *streamActor) Failed(m any, last bool) {
	switch m := m.(type) {
	case *attach:
		// Only one connection failed, and nothing of the stream has changed.
		if s.att != nil && s.att == m.att {
			s.att = nil
			s.connected.Store(false)
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
	streamEnd{s}.cutShort()
}

// chargeEntries charges the client for entries, before they are stored: streams that begin
// meanwhile must know of them.
func (s *streamActor) chargeEntries(entries []stream.Entry) {
	bytes := 0
	for i := range entries {
		bytes += len(entries[i].Data)
	}
	if bytes > 0 {
		s.sess.billedAccount().Used[store.EventBudget].Add(time.Now(), int64(bytes), s.svc.recordTTL())
	}
}

// writeAppend writes an append of the stream: at once, or in its client's turn if the store has
// taken much from it lately. Until then it is in flight like any other.
func (s *streamActor) writeAppend(num uint64, data []byte) {
	n, a := s.streams, s.sess.billedAccount()
	pace, own := n.accounts.pace, &a.Used[usedLog]
	if !s.turn && !pace.Take(time.Now(), own, int64(len(data))) {
		go func() {
			pace.TakeInTurn(n.base, a, own, int64(len(data))) // a node that ends writes what it has
			_ = s.Post(resend{turn: true})
		}()
		return
	}
	n.appends.Add(1)
	n.store.Append(s.path, s.m.Rev(), num, data, func(err error) { _ = s.Post(appended{err}) })
}

// countWaiting counts what waits for the log on the account of the session. It does not refuse: who
// sends waits while the account has its share (Call.sendMessage).
func (s *streamActor) countWaiting() {
	n := s.m.Holds() + len(s.body) + int(s.stepBytes.Load())
	if s.gather != nil {
		n += s.gather.size
	}
	held := int64(n) / waitingStep * waitingStep
	switch {
	case held == s.waiting:
		return
	case held == 0:
		s.waits.Reset()
	case s.waiting > 0:
		s.waits.Set(held)
	default:
		for !s.waits.ChargeAnyway(s.streams.accounts.Accounts, s.sess.billedAccount(), quota.Waiting, held) {
		}
	}
	s.waiting = held
}

// cacheAppend keeps an append that was just stored; from is the number of its first part. One of
// several parts is read from the log when it is wanted, and what came before it, too: the numbers
// between are those of its parts.
func (s *streamActor) cacheAppend(from uint64, e *stream.Effect) {
	if e.Num != from {
		s.streams.cache.DropStream(s.path)
		return
	}
	low, _ := s.m.Kept()
	until := time.Now().Add(min(keptInMemory, s.svc.Limits.ReplayAge))
	s.streams.cache.Keep(s.path, stream.Append{Num: e.Num, Epoch: e.Epoch, Entries: e.Entries, Last: e.Last}, low, until)
}

// takeStepRoom takes room for the result of a step in the stream's record, or returns the limit
// that leaves none.
func (s *streamActor) takeStepRoom(bytes int) *limits.Row {
	if s.steps.Add(1) > maxSteps {
		return limits.CallSteps.Row
	}
	if s.stepBytes.Add(int64(bytes)) > maxStepBytes {
		s.steps.Add(-1)
		s.stepBytes.Add(-int64(bytes)) // a smaller one may fit
		return limits.CallStepBytes.Row
	}
	return nil
}

// lostCalls are the error responses to calls with an unknown outcome.
func lostCalls(calls []record.Call, answered map[string]bool) []stream.Entry {
	var finals []stream.Entry
	for _, c := range calls {
		if !answered[string(c.ID)] {
			finals = append(finals, stream.Entry{Kind: stream.Final, Meta: c.ID, Data: codec.AppendError(nil, c.ID, refusal.Lost.Code, refusal.Lost.Text, nil)})
		}
	}
	return finals
}

// lostCall is the same response for one request.
func lostCall(id []byte) []byte { return lostCalls([]record.Call{{ID: id}}, nil)[0].Data }

var (
	maxSteps      = int64(limits.CallSteps.Value())
	maxStepBytes  = int64(limits.CallStepBytes.Value())
	maxStateSteps = limits.StateSteps.Value()
)

// closeConn asks to close the connection so that the client comes back: soon or, if
// this process is leaving, when the next one is there.
type closeConn struct{ leaving bool }

type streamGone struct{ err error }

type giveUp struct{ cause error }

// pinSession counts connections that keep the session in memory.
type pinSession struct{ by int }

// streamEnd is a stream as it ends: with its calls, with its node, or by another writer.
type streamEnd struct{ *streamActor }

func (s streamEnd) handOver() {
	if s.gather != nil {
		batchStream(s).giveUpGathering()
		return
	}
	if len(s.rec.Calls) > 0 && (s.streams.drain.endsStore() || !s.runsAgain()) {
		s.applyEvent(stream.Event{Op: stream.Push, Entries: lostCalls(s.rec.Calls, s.answered), Last: true})
		return
	}
	s.quit()
}

// runsAgain reports whether a call of the stream that needs an answer may run again.
func (s streamEnd) runsAgain() bool {
	for i := range s.live.Calls {
		if s.live.MayRerun(i) && !s.answered[string(s.live.Calls[i].ID)] {
			return true
		}
	}
	return false
}

// quit ends the actor: the stream stays as it is stored, and entries that are not stored are
// dropped.
func (s streamEnd) quit() {
	switch {
	case s.att == nil:
	case s.opened:
		s.att.Reconnect()
	default: // the client has no event id of the stream yet
		s.refuseStart(refusal.Unavailable)
		s.unstored.Store(true)
	}
	s.att = nil
	s.markReady()
	s.removeStream()
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

// refuseStart refuses the requests of a stream that cannot begin because of err.
func (s streamEnd) refuseStart(err error) {
	if _, limited := errors.AsType[*refusal.Refusal](err); !limited {
		err = refusal.Unavailable
	}
	switch calls := s.rec.Calls; len(calls) {
	case 0:
		s.streams.refusals.refuseRequest(s.conn, err, nil)
	case 1:
		s.streams.refusals.refuseInSession(s.conn, err, calls[0].ID)
	default:
		s.streams.refusals.refuseBatch(s.conn, err, func(yield func([]byte) bool) {
			for i := range calls {
				if !yield(calls[i].ID) {
					return
				}
			}
		})
	}
}

// endLost ends a stream that another writer has taken over, or that cannot be stored.
func (s streamEnd) endLost(err error) {
	if s.att != nil {
		if !s.opened {
			s.refuseEnded()
		} else if errors.Is(err, ErrSessionEnded) {
			s.att.Finish()
		} else {
			s.att.Cut()
		}
		s.att = nil
	}
	if !s.opened {
		s.unstored.Store(true)
	}
	s.markReady() // last, because a waiter that sees no response takes it for a fault
	for _, r := range s.calls {
		_ = r.Post(streamGone{err})
	}
	s.removeStream()
}

// refuseEnded answers a request whose stream ends before it has begun: the session of a call is
// gone; a standalone stream may only have been replaced.
func (s streamEnd) refuseEnded() {
	if len(s.rec.Calls) == 0 && !s.sess.hasEnded() {
		s.conn.Open()
		s.conn.Finish()
		return
	}
	refusal.SessionEnded.Tell(s.conn, s.callID())
}

// cutShort carries out the rest of a step as far as others wait for it, and ends the stream as
// lost. Each part may panic for the same reason as the step.
func (s streamEnd) cutShort() {
	left := s.fx // effects that were carried out are zero
	s.fx = nil
	s.Contain(func() { left = s.m.Step(stream.Event{Op: stream.Fenced, Err: errInternal}, left) })
	for i := range left {
		for k := range left[i].Entries {
			e := &left[i].Entries[k]
			s.Contain(func() { e.Drop(left[i].Err) }) // nil for stored entries
		}
	}
	if att := s.att; att != nil {
		s.att = nil
		if !s.opened {
			status := 200
			if len(s.rec.Calls) == 0 {
				status = 500
			}
			s.Contain(func() { sendInternalError(s.conn, s.callID(), status) })
		}
		s.Contain(att.Cut)
	}
	s.endLost(errInternal)
}

func (s streamEnd) passOn() {
	if s.streams.drain.alone || !s.opened || !s.rec.Safe || !hasFeature(s.rec.Revision, protocol.FeatureStreamPriming) {
		return
	}
	for _, c := range s.rec.Calls {
		if c.Never && !s.answered[string(c.ID)] {
			return
		}
	}
	for _, r := range s.calls {
		_ = r.Post(giveUp{ErrClosing})
	}
}

// unmountStream ends a standalone stream here. A call's stream ends with its call.
func (s streamEnd) unmountStream() {
	if len(s.rec.Calls) == 0 {
		_ = s.Post(handOver{})
	}
}

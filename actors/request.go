package actors

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
	"unsafe"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/request"
	"github.com/troupe-run/troupe/internal/stream"
	"github.com/troupe-run/troupe/mcp"
)

// Why a handler's context ends. Handlers see them as context.Cause.
var (
	// ErrCancelled is the cause when the client cancelled the request.
	ErrCancelled = errors.New("cancelled by the client")
	// ErrDeadline is the cause when a call has run for as long as any may.
	ErrDeadline = errors.New("the call ran for too long")
	// ErrSessionEnded is the cause when the client deleted the session.
	ErrSessionEnded = errors.New("the session has ended")
	// ErrStreamLost is the cause when the call can no longer be answered.
	ErrStreamLost = errors.New("the call's stream was lost")
	errInternal   = errors.New("actors: internal error")
	errReturned   = errors.New("the handler has returned")
)

// requestActor is one in-flight request. Its handler runs on the goroutine that
// read it, never in the actor's turn; what others want of it comes as messages.
type requestActor struct {
	kernel.Actor
	node *Node
	svc  *Service
	sess *sessionActor // nil for a request that stands for itself, over HTTP
	self *standing     // of a request that stands for itself (2026-07-28), else nil
	conn Conn
	from *quota.Account // that the request counts on

	started time.Time
	id      []byte // raw token, the actor's own copy
	call    *Call
	turn    uint64 // counts the requests that the actor has stood for
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	graced  bool
	out     *codec.Buffer

	body     []byte // the request as it came, until the handler returns
	phase    request.Phase
	stream   *streamActor
	onMark   func(error)   // told when the end mark is stored
	gate     *request.Gate // nil before there is progress
	notified int           // messages emitted or passed over, those of earlier runs included
	held     *progressed   // newest progress that waits for the second to end

	begin  beginCall
	end    endCall
	result callResult
	retire retire

	handed bool // to who resumes its stream; only the handler is still here
	// used is set once anything outside may still refer to the actor, which
	// then is not used again.
	used bool
}

type (
	// callResult is the handler's return: data is the encoded response.
	callResult struct {
		kernel.Reply
		data  []byte
		idEnd int // where the id ends in it
		code  int // of the error that it is, 0 for a result
		later bool
	}
	// emitted is something for the client; the handler's own notifications are
	// numbered.
	emitted struct {
		entry    stream.Entry
		numbered bool
	}
	graceOver struct{}
	// cancelRequest is the client's cancel. acked is called once it cannot be
	// forgotten any more.
	cancelRequest struct {
		reason string
		acked  func(error)
	}
	abandon    struct{ cause error }
	giveUp     struct{ cause error }
	streamGone struct{ err error }
	// closeConn asks to close the connection and let the client come back: soon, or
	// when there is a process to come back to if this one is leaving.
	closeConn struct{ leaving bool }
	// progressed is progress offered by the handler.
	progressed struct {
		value float64
		data  []byte
		meta  []byte
		acked func(error)
	}
	flushHeld struct{}
	// retire ends the actor's standing for a request. Whoever sends it waits: a
	// goroutine that a handler left behind may have the actor's turn.
	retire struct{ kernel.Reply }
)

func (c *callResult) Refused(error)    { c.Done() }
func (m *retire) Refused(error)        { m.Done() }
func (c *cancelRequest) Refused(error) { c.acked(nil) }

func (e *emitted) Refused(err error)    { e.entry.Drop(err) }
func (p *progressed) Refused(err error) { p.drop(err) }
func (p *progressed) drop(err error) {
	if p.acked != nil {
		p.acked(err)
	}
}

func (r *requestActor) Receive(m any) {
	switch m := m.(type) {
	case called:
		if m.turn != r.turn {
			m.Refused(errReturned)
			return
		}
		r.Receive(m.m)
	case *retire:
		r.turn++
		m.Done()
	case *callResult:
		r.sendHeld()
		rest := m.data[m.idEnd:]
		if r.self != nil && r.self.parking != nil { // the id is that of another request now
			m.data = withID(r.id, rest)
		}
		r.step(request.Result, m.data, nil)
		if r.self != nil {
			r.concluded(rest)
		}
		m.Done()
	case *tally:
		m.countAlone(r)
		m.Done()
	case *askMore:
		r.askMore(m)
	case *retried:
		r.retried(m)
	case connGone:
		r.connectionGone(m)
	case *emitted:
		if m.numbered {
			r.notified++
			m.entry.Meta = appendMember(binary.AppendUvarint(nil, uint64(r.notified)), r.call.member)
		}
		r.emit(m.entry)
	case passed:
		r.notified++
	case *progressed:
		r.progress(m)
	case *upgradeNow:
		r.step(request.Grace, nil, nil)
		if r.stream != nil {
			m.stream = r.stream.key.ID
		}
		m.Done()
	case *askClient:
		r.askClient(m)
	case adoptStream:
		r.phase, r.stream = request.Streaming, m.w
		if err := m.w.Post(serveCall{r}); err != nil { // it has ended before it could know
			r.step(request.Lost, nil, fmt.Errorf("%w: %w", ErrStreamLost, err))
		}
	case flushHeld:
		r.sendHeld()
	case graceOver:
		r.tick()
	case *cancelRequest:
		r.onMark = m.acked
		r.step(request.Cancel, nil, fmt.Errorf("%w: %s", ErrCancelled, m.reason))
		if r.onMark != nil { // there is no mark to wait for
			r.onMark = nil
			m.acked(nil)
		}
	case abandon:
		r.step(request.Cancel, nil, m.cause)
	case giveUp:
		r.step(request.GiveUp, nil, m.cause)
	case streamGone:
		r.step(request.Lost, nil, fmt.Errorf("%w: %w", ErrStreamLost, m.err))
	case closeConn:
		if r.stream == nil {
			r.step(request.Grace, nil, nil)
		}
		if r.stream != nil {
			_ = r.stream.Post(m)
		}
	}
}

// tick is the grace period's end, and later the deadline.
func (r *requestActor) tick() {
	if r.phase == request.Parked {
		r.outwaited()
		return
	}
	if r.phase > request.Streaming {
		return
	}
	if r.graced {
		r.node.refusals.count(MaxCall)
		r.step(request.Deadline, nil, ErrDeadline)
		return
	}
	r.graced = true
	r.timer.Reset(r.svc.Limits.MaxCall)
	r.step(request.Grace, nil, nil)
}

func (r *requestActor) emit(e stream.Entry) {
	if r.self != nil {
		r.emitAlone(e)
		return
	}
	if l := r.link(); l != nil {
		if r.phase != request.Plain {
			e.Drop(stream.ErrEnded)
			return
		}
		l.send(e.Data)
		e.Drop(nil)
		return
	}
	phase, act := request.Step(r.phase, request.Emit)
	r.phase = phase
	if act&request.Upgrade != 0 {
		r.upgrade()
	}
	if act&request.Send != 0 && r.stream != nil {
		push := &pushEntries{entries: []stream.Entry{e}}
		if err := r.stream.Post(push); err != nil {
			push.Refused(err)
		}
		return
	}
	e.Drop(stream.ErrEnded)
}

func (r *requestActor) progressGate() *request.Gate {
	if r.gate == nil {
		r.gate = new(request.Gate)
	}
	return r.gate
}

func (r *requestActor) progress(p *progressed) {
	now := time.Now()
	verdict := r.progressGate().Offer(p.value, now)
	if r.held != nil && !(p.value > r.held.value) {
		verdict = request.Stale // what is held has been offered, though not sent
	}
	switch verdict {
	case request.Pass:
		r.held = nil
		r.emit(stream.Entry{Kind: stream.Progress, Meta: p.meta, Data: p.data, Acked: p.acked})
		return
	case request.Hold:
		if r.held == nil {
			time.AfterFunc(r.gate.Wait(now), func() { _ = r.Post(flushHeld{}) })
			r.used = true
		}
		r.held = p
	}
	p.drop(nil)
}

// sendHeld sends the newest progress of a second that had too many.
func (r *requestActor) sendHeld() {
	if h := r.held; h != nil {
		r.held = nil
		r.progressGate().Raise(h.value)
		r.emit(stream.Entry{Kind: stream.Progress, Meta: h.meta, Data: h.data})
	}
}

// askClient puts a question on the call's stream. Where the call may run again
// the answer is recorded before the handler sees it.
func (r *requestActor) askClient(m *askClient) {
	if r.stream == nil {
		r.step(request.Grace, nil, nil)
	}
	if r.stream != nil && r.stream.rec.Safe {
		r.node.questions.record(m.x, r.stream)
	}
	r.emit(m.entry)
}

// step takes the request through e and carries out what follows.
func (r *requestActor) step(e request.Event, data []byte, cause error) {
	if r.self != nil {
		r.stepAlone(e, data, cause)
		return
	}
	if r.link() != nil && r.stepOnLink(e, cause) {
		return
	}
	phase, act := request.Step(r.phase, e)
	r.phase = phase
	if act&request.Upgrade != 0 {
		r.upgrade()
	}
	if act&request.Answer != 0 {
		r.conn.Answer(200, data)
	}
	if act&request.Final != 0 {
		entry := stream.Entry{Kind: stream.Final, Meta: r.id, Data: append([]byte(nil), data...)}
		_ = r.stream.Post(&pushEntries{entries: []stream.Entry{entry}, last: true})
	}
	if act&request.HandOver != 0 {
		r.handed = true
		r.node.handed.Add(1)
		_ = r.stream.Post(handOver{})
	}
	if act&request.StopCall != 0 {
		r.cancel(cause)
	}
	if act&request.Refuse != 0 {
		r.node.refusals.turnAway(r.conn, errUnavailable, r.id)
	}
	if act&request.EmptyEnd != 0 {
		r.conn.Open()
		r.conn.Finish()
	}
	if act&request.MarkEnd != 0 {
		mark := &pushEntries{entries: []stream.Entry{{Kind: stream.End, Meta: bytes.Clone(r.id), Acked: r.onMark}}, last: true, silent: true}
		r.onMark = nil
		if err := r.stream.Post(mark); err != nil {
			mark.Refused(err)
		}
	}
}

// stepOnLink takes a request whose session lives on a connection through what goes
// differently there: no stream begins, and a call that is given up cannot be found
// again. It reports whether e was such an event.
func (r *requestActor) stepOnLink(e request.Event, cause error) bool {
	switch {
	case e == request.Grace:
		return true
	case e == request.GiveUp && r.phase == request.Plain:
		r.phase = request.Dropped
		r.cancel(cause)
		for _, lost := range lostCalls([]callRecord{{ID: r.id}}, nil) {
			r.conn.Answer(200, lost.Data)
		}
		return true
	}
	return false
}

// link is the connection that the request's session lives on, nil if none does.
func (r *requestActor) link() *link {
	if r.sess == nil {
		return nil
	}
	return r.sess.link
}

// upgrade makes the call resumable: its stream stores the call record and only
// then sends headers.
func (r *requestActor) upgrade() {
	r.used = true
	r.stream = r.startStream()
}

// idKey is the id as the session's table knows it, without a copy.
func (r *requestActor) idKey() string { return unsafe.String(unsafe.SliceData(r.id), len(r.id)) }

// run enters the request in its session, runs the handler on this goroutine and
// sees the answer off: see enter.
func (r *requestActor) run(limit int) error {
	err := r.enter(limit)
	if err == nil {
		r.serve()
	}
	return err
}

// enter makes the request known to its session. limit bounds the calls of the
// session, 0 does not; the error tells why it was not begun.
func (r *requestActor) enter(limit int) error {
	if r.sess != nil {
		r.begin.Init()
		r.begin.req, r.begin.limit = r, limit
		err := r.sess.Post(&r.begin)
		if err == nil {
			r.begin.Wait()
			err = r.begin.err
		}
		if err != nil {
			r.cancel(err)
			return err
		}
	}
	switch {
	case r.graced:
		r.timer.Reset(r.svc.Limits.MaxCall)
	case r.self != nil:
		r.timer.Reset(r.svc.Limits.GraceAlone)
	default:
		r.timer.Reset(r.svc.Limits.Grace)
	}
	return nil
}

// serve runs the handler and hands its answer over.
func (r *requestActor) serve() {
	id := r.id // which changes when the request is sent again
	head := append(r.out.B[:0], `{"jsonrpc":"2.0","id":`...)
	head = append(head, id...)
	r.result.idEnd = len(head)
	head = append(head, `,"result":`...)
	out, err := r.handle(head)
	r.result.code, r.result.later = 0, false
	if err != nil {
		out = codec.AppendError(head[:0], id, err.Code, err.Message, compact(err.Data))
		r.result.code = err.Code
		r.result.later = err == Unavailable
	} else {
		out = append(out, '}')
	}
	r.out.B = out
	// The id is free before the client can know that: it may use it again at once.
	if r.sess != nil {
		r.end.Init()
		r.end.req = r
		if r.sess.Post(&r.end) == nil {
			r.end.Wait()
		}
	}
	r.result.Init()
	r.result.data = out
	l := r.link()
	paced := l != nil && l.pace(r.node.base) == nil
	if r.Post(&r.result) == nil {
		r.result.Wait()
	}
	if paced {
		l.paced()
	}
	r.cancel(errReturned)
	if !r.timer.Stop() {
		r.used = true
	}
	if r.stream != nil {
		<-r.stream.ready
	}
	if self := r.self; self != nil {
		if !self.stop() {
			r.used = true
		}
		if self.park != "" {
			r.node.parks.Drop(self.park, r)
		}
		r.node.standings.drop(r)
	}
	r.retire.Init()
	if r.Post(&r.retire) == nil {
		r.retire.Wait()
	}
	r.release()
}

// compact makes what a handler gave as error data fit for a frame: on one line,
// or left out where it is not JSON.
func compact(data []byte) []byte {
	if len(data) == 0 || !codec.Valid(data) {
		return nil
	}
	return codec.AppendCompact(nil, data)
}

// handle keeps a panic of the handler to this request.
func (r *requestActor) handle(head []byte) (out []byte, err *mcp.Error) {
	defer func() {
		if p := recover(); p != nil {
			r.node.k.CountPanic()
			r.node.log.Error("handler panicked", "method", string(r.call.msg.Method), "panic", p, "stack", string(debug.Stack()))
			out, err = nil, &mcp.Error{Code: mcp.CodeInternalError, Message: "internal error"}
		}
	}()
	return r.svc.Handler.Serve(r.ctx, r.call, head)
}

package actors

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
	"unsafe"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/faults"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/record"
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
	way  way
	from *quota.Account // that the request counts on

	logged    logged     // the delivery that way names, of most requests
	stateless *stateless // of a stateless request, which only what handles those uses
	parking   *parking   // of a call that has asked its client to send the request again, or was sent again

	started    time.Time
	id         []byte // raw token, the actor's own copy
	call       *Call
	generation uint64 // counts the requests that the actor has stood for
	ctx        context.Context
	cancel     context.CancelCauseFunc
	timer      *time.Timer
	graced     bool
	out        *codec.Buffer

	body     []byte // the request as it came, until the handler returns
	phase    request.Phase
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
		id     string // as the client knows it; a call that is sent again has another by then
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
		if m.generation != r.generation {
			m.Refused(errReturned)
			return
		}
		r.Receive(m.m)
	case *retire:
		r.generation++
		m.Done()
	case *callResult:
		r.sendHeld()
		rest := m.data[m.idEnd:]
		if r.parking != nil { // the id is that of another request now
			m.data = withID(r.id, rest)
		}
		r.step(request.Result, response{data: m.data, code: m.code, later: m.later}, nil)
		r.concluded(rest)
		m.Done()
	case *tally:
		m.countStateless(r)
		m.Done()
	case *needInput:
		r.needInput(m)
	case *retried:
		r.retried(m)
	case connGone:
		r.connectionGone(m)
	case *emitted:
		if m.numbered {
			r.notified++
			m.entry.Meta = record.AppendMember(binary.AppendUvarint(nil, uint64(r.notified)), r.call.member)
		}
		r.emit(m.entry)
	case passed:
		r.notified++
	case *progressed:
		r.progress(m)
	case *upgradeNow:
		r.step(request.Grace, response{}, nil)
		m.stream = r.logged.stream
		m.Done()
	case adoptStream:
		r.phase, r.logged.stream = request.Streaming, m.w
		if err := m.w.Post(serveCall{r}); err != nil { // it has ended before it could know
			r.step(request.Lost, response{}, fmt.Errorf("%w: %w", ErrStreamLost, err))
		}
	case flushHeld:
		r.sendHeld()
	case graceOver:
		r.tick()
	case *cancelRequest:
		if m.id != r.idKey() || r.handOn() {
			m.acked(nil)
			return
		}
		r.onMark = m.acked
		r.step(request.Cancel, response{}, fmt.Errorf("%w: %s", ErrCancelled, m.reason))
		if r.onMark != nil { // there is no mark to wait for
			r.onMark = nil
			m.acked(nil)
		}
	case abandon:
		r.step(request.Cancel, response{}, m.cause)
	case giveUp:
		r.step(request.GiveUp, response{}, m.cause)
	case streamGone:
		r.step(request.Lost, response{}, fmt.Errorf("%w: %w", ErrStreamLost, m.err))
	case closeConn:
		r.step(request.Grace, response{}, nil)
		if r.logged.stream != nil {
			_ = r.logged.stream.Post(m)
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
		r.step(request.Deadline, response{}, ErrDeadline)
		return
	}
	r.graced = true
	r.timer.Reset(r.svc.Limits.MaxCall)
	r.step(request.Grace, response{}, nil)
}

func (r *requestActor) emit(e stream.Entry) {
	phase, act := request.Step(r.phase, request.Emit)
	r.phase = phase
	if act&request.Open != 0 {
		r.way.open()
	}
	if act&request.Send == 0 {
		e.Drop(stream.ErrEnded)
		return
	}
	r.way.send(e)
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

// step takes the request through e and carries out what follows. a is the response, if e
// brings one.
func (r *requestActor) step(e request.Event, a response, cause error) {
	phase, act := request.Step(r.phase, e)
	r.phase = phase
	if act&request.Open != 0 {
		r.way.open()
	}
	if act&request.Answer != 0 {
		r.way.answer(a)
	}
	if act&request.StopCall != 0 {
		r.cancel(cause)
		r.goOn(more{err: cause})
	}
	if act&request.Withdraw != 0 {
		r.way.end(cancelled, r.id)
		r.endOthers(cancelled)
	}
	if act&request.Abandon != 0 {
		r.way.end(givenUp, r.id)
		r.endOthers(givenUp)
	}
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
// session, 0 does not; the error tells why it was not begun. Then the request may enter
// once more, or else is to be cancelled.
func (r *requestActor) enter(limit int) error {
	if err := r.way.table.enter(r, limit); err != nil {
		return err
	}
	if r.graced {
		r.timer.Reset(r.svc.Limits.MaxCall)
	} else {
		r.timer.Reset(r.way.grace)
	}
	return nil
}

// serve runs the handler, hands its answer over and releases the actor.
func (r *requestActor) serve() {
	r.work()
	r.release()
}

// work runs the handler and hands its answer over. Nothing finds the request afterwards.
func (r *requestActor) work() {
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
	r.way.table.remove(r)
	r.result.Init()
	r.result.data = out
	pace := r.way.pace
	paced := pace.pace(r.node.base) == nil
	if r.Post(&r.result) == nil {
		r.result.Wait()
	}
	if paced {
		pace.paced()
	}
	r.cancel(errReturned)
	if !r.timer.Stop() {
		r.used = true
	}
	if r.logged.stream != nil {
		<-r.logged.stream.ready
	}
	r.retire.Init()
	if r.Post(&r.retire) == nil {
		r.retire.Wait()
	}
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

// calls makes the actors of requests, and keeps them, with their PIDs, for the next ones.
type calls struct {
	node *Node
	mu   sync.Mutex // guards free
	free []*requestActor
}

// callsKept is how many actors are kept.
const callsKept = 512

// actor returns one for a request that a has been charged with.
func (p *calls) actor(a *quota.Account) *requestActor {
	n := p.node
	p.mu.Lock()
	var r *requestActor
	if k := len(p.free); k > 0 {
		r, p.free = p.free[k-1], p.free[:k-1]
	}
	p.mu.Unlock()
	if r == nil {
		r = &requestActor{node: n}
		n.k.Start(&r.Actor, KindRequest, "", r)
		r.timer = time.AfterFunc(time.Hour, func() { _ = r.Post(graceOver{}) })
		r.timer.Stop()
	} else {
		r.Wake()
	}
	r.from, r.out = a, codec.GetBuffer()
	return r
}

// begins makes the actor stand for a request, which is delivered in the way w.
func (r *requestActor) begins(svc *Service, w way, m *codec.Message, body []byte, c *Call) {
	r.svc, r.way, r.body, r.started = svc, w, body, time.Now()
	r.id = append(r.id[:0], m.ID...)
	// Once a session or a stream knows the request, others may cancel it.
	// The node's own context is no parent: its list of children would be the one
	// lock that all calls share.
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	c.ctx = r.ctx
	c.r, c.generation, c.msg = r, r.generation, m
	c.client, c.pace = w.client, w.pace
	c.own = bytes.Clone(m.ProgressToken)
	c.token.Store(&c.own)
	r.call = c
}

// release ends the request, when nothing can find it any more.
func (r *requestActor) release() {
	n := r.node
	if r.from != nil {
		n.accounts.Leave(r.from)
	}
	r.out.Free()
	if r.handed {
		n.drain.handed.Add(-1)
	}
	if r.used {
		r.Actor.Stop()
		return
	}
	r.svc, r.way, r.logged, r.from, r.out, r.ctx, r.cancel = nil, way{}, logged{}, nil, nil, nil, nil
	r.stateless, r.call, r.body = nil, nil, nil
	r.phase, r.gate, r.notified, r.graced = request.Plain, nil, 0, false
	r.Rest()
	p := &n.calls
	p.mu.Lock()
	keep := len(p.free) < callsKept && !n.drain.closing.Load()
	if keep {
		p.free = append(p.free, r)
	}
	p.mu.Unlock()
	if !keep {
		r.Wake()
		r.Actor.Stop()
	}
}

// close ends the actors that are kept.
func (p *calls) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.free {
		r.Wake()
		r.Actor.Stop()
	}
	p.free = nil
}

// fault answers what a contained panic has left without an answer. A request of a session
// has status 200, see refuseInSession.
func fault(c answerer, id []byte, status int) {
	f := *faults.Internal
	f.Status = status
	f.Tell(c, id)
}

// Failed sees to it that nobody waits for what a panic has cut short. Where that was the
// answer, or the opening of a response, the client is told that something is wrong, or
// its connection ends.
func (r *requestActor) Failed(m any, last bool) {
	if c, ok := m.(called); ok {
		m = c.m
	}
	if m, ok := m.(kernel.Refusable); ok {
		defer m.Refused(errInternal)
	}
	switch m := m.(type) {
	case *callResult:
		r.unanswered()
	case *retried:
		if m.verdict == taken { // by half
			r.stop()
			r.forget(m.x)
		}
	case abandon, giveUp, streamGone, graceOver, connGone, closeConn:
		r.stop()
		if r.logged.stream == nil {
			r.unanswered()
		}
	}
	if last {
		r.stop()
	}
}

// stop ends the handler's wait, and its context.
func (r *requestActor) stop() {
	if r.cancel != nil {
		r.cancel(errInternal)
	}
	r.goOn(more{err: errInternal})
}

// forget undoes that x is the exchange that the call answers: who brought it sees to it.
func (r *requestActor) forget(x brought) {
	r.serveNobody()
	if r.from == x.from {
		r.from = nil
	}
}

// unanswered ends the exchange of a request whose answer was cut short.
func (r *requestActor) unanswered() {
	r.phase = request.Dropped
	r.way.end(broken, r.id)
	r.way.delivery = nowhere{}
	r.Contain(func() { r.endOthers(givenUp) })
}

// internalError is the response to the request id that a panic has cut short.
func internalError(id []byte) []byte {
	return codec.AppendError(nil, id, faults.Internal.Code, faults.Internal.Text, nil)
}

// upgradeNow makes a request's answer a stream.
type upgradeNow struct {
	kernel.Reply
	stream *streamActor
}

func (u *upgradeNow) Refused(error) { u.Done() }

// hasten makes a stream of the call, which may otherwise be answered plainly for longer.
func (r *requestActor) hasten(begun time.Time) {
	if !r.started.After(begun) && !r.own() {
		_ = r.Post(closeConn{leaving: true})
	}
}

// own reports whether only this node can end the call of a session: it may not run again, or nothing tells its client
// to come back for it. It is for the session's turn, while the call is in its table.
func (r *requestActor) own() bool {
	m := r.call.msg
	return !r.way.returns || !r.svc.Handler.Safe(m.Method, m.Name)
}

// adoptStream gives a call that runs again the stream it had.
type adoptStream struct{ w *streamActor }

// lostCalls are the answers to calls whose outcome nobody knows.
func lostCalls(calls []record.Call, answered map[string]bool) []stream.Entry {
	var finals []stream.Entry
	for _, c := range calls {
		if !answered[string(c.ID)] {
			finals = append(finals, stream.Entry{Kind: stream.Final, Meta: c.ID, Data: codec.AppendError(nil, c.ID, faults.Lost.Code, faults.Lost.Text, nil)})
		}
	}
	return finals
}

// lostCall is that answer to one request.
func lostCall(id []byte) []byte { return lostCalls([]record.Call{{ID: id}}, nil)[0].Data }

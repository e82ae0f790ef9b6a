package actors

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/troupe-run/troupe/actors/internal/record"
	"github.com/troupe-run/troupe/actors/internal/request"
	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/guard"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/mcp"
)

// The causes for which a handler's context ends. Handlers read them with context.Cause.
var (
	// ErrCancelled is the cause when the client cancelled the request.
	ErrCancelled = errors.New("cancelled by the client")
	// ErrDeadline is the cause when a call has run for as long as the limit MaxCall allows.
	ErrDeadline = errors.New("the call ran for too long")
	// ErrRequestEnded is the cause when a middleware has ended the context of a stateless request,
	// such as one that gives requests a deadline. What has ended it is wrapped, too.
	ErrRequestEnded = errors.New("the request's context ended")
	// ErrStreamLost is the cause when the call can no longer be answered.
	ErrStreamLost = errors.New("the call's stream was lost")

	errReturned = errors.New("the handler has returned")
)

// requestActor is one request in flight. Its handler runs on the goroutine that read the request,
// never in the actor's turn; others reach the request by messages. When the request is over, the
// actor rests, and serves another one later, unless used is set.
type requestActor struct {
	kernel.Actor
	pool   *requestPool
	svc    *Service
	way    way            // its delivery changes in the actor's turn alone
	from   *quota.Account // the request is counted on it; nil while it waits for its client
	memory quota.Holding  // what it holds beside the memory of its exchange

	logged    logged     // the delivery of most requests, to which way points
	stateless *stateless // of a stateless request, nil for others
	parking   *parking   // nil until the call first asks its client to send the request again, or is such a request

	started time.Time
	id      []byte // raw token, the actor's own copy; it changes when the client sends the request again
	call    *Call

	// generation counts the requests that the actor has served: a message with a lower one is for a
	// request that is over.
	generation uint64

	ctx    context.Context // the handler's; it ends when the request does
	cancel context.CancelCauseFunc

	// timer runs until the end of the grace and then, once graced is set, until the deadline.
	timer  *time.Timer
	graced bool

	out   *codec.Buffer // gets the response; it is freed as soon as that is handed on
	body  []byte        // the request as it came, until the handler returns
	size  int           // of the message, or the batch, that it came in
	phase request.Phase

	// onMark gets the outcome of storing what ends a call that its client has cancelled, or an
	// operator has ended, and is nil otherwise.
	onMark func(error)
	// ended is set once an operator has ended the call, which has its response then, though its
	// handler may not have returned.
	ended bool

	// notified counts the messages that were emitted or passed over, those of earlier runs
	// included: it is the number of the last one.
	notified int

	begin  beginCall
	end    endCall
	result callResult
	retire retire

	lastingState

	handedOver bool // handed over to a resume of its stream; only the handler is still here
	// used is set once anything outside may still refer to the actor. Such an actor does
	// not go back to the pool.
	used bool
}

type (
	// callResult reports that the handler returned; data is the encoded response.
	callResult struct {
		kernel.Reply
		response
		idEnd int // where the id ends in its data
	}
	// emitted is an entry for the client. The handler's own notifications are numbered.
	emitted struct {
		entry    stream.Entry
		numbered bool
	}
	graceOver struct{}
	// cancelRequest is the client's cancel. acked is called once no crash can undo the
	// cancel.
	cancelRequest struct {
		id     string // the id that the client cancelled; a call that was sent again has another by then
		reason string
		acked  func(error)
	}
	abandon struct{ cause error }

	// progressed is progress that the handler offers.
	progressed struct {
		value float64
		data  []byte
		meta  []byte
		acked func(error)
	}
	flushHeld struct{}
	// visitRequest calls a function in the request's turn.
	visitRequest struct {
		kernel.Reply
		visit func(*requestActor)
	}
	// retire ends the actor's service of one request. Its sender waits, because a goroutine
	// that the handler left behind may be in the actor's turn.
	retire struct{ kernel.Reply }
)

func (c *callResult) Refused(error)    { c.Done() }
func (m *retire) Refused(error)        { m.Done() }
func (m *visitRequest) Refused(error)  { m.Done() }
func (c *cancelRequest) Refused(error) { c.acked(errNotHere) }

func (e *emitted) Refused(err error)    { e.entry.Drop(err) }
func (p *progressed) Refused(err error) { p.dropProgress(err) }
func (p *progressed) dropProgress(err error) {
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
		lastingCall{r}.sendHeldProgress()
		rest := m.data[m.idEnd:]
		if r.call.Detached() != nil || r.ended { // it has its response
			m.Done()
			return
		}
		if r.parking != nil { // another request has taken the place of the first, with an id of its own
			m.data = withID(r.id, rest)
		}
		r.applyEvent(request.Result, m.response, nil)
		parkedRequest{r}.concludeCall(rest)
		m.Done()
	case *tally:
		m.countStateless(r)
		m.Done()
	case *visitRequest:
		m.visit(r)
		m.Done()
	case *needInput:
		parkedRequest{r}.parkForInput(m)
	case *detachment:
		parkedRequest{r}.detachCall(m)
	case longNow:
		if r.phase == request.Plain || r.phase == request.Streaming {
			lastingCall{r}.takesLong(false)
		}
	case stillLeaving:
		r.toldEnding = false
	case leaving:
		lastingCall{r}.noteLeaving(m)
	case *retryCall:
		parkedRequest{r}.takeRetry(m)
	case connGone:
		parkedRequest{r}.connectionGone(m)
	case *emitted:
		if m.numbered {
			r.notified++
			m.entry.Meta = record.AppendMember(binary.AppendUvarint(nil, uint64(r.notified)), r.call.member)
		}
		r.emitEntry(m.entry)
	case passed:
		r.notified++
	case *progressed:
		lastingCall{r}.offerProgress(m)
	case *upgradeNow:
		r.applyEvent(request.Grace, response{}, nil)
		m.stream = r.logged.stream
		m.Done()
	case adoptStream:
		r.phase, r.logged.stream = request.Streaming, m.w
		if err := m.w.Post(serveCall{&r.Actor}); err != nil { // the stream ended before it knew of the call
			r.applyEvent(request.Lost, response{}, fmt.Errorf("%w: %w", ErrStreamLost, err))
		}
	case flushHeld:
		lastingCall{r}.sendHeldProgress()
	case graceOver:
		lastingCall{r}.handleTimer()
	case *cancelRequest:
		if m.id != r.idKey() || (parkedRequest{r}).passToNext() {
			m.acked(nil)
			return
		}
		r.onMark = m.acked
		r.applyEvent(request.Cancel, response{}, fmt.Errorf("%w: %s", ErrCancelled, m.reason))
		if r.onMark != nil { // no mark is being stored
			r.onMark = nil
			if r.phase == request.Dropped { // another node may go on with the call
				m.acked(errNotHere)
			} else {
				m.acked(nil)
			}
		}
	case abandon:
		r.applyEvent(request.Cancel, response{}, m.cause)
	case giveUp:
		r.applyEvent(request.GiveUp, response{}, m.cause)
	case streamGone:
		r.applyEvent(request.Lost, response{}, fmt.Errorf("%w: %w", ErrStreamLost, m.err))
	case closeConn:
		r.applyEvent(request.Grace, response{}, nil)
		if r.logged.stream != nil {
			_ = r.logged.stream.Post(m)
		}
	}
}

func (r *requestActor) emitEntry(e stream.Entry) {
	phase, act := request.Step(r.phase, request.Emit)
	r.phase = phase
	if act&request.Open != 0 {
		parkedRequest{r}.openStreams()
	}
	if act&request.Send == 0 {
		e.Drop(stream.ErrEnded)
		return
	}
	r.way.sendEntry(e)
}

// applyEvent applies event e to the request and carries out the actions that follow. a is the
// response if e brings one.
func (r *requestActor) applyEvent(e request.Event, a response, cause error) {
	phase, act := request.Step(r.phase, e)
	r.phase = phase
	if act&request.Open != 0 {
		parkedRequest{r}.openStreams()
	}
	if act&request.Answer != 0 {
		r.way.answerRequest(a)
	}
	if act&request.StopCall != 0 {
		r.cancel(cause)
		parkedRequest{r}.wakeHandler(wakeup{err: cause})
	}
	if act&request.Withdraw != 0 {
		r.way.endDelivery(cancelled, r.id)
		parkedRequest{r}.endOthers(cancelled)
	}
	if act&request.Abandon != 0 {
		r.way.endDelivery(givenUp, r.id)
		parkedRequest{r}.endOthers(givenUp)
	}
}

// idKey is the id as the session's table has it, without a copy.
func (r *requestActor) idKey() string { return unsafe.String(unsafe.SliceData(r.id), len(r.id)) }

// enterTable makes the request known to its session. limit bounds the session's calls; 0 means
// no limit. An error says why the request was not begun: the caller then enters it once
// more or cancels it.
func (r *requestActor) enterTable(limit int) error {
	if err := r.way.table.enterRequest(r, limit); err != nil {
		return err
	}
	if r.graced {
		r.timer.Reset(r.svc.Limits.MaxCall)
	} else {
		r.timer.Reset(r.way.grace)
	}
	return nil
}

// serveRequest runs the handler, hands over its response and releases the actor. It does all that
// also if the handler ends the goroutine; then it does not return.
func (r *requestActor) serveRequest() { r.serveThen((*requestActor).releaseActor) }

// serveThen runs the handler, hands over its response, and calls then. Nothing finds the request
// any more when it does.
func (r *requestActor) serveThen(then func(*requestActor)) {
	id := r.id // r.id changes when the client sends the request again
	head := append(r.out.B[:0], `{"jsonrpc":"2.0","id":`...)
	head = append(head, id...)
	r.result.idEnd = len(head)
	head = append(head, `,"result":`...)
	out, err := []byte(nil), errExited
	defer func() { // the handler may end the goroutine
		r.deliverResponse(id, head, out, err)
		then(r)
	}()
	out, err = r.runHandler(head)
}

// The responses to requests whose handlers have panicked, and have ended their goroutine.
var (
	errBroken = &mcp.Error{Code: mcp.CodeInternalError, Message: "internal error"}
	errExited = &mcp.Error{Code: mcp.CodeInternalError, Message: "internal error"}
)

// deliverResponse hands over the response: out or, if there is an error, that. head is the
// beginning of the response.
func (r *requestActor) deliverResponse(id, head, out []byte, err *mcp.Error) {
	r.result.response = response{exited: err == errExited}
	if err != nil {
		out = codec.AppendError(head[:0], id, err.Code, err.Message, compactData(err.Data))
		r.result.code = err.Code
		r.result.unavailable, r.result.sessionGone, r.result.denied = err == Unavailable, err == SessionGone, r.call.deniedAs(err)
	} else {
		out = append(out, '}')
	}
	r.out.B = out
	// The id is freed first: once the client has the response, it may use the id again at
	// once.
	r.way.table.removeRequest(r)
	r.result.Init()
	r.result.data = out
	pace := r.way.pace
	paced := pace.lockSending(r.pool.base) == nil
	if r.Post(&r.result) == nil {
		r.result.Wait()
	}
	// The response is with its client or, copied, in a stream. It may be large, and the actor goes
	// on: until its record is stored, and after that among the idle ones.
	r.result.data = nil
	r.out.Free()
	r.out = nil
	if paced {
		pace.unlockSending()
	}
	r.cancel(errReturned)
	if !r.timer.Stop() {
		r.used = true
	}
	if late := r.late.Swap(nil); late != nil {
		late.Stop() // it would keep the call
	}
	if r.logged.stream != nil {
		<-r.logged.stream.ready
	}
	r.retire.Init()
	if r.Post(&r.retire) == nil {
		r.retire.Wait()
	}
}

// runHandler runs the handler and contains its panic to this request. If the handler ends the
// goroutine, runHandler does not return.
func (r *requestActor) runHandler(head []byte) (out []byte, err *mcp.Error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		failure := guard.Caught(recover())
		r.pool.k.CountPanic()
		r.pool.log.Error("handler "+failure.Did(), append(failure.Attrs(), "method", string(r.call.msg.Method))...)
		out, err = nil, errBroken
	}()
	out, err = r.svc.Handler.Serve(r.ctx, r.call, head)
	returned = true
	return out, err
}

// requestPool makes the actors of requests and keeps them for the next
// requests.
type requestPool struct {
	*site
	streams        *streams
	mrtr           *parkedCalls
	statelessCalls *statelessCalls
	talking        *liveStreams

	mu   sync.Mutex // guards free
	free []*requestActor
}

// pooledActors bounds the idle actors that calls keeps.
const pooledActors = 512

// takeActor returns the actor for a request that is counted on account a.
func (p *requestPool) takeActor(a *quota.Account) *requestActor {
	n := p.site
	p.mu.Lock()
	var r *requestActor
	if k := len(p.free); k > 0 {
		r, p.free = p.free[k-1], p.free[:k-1]
	}
	p.mu.Unlock()
	if r == nil {
		r = &requestActor{pool: p}
		n.k.Start(&r.Actor, KindRequest, "", r)
		r.timer = time.AfterFunc(time.Hour, func() { _ = r.Post(graceOver{}) })
		r.timer.Stop()
	} else {
		r.Wake()
	}
	r.from, r.out = a, codec.GetBuffer()
	return r
}

// beginRequest makes the actor serve a request, which is delivered in the way w.
func (r *requestActor) beginRequest(svc *Service, w way, m *codec.Message, body []byte, c *Call) {
	r.svc, r.way, r.body, r.size, r.started = svc, w, body, len(body), time.Now()
	r.id = append(r.id[:0], m.ID...)
	// Once a session or a stream knows the request, others may cancel it. The node's own
	// context is no parent: all calls would share the lock of its list of children.
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	c.ctx = r.ctx
	c.r, c.generation, c.msg = r, r.generation, m
	c.client, c.pace, c.from = w.client, w.pace, r.from
	c.own = bytes.Clone(m.ProgressToken)
	c.token.Store(&c.own)
	r.call = c
}

// releaseActor returns the actor to the pool, or ends it if it was used. Nothing can find the
// request any more.
func (r *requestActor) releaseActor() {
	p := r.pool
	if r.from != nil {
		p.accounts.LeavePlace(r.from)
	}
	r.memory.Reset()
	r.out.Free()
	if r.handedOver {
		p.drain.handedOver.Add(-1)
	}
	if r.used {
		r.Actor.Stop()
		return
	}
	r.svc, r.way, r.logged, r.from, r.out, r.ctx, r.cancel = nil, way{}, logged{}, nil, nil, nil, nil
	r.stateless, r.call, r.body = nil, nil, nil
	r.phase, r.gate, r.notified, r.graced = request.Plain, nil, 0, false
	r.toldLong, r.toldEnding = false, false
	r.Rest()
	p.mu.Lock()
	keep := len(p.free) < pooledActors && !p.drain.closing.Load()
	if keep {
		p.free = append(p.free, r)
	}
	p.mu.Unlock()
	if !keep {
		r.Wake()
		r.Actor.Stop()
	}
}

// closeIdle ends the idle actors.
func (p *requestPool) closeIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.free {
		r.Wake()
		r.Actor.Stop()
	}
	p.free = nil
}

// Failed completes what a panic of the actor cut short, so that nothing waits for it. If
// that was the response, or the opening of a stream, the client gets an error or its
// connection ends.
func (r *requestActor) Failed(m any, last bool) {
	if c, ok := m.(called); ok {
		m = c.m
	}
	if m, ok := m.(kernel.Refusable); ok {
		defer m.Refused(errInternal)
	}
	switch m := m.(type) {
	case *callResult:
		r.breakExchange()
	case *retryCall:
		if m.verdict == retryTaken { // only half done
			r.stopHandler()
			parkedRequest{r}.forgetExchange(m.x)
		}
	case *visitRequest:
		if r.ended { // and its client has no response
			r.breakExchange()
		}
	case abandon, giveUp, streamGone, graceOver, connGone, closeConn:
		r.stopHandler()
		if r.logged.stream == nil {
			r.breakExchange()
		}
	}
	if last {
		r.stopHandler()
	}
}

// stopHandler ends the handler's context, and its wait for answers.
func (r *requestActor) stopHandler() {
	if r.cancel != nil {
		r.cancel(errInternal)
	}
	parkedRequest{r}.wakeHandler(wakeup{err: errInternal})
}

// breakExchange ends the exchange of a request whose response was cut short.
func (r *requestActor) breakExchange() {
	r.phase = request.Dropped
	r.way.endDelivery(broken, r.id)
	r.way.delivery = noDelivery{}
	r.Contain(func() { parkedRequest{r}.endOthers(givenUp) })
}

// serveStateless is serveRequest for a stateless request.
func (r *requestActor) serveStateless() { r.serveThen((*requestActor).leaveStateless) }

// leaveStateless lets go of the exchange of a request that has its response, and releases the
// actor.
func (r *requestActor) leaveStateless() {
	r.stateless.served.releaseExchange()
	parkedRequest{r}.hideFromRetries()
	r.pool.statelessCalls.dropRequest(r)
	r.releaseActor()
}

// isSafe reports whether the request may be sent again though it has run.
func (r *requestActor) isSafe() bool { return r.svc.Handler.Safe(r.call.msg.Method, r.call.msg.Name) }

// givenUpResponse is the response to a request that the node no longer waits for: it says to send a
// safe one again.
func (r *requestActor) givenUpResponse(id []byte) []byte {
	if !r.isSafe() {
		return lostCall(id)
	}
	return codec.AppendError(nil, id, Unavailable.Code, Unavailable.Message, Unavailable.Data)
}

// joinBatch makes the request answer on the stream of its batch.
func (r *requestActor) joinBatch(st *streamActor) {
	r.used, r.graced = true, true
	_ = r.Post(adoptStream{st})
}

// leaving has a call that began at begun or before do what it does when its node ends.
type leaving struct{ begun time.Time }

// stillLeaving has a call know once more that its node ends, if that still does: see Long.
type stillLeaving struct{}

// leaveRetry is the time after which a call is told that once more.
const leaveRetry = 500 * time.Millisecond

// tally counts the calls that began at begun or before and that only this node can end. If whole is set it counts every call of a session.
type tally struct {
	kernel.Reply
	begun time.Time
	whole bool
	own   int
}

func (m *tally) Refused(error) { m.Done() }

// countOfSession counts a request of a session's table. countStateless counts stateless requests.
func (m *tally) countOfSession(r *requestActor) {
	if r.stateless == nil && (m.whole || !r.started.After(m.begun) && (lastingCall{r}).endsOnlyHere()) {
		m.own++
	}
}

// countStateless counts a stateless request. A parked call that runs again does not count: another
// process can go on with it, or else its client begins anew.
func (m *tally) countStateless(r *requestActor) {
	if r.started.After(m.begun) {
		return
	}
	switch msg := r.call.msg; r.phase {
	case request.Plain, request.Streaming:
		m.own++
	case request.Parked:
		if !r.svc.runsAgain(msg.Method, msg.Name) {
			m.own++
		}
	}
}

// adoptStream gives a call that runs again its stream.
type adoptStream struct{ w *streamActor }

// lastingState is the progress of a request, and what it has done about it that it takes long.
type lastingState struct {
	gate *request.Gate // nil before there is progress
	held *progressed   // newest progress that waits for the current second to end

	// toldLong and toldEnding say that the call knows that it takes long, and that its node ends:
	// see Call.WhenLong.
	toldLong, toldEnding bool

	late atomic.Pointer[time.Timer] // for a call that takes long before or after its grace, otherwise nil
}

// lastingCall is a request as it goes on for long: its progress, and what it does about it when its
// node ends.
type lastingCall struct{ *requestActor }

// handleTimer handles the timer: the end of the grace, later the deadline.
func (r lastingCall) handleTimer() {
	if r.phase == request.Parked {
		parkedRequest(r).endWait()
		return
	}
	if r.phase > request.Streaming {
		return
	}
	if r.graced && string(r.call.msg.Method) == mcp.MethodTasksResult { // which waits for as long as its task does
		return
	}
	if r.graced {
		r.pool.refusals.Refused(limits.MaxCall.Row)
		r.applyEvent(request.Deadline, response{}, ErrDeadline)
		return
	}
	if r.late.Load() == nil && r.takesLong(false) {
		r.timer.Reset(min(r.way.grace, lateGrace))
		return
	}
	r.graced = true
	r.timer.Reset(r.svc.Limits.MaxCall)
	r.applyEvent(request.Grace, response{}, nil)
}

func (r lastingCall) progressGate() *request.Gate {
	if r.gate == nil {
		r.gate = new(request.Gate)
	}
	return r.gate
}

func (r lastingCall) offerProgress(p *progressed) {
	now := time.Now()
	verdict := r.progressGate().Offer(p.value, now)
	if r.held != nil && !(p.value > r.held.value) {
		verdict = request.Stale // the held value was offered first, though not sent
	}
	switch verdict {
	case request.Pass:
		r.held = nil
		r.emitEntry(stream.Entry{Kind: stream.Progress, Meta: p.meta, Data: p.data, Acked: p.acked})
		return
	case request.Hold:
		if r.held == nil {
			time.AfterFunc(r.gate.Wait(now), func() { _ = r.Post(flushHeld{}) })
			r.used = true
		}
		r.held = p
	}
	p.dropProgress(nil)
}

// hastenCall makes the call a stream if it has run since begun or before and another process
// can go on with it: otherwise its response may stay plain for longer.
func (r lastingCall) hastenCall(begun time.Time) {
	if !r.started.After(begun) && !r.endsOnlyHere() {
		_ = r.Post(closeConn{leaving: true})
	}
}

// endsOnlyHere reports whether only this node can end the call of a session: the call may not run
// again, its client does not come back for it, or there is no store for another process. It may be
// used in the session's turn only, while the call is in its table.
func (r lastingCall) endsOnlyHere() bool {
	m := r.call.msg
	return r.pool.drain.alone || !r.way.returns || !r.svc.mayRerun(m, r.size)
}

func (r lastingCall) noteLeaving(m leaving) {
	if !r.started.After(m.begun) && (r.phase == request.Plain || r.phase == request.Streaming) {
		r.takesLong(true)
	}
}

// takesLong has the call know that it takes long, or that its node ends. It reports whether that is
// news to it.
func (r lastingCall) takesLong(ending bool) bool {
	l, _ := r.call.long.Load().(Long)
	told := &r.toldLong
	if ending {
		told = &r.toldEnding
	}
	if l == nil || *told {
		return false
	}
	*told = true
	n, c := r.pool, r.call
	go func() {
		again := false
		if failure := guard.Apart(func() { again = l.TakesLong(ending) }); failure != nil {
			n.k.CountPanic()
			n.log.Error("what is done about a call that takes long "+failure.Did(), failure.Attrs()...)
		}
		if ending && again {
			time.AfterFunc(leaveRetry, func() { _ = c.postMessage(stillLeaving{}) }) // the next look of the drain is heeded then
		}
	}()
	return true
}

// sendHeldProgress sends the newest progress of a second that had too much.
func (r lastingCall) sendHeldProgress() {
	if h := r.held; h != nil {
		r.held = nil
		r.progressGate().Raise(h.value)
		r.emitEntry(stream.Entry{Kind: stream.Progress, Meta: h.meta, Data: h.data})
	}
}

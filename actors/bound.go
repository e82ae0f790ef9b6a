package actors

import (
	"bytes"
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors/internal/session"
	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/mcp"
)

// boundConn is the only connection of a session of HTTP+SSE (2024-11-05, basic/transports) or
// stdio. It carries all messages to the client. It is the session's home: nothing of such a session
// is stored, and it ends with its connection.
type boundConn struct {
	sess       *sessionActor
	among      *Node
	conn       Conn
	inputEnded chan struct{} // closed by endInput when the session ends, or its client can answer no more questions
	endInput   func()
	calls      sync.WaitGroup
	// slots bounds the calls of a client that waits for a slot instead of being refused; nil for a
	// client that is refused.
	slots     chan struct{}
	ready     atomic.Bool   // the client has sent notifications/initialized
	resyncing atomic.Bool   // resync runs
	said      atomic.Int64  // when the last keep-alive was sent, unix nanoseconds
	sending   chan struct{} // held by a goroutine that waits for room and then sends
	holder    any           // who has the connection
	until     time.Time     // when the session ends with its token
}

var _ home = (*boundConn)(nil)

// sendData writes one message and never waits. A client with too much unread loses the connection,
// and one whose token has ended gets nothing.
func (l *boundConn) sendData(data []byte) {
	if momentPassed(l.until, time.Now()) {
		return // the heart ends the session
	}
	l.conn.Event("", 0, data)
	l.conn.Flush()
}

// lockSending waits until the client has read enough that one message more may wait for it. It
// keeps others from adding messages until unlockSending. Calls that answer a slow reader wait here
// instead of costing it the connection. An error is the cause of ctx.
func (l *boundConn) lockSending(ctx context.Context) error {
	select {
	case l.sending <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if l.conn.Room(ctx) != nil && ctx.Err() != nil {
		<-l.sending
		return context.Cause(ctx)
	}
	return nil // there is room, or the client is gone
}

func (l *boundConn) unlockSending() { <-l.sending }

// deliverMessage sends a message that belongs to no call, once the client has read enough.
func (l *boundConn) deliverMessage(ctx context.Context, e stream.Entry) error {
	if !l.ready.Load() && e.Kind == stream.Request {
		return ErrNoStream // requests wait for notifications/initialized (lifecycle, initialization)
	}
	if err := l.lockSending(ctx); err != nil {
		return err
	}
	defer l.unlockSending()
	l.sendData(e.Data)
	return nil
}

// isFull reports that the client has left more unread than invalidations are added to.
func (l *boundConn) isFull() bool { return l.conn.Room(doneContext) != nil }

// doneContext is a context that is done: a wait with it only looks.
var doneContext = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// slotCount is how many calls a patient client may have; their slots take no memory.
func slotCount(limit int) int {
	if limit < 0 {
		return math.MaxInt32
	}
	return limit
}

// findBound finds a bound session of this node by the id that Connect gave it.
func (d *boundSessions) findBound(svc *Service, in *Input) (*boundConn, bool) {
	at, id, ok := sessionAt(in.Session)
	if !ok || at != d.node.fleet.selfAddress() {
		return nil, false
	}
	l, ok := d.Get(SessionKey{Tenant: in.Tenant, Server: svc.ID, ID: id})
	return l, ok && l.sess.svc == svc
}

func unknownConnection(c answerer, id []byte) {
	refusal.UnknownConnection.Tell(c, id)
}

// takeSlot waits, if a patient client has its limit of calls, for one of them to end. It reports
// whether it took a slot.
func (l *boundConn) takeSlot(wait time.Duration) bool {
	select {
	case l.slots <- struct{}{}:
		return true
	default:
	}
	if l.slots == nil {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case l.slots <- struct{}{}:
		return true
	case <-l.inputEnded:
	case <-timer.C:
	}
	return false
}

func (l *boundConn) freeSlot() {
	if l.slots != nil {
		<-l.slots
	}
}

// changeRecord changes the record in the turn of the session's actor.
func (l *boundConn) changeRecord(_ context.Context, f func(*session.Record) bool) error {
	m := &edit{f: f}
	m.Init()
	if l.sess.Post(m) != nil {
		return l.sess.svc.endedError()
	}
	m.Wait()
	return m.err
}

// pushNotification sends a notification if the session has begun and its client reads. A later
// resync makes a missed one good.
func (l *boundConn) pushNotification(data []byte) (taken bool) {
	s := l.sess
	switch {
	case s.Stopped(), !l.ready.Load():
		return false // Handler.Opened runs when the session begins
	case l.isFull():
		s.missed.Store(true)
		if l.resyncing.CompareAndSwap(false, true) {
			go l.resyncClient()
		}
		return false
	}
	l.sendData(data)
	return true
}

// resyncClient waits until the client has read, and sends what it missed, as fast as it reads.
func (l *boundConn) resyncClient() {
	s := l.sess
	for again := true; again; again = s.missed.Load() && l.resyncing.CompareAndSwap(false, true) {
		for s.missed.Load() {
			if l.conn.Room(s.sessions.base) != nil {
				return
			}
			s.missed.Store(false)
			s.svc.Handler.Opened(s.peer, true)
		}
		l.resyncing.Store(false)
	}
}

// repeatNews has news repeat what the client may have missed, once it has read.
func (l *boundConn) repeatNews(news News) {
	if !l.resyncing.CompareAndSwap(false, true) {
		return // it gets what it missed as soon as it has read
	}
	go func() {
		defer l.resyncing.Store(false)
		if l.conn.Room(l.sess.sessions.base) == nil {
			news.Repeat(l.sess.peer)
		}
	}()
}

// pushUpdate waits until the client has read enough.
func (l *boundConn) pushUpdate(data []byte) {
	_ = l.deliverMessage(l.sess.sessions.base, stream.Entry{Kind: stream.Message, Data: data})
}

// keepAlive does nothing: the connection is there.
func (l *boundConn) keepAlive() {}

// timeLeft goes by the machine's monotonic clock, which nobody sets.
func (l *boundConn) timeLeft(expires time.Time) time.Duration { return time.Until(expires) }

// currentActor fails: a session whose actor has stopped has lost its connection.
func (l *boundConn) currentActor() (*sessionActor, error) {
	return nil, l.sess.svc.endedError()
}

// endForGood ends the calls. The session has no streams, and no other actor.
func (l *boundConn) endForGood(bool) (first bool) {
	s := l.sess
	if first = (sessionEnd{s}).endCalls(); first {
		sessionEnd{s}.reportEnd(Disconnected)
		if s.svc.Over != nil && s.view.Load().rec.Revision != "" {
			s.svc.Over(s.peer, Via{HTTP: s.via}, time.Since(s.view.Load().rec.Created))
		}
	}
	return first
}

// leaveMemory ends the connection.
func (l *boundConn) leaveMemory(broken bool) {
	s := l.sess
	l.among.bound.Drop(s.key, l)
	s.Stop()
	l.endInput()
	if broken {
		s.Contain(l.conn.Cut)
	}
	l.conn.Finish()
	// After the session has stopped, so that a listener that begins meanwhile sees it.
	l.among.listeners.endListeners("", func(a *listenActor) bool { return a.sess == s })
	l.among.relays.cancelRequests(s, nil)
}

// boundSessions are the bound sessions of this node.
type boundSessions struct {
	*kernel.Directory[SessionKey, *boundConn]
	node *Node
}

// commentIfSilent keeps a silent connection open, and finds out whether the client is still there.
func (l *boundConn) commentIfSilent(now time.Time, every time.Duration) {
	if now.UnixNano()-l.said.Load() >= int64(every) {
		l.said.Store(now.UnixNano())
		l.conn.Comment()
		l.conn.Flush()
	}
}

// overBound is the carrier of a stateless request on a connection that carries others.
type overBound struct{ l *boundConn }

var _ carrier = overBound{}

func (overBound) runsInline() bool { return false }

func (c overBound) roundTrip(Exchange) roundTrip {
	return &boundRoundTrip{bound: bound{conn: c.l, to: boundReplier{c.l}}}
}

func (c overBound) completeWay(s *stateless, w way) way {
	s.inputEnded, s.logged = c.l.inputEnded, &c.l.sess.logged
	w.table, w.pace = sessionTable{c.l.sess}, c.l
	return w
}

func (c overBound) runBeside(f func())                      { c.l.calls.Go(f) }
func (c overBound) audienceOf(Exchange) audience            { return boundAudience{c.l} }
func (c overBound) exchangeOf(a *statelessRequest) Exchange { return boundExchange{c.l, a} }

// runForward gives f a goroutine, and bytes of its own: the goroutine that read the request may
// have to read that it is cancelled.
func (c overBound) runForward(a *statelessRequest, f func(*statelessRequest) bool) (begun bool) {
	own, m := *a, new(codec.Message)
	own.body = bytes.Clone(a.body)
	_ = codec.Scan(own.body, m, anyMessage) // no error: it was scanned before
	own.m = m
	var held quota.Holding
	if !a.charged.isAlone() {
		a.n.accounts.reserveAnyway(&held, a.charged, &a.in, quota.Parked, callMemory(m, own.body))
	}
	c.l.calls.Go(func() {
		defer held.Free()
		if !f(&own) {
			c.l.freeSlot()
		}
	})
	return true
}

// boundRoundTrip is one stateless request on a connection. It holds a slot, if its client waits for
// slots, until it has its response.
type boundRoundTrip struct {
	bound
	left bool // the slot is free
}

var _ roundTrip = (*boundRoundTrip)(nil)

func (x *boundRoundTrip) attachCall(r *requestActor) { x.r = r }
func (x *boundRoundTrip) watchConn()                 {}
func (x *boundRoundTrip) awaitResponse()             {}

func (x *boundRoundTrip) answerRequest(a response) {
	x.bound.answerRequest(a)
	x.releaseExchange()
}

func (x *boundRoundTrip) endDelivery(why ending, id []byte) {
	x.bound.endDelivery(why, id)
	if why != cancelled { // the handler of a cancelled call keeps the slot until it returns
		x.releaseExchange()
	}
}

func (x *boundRoundTrip) releaseExchange() {
	if !x.left {
		x.left = true
		x.conn.freeSlot()
	}
}

var (
	_ replier = boundReplier{}
	_ replier = (*batchMember)(nil)
)

// boundExchange is the exchange of a stateless request on a connection that carries others.
type boundExchange struct {
	l *boundConn
	a *statelessRequest
}

var _ Exchange = boundExchange{}

func (boundExchange) SetSession(string) {}
func (boundExchange) Open() bool        { return true }
func (boundExchange) Comment()          {}
func (boundExchange) Flush()            {}
func (boundExchange) Finish()           {}
func (boundExchange) Accepted()         {}
func (boundExchange) Gone(func())       {}

func (x boundExchange) Event(_ string, _ int, data []byte) {
	_ = x.l.deliverMessage(x.Context(), stream.Entry{Data: data}) // an error means that the node ends
}

func (x boundExchange) Answer(status int, body []byte) bool {
	return boundReplier{x.l}.Answer(status, body)
}

func (x boundExchange) AnswerLast(status int, body []byte) bool {
	return boundReplier{x.l}.Answer(status, body)
}

func (x boundExchange) Reject(no *refusal.Refusal)       { boundReplier{x.l}.Reject(no) }
func (x boundExchange) Cut()                             { refusal.Unavailable.Tell(boundReplier{x.l}, x.a.m.ID) }
func (x boundExchange) Room(context.Context) error       { return nil }
func (x boundExchange) Context() context.Context         { return x.a.n.base }
func (boundExchange) WhenGone(func()) (stop func() bool) { return func() bool { return true } }

// bound delivers a request on a connection that carries others: the connection is a session, or
// carries stateless requests. Messages of the handler go out at once. A response that could not be
// delivered is lost.
type bound struct {
	r        *requestActor
	conn     *boundConn
	to       replier     // gets the response
	slotLeft atomic.Bool // the call of a session has no slot any more
}

var _ delivery = (*bound)(nil)

// leaveSlot frees the slot of a call of a session: when its handler has returned, or has its call ended
// by an operator.
func (d *bound) leaveSlot() {
	if !d.slotLeft.Swap(true) {
		d.conn.freeSlot()
	}
}

func (d *bound) openStream() {}

func (d *bound) sendEntry(e stream.Entry) {
	d.conn.sendData(e.Data)
	e.Drop(nil)
}

func (d *bound) answerRequest(a response) {
	d.to.Answer(200, a.data)
	if a.exited && d.r.stateless == nil {
		d.leaveSlot()
	}
}

func (d *bound) endDelivery(why ending, id []byte) {
	switch why {
	case cancelled: // a batch does not wait for a handler that ignores the cancel
		d.to.skipResponse()
	case givenUp:
		if d.r.stateless != nil {
			d.to.Answer(200, d.r.givenUpResponse(id))
			return
		}
		d.to.Answer(200, lostCall(id))
	case broken:
		d.r.Contain(func() { d.to.Answer(200, internalError(id)) })
	}
}

// boundWay is the way of a request of a bound session.
func (r *requestActor) boundWay(l *boundConn, to replier) way {
	s := l.sess
	return way{delivery: &bound{r: r, conn: l, to: to}, grace: s.svc.Limits.Grace, table: sessionTable{s}, client: sessionClient{s}, pace: l}
}

// boundBatch gathers the responses to a batch of a bound session. The last of its requests to end
// sends them as one message, an array (JSON-RPC 2.0, section 6). Cancelled requests have no
// element; if all were cancelled, nothing is sent. Other messages of the requests go out at once.
type boundBatch struct {
	conn *boundConn // of the session

	mu   sync.Mutex // guards open and out
	open int        // requests that have not ended
	out  []byte     // "[" and the responses so far, separated by commas
}

// newMember returns where one request of the batch gets its response.
func (b *boundBatch) newMember() *batchMember { return &batchMember{batch: b} }

// endMember takes the response to one request, nil if it has none.
func (b *boundBatch) endMember(answer []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if answer != nil {
		lead := byte(',')
		if b.out == nil {
			lead = '['
		}
		b.out = append(append(b.out, lead), answer...)
	}
	if b.open--; b.open == 0 && b.out != nil {
		b.conn.sendData(append(b.out, ']'))
		b.out = nil
	}
}

// batchMember takes the response to one request of a boundBatch. Only the first call of Answer,
// Reject and skipResponse counts.
type batchMember struct {
	batch *boundBatch
	once  sync.Once
}

// Answer adds a response to those of the batch. It reports whether it was the first call.
func (m *batchMember) Answer(_ int, body []byte) bool {
	first := false
	m.once.Do(func() {
		first = true
		m.batch.endMember(body)
	})
	return first
}

// Reject adds an error to the responses of the batch.
func (m *batchMember) Reject(no *refusal.Refusal) {
	m.Answer(200, codec.AppendError(nil, no.ID, no.Code, no.Text, no.Data))
}

func (m *batchMember) skipResponse() { m.once.Do(func() { m.batch.endMember(nil) }) }

// boundInput is a connection as it takes messages.
type boundInput struct{ *boundConn }

// countsAsCall reports whether a message is a request that is admitted as a call.
func (l boundInput) countsAsCall(in *Input, m *codec.Message) bool {
	s := l.sess
	return m.Kind == codec.Request && (in.Stateless || s.view.Load().rec.Revision != "" && (string(m.Method) != mcp.MethodPing || s.svc.AnswersPing))
}

// takeMessage takes one message of the session. It reports whether it did; otherwise it has refused
// the message on came. A request that was taken gets its response on reply, also if a limit refuses
// it.
func (l boundInput) takeMessage(in *Input, came answerer, reply replier, principal any, m *codec.Message, raw []byte, until time.Time) bool {
	if in.Stateless && m.Kind == codec.Request {
		l.takeStateless(in, principal, m, raw)
		return true
	}
	switch m.Kind {
	case codec.Request:
		return l.takeRequest(in, came, reply, principal, m, raw)
	case codec.Notification:
		l.takeNotification(in, m, until)
	default:
		if x, journal, ok := l.sess.sessions.pending.findQuestion(l.sess.key, string(m.ID)); ok {
			_, _ = l.sess.sessions.pending.receiveAnswer(x, journal, m) // cannot fail, as nothing of a bound session is stored
		}
	}
	return true
}

// takeNotification takes a notification of the client: see sessionActor.takeNotification.
func (l boundInput) takeNotification(in *Input, m *codec.Message, until time.Time) {
	s := l.sess
	s.takeNotification(in, m, until)
	switch string(m.Method) {
	case mcp.NotifyCancelled:
		if id := codec.Optional(m.Params, "requestId"); len(id) > 0 {
			l.among.listeners.endListeners("", func(a *listenActor) bool { return a.sess == s && string(a.id) == string(id) })
			l.among.relays.cancelRequests(s, id)
		}
	case mcp.NotifyInitialized:
		if s.view.Load().rec.Revision != "" && !l.ready.Swap(true) {
			s.svc.Handler.Opened(s.peer, false)
		}
	}
}

func (l boundInput) takeRequest(in *Input, came answerer, reply replier, principal any, m *codec.Message, raw []byte) bool {
	s, d := l.sess, l.sess.sessions
	fresh := s.view.Load().rec.Revision == ""
	switch {
	case string(m.Method) == mcp.MethodPing && (fresh || !s.svc.AnswersPing): // legal before initialize, and never waits
		answerPing(s.svc, s.peer, in, reply, m)
		return true
	case string(m.Method) == mcp.MethodInitialize && fresh:
		l.answerInitialize(in, m)
		return true
	case fresh:
		refusal.NotInitialized.Tell(reply, m.ID)
		return true
	case s.svc.refusedBy(&d.drain, principal, m, 0):
		d.refusals.refuseInSession(reply, refusal.Unavailable, m.ID)
		return true
	}
	return l.startCall(in, came, reply, principal, raw)
}

// takeStateless takes a stateless request on a connection that carries others (2026-07-28,
// basic/transports/stdio).
func (l boundInput) takeStateless(in *Input, principal any, m *codec.Message, raw []byte) {
	s := l.sess
	a := &statelessRequest{n: l.among, svc: s.svc, in: *in, principal: principal, m: m, body: raw, to: boundReplier(l), on: overBound{l.boundConn}, sess: s, charged: &s.sessionAccount}
	switch {
	case string(m.Method) == mcp.MethodSubscriptionsListen:
		a.beginListener()
	case !l.takeSlot(s.svc.Limits.StoreWait):
		s.sessions.refusals.refuseRequest(boundReplier(l), refusal.Of(limits.CallsPerSession.Row), m.ID)
	case !a.acceptRequest():
		l.freeSlot()
	}
}

// answerInitialize answers initialize.
func (l boundInput) answerInitialize(in *Input, m *codec.Message) {
	s := l.sess
	var set Settled
	var result []byte
	var rerr *mcp.Error
	observed := s.svc.observed(s.peer, in, m)
	defer func() { observed(revisionOf(set.Revision), rerr) }()
	set, result, rerr = s.svc.Handler.Initialize(withOwner(s.sessions.base, s.peer.Owner()), m.Params)
	if rerr != nil {
		l.sendData(codec.AppendError(nil, m.ID, rerr.Code, rerr.Message, rerr.Data))
		return
	}
	ctx, cancel := context.WithTimeout(s.sessions.base, s.svc.Limits.StoreWait)
	defer cancel()
	id := bytes.Clone(m.ID)
	settled := false
	err := l.changeRecord(ctx, func(r *session.Record) bool {
		if settled = r.Revision != ""; !settled { // settled by another initialize at the same time
			r.Revision, r.Client, r.Capabilities, r.Announced = set.Revision, set.Client, set.Capabilities, set.Announced
		}
		return !settled
	})
	switch {
	case err != nil: // the connection is gone
	case settled:
		rerr = refusal.Initialized.MCP()
		l.sendData(codec.AppendError(nil, id, refusal.Initialized.Code, refusal.Initialized.Text, nil))
	case sessionEnd{s}.tellBegan(ctx):
		l.sendData(codec.AppendResult(nil, id, result))
	}
}

// startCall runs a request on a goroutine of its own: the goroutine that read it may have to read
// the answer to its question.
func (l boundInput) startCall(in *Input, came answerer, reply replier, principal any, raw []byte) bool {
	s, d := l.sess, l.sess.sessions
	var m codec.Message
	body := bytes.Clone(raw)
	if codec.Scan(body, &m, codec.Limits{MaxDepth: s.svc.Limits.Depth}) != nil {
		return true // cannot happen: it was scanned before
	}
	wait := s.svc.Limits.StoreWait
	ping := string(m.Method) == mcp.MethodPing
	if ping {
		wait = 0 // what comes after it may be the answer that a call needs to end
	}
	if !l.takeSlot(wait) {
		if ping {
			answerPing(s.svc, s.peer, in, reply, &m)
			return true
		}
		d.refusals.refuseInSession(reply, refusal.Of(limits.CallsPerSession.Row), m.ID)
		return true
	}
	var held quota.Holding
	if no := d.accounts.reserveMemory(&held, &s.sessionAccount, in, quota.Parked, callMemory(&m, body)); no != nil && !s.isAlone() {
		l.freeSlot()
		d.refusals.refuseInSession(reply, no, m.ID)
		return true
	}
	r, err := sessionCalls{s}.admitRequest(in, &m, len(body))
	if err != nil {
		held.Free()
	}
	var to *bound
	if err == nil {
		r.memory.TakeFrom(&held)
		w := r.boundWay(l.boundConn, reply)
		to = w.delivery.(*bound)
		sessionCalls{s}.beginRequest(r, w, &m, body, newCall(principal, in))
		err = sessionCalls{s}.enterAdmitted(r)
	}
	if err != nil {
		l.freeSlot()
		switch {
		case errors.Is(err, kernel.ErrStopped): // the session has just ended
			unknownConnection(came, m.ID)
			return false
		case errors.Is(err, session.ErrDuplicate): // the client would take an error with this id for the response to the first request
			d.refusals.refuseRequest(came, err, m.ID)
			return false
		}
		d.refusals.refuseInSession(reply, err, m.ID)
		return true
	}
	l.calls.Go(func() {
		defer to.leaveSlot()
		defer reply.skipResponse() // without a response, too, the batch must not wait for it
		r.serveRequest()
	})
	return true
}

// boundReplier sends responses on the connection.
type boundReplier struct{ *boundConn }

// Answer sends a response on the connection.
func (l boundReplier) Answer(_ int, body []byte) bool {
	l.sendData(body)
	return true
}

// Reject sends an error on the connection.
func (l boundReplier) Reject(no *refusal.Refusal) {
	l.sendData(codec.AppendError(nil, no.ID, no.Code, no.Text, no.Data))
}

func (l boundReplier) skipResponse() {}

// boundAudience is the audience of a request on a connection that carries others.
type boundAudience struct{ *boundConn }

func (boundAudience) beginResponse(*listenActor) bool       { return true }
func (a boundAudience) awaitRoom(ctx context.Context) error { return a.conn.Room(ctx) }
func (boundAudience) finishResponse()                       {}
func (boundAudience) cutConnection()                        {}

func (a boundAudience) bindListener(l *listenActor) {
	if a.sess.Stopped() { // the session ended before it could find l
		_ = l.Post(endListen{})
	}
}

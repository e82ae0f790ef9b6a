package actors

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/faults"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/session"
	"github.com/troupe-run/troupe/internal/stream"
	"github.com/troupe-run/troupe/mcp"
)

// boundConn is the only connection of a session of HTTP+SSE (2024-11-05, basic/transports) or stdio. It carries all
// messages to the client. Nothing of such a session is stored: it ends with its connection.
type boundConn struct {
	conn       Conn
	ready      atomic.Bool   // the client has sent notifications/initialized
	inputEnded chan struct{} // closed by endInput when the session ends, or its client can answer no more questions
	endInput   func()
	calls      sync.WaitGroup
	// slots bounds the calls of a client that waits for a slot instead of being refused; nil for a client that is
	// refused.
	slots     chan struct{}
	resyncing atomic.Bool   // resync runs
	said      atomic.Int64  // when the last keep-alive was sent, unix nanoseconds
	sending   chan struct{} // held by a goroutine that waits for room and then sends
}

// send writes one message and never waits. A client with too much unread loses the connection.
func (l *boundConn) send(data []byte) {
	l.conn.Event("", 0, data)
	l.conn.Flush()
}

// pace waits until the client has read enough that one message more may wait for it. It keeps others from adding
// messages until paced. Calls that answer a slow reader wait here instead of costing it the connection. An error is the
// cause of ctx.
func (l *boundConn) pace(ctx context.Context) error {
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

func (l *boundConn) paced() { <-l.sending }

// tell sends a message that belongs to no call, once the client has read enough.
func (l *boundConn) tell(ctx context.Context, e stream.Entry) error {
	if !l.ready.Load() && e.Kind == stream.Request {
		return ErrNoStream // requests wait for notifications/initialized (lifecycle, initialization)
	}
	if err := l.pace(ctx); err != nil {
		return err
	}
	defer l.paced()
	l.send(e.Data)
	return nil
}

// full reports that the client has left more unread than invalidations are added to.
func (l *boundConn) full() bool { return l.conn.Room(overNow) != nil }

// overNow is a context that is done: a wait with it only looks.
var overNow = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// Connect begins a session on in.Conn, which stays its only connection. It calls SetSession with the session's id and
// opens the connection, or it calls Reject. The session ends with the connection.
func (n *Node) Connect(svc *Service, in *Input) {
	if n.drain.over.Load() || n.drain.handing.Load() { // the session would end at once
		n.refusals.unavailable(in.Conn, nil)
		return
	}
	a, ok := n.accounts.admitBound(in)
	if !ok {
		return
	}
	l := &boundConn{conn: in.Conn, inputEnded: make(chan struct{}), sending: make(chan struct{}, 1)}
	l.endInput = sync.OnceFunc(func() { close(l.inputEnded) })
	if in.Patient {
		l.slots = make(chan struct{}, places(svc.Limits.PerSession))
	}
	key := SessionKey{Tenant: in.Tenant, Server: svc.ID, ID: newID()}
	age := svc.Limits.Session.Absolute
	if in.Patient {
		age = math.MaxInt64 // it lives as long as its process
	}
	s := n.sessions.build(svc, key, session.New(time.Now(), session.Lifetime{Idle: age, Absolute: age}), 0)
	s.bound, s.inputEnded = l, l.inputEnded
	s.patient = in.Patient
	s.account.Keep(n.accounts.Accounts, a) // the account also counts questions before the first request
	l.said.Store(s.last.UnixNano())
	s.startSession()
	n.sessions.Put(key, s)
	in.Session = n.name + "." + key.ID
	in.Conn.SetSession(in.Session)
	if !in.Conn.Open() {
		s.endSession()
		a.Held[heldStreams].Add(-1)
		return
	}
	n.bound.add(s)
	in.Conn.Gone(func() {
		s.endSession()
		a.Held[heldStreams].Add(-1)
	})
	if svc.life.over.Load() { // the service ended before it could find the session
		s.endSession()
		n.bound.drop(s)
		in.Conn.Finish()
	}
}

// places is how many calls a patient client may have; their slots take no memory.
func places(limit int) int {
	if limit < 0 {
		return math.MaxInt32
	}
	return limit
}

// find finds a bound session of this node by the id that Connect gave it.
func (l *boundSessions) find(svc *Service, in *Input) (*sessionActor, bool) {
	n := l.node
	node, id, _ := strings.Cut(in.Session, ".")
	if node != n.name || !stream.ValidID(id) {
		return nil, false
	}
	s, ok := n.sessions.Get(SessionKey{Tenant: in.Tenant, Server: svc.ID, ID: id})
	return s, ok && s.bound != nil && s.svc == svc
}

// Message takes one message, or a batch, of a session that Connect began. It returns when it no longer needs the bytes.
// Responses go out on the session's connection; in.Conn learns whether the message was taken.
func (n *Node) Message(svc *Service, in *Input, principal any, m *codec.Message, body []byte) {
	s, ok := n.bound.find(svc, in)
	if !ok {
		unknownConnection(in.Conn, m.ID)
		return
	}
	s.peer.madeBy(in)
	if rec := s.view.Load().rec; in.Version != "" && rec.Revision != "" && in.Version != rec.Revision {
		faults.SessionRevision.TellMore(in.Conn, rec.Revision, m.ID)
		return
	}
	until := time.Now().Add(svc.Limits.StoreWait)
	if m.Kind != codec.Batch {
		if s.boundMessage(in, in.Conn, s.bound, principal, m, body, until) {
			in.Conn.Accepted()
		}
		return
	}
	all, fault := readBatch(s, m, body)
	if fault != "" {
		if in.Conn == s.bound.conn { // a refusal here is a message of its own, and has no id
			s.bound.send(codec.AppendError(nil, nil, mcp.CodeInvalidRequest, fault, nil))
		} else {
			in.Conn.Reject(400, mcp.CodeInvalidRequest, fault, nil, nil, 0)
		}
		return
	}
	gathered := &boundBatch{conn: s.bound}
	for i := range all {
		if all[i].m.Kind == codec.Request {
			gathered.open++
		}
	}
	for i := range all {
		reply := gathered.member() // each request of a batch is refused by itself
		s.boundMessage(in, reply, reply, principal, &all[i].m, all[i].raw, until)
	}
	in.Conn.Accepted()
}

func unknownConnection(c answerer, id []byte) {
	faults.UnknownConnection.Tell(c, id)
}

// boundMessage takes one message of a bound session. It reports whether it did; otherwise it has refused the message on
// came. A request that was taken gets its response on reply, also if a limit refuses it.
func (s *sessionActor) boundMessage(in *Input, came answerer, reply replier, principal any, m *codec.Message, raw []byte, until time.Time) bool {
	if in.Stateless && m.Kind == codec.Request {
		s.boundStateless(in, principal, m, raw)
		return true
	}
	switch m.Kind {
	case codec.Request:
		return s.boundRequest(in, came, reply, principal, m, raw)
	case codec.Notification:
		s.notified(m, until)
	default:
		_ = s.answered(m) // cannot fail, as nothing of a bound session is stored
	}
	return true
}

func (s *sessionActor) boundRequest(in *Input, came answerer, reply replier, principal any, m *codec.Message, raw []byte) bool {
	n := s.node
	fresh := s.view.Load().rec.Revision == ""
	switch {
	case string(m.Method) == mcp.MethodPing && (fresh || !s.svc.AnswersPing): // legal before initialize, and never waits
		reply.Answer(200, pong(m.ID))
		return true
	case string(m.Method) == mcp.MethodInitialize && fresh:
		s.boundInitialize(m)
		return true
	case fresh:
		faults.NotInitialized.Tell(reply, m.ID)
		return true
	case n.drain.refuses(s.svc, principal, m):
		n.refusals.refuseInSession(reply, errUnavailable, m.ID)
		return true
	}
	return s.boundCall(in, came, reply, principal, raw)
}

// boundStateless takes a stateless request on a connection that carries others (2026-07-28,
// basic/transports/stdio).
func (s *sessionActor) boundStateless(in *Input, principal any, m *codec.Message, raw []byte) {
	a := &arrival{n: s.node, svc: s.svc, in: *in, principal: principal, m: m, body: raw, to: s.bound, on: overBound{s}, sess: s, charged: &s.sessionAccount}
	switch {
	case string(m.Method) == mcp.MethodSubscriptionsListen:
		a.listen()
	case !s.bound.takeSlot(s.svc.Limits.StoreWait):
		s.node.refusals.refuseVerdict(s.bound, m.ID, verdict{reason: CallsOfSession})
	case !a.accept():
		s.bound.freeSlot()
	}
}

// boundInitialize answers initialize of a bound session.
func (s *sessionActor) boundInitialize(m *codec.Message) {
	ctx, cancel := context.WithTimeout(s.node.base, s.svc.Limits.StoreWait)
	defer cancel()
	set, result, rerr := s.svc.Handler.Initialize(withOwner(ctx, s.peer.Owner()), m.Params)
	if rerr != nil {
		s.bound.send(codec.AppendError(nil, m.ID, rerr.Code, rerr.Message, rerr.Data))
		return
	}
	id := bytes.Clone(m.ID)
	settled := false
	err := s.change(ctx, func(r *session.Record) bool {
		if settled = r.Revision != ""; !settled { // settled by another initialize at the same time
			r.Revision, r.Client, r.Capabilities, r.Announced = set.Revision, set.Client, set.Capabilities, set.Announced
		}
		return !settled
	})
	switch {
	case err != nil: // the connection is gone
	case settled:
		s.bound.send(codec.AppendError(nil, id, faults.Initialized.Code, faults.Initialized.Text, nil))
	case s.beginning.start():
		s.svc.began(ctx, s.peer)
		if s.beginning.done() {
			s.tellEnded(Disconnected)
		}
		s.bound.send(codec.AppendResult(nil, id, result))
	}
}

// boundCall runs a request of a bound session on a goroutine of its own: the goroutine that read it may have to read
// the answer to its question.
func (s *sessionActor) boundCall(in *Input, came answerer, reply replier, principal any, raw []byte) bool {
	n := s.node
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
	if !s.bound.takeSlot(wait) {
		if ping {
			reply.Answer(200, pong(m.ID))
			return true
		}
		n.refusals.refuseInSession(reply, verdict{reason: CallsOfSession}, m.ID)
		return true
	}
	r, err := s.admitted(in, &m)
	if err == nil {
		s.begins(r, r.boundWay(s, reply), &m, body, &Call{principal: principal, trace: in.Trace, attempt: 1})
		err = s.enters(r)
	}
	if err != nil {
		s.bound.freeSlot()
		switch {
		case errors.Is(err, kernel.ErrStopped): // the session has just ended
			unknownConnection(came, m.ID)
			return false
		case errors.Is(err, session.ErrDuplicate): // the client would take an error with this id for the response to the first request
			n.refusals.refuseError(came, err, m.ID)
			return false
		}
		n.refusals.refuseInSession(reply, err, m.ID)
		return true
	}
	s.bound.calls.Go(func() {
		r.serve()
		reply.over() // without a response, too, the batch must not wait for it
		s.bound.freeSlot()
	})
	return true
}

// takeSlot waits, if a patient client has its limit of calls, for one of them to end. It reports whether it took a
// slot.
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

func (s *sessionActor) changeBound(f func(*session.Record) bool) error {
	m := &edit{f: f}
	m.Init()
	if s.Post(m) != nil {
		return s.svc.ended()
	}
	m.Wait()
	return m.err
}

// boundSessions are the bound sessions of this node.
type boundSessions struct {
	node *Node
	mu   sync.Mutex // guards all
	all  map[*sessionActor]struct{}
}

func (l *boundSessions) add(s *sessionActor) {
	l.mu.Lock()
	l.all[s] = struct{}{}
	l.mu.Unlock()
}

func (l *boundSessions) drop(s *sessionActor) {
	l.mu.Lock()
	delete(l.all, s)
	l.mu.Unlock()
}

func (l *boundSessions) snapshot() []*sessionActor {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*sessionActor, 0, len(l.all))
	for s := range l.all {
		all = append(all, s)
	}
	return all
}

func (l *boundSessions) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

// comment keeps a silent connection open, and finds out whether the client is still there.
func (l *boundConn) comment(now time.Time, every time.Duration) {
	if now.UnixNano()-l.said.Load() >= int64(every) {
		l.said.Store(now.UnixNano())
		l.conn.Comment()
		l.conn.Flush()
	}
}

// bound delivers a request on a connection that carries others: the connection is a session, or carries stateless
// requests. Messages of the handler go out at once. A response that could not be delivered is lost.
type bound struct {
	r    *requestActor
	conn *boundConn
	to   replier // gets the response
}

var _ delivery = (*bound)(nil)

// boundWay is the way of a request of a bound session.
func (r *requestActor) boundWay(s *sessionActor, to replier) way {
	return way{delivery: &bound{r: r, conn: s.bound, to: to}, grace: s.svc.Limits.Grace, table: s, client: s, pace: s.bound}
}

func (d *bound) open() {}

func (d *bound) send(e stream.Entry) {
	d.conn.send(e.Data)
	e.Drop(nil)
}

func (d *bound) answer(a response) { d.to.Answer(200, a.data) }

func (d *bound) end(why ending, id []byte) {
	switch why {
	case cancelled: // a batch does not wait for a handler that ignores the cancel
		d.to.over()
	case givenUp:
		d.to.Answer(200, lostCall(id))
	case broken:
		d.r.Contain(func() { d.to.Answer(200, internalError(id)) })
	}
}

// overBound is the carrier of a stateless request on a connection that carries others.
type overBound struct{ s *sessionActor }

var _ carrier = overBound{}

func (overBound) inline() bool { return false }

func (c overBound) roundTrip(Exchange) roundTrip {
	return &boundRoundTrip{bound: bound{conn: c.s.bound, to: c.s.bound}}
}

func (c overBound) way(s *stateless, w way) way {
	s.inputEnded, s.logged = c.s.inputEnded, &c.s.logged
	w.table, w.pace = c.s, c.s.bound
	return w
}

func (c overBound) run(f func())             { c.s.bound.calls.Go(f) }
func (c overBound) listen(Exchange) audience { return boundAudience{c.s.bound, c.s} }

// boundRoundTrip is one stateless request on a connection. It holds a slot, if its client waits for slots, until it has
// its response.
type boundRoundTrip struct {
	bound
	left bool // the slot is free
}

var _ roundTrip = (*boundRoundTrip)(nil)

func (x *boundRoundTrip) attach(r *requestActor) { x.r = r }
func (x *boundRoundTrip) watch()                 {}
func (x *boundRoundTrip) await()                 {}

func (x *boundRoundTrip) answer(a response) {
	x.bound.answer(a)
	x.release()
}

func (x *boundRoundTrip) end(why ending, id []byte) {
	x.bound.end(why, id)
	if why != cancelled { // the handler of a cancelled call keeps the slot until it returns
		x.release()
	}
}

func (x *boundRoundTrip) release() {
	if !x.left {
		x.left = true
		x.conn.freeSlot()
	}
}

var (
	_ replier = (*boundConn)(nil)
	_ replier = (*batchMember)(nil)
)

// Answer sends a response on the connection.
func (l *boundConn) Answer(_ int, body []byte) bool {
	l.send(body)
	return true
}

// Reject sends an error on the connection.
func (l *boundConn) Reject(_, code int, message string, data, id []byte, _ time.Duration) {
	l.send(codec.AppendError(nil, id, code, message, data))
}

func (l *boundConn) over() {}

// boundBatch gathers the responses to a batch of a bound session. The last of its requests to end sends them as one
// message, an array (JSON-RPC 2.0, section 6). Cancelled requests have no element; if all were cancelled, nothing is
// sent. Other messages of the requests go out at once.
type boundBatch struct {
	conn *boundConn // of the session

	mu   sync.Mutex // guards open and out
	open int        // requests that have not ended
	out  []byte     // "[" and the responses so far, separated by commas
}

// member returns where one request of the batch gets its response.
func (b *boundBatch) member() *batchMember { return &batchMember{batch: b} }

// ended takes the response to one request, nil if it has none.
func (b *boundBatch) ended(answer []byte) {
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
		b.conn.send(append(b.out, ']'))
		b.out = nil
	}
}

// batchMember takes the response to one request of a boundBatch. Only the first call of Answer, Reject and over counts.
type batchMember struct {
	batch *boundBatch
	once  sync.Once
}

// Answer adds a response to those of the batch. It reports whether it was the first call.
func (m *batchMember) Answer(_ int, body []byte) bool {
	first := false
	m.once.Do(func() {
		first = true
		m.batch.ended(body)
	})
	return first
}

// Reject adds an error to the responses of the batch.
func (m *batchMember) Reject(_, code int, message string, data, id []byte, _ time.Duration) {
	m.Answer(200, codec.AppendError(nil, id, code, message, data))
}

func (m *batchMember) over() { m.once.Do(func() { m.batch.ended(nil) }) }

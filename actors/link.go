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

// link is the one connection that a session of HTTP+SSE (2024-11-05, basic/transports) or stdio lives on. Everything
// for the client goes out there. Nothing of such a session is stored: it ends with its connection.
type link struct {
	conn  Conn
	ready atomic.Bool   // the client has sent notifications/initialized
	deaf  chan struct{} // closed by hush when the session ends, or its client can answer nothing any more
	hush  func()
	calls sync.WaitGroup
	// slots bounds the calls of a client that is made to wait instead of being
	// refused; nil for one that is refused.
	slots   chan struct{}
	mending atomic.Bool   // makeGood runs
	said    atomic.Int64  // when the last keep-alive was sent, unix nanoseconds
	turn    chan struct{} // held by whoever waits for room and then sends
}

// send writes one message. It never waits: a client that has not read what it may leave unread loses the connection.
func (l *link) send(data []byte) {
	l.conn.Event("", 0, data)
	l.conn.Flush()
}

// pace waits until the client has read enough that one message more may wait for it, and keeps others from adding
// theirs until paced. Calls that answer a slow reader wait here instead of costing it the connection. An error is the
// cause of ctx.
func (l *link) pace(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if l.conn.Room(ctx) != nil && ctx.Err() != nil {
		<-l.turn
		return context.Cause(ctx)
	}
	return nil // there is room, or nobody to read
}

func (l *link) paced() { <-l.turn }

// tell sends a message that belongs to no call, once the client has read enough.
func (l *link) tell(ctx context.Context, e stream.Entry) error {
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
func (l *link) full() bool { return l.conn.Room(overNow) != nil }

// overNow is a context that is done: who waits with it only asks.
var overNow = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// Connect begins a session on in.Conn, which stays its only connection. It names the session with SetSession and opens
// the connection, or refuses with Reject. The session ends when the connection is gone.
func (n *Node) Connect(svc *Service, in *Input) {
	if n.drain.over.Load() || n.drain.handing.Load() { // it would end at once
		n.refusals.unavailable(in.Conn, nil)
		return
	}
	a, ok := n.accounts.admitLink(in)
	if !ok {
		return
	}
	l := &link{conn: in.Conn, deaf: make(chan struct{}), turn: make(chan struct{}, 1)}
	l.hush = sync.OnceFunc(func() { close(l.deaf) })
	if in.Patient {
		l.slots = make(chan struct{}, places(svc.Limits.PerSession))
	}
	key := SessionKey{Tenant: in.Tenant, Server: svc.ID, ID: newID()}
	age := svc.Limits.Session.Absolute
	if in.Patient {
		age = math.MaxInt64 // it lives as long as its process
	}
	s := n.sessions.build(svc, key, session.New(time.Now(), session.Lifetime{Idle: age, Absolute: age}), 0)
	s.link, s.deaf = l, l.deaf
	s.account.Keep(n.accounts.Accounts, a) // which also pays for questions before the first request
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
	n.links.add(s)
	in.Conn.Gone(func() {
		s.endSession()
		a.Held[heldStreams].Add(-1)
	})
	if svc.life.over.Load() { // since before the session was found
		s.endSession()
		n.links.drop(s)
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

// find finds the session that lives on a connection of this node by the id that Connect gave it.
func (l *links) find(svc *Service, in *Input) (*sessionActor, bool) {
	n := l.node
	node, id, _ := strings.Cut(in.Session, ".")
	if node != n.name || !stream.ValidID(id) {
		return nil, false
	}
	s, ok := n.sessions.Get(SessionKey{Tenant: in.Tenant, Server: svc.ID, ID: id})
	return s, ok && s.link != nil && s.svc == svc
}

// Message takes one message, or a batch, of a session that Connect began. It returns when the bytes are no longer
// needed. Answers go out on the session's connection; in.Conn is told whether the message was taken.
func (n *Node) Message(svc *Service, in *Input, principal any, m *codec.Message, body []byte) {
	s, ok := n.links.find(svc, in)
	if !ok {
		unknownLink(in.Conn, m.ID)
		return
	}
	s.peer.madeBy(in)
	if rec := s.view.Load().rec; in.Version != "" && rec.Revision != "" && in.Version != rec.Revision {
		faults.SessionRevision.TellMore(in.Conn, rec.Revision, m.ID)
		return
	}
	until := time.Now().Add(svc.Limits.StoreWait)
	if m.Kind != codec.Batch {
		if s.take(in, in.Conn, s.link, principal, m, body, until) {
			in.Conn.Accepted()
		}
		return
	}
	all, fault := readBatch(s, m, body)
	if fault != "" {
		if in.Conn == s.link.conn { // a refusal without an id is none for a message of its own
			s.link.send(codec.AppendError(nil, nil, mcp.CodeInvalidRequest, fault, nil))
		} else {
			in.Conn.Reject(400, mcp.CodeInvalidRequest, fault, nil, nil, 0)
		}
		return
	}
	gathered := &linkBatch{link: s.link}
	for i := range all {
		if all[i].m.Kind == codec.Request {
			gathered.open++
		}
	}
	for i := range all {
		reply := gathered.member() // what is refused of a batch is refused by itself
		s.take(in, reply, reply, principal, &all[i].m, all[i].raw, until)
	}
	in.Conn.Accepted()
}

func unknownLink(c answerer, id []byte) {
	faults.UnknownLink.Tell(c, id)
}

// take takes one message of a session that lives on a connection. It reports whether it did; else it has answered on
// came. A request that was taken is answered on reply, also if it is refused for a limit.
func (s *sessionActor) take(in *Input, came answerer, reply replier, principal any, m *codec.Message, raw []byte, until time.Time) bool {
	if in.Stateless && m.Kind == codec.Request {
		s.takeStateless(in, principal, m, raw)
		return true
	}
	switch m.Kind {
	case codec.Request:
		return s.takeRequestOn(in, came, reply, principal, m, raw)
	case codec.Notification:
		s.notified(m, until)
	default:
		_ = s.answered(m) // nothing of such a session is stored, so that nothing can fail
	}
	return true
}

func (s *sessionActor) takeRequestOn(in *Input, came answerer, reply replier, principal any, m *codec.Message, raw []byte) bool {
	n := s.node
	fresh := s.view.Load().rec.Revision == ""
	switch {
	case string(m.Method) == mcp.MethodPing: // which is legal before initialize, and waits for nobody
		reply.Answer(200, codec.AppendResult(nil, m.ID, []byte("{}")))
		return true
	case string(m.Method) == mcp.MethodInitialize && fresh:
		s.initializeOn(m)
		return true
	case fresh:
		faults.NotInitialized.Tell(reply, m.ID)
		return true
	case n.drain.turnsAway(s.svc, m):
		n.refusals.turnAway(reply, errUnavailable, m.ID)
		return true
	}
	return s.callOn(in, came, reply, principal, raw)
}

// takeStateless takes a stateless request on a connection that carries others (2026-07-28,
// basic/transports/stdio).
func (s *sessionActor) takeStateless(in *Input, principal any, m *codec.Message, raw []byte) {
	a := &arrival{n: s.node, svc: s.svc, in: *in, principal: principal, m: m, body: raw, to: s.link, on: overLink{s}, sess: s}
	switch {
	case string(m.Method) == mcp.MethodSubscriptionsListen:
		a.listen()
	case !s.link.slot(s.svc.Limits.StoreWait):
		s.node.refusals.refuse(s.link, m.ID, verdict{reason: CallsOfSession})
	case !a.take():
		s.link.leave()
	}
}

// initializeOn settles a session that lives on a connection.
func (s *sessionActor) initializeOn(m *codec.Message) {
	ctx, cancel := context.WithTimeout(s.node.base, s.svc.Limits.StoreWait)
	defer cancel()
	set, result, rerr := s.svc.Handler.Initialize(withOwner(ctx, s.peer.Owner()), m.Params)
	if rerr != nil {
		s.link.send(codec.AppendError(nil, m.ID, rerr.Code, rerr.Message, rerr.Data))
		return
	}
	id := bytes.Clone(m.ID)
	settled := false
	err := s.change(ctx, func(r *session.Record) bool {
		if settled = r.Revision != ""; !settled { // by another one that came at the same time
			r.Revision, r.Client, r.Capabilities, r.Told = set.Revision, set.Client, set.Capabilities, set.Told
		}
		return !settled
	})
	switch {
	case err != nil: // the connection is gone
	case settled:
		s.link.send(codec.AppendError(nil, id, faults.Initialized.Code, faults.Initialized.Text, nil))
	default:
		s.svc.began(ctx, s.peer)
		s.link.send(codec.AppendResult(nil, id, result))
	}
}

// callOn runs a request of a session that lives on a connection, on a goroutine of its own: who sent it may have to
// answer a question before the request can end.
func (s *sessionActor) callOn(in *Input, came answerer, reply replier, principal any, raw []byte) bool {
	n := s.node
	var m codec.Message
	body := bytes.Clone(raw)
	if codec.Scan(body, &m, codec.Limits{MaxDepth: s.svc.Limits.Depth}) != nil {
		return true // it was scanned before: this cannot be
	}
	if !s.link.slot(s.svc.Limits.StoreWait) {
		n.refusals.turnAway(reply, verdict{reason: CallsOfSession}, m.ID)
		return true
	}
	r, err := s.admitted(in, &m)
	if err == nil {
		s.begins(r, r.boundWay(s, reply), &m, body, &Call{principal: principal, trace: in.Trace, attempt: 1})
		err = s.enters(r)
	}
	if err != nil {
		s.link.leave()
		switch {
		case errors.Is(err, kernel.ErrStopped): // it has just ended
			unknownLink(came, m.ID)
			return false
		case errors.Is(err, session.ErrDuplicate): // an error with this id would be taken for the answer to the first
			n.refusals.refused(came, err, m.ID)
			return false
		}
		n.refusals.turnAway(reply, err, m.ID)
		return true
	}
	s.link.calls.Go(func() {
		r.serve()
		reply.over() // whatever became of the request, its batch must not wait for it
		s.link.leave()
	})
	return true
}

// Hush says of a session that Connect began that its client has said its last:
// questions to it fail from now on, and no request waits for its turn. Disconnect is
// to follow.
func (n *Node) Hush(svc *Service, in *Input) {
	if s, ok := n.links.find(svc, in); ok {
		s.link.hush()
	}
}

// Disconnect ends a session that Connect began, after its client has said its last: questions to it fail, its calls go
// on until ctx ends, and those that run then end with -32010. It returns when all is queued that will be.
func (n *Node) Disconnect(ctx context.Context, svc *Service, in *Input) {
	s, ok := n.links.find(svc, in)
	if !ok {
		return // the connection was lost before
	}
	s.link.hush()
	ended := make(chan struct{})
	go func() {
		s.link.calls.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		_ = s.Post(giveUpCalls{})
		select {
		case <-ended:
		case <-time.After(lastWait):
		}
	}
	n.listeners.end("the server is shutting down", func(l *listenActor) bool { return l.sess == s })
	s.endSession()
}

// lastWait is how long handlers may take to heed the end of their context.
const lastWait = time.Second

// slot waits for a call of a patient client to end when it has as many as it may. It reports whether there is room.
func (l *link) slot(wait time.Duration) bool {
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
	case <-l.deaf:
	case <-timer.C:
	}
	return false
}

func (l *link) leave() {
	if l.slots != nil {
		<-l.slots
	}
}

// edit changes the record of a session that lives on a connection, which is stored nowhere.
type edit struct {
	kernel.Reply
	f   func(*session.Record) bool
	err error
}

func (e *edit) Refused(error) { e.err = ErrSessionEnded; e.Done() }

func (s *sessionActor) changeLinked(f func(*session.Record) bool) error {
	m := &edit{f: f}
	m.Init()
	if s.Post(m) != nil {
		return s.svc.ended()
	}
	m.Wait()
	return m.err
}

// links are the sessions of this node that live on a connection.
type links struct {
	node *Node
	mu   sync.Mutex // guards all
	all  map[*sessionActor]struct{}
}

func (l *links) add(s *sessionActor) {
	l.mu.Lock()
	l.all[s] = struct{}{}
	l.mu.Unlock()
}

func (l *links) drop(s *sessionActor) {
	l.mu.Lock()
	delete(l.all, s)
	l.mu.Unlock()
}

func (l *links) snapshot() []*sessionActor {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*sessionActor, 0, len(l.all))
	for s := range l.all {
		all = append(all, s)
	}
	return all
}

func (l *links) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

// comment keeps a silent connection open, and finds out whether the client is still there.
func (l *link) comment(now time.Time, every time.Duration) {
	if now.UnixNano()-l.said.Load() >= int64(every) {
		l.said.Store(now.UnixNano())
		l.conn.Comment()
		l.conn.Flush()
	}
}

// bound delivers a request on a connection that carries others: one that is a session, or
// that stateless requests come on. What the handler sends goes out at once. An answer that
// could not be delivered cannot be found again.
type bound struct {
	r    *requestActor
	link *link
	to   replier // where the answer goes
}

var _ delivery = (*bound)(nil)

// boundWay is the way of a request of a session that is its connection.
func (r *requestActor) boundWay(s *sessionActor, to replier) way {
	return way{delivery: &bound{r: r, link: s.link, to: to}, grace: s.svc.Limits.Grace, table: s, client: s, pace: s.link}
}

func (d *bound) open() {}

func (d *bound) send(e stream.Entry) {
	d.link.send(e.Data)
	e.Drop(nil)
}

func (d *bound) answer(a response) { d.to.Answer(200, a.data) }

func (d *bound) end(why ending, id []byte) {
	switch why {
	case cancelled: // a batch does not wait for a handler that is deaf to it
		d.to.over()
	case givenUp:
		d.to.Answer(200, lostCall(id))
	case broken:
		d.r.Contain(func() { d.to.Answer(200, internalError(id)) })
	}
}

// overLink is the carrier of a stateless request on a connection that carries others.
type overLink struct{ s *sessionActor }

var _ carrier = overLink{}

func (overLink) keeps() bool { return false }

func (c overLink) exchange(Exchange) exchange {
	return &boundExchange{bound: bound{link: c.s.link, to: c.s.link}}
}

func (c overLink) way(self *stateless, w way) way {
	self.deaf, self.logged = c.s.deaf, &c.s.logged
	w.table, w.pace = c.s, c.s.link
	return w
}

func (c overLink) run(f func())             { c.s.link.calls.Go(f) }
func (c overLink) listen(Exchange) audience { return linkAudience{c.s.link, c.s} }

// boundExchange is one stateless request on a connection. It has one of the client's
// places, if the client waits for one, until it has its answer.
type boundExchange struct {
	bound
	left bool // the place is free
}

var _ exchange = (*boundExchange)(nil)

func (x *boundExchange) joins(r *requestActor) { x.r = r }
func (x *boundExchange) serves()               {}
func (x *boundExchange) await()                {}

func (x *boundExchange) answer(a response) {
	x.bound.answer(a)
	x.leave()
}

func (x *boundExchange) end(why ending, id []byte) {
	x.bound.end(why, id)
	if why != cancelled { // else its handler has the place until it returns
		x.leave()
	}
}

func (x *boundExchange) leave() {
	if !x.left {
		x.left = true
		x.link.leave()
	}
}

// answerer is where a request is answered or refused.
type answerer interface {
	Answer(status int, body []byte) bool
	Reject(status, code int, message string, data, id []byte, retryAfter time.Duration)
}

// replier is where a request of a session that is its connection is answered.
type replier interface {
	answerer
	// over says that no answer comes any more.
	over()
}

var (
	_ replier = (*link)(nil)
	_ replier = (*batchMember)(nil)
)

// Answer sends a response on the connection.
func (l *link) Answer(_ int, body []byte) bool {
	l.send(body)
	return true
}

// Reject sends an error on the connection.
func (l *link) Reject(_, code int, message string, data, id []byte, _ time.Duration) {
	l.send(codec.AppendError(nil, id, code, message, data))
}

func (l *link) over() {}

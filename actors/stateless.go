package actors

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors/internal/mrtr"
	"github.com/troupe-run/troupe/actors/internal/relay"
	"github.com/troupe-run/troupe/actors/internal/session"
	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/mcp"
)

// stateless is the part of a request actor that only a stateless request has, as all
// requests are since 2026-07-28: there is no session to hold it.
type stateless struct {
	generation uint64 // the actor's, while it serves this request
	peer       Peer
	meta       requestMeta
	logged     *atomic.Pointer[logLimiter]
	own        atomic.Pointer[logLimiter] // logged points here for a request over HTTP
	inputEnded <-chan struct{}            // closed when the client can send no request again; nil: never
	alone      bool                       // the client has the process for itself
	charged    *sessionAccount            // of the connection that carries others, whose bucket has paid; nil over HTTP
	direct     direct                     // the delivery of a request whose handler runs on the goroutine that read it
	served     roundTrip                  // the exchange that the call is or was answered on last

	address string
	input   // questions and answers so far; the holder of input.mu owns it

	prev, next *requestActor // in the list of stateless requests
}

func (s *stateless) logLimiter() *atomic.Pointer[logLimiter] { return s.logged }

// requestMeta is what a client says of itself in the `_meta` of each stateless request. It
// is the peer's identity.
type requestMeta struct {
	first []byte
	now   atomic.Pointer[[]byte] // of the request that the call answers now
}

var _ identity = (*requestMeta)(nil)

func (m *requestMeta) clientRecord() session.Record {
	meta := *m.now.Load()
	level, _ := codec.Str(codec.Field(meta, mcp.MetaLogLevel))
	return session.Record{
		Revision: mcp.Revision20260728.String(), Client: codec.Optional(meta, mcp.MetaClientInfo),
		Capabilities: codec.Field(meta, mcp.MetaClientCapabilities), Level: level,
	}
}

func (*requestMeta) clientRevision() mcp.Revision           { return mcp.Revision20260728 }
func (*requestMeta) currentSession() (*sessionActor, error) { return nil, ErrNoStream }

// statelessRequest is a stateless request that has just come.
type statelessRequest struct {
	n         *Node
	svc       *Service
	in        Input
	principal any
	m         *codec.Message
	body      []byte
	to        answerer // gets the refusal, if any
	on        carrier
	sess      *sessionActor   // whose connection it came on; nil over HTTP
	charged   *sessionAccount // of sess
}

// carrier is the transport of a stateless request: HTTP, or a connection that carries
// others too.
type carrier interface {
	// runsInline reports whether the goroutine that read a request may run its handler if that
	// does not ask the client.
	runsInline() bool
	// roundTrip is the delivery of a call that has a goroutine of its own. x is the
	// request's exchange, nil if it has none.
	roundTrip(x Exchange) roundTrip
	// completeWay completes w, the way of the request self.
	completeWay(self *stateless, w way) way
	// runBeside runs f on a goroutine of its own.
	runBeside(f func())
	// audienceOf returns where a listener sends its messages.
	audienceOf(x Exchange) audience
	// runForward runs f, which may wait for another node. It returns what f does or, if f runs beside it, that a call has begun.
	runForward(a *statelessRequest, f func(*statelessRequest) bool) (begun bool)
	// exchangeOf is where the call of another node sends its messages.
	exchangeOf(a *statelessRequest) Exchange
}

// Asks reports whether requests of the method may be answered with questions
// (2026-07-28, basic/patterns/mrtr).
func Asks(method []byte) bool {
	switch string(method) {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet, mcp.MethodResourcesRead:
		return true
	}
	return false
}

// roundTrip is one request of a stateless call and its response: an HTTP exchange, or a
// message on a connection. The call may outlive it.
type roundTrip interface {
	delivery
	// attachCall makes r the call that the exchange answers.
	attachCall(r *requestActor)
	// watchConn begins to watch the connection: its end cancels the call.
	watchConn()
	// releaseExchange gives back what the exchange holds of its client's resources, unless its
	// response already did.
	releaseExchange()
	// awaitResponse waits until the exchange has its response or its client is gone. On a
	// connection that carries others it returns at once.
	awaitResponse()
}

// acceptRequest takes the request or refuses it. It reports whether it began a call, which then
// sends the response. On a connection that carries others it does not wait for that.
func (a *statelessRequest) acceptRequest() (begun bool) {
	n, m := a.n, a.m
	switch {
	case tooLong(m): // each message about the request would repeat the long token
		refusal.LongToken.Tell(a.to, m.ID)
		return false
	case n.drain.redirectsRequest(a), n.drain.refusesRequest(a.svc, a.principal, m, 0) || n.store.Suspended() && !n.awaitLease(a.svc.Limits.StoreWait), a.svc.life.over.Load():
		refusal.Unavailable.Tell(a.to, m.ID)
		return false
	case string(m.Method) == mcp.MethodSubscriptionsListen:
		a.beginListener()
		return false
	case m.State != nil && Asks(m.Method):
		return a.retryCall()
	}
	cost := a.charged.callCost(m, len(a.body))
	from, no := n.accounts.admitRequest(a.charged, &a.svc.Limits, &a.in, cost)
	if from == nil {
		n.refusals.refuseRequest(a.to, no, m.ID)
		return false
	}
	given, err := mrtr.Responses(m, nil)
	if err != nil {
		badResponses(a.to, m.ID, err)
		n.accounts.Leave(from)
		return false
	}
	apart := !a.on.runsInline() || a.svc.Handler.MayAsk(m.Method, m.Name)
	var held quota.Holding
	if apart && !a.charged.isAlone() {
		if no := n.accounts.reserveMemory(&held, a.charged, &a.in, quota.Parked, callMemory(m, a.body)); no != nil {
			n.accounts.refundTokens(a.charged, &a.svc.Limits, from, cost)
			n.accounts.Leave(from)
			n.refusals.refuseRequest(a.to, no, m.ID)
			return false
		}
	}
	r, x := a.beginCall(from, apart)
	r.memory.Move(&held)
	r.stateless.Given = given
	a.runCall(r, x)
	return true
}

// beginCall returns the actor of the admitted request. apart says that the call may outlive its
// exchange; x is the exchange then, otherwise nil.
func (a *statelessRequest) beginCall(from *quota.Account, apart bool) (r *requestActor, x roundTrip) {
	m, body := a.m, a.body
	var meta []byte
	if apart { // the call outlives the exchange, and with it these bytes
		own := new(codec.Message)
		body = bytes.Clone(body)
		_ = codec.Scan(body, own, anyMessage) // no error: it was scanned before
		m, meta = own, own.Meta
	} else {
		meta = bytes.Clone(m.Meta) // copied because the peer may be used after the call
	}
	r = a.n.calls.takeActor(from)
	s := &stateless{generation: r.generation, alone: a.charged.isAlone(), charged: a.charged, address: a.in.Address, meta: requestMeta{first: meta}}
	s.meta.now.Store(&s.meta.first)
	s.peer = Peer{node: a.n, svc: a.svc, key: SessionKey{Tenant: a.in.Tenant, Server: a.svc.ID}, who: &s.meta}
	r.stateless = s
	s.logged = &s.own
	w := way{grace: a.svc.Limits.StatelessGrace, table: noTable{}, client: s, pace: noPacer{}}
	if apart {
		r.used = true
		r.out.Free() // others can use the pooled buffer while the call waits
		r.out = new(codec.Buffer)
		x = a.on.roundTrip(a.in.Exchange)
		x.attachCall(r)
		w.delivery = x
	} else {
		s.direct = direct{r: r, conn: a.in.Exchange}
		w.delivery = &s.direct
	}
	r.beginRequest(a.svc, a.on.completeWay(s, w), m, body, (&Call{principal: a.principal, trace: a.in.Trace, attempt: 1, peer: &s.peer}).withNeeds(a.in.Needs))
	return r, x
}

// runCall runs the request, and returns when its exchange has its response.
func (a *statelessRequest) runCall(r *requestActor, x roundTrip) {
	r.stateless.served = x
	if x == nil {
		r.stateless.served = &r.stateless.direct
	}
	r.stateless.served.watchConn()
	if err := r.enterTable(r.svc.Limits.PerSession); err != nil {
		r.cancel(err)
		a.n.refusals.refuseRequest(a.to, err, r.id)
		r.way.endDelivery(cancelled, r.id)
		r.stateless.served.releaseExchange()
		r.hideFromRetries()
		r.releaseActor()
		return
	}
	a.n.statelessCalls.addRequest(r)
	if x == nil {
		r.serveStateless()
		return
	}
	a.on.runBeside(r.serveStateless)
	x.awaitResponse()
}

// beginListener begins a listener.
func (a *statelessRequest) beginListener() {
	n, svc, m := a.n, a.svc, a.m
	switch {
	case tooLong(m):
		refusal.LongToken.Tell(a.to, m.ID)
		return
	case a.sess != nil && a.sess.hasListener(m.ID):
		refusal.DuplicateID.Tell(a.to, m.ID)
		return
	}
	cost := a.charged.callCost(m, len(a.body))
	if no := n.accounts.chargeTokens(a.charged, &a.in, rateOfCalls, cost); no != nil {
		n.refusals.refuseRequest(a.to, no, m.ID)
		return
	}
	id := requestMeta{first: bytes.Clone(m.Meta)}
	id.now.Store(&id.first)
	peer := &Peer{node: n, svc: svc, key: SessionKey{Tenant: a.in.Tenant, Server: svc.ID, ID: listenPrefix + newID()}, who: &id}
	from, ok := n.accounts.admitListener(&a.in, a.to, m.ID)
	if !ok {
		return
	}
	var held quota.Holding
	begun := false
	defer func() {
		if !begun { // refused, or the handler has panicked
			held.Free()
			from.Held[heldStreams].Add(-1)
		}
	}()
	// What is decoded of a filter is counted before, and what it really holds afterwards.
	room := func(bytes int64) bool {
		held.Reset()
		no := n.accounts.reserveMemory(&held, a.charged, &a.in, quota.Listeners, bytes)
		if no == nil || a.charged.isAlone() {
			return true
		}
		n.refusals.refuseRequest(a.to, no, m.ID)
		return false
	}
	decoded := listenerBytes + decodedFilter*int64(len(m.Params))
	if !room(decoded) {
		return
	}
	turn := func(work func() error) (err error) {
		if n.accounts.runInTurn(n.base, from, a.charged.isAlone(), func() { err = work() }) {
			return err
		}
		n.accounts.refundTokens(a.charged, &svc.Limits, from, cost)
		return Unavailable
	}
	ctx, cancel := context.WithTimeout(n.base, svc.Limits.StoreWait+limits.TurnWait.Value())
	defer cancel()
	call := (&Call{ctx: ctx, peer: peer, msg: m, principal: a.principal, trace: a.in.Trace, attempt: 1, turn: turn}).withNeeds(a.in.Needs)
	filter, rerr := svc.Handler.Listening(ctx, call)
	holds := filter.memorySize()
	switch {
	case rerr == Unavailable:
		refusal.Unavailable.Tell(a.to, m.ID)
		return
	case rerr != nil:
		if no := call.deniedAs(rerr); no != nil {
			no.Tell(a.to, m.ID)
			return
		}
		a.to.Answer(statusOf(response{code: rerr.Code}), codec.AppendError(nil, m.ID, rerr.Code, rerr.Message, compactData(rerr.Data)))
		return
	case holds > decoded && !room(holds):
		return
	}
	held.Set(holds)
	slices.Sort(filter.URIs)
	begun = true
	l := &listenActor{node: n, svc: svc, sess: a.sess, key: peer.key, to: a.on.audienceOf(a.in.Exchange), id: bytes.Clone(m.ID), filter: filter, from: from}
	if l.sess == nil {
		l.holder, l.until = heldBy(a.in.Exchange)
	}
	l.held.Move(&held)
	n.k.Start(&l.Actor, KindSubscription, "", l)
	if !l.to.beginResponse(l) {
		_ = l.Post(endListen{})
		return
	}
	// The listener gets every change from here on, so that none is lost between the
	// acknowledgement and the first change.
	n.listeners.Put(l.key, l)
	for _, uri := range filter.URIs {
		n.subs.Follow(l, uri)
	}
	_ = l.Post(acknowledge{})
	l.to.bindListener(l)                             // last: bindListener ends the listener that it finds
	if n.drain.over.Load() || svc.life.over.Load() { // the end came before it could find the listener
		_ = l.Post(endListen{reason: "the server is shutting down"})
	}
}

// retryCall takes a request that is sent again with the input that its call asked for.
func (a *statelessRequest) retryCall() (begun bool) {
	n, m := a.n, a.m
	cost := a.charged.callCost(m, len(a.body))
	from, no := n.accounts.admitRequest(a.charged, &a.svc.Limits, &a.in, cost) // first, because opening a state may read the store
	if from == nil {
		n.refusals.refuseRequest(a.to, no, m.ID)
		return false
	}
	st, err := n.mrtr.openState(a.svc.ID, a.in.Tenant, m, time.Now())
	var given map[string][]byte
	var bad error
	var denied *refusal.Refusal
	if err == nil {
		denied = a.svc.scopeRefusal(a.principal, st.Scopes)
		given, bad = mrtr.Responses(m, st.Asked)
	}
	switch {
	case errors.Is(err, store.ErrUnavailable):
		n.log.Warn("requestState not readable", "error", err)
		n.accounts.refundTokens(a.charged, &a.svc.Limits, from, cost) // the failure is not the client's
		refusal.Unavailable.Tell(a.to, m.ID)
	case err != nil:
		badState(a.to, m.ID)
	case denied != nil:
		denied.Tell(a.to, m.ID)
	case bad != nil:
		badResponses(a.to, m.ID, bad)
	}
	if err != nil || bad != nil || denied != nil {
		n.accounts.Leave(from)
		return false
	}
	sum := mrtr.AnswersDigest(m)
	x := retriedRequest{roundTrip: a.on.roundTrip(a.in.Exchange), id: bytes.Clone(m.ID), token: bytes.Clone(m.ProgressToken), meta: bytes.Clone(m.Meta), from: from}
	if _, other := n.fleet.parkedAt(st); other {
		return a.on.runForward(a, func(a *statelessRequest) bool { return a.resumeCall(from, st, x, sum, given) })
	}
	return a.resumeCall(from, st, x, sum, given)
}

// rerunCall begins a call whose actor is gone again, with all answers so far. It reports
// whether it did: another request may have been quicker.
func (a *statelessRequest) rerunCall(from *quota.Account, st *mrtr.State, sum mrtr.Digest, given map[string][]byte) bool {
	var x roundTrip
	r, err := a.n.mrtr.Obtain(st.Park, func() (r *requestActor, _ error) {
		r, x = a.beginCall(from, true)
		a.n.accounts.reserveAnyway(&r.memory, a.charged, &a.in, quota.Parked, callMemory(a.m, a.body))
		r.call.attempt = 2
		r.call.Need(st.Scopes)
		r.stateless.Given = st.Answers()
		maps.Copy(r.stateless.Given, given) // which are answers to open questions alone
		r.stateless.Round, r.stateless.park = st.Round, st.Park
		r.call.takeCarried(st.Steps)
		r.parking = &parking{asked: st.Round, taken: st.Round, digest: sum}
		return r, nil
	})
	if x == nil || err != nil {
		return false
	}
	a.runCall(r, x)
	return true
}

// resumeCall brings the answers to the call that a state names, on this node or on another one, or begins it again. It reports whether
// a call here has the exchange.
func (a *statelessRequest) resumeCall(from *quota.Account, st *mrtr.State, x retriedRequest, sum mrtr.Digest, given map[string][]byte) (begun bool) {
	n, m := a.n, a.m
	for {
		verdict, outcome := n.mrtr.retryCall(st, x, sum, given)
		switch verdict {
		case retryTaken:
			x.awaitResponse()
			return true
		case retryJoined:
			x.awaitResponse()
			begun = true
		case retrySettled:
			a.to.Answer(200, withID(m.ID, outcome))
		default:
			became := forwardMissing
			if at, other := n.fleet.parkedAt(st); other { // also if one waits here: while this node was cut off, that one ran the call again
				became = a.forwardTo(at)
			}
			switch {
			case became == forwardServed:
			case became == forwardSilent: // a second run while the first one waits would ask its client twice
				n.accounts.refundTokens(a.charged, &a.svc.Limits, from, a.charged.callCost(m, len(a.body)))
				refusal.Unavailable.Tell(a.to, m.ID)
			case verdict == retryRefused:
				badState(a.to, m.ID)
			case !a.svc.Handler.Safe(m.Method, m.Name):
				refusal.Lost.Tell(a.to, m.ID)
			case a.sess == nil && n.drain.sending.Load(): // another node runs it again
				refusal.Unavailable.Tell(a.to, m.ID)
			case a.rerunCall(from, st, sum, given):
				return true
			default:
				continue // another request has begun the call: find it
			}
		}
		n.accounts.Leave(from)
		return begun
	}
}

// forwardTo forwards the request to the node where its call waits, and answers it as the call there does.
func (a *statelessRequest) forwardTo(to store.Address) forwardOutcome {
	n, wait := a.n, a.svc.Limits.StoreWait
	x := &proxy{to: to, id: relay.NewID(), conn: a.on.exchangeOf(a), sess: a.sess, name: a.m.ID}
	if !a.charged.isAlone() {
		if no := n.accounts.reserveMemory(&x.held, a.charged, &a.in, quota.Queues, exchangeBytes); no != nil {
			n.refusals.refuseRequest(a.to, no, a.m.ID)
			return forwardServed
		}
		defer x.held.Free()
	}
	var ctx context.Context
	ctx, x.cancel = context.WithCancelCause(x.conn.Context())
	defer x.cancel(nil)
	var over context.CancelFunc
	x.going, over = context.WithCancel(ctx)
	x.Near = relay.NewNear(x.id, &x.held, func(letter []byte) { n.fleet.sendLetter(to, exchangeAlive, packet(letter)) }, over)
	n.relays.proxies.Put(x.id, x) // first, as frames may come before the reply
	defer n.relays.proxies.Drop(x.id, x)
	bounded, stop := context.WithTimeout(ctx, wait)
	defer stop()
	ask, stop := context.WithTimeout(bounded, wait/5*3)
	defer stop()
	_, err := n.relays.forwardRequest(ask, to, exchangeRetry, x.id, &forwardHead{ID: a.m.ID, Tenant: a.in.Tenant, Address: a.in.Address, Server: a.svc.ID}, a.body)
	switch {
	case err == nil:
		x.Hear(0)
		x.proxyCall(ctx, a)
		return forwardServed
	case ctx.Err() != nil:
		n.relays.sendGone(to, x.id, false)
		return forwardServed
	case errors.Is(err, store.ErrUnavailable): // that node may have taken the request
		n.relays.sendGone(to, x.id, true)
	}
	if n.fleet.isNodeLost(bounded, to, err) {
		return forwardMissing
	}
	return forwardSilent
}

// overHTTP is the carrier of a stateless request that has an HTTP exchange to itself.
type overHTTP struct{}

var _ carrier = overHTTP{}

func (overHTTP) runsInline() bool { return true }
func (overHTTP) roundTrip(x Exchange) roundTrip {
	return &direct{conn: x, over: make(chan struct{})}
}
func (overHTTP) completeWay(_ *stateless, w way) way     { return w }
func (overHTTP) runBeside(f func())                      { go f() }
func (overHTTP) audienceOf(x Exchange) audience          { return &httpAudience{conn: x} }
func (overHTTP) exchangeOf(a *statelessRequest) Exchange { return a.in.Exchange }

func (overHTTP) runForward(a *statelessRequest, f func(*statelessRequest) bool) (begun bool) {
	return f(a)
}

// direct delivers a stateless request over its HTTP exchange. It stores nothing, and the
// end of the connection ends the request.
type direct struct {
	r       *requestActor
	conn    Exchange
	streams bool          // the response is a stream
	left    bool          // over is closed
	stream  *liveStream   // nil until the stream is open
	unwatch func() bool   // ends the watch on the connection, nil if there is none; read only after watched is set
	watched atomic.Bool   // unwatch is set; the connection may end before that
	over    chan struct{} // releases the goroutine that waits in awaitResponse; nil if that runs the handler
}

var (
	_ delivery  = (*direct)(nil)
	_ roundTrip = (*direct)(nil)
)

func (d *direct) attachCall(r *requestActor) { d.r = r }

func (d *direct) watchConn() {
	r, generation := d.r, d.r.generation
	d.unwatch = d.conn.WhenGone(func() { _ = r.Post(called{generation, connGone{d, exchangeBroken(d.conn), endedContext(d.conn)}}) })
	d.watched.Store(true)
}

func (d *direct) awaitResponse() {
	select {
	case <-d.over:
	case <-d.conn.Context().Done():
		if endedContext(d.conn) != nil { // the response can still be written
			<-d.over
		}
	}
}

func (d *direct) openStream() {
	if d.streams { // it waited for the outcome of a call whose response was a stream
		return
	}
	d.streams = true
	if d.conn.Open() {
		d.stream = d.r.node.talking.addStream(d.conn, d.r.svc.Limits.KeepAlive)
	}
}

func (d *direct) sendEntry(e stream.Entry) {
	d.conn.Event("", 0, e.Data)
	d.conn.Flush()
	d.stream.noteWritten()
	e.Drop(nil)
}

func (d *direct) answerRequest(a response) {
	if !d.streams {
		d.endWatch() // first, because a client with its response may close the connection
	}
	switch {
	case d.streams:
		d.conn.Event("", 0, a.data)
		d.conn.Finish()
	case a.goesOn && d.over == nil: // the handler keeps the connection's goroutine
		d.conn.AnswerLast(200, a.data)
	case a.denied != nil:
		a.denied.Tell(d.conn, d.r.id)
	case a.exited:
		d.conn.AnswerLast(statusOf(a), a.data)
	case a.unavailable && !a.goesOn && d.r.isSafe(): // a proxy may send what is answered with 503 to another node
		refusal.Unavailable.Tell(d.conn, d.r.id)
	default:
		d.conn.Answer(statusOf(a), a.data)
	}
	d.endWatch()
	d.releaseExchange()
}

// statusOf is the HTTP status of a plain response.
func statusOf(a response) int {
	if info, ok := protocol.LookupError(a.code); a.code != 0 && ok {
		return info.StatelessStatus
	}
	return 200
}

func (d *direct) endDelivery(why ending, id []byte) {
	d.endWatch()
	switch {
	case why == givenUp && d.streams:
		d.conn.Event("", 0, d.r.givenUpResponse(id))
		d.conn.Finish()
	case why == givenUp && d.r.isSafe():
		refusal.Unavailable.Tell(d.conn, id)
	case why == givenUp: // the call may have taken effect, so that its client must decide whether to send it again
		d.conn.Answer(200, lostCall(id))
	case why == broken:
		d.r.Contain(func() { sendInternalError(d.conn, id, 500) })
		d.r.Contain(d.conn.Cut)
	}
	d.releaseExchange()
}

// endWatch ends the watch on the connection.
func (d *direct) endWatch() {
	if !d.watched.Load() { // there is no watch, or the connection ended while it began
		d.r.used = true
		return
	}
	if d.unwatch != nil && !d.unwatch() {
		d.r.used = true // connGone may be on its way to the actor
	}
	d.unwatch = nil
}

// releaseExchange lets the goroutine go on that waits in awaitResponse.
func (d *direct) releaseExchange() {
	if d.over != nil && !d.left {
		d.left = true
		close(d.over)
	}
}

// connGone reports to a request that the client of x is gone or, if broken is set, that the node is not heard that has its
// connection. If ended is set, the client is there, and a middleware has ended its request's context.
type connGone struct {
	x      roundTrip
	broken bool
	ended  error
}

// statelessCalls are the stateless requests of this node, unordered.
type statelessCalls struct {
	mu    sync.Mutex // guards the links between them
	first *requestActor
}

func (l *statelessCalls) addRequest(r *requestActor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.stateless.next = l.first; l.first != nil {
		l.first.stateless.prev = r
	}
	l.first = r
}

func (l *statelessCalls) dropRequest(r *requestActor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := r.stateless
	switch {
	case s.prev != nil:
		s.prev.stateless.next = s.next
	case l.first == r:
		l.first = s.next
	default:
		return // it was never added
	}
	if s.next != nil {
		s.next.stateless.prev = s.prev
	}
	s.prev, s.next = nil, nil
}

func (l *statelessCalls) isEmpty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first == nil
}

// statelessRef names a request by its actor and the actor's generation.
type statelessRef struct {
	r          *requestActor
	generation uint64
}

// requestsOf returns the requests of a service, or all if svc is nil. An actor that serves
// another request by then drops a message that is wrapped in called.
func (l *statelessCalls) requestsOf(svc *Service) (all []statelessRef) {
	return l.selectRequests(ofService(svc))
}

// ofService picks the requests of a service, or all if svc is nil.
func ofService(svc *Service) func(*requestActor) bool {
	return func(r *requestActor) bool { return svc == nil || r.stateless.peer.svc == svc }
}

// selectRequests returns the requests for which which returns true.
func (l *statelessCalls) selectRequests(which func(*requestActor) bool) (all []statelessRef) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for r := l.first; r != nil; r = r.stateless.next {
		if which(r) {
			all = append(all, statelessRef{r, r.stateless.generation})
		}
	}
	return all
}

// giveUp gives up the requests of a service, or all if svc is nil.
func (l *statelessCalls) giveUp(svc *Service, cause error) {
	l.giveUpOf(cause, ofService(svc))
}

// giveUpOf gives up the requests for which which returns true.
func (l *statelessCalls) giveUpOf(cause error, which func(*requestActor) bool) {
	for _, x := range l.selectRequests(which) {
		_ = x.r.Post(called{x.generation, giveUp{cause}})
	}
}

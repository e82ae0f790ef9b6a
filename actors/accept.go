package actors

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/troupe-run/troupe/actors/internal/mrtr"
	"github.com/troupe-run/troupe/actors/internal/record"
	"github.com/troupe-run/troupe/actors/internal/relay"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/mcp"
)

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

// acceptRequest takes the request or refuses it. It reports whether it began a call, which then
// sends the response. On a connection that carries others it does not wait for that.
func (a *statelessRequest) acceptRequest() (begun bool) {
	n, m := a.n, a.m
	switch {
	case tooLong(m): // each message about the request would repeat the long token
		refusal.LongToken.Tell(a.to, m.ID)
		return false
	case a.isRedirected(), a.svc.refusedBy(&n.drain, a.principal, m, 0) || n.store.Suspended() && !n.awaitLease(a.svc.Limits.StoreWait), a.svc.life.over.Load():
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
	given, err := mrtr.ParseResponses(m, nil)
	if err != nil {
		badResponses(a.to, m.ID, err)
		n.accounts.LeavePlace(from)
		return false
	}
	apart := !a.on.runsInline() || a.svc.Handler.MayAsk(m.Method, m.Name)
	var held quota.Holding
	if apart && !a.charged.isAlone() {
		if no := n.accounts.reserveMemory(&held, a.charged, &a.in, quota.Parked, callMemory(m, a.body)); no != nil {
			n.accounts.refundTokens(a.charged, &a.svc.Limits, from, cost)
			n.accounts.LeavePlace(from)
			n.refusals.refuseRequest(a.to, no, m.ID)
			return false
		}
	}
	r, x := a.beginCall(from, apart)
	r.memory.TakeFrom(&held)
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
	s.peer = Peer{sessions: &a.n.sessions, svc: a.svc, key: SessionKey{Tenant: a.in.Tenant, Server: a.svc.ID}, who: &s.meta}
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
	c := newCall(a.principal, &a.in)
	c.peer = &s.peer
	r.beginRequest(a.svc, a.on.completeWay(s, w), m, body, c)
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
		parkedRequest{r}.hideFromRetries()
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
	case a.sess != nil && n.listeners.hasListener(a.sess, m.ID):
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
	peer := &Peer{sessions: &n.sessions, svc: svc, key: SessionKey{Tenant: a.in.Tenant, Server: svc.ID, ID: listenPrefix + newID()}, who: &id}
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
	call := newCall(a.principal, &a.in)
	call.ctx, call.peer, call.msg, call.turn = ctx, peer, m, turn
	var of *Peer // the listener's own is no session
	if a.sess != nil && a.sess.view.Load().rec.Revision != "" {
		of = a.sess.peer
	}
	observed := svc.observed(of, &a.in, m)
	filter, rerr := svc.Handler.Listening(ctx, call)
	observed(peer.Revision(), rerr)
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
	l := &listenActor{listeners: &n.listeners, svc: svc, sess: a.sess, key: peer.key, to: a.on.audienceOf(a.in.Exchange), id: bytes.Clone(m.ID), filter: filter, from: from}
	if l.sess == nil {
		l.holder, l.until = heldBy(a.in.Exchange)
	}
	l.held.TakeFrom(&held)
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
		given, bad = mrtr.ParseResponses(m, st.Asked)
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
		n.accounts.LeavePlace(from)
		return false
	}
	sum := mrtr.AnswersDigest(m)
	x := retriedRequest{roundTrip: a.on.roundTrip(a.in.Exchange), id: bytes.Clone(m.ID), token: bytes.Clone(m.ProgressToken), meta: bytes.Clone(m.Meta), trace: a.in.Trace, from: from}
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
		r.call.attempt, r.call.earlier = 2, st.Span
		r.call.Need(st.Scopes)
		r.stateless.Given = st.Answers()
		maps.Copy(r.stateless.Given, given) // which are answers to open questions alone
		r.stateless.Round, r.stateless.park, r.stateless.met = st.Round, st.Park, true
		callSteps{r.call}.takeCarried(st.Steps)
		r.parking = &parking{asked: st.Round, taken: st.Round, digest: sum}
		return r, nil
	})
	if x == nil || err != nil {
		return false
	}
	a.runCall(r, x)
	return true
}

// resumeCall brings the answers to the call that a state names, on this node or on another one, or
// begins it again. It reports whether a call here has the exchange.
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
			case !a.svc.runsAgain(m.Method, m.Name):
				refusal.Lost.Tell(a.to, m.ID)
			case a.sess == nil && n.drain.sending.Load(): // another node runs it again
				refusal.Unavailable.Tell(a.to, m.ID)
			case a.rerunCall(from, st, sum, given):
				return true
			default:
				continue // another request has begun the call: find it
			}
		}
		n.accounts.LeavePlace(from)
		return begun
	}
}

// forwardTo forwards the request to the node where its call waits, and answers it as the call there
// does.
func (a *statelessRequest) forwardTo(to store.Address) forwardOutcome {
	n, wait := a.n, a.svc.Limits.StoreWait
	conn := a.on.exchangeOf(a)
	x := &proxy{node: n, to: to, id: relay.NewID(), conn: conn, again: true, every: a.svc.Limits.KeepAlive, sess: a.sess, name: a.m.ID}
	if !a.charged.isAlone() {
		if no := n.accounts.reserveMemory(&x.held, a.charged, &a.in, quota.Queues, exchangeBytes); no != nil {
			n.refusals.refuseRequest(a.to, no, a.m.ID)
			return forwardServed
		}
	}
	var ctx context.Context
	ctx, x.cancel = context.WithCancelCause(conn.Context())
	defer x.cancel(nil)
	defer n.relays.openProxy(ctx, x)()
	bounded, stop := context.WithTimeout(ctx, wait)
	defer stop()
	ask, stop := context.WithTimeout(bounded, wait/5*3)
	defer stop()
	err := x.forward(ask, exchangeRetry, &forwardHead{ID: a.m.ID, Tenant: a.in.Tenant, Address: a.in.Address, Server: a.svc.ID, Trace: a.in.Trace}, a.body)
	switch {
	case err == nil:
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
	// runForward runs f, which may wait for another node. It returns what f does or, if f runs
	// beside it, that a call has begun.
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

// isRedirected reports whether a request of a stateless client is one for another node, as this one
// is about to end. A request that brings answers goes on where its call is. The client of a
// connection that carries others has no other node.
func (a *statelessRequest) isRedirected() bool {
	return a.n.drain.sending.Load() && a.sess == nil && !(a.m.State != nil && Asks(a.m.Method))
}

// acceptor is a node as it takes what clients post.
type acceptor struct{ *Node }

// takeBatch takes a batch that was POSTed (2025-03-26, basic/transports). The batch has one
// exchange and one stream: its response is a JSON array if all its requests end within the
// grace and send nothing else; otherwise it is a stream with one event per response.
func (n acceptor) takeBatch(svc *Service, in *Input, principal any, m *codec.Message, body []byte) {
	s := n.sessions.findSession(svc, in, nil)
	if s == nil {
		return
	}
	body = bytes.Clone(body) // the requests run on goroutines of their own
	all, fault := readBatch(&s.svc.Terms, s.view.Load().rec.Revision, m, body)
	if fault != "" {
		in.Conn.Reject(refusal.New(400, mcp.CodeInvalidRequest, fault))
		return
	}
	requests, others := splitBatch(all)
	if no := n.accounts.chargeMessages(&s.sessionAccount, in, others); no != nil {
		if len(requests) > 0 {
			n.refusals.refuseBatch(in.Conn, no, idsOf(requests))
		} else {
			n.refusals.refuseRequest(in.Conn, no, nil)
		}
		return
	}
	until := time.Now().Add(svc.Limits.StoreWait)
	for i := range all {
		switch e := &all[i]; e.m.Kind {
		case codec.Request:
		case codec.Notification:
			s.takeNotification(in, &e.m, until)
		default:
			if err := n.answers.takeOfSession(s, &e.m); err != nil {
				n.log.Warn("answer not taken", "session", s.key.ID, "error", err)
				refusal.Unavailable.Tell(in.Conn, nil)
				return
			}
		}
	}
	switch {
	case len(requests) == 0:
		s.acceptMessage(in.Conn)
	case slices.ContainsFunc(requests, func(e *element) bool { return svc.refusedBy(&n.drain, principal, &e.m, len(body)) }) || n.store.Suspended() && !n.awaitLease(svc.Limits.StoreWait):
		n.refusals.refuseBatch(in.Conn, refusal.Unavailable, idsOf(requests))
	default:
		for s != nil && !(batchSession{s}).runBatch(in, principal, requests, body) {
			s = n.sessions.findSession(svc, in, nil) // the session has just left memory: activate it anew
		}
	}
}

// takeRequest runs one request of a session.
func (n acceptor) takeRequest(svc *Service, in *Input, principal any, m *codec.Message, body []byte) {
	for {
		s := n.sessions.findSession(svc, in, m.ID)
		if s == nil {
			return
		}
		r, err := sessionCalls{s}.admitRequest(in, m, len(body))
		if err == nil {
			sessionCalls{s}.beginRequest(r, r.loggedWay(s, in.Conn), m, body, newCall(principal, in))
			err = sessionCalls{s}.enterAdmitted(r)
		}
		switch {
		case err == nil:
			r.serveRequest()
		case errors.Is(err, kernel.ErrStopped):
			continue // the session has just left memory: activate it anew
		default:
			n.refusals.refuseInSession(in.Conn, err, m.ID)
		}
		return
	}
}

// takeStateless takes a stateless request over HTTP. It returns when the handler has returned
// or, if the call may ask for input, when the exchange has its response.
func (n acceptor) takeStateless(svc *Service, in *Input, principal any, m *codec.Message, body []byte) {
	switch m.Kind {
	case codec.Request:
		a := &statelessRequest{n: n.Node, svc: svc, in: *in, principal: principal, m: m, body: body, to: in.Exchange, on: overHTTP{}}
		a.acceptRequest()
	case codec.Notification:
		if n.accounts.admitMessage(nil, in, m, len(body)) {
			in.Conn.Accepted() // no notification means anything here
		}
	default:
		refusal.OneMessage.Tell(in.Conn, m.ID)
	}
}

// batchSession is a session as it takes batches.
type batchSession struct{ *sessionActor }

// runBatch runs the requests of a batch, all or none, and returns when their response has
// begun. It returns false, and has run none, if the session's actor has stopped.
func (s batchSession) runBatch(in *Input, principal any, requests []*element, body []byte) bool {
	d := s.sessions
	st, calls := s.newBatchStream(in, principal, requests, body)
	members := make([]*requestActor, 0, len(requests))
	for i, e := range requests {
		r, err := sessionCalls(s).admitRequest(in, &e.m, len(e.raw))
		if err == nil {
			d.accounts.reserveAnyway(&r.memory, &s.sessionAccount, in, quota.Parked, callMemory(&e.m, e.raw))
			sessionCalls(s).beginRequest(r, r.loggedWay(s.sessionActor, nil), &e.m, e.raw, calls[i])
			r.size = len(body)
			r.joinBatch(st)
			err = sessionCalls(s).enterAdmitted(r)
		}
		if err != nil {
			for _, r := range members {
				s.withdrawRequest(r, err)
			}
			_ = st.Post(discardBatch{})
			if errors.Is(err, kernel.ErrStopped) {
				return false
			}
			d.refusals.refuseBatch(in.Conn, err, idsOf(requests))
			return true
		}
		members = append(members, r)
	}
	for _, r := range members {
		go r.serveRequest()
	}
	time.AfterFunc(s.svc.Limits.Grace, func() { _ = st.Post(beginNow{}) })
	<-st.ready
	return true
}

// withdrawRequest ends a request that was entered and must not run.
func (s batchSession) withdrawRequest(r *requestActor, cause error) {
	sessionTable(s).removeRequest(r)
	r.timer.Stop()
	r.cancel(cause)
	sessionCalls(s).refundCall(r)
	r.releaseActor()
}

// newBatchStream starts the stream of a batch, and returns it with the calls of its requests, which do not run yet. It stores
// and sends nothing before it has to.
func (s batchSession) newBatchStream(in *Input, principal any, requests []*element, body []byte) (*streamActor, []*Call) {
	d := s.sessions
	calls := make([]*Call, len(requests))
	rec := record.Stream{Version: record.Version, Node: d.name, Boot: d.boot, Epoch: 1, Attempt: 1, Revision: s.view.Load().rec.Revision, Scopes: in.neededScopes()}
	forgone := 0
	for i, e := range requests {
		calls[i] = newCall(principal, in)
		calls[i].member = i
		safe := s.svc.mayRerun(&e.m, len(body))
		if !safe && s.svc.runsAgain(e.m.Method, e.m.Name) {
			forgone++
		}
		rec.Safe = rec.Safe || safe
		rec.Calls = append(rec.Calls, record.Call{ID: bytes.Clone(e.m.ID), Method: record.ClipMethod(e.m.Method), Token: bytes.Clone(e.m.ProgressToken), Never: !safe, Parent: in.Trace.Parent, State: in.Trace.State})
	}
	if rec.Safe {
		rec.Principal, _ = codec.Marshal(principal)
	}
	st := d.streams.buildStream(&s.svc.Terms, s, s.key, s.view.Load().rec.Subscribed, newID(), rec, in.Conn)
	st.gather = &gathering{body: body, forgone: forgone, spanOf: func(member int) string { return calls[member].Span() }}
	st.start()
	return st, calls
}

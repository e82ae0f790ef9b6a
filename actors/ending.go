package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors/internal/mrtr"
	"github.com/troupe-run/troupe/actors/internal/request"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/mcp"
)

// How a node ends:
//
//	serving ──Finish──▶ serves on ──HandOver──▶ hands over ──▶ takes nothing ──Close──▶ stopped
//
// A call is the node's own if no other process can end it: it may not run again, or its client
// could not come back for it. Finish waits for those calls while the node serves all requests but
// new ones of stateless clients, which belong to no node, if they reach others. HandOver leaves the
// others to the process that resumes them.

const (
	// quickCall is how long a call may have run before Finish waits for it: calls that take less
	// are always under way.
	quickCall = 250 * time.Millisecond
	// lookEvery is how often a node that ends looks for calls and streams that are left.
	lookEvery = 10 * time.Millisecond
	// lastAnswers is how long before the end of a drain the calls of stateless clients end, so that
	// their clients hear of it. It is a tenth of a drain that takes less than ten times as long.
	lastAnswers = 2 * time.Second
)

// Finish waits until no call runs that only this node can end and beside returns false, or until
// ctx ends. The node serves the requests of sessions meanwhile, and new ones of stateless clients
// unless elsewhere says that any other node can serve them: then they get 503. In the second half of
// the time until ctx's deadline, though, it refuses calls that may not run again: they might not end
// in time. Two seconds before that deadline, or a tenth of a shorter time, the calls of stateless
// clients end, as Close would have them end, and beside, which is for work that the node does not
// know, is asked no more: what it waits for may have no end, and HandOver needs time. A nil beside
// counts as false.
//
// Finish calls unasked, unless it is nil, when no call of a session runs, which could ask its client: as often as it finds that.
func (n *Node) Finish(ctx context.Context, elsewhere bool, beside func() bool, unasked func()) {
	d := drainer{n}
	n.drain.sending.Store(elsewhere)
	var late atomic.Bool
	if end, ok := ctx.Deadline(); ok {
		left := time.Until(end)
		time.AfterFunc(left/2, func() { n.drain.sparing.Store(true) })
		time.AfterFunc(left-min(lastAnswers, left/10), func() {
			late.Store(true)
			n.statelessCalls.giveUp(nil, ErrClosing)
		})
	}
	for {
		began := time.Now()
		if unasked != nil && !d.mayAsk() {
			unasked()
		}
		d.warnCalls(began.Add(-quickCall))
		if !d.ownCalls(began.Add(-quickCall)) && (beside == nil || late.Load() || !beside()) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(lookEvery, 10*time.Since(began))): // a look takes long with many sessions
		}
	}
}

// HasOthers reports whether n has heard other nodes of its store within a lease.
func HasOthers(n *Node) bool { return n.fleet.mail != nil && len(n.fleet.mail.Others()) > 0 }

// HandOver ends what is left on the node, once no new clients come. It closes idle connections, so
// that their clients come back elsewhere, and leaves the streams of calls that may run again to the
// process that resumes them. Then it waits until every other call has its response, or until ctx
// ends. Requests that come meanwhile are served and treated alike. When ctx ends, running calls
// that may run again are left to a resume, too; the others end with -32010.
//
// HandOver returns when nothing is left and idle returns true; a nil idle counts as true. From then
// on the node refuses everything.
func (n *Node) HandOver(ctx context.Context, idle func() bool) {
	d := drainer{n}
	n.drain.handingOver.Store(true)
	for {
		d.closeIdle()
		d.passOn()
		if !d.isBusy() && (n.drain.over.Load() || idle == nil || idle()) {
			if n.drain.over.Swap(true) {
				return
			}
			continue // a request may just have come
		}
		select {
		case <-ctx.Done():
			n.drain.over.Store(true)
			d.giveUp(ctx)
			return
		case <-time.After(lookEvery):
		}
	}
}

// Refuse makes the node refuse everything from now on, as after HandOver. A drain that cannot stop
// new requests uses it, so that HandOver ends.
func (n *Node) Refuse() { n.drain.over.Store(true) }

// drainer ends what a node has.
type drainer struct{ *Node }

// closeIdle ends the connections that no response is due on, except the streams of sessions: Close
// ends those as late as possible. From that end on older clients count how long no process serves,
// and they try no more than twice.
func (d drainer) closeIdle() {
	d.bound.Each(func(l *boundConn) { _ = l.sess.Post(endIdle{}) })
	d.listeners.endListeners("the server is shutting down", func(*listenActor) bool { return true })
}

// passOn hands over the calls that another process can go on with.
func (d drainer) passOn() {
	if d.accounts.InFlight() == 0 {
		return
	}
	begun := time.Now().Add(-quickCall)
	d.warnCalls(begun)
	d.relays.passOnProxies()
	eachSession(d.Node, func(s *sessionActor) { _ = s.Post(hastenCalls{begun}) })
	d.streams.Each(func(s *streamActor) { _ = s.Post(passOn{}) })
}

// warnCalls tells the stateless calls that began at begun or before that the node ends.
func (d drainer) warnCalls(begun time.Time) {
	for _, x := range d.statelessCalls.requestsOf(nil) {
		_ = x.r.Post(called{x.generation, leaving{begun}})
	}
}

// ownCalls reports whether a call that only this node can end, and that began at begun or before,
// still runs.
func (d drainer) ownCalls(begun time.Time) bool {
	m := &tally{begun: begun}
	ask := func(post func(any) error) {
		m.Init()
		if m.own == 0 && post(m) == nil {
			m.Wait()
		}
	}
	for _, r := range d.statelessCalls.requestsOf(nil) {
		ask(func(t any) error { return r.r.Post(called{r.generation, t}) })
	}
	if d.accounts.InFlight() > 0 {
		eachSession(d.Node, func(s *sessionActor) { ask(s.Post) })
	}
	return m.own > 0
}

// mayAsk reports whether a call of a session runs, or waits for its client's answer.
func (d drainer) mayAsk() bool {
	m := &tally{whole: true}
	if d.accounts.InFlight() > 0 {
		eachSession(d.Node, func(s *sessionActor) {
			m.Init()
			if m.own == 0 && s.Post(m) == nil {
				m.Wait()
			}
		})
	}
	return m.own > 0 || d.pending.len() > 0
}

// giveUp ends the calls that still run: see HandOver.
func (d drainer) giveUp(ctx context.Context) {
	eachSession(d.Node, func(s *sessionActor) { _ = s.Post(giveUpCalls{}) })
	d.statelessCalls.giveUp(nil, ErrClosing)
	d.relays.giveUpProxies()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	d.awaitQuiet(last)
}

// callsRunning reports whether a call runs here that was not handed over.
func (d drainer) callsRunning() bool { return d.accounts.InFlight() > d.drain.handedOver.Load() }

// isBusy reports whether a call runs, or a response is not yet stored and handed to its connection.
func (d drainer) isBusy() bool {
	busy := d.callsRunning() || d.relays.exchanges.Len() > 0
	d.streams.Each(func(s *streamActor) { busy = busy || len(s.rec.Calls) > 0 && !s.Stopped() })
	return busy
}

// awaitQuiet waits until the node is not busy. It returns false if ctx ends first.
func (d drainer) awaitQuiet(ctx context.Context) bool {
	for d.isBusy() {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(5 * time.Millisecond):
		}
	}
	return true
}

// Close ends every call as HandOver does when its ctx ends, and stops the node's actors. It waits
// for handlers that ignore their context until ctx ends, but not for those whose calls were handed
// over. A second Close returns nil at once.
func (n *Node) Close(ctx context.Context) error {
	d := drainer{n}
	if n.drain.closing.Swap(true) {
		return nil
	}
	n.drain.over.Store(true)
	n.timer.Stop()
	if n.fleet.pulse != nil {
		n.fleet.pulse.Stop()
	}
	if n.accounts.InFlight() > 0 {
		d.giveUp(ctx)
	}
	n.statelessCalls.giveUp(nil, ErrClosing) // parked calls, too
	n.stopAll(ErrClosing)
	var err error
	for began := time.Now(); (n.accounts.InFlight() > 0 || !n.statelessCalls.isEmpty()) && err == nil; {
		if n.drain.handingOver.Load() && !d.callsRunning() && n.statelessCalls.isEmpty() && time.Since(began) > quickCall {
			break
		}
		select {
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-time.After(5 * time.Millisecond):
		}
	}
	for _, a := range n.streams.attachments.Snapshot() {
		a.Reconnect()
	}
	n.listeners.endListeners("the server is shutting down", func(*listenActor) bool { return true })
	n.bound.Each(func(l *boundConn) { l.endForGood(false) })
	n.streams.Each(func(s *streamActor) { _ = s.Post(quitStream{}) })
	n.sessions.Each(func(s *sessionActor) {
		s.timer.Stop()
		n.sessions.Drop(s.key, s) // otherwise a request that finds it would look for another one forever
		s.Actor.Stop()
	})
	n.readers.removeAll()
	n.relays.closeExchanges()
	n.calls.closeIdle()
	n.heart.Stop()
	return err
}

// Unmount takes a service off this node. Its calls end like those that a drain no longer waits for,
// with ErrUnmounted as the cause. Its sessions and streams leave memory and stay in the store. A
// request for the service that is on its way finds no session. Unmount does not wait for handlers.
func (n *Node) Unmount(svc *Service) {
	if svc.life.over.Swap(true) {
		return
	}
	close(svc.life.done)
	n.anchors.services.CompareAndDelete(svc.ID, svc)
	eachSession(n, func(s *sessionActor) {
		if s.svc == svc {
			_ = s.Post(unmountSession{})
		}
	})
	n.streams.Each(func(st *streamActor) {
		if st.svc == &svc.Terms {
			streamEnd{st}.unmountStream()
		}
	})
	n.statelessCalls.giveUp(svc, ErrUnmounted)
	n.listeners.endListeners("the server has been taken away", func(l *listenActor) bool { return l.svc == svc })
}

// EndHeld ends on this node what principals hold that may not come any more: their sessions, with
// their calls and streams, for all nodes; their listeners, which are told that their token was
// revoked; and their other calls, with ErrRevoked as the cause. tenant and holder say whose they
// are: tenant is the Input.Tenant of a session, and holder the principal of a request or of an open
// connection. Where only holder tells, a session ends that has a call or a connection of theirs.
// EndHeld waits for the store, and returns its first error; what was held on this node has ended
// nevertheless.
func EndHeld(ctx context.Context, n *Node, tenant func(string) bool, holder func(any) bool) error {
	n.listeners.endListeners(TokenRevoked, func(l *listenActor) bool { return tenant(l.key.Tenant) || holder(l.holder) })
	n.statelessCalls.giveUpOf(ErrRevoked, func(r *requestActor) bool { return tenant(r.stateless.peer.key.Tenant) || holder(r.call.principal) })
	n.bound.Each(func(l *boundConn) {
		if tenant(l.sess.key.Tenant) || holder(l.holder) {
			sessionEnd{l.sess}.endSession()
		}
	})
	theirs := make(map[SessionKey]bool)
	for _, a := range n.streams.attachments.Snapshot() {
		if tenant(a.Key.Session.Tenant) || holder(a.Holder) {
			theirs[a.Key.Session] = true
			a.Cut()
		}
	}
	var all []*sessionActor
	eachSession(n, func(s *sessionActor) { all = append(all, s) })
	var failed error
	for _, s := range all {
		if theirs[s.key] || tenant(s.key.Tenant) || s.runsFor(holder) {
			if _, err := n.sessions.removeSession(ctx, s); err != nil {
				failed = cmp.Or(failed, err)
				sessionEnd{s}.endSession()
			}
		}
	}
	return failed
}

// EndUncovered ends on this node what was opened with tokens that do not cover it any more, as at
// the end of a token: event streams whose clients can come back, sessions of HTTP+SSE, and
// listeners, which are told why. why returns the reason for what a principal has opened with a
// server, and "" for what goes on; it may wait. Listeners that go on are reviewed as by
// ReviewListeners. Calls and sessions over HTTP do not end. EndUncovered returns how many
// connections it has ended.
func EndUncovered(n *Node, why func(server string, holder any) (reason string)) (ended int) {
	n.listeners.Each(func(l *listenActor) {
		reason := why(l.key.Server, l.holder)
		if reason == "" {
			l.reviewFilter()
			return
		}
		ended++
		_ = l.Post(endListen{reason})
	})
	n.bound.Each(func(l *boundConn) {
		if why(l.sess.key.Server, l.holder) != "" {
			ended++
			sessionEnd{l.sess}.endSession()
		}
	})
	for _, a := range n.streams.attachments.Snapshot() {
		if why(a.Key.Session.Server, a.Holder) != "" && a.ExpireNow() {
			ended++
		}
	}
	return ended
}

// EndInput reports that the client of a session that Connect began will send no more: questions to
// it fail from now on, and no request waits for a slot. Disconnect must follow.
func (n *Node) EndInput(svc *Service, in *Input) {
	if l, ok := n.bound.findBound(svc, in); ok {
		l.endInput()
	}
}

// Disconnect ends a session that Connect began, after its client has sent its last message.
// Questions to the client fail. Its calls go on until ctx ends; those that run then end with
// -32010. Disconnect returns when all messages are queued.
func (n *Node) Disconnect(ctx context.Context, svc *Service, in *Input) {
	l, ok := n.bound.findBound(svc, in)
	if !ok {
		return // the connection was lost before
	}
	s := l.sess
	l.endInput()
	ended := make(chan struct{})
	go func() {
		l.calls.Wait()
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
	n.listeners.endListeners("the server is shutting down", func(a *listenActor) bool { return a.sess == s })
	sessionEnd{s}.endSession()
}

// lastWait bounds the wait for handlers after their contexts have ended.
const lastWait = time.Second

// ErrNoCall reports that no call of an id is in flight at the node.
var ErrNoCall = errors.New("actors: there is no such call in flight")

// CallState is what a call in flight does.
type CallState string

// The states of a call.
const (
	CallRuns    CallState = "running"   // nothing has been sent yet
	CallStreams CallState = "streaming" // its response is a stream
	CallWaits   CallState = "waiting"   // for its client, which is to send it again with answers
)

// CallInfo is what an operator is told of a call in flight.
type CallInfo struct {
	ID        string     // names the call at its node, until that ends
	Session   SessionKey // its tenant and its server; the ID is "" for a stateless call
	Method    string     // at most 256 bytes of it
	Target    string     // the name of the tool or prompt, or the URI, at most 256 bytes of it; "" if there is none
	Revision  mcp.Revision
	Client    []byte // clientInfo, raw; nil if the client does not say
	Principal any    // see Call.Principal
	Via       Via
	Trace     string // its span, or that of its client, as a traceparent; "" if there is none
	State     CallState
	Began     time.Time
	Attempt   int
}

// mostShown bounds what is told of a method or a name, which clients choose.
const mostShown = 256

// Calls returns the calls in flight on this node for which which returns true, the oldest first.
// which is called for several calls at the same time, in their turns: it must be quick. A call that
// has become a task is none any more.
func Calls(n *Node, which func(*CallInfo) bool) []CallInfo {
	var found foundCalls
	visitNode(n, func(r *requestActor) {
		if c, ok := (operatedCall{r}).describeCall(); ok && which(&c) {
			found.addCall(c, nil)
		}
	})
	slices.SortFunc(found.calls, func(a, b CallInfo) int {
		return cmp.Or(a.Began.Compare(b.Began), strings.Compare(a.ID, b.ID))
	})
	return found.calls
}

// foundCalls are calls that were found in their own turns, and what is to be stored of the end of
// each.
type foundCalls struct {
	mu     sync.Mutex // guards the rest
	calls  []CallInfo
	stored []chan error
}

// addCall adds a call. stored, which has room for one, takes the outcome of storing its end; it is nil
// for a call that goes on.
func (f *foundCalls) addCall(c CallInfo, stored chan error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls, f.stored = append(f.calls, c), append(f.stored, stored)
}

// EndCalls ends the calls in flight on this node for which which returns true: each has one
// response, that an operator has ended it, and its handler ErrCalledOff as the cause of its
// context. The response does not wait for the handler. EndCalls waits until what has to be stored
// of that is stored, so that no call runs again, or until ctx ends; an error means that it is
// unknown which calls another process may run again. which is called as by Calls.
func EndCalls(ctx context.Context, n *Node, which func(*CallInfo) bool) (ended []CallInfo, err error) {
	var found foundCalls
	visitNode(n, func(r *requestActor) {
		if c, ok := (operatedCall{r}).describeCall(); ok && which(&c) {
			stored := make(chan error, 1)
			found.addCall(c, stored)
			if _, unpaced := r.way.pace.(noPacer); unpaced {
				operatedCall{r}.endOnce(stored)
				return
			}
			go endPaced(ctx, r, r.generation, r.way.pace, stored)
		}
	})
	for _, stored := range found.stored {
		select {
		case e := <-stored:
			err = cmp.Or(err, e)
		case <-ctx.Done():
			return found.calls, cmp.Or(err, context.Cause(ctx))
		}
	}
	return found.calls, err
}

// unreadWait is how long the end of a call waits for the room that its connection needs for the
// response. A client that reads nothing for as long may lose its connection by the response.
const unreadWait = time.Second

// endPaced ends a call whose connection carries others once there is room for the response, as the
// connection would be cut otherwise.
func endPaced(ctx context.Context, r *requestActor, generation uint64, pace pacer, stored chan error) {
	room, cancel := context.WithTimeout(ctx, unreadWait)
	defer cancel()
	if pace.lockSending(room) == nil {
		defer pace.unlockSending()
	}
	m := newVisit(func(r *requestActor) {
		if _, ok := (operatedCall{r}).describeCall(); ok {
			operatedCall{r}.endOnce(stored)
		}
	})
	if r.Post(called{generation, m}) == nil {
		m.Wait()
	}
	select {
	case stored <- nil: // it has had its own response meanwhile
	default:
	}
}

// EndCall is EndCalls for one call. ErrNoCall: it is not in flight here.
func EndCall(ctx context.Context, n *Node, id string) (CallInfo, error) {
	ended, err := EndCalls(ctx, n, func(c *CallInfo) bool { return c.ID == id })
	if len(ended) == 0 {
		return CallInfo{}, cmp.Or(err, ErrNoCall)
	}
	return ended[0], err
}

// EndTenants ends on this node what tenants hold: their sessions, for all nodes, and their listeners,
// which are told why. Calls are for EndCalls, before; what is on its way to a client still reaches
// it. EndTenants waits for the store, and returns its first error.
func EndTenants(ctx context.Context, n *Node, why string, tenants []string) (err error) {
	n.listeners.endListeners(why, func(l *listenActor) bool { return slices.Contains(tenants, l.key.Tenant) })
	var all []*sessionActor
	eachSession(n, func(s *sessionActor) {
		if slices.Contains(tenants, s.key.Tenant) {
			all = append(all, s)
		}
	})
	for _, s := range all {
		if _, bound := s.home.(storedHome); !bound {
			sessionEnd{s}.endSession()
			continue
		}
		if _, failed := n.sessions.removeSession(ctx, s); failed != nil {
			err = cmp.Or(err, failed)
			sessionEnd{s}.endSession()
		}
	}
	return err
}

// EndThere has all other nodes end what an operator ends, and returns when they have. An error names
// those that have not said so; a node that is gone has nothing to end.
func EndThere(ctx context.Context, n *Node, e *OperatorEnd) error {
	if n.fleet.mail == nil {
		return nil
	}
	var letters []*OperatorEnd
	for part := range slices.Chunk(e.Tenants, mostTenants) {
		letters = append(letters, &OperatorEnd{Tenants: part})
	}
	if e.Calls != (SessionKey{}) {
		letters = append(letters, &OperatorEnd{Calls: e.Calls})
	}
	ctx, cancel := context.WithTimeout(ctx, EndWait)
	defer cancel()
	others := n.fleet.mail.Others()
	outcomes := make(chan error, len(others)*len(letters))
	for _, to := range others {
		for _, l := range letters {
			go func() {
				_, err := n.fleet.askNode(ctx, to, letterEnd, l)
				if err != nil && !errors.Is(err, store.ErrNobody) {
					err = fmt.Errorf("node %s may not have ended what it has: %w", to.Node, err)
				} else {
					err = nil
				}
				outcomes <- err
			}()
		}
	}
	var errs []error
	for range cap(outcomes) {
		errs = append(errs, <-outcomes)
	}
	return errors.Join(errs...)
}

// newVisit returns a message that calls visit in a request's turn.
func newVisit(visit func(*requestActor)) *visitRequest {
	m := &visitRequest{visit: visit}
	m.Init()
	return m
}

// visitNode calls visit for each call of this node, in the call's turn, and returns when that was
// done. Calls that begin meanwhile may be left out.
func visitNode(n *Node, visit func(*requestActor)) {
	var asked []*visitRequest
	var all []*sessionActor
	eachSession(n, func(s *sessionActor) { all = append(all, s) })
	for _, s := range all {
		s.visitCalls(func(r *requestActor) {
			if r.stateless != nil { // those are below
				return
			}
			if m := newVisit(visit); r.Post(m) == nil {
				asked = append(asked, m)
			}
		})
	}
	for _, x := range n.statelessCalls.requestsOf(nil) {
		if m := newVisit(visit); x.r.Post(called{x.generation, m}) == nil {
			asked = append(asked, m)
		}
	}
	for _, m := range asked {
		m.Wait()
	}
}

// operatedCall is a request as an operator sees it, and ends it.
type operatedCall struct{ *requestActor }

// describeCall returns what is told of a call. One that has its response is in flight no more.
func (r operatedCall) describeCall() (c CallInfo, ok bool) {
	switch {
	case r.ended || r.call == nil || r.call.Detached() != nil:
		return CallInfo{}, false
	case r.phase == request.Plain:
		c.State = CallRuns
	case r.phase == request.Streaming:
		c.State = CallStreams
	case r.phase == request.Parked:
		c.State = CallWaits
	default:
		return CallInfo{}, false
	}
	p, msg := r.call.peer, r.call.msg
	c.ID = r.pool.boot[:min(len(r.pool.boot), 6)] + "-" + r.Key() + "-" + strconv.FormatUint(r.generation, 36)
	name, _ := codec.Str(msg.Name)
	uri, _ := codec.Str(msg.URI)
	c.Session, c.Method, c.Target = p.key, protocol.Shorten(string(msg.Method), mostShown), protocol.Shorten(cmp.Or(name, uri), mostShown)
	c.Revision, c.Client, c.Principal, c.Via = p.Revision(), slices.Clone(p.Client()), r.call.principal, r.call.via
	c.Trace, c.Began, c.Attempt = cmp.Or(r.call.Span(), r.call.trace.Parent), r.started, r.call.attempt
	return c, true
}

// endOnce ends a call, and sends what came of storing that.
func (r operatedCall) endOnce(stored chan error) {
	returned := false
	defer func() {
		if !returned { // a panic of what carries the response
			stored <- errInternal
		}
	}()
	r.endCall(func(err error) { stored <- err })
	returned = true
}

// endCall ends a call that describeCall describes. Its client has the response before the handler
// returns, if that ever does. acked is called once no crash can undo it.
func (r operatedCall) endCall(acked func(error)) {
	id := string(r.id)
	data := codec.AppendError(nil, r.id, refusal.CalledOff.Code, refusal.CalledOff.Text, nil)
	rest := data[len(`{"jsonrpc":"2.0","id":`)+len(id):]
	r.used, r.ended = true, true
	r.call.noteEvent(CallEvent{Name: CalledOff})
	if r.phase == request.Parked {
		r.endWaiting(rest)
		acked(nil)
		return
	}
	r.onMark = acked
	r.cancel(ErrCalledOff)
	r.way.table.parkRequest(r.requestActor, id) // the client may use the id again once it has the response
	if r.from != nil {                          // no drain waits for the handler
		r.handedOver = true
		r.pool.drain.handedOver.Add(1)
	}
	r.applyEvent(request.Result, response{data: data, code: refusal.CalledOff.Code, exited: true}, nil)
	parkedRequest(r).concludeCall(rest)
	if r.stateless != nil {
		r.way.delivery = noDelivery{} // a connection that ends means nothing any more
		r.pool.statelessCalls.dropRequest(r.requestActor)
	}
	if r.onMark != nil { // nothing is being stored
		r.onMark = nil
		acked(nil)
	}
}

// endWaiting ends a call whose client has the questions of the last round: it gets the response when
// it sends the request again, whatever it answers.
func (r operatedCall) endWaiting(rest []byte) {
	p := r.parking
	r.pool.mrtr.outcomes.PutEnded(r.stateless.park, mrtr.Outcome{Round: p.asked, Rest: rest, Until: p.until})
	parkedRequest(r).hideFromRetries()
	r.phase, p.givenUp = request.Dropped, true
	r.cancel(ErrCalledOff)
	parkedRequest(r).wakeHandler(wakeup{err: ErrCalledOff})
}

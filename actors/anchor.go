package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

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

var _ anchorage = (*anchors)(nil)

// anchors has the sessions of which one node alone has something that no store can have, as a process is. The session's record names that
// node, its anchor, and changes by compare-and-set. Messages that are about it are forwarded to there, whichever node they come to;
// when it is gone, the node where the next one comes takes its place.
type anchors struct {
	node     *Node
	services sync.Map // of *Service, by id
	visits   visits
}

const (
	// returnWait is how long a node is waited for that has ended: its next boot may have what this one had.
	returnWait = 2 * time.Second
	// anchorPause is after what time a node is tried again that did not answer.
	anchorPause = 250 * time.Millisecond
	// mountTime is for how long a node that has begun may still mount what others forward to it.
	mountTime = 30 * time.Second
)

// Mount has the node take what other nodes forward to a service, until Unmount.
func Mount(n *Node, svc *Service) { n.anchors.services.Store(svc.ID, svc) }

// self is this boot.
func (d *anchors) self() session.Anchor {
	at := d.node.fleet.selfAddress()
	return session.Anchor{Node: at.Node, Boot: at.Boot}
}

// anchorSearch is the way of a message to its session's anchor.
type anchorSearch struct {
	*anchors
	s    *sessionActor
	need Anchoring
	lost session.Anchor // what it had of the session is gone
	seen session.Anchor // by the record, when it was asked last
	gone session.Anchor // of which another boot is tried in place of this one
}

// leave says that a service has nothing of a session here any more, if it had something by the anchor in the session's record: the session has moved to
// another node, or has ended.
func (d *anchors) leave(key SessionKey, was session.Anchor, moved bool) {
	if was.Node == "" || was != d.self() {
		return
	}
	if of, ok := d.services.Load(key.Server); ok && of.(*Service).Left != nil {
		go of.(*Service).Left(key, moved)
	}
}

// findAnchor returns the node that has the session. The zero address is this one, which has taken its place if there was need for one.
func (x *anchorSearch) findAnchor(ctx context.Context) (at store.Address, err error) {
	self := x.self()
	for {
		x.seen = x.s.view.Load().rec.Anchor
		switch vacant := x.seen.Node == "" || x.seen == x.lost || x.seen.Node == self.Node; {
		case x.seen == self:
			x.settleOwed(x.s)
			return at, nil
		case vacant && x.need != AnchorNeeded:
			return at, nil
		case !vacant:
			if x.gone == x.seen {
				return x.bootOf(x.seen), nil
			}
			return store.Address{Node: x.seen.Node, Boot: x.seen.Boot}, nil
		}
		if err := x.replaceAnchor(ctx, x.s, x.seen); err != nil {
			return at, err
		}
	}
}

// noteGone says that a node has nothing of the session. Its next boot may have what this one had, and is waited for until a moment; if none comes, or
// has nothing either, that is lost.
func (x *anchorSearch) noteGone(ctx context.Context, at store.Address, until time.Time) {
	x.gone = x.seen
	if x.awaitReturn(ctx, x.seen, until); x.bootOf(x.seen) == at {
		x.lost = x.seen
	}
}

// bootOf is where a node is reached that a record names: its next boot, if that has been heard.
func (d *anchors) bootOf(a session.Anchor) store.Address {
	all := d.node.fleet.mail.Others()
	if i := slices.IndexFunc(all, func(at store.Address) bool { return at.Node == a.Node && at.Boot != a.Boot }); i >= 0 {
		return all[i]
	}
	return store.Address{Node: a.Node, Boot: a.Boot}
}

// replaceAnchor anchors a session here, if the record still names old.
func (d *anchors) replaceAnchor(ctx context.Context, s *sessionActor, old session.Anchor) error {
	self, done := d.self(), false
	err := s.home.changeRecord(ctx, func(r *session.Record) bool {
		if done = r.Anchor == old; done {
			r.Anchor, r.Anchored, r.Owed = self, nil, union(r.Owed, r.Anchored)
		}
		return done
	})
	if err == nil && done && old.Node != "" && old.Node != self.Node {
		d.node.log.Info("a session goes on at another node than before", "session", s.key.ID, "node", old.Node)
	}
	return err
}

// union returns what is in one of the two, in order and once.
func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// settleOwed has the service find out what became of what the anchors before this one had, as long as there is such in the record.
func (d *anchors) settleOwed(s *sessionActor) {
	if len(s.view.Load().rec.Owed) == 0 || s.svc.Anchored == nil || !s.owing.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer s.owing.Store(false)
		o := owed{anchors: d, s: s}
		for wait := time.Second; !o.settle(); wait = min(2*wait, time.Minute) {
			for known := false; !known; {
				if pause(d.node.base, wait) != nil {
					return
				}
				err := (sessionView{s}).rereadRecord(nil, true, true) // it may have moved
				if errors.Is(err, store.ErrNotFound) {
					return
				}
				known = err == nil
			}
		}
	}()
}

// owed is what earlier anchors of a session had, as far as this one has found out what became of it.
type owed struct {
	*anchors
	s    *sessionActor
	here []string // that this node has now
	gone []string
}

// settle asks the service once, and reports whether nothing is left to be found out here.
func (o *owed) settle() bool {
	s, self := o.s, o.self()
	rec := s.view.Load().rec
	if rec.Anchor != self || len(rec.Owed) == 0 || s.ended.Load() {
		return true
	}
	isKnown := func(what string) bool { return slices.Contains(o.here, what) || slices.Contains(o.gone, what) }
	if rest := slices.DeleteFunc(slices.Clone(rec.Owed), isKnown); len(rest) > 0 {
		here, unknown := s.svc.Anchored(o.node.base, s.peer, slices.Clone(rest))
		o.here = append(o.here, here...)
		o.gone = append(o.gone, slices.DeleteFunc(rest, func(what string) bool { return slices.Contains(here, what) || slices.Contains(unknown, what) })...)
	}
	ctx, cancel := context.WithTimeout(o.node.base, s.svc.Limits.StoreWait)
	defer cancel()
	err := s.home.changeRecord(ctx, func(r *session.Record) bool {
		if r.Anchor != self || !slices.ContainsFunc(r.Owed, isKnown) {
			return false
		}
		r.Owed = slices.DeleteFunc(slices.Clone(r.Owed), isKnown)
		r.Anchored = union(r.Anchored, o.here)
		return true
	})
	return errors.Is(err, store.ErrNotFound) || err == nil && len(s.view.Load().rec.Owed) == 0
}

// noteAnchored has the session's record say that something is here.
func (d *anchors) noteAnchored(ctx context.Context, s *sessionActor, what string) error {
	self := d.self()
	if rec := &s.view.Load().rec; rec.Anchor == self && slices.Contains(rec.Anchored, what) {
		return nil
	}
	elsewhere := false
	err := s.home.changeRecord(ctx, func(r *session.Record) bool {
		if elsewhere = r.Anchor != self; elsewhere || slices.Contains(r.Anchored, what) {
			return false
		}
		r.Anchored = append(slices.Clone(r.Anchored), what)
		return true
	})
	if err == nil && elsewhere {
		return ErrElsewhere
	}
	return err
}

// awaitReturn waits until a moment for the next boot of a node that has ended.
func (d *anchors) awaitReturn(ctx context.Context, a session.Anchor, until time.Time) {
	for time.Now().Before(until) && d.bootOf(a).Boot == a.Boot {
		if pause(ctx, anchorPause) != nil {
			return
		}
	}
}

// errClientGone is why nobody waits for a message any more.
var errClientGone = errors.New("the client is gone")

// routeMessage has a message served where its session is anchored, if it is about that and that is another node. It reports false if this
// node serves it.
func (d *anchors) routeMessage(svc *Service, in *Input, principal any, m *codec.Message, body []byte) (routed bool) {
	n := d.node
	switch {
	case n.drain.over.Load(): // this node refuses it, or what it forwards is cut in a moment
		return false
	case n.fleet.mail == nil, svc.Anchoring == nil, in.Session == "", in.Routed, string(m.Method) == mcp.MethodInitialize:
		return false
	case m.Kind == codec.Result, m.Kind == codec.ErrorResponse: // an answer finds its question
		return false
	}
	need := svc.Anchoring(m)
	if need == Unanchored {
		return false
	}
	s := n.sessions.findSession(svc, in, m.ID)
	if s == nil {
		return true
	}
	if s.view.Load().rec.Anchor == d.self() {
		d.settleOwed(s)
		return false
	}
	x := &anchorSearch{anchors: d, s: s, need: need}
	ctx, cancel := context.WithTimeout(n.base, svc.Limits.StoreWait)
	defer cancel()
	var f *forwardedCall
	until := time.Now().Add(returnWait) // a node that has been silent for as long does not come back in a moment
	for {
		at, err := x.findAnchor(ctx)
		switch {
		case errors.Is(err, store.ErrNotFound):
			unknownSession(in.Conn, m.ID)
			return true
		case err != nil:
			n.log.Warn("session not anchored", "session", s.key.ID, "error", err)
			d.refuseRouted(in, m)
			return true
		case at.Node == "":
			return false
		}
		if f == nil {
			if f = d.beginForward(s, in, principal, m, body); f == nil {
				return true
			}
			defer f.end()
		}
		switch f.forwardCall(ctx, at) {
		case forwardServed:
			return true
		case forwardMissing:
			err := (sessionView{s}).rereadRecord(nil, true, true)
			if err == nil && s.view.Load().rec.Anchor == x.seen { // or it has moved meanwhile
				x.noteGone(ctx, at, until)
				if err = (sessionView{s}).rereadRecord(nil, true, true); err != nil {
					x.lost = session.Anchor{}
				}
			}
		default:
			_ = pause(ctx, anchorPause)
		}
		if ctx.Err() != nil {
			d.refuseRouted(in, m)
			return true
		}
	}
}

// refuseRouted refuses a message whose node is not heard. It was not run.
func (d *anchors) refuseRouted(in *Input, m *codec.Message) {
	if m.Kind == codec.Request {
		d.node.refusals.refuseInSession(in.Conn, refusal.Unavailable, m.ID)
		return
	}
	refusal.Unavailable.Tell(in.Conn, m.ID)
}

// forwardedCall is a message on its way to the node where its session is anchored.
type forwardedCall struct {
	node   *Node
	svc    *Service
	conn   Conn
	head   forwardHead
	body   []byte
	from   *quota.Account
	primes bool            // its client comes back for a stream that ends early
	going  context.Context // done when the client is gone
	stop   context.CancelCauseFunc
}

// beginForward counts a message that is forwarded, as the other node does, too. It returns nil if it has refused the message.
func (d *anchors) beginForward(s *sessionActor, in *Input, principal any, m *codec.Message, body []byte) *forwardedCall {
	n, svc := d.node, s.svc
	if !n.accounts.admitMessage(&s.sessionAccount, in, m, len(body)) {
		return nil
	}
	from, no := n.accounts.enterRequest(nil, in)
	if from == nil {
		n.refusals.refuseRequest(in.Conn, no, m.ID)
		return nil
	}
	f := &forwardedCall{node: n, svc: svc, conn: in.Conn, from: from, body: body, primes: hasFeature(s.view.Load().rec.Revision, protocol.FeatureStreamPriming), head: forwardHead{
		ID: m.ID, Tenant: in.Tenant, Address: in.Address, Server: svc.ID, Session: in.Session, Version: in.Version, Trace: in.Trace, Via: in.Via,
	}}
	var by carriedRequest
	var err error
	if by.Principal, err = formOf(principal); err == nil {
		if svc.Passes != nil {
			by.Passed = svc.Passes(principal)
		}
		by.Needs = in.neededScopes()
		f.head.Principal, err = by.seal(n, &f.head)
	}
	if err != nil {
		n.accounts.LeavePlace(from)
		n.log.Warn("principal not forwarded", "error", err)
		d.refuseRouted(in, m)
		return nil
	}
	f.going, f.stop = context.WithCancelCause(n.base)
	in.Conn.Gone(func() { f.stop(errClientGone) })
	return f
}

func (f *forwardedCall) end() {
	f.stop(nil)
	f.node.accounts.LeavePlace(f.from)
}

// carriedRequest is who makes a request, and what of it goes with it beside its body. Nobody outside of the fleet can read it.
type carriedRequest struct {
	Principal json.RawMessage
	Passed    map[string][]string `json:",omitempty"`
	Needs     []string            `json:",omitempty"` // scopes
}

func (by *carriedRequest) seal(n *Node, head *forwardHead) ([]byte, error) {
	plain, err := codec.Marshal(by)
	if err != nil {
		return nil, err
	}
	return n.keys.Seal(plain, head.additionalData())
}

func openCarried(n *Node, head *forwardHead) (by carriedRequest, err error) {
	plain, err := n.keys.Open(head.Principal, head.additionalData())
	if err == nil {
		err = codec.Unmarshal(plain, &by)
	}
	return by, err
}

// forwardCall forwards the message to a node, and does with the client's connection what the call there does with its own.
func (f *forwardedCall) forwardCall(ctx context.Context, to store.Address) forwardOutcome {
	n := f.node
	// A letter to a node that has just vanished takes all of its time for minutes, and leaves open whether the message was run.
	if !slices.Contains(n.fleet.mail.Others(), to) {
		if gone, err := n.fleet.mail.Gone(ctx, to); err == nil && gone {
			return forwardMissing
		}
		if ctx.Err() != nil { // nothing was sent
			return forwardSilent
		}
	}
	x := &proxy{node: n, to: to, id: relay.NewID(), conn: f.conn, name: f.head.ID, every: f.svc.Limits.KeepAlive, primes: f.primes}
	n.accounts.reserveAnyway(&x.held, nil, &Input{Tenant: f.head.Tenant, Address: f.head.Address}, quota.Queues, exchangeBytes)
	x.cancel = f.stop
	defer n.relays.openProxy(f.going, x)()
	err := x.forward(ctx, exchangeCall, &f.head, f.body)
	switch {
	case err == nil:
		return forwardServed
	case errors.Is(err, errNotHere):
		return forwardMissing
	case errors.Is(err, errBigHead):
		refusal.TooLarge.Tell(f.conn, f.head.ID)
		return forwardServed
	case errors.Is(err, store.ErrNobody), errors.Is(err, errNotNow), errors.Is(err, errNotKnown): // that node has not run it
		if gone, err := n.fleet.mail.Gone(ctx, to); err == nil && gone {
			return forwardMissing
		}
		return forwardSilent
	}
	n.relays.sendGone(to, x.id, true) // it may have the message
	f.conn.Cut()
	return forwardServed
}

// takeCall takes a message of a session that is anchored here, which another node has taken.
func (c *inboundForward) takeCall(l *store.Letter, m *codec.Message, body []byte) {
	n := c.node
	n.accounts.LeavePlace(c.from) // a call is counted by itself
	of, ok := n.anchors.services.Load(c.head.Server)
	key, valid := sessionKey(c.head.Tenant, c.head.Server, c.head.Session)
	by, err := openCarried(n, &c.head)
	switch {
	case !ok && n.clock.sinceStart() < mountTime:
		c.held.Free()
		replyTo(l, tryAgain, nil)
		return
	case !ok, !valid:
		c.held.Free()
		replyTo(l, notHere, nil)
		return
	case err != nil:
		if !errors.Is(err, store.ErrUnavailable) {
			n.fleet.unknown.Add(1)
		}
		c.held.Free()
		replyTo(l, tryAgain, nil)
		return
	}
	svc := of.(*Service)
	if status := n.anchors.holdSession(svc, key); status != done {
		c.held.Free()
		replyTo(l, status, nil)
		return
	}
	var principal any = by.Principal
	in := c.in
	if svc.Carried != nil {
		principal, in.Principal = svc.Carried(by.Principal, by.Passed)
	}
	in.Session, in.Version, in.Trace, in.Via, in.Caller, in.Routed = c.head.Session, c.head.Version, c.head.Trace, c.head.Via, principal, true
	if by.Needs != nil {
		in.Needs = &by.Needs
	}
	in.Conn = routedConn{n.relays.openExchange(c.key, &c.in, limits.MaxQueued.Value()), principal}
	replyTo(l, done, []byte{isTaken})
	go func() {
		defer c.held.Free()
		n.Post(svc, &in, principal, m, body)
	}()
}

// holdSession reports, as the status of a reply, whether a session is anchored at this node. One of an earlier boot is from now on.
func (d *anchors) holdSession(svc *Service, key SessionKey) (status byte) {
	s, err := d.node.sessions.loadSession(svc, key, nil)
	if err == nil && s.view.Load().rec.Anchor != d.self() {
		err = sessionView{s}.rereadRecord(nil, true, true)
	}
	if errors.Is(err, store.ErrNotFound) {
		return done // whoever looks for the session says that there is none
	}
	if err != nil {
		return tryAgain
	}
	x := &anchorSearch{anchors: d, s: s, need: AnchorNeeded}
	if x.seen = s.view.Load().rec.Anchor; x.seen.Node != d.self().Node {
		return notHere
	}
	ctx, cancel := context.WithTimeout(d.node.base, svc.Limits.StoreWait)
	defer cancel()
	at, err := x.findAnchor(ctx)
	switch {
	case err != nil:
		return tryAgain
	case at.Node != "":
		return notHere
	}
	return done
}

// routedConn is the connection of a message that another node has taken.
type routedConn struct {
	*forwardedExchange
	holder any
}

// Holder is who has the connection.
func (c routedConn) Holder() any { return c.holder }

// ErrElsewhere says that a session is anchored at another node, which may live. It is an ErrUnavailable.
var ErrElsewhere = fmt.Errorf("actors: the session is anchored at another node: %w", store.ErrUnavailable)

// anchorHere implements anchorage.
func (d *anchors) anchorHere(ctx context.Context, s *sessionActor, what string) error {
	x := &anchorSearch{anchors: d, s: s, need: AnchorNeeded}
	for until := time.Now().Add(returnWait); ; {
		at, err := x.findAnchor(ctx)
		if err != nil {
			return err
		}
		if at.Node == "" {
			if err := d.noteAnchored(ctx, s, what); !errors.Is(err, ErrElsewhere) {
				return err
			}
			continue // it has moved meanwhile
		}
		if gone, err := d.node.fleet.mail.Gone(ctx, at); err != nil || !gone {
			return ErrElsewhere
		}
		x.noteGone(ctx, at, until)
	}
}

// IsHere reports whether there is a session of which this node may have something: one that is anchored here, or at no other node. An error says that
// the store does not answer.
func IsHere(n *Node, svc *Service, key SessionKey) (bool, error) {
	s, err := n.sessions.loadSession(svc, key, nil)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	}
	at := s.view.Load().rec.Anchor
	return at.Node == "" || at.Node == n.anchors.self().Node, nil
}

// VisitAnchored calls f with a session of which this node has something: at once if the session's stream or connection is here, or if no other node
// could have it, and otherwise perhaps on another goroutine, in the order of the calls, once the session has been read. It does not wait: what is too
// much until then is lost.
func VisitAnchored(n *Node, svc *Service, key SessionKey, f func(*Peer)) {
	if n.anchors.visits.join(key, f) {
		return
	}
	if p := n.Writer(key); p != nil {
		f(p)
		return
	}
	if n.fleet.mail == nil || !stream.ValidID(key.ID) {
		return
	}
	if s, ok := n.sessions.Get(key); ok {
		f(s.peer)
		return
	}
	n.anchors.visits.visit(n, svc, key, f)
}

// visits are what waits for a session to be read: of each in its order, and no more than mostVisits.
type visits struct {
	mu sync.Mutex // guards the rest
	of map[SessionKey][]func(*Peer)
}

// mostVisits is how much of one session waits for that. What is more is lost: the client learns that it has missed something.
var mostVisits = limits.SessionVisits.Value()

// join has f wait with those that wait for the same session, if there are such.
func (v *visits) join(key SessionKey, f func(*Peer)) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.add(key, f)
}

// add is join with the lock.
func (v *visits) add(key SessionKey, f func(*Peer)) (reads bool) {
	waiting, reads := v.of[key]
	if reads && len(waiting) <= mostVisits { // one more says that there were more
		v.of[key] = append(waiting, f)
	}
	return reads
}

func (v *visits) visit(n *Node, svc *Service, key SessionKey, f func(*Peer)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.of == nil {
		v.of = make(map[SessionKey][]func(*Peer))
	}
	if !v.add(key, f) {
		v.of[key] = []func(*Peer){f}
		go v.readVisited(n, svc, key)
	}
}

// readVisited reads a session, and has those visit it that wait for that.
func (v *visits) readVisited(n *Node, svc *Service, key SessionKey) {
	s, err := n.sessions.loadAside(svc, key)
	if err != nil {
		n.log.Debug("session not found that a message is for", "session", key.ID, "error", err)
	}
	for {
		v.mu.Lock()
		all := v.of[key]
		if len(all) == 0 || err != nil {
			delete(v.of, key)
			v.mu.Unlock()
			return
		}
		v.of[key] = nil
		v.mu.Unlock()
		if len(all) > mostVisits {
			all = all[:mostVisits]
			s.missed.Store(true)
			n.refusals.Refused(limits.SessionVisits.Row)
		}
		for _, f := range all {
			f(s.peer)
		}
	}
}

// loadAside reads a session for which nobody waits.
func (d *sessions) loadAside(svc *Service, key SessionKey) (*sessionActor, error) {
	select {
	case d.lookups <- struct{}{}:
		defer func() { <-d.lookups }()
	case <-d.base.Done():
		return nil, ErrClosing
	}
	return d.loadSession(svc, key, nil)
}

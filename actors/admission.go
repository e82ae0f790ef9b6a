package actors

import (
	"math"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// NodeLimits bound what a node takes on, of all its services together. Zero
// fields take the defaults of Defaults; negative ones are no limit.
type NodeLimits struct {
	Calls     int // requests in flight; 10,000
	Principal PrincipalLimits
	Accounts  int // principals that are told apart; 100,000
}

// PrincipalLimits bound one principal, or one address of those who are nobody in
// particular. They are per node.
type PrincipalLimits struct {
	Rate     float64 // calls per second; 1,000
	Burst    int     // calls at once after a silence; twice the rate
	Calls    int     // requests in flight; 1,024
	Streams  int     // event streams with a connection; 1,024
	Parked   int     // questions that wait for the client; 1,024
	Sessions int     // new sessions per SessionIdle; 100,000
	// SessionIdle is how long it takes until a new session no longer counts; 72 h.
	SessionIdle time.Duration
}

// Defaults fills the zero fields of l.
func (l NodeLimits) Defaults() NodeLimits {
	n := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	n(&l.Calls, 10_000)
	n(&l.Accounts, 100_000)
	p := &l.Principal
	if p.Rate == 0 {
		p.Rate = 1000
	}
	p.Burst = burst(p.Rate, p.Burst)
	n(&p.Calls, 1024)
	n(&p.Streams, 1024)
	n(&p.Parked, 1024)
	n(&p.Sessions, 100_000)
	if p.SessionIdle <= 0 {
		p.SessionIdle = 72 * time.Hour
	}
	return l
}

// burst is the size of a bucket: n, or twice what it gets in a second.
func burst(rate float64, n int) int {
	if n > 0 {
		return n
	}
	return max(1, int(math.Ceil(min(2*rate, math.MaxInt32))))
}

// over reports that n exceeds the limit; a negative one is none.
func over(n int64, limit int) bool { return limit >= 0 && n > int64(limit) }

// busy reports that a node with load requests in flight, of as many as limit, is
// nearly full: it is shared then.
func busy(load int64, limit int) bool {
	return limit >= 0 && load > int64(limit)/4*3+int64(limit)%4*3/4
}

// fair decides for a request that has been counted in on a node that is busy: load
// requests are in flight where limit may be, mine of them are of the same account,
// and contenders share the node. Nobody may have more than an equal share, so that
// there is room for those who come late.
func fair(load, mine int64, limit, contenders int) Reason {
	switch {
	case load > int64(limit):
		return CallsOfNode
	case mine > max(1, int64(limit/max(1, contenders))):
		return ShareOfNode
	}
	return admitted
}

// admit counts a request in, or tells why it may not run now. s is nil for one that
// has no session. Who was admitted has to leave, and gets a refund when the request
// does not run after all.
func (n *Node) admit(s *sessionActor, in *Input, m *codec.Message) (*account, verdict) {
	a, no := n.enter(s, in)
	if no.reason == admitted && pays(s, m.Method) {
		no = n.spend(s, a)
	}
	if no.reason == admitted {
		return a, no
	}
	n.leave(a)
	return nil, no
}

// enter counts a request in, and tells whether there may be so many. It has to leave in
// either case.
func (n *Node) enter(s *sessionActor, in *Input) (a *account, no verdict) {
	t := &n.accounts
	a = t.ofRequest(s, in)
	mine, ok := t.enter(a)
	for !ok {
		a = t.ofRequest(s, in)
		mine, ok = t.enter(a)
	}
	if load := n.inFlight.Add(1); busy(load, t.lim.Calls) {
		t.claim(a, time.Now())
		no.reason = fair(load, mine, t.lim.Calls, int(t.active.Load()))
	}
	if no.reason == admitted && over(mine, t.lim.Principal.Calls) {
		no.reason = CallsOfPrincipal
	}
	return a, no
}

// admitLookup counts a request in whose session the store is to be asked for, before it is
// asked: an id costs nothing to make up. done ends that, and gives the token back for one
// that was found. The error is a verdict.
func (n *Node) admitLookup(in *Input) (done func(found bool), err error) {
	a, no := n.enter(nil, in)
	if no.reason == admitted {
		no = n.spend(nil, a)
	}
	if no.reason != admitted {
		n.leave(a)
		return nil, no
	}
	return func(found bool) {
		if found {
			a.rate.giveBack(time.Now())
		}
		n.leave(a)
	}, nil
}

// pays reports whether a request counts for the limits on calls per second: those
// do that the specification wants limited (2025-11-25, server/tools and
// server/utilities/completion). A client that waits for its turn anyway, and has
// the process for itself, is not slowed down beside that.
func pays(s *sessionActor, method []byte) bool {
	if s != nil && s.link != nil && s.link.slots != nil {
		return false
	}
	return string(method) == mcp.MethodToolsCall || string(method) == mcp.MethodCompletionComplete
}

// spend takes a token of the session and one of the account. A call that one of
// them refuses costs none.
func (n *Node) spend(s *sessionActor, a *account) verdict {
	now := time.Now()
	if s == nil {
		if wait := a.rate.take(now); wait > 0 {
			return verdict{RateOfPrincipal, wait}
		}
		return verdict{}
	}
	own := s.rate()
	if wait := own.take(now); wait > 0 {
		return verdict{RateOfSession, wait}
	}
	if wait := a.rate.take(now); wait > 0 {
		own.giveBack(now)
		return verdict{RateOfPrincipal, wait}
	}
	return verdict{}
}

// refund gives the tokens of a call back that did not run.
func (n *Node) refund(r *requestActor) {
	if r.sess != nil && pays(r.sess, r.call.msg.Method) {
		now := time.Now()
		r.sess.rate().giveBack(now)
		r.from.rate.giveBack(now)
	}
}

// leave counts a request out.
func (n *Node) leave(a *account) {
	n.inFlight.Add(-1)
	n.accounts.leave(a)
}

// readmit counts in a call that runs again after its node was lost: it was
// admitted once.
func (n *Node) readmit(s *sessionActor) *account {
	n.inFlight.Add(1)
	for {
		a := n.accounts.of(s.key.Tenant, "")
		if _, ok := n.accounts.enter(a); ok {
			return a
		}
	}
}

// admitSession takes a token for a new session, or answers why there is none.
func (n *Node) admitSession(in *Input, id []byte) bool {
	if n.nearFull(SessionBudget) {
		n.refuse(in.Conn, id, verdict{reason: StoreFull})
		return false
	}
	for {
		a := n.accounts.of(in.Tenant, in.Address)
		wait := a.sessions.take(time.Now())
		switch {
		case wait > 0:
			n.refuse(in.Conn, id, verdict{SessionsOfPrincipal, wait})
			return false
		case !a.dropped.Load():
			return true
		}
	}
}

// forgive gives the token of a session back that could not be made, or has been
// deleted.
func (n *Node) forgive(in *Input) {
	n.accounts.of(in.Tenant, in.Address).sessions.giveBack(time.Now())
}

// admitStream counts a GET in while it is handled, or answers why it may not be.
// done must be called when it returns.
func (n *Node) admitStream(svc *Service, s *sessionActor, in *Input) (done func(), ok bool) {
	a := n.accounts.ofSession(s, in)
	gets := a.gets.Add(1)
	for a.dropped.Load() {
		a.gets.Add(-1)
		a = n.accounts.ofSession(s, in)
		gets = a.gets.Add(1)
	}
	mine := s.gets.Add(1)
	done = func() { s.gets.Add(-1); a.gets.Add(-1) }
	// Those that are still on their way count too.
	switch {
	case over(mine+s.streams.Load(), svc.Limits.Streams):
		n.refuse(in.Conn, nil, verdict{reason: StreamsOfSession})
	case over(gets+a.streams.Load(), n.accounts.lim.Principal.Streams):
		n.refuse(in.Conn, nil, verdict{reason: StreamsOfPrincipal})
	default:
		return done, true
	}
	done()
	return nil, false
}

// admitLink counts the connection that a session lives on, or answers why there
// may not be one more. Whoever was admitted gives it back as one of its streams.
func (n *Node) admitLink(in *Input) (*account, bool) { return n.admitListener(in, nil) }

// admitListener is admitLink for a request with an id.
func (n *Node) admitListener(in *Input, id []byte) (*account, bool) {
	for {
		a := n.accounts.of(in.Tenant, in.Address)
		mine := a.streams.Add(1)
		if a.dropped.Load() {
			a.streams.Add(-1)
			continue
		}
		if over(mine+a.gets.Load(), n.accounts.lim.Principal.Streams) {
			a.streams.Add(-1)
			n.refuse(in.Conn, id, verdict{reason: StreamsOfPrincipal})
			return nil, false
		}
		return a, true
	}
}

// admitQuestion decides on one more question to the client of a session, of which
// parked wait already.
func (n *Node) admitQuestion(s *sessionActor, a *account, parked int) Reason {
	switch {
	case over(int64(parked)+1, s.svc.Limits.Parked):
		return ParkedOfSession
	case over(a.parked.Load()+1, n.accounts.lim.Principal.Parked):
		return ParkedOfPrincipal
	}
	return admitted
}

// admitParked counts one more question of a request that has no session.
func (n *Node) admitParked(self *standing) (*account, error) {
	for {
		a := n.accounts.of(self.peer.key.Tenant, self.address)
		parked := a.parked.Add(1)
		switch {
		case a.dropped.Load():
			a.parked.Add(-1)
			continue
		case over(parked, n.accounts.lim.Principal.Parked):
			a.parked.Add(-1)
			n.refusals.count(ParkedOfPrincipal)
			return nil, ErrParked
		}
		return a, nil
	}
}

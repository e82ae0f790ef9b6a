package actors

import (
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/mcp"
)

// quota is what l says of every account.
func (l NodeLimits) quota() quota.Limits {
	p := &l.Principal
	return quota.Limits{Places: l.Calls, Each: p.Calls, Accounts: l.Accounts, Rates: [quota.Rates]quota.Rate{
		rateOfCalls:    {PerSecond: p.Rate, Burst: p.Burst},
		rateOfSessions: {PerSecond: float64(p.Sessions) / p.SessionIdle.Seconds(), Burst: p.Sessions},
	}}
}

// What an account counts beside its requests in flight.
const (
	heldStreams = iota // event streams with a connection
	heldGets           // GETs that are being handled
	heldParked         // questions that wait for the client
)

// What an account has buckets for.
const (
	rateOfCalls = iota
	rateOfSessions
)

// accounts are the accounts of a node's clients, and decide what the node takes on.
type accounts struct {
	*quota.Accounts
	node   *Node
	limits NodeLimits
}

// newAccounts returns the accounts of a node that has none.
func newAccounts(n *Node, l NodeLimits) accounts {
	l = l.Defaults()
	return accounts{quota.New(l.quota()), n, l}
}

// noPlace is the reason of a request that gets no place.
var noPlace = [...]Reason{quota.Admitted: admitted, quota.Full: CallsOfNode, quota.OverShare: ShareOfNode, quota.OverLimit: CallsOfPrincipal}

// ofRequest is the account that a request counts on; s is nil where there is no
// session.
func (d *accounts) ofRequest(s *sessionActor, in *Input) *quota.Account {
	if s == nil {
		return d.Of(in.Tenant, in.Address)
	}
	return s.account.Of(d.Accounts, in.Tenant, in.Address)
}

// billed is the account of a session's last request, which also pays for what is
// no request of its own: its streams and questions.
func (s *sessionActor) billed() *quota.Account {
	return s.account.Last(s.node.accounts.Accounts, s.key.Tenant)
}

// admit counts a request in, or tells why it may not run now. s is nil for one that
// has no session. Who was admitted has to leave, and gets a refund when the request
// does not run after all.
func (d *accounts) admit(s *sessionActor, in *Input, m *codec.Message) (*quota.Account, verdict) {
	a, no := d.enter(s, in)
	if a != nil && pays(s, m.Method) {
		if no = d.spend(s, a); no.reason != admitted {
			d.Leave(a)
			return nil, no
		}
	}
	return a, no
}

// enter counts a request in, or tells why there may not be so many. Who was counted in
// has to leave.
func (d *accounts) enter(s *sessionActor, in *Input) (*quota.Account, verdict) {
	a := d.ofRequest(s, in)
	place, ok := d.Admit(a)
	for !ok {
		a = d.ofRequest(s, in)
		place, ok = d.Admit(a)
	}
	if place != quota.Admitted {
		return nil, verdict{reason: noPlace[place]}
	}
	return a, verdict{}
}

// pays reports whether a request counts for the limits on calls per second: those
// do that the specification wants limited (2025-11-25, server/tools and
// server/utilities/completion), and methods that the specification does not have. A client that waits for its turn anyway, and has
// the process for itself, is not slowed down beside that.
func pays(s *sessionActor, method []byte) bool {
	if s != nil && s.link != nil && s.link.slots != nil {
		return false
	}
	if string(method) == mcp.MethodToolsCall || string(method) == mcp.MethodCompletionComplete {
		return true
	}
	_, known := mcp.LookupMethod(method)
	return !known // a program's own
}

// spend takes a token of the session and one of the account. A call that one of
// them refuses costs none.
func (d *accounts) spend(s *sessionActor, a *quota.Account) verdict {
	now := time.Now()
	if s == nil {
		if wait := a.Buckets[rateOfCalls].Take(now); wait > 0 {
			return verdict{RateOfPrincipal, wait}
		}
		return verdict{}
	}
	own := s.rate()
	if wait := own.Take(now); wait > 0 {
		return verdict{RateOfSession, wait}
	}
	if wait := a.Buckets[rateOfCalls].Take(now); wait > 0 {
		own.GiveBack(now)
		return verdict{RateOfPrincipal, wait}
	}
	return verdict{}
}

// giveBack returns what spend took for a request.
func (d *accounts) giveBack(s *sessionActor, a *quota.Account, m *codec.Message) {
	if !pays(s, m.Method) {
		return
	}
	now := time.Now()
	a.Buckets[rateOfCalls].GiveBack(now)
	if s != nil {
		s.rate().GiveBack(now)
	}
}

// readmit counts in a call that runs again after its node was lost: it was
// admitted once.
func (s *sessionActor) readmit() *quota.Account {
	n := s.node
	for {
		if a := n.accounts.Of(s.key.Tenant, ""); n.accounts.Enter(a) {
			return a
		}
	}
}

// admitSession takes a token for a new session, or answers why there is none.
func (d *accounts) admitSession(in *Input, id []byte) bool {
	n := d.node
	if d.nearFull(SessionBudget) {
		n.refusals.refuse(in.Conn, id, verdict{reason: StoreFull})
		return false
	}
	for {
		a := d.Of(in.Tenant, in.Address)
		wait := a.Buckets[rateOfSessions].Take(time.Now())
		switch {
		case wait > 0:
			n.refusals.refuse(in.Conn, id, verdict{SessionsOfPrincipal, wait})
			return false
		case !a.Dropped():
			return true
		}
	}
}

// forgive gives the token of a session back that could not be made, or has been
// deleted.
func (d *accounts) forgive(in *Input) {
	d.Of(in.Tenant, in.Address).Buckets[rateOfSessions].GiveBack(time.Now())
}

// admitStream counts a GET in while it is handled, or answers why it may not be.
// done must be called when it returns.
func (d *accounts) admitStream(svc *Service, s *sessionActor, in *Input) (done func(), ok bool) {
	n := d.node
	a := d.ofRequest(s, in)
	gets, ok := a.Hold(heldGets)
	for !ok {
		a = d.ofRequest(s, in)
		gets, ok = a.Hold(heldGets)
	}
	mine := s.gets.Add(1)
	done = func() { s.gets.Add(-1); a.Held[heldGets].Add(-1) }
	// Those that are still on their way count too.
	switch {
	case quota.Over(mine+s.streams.Load(), svc.Limits.Streams):
		n.refusals.refuse(in.Conn, nil, verdict{reason: StreamsOfSession})
	case quota.Over(gets+a.Held[heldStreams].Load(), n.accounts.limits.Principal.Streams):
		n.refusals.refuse(in.Conn, nil, verdict{reason: StreamsOfPrincipal})
	default:
		return done, true
	}
	done()
	return nil, false
}

// admitLink counts the connection that a session lives on, or answers why there
// may not be one more. Whoever was admitted gives it back as one of its streams.
func (d *accounts) admitLink(in *Input) (*quota.Account, bool) {
	return d.admitListener(in, in.Conn, nil)
}

// admitListener is admitLink for a request with an id, which is answered on to.
func (d *accounts) admitListener(in *Input, to answerer, id []byte) (*quota.Account, bool) {
	n := d.node
	for {
		a := d.Of(in.Tenant, in.Address)
		mine, ok := a.Hold(heldStreams)
		if !ok {
			continue
		}
		if quota.Over(mine+a.Held[heldGets].Load(), n.accounts.limits.Principal.Streams) {
			a.Held[heldStreams].Add(-1)
			n.refusals.refuse(to, id, verdict{reason: StreamsOfPrincipal})
			return nil, false
		}
		return a, true
	}
}

// admitQuestion decides on one more question to the client of a session, of which
// parked wait already.
func (s *sessionActor) admitQuestion(a *quota.Account, parked int) Reason {
	switch {
	case quota.Over(int64(parked)+1, s.svc.Limits.Parked):
		return ParkedOfSession
	case quota.Over(a.Held[heldParked].Load()+1, s.node.accounts.limits.Principal.Parked):
		return ParkedOfPrincipal
	}
	return admitted
}

// admitParked counts one more question of a request that has no session.
func (d *accounts) admitParked(self *stateless) (*quota.Account, error) {
	n := d.node
	for {
		a := d.Of(self.peer.key.Tenant, self.address)
		parked, ok := a.Hold(heldParked)
		if !ok {
			continue
		}
		if quota.Over(parked, n.accounts.limits.Principal.Parked) {
			a.Held[heldParked].Add(-1)
			n.refusals.count(ParkedOfPrincipal)
			return nil, ErrParked
		}
		return a, nil
	}
}

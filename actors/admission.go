package actors

import (
	"cmp"
	"errors"
	"iter"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/faults"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/session"
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
	heldPending        // questions that wait for the client
)

// What an account has buckets for.
const (
	rateOfCalls = iota
	rateOfSessions
)

// accounts are the accounts of a node's clients, and decide what the node takes on.
type accounts struct {
	*quota.Accounts
	limits   NodeLimits
	refusals *refusals
	store    Store
}

// sessionAccount is what a session is charged for by itself, beside the account of its
// principal. A nil one is that of requests that belong to no session.
type sessionAccount struct {
	account quota.Memo                   // that the session's last request counted on
	calling atomic.Pointer[quota.Bucket] // of calls; made by the first
	streams atomic.Int64                 // with a live connection
	gets    atomic.Int64                 // GETs that are being handled
	patient bool                         // its client waits for a place for its calls, and has the process for itself
}

// of is the account of the principal that a request counts on.
func (s *sessionAccount) of(d *accounts, in *Input) *quota.Account {
	if s == nil {
		return d.Of(in.Tenant, in.Address)
	}
	return s.account.Of(d.Accounts, in.Tenant, in.Address)
}

// bucket is the session's own of calls.
func (s *sessionAccount) bucket(l *Limits) quota.Bucket {
	if b := s.calling.Load(); b != nil {
		return *b
	}
	b := quota.NewBucket(quota.Rate{PerSecond: l.Rate, Burst: l.Burst})
	s.calling.CompareAndSwap(nil, &b)
	return *s.calling.Load()
}

// take takes a token for a call, or returns how long there is none.
func (s *sessionAccount) take(l *Limits, now time.Time) (wait time.Duration) {
	if s == nil {
		return 0
	}
	return s.bucket(l).Take(now)
}

func (s *sessionAccount) giveBack(l *Limits, now time.Time) {
	if s != nil {
		s.bucket(l).GiveBack(now)
	}
}

// newAccounts returns the accounts of a node that has none.
func newAccounts(l NodeLimits, rs *refusals, store Store) accounts {
	l = l.Defaults()
	return accounts{quota.New(l.quota()), l, rs, store}
}

// noPlace is the reason of a request that gets no place.
var noPlace = [...]Reason{quota.Admitted: admitted, quota.Full: CallsOfNode, quota.OverShare: ShareOfNode, quota.OverLimit: CallsOfPrincipal}

// admit counts a request in, or tells why it may not run now. Who was admitted has to
// leave, and gets a refund when the request does not run after all.
func (d *accounts) admit(s *sessionAccount, l *Limits, in *Input, m *codec.Message) (*quota.Account, verdict) {
	a, no := d.enter(s, in)
	if a != nil && s.pays(m.Method) {
		if no = d.spend(s, l, a); no.reason != admitted {
			d.Leave(a)
			return nil, no
		}
	}
	return a, no
}

// enter counts a request in, or tells why there may not be so many. Who was counted in
// has to leave.
func (d *accounts) enter(s *sessionAccount, in *Input) (*quota.Account, verdict) {
	a := s.of(d, in)
	place, ok := d.Admit(a)
	for !ok {
		a = s.of(d, in)
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
func (s *sessionAccount) pays(method []byte) bool {
	if s != nil && s.patient {
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
func (d *accounts) spend(s *sessionAccount, l *Limits, a *quota.Account) verdict {
	now := time.Now()
	if wait := s.take(l, now); wait > 0 {
		return verdict{RateOfSession, wait}
	}
	if wait := a.Buckets[rateOfCalls].Take(now); wait > 0 {
		s.giveBack(l, now)
		return verdict{RateOfPrincipal, wait}
	}
	return verdict{}
}

// giveBack returns what spend took for a request.
func (d *accounts) giveBack(s *sessionAccount, l *Limits, a *quota.Account, m *codec.Message) {
	if !s.pays(m.Method) {
		return
	}
	now := time.Now()
	a.Buckets[rateOfCalls].GiveBack(now)
	s.giveBack(l, now)
}

// admitSession takes a token for a new session, or answers why there is none.
func (d *accounts) admitSession(in *Input, id []byte) bool {
	if d.nearFull(SessionBudget) {
		d.refusals.refuseVerdict(in.Conn, id, verdict{reason: StoreFull})
		return false
	}
	for {
		a := d.Of(in.Tenant, in.Address)
		wait := a.Buckets[rateOfSessions].Take(time.Now())
		switch {
		case wait > 0:
			d.refusals.refuseVerdict(in.Conn, id, verdict{SessionsOfPrincipal, wait})
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
func (d *accounts) admitStream(s *sessionAccount, l *Limits, in *Input) (done func(), ok bool) {
	a := s.of(d, in)
	gets, ok := a.Hold(heldGets)
	for !ok {
		a = s.of(d, in)
		gets, ok = a.Hold(heldGets)
	}
	mine := s.gets.Add(1)
	done = func() { s.gets.Add(-1); a.Held[heldGets].Add(-1) }
	// Those that are still on their way count too.
	switch {
	case quota.Over(mine+s.streams.Load(), l.Streams):
		d.refusals.refuseVerdict(in.Conn, nil, verdict{reason: StreamsOfSession})
	case quota.Over(gets+a.Held[heldStreams].Load(), d.limits.Principal.Streams):
		d.refusals.refuseVerdict(in.Conn, nil, verdict{reason: StreamsOfPrincipal})
	default:
		return done, true
	}
	done()
	return nil, false
}

// admitBound counts the connection that a session lives on, or answers why there
// may not be one more. Whoever was admitted gives it back as one of its streams.
func (d *accounts) admitBound(in *Input) (*quota.Account, bool) {
	return d.admitListener(in, in.Conn, nil)
}

// admitListener is admitBound for a request with an id, which is answered on to.
func (d *accounts) admitListener(in *Input, to answerer, id []byte) (*quota.Account, bool) {
	for {
		a := d.Of(in.Tenant, in.Address)
		mine, ok := a.Hold(heldStreams)
		if !ok {
			continue
		}
		if quota.Over(mine+a.Held[heldGets].Load(), d.limits.Principal.Streams) {
			a.Held[heldStreams].Add(-1)
			d.refusals.refuseVerdict(to, id, verdict{reason: StreamsOfPrincipal})
			return nil, false
		}
		return a, true
	}
}

// admitPending counts one more question of a request that has no session.
func (d *accounts) admitPending(tenant, address string) (*quota.Account, error) {
	for {
		a := d.Of(tenant, address)
		parked, ok := a.Hold(heldPending)
		if !ok {
			continue
		}
		if quota.Over(parked, d.limits.Principal.Pending) {
			a.Held[heldPending].Add(-1)
			d.refusals.count(PendingOfPrincipal)
			return nil, ErrTooManyPending
		}
		return a, nil
	}
}

// Reason names the limit that something was refused for.
type Reason uint8

// The reasons, one per limit.
const (
	admitted               Reason = iota
	RateOfSession                 // calls per second of a session
	RateOfPrincipal               // calls per second of a principal
	CallsOfSession                // in flight in a session
	CallsOfPrincipal              // in flight, of a principal
	CallsOfNode                   // in flight on the node
	ShareOfNode                   // in flight, of a principal on a node that is nearly full
	SessionsOfPrincipal           // new sessions of a principal
	StreamsOfSession              // event streams of a session
	StreamsOfPrincipal            // event streams of a principal
	PendingOfSession              // questions that wait for the client of a session
	PendingOfPrincipal            // questions that wait for a principal
	SubscriptionsOfSession        // resources that a session subscribes to
	LogRateOfSession              // log messages per second of a session
	MaxCall                       // time that a call may run
	MaxAsk                        // time that a question may wait
	AskRounds                     // how often a call has its request sent again
	AskInput                      // bytes of answers that a client carries for a call
	Recall                        // bytes that a record tells a second run of a call
	Replay                        // event ids that cannot be resumed from, expired or never there
	StoreFull                     // new sessions and streams in a store that is nearly full
	StoreOfPrincipal              // the same, of a principal that has its share of a store with little room
	reasons
)

// limitOf is the row of each reason: its label and, unless the handler learns of it, the
// error of the request. Its status is for what is no request of a session, see refuseInSession.
var limitOf = [reasons]*limits.Row{
	RateOfSession:          limits.CallRate.Row,
	RateOfPrincipal:        limits.PrincipalRate.Row,
	CallsOfSession:         limits.CallsPerSession.Row,
	CallsOfPrincipal:       limits.CallsPerPrincipal.Row,
	CallsOfNode:            limits.CallsPerNode.Row,
	ShareOfNode:            limits.NodeShare.Row,
	SessionsOfPrincipal:    limits.SessionsPerPrincipal.Row,
	StreamsOfSession:       limits.StreamsPerSession.Row,
	StreamsOfPrincipal:     limits.StreamsPerPrincipal.Row,
	PendingOfSession:       limits.PendingPerSession.Row,
	PendingOfPrincipal:     limits.PendingPerPrincipal.Row,
	SubscriptionsOfSession: limits.SubscriptionsPerSession.Row,
	LogRateOfSession:       limits.LogRate.Row,
	MaxCall:                limits.MaxCall.Row,
	MaxAsk:                 limits.MaxAsk.Row,
	AskRounds:              limits.Rounds.Row,
	AskInput:               limits.StateInput.Row,
	Recall:                 limits.Recall.Row,
	Replay:                 limits.ReplayAge.Row,
	StoreFull:              limits.MaxStore.Row,
	StoreOfPrincipal:       limits.StoreShare.Row,
}

// verdict is why something is refused, and when to come back. The zero value
// refuses nothing.
type verdict struct {
	reason Reason
	wait   time.Duration // of a bucket, until the next token; 0 means a second
}

// Error makes a verdict pass as the error that it is where requests are begun.
func (v verdict) Error() string { return "actors: refused: " + limitOf[v.reason].Counted }

// refusals answers what a node refuses, and counts it by reason.
type refusals [reasons]atomic.Int64

func (rs *refusals) count(r Reason) { rs[r].Add(1) }

// refuseVerdict answers what is not admitted and is no request of a session, and counts that.
func (rs *refusals) refuseVerdict(c answerer, id []byte, no verdict) { rs.denial(no).tell(c, id) }

// unavailable answers what is no request of a session, and cannot be served now.
func (rs *refusals) unavailable(c answerer, id []byte) { rs.denial(errUnavailable).tell(c, id) }

// refuseError answers a request that was not begun and is of no session.
func (rs *refusals) refuseError(c answerer, err error, id []byte) { rs.denial(err).tell(c, id) }

// refuseInSession answers a request of a session that was not begun, or was given up before anything was sent. The JSON-RPC
// error says why and when to come back; HTTP says 200, because release 1.x of the Python SDK takes any status but 2xx
// and 404 for the end of the connection, with all its calls.
func (rs *refusals) refuseInSession(c answerer, err error, id []byte) {
	rs.denial(err).inSession().tell(c, id)
}

// refuseBatch is refuseInSession for the requests of a batch: each has its error, in an array. A batch that could never be
// taken has one error and a status, as what is no batch has.
func (rs *refusals) refuseBatch(c answerer, err error, ids iter.Seq[[]byte]) {
	d := rs.denial(err)
	if d.after == 0 {
		d.tell(c, nil)
		return
	}
	d = d.inSession()
	b := codec.GetBuffer()
	defer b.Free()
	lead := byte('[')
	b.B = b.B[:0]
	for id := range ids {
		b.B = codec.AppendError(append(b.B, lead), id, d.code, d.message, d.data)
		lead = ','
	}
	c.Answer(d.status, append(b.B, ']'))
}

// errUnavailable is why a request is turned away that a node cannot serve now.
var errUnavailable = errors.New("actors: unavailable")

// denial is how a refusal looks to who gets it.
type denial struct {
	status, code int
	message      string
	data         []byte
	after        time.Duration // when to come back, 0 if that would change nothing
}

// denial is that for err, and counts the limit that err names.
func (rs *refusals) denial(err error) denial {
	no, limited := errors.AsType[verdict](err)
	switch {
	case limited:
	case errors.Is(err, session.ErrTooMany):
		no = verdict{reason: CallsOfSession}
	case errors.Is(err, errLongToken):
		return denialOf(faults.LongToken)
	case errors.Is(err, session.ErrDuplicate):
		return denialOf(faults.DuplicateID)
	default:
		return denialOf(faults.Unavailable)
	}
	rs.count(no.reason)
	w := &limitOf[no.reason].Refusal
	after := cmp.Or(no.wait, time.Second)
	return denial{w.Status, w.Code, w.Message, retryAfter(after), after}
}

// denialOf is the denial of a fault.
func denialOf(f *faults.Fault) denial {
	d := denial{status: f.Status, code: f.Code, message: f.Text, after: f.After}
	if d.after > 0 {
		d.data = retryAfter(d.after)
	}
	return d
}

// inSession is the denial as the answer to a request of a session.
func (d denial) inSession() denial {
	d.status = 200
	return d
}

func (d denial) tell(c answerer, id []byte) {
	c.Reject(d.status, d.code, d.message, d.data, id, d.after)
}

// retryAfter is the data of an error that a client is to come back after, in milliseconds, rounded up.
func retryAfter(d time.Duration) []byte {
	ms := int64((d + time.Millisecond - 1) / time.Millisecond)
	return append(strconv.AppendInt([]byte(`{"retryAfterMs":`), ms, 10), '}')
}

// storable decides whether so many bytes more may be stored for a client, and charges them
// to its account for as long as they last. What is nearly full takes nothing new, so that
// what is there can go on. From three quarters on nobody gets more who has a sixteenth:
// no client keeps all others from the store, however little else it does.
func (d *accounts) storable(a *quota.Account, b Budget, bytes int, life time.Duration) Reason {
	now := time.Now()
	switch used, limit := d.store.Use(b); {
	case nearlyAll(used, limit):
		return StoreFull
	case limit > 0 && used > limit/4*3 && a.Used[b].Amount(now) > limit/limits.StoreShare.Value():
		return StoreOfPrincipal
	}
	a.Used[b].Add(now, int64(bytes), max(life, time.Second))
	return admitted
}

// gone gives back what storable has charged for a session that is not stored any more.
func (d *accounts) gone(in *Input, rec *session.Record, life time.Duration) {
	if data, err := codec.Marshal(rec); err == nil {
		d.Of(in.Tenant, in.Address).Used[SessionBudget].Add(time.Now(), -int64(len(data)), max(life, time.Second))
	}
}

// nearFull reports that nobody may store anything new.
func (d *accounts) nearFull(b Budget) bool {
	return nearlyAll(d.store.Use(b))
}

// nearlyAll reports that nine tenths of a budget are in use; a limit of 0 is not known.
func nearlyAll(used, limit int64) bool { return limit > 0 && used > limit/10*9 }

var errLongToken = errors.New("actors: the id or the progress token is too long")

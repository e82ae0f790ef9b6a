package actors

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors/internal/session"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/mcp"
)

// accounts has the accounts of a node's clients and decides on admission.
type accounts struct {
	*quota.Accounts
	limits   NodeLimits
	refusals refusals
	store    store.Store
	lostLogs *quota.Turns[*quota.Account] // for reading the log of a stream without a writer
	attaches *quota.Turns[*quota.Account] // for asking other nodes for their streams
	pace     *quota.Pace[*quota.Account]  // of appends to the event log
	storing  [store.Budgets]atomic.Int64  // bytes that are charged and on their way to the store: see storeCharge
	deciding [store.Budgets]sync.Mutex    // held while it is decided whether bytes more may be stored
}

// sessionAccount has a session's own counts and bucket, besides the account of its principal. It is
// nil for requests without a session.
type sessionAccount struct {
	account quota.Memo                   // the account of the session's last request
	calling atomic.Pointer[quota.Bucket] // for requests; made by the first
	streams atomic.Int64                 // with a live connection
	gets    atomic.Int64                 // GETs that are being handled
	patient bool                         // its client waits for a slot for its calls, and has the process for itself
}

// isAlone reports whether the client has the process for itself.
func (s *sessionAccount) isAlone() bool { return s != nil && s.patient }

// accountOf is the account that a request is counted on.
func (s *sessionAccount) accountOf(d *accounts, in *Input) *quota.Account {
	switch {
	case in.Account != nil && !in.Account.Dropped():
		if s != nil {
			s.account.Keep(d.Accounts, in.Account)
		}
		return in.Account
	case s == nil:
		return d.Of(in.Tenant, in.Address)
	}
	return s.account.Of(d.Accounts, in.Tenant, in.Address)
}

// callBucket is the session's own bucket for requests.
func (s *sessionAccount) callBucket(l *Limits) quota.Bucket {
	if b := s.calling.Load(); b != nil {
		return *b
	}
	b := quota.NewBucket(quota.Rate{PerSecond: l.Rate, Burst: l.Burst})
	s.calling.CompareAndSwap(nil, &b)
	return *s.calling.Load()
}

// takeTokens takes tokens, or returns how long to wait for them.
func (s *sessionAccount) takeTokens(l *Limits, now time.Time, n int) (wait time.Duration) {
	if s == nil {
		return 0
	}
	return s.callBucket(l).TakeN(now, n)
}

func (s *sessionAccount) refundTokens(l *Limits, now time.Time, n int) {
	if s != nil {
		s.callBucket(l).GiveBackN(now, n)
	}
}

// newAccounts returns accounts without any clients yet.
func newAccounts(l NodeLimits, rs refusals, store store.Store) accounts {
	l = l.Defaults()
	turns := quota.NewTurns[*quota.Account]
	return accounts{Accounts: quota.New(l.quotaLimits()), limits: l, refusals: rs, store: store, lostLogs: turns(limits.LostLogs.Value()), attaches: turns(limits.Attaches.Value()), pace: quota.NewPace[*quota.Account](l.Bytes, storeKeeps)}
}

// noPlace is the limit that leaves no place for a request.
var noPlace = [...]*limits.Row{quota.Full: limits.CallsPerNode.Row, quota.OverShare: limits.NodeShare.Row, quota.OverLimit: limits.CallsPerPrincipal.Row}

// admitRequest counts a request that costs tokens, or says why it may not run now. The caller calls
// LeavePlace for an admitted request, and refundTokens too if it does not run after all.
func (d *accounts) admitRequest(s *sessionAccount, l *Limits, in *Input, cost int) (*quota.Account, *refusal.Refusal) {
	a, no := d.enterRequest(s, in)
	if a != nil {
		if no = d.spendTokens(s, l, a, cost); no != nil {
			d.LeavePlace(a)
			return nil, no
		}
	}
	return a, no
}

// enterRequest counts a request, or says why there are too many. The caller calls LeavePlace for one
// that was counted.
func (d *accounts) enterRequest(s *sessionAccount, in *Input) (*quota.Account, *refusal.Refusal) {
	a := s.accountOf(d, in)
	place, ok := d.AdmitRequest(a)
	for !ok {
		a = s.accountOf(d, in)
		place, ok = d.AdmitRequest(a)
	}
	if place != quota.Admitted {
		return nil, refusal.Of(noPlace[place])
	}
	return a, nil
}

// A request pays a token, and one more for each of these that it has.
const (
	bytesPerToken  = 64 << 10 // of its body
	valuesPerToken = 10_000   // of JSON
	// replayPerToken is for a resume: bytes that may be read for it before its client has read any.
	replayPerToken = 256 << 10
	maxPrepaid     = 1 << 20
)

// callCost is how many tokens a request with a body of size bytes takes of the buckets of its
// session and of its principal. A ping pays for its size alone; initialize has a bucket of its own
// and does not come here. A patient client, which has the process for itself, is not slowed down.
func (s *sessionAccount) callCost(m *codec.Message, size int) int {
	if s.isAlone() {
		return 0
	}
	n := size/bytesPerToken + m.Values/valuesPerToken
	if string(m.Method) != mcp.MethodPing {
		n++
	}
	return n
}

// spendTokens takes the cost of a request from the session and from the account, or nothing from
// either.
func (d *accounts) spendTokens(s *sessionAccount, l *Limits, a *quota.Account, cost int) *refusal.Refusal {
	if cost == 0 {
		return nil
	}
	now := time.Now()
	if wait := s.takeTokens(l, now, cost); wait > 0 {
		return refusal.Of(limits.CallRate.Row).In(wait)
	}
	if wait := a.Buckets[rateOfCalls].TakeN(now, cost); wait > 0 {
		s.refundTokens(l, now, cost)
		return refusal.Of(limits.PrincipalRate.Row).In(wait)
	}
	return nil
}

// refundTokens returns the tokens that spendTokens took for a request.
func (d *accounts) refundTokens(s *sessionAccount, l *Limits, a *quota.Account, cost int) {
	if cost == 0 {
		return
	}
	now := time.Now()
	a.Buckets[rateOfCalls].GiveBackN(now, cost)
	s.refundTokens(l, now, cost)
}

// admitGet takes the tokens of a GET from its principal, or refuses it. A resume pays for what may
// be read of its stream before its client has read any. It comes before the store is read.
func (d *accounts) admitGet(l *Limits, in *Input) bool {
	cost := 1
	if in.LastEventID != "" {
		cost += min(l.Stream.Bytes, maxPrepaid) / replayPerToken
	}
	no := d.chargeTokens(nil, in, rateOfCalls, cost)
	if no != nil {
		d.refusals.refuseRequest(in.Conn, no, nil)
	}
	return no == nil
}

// messages are what a client sends beside its calls: notifications, answers, initialize, DELETE,
// and pings before a session. They have a bucket of the principal to themselves: one who has spent
// its calls may still answer, and cancel.
type messages struct{ n, size, values int }

// addMessage adds a message with a body of size bytes. A ping pays for its size alone.
func (c *messages) addMessage(m *codec.Message, size int) {
	if string(m.Method) != mcp.MethodPing {
		c.n++
	}
	c.size += size
	c.values += m.Values
}

// tokenCost is how many tokens of rateOfMessages the messages take.
func (c messages) tokenCost() int {
	return c.n + perCall*(c.size/bytesPerToken+c.values/valuesPerToken)
}

// chargeMessages takes the tokens of messages, or says when they may come again. A refused message
// has had no effect. It comes before the store is read.
func (d *accounts) chargeMessages(s *sessionAccount, in *Input, c messages) *refusal.Refusal {
	if s.isAlone() {
		return nil
	}
	return d.chargeTokens(nil, in, rateOfMessages, c.tokenCost()) // a session remembers the account of its calls
}

// admitMessage is chargeMessages for one message, which it refuses on in.Conn.
func (d *accounts) admitMessage(s *sessionAccount, in *Input, m *codec.Message, size int) bool {
	var c messages
	c.addMessage(m, size)
	no := d.chargeMessages(s, in, c)
	if no != nil {
		var id []byte
		if m.Kind == codec.Request {
			id = m.ID
		}
		d.refusals.refuseRequest(in.Conn, no, id)
	}
	return no == nil
}

// chargeTokens takes tokens of the principal alone.
func (d *accounts) chargeTokens(s *sessionAccount, in *Input, rate, cost int) *refusal.Refusal {
	for cost > 0 {
		a := s.accountOf(d, in)
		switch wait := a.Buckets[rate].TakeN(time.Now(), cost); {
		case wait > 0:
			return refusal.Of(limits.PrincipalRate.Row).In(wait)
		case !a.Dropped():
			return nil
		}
	}
	return nil
}

// ChargeRefused charges a for a body whose message was refused before anybody knew what it is: as a
// message that is no call, but also for a part of a token. What it has not got, it owes: see
// [RefusedFor].
func ChargeRefused(a *quota.Account, size, values int) {
	a.Buckets[rateOfMessages].Owe(time.Now(), int64(1+perCall*size/bytesPerToken+perCall*values/valuesPerToken))
}

// RefusedFor is how long a owes for what ChargeRefused charged.
func RefusedFor(a *quota.Account) time.Duration { return a.Buckets[rateOfMessages].Debt(time.Now()) }

// admitSession takes the tokens of a new session, or refuses it.
func (d *accounts) admitSession(in *Input, id []byte) bool {
	if d.nearFull(store.SessionBudget) {
		d.refusals.refuseRequest(in.Conn, refusal.Of(limits.MaxStore.Row), id)
		return false
	}
	for {
		a := d.Of(in.Tenant, in.Address)
		wait := a.Buckets[rateOfSessions].TakeN(time.Now(), perSession)
		switch {
		case wait > 0:
			d.refusals.refuseRequest(in.Conn, refusal.Of(limits.SessionsPerPrincipal.Row).In(wait), id)
			return false
		case !a.Dropped():
			return true
		}
	}
}

// refundSessionTokens returns tokens of a session that could not be made or has been deleted.
func (d *accounts) refundSessionTokens(in *Input, tokens int) {
	d.Of(in.Tenant, in.Address).Buckets[rateOfSessions].GiveBackN(time.Now(), tokens)
}

// admitStream counts a GET while it is handled, or refuses it. The caller calls done when the
// handler returns.
func (d *accounts) admitStream(s *sessionAccount, l *Limits, in *Input) (done func(), ok bool) {
	a := s.accountOf(d, in)
	gets, ok := a.AddHeld(heldGets)
	for !ok {
		a = s.accountOf(d, in)
		gets, ok = a.AddHeld(heldGets)
	}
	mine := s.gets.Add(1)
	done = func() { s.gets.Add(-1); a.Held[heldGets].Add(-1) }
	// GETs that are still being handled count too.
	switch {
	case quota.ExceedsLimit(mine+s.streams.Load(), l.Streams):
		d.refusals.refuseRequest(in.Conn, refusal.Of(limits.StreamsPerSession.Row), nil)
	case quota.ExceedsLimit(gets+a.Held[heldStreams].Load()+a.HeldElsewhere(heldStreams), d.limits.Principal.Streams):
		d.refusals.refuseRequest(in.Conn, refusal.Of(limits.StreamsPerPrincipal.Row), nil)
	default:
		return done, true
	}
	done()
	return nil, false
}

// admitBound counts the connection of a bound session, or refuses it. The caller gives it back as
// one of the account's streams.
func (d *accounts) admitBound(in *Input) (*quota.Account, bool) {
	return d.admitListener(in, in.Conn, nil)
}

// admitListener is admitBound for a request with an id; the refusal goes to to.
func (d *accounts) admitListener(in *Input, to answerer, id []byte) (*quota.Account, bool) {
	for {
		a := d.Of(in.Tenant, in.Address)
		mine, ok := a.AddHeld(heldStreams)
		if !ok {
			continue
		}
		if quota.ExceedsLimit(mine+a.Held[heldGets].Load()+a.HeldElsewhere(heldStreams), d.limits.Principal.Streams) {
			a.Held[heldStreams].Add(-1)
			d.refusals.refuseRequest(to, refusal.Of(limits.StreamsPerPrincipal.Row), id)
			return nil, false
		}
		return a, true
	}
}

// What is counted in memory beside the bytes themselves, for what is no request.
const (
	sessionBytes  = 4 << 10
	listenerBytes = 16 << 10
	outcomeBytes  = 512     // a response that is kept
	decodedFilter = 3       // times the length of a filter, which is decoded, and encoded as it is acknowledged
	uriBytes      = 1 << 10 // each resource that is followed, which has an actor
	// waitingStep is how much may wait for the log of a stream, or of a call, before it is counted:
	// the request, or the connection, is counted with as much. Beyond, it is counted in steps of
	// this size.
	waitingStep = 16 << 10
)

// reserveMemory counts bytes in memory on the account of a request, or says why there is no room.
func (d *accounts) reserveMemory(h *quota.Holding, s *sessionAccount, in *Input, k quota.Kind, n int64) *refusal.Refusal {
	for {
		switch no, ok := h.Charge(d.Accounts, s.accountOf(d, in), k, n); {
		case !ok: // dropped: find it anew
		case no == quota.Full:
			return refusal.Of(limits.MaxMemory.Row)
		case no != quota.Admitted:
			return refusal.Of(limits.MemoryShare.Row)
		default:
			return nil
		}
	}
}

// reserveAnyway is reserveMemory for what is held whether there is room or not.
func (d *accounts) reserveAnyway(h *quota.Holding, s *sessionAccount, in *Input, k quota.Kind, n int64) {
	for !h.ChargeAnyway(d.Accounts, s.accountOf(d, in), k, n) {
	}
}

// runInTurn runs work when it is the turn of from. It reports false if there was no place in time,
// or ctx was done before; a client that is alone waits for as long as it takes.
func (d *accounts) runInTurn(ctx context.Context, from *quota.Account, alone bool, work func()) bool {
	wait, cancel := ctx, func() {}
	if !alone {
		wait, cancel = context.WithTimeout(ctx, limits.TurnWait.Value())
	}
	defer cancel()
	if !d.Turns.Take(wait, from) {
		if ctx.Err() == nil {
			d.refusals.Refused(limits.TurnWait.Row)
		}
		return false
	}
	defer d.Turns.Leave()
	work()
	return true
}

// callMemory is what a call on a goroutine of its own holds, with its copy of the message.
func callMemory(m *codec.Message, body []byte) int64 {
	return quota.RequestBytes + int64(len(body)) + quota.ValueBytes*int64(m.Values)
}

// admitPending counts one more question of a stateless request.
func (d *accounts) admitPending(tenant, address string) (*quota.Account, error) {
	for {
		a := d.Of(tenant, address)
		parked, ok := a.AddHeld(heldPending)
		if !ok {
			continue
		}
		if quota.ExceedsLimit(parked+a.HeldElsewhere(heldPending), d.limits.Principal.Pending) {
			a.Held[heldPending].Add(-1)
			d.refusals.Refused(limits.PendingPerPrincipal.Row)
			return nil, ErrTooManyPending
		}
		return a, nil
	}
}

// chargeStore charges bytes that are about to be stored, or returns the limit that leaves no room
// for them. A store that is nearly full takes nothing new, so that existing sessions and streams
// can go on. The caller calls settleCharge.
func (d *accounts) chargeStore(c storeCharge) (no *limits.Row) {
	// One after the other: no two of them take the same room, and what is refused is never counted,
	// which might have others refused.
	d.deciding[c.in].Lock()
	defer d.deciding[c.in].Unlock()
	no = d.decideCharge(c, d.storing[c.in].Load(), storedFor(c.of, c.in))
	if no == nil {
		d.storing[c.in].Add(c.bytes)
		c.addBytes(c.bytes)
	}
	return no
}

// decideCharge decides on a charge beside the bytes on their way and those that the client has in
// the budget.
func (d *accounts) decideCharge(c storeCharge, way, mine int64) *limits.Row {
	used, limit := d.store.Use(c.in)
	if c.in == store.EventBudget {
		way += d.BytesOf(quota.Waiting) / 2 // it is in memory as events and as appends
	}
	return noRoom[quota.FairStore(used+way, mine, c.bytes, limit, limits.StoreShare.Value())]
}

// noRoom is the limit beyond which nothing more is stored.
var noRoom = [...]*limits.Row{quota.Admitted: nil, quota.Full: limits.MaxStore.Row, quota.OverShare: limits.StoreShare.Row}

// settleCharge says what became of bytes that were charged: they are stored, or err says why not.
// What is certainly not stored is given back.
func (d *accounts) settleCharge(c storeCharge, err error) {
	d.storing[c.in].Add(-c.bytes)
	if err != nil && !errors.Is(err, store.ErrUnavailable) {
		c.addBytes(-c.bytes)
	}
}

// sessionCharge is the charge for the record of a session, of size bytes, for as long as it lasts.
func (d *accounts) sessionCharge(in *Input, rec *session.Record, l *session.Lifetime, size int) storeCharge {
	c := storeCharge{of: d.Of(in.Tenant, in.Address), usage: int(store.SessionBudget), in: store.SessionBudget, bytes: int64(size), life: l.Idle}
	if rec.Fresh {
		c.usage, c.life = usedFresh, l.Fresh
	}
	return c
}

// refundSessionBytes returns the charge for a session that is no longer stored, or no longer as rec has
// it.
func (d *accounts) refundSessionBytes(in *Input, rec *session.Record, l *session.Lifetime) {
	if data, err := codec.Marshal(rec); err == nil {
		c := d.sessionCharge(in, rec, l, len(data))
		c.addBytes(-c.bytes)
	}
}

// nearFull reports whether the store is too full for anything new.
func (d *accounts) nearFull(b store.Budget) bool {
	return nearlyAll(d.store.Use(b))
}

// refusals sends the refusals of a node, and counts those by a limit.
type refusals struct{ *limits.Log }

// refusalFor is the refusal for err. It counts the limit, if that is the reason.
func (rs refusals) refusalFor(err error) *refusal.Refusal {
	no, ok := errors.AsType[*refusal.Refusal](err)
	switch {
	case ok:
	case errors.Is(err, session.ErrTooMany):
		no = refusal.Of(limits.CallsPerSession.Row)
	case errors.Is(err, session.ErrDuplicate):
		no = refusal.DuplicateID
	default:
		no = refusal.Unavailable
	}
	if no.Limit != nil {
		rs.Refused(no.Limit)
	}
	return no
}

// refuseRequest refuses a request without a session, or one that was not begun.
func (rs refusals) refuseRequest(c answerer, err error, id []byte) { rs.refusalFor(err).Tell(c, id) }

// refuseInSession refuses a request of a session that was not begun, or was given up before
// anything was sent. The JSON-RPC error says why and when to come back. The HTTP status is 200,
// because release 1.x of the Python SDK takes any status but 2xx and 404 for the end of the
// connection, with all its calls.
func (rs refusals) refuseInSession(c answerer, err error, id []byte) {
	no := *rs.refusalFor(err)
	no.Status = 200
	no.Tell(c, id)
}

// refuseBatch is refuseInSession for the requests of a batch: each has its error, in an array. If
// coming back would change nothing, the batch has one error with a status, like a single request.
func (rs refusals) refuseBatch(c answerer, err error, ids iter.Seq[[]byte]) {
	no := rs.refusalFor(err)
	if no.After == 0 {
		no.Tell(c, nil)
		return
	}
	e := no.MCP()
	b := codec.GetBuffer()
	defer b.Free()
	lead := byte('[')
	b.B = b.B[:0]
	for id := range ids {
		b.B = codec.AppendError(append(b.B, lead), id, e.Code, e.Message, e.Data)
		lead = ','
	}
	c.Answer(200, append(b.B, ']'))
}

// A storeCharge is bytes that are stored for a client for as long as life. They count as on their
// way from chargeStore until settleCharge: the store does not know of them yet, and others that
// come meanwhile must not count on the same room.
type storeCharge struct {
	of    *quota.Account
	usage int // of the account: a budget, or usedFresh
	in    store.Budget
	bytes int64
	life  time.Duration
}

// addBytes counts bytes more for the client; a negative number gives them back.
func (c storeCharge) addBytes(bytes int64) {
	if c.in == store.TaskBudget {
		c.of.Lasting.Add(time.Now(), bytes, c.life)
		return
	}
	c.of.Used[c.usage].Add(time.Now(), bytes, max(c.life, time.Second))
}

// usedFresh is the usage of sessions whose client has sent nothing since initialize. They last for
// minutes, others for days, and a usage has one time.
const usedFresh = int(store.Budgets)

// usedLog is the usage of what was appended to the event log lately: see accounts.pace.
const usedLog = usedFresh + 1

// storeKeeps is for how long the embedded store keeps in memory what it has written, a file of 8
// MiB at a time.
const storeKeeps = 10 * time.Second

// storedFor is how much of a budget a client has.
func storedFor(a *quota.Account, b store.Budget) int64 {
	now := time.Now()
	if b == store.TaskBudget {
		return a.Lasting.Amount(now)
	}
	n := a.Used[b].Amount(now)
	if b == store.SessionBudget {
		n += a.Used[usedFresh].Amount(now)
	}
	return n
}

// nearlyAll reports whether nine tenths of a budget are in use; a limit of 0 means unknown.
func nearlyAll(used, limit int64) bool { return limit > 0 && used > limit/10*9 }

// logLimiter limits the log messages of a session or of a stateless request. Messages above the
// rate are dropped, and the client learns how many.
type logLimiter struct {
	rate      quota.Bucket
	missed    atomic.Int64 // dropped since the client last learned how many
	reporting atomic.Bool  // a timer will report them
}

// admitMessage takes a token for one message. If there is none, wait is the time until there is.
func (l *logLimiter) admitMessage(rs refusals) (wait time.Duration) {
	if wait = l.rate.Take(time.Now()); wait > 0 {
		l.missed.Add(1)
		rs.Refused(limits.LogRate.Row)
	}
	return wait
}

// takeMissed returns how many messages were dropped since the last call.
func (l *logLimiter) takeMissed() int64 {
	if l == nil || l.missed.Load() == 0 {
		return 0
	}
	return l.missed.Swap(0)
}

// logLimiterIn returns the limiter that p holds, and makes it for the first message.
func logLimiterIn(p *atomic.Pointer[logLimiter], rate float64) *logLimiter {
	l := p.Load()
	for l == nil {
		p.CompareAndSwap(nil, &logLimiter{rate: quota.NewBucket(quota.Rate{PerSecond: rate, Burst: quota.Burst(rate, 0)})})
		l = p.Load()
	}
	return l
}

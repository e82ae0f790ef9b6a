package actors

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/faults"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/request"
)

// maxOutcome bounds an answer that is kept for those who ask for it again, in bytes.
var maxOutcome = limits.Outcome.Value()

// parking is what the actor knows of a call that has asked: which round waits for
// its answers, and what became of the one before.
type parking struct {
	asked   int         // the round that the client was asked for last
	until   time.Time   // its answers may come until then
	wake    chan<- more // tells the handler, which waits; nil if none does
	taken   int         // the round whose answers were taken last, 0 for none
	digest  digest      // of those answers
	outcome []byte      // what they led to, from the id on; nil while nobody knows
	others  []brought   // that wait for the same
	givenUp bool        // what the handler still says is nobody's answer
}

type digest [sha256.Size]byte

// parked are the calls that have asked, by the names in their states: see parking.
type parked struct {
	*kernel.Directory[string, *requestActor]
	node     *Node
	keys     Keys
	outcomes outcomes
}

// more is what a parked call goes on with: what a request brought that was sent
// again, or why none did.
type more struct {
	given map[string][]byte
	err   error
}

// askMore has the client told that the call needs input.
type askMore struct {
	kernel.Reply
	round  int
	answer []byte // from the id on
	wake   chan<- more
	err    error
}

func (m *askMore) Refused(err error) { m.err = err; m.Done() }

// askMore parks the request.
func (r *requestActor) askMore(m *askMore) {
	if r.phase != request.Plain && r.phase != request.Streaming {
		m.err = errReturned
		if cause := context.Cause(r.ctx); cause != nil {
			m.err = cause
		}
		m.Done()
		return
	}
	p := r.parking
	if p == nil {
		p = &parking{}
		r.parking = p
	}
	r.used = true
	id := string(r.id)
	r.step(request.Ask, response{data: withID(r.id, m.answer), asks: true}, nil)
	r.way.delivery = nowhere{}
	r.way.table.parked(r, id)
	p.settle(m.answer)
	wait := r.svc.patience()
	p.asked, p.until, p.wake = m.round, time.Now().Add(wait), m.wake
	r.timer.Reset(wait)
	if r.from != nil {
		r.node.accounts.Leave(r.from) // it is not in flight while it waits
		r.from = nil
	}
	m.Done()
}

// goOn has a handler that waits go on.
func (r *requestActor) goOn(m more) {
	if p := r.parking; p != nil && p.wake != nil {
		p.wake <- m // which has room for one
		p.wake = nil
	}
}

// outwaited ends the wait of a handler whose client has not come back in time.
func (r *requestActor) outwaited() {
	p := r.parking
	if p.wake == nil || time.Now().Before(p.until) { // the tick is of the time before
		return
	}
	r.node.refusals.count(MaxAsk)
	r.goOn(more{err: ErrNoAnswer})
}

// withID is a whole response of an id and what follows it.
func withID(id, rest []byte) []byte {
	b := make([]byte, 0, len(id)+len(rest)+24)
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = append(b, id...)
	return append(b, rest...)
}

// settle gives an outcome to all who wait for it, and keeps it for those who come
// later.
func (p *parking) settle(rest []byte) {
	for _, x := range p.others {
		x.answer(response{data: withID(x.id, rest)})
	}
	p.others, p.outcome = nil, nil
	if p.taken > 0 && len(rest) <= maxOutcome {
		p.outcome = bytes.Clone(rest)
	}
}

// endOthers ends the exchanges that wait for the same as the one that is served.
func (r *requestActor) endOthers(why ending) {
	p := r.parking
	if p == nil {
		return
	}
	p.givenUp = true
	for _, x := range p.others {
		x.end(why, x.id)
	}
	p.others = nil
}

// brought is a request that was sent again, with its exchange.
type brought struct {
	exchange
	id    []byte
	token []byte
	meta  []byte
	from  *quota.Account // that it counts on
}

// verdicts on a request that is sent again.
type sentAgain uint8

const (
	unknown sentAgain = iota // the call is gone
	taken                    // it goes on with the answers
	joined                   // it does already, and this exchange waits for the same
	settled                  // what came of it is known
	refused                  // the state was used with other answers, or is none of this call
)

// retried brings a parked call its answers.
type retried struct {
	kernel.Reply
	x       brought
	round   int
	digest  digest
	given   map[string][]byte
	verdict sentAgain
	outcome []byte
}

func (m *retried) Refused(error) { m.verdict = unknown; m.Done() }

func (r *requestActor) retried(m *retried) {
	p := r.parking
	m.x.joins(r)
	switch {
	case r.phase == request.Cancelled || r.phase == request.Dropped || p == nil:
		m.verdict = unknown
	case r.phase == request.Parked && m.round == p.asked && p.wake != nil:
		m.verdict = taken
		p.taken, p.digest, p.outcome = m.round, m.digest, nil
		r.step(request.Resume, response{}, nil)
		r.answerTo(m.x)
		r.graced = false
		r.timer.Reset(r.way.grace)
		r.goOn(more{given: m.given})
	case m.round != p.taken || m.digest != p.digest:
		m.verdict = refused
	case p.outcome != nil:
		m.verdict, m.outcome = settled, p.outcome
	case r.phase == request.Plain || r.phase == request.Streaming:
		m.verdict = joined
		p.others = append(p.others, m.x)
	default:
		m.verdict = unknown
	}
	m.Done()
}

// answerTo makes x the exchange that the call answers. From here on the handler has its
// client as that request says that it is.
func (r *requestActor) answerTo(x brought) {
	r.self.served = x.exchange
	r.way.delivery, r.id = x.exchange, bytes.Clone(x.id) // the session's table may still have the old one
	if r.from == nil {
		r.from = x.from
	}
	r.call.token.Store(&x.token)
	r.self.meta.now.Store(&x.meta)
	x.serves()
	r.way.table.resumed(r)
}

// responses are the answers that a request brings; ok is false where they are no
// object.
func responses(m *codec.Message) (given map[string][]byte, ok bool) {
	if m.Responses == nil {
		return nil, true
	}
	if m.Responses[0] != '{' {
		return nil, false
	}
	given = make(map[string][]byte)
	for key, value := range codec.Members(m.Responses) {
		name, ok := codec.Str(append(append([]byte{'"'}, key...), '"'))
		if ok {
			given[name] = bytes.Clone(value)
		}
	}
	return given, true
}

func badResponses(to answerer, id []byte) {
	faults.Responses.Tell(to, id)
}

// badState is the one answer for every state that is not good, so that it tells
// nothing about those of others.
func badState(to answerer, id []byte) {
	faults.State.Tell(to, id)
}

// again takes a request that is sent again with the input that it needed.
func (a *arrival) again() (begun bool) {
	n, m := a.n, a.m
	from, no := n.accounts.admit(a.sess, &a.in, m) // first: to open a state may take a look into the store
	if from == nil {
		n.refusals.refuse(a.to, m.ID, no)
		return false
	}
	st, err := n.mrtr.open(a.svc, a.in.Tenant, m, time.Now())
	given, ok := responses(m)
	switch {
	case errors.Is(err, ErrUnavailable):
		n.log.Warn("requestState not readable", "error", err)
		n.accounts.giveBack(a.sess, from, m) // it did not run, for no fault of its client
		n.refusals.unavailable(a.to, m.ID)
	case err != nil:
		badState(a.to, m.ID)
	case !ok:
		badResponses(a.to, m.ID)
	}
	if err != nil || !ok {
		n.accounts.Leave(from)
		return false
	}
	sum := digest(sha256.Sum256(codec.AppendCanonical(nil, m.Responses)))
	x := brought{exchange: a.on.exchange(a.in.Exchange), id: bytes.Clone(m.ID), token: bytes.Clone(m.ProgressToken), meta: bytes.Clone(m.Meta), from: from}
	for {
		verdict, outcome := n.mrtr.retry(st, x, sum, given)
		switch verdict {
		case taken:
			x.await()
			return true
		case joined:
			x.await()
			begun = true
		case settled:
			a.to.Answer(200, withID(m.ID, outcome))
		case refused:
			badState(a.to, m.ID)
		default:
			if !a.svc.Handler.Safe(m.Method, m.Name) {
				faults.Lost.Tell(a.to, m.ID)
				break
			}
			if a.runAgain(from, st, sum, given) {
				return true
			}
			continue // another has begun it: the same answers bring the same outcome
		}
		n.accounts.Leave(from)
		return begun
	}
}

// retry looks for the call that a state names.
func (p *parked) retry(st *askState, x brought, sum digest, given map[string][]byte) (sentAgain, []byte) {
	if r, ok := p.Get(st.Park); ok {
		m := &retried{x: x, round: st.Round, digest: sum, given: given}
		m.Init()
		if r.Post(m) == nil {
			if m.Wait(); m.verdict != unknown {
				return m.verdict, m.outcome
			}
		}
		p.Drop(st.Park, r)
	}
	if h, ok := p.outcomes.get(st.Park); ok {
		switch {
		case h.round == st.Round && h.digest == sum:
			return settled, h.outcome
		case st.Round <= h.round:
			return refused, nil
		}
	}
	return unknown, nil
}

// runAgain runs a call again whose actor is gone, with the answers that it was
// given. It reports whether it does: another request may be quicker.
func (a *arrival) runAgain(from *quota.Account, st *askState, sum digest, given map[string][]byte) bool {
	var x exchange
	r, err := a.n.mrtr.Obtain(st.Park, func() (*requestActor, error) {
		r, own := a.begin(from, true)
		x = own
		r.call.attempt = 2
		r.self.given = st.given()
		for k, v := range given { // what was answered before stays, as it does for a call that waits
			if _, ok := r.self.given[k]; !ok {
				r.self.given[k] = v
			}
		}
		r.self.round, r.self.park = st.Round, st.Park
		r.parking = &parking{asked: st.Round, taken: st.Round, digest: sum}
		return r, nil
	})
	if x == nil || err != nil {
		return false
	}
	a.run(r, x)
	return true
}

// concluded tells those who wait for the call what came of it, and keeps that for
// those who ask again. rest is the response from the id on.
func (r *requestActor) concluded(rest []byte) {
	r.goOn(more{err: errReturned}) // a goroutine that the handler left behind
	p := r.parking
	switch {
	case p == nil || p.givenUp:
		return
	case r.phase == request.Cancelled:
		r.endOthers(cancelled)
		return
	}
	p.settle(rest)
	if p.outcome != nil {
		r.node.mrtr.outcomes.put(r.self.park, outcome{round: p.taken, digest: p.digest, outcome: p.outcome, until: time.Now().Add(limits.OutcomeAge.Value())})
	}
}

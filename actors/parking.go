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
	others  []*exchange // that wait for the same
	givenUp bool        // what the handler still says is nobody's answer
}

type digest [sha256.Size]byte

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
	p := r.self.parking
	if p == nil {
		p = &parking{}
		r.self.parking = p
	}
	r.used = true
	id := bytes.Clone(r.id)
	r.step(request.Ask, withID(r.id, m.answer), nil)
	if r.sess != nil {
		_ = r.sess.Post(&endCall{req: r, id: string(id)})
	}
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
	if p := r.self.parking; p != nil && p.wake != nil {
		p.wake <- m // which has room for one
		p.wake = nil
	}
}

// outwaited ends the wait of a handler whose client has not come back in time.
func (r *requestActor) outwaited() {
	p := r.self.parking
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
		x.conn.Answer(200, withID(x.id, rest))
		x.hear()
	}
	p.others, p.outcome = nil, nil
	if p.taken > 0 && len(rest) <= maxOutcome {
		p.outcome = bytes.Clone(rest)
	}
}

// giveUpOthers ends the exchanges that wait for the same as the one that is served.
func (r *requestActor) giveUpOthers() {
	p := r.self.parking
	if p == nil {
		return
	}
	p.givenUp = true
	for _, x := range p.others {
		r.turnAway(x.conn, x.id)
		x.hear()
	}
	p.others = nil
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
	x       *exchange
	round   int
	digest  digest
	given   map[string][]byte
	verdict sentAgain
	outcome []byte
}

func (m *retried) Refused(error) { m.verdict = unknown; m.Done() }

func (r *requestActor) retried(m *retried) {
	p := r.self.parking
	switch {
	case r.phase == request.Cancelled || r.phase == request.Dropped || p == nil:
		m.verdict = unknown
	case r.phase == request.Parked && m.round == p.asked && p.wake != nil:
		m.verdict = taken
		p.taken, p.digest, p.outcome = m.round, m.digest, nil
		r.step(request.Resume, nil, nil)
		r.serveExchange(m.x)
		r.graced = false
		r.timer.Reset(r.svc.Limits.GraceAlone)
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

// serveExchange makes x the exchange that the call answers. From here on the handler
// has its client as that request says that it is.
func (r *requestActor) serveExchange(x *exchange) {
	r.self.stop()
	r.conn, r.id = x.conn, bytes.Clone(x.id) // the session's table may still have the old one
	if r.from == nil {
		r.from = x.from
	}
	r.self.exchange = x
	token, meta := x.token, x.meta // x itself is not kept for them
	r.self.token.Store(&token)
	r.self.peer.again.Store(&meta)
	r.self.watch(r, x.conn, x)
	if r.sess != nil {
		m := &beginCall{req: r}
		m.Init()
		_ = r.sess.Post(m)
	}
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

func badResponses(conn Conn, id []byte) {
	faults.Responses.Tell(conn, id)
}

// badState is the one answer for every state that is not good, so that it tells
// nothing about those of others.
func badState(conn Conn, id []byte) {
	faults.State.Tell(conn, id)
}

// again takes a request that is sent again with the input that it needed.
func (n *Node) again(svc *Service, s *sessionActor, in *Input, principal any, m *codec.Message, body []byte) (begun bool) {
	a, no := n.accounts.admit(s, in, m) // first: to open a state may take a look into the store
	if a == nil {
		n.refusals.refuse(in.Conn, m.ID, no)
		return false
	}
	st, err := n.openState(svc, in.Tenant, m, time.Now())
	given, ok := responses(m)
	switch {
	case errors.Is(err, ErrUnavailable):
		n.log.Warn("requestState not readable", "error", err)
		n.accounts.giveBack(s, a, m) // it did not run, for no fault of its client
		n.refusals.unavailable(in.Conn, m.ID)
	case err != nil:
		badState(in.Conn, m.ID)
	case !ok:
		badResponses(in.Conn, m.ID)
	}
	if err != nil || !ok {
		n.accounts.Leave(a)
		return false
	}
	sum := digest(sha256.Sum256(codec.AppendCanonical(nil, m.Responses)))
	x := &exchange{conn: in.Conn, id: bytes.Clone(m.ID), token: bytes.Clone(m.ProgressToken), meta: bytes.Clone(m.Meta), from: a, heard: make(chan struct{}), slot: s.place()}
	for {
		verdict, outcome := n.retry(st, x, sum, given)
		switch verdict {
		case taken:
			x.await(s)
			return true
		case joined:
			if s != nil {
				break
			}
			x.await(nil)
		case settled:
			in.Conn.Answer(200, withID(m.ID, outcome))
			x.hear()
		case refused:
			badState(in.Conn, m.ID)
			x.hear()
		default:
			if !svc.Handler.Safe(m.Method, m.Name) {
				faults.Lost.Tell(in.Conn, m.ID)
				x.hear()
				break
			}
			if n.runAgain(svc, s, in, principal, m, body, a, st, sum, given) {
				return true
			}
			continue // another has begun it: the same answers bring the same outcome
		}
		n.accounts.Leave(a)
		return true
	}
}

// retry looks for the call that a state names.
func (n *Node) retry(st *askState, x *exchange, sum digest, given map[string][]byte) (sentAgain, []byte) {
	if r, ok := n.parks.Get(st.Park); ok {
		m := &retried{x: x, round: st.Round, digest: sum, given: given}
		m.Init()
		if r.Post(m) == nil {
			if m.Wait(); m.verdict != unknown {
				return m.verdict, m.outcome
			}
		}
		n.parks.Drop(st.Park, r)
	}
	if h, ok := n.outcomes.get(st.Park); ok {
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
func (n *Node) runAgain(svc *Service, s *sessionActor, in *Input, principal any, m *codec.Message, body []byte, a *quota.Account, st *askState, sum digest, given map[string][]byte) bool {
	var x *exchange
	r, err := n.parks.Obtain(st.Park, func() (*requestActor, error) {
		r, own := n.newAlone(svc, s, in, principal, m, body, a, true)
		x = own
		r.call.attempt = 2
		r.self.given = st.given()
		for k, v := range given { // what was answered before stays, as it does for a call that waits
			if _, ok := r.self.given[k]; !ok {
				r.self.given[k] = v
			}
		}
		r.self.round, r.self.park = st.Round, st.Park
		r.self.parking = &parking{asked: st.Round, taken: st.Round, digest: sum}
		return r, nil
	})
	if x == nil || err != nil {
		return false
	}
	r.goAlone(x)
	return true
}

// concluded tells those who wait for the call what came of it, and keeps that for
// those who ask again.
func (r *requestActor) concluded(rest []byte) {
	r.goOn(more{err: errReturned}) // a goroutine that the handler left behind
	p := r.self.parking
	if p == nil || p.givenUp || r.phase == request.Cancelled {
		return
	}
	p.settle(rest)
	if p.outcome != nil {
		r.node.outcomes.put(r.self.park, outcome{round: p.taken, digest: p.digest, outcome: p.outcome, until: time.Now().Add(limits.OutcomeAge.Value())})
	}
}

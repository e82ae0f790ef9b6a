package actors

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/request"
	"github.com/troupe-run/troupe/mcp"
)

// What ends questions that are asked by having the request sent again.
var (
	// ErrTooMuchInput reports that the answers so far are more than a client can
	// be made to carry: the question was not asked.
	ErrTooMuchInput = errors.New("the answers so far are too large to go on asking")
	// ErrTooManyRounds reports a call that has asked for input too often: the
	// question was not asked.
	ErrTooManyRounds = errors.New("the call has asked for input too often")
)

const (
	maxRounds  = 100
	maxInput   = 64 << 10 // bytes of answers that a state carries
	maxOutcome = 64 << 10 // bytes of an answer that is kept for those who ask for it again
)

// input is what a handler has asked for so far, and what it was given.
type input struct {
	turn  chan struct{} // held by the goroutine of the handler that asks
	park  string        // under which requests that are sent again find the call, "" before it has asked
	round int           // how often it has asked
	given map[string][]byte
	taken []string // the keys of given that have answered a question
	used  []usedKey
}

// usedKey is how often a key was asked for.
type usedKey struct {
	key string
	n   int
}

// parking is what the actor knows of a call that has asked: which round waits for
// its answers, and what became of the one before.
type parking struct {
	asked   int         // the round that the client was asked for last
	wake    chan<- more // tells the handler; nil unless the call is parked
	taken   int         // the round whose answers were taken last, 0 for none
	digest  digest      // of those answers
	outcome []byte      // what they led to, from the id on; nil while nobody knows
	others  []*exchange // that wait for the same
}

type digest [sha256.Size]byte

// more is what a request brings that is sent again.
type more struct {
	given map[string][]byte
}

// askMore has the client told that the call needs input.
type askMore struct {
	reply
	round  int
	answer []byte // from the id on
	wake   chan<- more
	err    error
}

func (m *askMore) refused(err error) { m.err = err; m.done() }

// askAgain asks a client that brings its answers by sending the request again. What
// waits for that takes memory for as long: the frames of the handler's goroutine are
// kept small from here on.
func (c *Call) askAgain(ctx context.Context, qs []Question) ([]Answer, error) {
	in := &c.self.input
	select {
	case in.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-c.ctx.Done():
		return nil, context.Cause(c.ctx)
	}
	defer func() { <-in.turn }()
	keys := make([]string, len(qs))
	for i := range qs {
		keys[i] = in.key(qs[i].Key)
	}
	answers := make([]Answer, len(qs))
	for {
		missing := in.missing(qs, keys, answers)
		if len(missing) == 0 {
			return answers, nil
		}
		if err := c.awaitMore(ctx, qs, keys, missing); err != nil {
			return nil, err
		}
	}
}

// missing fills in the answers that there are, and returns the places of the others.
// What is no answer is forgotten, and asked for anew.
func (in *input) missing(qs []Question, keys []string, answers []Answer) (missing []int) {
	for i := range qs {
		raw, ok := in.given[keys[i]]
		if ok && (qs[i].Valid == nil || qs[i].Valid(raw)) {
			answers[i] = Answer{Result: raw}
			if !slices.Contains(in.taken, keys[i]) {
				in.taken = append(in.taken, keys[i])
			}
			continue
		}
		delete(in.given, keys[i])
		missing = append(missing, i)
	}
	return missing
}

// key makes the key of a question unique within the call: the second with the
// same key is "key-2". A run after the first gets to the same keys.
func (in *input) key(key string) string {
	for i := range in.used {
		if u := &in.used[i]; u.key == key {
			u.n++
			return key + "-" + strconv.Itoa(u.n)
		}
	}
	in.used = append(in.used, usedKey{key, 1})
	return key
}

// awaitMore parks the call until its client has sent the request again.
func (c *Call) awaitMore(ctx context.Context, qs []Question, keys []string, missing []int) error {
	a, wake, err := c.putQuestions(qs, keys, missing)
	if err != nil {
		return err
	}
	defer a.parked.Add(-1)
	timer := time.NewTimer(c.patience())
	defer timer.Stop()
	select {
	case <-c.deaf():
		return ErrSessionEnded
	case got := <-wake:
		c.self.take(got, keys, missing)
		return nil
	case <-timer.C:
		c.node.refusals.count(MaxAsk)
		return ErrNoAnswer
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// patience is how long the client has to send the request again.
func (c *Call) patience() time.Duration { return min(c.svc.Limits.MaxAsk, maxStateAge) }

// deaf is closed when nobody can bring an answer any more.
func (c *Call) deaf() <-chan struct{} {
	if c.sess == nil {
		return nil
	}
	return c.sess.deaf()
}

// putQuestions has the client told what is missing. The answers come on the channel;
// until they have, the account holds the call's place among those that wait.
func (c *Call) putQuestions(qs []Question, keys []string, missing []int) (a *account, wake <-chan more, err error) {
	n, in := c.node, &c.self.input
	if cause := context.Cause(c.ctx); cause != nil {
		return nil, nil, cause
	}
	if in.round == maxRounds {
		return nil, nil, ErrTooManyRounds
	}
	held, err := n.admitParked(c.self)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			held.parked.Add(-1)
		}
	}()
	if in.park == "" {
		in.park = n.newID()
		n.parks.put(in.park, c.r)
	}
	state, err := n.sealState(c, time.Now().Add(c.patience()))
	if err != nil {
		return nil, nil, err
	}
	answers := make(chan more, 1)
	m := &askMore{round: in.round + 1, answer: inputRequired(qs, keys, missing, state, c.svc.ResultMeta), wake: answers}
	m.init()
	if err := c.post(m); err != nil {
		return nil, nil, err
	}
	if m.wait(); m.err != nil {
		return nil, nil, m.err
	}
	in.round++
	return held, answers, nil
}

// take keeps what a request brought of that which was missing; the rest is ignored.
func (s *standing) take(got more, keys []string, missing []int) {
	if s.given == nil {
		s.given = make(map[string][]byte)
	}
	for _, i := range missing {
		if raw, ok := got.given[keys[i]]; ok {
			s.given[keys[i]] = raw
		}
	}
}

// inputRequired is the response that asks for input, from the id on (2026-07-28,
// basic/patterns/mrtr).
func inputRequired(qs []Question, keys []string, missing []int, state string, meta []byte) []byte {
	b := append([]byte(nil), `,"result":{"resultType":"input_required","inputRequests":{`...)
	for k, i := range missing {
		if k > 0 {
			b = append(b, ',')
		}
		b = codec.AppendString(b, keys[i])
		b = append(b, `:{"method":`...)
		b = codec.AppendString(b, qs[i].Method)
		b = append(b, `,"params":`...)
		if len(qs[i].Params) > 0 {
			b = append(b, qs[i].Params...)
		} else {
			b = append(b, '{', '}')
		}
		b = append(b, '}')
	}
	b = append(b, `},"requestState":`...)
	b = codec.AppendString(b, state)
	if len(meta) > 0 {
		b = append(b, `,"_meta":`...)
		b = append(b, meta...)
	}
	return append(b, '}', '}')
}

// askMore parks the request.
func (r *requestActor) askMore(m *askMore) {
	if r.phase != request.Plain && r.phase != request.Streaming {
		m.err = errReturned
		if cause := context.Cause(r.ctx); cause != nil {
			m.err = cause
		}
		m.done()
		return
	}
	p := r.self.parking
	if p == nil {
		p = &parking{}
		r.self.parking = p
	}
	r.used = true
	id := clone(r.id)
	r.step(request.Ask, withID(r.id, m.answer), nil)
	if r.sess != nil {
		_ = r.sess.post(&endCall{req: r, id: string(id)})
	}
	p.settle(m.answer)
	p.asked, p.wake = m.round, m.wake
	r.timer.Stop()
	if r.from != nil {
		r.node.leave(r.from) // it is not in flight while it waits
		r.from = nil
	}
	m.done()
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
		p.outcome = clone(rest)
	}
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
	reply
	x       *exchange
	round   int
	digest  digest
	given   map[string][]byte
	verdict sentAgain
	outcome []byte
}

func (m *retried) refused(error) { m.verdict = unknown; m.done() }

func (r *requestActor) retried(m *retried) {
	defer m.done()
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
		p.wake <- more{m.given}
		p.wake = nil
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
}

// serveExchange makes x the exchange that the call answers. From here on the handler
// has its client as that request says that it is.
func (r *requestActor) serveExchange(x *exchange) {
	r.self.stop()
	r.conn, r.id = x.conn, clone(x.id) // the session's table may still have the old one
	if r.from == nil {
		r.from = x.from
	}
	r.self.exchange = x
	r.self.token.Store(&x.token)
	r.self.peer.again.Store(&x.meta)
	r.self.watch(r, x.conn, x)
	if r.sess != nil {
		m := &beginCall{req: r}
		m.init()
		_ = r.sess.post(m)
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
			given[name] = clone(value)
		}
	}
	return given, true
}

func (n *Node) badResponses(conn Conn, id []byte) {
	conn.Reject(200, mcp.CodeInvalidParams, "inputResponses must be an object", nil, id, 0)
}

// badState is the one answer for every state that is not good, so that it tells
// nothing about those of others.
func (n *Node) badState(conn Conn, id []byte) {
	conn.Reject(200, mcp.CodeInvalidParams, "the requestState is not valid for this request", nil, id, 0)
}

// again takes a request that is sent again with the input that it needed.
func (n *Node) again(svc *Service, s *sessionActor, in *Input, principal any, m *codec.Message, body []byte) (begun bool) {
	st, ok := n.openState(svc, in.Tenant, m, time.Now())
	if !ok {
		n.badState(in.Conn, m.ID)
		return false
	}
	given, ok := responses(m)
	if !ok {
		n.badResponses(in.Conn, m.ID)
		return false
	}
	a, no := n.admit(s, in, m)
	if a == nil {
		n.refuse(in.Conn, m.ID, no)
		return false
	}
	sum := digest(sha256.Sum256(codec.AppendCanonical(nil, m.Responses)))
	x := &exchange{conn: in.Conn, id: clone(m.ID), token: clone(m.ProgressToken), meta: clone(m.Meta), from: a, heard: make(chan struct{}), slot: s.place()}
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
			n.badState(in.Conn, m.ID)
			x.hear()
		default:
			if !svc.Handler.Safe(m.Method, m.Name) {
				info, _ := mcp.LookupError(mcp.CodeCallLost)
				in.Conn.Reject(200, mcp.CodeCallLost, info.Message, nil, m.ID, 0)
				x.hear()
				break
			}
			if n.runAgain(svc, s, in, principal, m, body, a, st, sum, given) {
				return true
			}
			continue // another has begun it: the same answers bring the same outcome
		}
		n.leave(a)
		return true
	}
}

// retry looks for the call that a state names.
func (n *Node) retry(st *askState, x *exchange, sum digest, given map[string][]byte) (sentAgain, []byte) {
	if r, ok := n.parks.get(st.Park); ok {
		m := &retried{x: x, round: st.Round, digest: sum, given: given}
		m.init()
		if r.post(m) == nil {
			if m.wait(); m.verdict != unknown {
				return m.verdict, m.outcome
			}
		}
		n.parks.drop(st.Park, r)
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
func (n *Node) runAgain(svc *Service, s *sessionActor, in *Input, principal any, m *codec.Message, body []byte, a *account, st *askState, sum digest, given map[string][]byte) bool {
	var x *exchange
	r, err := n.parks.obtain(st.Park, func() (*requestActor, error) {
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
	n.goAlone(r, x)
	return true
}

// concluded tells those who wait for the call what came of it, and keeps that for
// those who ask again.
func (r *requestActor) concluded(rest []byte) {
	p := r.self.parking
	if p == nil || r.phase == request.Cancelled {
		return
	}
	p.settle(rest)
	if p.outcome != nil {
		r.node.outcomes.put(r.self.park, outcome{round: p.taken, digest: p.digest, outcome: p.outcome, until: time.Now().Add(maxStateAge)})
	}
}

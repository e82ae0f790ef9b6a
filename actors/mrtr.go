package actors

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors/internal/mrtr"
	"github.com/troupe-run/troupe/actors/internal/request"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/store"
)

// maxOutcome bounds a response that is kept for requests that repeat a round, in bytes.
var maxOutcome = limits.Outcome.Value()

// parking is the state of a call that has asked its client: the round that waits for
// answers, and the outcome of the round before.
type parking struct {
	asked   int              // the round that asked the client last
	until   time.Time        // the deadline for its answers
	wake    chan<- wakeup    // resumes the waiting handler; nil if none waits
	taken   int              // the round whose answers were taken last, 0 for none
	digest  mrtr.Digest      // of those answers
	outcome []byte           // the response that followed, from the id on; nil until it is known
	others  []retriedRequest // exchanges that wait for the same outcome
	givenUp bool             // the handler's response goes nowhere: the exchanges were ended, or another node has run the call again
}

// parkedCalls finds calls that have asked their clients, by the park key in their states.
type parkedCalls struct {
	*kernel.Directory[string, *requestActor]
	*site
	outcomes mrtr.Outcomes
	waiting  atomic.Int64 // the calls that wait for their request to be sent again
}

// sealState makes the requestState of the call's next round.
func (p *parkedCalls) sealState(c *Call, in *input, a *asking, expires time.Time) (string, error) {
	st := mrtr.State{Method: string(c.msg.Method), Request: mrtr.RequestDigest(c.msg), Expires: expires.UnixMilli(), Park: in.park, Node: p.name, Boot: p.boot, Round: in.Round + 1, Scopes: c.Needs(), Steps: callSteps{c}.carriedSteps(), Span: c.Span()}
	for _, i := range a.missing {
		st.Asked = append(st.Asked, a.keys[i])
	}
	size := 0
	if st.Given, size = in.UsedAnswers(); size > maxInput {
		p.refusals.Refused(limits.StateInput.Row)
		return "", ErrTooMuchInput
	}
	return st.Seal(c.peer.key.Tenant, c.peer.key.Server, p.keys.Seal)
}

// openState opens the state that a request brings. mrtr.ErrBadState reports that the state does
// not fit this request of this client now, ErrUnavailable that its key cannot be read now.
func (p *parkedCalls) openState(server, tenant string, m *codec.Message, now time.Time) (*mrtr.State, error) {
	return mrtr.OpenState(m, tenant, server, now, func(sealed, aad []byte) ([]byte, error) {
		plain, err := p.keys.Open(sealed, aad)
		if err != nil && !errors.Is(err, store.ErrUnavailable) {
			err = mrtr.ErrBadState
		}
		return plain, err
	})
}

// wakeup resumes a parked call: with the answers of a request that was sent again, or with the
// reason why none came.
type wakeup struct {
	given map[string][]byte
	err   error
}

// needInput asks the client for input and parks the call.
type needInput struct {
	kernel.Reply
	round  int
	answer []byte // from the id on
	wake   chan<- wakeup
	err    error
}

func (m *needInput) Refused(err error) { m.err = err; m.Done() }

// retriedRequest is a request that was sent again, with its exchange.
type retriedRequest struct {
	roundTrip
	id    []byte
	token []byte
	meta  []byte
	trace Trace
	from  *quota.Account // the request is counted on it
}

// retryVerdict is the verdict on a request that was sent again.
type retryVerdict uint8

const (
	retryUnknown retryVerdict = iota // the call is gone, or is behind what the state says
	retryTaken                       // the call goes on with its answers
	retryJoined                      // the call went on with these answers before; the exchange waits for the same outcome
	retrySettled                     // the outcome is known
	retryRefused                     // the state was used with other answers, or does not fit this call
)

// retryCall brings answers to a parked call.
type retryCall struct {
	kernel.Reply
	x       retriedRequest
	round   int
	digest  mrtr.Digest
	given   map[string][]byte
	verdict retryVerdict
	outcome []byte
}

func (m *retryCall) Refused(error) { m.verdict = retryUnknown; m.Done() }

// badResponses refuses invalid inputResponses.
func badResponses(to answerer, id []byte, err error) {
	if errors.Is(err, mrtr.ErrManyResponses) {
		refusal.ManyAnswers.Tell(to, id)
		return
	}
	refusal.Responses.Tell(to, id)
}

// badState sends the one error for every bad state, so that it reveals nothing about the
// states of others.
func badState(to answerer, id []byte) {
	refusal.State.Tell(to, id)
}

// retryCall brings the answers to the call that a state names, or finds its kept outcome.
func (p *parkedCalls) retryCall(st *mrtr.State, x retriedRequest, sum mrtr.Digest, given map[string][]byte) (retryVerdict, []byte) {
	if r, ok := p.Get(st.Park); ok {
		m := &retryCall{x: x, round: st.Round, digest: sum, given: given}
		m.Init()
		if r.Post(m) == nil {
			if m.Wait(); m.verdict != retryUnknown {
				return m.verdict, m.outcome
			}
		}
		p.Drop(st.Park, r)
	}
	if h, ok := p.outcomes.Get(st.Park); ok {
		switch {
		case h.Ended, h.Round == st.Round && h.Digest == sum:
			return retrySettled, h.Rest
		case st.Round <= h.Round:
			return retryRefused, nil
		}
	}
	return retryUnknown, nil
}

// Errors of a question to a stateless client.
var (
	// ErrTooMuchInput reports that the answers so far are too large for the state that a
	// client carries. The question was not asked.
	ErrTooMuchInput = errors.New("the answers so far are too large to go on asking")
	// ErrTooManyRounds reports that a call has asked for input too often. The question was
	// not asked.
	ErrTooManyRounds = errors.New("the call has asked for input too often")
)

var (
	maxRounds = limits.Rounds.Value()
	maxInput  = limits.StateInput.Value() // answers that a state carries, in bytes
)

// input is what a handler has asked its client and what that answered, and where the call
// parks.
type input struct {
	mu   mrtr.Mutex // guards the rest; the handler's goroutine that asks holds it until it has its answers
	park string     // the key by which requests that are sent again find the call; "" until it asks, or is named
	met  bool       // they can find it
	mrtr.Input
	place *quota.Account // the account that counts the waiting call
}

// QuestionKeys gives the questions of a call the keys by which a client answers them.
type QuestionKeys = mrtr.Input

// asking is the questions that a handler asks at once.
type asking struct {
	qs      []Question
	keys    []string        // of the questions, unique within the call
	missing []int           // indexes of the questions without an answer
	ended   []func(*Answer) // of those, from Question.Sending
}

// beginAsking tells who follows the missing questions that they are put.
func (a *asking) beginAsking() {
	a.ended = make([]func(*Answer), len(a.missing))
	for k, i := range a.missing {
		if sending := a.qs[i].Sending; sending != nil {
			_, a.ended[k] = sending(nil)
		}
	}
}

// endAsking tells them of the answers that came.
func (a *asking) endAsking(given map[string][]byte) {
	for k, ended := range a.ended {
		if ended == nil {
			continue
		}
		if raw, ok := given[a.keys[a.missing[k]]]; ok {
			ended(&Answer{Result: raw})
		} else {
			ended(nil)
		}
	}
	a.ended = nil
}

// askClient asks a client that answers by sending its request again. Many handlers may wait here
// for minutes, each with its stack. So the frames down to the wait are small, and functions
// with large frames return before it.
func (s *stateless) askClient(ctx context.Context, c *Call, qs []Question) ([]Answer, error) {
	in := &s.input
	if err := in.mu.Lock(ctx, c.ctx); err != nil {
		return nil, err
	}
	defer in.mu.Unlock()
	if d := c.Detached(); d != nil { // since Ask has looked
		return d.Ask(ctx, qs)
	}
	a := in.assignKeys(qs)
	for in.findMissing(a) {
		wake, err := s.putQuestions(c, a)
		if err != nil {
			return nil, err
		}
		waiting := &c.r.pool.mrtr.waiting
		waiting.Add(1)
		m := s.awaitAnswers(ctx, c, wake)
		waiting.Add(-1)
		a.endAsking(m.given)
		if err := in.takeAnswers(m); err != nil {
			return nil, err
		}
	}
	return in.collectAnswers(a), nil
}

// assignKeys gives each question its key.
func (in *input) assignKeys(qs []Question) *asking {
	a := &asking{qs: qs, keys: make([]string, len(qs))}
	for i := range qs {
		a.keys[i] = in.UniqueKey(qs[i].Key)
	}
	return a
}

// findMissing finds the questions without an answer, and reports whether there are any. It drops
// an invalid answer, so that its question is asked again.
func (in *input) findMissing(a *asking) bool {
	a.missing = a.missing[:0]
	for i := range a.qs {
		if !in.HasAnswer(a.keys[i], a.qs[i].Valid) {
			a.missing = append(a.missing, i)
		}
	}
	return len(a.missing) > 0
}

func (in *input) collectAnswers(a *asking) []Answer {
	answers := make([]Answer, len(a.qs))
	for i, key := range a.keys {
		answers[i].Result = in.Given[key]
	}
	return answers
}

// awaitAnswers waits until the call can go on. The actor wakes it, also when the call ends. The
// actor does not know ctx if the handler made a context of its own.
func (s *stateless) awaitAnswers(ctx context.Context, c *Call, wake <-chan wakeup) wakeup {
	if s.inputEnded == nil && ctx.Done() == c.ctx.Done() {
		return <-wake
	}
	return s.awaitAnswersOr(ctx, wake)
}

func (s *stateless) awaitAnswersOr(ctx context.Context, wake <-chan wakeup) wakeup {
	select {
	case m := <-wake:
		return m
	case <-s.inputEnded:
		return wakeup{err: ErrSessionEnded}
	case <-ctx.Done():
		return wakeup{err: context.Cause(ctx)}
	}
}

// putQuestions sends the missing questions to the client. The answers come on the channel.
// Until they do, an account counts the call among those that wait.
func (s *stateless) putQuestions(c *Call, a *asking) (wake <-chan wakeup, err error) {
	n, in := c.r.pool, &s.input
	if cause := context.Cause(c.ctx); cause != nil {
		return nil, cause
	}
	if in.Round == maxRounds {
		n.refusals.Refused(limits.Rounds.Row)
		return nil, ErrTooManyRounds
	}
	if in.place, err = n.accounts.admitPending(c.peer.key.Tenant, s.address); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			in.place.Held[heldPending].Add(-1)
		}
	}()
	if in.park == "" {
		in.park = newID()
	}
	if !in.met {
		in.met = true
		n.mrtr.Put(in.park, c.r)
	}
	state, err := n.mrtr.sealState(c, in, a, time.Now().Add(c.peer.svc.retryTime()))
	if err != nil {
		return nil, err
	}
	answers := make(chan wakeup, 1)
	a.beginAsking()
	m := &needInput{round: in.Round + 1, answer: inputRequired(a, state, c.peer.svc.ResultMeta), wake: answers}
	m.Init()
	if err := c.postMessage(m); err != nil {
		a.endAsking(nil)
		return nil, err
	}
	if m.Wait(); m.err != nil {
		a.endAsking(nil)
		return nil, m.err
	}
	in.Round++
	return answers, nil
}

// takeAnswers ends a wait and keeps the answers. They are to open questions: other members of
// inputResponses were dropped when they came.
func (in *input) takeAnswers(got wakeup) error {
	in.place.Held[heldPending].Add(-1)
	if got.err != nil {
		return got.err
	}
	for key, raw := range got.given {
		in.TakeAnswer(key, raw)
	}
	return nil
}

// inputRequired is the response that asks for input, from the id on (2026-07-28,
// basic/patterns/mrtr).
func inputRequired(a *asking, state string, meta []byte) []byte {
	b := append([]byte(nil), `,"result":{"resultType":"input_required","inputRequests":{`...)
	for k, i := range a.missing {
		if k > 0 {
			b = append(b, ',')
		}
		b = codec.AppendString(b, a.keys[i])
		b = append(b, `:{"method":`...)
		b = codec.AppendString(b, a.qs[i].Method)
		b = append(b, `,"params":`...)
		if len(a.qs[i].Params) > 0 {
			b = append(b, a.qs[i].Params...)
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

// parkedRequest is a request as far as its client sends it again: it asks its client, waits, and
// goes on with another exchange.
type parkedRequest struct{ *requestActor }

// parkForInput parks the request.
func (r parkedRequest) parkForInput(m *needInput) {
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
	r.call.noteEvent(CallEvent{Name: InputRequired})
	r.way.table.parkRequest(r.requestActor, string(r.id)) // the client may use the id again once it has the response
	r.applyEvent(request.Ask, response{data: withID(r.id, m.answer), goesOn: true}, nil)
	r.serveNobody()
	r.settleOutcome(m.answer)
	wait := r.svc.retryTime()
	p.asked, p.until, p.wake = m.round, time.Now().Add(wait), m.wake
	r.timer.Reset(wait)
	if r.from != nil {
		r.pool.accounts.LeavePlace(r.from) // it is not in flight while it waits
		r.from = nil
	}
	m.Done()
}

// wakeHandler resumes the handler, if it waits.
func (r parkedRequest) wakeHandler(m wakeup) {
	if p := r.parking; p != nil && p.wake != nil {
		p.wake <- m // which has room for one
		p.wake = nil
	}
}

// endWait ends the handler's wait when its client has not come back in time.
func (r parkedRequest) endWait() {
	p := r.parking
	if p.wake == nil || time.Now().Before(p.until) { // the timer fired for an earlier deadline
		return
	}
	r.pool.refusals.Refused(limits.MaxAsk.Row)
	r.wakeHandler(wakeup{err: ErrNoAnswer})
}

// abandonSupersededRun ends a run that was left behind: the process was taken for gone, and another
// node, which has run the call again, has asked its client for more than this run has. Nobody finds
// it any more.
func (r parkedRequest) abandonSupersededRun() {
	r.parking.givenUp = true
	if r.phase == request.Parked {
		r.wakeHandler(wakeup{err: ErrNoAnswer})
	}
}

// settleOutcome sends an outcome to all exchanges that wait for it, and keeps it for later ones.
func (r parkedRequest) settleOutcome(rest []byte) {
	p := r.parking
	r.memory.Grow(-int64(len(p.outcome)))
	for _, x := range p.others {
		x.answerRequest(response{data: withID(x.id, rest)})
	}
	p.others, p.outcome = nil, nil
	if p.taken > 0 && len(rest) <= maxOutcome {
		p.outcome = bytes.Clone(rest)
		r.memory.Grow(int64(len(rest)))
	}
}

// openStreams makes the response of the call a stream, and with it those of the exchanges that wait
// for the same outcome: they get what keeps a silent response open, and nothing of what the handler
// sends.
func (r parkedRequest) openStreams() {
	r.way.openStream()
	r.call.noteEvent(CallEvent{Name: BecameStream})
	if p := r.parking; p != nil {
		for _, x := range p.others {
			x.openStream()
		}
	}
}

// endOthers ends the exchanges that wait for the same outcome as the call's own.
func (r parkedRequest) endOthers(why ending) {
	p := r.parking
	if p == nil {
		return
	}
	p.givenUp = true
	for _, x := range p.others {
		x.endDelivery(why, x.id)
		x.releaseExchange() // no handler of its own will release it
	}
	p.others = nil
}

func (r parkedRequest) takeRetry(m *retryCall) {
	p := r.parking
	m.x.attachCall(r.requestActor)
	switch {
	case r.phase == request.Cancelled || r.phase == request.Dropped || p == nil:
		m.verdict = retryUnknown
	case r.phase == request.Parked && m.round == p.asked && p.wake != nil:
		m.verdict = retryTaken
		r.memory.Grow(-int64(len(p.outcome)))
		p.taken, p.digest, p.outcome = m.round, m.digest, nil
		r.applyEvent(request.Resume, response{}, nil)
		for key, raw := range m.given {
			r.memory.Grow(int64(len(key) + len(raw)))
		}
		r.answerTo(m.x)
		r.call.noteEvent(CallEvent{Name: SentAgain, Meta: m.x.meta, Trace: m.x.trace})
		r.graced, r.toldLong, r.toldEnding = false, false, false
		r.timer.Reset(r.way.grace)
		r.wakeHandler(wakeup{given: m.given})
	case m.round > max(p.asked, p.taken):
		m.verdict = retryUnknown
		r.abandonSupersededRun()
	case m.round != p.taken || m.digest != p.digest:
		m.verdict = retryRefused
	case p.outcome != nil:
		m.verdict, m.outcome = retrySettled, p.outcome
	case (r.phase == request.Plain || r.phase == request.Streaming) && r.attachRetry(m.x):
		m.verdict = retryTaken
	case r.phase == request.Plain || r.phase == request.Streaming:
		m.verdict = retryJoined
		p.others = append(p.others, m.x)
		if r.phase == request.Streaming {
			m.x.openStream()
		}
	default:
		m.verdict = retryUnknown
	}
	m.Done()
}

// answerTo makes x the exchange that the call answers. From here on the handler sees its
// client as this request describes it.
func (r parkedRequest) answerTo(x retriedRequest) {
	r.stateless.served = x.roundTrip
	r.way.delivery, r.id = x.roundTrip, bytes.Clone(x.id) // cloned because the session's table may still have the old id
	if r.from == nil {
		r.from = x.from
	}
	// Copied into the call, as they outlive the exchange.
	said := &struct{ token, meta []byte }{x.token, x.meta}
	r.call.token.Store(&said.token)
	r.stateless.meta.now.Store(&said.meta)
	x.watchConn()
	r.way.table.reenterRequest(r.requestActor)
}

// concludeCall sends the call's outcome to the exchanges that wait for it, and keeps it for
// later ones. rest is the response from the id on.
func (r parkedRequest) concludeCall(rest []byte) {
	r.wakeHandler(wakeup{err: errReturned}) // for a goroutine that the handler left behind
	p := r.parking
	switch {
	case p == nil || p.givenUp:
		return
	case r.phase == request.Cancelled: // a panic kept the cancel from ending them
		r.endOthers(cancelled)
		return
	}
	r.settleOutcome(rest)
	if p.outcome == nil {
		return
	}
	st, held := r.stateless, new(quota.Holding)
	if !st.alone {
		in := &Input{Tenant: st.peer.key.Tenant, Address: st.address}
		if no := r.pool.accounts.reserveMemory(held, nil, in, quota.Parked, outcomeBytes+int64(len(p.outcome))); no != nil {
			return // as if there were too many
		}
		if !held.HasSpareRoom() { // The client's next request needs the room more.
			held.Free()
			return
		}
	}
	r.pool.mrtr.outcomes.Put(st.park, mrtr.Outcome{Round: p.taken, Digest: p.digest, Rest: p.outcome, Until: time.Now().Add(limits.OutcomeAge.Value()), Free: held.Free})
}

// attachRetry gives a call without an exchange another one. It reports whether the call had none.
func (r parkedRequest) attachRetry(x retriedRequest) bool {
	if _, alone := r.way.delivery.(retryDelivery); !alone {
		return false
	}
	if r.from != nil {
		r.pool.accounts.LeavePlace(r.from) // it is counted with the exchange
		r.from = nil
	}
	r.answerTo(x)
	if r.phase == request.Streaming {
		r.way.openStream()
	}
	return true
}

// passToNext gives the call to another exchange that waits for the same response, because the
// client of the present one is gone or cancelled its request. It reports whether there is
// such an exchange.
func (r parkedRequest) passToNext() bool {
	p := r.parking
	if p == nil || len(p.others) == 0 {
		return false
	}
	r.way.endDelivery(cancelled, r.id)
	r.stateless.served.releaseExchange() // the handler goes on on the account of the next exchange
	r.way.table.parkRequest(r.requestActor, string(r.id))
	x := p.others[0]
	p.others[0] = retriedRequest{}
	p.others = p.others[1:]
	r.answerTo(x)
	if r.phase == request.Streaming { // so that what the handler sends is not lost
		r.way.openStream()
	}
	return true
}

// serveNobody detaches the call from its exchange.
func (r parkedRequest) serveNobody() {
	r.stateless.direct = direct{} // holds nothing and is released with no effect
	r.way.delivery, r.stateless.served = noDelivery{}, &r.stateless.direct
}

// awaitRetry leaves a running call without an exchange until its request is sent again.
func (r parkedRequest) awaitRetry() {
	r.way.endDelivery(cancelled, r.id)
	r.stateless.served.releaseExchange()
	r.serveNobody()
	r.way.delivery = retryDelivery{}
}

// hideFromRetries hides the call from requests that are sent again.
func (r parkedRequest) hideFromRetries() {
	if park := r.stateless.park; park != "" {
		r.pool.mrtr.Drop(park, r.requestActor)
	}
}

// connectionGone hands the call on to the next exchange that waits for it, if any;
// otherwise it cancels the call, unless the client may come back for it.
func (r parkedRequest) connectionGone(m connGone) {
	switch {
	case r.way.delivery != delivery(m.x): // the exchange was answered or replaced
	case m.ended != nil: // the handler's response still reaches the client
		r.applyEvent(request.Deadline, response{}, fmt.Errorf("%w: %w", ErrRequestEnded, m.ended))
	case r.passToNext():
	case m.broken:
		r.awaitRetry()
	default:
		r.applyEvent(request.Cancel, response{}, fmt.Errorf("%w: the connection was closed", ErrCancelled))
	}
}

// detachCall answers the request, whose handler goes on.
func (r parkedRequest) detachCall(m *detachment) {
	defer m.Done()
	if r.phase != request.Plain && r.phase != request.Streaming {
		return
	}
	r.used = true
	lastingCall(r).sendHeldProgress()
	r.call.detached.Store(&m.to)
	r.way.table.parkRequest(r.requestActor, string(r.id)) // the client may use the id again once it has the response
	r.applyEvent(request.Result, response{data: withID(r.id, m.answer), goesOn: true}, nil)
	r.concludeCall(m.answer)
	r.serveNobody()
	r.pool.statelessCalls.dropRequest(r.requestActor)
	if r.from != nil {
		r.pool.accounts.LeavePlace(r.from)
		r.from = nil
	}
	m.end = r.cancel
}

// forgetExchange takes x back as the exchange that the call is answered on. The goroutine that
// brought x ends it.
func (r parkedRequest) forgetExchange(x retriedRequest) {
	r.serveNobody()
	if r.from == x.from {
		r.from = nil
	}
}

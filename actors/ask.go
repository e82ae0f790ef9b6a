package actors

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/record"
	"github.com/troupe-run/troupe/internal/stream"
)

// ErrNoAnswer reports that the client did not answer in time.
var ErrNoAnswer = errors.New("the client did not answer in time")

// Ask puts questions to the client and waits for all answers. They travel on the call's stream or connection;
// a stateless client gets them with input_required and sends the request again. Ask fails with the cause of
// ctx or of the call, ErrNoAnswer or ErrTooManyPending, and for a stateless client also with ErrTooMuchInput
// or ErrTooManyRounds. An error that the client answers is an Answer.
func (c *Call) Ask(ctx context.Context, qs []Question) ([]Answer, error) {
	switch {
	case c.Detached() != nil:
		return c.Detached().Ask(ctx, qs)
	case c.r == nil:
		return nil, errReturned
	}
	answers, err := c.client.askClient(ctx, c, qs)
	if d := c.Detached(); err != nil && d != nil { // its request was answered just before the questions were to be put
		return d.Ask(ctx, qs)
	}
	return answers, err
}

// askClient puts the questions of a call of the session.
func (s *sessionActor) askClient(ctx context.Context, c *Call, qs []Question) ([]Answer, error) {
	answers, uses := make([]Answer, len(qs)), make([]int, len(qs))
	var own, common []int
	for i, q := range qs {
		uses[i] = c.usedSoFar().questions.nextUse(q.Key)
		if q.Keep == nil || c.journal.hasQuestion(q.Key, uses[i]) {
			own = append(own, i)
		} else {
			common = append(common, i)
		}
	}
	if len(common) == 0 {
		return answers, s.askOwn(ctx, c, qs, uses, own, answers)
	}
	if len(common) == 1 && len(own) == 0 {
		a, err := s.askCommon(ctx, c, qs, uses, 0)
		answers[0] = a
		return answers, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ends := make(chan error, len(common))
	for _, i := range common {
		go func() {
			a, err := s.askCommon(ctx, c, qs, uses, i)
			answers[i] = a
			if err != nil {
				cancel(err)
			}
			ends <- err
		}()
	}
	err := s.askOwn(ctx, c, qs, uses, own, answers)
	if err != nil {
		cancel(err)
	}
	for range common {
		if e := <-ends; err == nil {
			err = e
		}
	}
	if err != nil {
		return nil, context.Cause(ctx) // the first error, which ended the other questions
	}
	return answers, nil
}

// askCommon asks one question whose answer may be kept.
func (s *sessionActor) askCommon(ctx context.Context, c *Call, qs []Question, uses []int, i int) (Answer, error) {
	return s.sharedAnswer().askShared(ctx, c.ctx, qs[i].Keep, func() (Answer, error) {
		answers := make([]Answer, len(qs))
		err := s.askOwn(ctx, c, qs, uses, []int{i}, answers)
		return answers[i], err
	})
}

// askOwn puts to the client the questions of qs whose indexes which lists, and fills in the answers. uses has
// the numbers of all questions: see type uses.
func (s *sessionActor) askOwn(ctx context.Context, c *Call, qs []Question, uses, which []int, answers []Answer) (err error) {
	n := c.peer.node
	var on *streamActor // carries the questions
	begun := false      // on is settled
	waiting := make([]*pendingRequest, len(qs))
	defer func() {
		for i, x := range waiting {
			switch {
			case x == nil:
			case qs[i].Late != nil && c.abandonsQuestion(err):
				n.pending.keepOpen(x, qs[i].Late)
			default:
				n.pending.closeQuestion(x)
			}
		}
	}()
	for _, i := range which {
		q := qs[i]
		past := c.journal.takeQuestion(q.Key, uses[i])
		if past != nil && past.Answer != nil {
			answers[i] = past.clientAnswer()
			continue
		}
		if past != nil { // the client has the question
			waiting[i] = past.open
			continue
		}
		if !begun {
			on, begun = c.becomeStream(), true
		}
		x, err := n.pending.openQuestion(s, on, &q)
		if err != nil {
			c.withdrawQuestions(qs, waiting, "no longer needed")
			return err
		}
		waiting[i] = x
		if err := c.sendQuestion(ctx, x, q, uses[i]); err != nil {
			return err
		}
	}
	timer := time.NewTimer(c.peer.svc.Limits.MaxAsk)
	defer timer.Stop()
	for i, x := range waiting {
		if x == nil {
			continue
		}
		select {
		case answers[i] = <-x.ch:
			waiting[i] = nil
		case <-timer.C:
			c.withdrawQuestions(qs, waiting, "timed out")
			n.refusals.Refused(limits.MaxAsk.Row)
			return ErrNoAnswer
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		case <-s.inputEnded:
			return ErrSessionEnded
		case <-ctx.Done():
			c.withdrawQuestions(qs, waiting, withdrawalReason(ctx))
			return context.Cause(ctx)
		}
	}
	return nil
}

// withdrawalReason says why a question whose context has ended needs no answer.
func withdrawalReason(ctx context.Context) string {
	if errors.Is(context.Cause(ctx), ErrNoAnswer) {
		return "timed out"
	}
	return "no longer needed"
}

// sendQuestion sends one question, the use-th with its key.
func (c *Call) sendQuestion(ctx context.Context, x *pendingRequest, q Question, use int) error {
	asking := &emitted{entry: stream.Entry{
		Kind: stream.Request,
		Meta: record.AppendAsked(record.Question{ID: x.id, Key: q.Key, Use: use, Member: c.member}),
		Data: codec.AppendRequest(nil, []byte(x.id), q.Method, q.Params),
	}}
	if q.Passing {
		asking.entry.Kind, asking.entry.Meta = stream.Message, nil
	}
	return c.sendMessage(ctx, asking, &asking.entry.Acked, len(asking.entry.Data))
}

// becomeStream makes the call's response a stream and returns the stream that logs it. It returns nil if the
// call has no log, or can send nothing any more.
func (c *Call) becomeStream() *streamActor {
	m := &upgradeNow{}
	m.Init()
	if context.Cause(c.ctx) != nil || c.postMessage(m) != nil {
		return nil
	}
	m.Wait()
	return m.stream
}

// withdrawQuestions tells the client that the questions of qs that are open need no answer.
func (c *Call) withdrawQuestions(qs []Question, open []*pendingRequest, why string) {
	for i, x := range open {
		if x == nil || qs[i].Late != nil || !c.peer.node.pending.closeQuestion(x) {
			continue
		}
		data := codec.AppendNotification(nil, "notifications/cancelled", cancelParams(x, why))
		_ = c.postMessage(&emitted{entry: stream.Entry{Kind: stream.Message, Data: data}})
	}
}

// abandonsQuestion reports whether a question that failed with err is given up for good. It is not where another process may
// go on with the call, which then has the answer.
func (c *Call) abandonsQuestion(err error) bool {
	for _, elsewhere := range []error{ErrStreamLost, ErrClosing, ErrSessionEnded, ErrUnmounted, errInternal} {
		if errors.Is(err, elsewhere) || errors.Is(context.Cause(c.ctx), elsewhere) {
			return false
		}
	}
	return true
}

// Over reports whether what the call has asked for is given up for good after err, an error of Ask. It is not where
// another process may go on with the call.
func (c *Call) Over(err error) bool { return c.abandonsQuestion(err) }

// Place takes a place among the questions that wait for the client, for one of several requests: see Question.Part.
// The caller must give it back. It fails with ErrTooManyPending, except in a second run of the call.
func (c *Call) Place() (giveBack func(), err error) {
	s, ok := c.client.(*sessionActor)
	if !ok {
		return nil, ErrNoStream
	}
	return c.peer.node.pending.takePlace(s, c.attempt > 1)
}

// Wait waits for a time, or until hint has a value; hint may be nil. It fails as Ask does when the client can answer no
// question of the call any more.
func (c *Call) Wait(ctx context.Context, d time.Duration, hint <-chan struct{}) error {
	var inputEnded <-chan struct{}
	if s, ok := c.client.(*sessionActor); ok {
		inputEnded = s.inputEnded
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-hint:
		return nil
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	case <-inputEnded:
		return ErrSessionEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Recorded reports whether an earlier run of the call asked its first question with a key, which this run has not.
func (c *Call) Recorded(key string) bool { return c.journal.hasQuestion(key, 1) }

// Order sends a request whose answer nobody needs: on the call's stream or, if the call can send nothing any more, on
// the session's standalone stream. It never waits, and is lost where there is neither.
func (c *Call) Order(method string, params []byte) {
	n := c.peer.node
	entry := stream.Entry{Kind: stream.Message, Data: codec.AppendRequest(nil, []byte(n.pending.orderID()), method, params)}
	instead := func() {
		ctx, cancel := context.WithTimeout(n.base, c.peer.svc.Limits.StoreWait)
		defer cancel()
		_ = c.peer.sendMessage(ctx, entry) // fails where there is no stream
	}
	m := &emitted{entry: entry}
	m.entry.Acked = func(err error) {
		if err != nil {
			go instead()
		}
	}
	if c.postMessage(m) != nil {
		go instead()
	}
}

// Ask puts a question to the client on the session's standalone stream and waits for the answer. Errors are
// those of Call.Ask, ErrNoStream, ErrUnmounted or that of a session that has ended.
func (p *Peer) Ask(ctx context.Context, q Question) (Answer, error) {
	if q.Keep == nil {
		return p.askClient(ctx, q)
	}
	s, err := p.currentActor(ctx)
	if err != nil {
		return Answer{}, err
	}
	return s.sharedAnswer().askShared(ctx, p.node.base, q.Keep, func() (Answer, error) { return p.askClient(ctx, q) })
}

func (p *Peer) askClient(ctx context.Context, q Question) (Answer, error) {
	if _, err := p.who.currentSession(); err != nil {
		return Answer{}, err
	}
	n := p.node
	x, err := n.pending.openQuestion(p.last.Load(), nil, &q)
	if err != nil {
		return Answer{}, err
	}
	defer n.pending.closeQuestion(x)
	entry := stream.Entry{Kind: stream.Request, Meta: record.AppendAsked(record.Question{ID: x.id, Key: q.Key}), Data: codec.AppendRequest(nil, []byte(x.id), q.Method, q.Params)}
	if err := p.sendMessage(ctx, entry); err != nil {
		return Answer{}, err
	}
	timer := time.NewTimer(p.svc.Limits.MaxAsk)
	defer timer.Stop()
	select {
	case a := <-x.ch:
		return a, nil
	case <-p.svc.life.done:
		return Answer{}, ErrUnmounted
	case <-p.last.Load().inputEnded:
		return Answer{}, p.svc.endedError()
	case <-timer.C:
		p.withdrawQuestion(x, "timed out")
		n.refusals.Refused(limits.MaxAsk.Row)
		return Answer{}, ErrNoAnswer
	case <-ctx.Done():
		p.withdrawQuestion(x, withdrawalReason(ctx))
		return Answer{}, context.Cause(ctx)
	}
}

// withdrawQuestion tells the client, if it listens here, that x needs no answer.
func (p *Peer) withdrawQuestion(x *pendingRequest, why string) {
	if p.node.pending.closeQuestion(x) {
		p.Push("notifications/cancelled", cancelParams(x, why))
	}
}

// cancelParams is the params of the notification that cancels x.
func cancelParams(x *pendingRequest, why string) []byte {
	return fmt.Appendf(nil, `{"requestId":%s,"reason":%s}`, x.id, strconv.Quote(why))
}

package actors

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/internal/limits"
)

// ErrNoAnswer reports that the client did not answer in time.
var ErrNoAnswer = errors.New("the client did not answer in time")

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

// cancelParams is the params of the notification that cancels x.
func cancelParams(x *pendingRequest, why string) []byte {
	return fmt.Appendf(nil, `{"requestId":%s,"reason":%s}`, x.id, strconv.Quote(why))
}

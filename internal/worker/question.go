package worker

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/task"
)

// maxAsked bounds all questions of a task with their answers, in bytes: they are in its record.
var maxAsked = limits.TaskAsked.Value()

// Question is one that a handler asks its client.
type Question struct {
	Key     string          // unique in the task
	Request json.RawMessage // method and params
}

// Ask puts questions to the client and waits until all have answers, however long that takes. A
// question that an earlier attempt has asked under the same key keeps its answer. An error is the
// cause of ctx, or that of the attempt's end.
func (a *Attempt) Ask(ctx context.Context, qs []Question) ([]task.Reply, error) {
	select {
	case a.asks <- struct{}{}:
		defer func() { <-a.asks }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-a.ctx.Done():
		return nil, context.Cause(a.ctx)
	}
	for m := (&asking{a: a, qs: qs}); ; {
		err := a.actor.askActor(m)
		if err == nil && len(m.missing) > 0 {
			err = a.putQuestions(ctx, m)
		}
		switch {
		case errors.Is(err, kernel.ErrStopped):
			return nil, ErrTakenOver
		case err != nil:
			return nil, err
		case m.wake == nil:
			return m.answers, nil
		}
		select {
		case <-m.wake: // it has a place again
		case <-a.ctx.Done():
			return nil, context.Cause(a.ctx)
		case <-ctx.Done(): // the task waits on: only its client, or the handler's end, ends that
			return nil, context.Cause(ctx)
		}
	}
}

// findAnswers finds the answers that are stored, and the questions that were never asked. If one
// has no answer yet, the handler waits.
func (a *Attempt) findAnswers(m *asking) {
	stored := a.known.Load().rec.Questions
	asked := make(map[string]task.Question, len(stored))
	for _, q := range stored {
		asked[q.Key] = q
	}
	open := false
	m.answers, m.missing, m.wake = make([]task.Reply, len(m.qs)), nil, nil
	for i, q := range m.qs {
		old, ok := asked[q.Key]
		switch {
		case !ok:
			m.missing = append(m.missing, task.Question{Key: q.Key, Request: q.Request})
		case old.Answer == nil:
			open = true
		default:
			m.answers[i] = task.Reply{Value: old.Answer, Refused: old.Refused}
		}
	}
	if (open || a.isParked()) && len(m.missing) == 0 { // it goes on once it has a place
		if m.err = a.parkHandler(); m.err == nil {
			m.wake = a.wake
		}
	}
}

// parkHandler gives the place of the handler back until wake is closed, as the task waits for its
// client.
func (a *Attempt) parkHandler() error {
	if a.returned.Load() {
		return ErrTakenOver // of a goroutine that the handler left behind
	}
	if a.wake == nil {
		a.wake = make(chan struct{})
		a.p.parked.Add(1)
		a.work.freePlace()
		_ = a.work.Done()
	}
	return nil
}

// resumeHandler has a handler go on that waited, by work that has a place.
func (a *Attempt) resumeHandler(work *assignment) {
	a.work = work
	close(a.wake)
	a.wake = nil
	a.p.parked.Add(-1)
}

// isParked reports whether the handler waits for its client: the attempt has neither work nor a
// place.
func (a *Attempt) isParked() bool { return a.wake != nil }

// putQuestions stores questions that were never asked, and has the handler wait for its client
// before anybody can begin the task anew.
func (a *Attempt) putQuestions(ctx context.Context, m *asking) error {
	return a.storeCharged(ctx, questionsSize(m.missing), ForResult, atEnd, func() error {
		if a.returned.Load() {
			return ErrTakenOver
		}
		err := a.changeInTurn(ctx, func(r *task.Record, epoch uint64) error {
			if err := r.AskQuestions(epoch, a.p.Store.Now(), m.missing...); err != nil {
				return err
			}
			if questionsSize(r.Questions) > maxAsked || !leavesRoom(r) {
				return actors.ErrTooMuchInput
			}
			return nil
		})
		if err != nil {
			return err
		}
		return a.actor.askActor(m)
	})
}

package worker

import (
	"context"
	"encoding/json"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/task"
)

// maxAsked bounds all questions of a task with their answers, in bytes: they are in its record.
var maxAsked = limits.TaskAsked.Value()

const (
	// maxRecord is the most bytes of a record as it is stored.
	maxRecord = 512 << 10
	// reserved are those that what comes later may take: an outcome, the runs, who has the task, and what it says.
	reserved = inRecord + 32<<10
)

// leavesRoom reports whether a record with its questions and answers leaves room for what comes later.
func leavesRoom(r *task.Record) bool {
	data, err := r.Encode()
	return err == nil && len(data) <= maxRecord-reserved
}

// Question is one that a handler asks its client.
type Question struct {
	Key     string          // unique in the task
	Request json.RawMessage // method and params
}

// Ask puts questions to the client and waits until all have answers, however long that takes. A question that an earlier attempt
// has asked under the same key keeps its answer. An error is the cause of ctx, or that of the attempt's end.
func (a *Attempt) Ask(ctx context.Context, qs []Question) ([]task.Reply, error) {
	select {
	case a.asking <- struct{}{}:
		defer func() { <-a.asking }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-a.ctx.Done():
		return nil, context.Cause(a.ctx)
	}
	for {
		answers, missing, open := a.answers(qs)
		if len(missing) == 0 && !open {
			return answers, nil
		}
		wake, err := a.park(ctx, missing)
		if err != nil {
			return nil, err
		}
		select {
		case <-wake: // it has a place again
		case <-a.ctx.Done():
			return nil, context.Cause(a.ctx)
		case <-ctx.Done(): // the task waits on: only its client, or the handler's end, ends that
			return nil, context.Cause(ctx)
		}
	}
}

// answers returns the answers that are stored, and the questions that were never asked. open says that one was asked and has no answer.
func (a *Attempt) answers(qs []Question) (answers []task.Reply, missing []task.Question, open bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	asked := make(map[string]task.Question, len(a.rec.Questions))
	for _, q := range a.rec.Questions {
		asked[q.Key] = q
	}
	answers = make([]task.Reply, len(qs))
	for i, q := range qs {
		old, ok := asked[q.Key]
		switch {
		case !ok:
			missing = append(missing, task.Question{Key: q.Key, Request: q.Request})
		case old.Answer == nil:
			open = true
		default:
			answers[i] = task.Reply{Value: old.Answer, Refused: old.Refused}
		}
	}
	return answers, missing, open
}

// park has the task wait for its client, with more questions if there are any. The handler gives its place back until wake is closed.
func (a *Attempt) park(ctx context.Context, more []task.Question) (wake chan struct{}, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.returned {
		return nil, ErrTakenOver // of a goroutine that the handler left behind
	}
	if len(more) > 0 {
		if err := a.storing(ctx, size(more), ForResult, atEnd, func() error { return a.putQuestions(ctx, more) }); err != nil {
			return nil, err
		}
	}
	if a.wake == nil {
		a.wake = make(chan struct{})
		a.parked.Store(true)
		_ = a.work.Load().Done()
		a.p.free(a.work.Load())
	}
	return a.wake, nil
}

// putQuestions stores questions in the record. mu is held.
func (a *Attempt) putQuestions(ctx context.Context, more []task.Question) error {
	return a.changeLocked(ctx, func(r *task.Record) error {
		if err := r.Ask(a.epoch, a.p.Store.Now(), more...); err != nil {
			return err
		}
		if size(r.Questions) > maxAsked || !leavesRoom(r) {
			return actors.ErrTooMuchInput
		}
		return nil
	})
}

// size is about how many bytes questions and their answers have.
func size(qs []task.Question) (n int) {
	for _, q := range qs {
		n += len(q.Key) + len(q.Request) + len(q.Answer)
	}
	return n
}

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

const (
	// maxRecord is the most bytes of a record as it is stored.
	maxRecord = 512 << 10
	// reserved are those that what comes later may take: an outcome, the runs, who has the task,
	// and what it says.
	reserved = inRecord + 32<<10
)

// leavesRoom reports whether a record with its questions and answers leaves room for what comes
// later.
func leavesRoom(r *task.Record) bool {
	data, err := r.Encode()
	return err == nil && len(data) <= maxRecord-reserved
}

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
		err := a.actor.ask(m)
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

// answer finds the answers that are stored, and the questions that were never asked. If one has no
// answer yet, the handler waits.
func (a *Attempt) answer(m *asking) {
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
	if open && len(m.missing) == 0 {
		if m.err = a.park(); m.err == nil {
			m.wake = a.wake
		}
	}
}

// park gives the place of the handler back until wake is closed, as the task waits for its client.
func (a *Attempt) park() error {
	if a.returned.Load() {
		return ErrTakenOver // of a goroutine that the handler left behind
	}
	if a.wake == nil {
		a.wake = make(chan struct{})
		a.p.parked.Add(1)
		a.work.free()
		_ = a.work.Done()
	}
	return nil
}

// resume has a handler go on that waited, by work that has a place.
func (a *Attempt) resume(work *given) {
	a.work = work
	close(a.wake)
	a.wake = nil
	a.p.parked.Add(-1)
}

// parked reports whether the handler waits for its client: the attempt has neither work nor a
// place.
func (a *Attempt) parked() bool { return a.wake != nil }

// putQuestions stores questions that were never asked, and has the handler wait for its client
// before anybody can begin the task anew.
func (a *Attempt) putQuestions(ctx context.Context, m *asking) error {
	return a.storeCharged(ctx, size(m.missing), ForResult, atEnd, func() error {
		if a.returned.Load() {
			return ErrTakenOver
		}
		err := a.putRecord(ctx, func(r *task.Record, epoch uint64) error {
			if err := r.Ask(epoch, a.p.Store.Now(), m.missing...); err != nil {
				return err
			}
			if size(r.Questions) > maxAsked || !leavesRoom(r) {
				return actors.ErrTooMuchInput
			}
			return nil
		})
		if err != nil {
			return err
		}
		return a.actor.ask(m)
	})
}

// size is about how many bytes questions and their answers have.
func size(qs []task.Question) (n int) {
	for _, q := range qs {
		n += len(q.Key) + len(q.Request) + len(q.Answer)
	}
	return n
}

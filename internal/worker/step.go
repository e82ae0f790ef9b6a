package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/task"
)

// Find returns the stored result of a step, nil if the step has to run.
func (a *Attempt) Find(ctx context.Context, name string) (*Step, error) {
	if cause := context.Cause(a.ctx); cause != nil {
		return nil, cause
	}
	if err := a.assureEpoch(ctx); err != nil {
		return nil, err
	}
	if !a.mayHaveSteps {
		return nil, nil
	}
	for b := (backoff{}); ; {
		data, err := a.p.Store.Part(ctx, a.Key.path(), stepPart(name))
		switch {
		case err == nil:
			s := new(Step)
			if err := json.Unmarshal(data, s); err != nil {
				return nil, fmt.Errorf("worker: step %q: %w", name, err)
			}
			return s, nil
		case errors.Is(err, store.ErrNotFound):
			return nil, nil
		case !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrRetry):
			return nil, fmt.Errorf("worker: step %q: %w", name, err)
		}
		if !b.sleep(ctx) {
			return nil, context.Cause(ctx)
		}
	}
}

// Keep stores the result of a step of this attempt. After an error the attempt must not go on: the
// step may run again in a later one.
func (a *Attempt) Keep(ctx context.Context, s Step, began time.Time) error {
	s.Attempt, s.Began, s.Took = a.Number, began.UnixMilli(), time.Since(began).Milliseconds()
	data, err := codec.Marshal(&s)
	if err != nil {
		return fmt.Errorf("worker: step %q: %w", s.Name, err)
	}
	var sent int64
	if err = a.storeCharged(ctx, len(data), ForStep, atCancellation, func() error {
		sent = time.Now().UnixNano()
		return a.putPart(ctx, stepPart(s.Name), data)
	}); err != nil {
		return fmt.Errorf("worker: step %q: %w", s.Name, err)
	}
	a.endSuspicion()
	a.p.Log.Debug("a step of a task is stored", "server", a.Key.Server, "task", a.Key.Digest(), "step", s.Name, "took", time.Duration(s.Took)*time.Millisecond, "bytes", len(data))
	a.epochSeen.Store(sent) // the answer may have waited for a process that stood still
	return nil
}

// assureEpoch returns nil if no other attempt had the task within the last epochTime. A process
// that stood still may have lost it, and a step that another attempt has stored must not begin
// here. What stands still behind assureEpoch may still begin one.
func (a *Attempt) assureEpoch(ctx context.Context) error {
	if a.sawEpoch() {
		return nil
	}
	return a.takeTurn(func() error {
		if a.sawEpoch() { // another step has looked meanwhile
			return nil
		}
		now := time.Now().UnixNano()
		err := a.checkEpoch(ctx)
		if err == nil {
			a.epochSeen.Store(now)
		}
		return err
	})
}

// sawEpoch reports whether it was certain within the last epochTime that the attempt has the task.
func (a *Attempt) sawEpoch() bool {
	now := time.Now().UnixNano() // by the wall clock: that of a machine that sleeps goes on
	since := now - a.epochSeen.Load()
	return since >= 0 && since < int64(epochTime)
}

// epochTime is for how long an attempt that had the task has it: nobody else is given its work
// within a second more.
const epochTime = 4 * keepEvery

// Say sets the task's message for people.
func (a *Attempt) Say(ctx context.Context, message string) error {
	return a.changeRecord(ctx, func(r *task.Record, epoch uint64) error { return r.SetMessage(epoch, message, a.p.Store.Now()) })
}

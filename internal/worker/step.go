package worker

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/task"
)

// Step is the result of a step as it is stored.
type Step struct {
	Name    string          `json:"name"`
	Failed  string          `json:"failed,omitempty"` // the text of an error that no attempt tries again
	Attempt int             `json:"attempt"`          // that ran it
	Began   int64           `json:"began"`            // milliseconds since 1970
	Took    int64           `json:"took"`             // milliseconds
	Value   json.RawMessage `json:"value,omitempty"`  // last, so that the beginning of a stored step says all about it
}

// stepPrefix begins the names of parts that have steps.
const stepPrefix = "s-"

// stepPart is the name of the part that has a step.
func stepPart(name string) string {
	sum := sha256.Sum256([]byte(name))
	return stepPrefix + idEncoding.EncodeToString(sum[:])[:26]
}

// Find returns the stored result of a step, nil if the step has to run.
func (a *Attempt) Find(ctx context.Context, name string) (*Step, error) {
	if cause := context.Cause(a.ctx); cause != nil {
		return nil, cause
	}
	if err := a.assure(ctx); err != nil {
		return nil, err
	}
	if !a.again {
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

// Keep stores the result of a step of this attempt. After an error the attempt must not go on: the step may run again in a later one.
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
	a.clear()
	a.p.Log.Debug("a step of a task is stored", "server", a.Key.Server, "task", a.Key.Digest(), "step", s.Name, "took", time.Duration(s.Took)*time.Millisecond, "bytes", len(data))
	a.sure.Store(sent) // the answer may have waited for a process that stood still
	return nil
}

// assure returns nil if no other attempt had the task within the last sureFor. A process that stood still may have lost it, and a step
// that another attempt has stored must not begin here. What stands still behind assure may still begin one.
func (a *Attempt) assure(ctx context.Context) error {
	now := time.Now().UnixNano() // by the wall clock: that of a machine that sleeps goes on
	if since := now - a.sure.Load(); since >= 0 && since < int64(sureFor) {
		return nil
	}
	return a.takeTurn(func() error {
		now := time.Now().UnixNano()
		err := a.checkEpoch(ctx)
		if err == nil {
			a.sure.Store(now)
		}
		return err
	})
}

// sureFor is for how long an attempt that had the task has it: nobody else is given its work within a second more.
const sureFor = 4 * keepEvery

// Say sets the task's message for people.
func (a *Attempt) Say(ctx context.Context, message string) error {
	return a.changeRecord(ctx, func(r *task.Record, epoch uint64) error { return r.Say(epoch, message, a.p.Store.Now()) })
}

package worker

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/internal/task"
)

// Step is the result of a step as it is stored.
type Step struct {
	Name    string          `json:"name"`
	Value   json.RawMessage `json:"value,omitempty"`
	Failed  string          `json:"failed,omitempty"` // the text of an error that no attempt tries again
	Attempt int             `json:"attempt"`          // that ran it
	Began   int64           `json:"began"`            // milliseconds since 1970
	Took    int64           `json:"took"`             // milliseconds
}

// stepPart is the name of the part that has a step.
func stepPart(name string) string {
	sum := sha256.Sum256([]byte(name))
	return "s-" + idEncoding.EncodeToString(sum[:])[:26]
}

// Find returns the stored result of a step, nil if the step has to run. Each name may be used once in an attempt.
func (a *Attempt) Find(ctx context.Context, name string) (*Step, error) {
	if cause := context.Cause(a.ctx); cause != nil {
		return nil, cause
	}
	if !a.steps.take(name) {
		return nil, fmt.Errorf("%w: %q", ErrStepUsed, name)
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
		case errors.Is(err, actors.ErrNotFound):
			return nil, nil
		case !errors.Is(err, actors.ErrUnavailable) && !errors.Is(err, actors.ErrAgain):
			return nil, fmt.Errorf("worker: step %q: %w", name, err)
		}
		if !b.sleep(ctx) {
			return nil, context.Cause(ctx)
		}
	}
}

// Keep stores the result of a step. After an error the attempt must not go on: the step may run again in a later one.
func (a *Attempt) Keep(ctx context.Context, s Step, began time.Time) error {
	s.Attempt, s.Began, s.Took = a.Number, began.UnixMilli(), time.Since(began).Milliseconds()
	data, err := json.Marshal(&s)
	if err != nil {
		return fmt.Errorf("worker: step %q: %w", s.Name, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.putPart(ctx, stepPart(s.Name), data); err != nil {
		return fmt.Errorf("worker: step %q: %w", s.Name, err)
	}
	return nil
}

// Say sets the task's message for people.
func (a *Attempt) Say(ctx context.Context, message string) error {
	return a.change(ctx, func(r *task.Record) error { return r.Say(a.epoch, message, a.p.Store.Now()) })
}

package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/task"
	"github.com/troupe-run/troupe/internal/worker"
)

// TestNoRoomForAnOutcome has a task say so much that its record has no room for its result: that is its outcome, after one run.
func TestNoRoomForAnOutcome(t *testing.T) {
	bubble(t, 8, func(t *testing.T, h *house) {
		h.handle(func(ctx context.Context, a *worker.Attempt) worker.Result {
			if err := a.Say(ctx, strings.Repeat("x", 480<<10)); err != nil {
				t.Error(err)
			}
			return done(`"` + strings.Repeat("r", 60<<10) + `"`)
		})
		r := h.ended(h.create(`{}`))
		if r.Outcome.Kind != task.Failed || !strings.Contains(string(r.Outcome.Value), "leaves no room") || h.runs.Load() != 1 {
			t.Errorf("after %d runs it ended as %s: %.200s", h.runs.Load(), r.Outcome.Kind, r.Outcome.Value)
		}
	})
}

// TestAnswersThatTakeAllRoom has a task say a lot and then ask. An answer that would leave its record no room for the outcome is not taken, and a smaller
// one is.
func TestAnswersThatTakeAllRoom(t *testing.T) {
	bubble(t, 8, func(t *testing.T, h *house) {
		h.handle(func(ctx context.Context, a *worker.Attempt) worker.Result {
			if err := a.Say(ctx, strings.Repeat("x", 200<<10)); err != nil {
				t.Error(err)
			}
			return asks(ctx, a)
		})
		key := h.create(`{}`)
		time.Sleep(time.Second)
		synctest.Wait()
		text := func(n int) string { return `"` + strings.Repeat("y", n) + `"` }
		if _, err := h.Answer(t.Context(), key, replies("q", text(230<<10))); !errors.Is(err, worker.ErrTooMuch) {
			t.Errorf("a large answer: %v", err)
		}
		if _, err := h.Answer(t.Context(), key, replies("q", text(200<<10))); err != nil {
			t.Errorf("a smaller one: %v", err)
		}
		if r := h.ended(key); r.Outcome.Kind != task.Done {
			t.Errorf("it ended as %s: %.200s", r.Outcome.Kind, r.Outcome.Value)
		}
	})
}

// TestAnAttemptThatIsTakenOverInAStep: the result of a step does not count that ran while another process took the task over.
func TestAnAttemptThatIsTakenOverInAStep(t *testing.T) {
	bubble(t, 4, func(t *testing.T, h *house) {
		made := make(chan worker.Key, 1)
		ended := make(chan error, 1)
		h.handle(func(ctx context.Context, a *worker.Attempt) worker.Result {
			key := <-made
			_, err := step(ctx, a, "s", func() string {
				r := h.get(key)
				if _, err := r.BeginAttempt("m", "other", time.Now()); err != nil {
					t.Error(err)
				}
				data, _ := json.Marshal(&r)
				s, err := h.Get(t.Context(), key)
				if err != nil {
					t.Error(err)
				}
				if _, err := h.node.Update(t.Context(), "task.anon.demo."+key.ID, data, s.Rev, ttl); err != nil {
					t.Error(err)
				}
				return `"late"`
			})
			ended <- err
			return done(`"late"`)
		})
		key := h.create(`{}`)
		made <- key
		if err := <-ended; !errors.Is(err, worker.ErrTakenOver) {
			t.Errorf("the step ended with %v, want %v", err, worker.ErrTakenOver)
		}
		if steps, _, err := h.Steps(t.Context(), key, 10); err != nil || len(steps) > 0 {
			t.Errorf("it is stored: %+v, %v", steps, err)
		}
	})
}

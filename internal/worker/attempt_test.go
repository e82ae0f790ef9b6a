package worker_test

import (
	"context"
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

package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/task"
	"github.com/troupe-run/troupe/internal/worker"
)

// TestFewSuspectsRunAtATime has forty tasks whose process was lost as often as given before they stored a step. A process that
// dies soon has begun few of those that are suspects, so that few count one loss more; one that lives runs all.
func TestFewSuspectsRunAtATime(t *testing.T) {
	const tasks = 40
	for _, row := range []struct {
		lost, begin int // how many begin at once
		steps       bool
	}{{0, tasks, false}, {1, tasks, false}, {2, 8, false}, {2, tasks, true}, {3, 8, false}} {
		t.Run(fmt.Sprintf("lost=%d/steps=%t", row.lost, row.steps), func(t *testing.T) {
			bubble(t, 2*tasks, func(t *testing.T, h *house) {
				h.close()
				var begun atomic.Int32
				h.handle(func(ctx context.Context, a *worker.Attempt) worker.Result {
					begun.Add(1)
					if row.steps {
						if _, err := step(ctx, a, "s", func() string { return "1" }); err != nil {
							return failed(err)
						}
					}
					select {
					case <-ctx.Done():
						return failed(context.Cause(ctx))
					case <-time.After(500 * time.Millisecond):
					}
					return done(`{}`)
				})
				var keys []worker.Key
				for i := range tasks {
					keys = append(keys, lostTask(t, h, fmt.Sprintf("%026d", i), row.lost))
				}
				h.open(2*tasks, "boot2")
				wait := 100 * time.Millisecond
				if row.steps {
					wait = 10 * time.Second // those that are put off come with the next seconds
				}
				time.Sleep(wait)
				synctest.Wait()
				if n := int(begun.Load()); n != row.begin {
					t.Errorf("%d of %d have begun, want %d", n, tasks, row.begin)
				}
				for _, k := range keys {
					if r := h.ended(k); r.Outcome.Kind != task.Done {
						t.Errorf("task %s ended with %+v", k.ID, r.Outcome)
					}
				}
			})
		})
	}
}

// TestSuspectsAreCleared: a suspect that has stored a step, has run for a while or has ended holds up no other one.
func TestSuspectsAreCleared(t *testing.T) {
	const tasks = 40
	for _, how := range []string{"step", "time", "end"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, 2*tasks, func(t *testing.T, h *house) {
				h.close()
				var begun atomic.Int32
				h.handle(func(ctx context.Context, a *worker.Attempt) worker.Result {
					begun.Add(1)
					if how == "end" {
						return done(`{}`)
					}
					if how == "step" {
						if _, err := step(ctx, a, "s", func() string { return "1" }); err != nil {
							return failed(err)
						}
					}
					<-ctx.Done()
					return failed(context.Cause(ctx))
				})
				for i := range tasks {
					lostTask(t, h, fmt.Sprintf("%026d", i), 3)
				}
				h.open(2*tasks, "boot2")
				within := 3 * time.Second
				if how == "time" {
					within = tasks / 8 * 3 * time.Second
				}
				time.Sleep(within)
				synctest.Wait()
				if n := int(begun.Load()); n != tasks {
					t.Errorf("%d of %d have begun", n, tasks)
				}
			})
		})
	}
}

// lostTask stores a task whose process was lost that often before it had stored a step. Who begins it next notices the last of these.
func lostTask(t *testing.T, h *house, id string, lost int) worker.Key {
	t.Helper()
	r := task.New(time.Now(), ttl)
	for range lost {
		if _, err := r.BeginAttempt("dead", "dead", time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	data, _ := json.Marshal(&r)
	if err := h.node.PutPart(t.Context(), "anon.demo."+id, "req", []byte(`{}`), 0, ttl); err != nil {
		t.Fatal(err)
	}
	if _, err := h.node.Create(t.Context(), "task.anon.demo."+id, data, ttl); err != nil {
		t.Fatal(err)
	}
	if _, err := h.node.Offer(t.Context(), "anon", "demo", id, "", ttl); err != nil {
		t.Fatal(err)
	}
	return worker.Key{Tenant: "anon", Server: "demo", ID: id}
}

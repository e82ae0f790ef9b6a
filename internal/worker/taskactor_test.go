package worker_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/task"
	"github.com/troupe-run/troupe/internal/worker"
)

// brittle is a store whose work panics, which it does in a turn of the task's actor, and whose outcomes do, which are stored for it.
type brittle struct {
	worker.Store
	keeps, dones, outcomes atomic.Int32 // how many of these calls will panic
}

func (b *brittle) PutPart(ctx context.Context, path, name string, data []byte, rev uint64, ttl time.Duration) error {
	if name == "out" && b.outcomes.Add(-1) >= 0 {
		panic("outcome")
	}
	return b.Store.PutPart(ctx, path, name, data, rev, ttl)
}

func (b *brittle) Work(ctx context.Context, server string) (worker.Queue, error) {
	q, err := b.Store.Work(ctx, server)
	return brittleQueue{q, b}, err
}

type brittleQueue struct {
	worker.Queue
	b *brittle
}

func (q brittleQueue) Next(ctx context.Context) (worker.Work, error) {
	w, err := q.Queue.Next(ctx)
	return brittleWork{w, q.b}, err
}

func (q brittleQueue) Poke() (worker.Work, error) {
	w, err := q.Queue.Poke()
	if w == nil || err != nil {
		return nil, err
	}
	return brittleWork{w, q.b}, nil
}

type brittleWork struct {
	worker.Work
	b *brittle
}

func (w brittleWork) Keep() error {
	if w.b.keeps.Add(-1) >= 0 {
		panic("keep")
	}
	return w.Work.Keep()
}

func (w brittleWork) Done() error {
	if w.b.dones.Add(-1) >= 0 {
		panic("done")
	}
	return w.Work.Done()
}

// TestAnActorThatPanics: the actor of a task answers who waits for it and goes on. At the third
// panic within a minute it ends; its run has lost the task then, which goes on with another one.
func TestAnActorThatPanics(t *testing.T) {
	t.Run("once", func(t *testing.T) {
		withFaults(t, func(t *testing.T, h *house, s *faulty) {
			h.close()
			b := &brittle{Store: s}
			h.over(b, "boot2")
			h.handle(func(ctx context.Context, a *worker.Attempt) worker.Result {
				b.dones.Store(1) // when the task waits, its work is done
				if _, err := a.Ask(ctx, questions("q")); err == nil {
					t.Error("a question has an answer whose task could not wait")
				}
				if err := a.Say(ctx, "on"); err != nil {
					t.Errorf("after the panic: %v", err)
				}
				return done(`{}`)
			})
			h.good(h.create(`{}`), 1)
		})
	})
	t.Run("again and again", func(t *testing.T) {
		bubble(t, 4, func(t *testing.T, h *house) {
			h.close()
			b := &brittle{Store: h.Store}
			h.over(b, "boot2")
			h.handle(func(ctx context.Context, a *worker.Attempt) worker.Result {
				if a.Number > 1 {
					return done(`{}`)
				}
				b.keeps.Store(3) // it is kept once a second
				<-ctx.Done()
				if cause := context.Cause(ctx); !errors.Is(cause, worker.ErrTakenOver) {
					t.Errorf("the run ended with %v, want %v", cause, worker.ErrTakenOver)
				}
				if err := a.Say(context.Background(), "late"); !errors.Is(err, worker.ErrTakenOver) {
					t.Errorf("afterwards it is told %v, want %v", err, worker.ErrTakenOver)
				}
				return done(`"late"`)
			})
			began := time.Now()
			if r := h.ended(h.create(`{}`)); r.Outcome.Kind != task.Done || string(r.Outcome.Value) != `{}` || h.runs.Load() != 2 {
				t.Errorf("after %d runs and %v it has the outcome %+v", h.runs.Load(), time.Since(began), r.Outcome)
			}
			synctest.Wait() // until the run has given its place back
			if running, waiting := h.Counts(); running != 0 || waiting != 0 {
				t.Errorf("%d run and %d wait after the end", running, waiting)
			}
		})
	})
}

// TestAPanicOfTheStore: what panics beside the actor of a task, as its outcome is stored, is counted and ends that run, not the process.
func TestAPanicOfTheStore(t *testing.T) {
	large := `"` + strings.Repeat("x", 1<<20) + `"`
	for name, broken := range map[string]func(b *brittle, change *atomic.Bool){
		"an outcome":            func(b *brittle, _ *atomic.Bool) { b.outcomes.Store(1) },
		"who hears of a change": func(_ *brittle, change *atomic.Bool) { change.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 4, func(t *testing.T, h *house) {
				h.close()
				b := &brittle{Store: h.Store}
				var change atomic.Bool
				h.Pool = worker.NewPool(worker.Config{Store: b, Node: "n", Boot: "boot2", Running: 4, Changed: func(worker.Key, uint64, *task.Record) {
					if change.CompareAndSwap(true, false) {
						panic("changed")
					}
				}})
				h.Mount(h.service())
				h.handle(func(_ context.Context, a *worker.Attempt) worker.Result {
					if a.Number == 1 {
						broken(b, &change)
					}
					return done(large)
				})
				if r := h.ended(h.create(`{}`)); r.Outcome.Kind != task.Done {
					t.Errorf("after %d runs it ended as %s", h.runs.Load(), r.Outcome.Kind)
				}
				synctest.Wait()
				if n := h.Kernel.Panics(); n != 1 {
					t.Errorf("%d panics are counted, want 1", n)
				}
			})
		})
	}
}

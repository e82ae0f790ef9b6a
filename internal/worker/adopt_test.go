package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/nodestore"
	"github.com/troupe-run/troupe/internal/task"
	"github.com/troupe-run/troupe/internal/worker"
	"github.com/troupe-run/troupe/mcp"
)

// adopt makes a task of a call that runs already.
func (h *house) adopt(p *worker.Pool) *worker.Attempt {
	h.t.Helper()
	a, made, err := p.Adopt(h.t.Context(), worker.NewTask{Tenant: "anon", Server: "demo", Revision: "2026-07-28", Method: "tools/call", Name: "x", TTL: ttl, Ending: true,
		Request: worker.Request{Message: json.RawMessage(`{}`)}, Steps: []worker.Step{{Name: "before", Value: []byte("3")}, {Name: "bad", Failed: "no"}}})
	if err != nil {
		h.t.Fatal(err)
	}
	if made.Key != a.Key || made.Record.State != task.Running || made.Record.Attempt != 1 {
		h.t.Errorf("the task is %+v", made.Record)
	}
	return a
}

var returned = worker.Result{Value: []byte(`{"content":[]}`)}

// TestACallThatBecomesATask adopts more calls than there are places: no handler runs beside them, in any process, and their results are those of the tasks.
func TestACallThatBecomesATask(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(t *testing.T, h *house) {
		h.close()
		h.handle(func(context.Context, *worker.Attempt) worker.Result {
			return worker.Result{Value: []byte(`{"wrong":1}`)}
		})
		f := &fleet{Store: nodestore.NewTasks(h.node)}
		h.Pool = worker.NewPool(worker.Config{Store: f, Node: "a", Boot: "a", Running: 2, Shared: true})
		h.Mount(h.service())
		other := h.join(f, "b")
		var all []*worker.Attempt
		for range 20 {
			all = append(all, h.adopt(h.Pool))
		}
		h.adopt(h.Pool).Conclude(returned) // before it is given its work
		time.Sleep(10 * time.Minute)
		if running, _ := h.Counts(); running != len(all) {
			t.Errorf("%d attempts run, want %d", running, len(all))
		}
		for _, a := range all {
			if err := a.Keep(t.Context(), worker.Step{Name: "s", Value: []byte("1")}, time.Now()); err != nil {
				t.Error(err)
			}
			a.Conclude(returned)
			if r := h.ended(a.Key); r.Outcome.Kind != task.Done || string(r.Outcome.Value) != string(returned.Value) || len(r.Runs) != 1 {
				t.Errorf("it ended as %+v after %+v", r.Outcome, r.Runs)
			}
		}
		time.Sleep(time.Minute)
		if running, _ := h.Counts(); running != 0 || h.runs.Load() != 0 {
			t.Errorf("%d attempts run, and %d have run beside those that were adopted", running, h.runs.Load())
		}
		if left, err := f.Working(t.Context()); err != nil || len(left) > 0 {
			t.Errorf("work is left of %v: %v", left, err)
		}
		if err := other.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// TestAdoptedRunsAreLost ends what runs adopted calls: they run again elsewhere, as second attempts if the first was lost, and find its steps.
func TestAdoptedRunsAreLost(t *testing.T) {
	t.Parallel()
	failed := worker.Result{Err: mcp.NewError(mcp.CodeInternalError, "the context has ended")}
	for name, tt := range map[string]struct {
		harm    func(t *testing.T, f *fleet, p *worker.Pool, a *worker.Attempt)
		late    bool // its handler returns once the task has ended elsewhere
		attempt int
	}{
		"its process is dead": {func(t *testing.T, f *fleet, p *worker.Pool, _ *worker.Attempt) {
			now, cancel := context.WithCancel(t.Context())
			cancel()
			if err := p.Close(now); err == nil {
				t.Error("the process has ended, and with it the handler")
			}
			f.dead.Store("a", true)
		}, true, 2},
		"its process ends": {func(t *testing.T, f *fleet, p *worker.Pool, a *worker.Attempt) {
			go func() {
				<-a.Context().Done()
				a.Conclude(failed)
			}()
			if err := p.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}, false, 1},
		"its server is unmounted": {func(t *testing.T, _ *fleet, p *worker.Pool, a *worker.Attempt) {
			p.Unmount("demo")
			a.Conclude(failed)
		}, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, 1, func(t *testing.T, h *house) {
				h.close()
				found, attempt := false, 0
				h.handle(func(ctx context.Context, a *worker.Attempt) worker.Result {
					s, err := a.Find(ctx, "s")
					found, attempt = err == nil && s != nil && string(s.Value) == "7", a.Number
					s, err = a.Find(ctx, "before")
					found = found && err == nil && s != nil && string(s.Value) == "3"
					s, err = a.Find(ctx, "bad")
					found = found && err == nil && s != nil && s.Failed == "no"
					return returned
				})
				f := &fleet{Store: nodestore.NewTasks(h.node)}
				first := h.join(f, "a")
				h.Pool = h.join(f, "b")
				a := h.adopt(first)
				if err := a.Keep(t.Context(), worker.Step{Name: "s", Value: []byte("7")}, time.Now()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if h.runs.Load() != 0 {
					t.Error("another run began beside it")
				}
				tt.harm(t, f, first, a)
				if r := h.ended(a.Key); r.Outcome.Kind != task.Done || !found || attempt != tt.attempt {
					t.Errorf("it ended as %+v; attempt %d, the step was found: %v", r.Outcome, attempt, found)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if tt.late {
					a.Conclude(returned)
				}
				if r := h.get(a.Key); len(r.Runs) != 2 || r.Runs[1].End != task.RunFinished {
					t.Errorf("it has run as %+v", r.Runs)
				}
				if cause := context.Cause(a.Context()); !errors.Is(cause, worker.ErrClosing) {
					t.Errorf("the run that was adopted ended with %v", cause)
				}
				if err := first.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestAdoptedRunWhoseRecordIsLate: the work of an adopted call is looked at before its record is stored, and read once it is. No other run
// begins beside it.
func TestAdoptedRunWhoseRecordIsLate(t *testing.T) {
	withFaults(t, func(t *testing.T, h *house, s *faulty) {
		looked, adopted := make(chan struct{}), make(chan struct{})
		s.create = func() { <-looked }
		s.peek = sync.OnceFunc(func() {
			close(looked)
			<-adopted
		})
		h.handle(func(context.Context, *worker.Attempt) worker.Result { return done(`"second"`) })
		a := h.adopt(h.Pool)
		close(adopted)
		time.Sleep(time.Minute)
		a.Conclude(returned)
		if r := h.ended(a.Key); r.Outcome.Kind != task.Done || len(r.Runs) != 1 || h.runs.Load() != 0 {
			t.Errorf("it ended with kind %d after %+v, and %d runs beside it", r.Outcome.Kind, r.Runs, h.runs.Load())
		}
	})
}

// TestAdoptedRunIsCancelled cancels the task of an adopted call.
func TestAdoptedRunIsCancelled(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(t *testing.T, h *house) {
		a := h.adopt(h.Pool)
		if _, err := h.Cancel(t.Context(), a.Key); err != nil {
			t.Fatal(err)
		}
		<-a.Context().Done()
		a.Conclude(returned)
		if r := h.get(a.Key); r.Outcome == nil || r.Outcome.Kind != task.Cancelled || !errors.Is(context.Cause(a.Context()), worker.ErrCancelled) {
			t.Errorf("it ended as %+v, its run with %v", r.Outcome, context.Cause(a.Context()))
		}
		h.close()
		if _, _, err := h.Adopt(t.Context(), worker.NewTask{Tenant: "anon", Server: "demo", TTL: ttl}); err == nil {
			t.Error("a pool that is closed has adopted a call")
		}
		h.open(1, "boot2")
	})
}

// opening is a store that counts how often a queue of work was opened.
type opening struct {
	*fleet
	opened atomic.Int32
}

func (o *opening) Work(ctx context.Context, server string) (worker.Queue, error) {
	o.opened.Add(1)
	return o.fleet.Work(ctx, server)
}

// TestTheFirstTaskOpensQueues: a process whose server makes no tasks by itself takes its work once it hears that another one has made a task.
func TestTheFirstTaskOpensQueues(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(t *testing.T, h *house) {
		h.close()
		h.handle(func(context.Context, *worker.Attempt) worker.Result { return returned })
		f := &fleet{Store: nodestore.NewTasks(h.node)}
		service := h.service()
		service.Makes = func() bool { return false }
		there := &opening{fleet: f}
		other := worker.NewPool(worker.Config{Store: there, Node: "b", Boot: "b", Running: 2, Shared: true})
		other.Mount(service)
		var told atomic.Int32
		h.Pool = worker.NewPool(worker.Config{Store: f, Node: "a", Boot: "a", Running: 2, Shared: true, Changed: func(key worker.Key, _ uint64, r *task.Record) {
			if told.Add(1) == 1 && r.State == task.Running {
				other.Heard(key, 0)
			}
		}})
		h.Mount(service)
		time.Sleep(5 * time.Second)
		if n := there.opened.Load(); n != 0 {
			t.Errorf("the queue is opened %d times without tasks", n)
		}
		a := h.adopt(h.Pool)
		time.Sleep(time.Second)
		synctest.Wait()
		a.Conclude(returned)
		if n := there.opened.Load(); n != 1 {
			t.Errorf("with the first task the queue is opened %d times", n)
		}
		if err := errors.Join(other.Close(t.Context()), h.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
}

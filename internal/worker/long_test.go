package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/internal/task"
	"github.com/troupe-run/troupe/internal/worker"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
)

const day = 24 * time.Hour

// onDisk runs f with a house over a store in a directory, in virtual time.
func onDisk(t *testing.T, dir string, run func(ctx context.Context, a *worker.Attempt) worker.Result, f func(t *testing.T, h *house)) {
	t.Helper()
	n, err := cluster.Open(t.Context(), cluster.Options{Dir: dir, Sync: time.Hour, Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, node: n, run: run} // before there is a pool: the store may have work
	h.safe.Store(true)
	h.open(4, filepath.Base(dir))
	f(t, h)
	h.close()
	if err := n.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// createLasting is create with a lifetime.
func (h *house) createLasting(request string, ttl time.Duration) worker.Key {
	h.t.Helper()
	s, err := h.Create(h.t.Context(), worker.NewTask{Tenant: "anon", Server: "demo", Revision: "2025-11-25", Method: "tools/call", Name: "x", TTL: ttl,
		Request: worker.Request{Message: json.RawMessage(request)}})
	if err != nil {
		h.t.Fatal(err)
	}
	return s.Key
}

// failed is the result of a handler that could not go on.
func failed(err error) worker.Result { return worker.Result{Err: mcp.NewError(-32603, err.Error())} }

// survey stores a step, asks, stores a step and asks again.
func survey(ran *[]string) func(ctx context.Context, a *worker.Attempt) worker.Result {
	return func(ctx context.Context, a *worker.Attempt) worker.Result {
		var got [4]string
		for i := range 2 {
			name := fmt.Sprintf("step %d", i)
			v, err := step(ctx, a, name, func() string {
				*ran = append(*ran, name)
				return fmt.Sprintf(`"%d"`, len(*ran))
			})
			if err != nil {
				return failed(err)
			}
			replies, err := a.Ask(ctx, questions(fmt.Sprintf("q%d", i)))
			if err != nil {
				return failed(err)
			}
			got[2*i], got[2*i+1] = v, string(replies[0].Value)
		}
		return done(fmt.Sprintf(`[%s,%s,%s,%s]`, got[0], got[1], got[2], got[3]))
	}
}

// TestTasksWaitForDays waits three days for each of two answers, longer than anything else in the store lives: on the pool that runs
// the task, and then with the pool replaced while it waits. No step runs again, and no question is asked twice.
func TestTasksWaitForDays(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	when.Long(t, "the store has something to do each second of the days")
	bubble(t, 4, func(t *testing.T, h *house) {
		var ran []string
		h.handle(survey(&ran))
		key := h.createLasting(`{}`, 7*day)
		for i := range 2 {
			time.Sleep(3 * day / 2)
			if i == 1 {
				h.close()
				h.open(4, "boot2")
			}
			time.Sleep(3 * day / 2)
			r := h.get(key)
			if r.State != task.Waiting || len(r.OpenQuestions()) != 1 || r.OpenQuestions()[0].Key != fmt.Sprint("q", i) {
				t.Fatalf("after %d days: state %d, open %+v", 3*(i+1), r.State, r.OpenQuestions())
			}
			if _, err := h.Answer(t.Context(), key, replies(fmt.Sprint("q", i), fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
		}
		if r := h.ended(key); string(r.Outcome.Value) != `["1",0,"2",1]` || r.Attempt != 1 || len(ran) != 2 || h.runs.Load() != 2 {
			t.Errorf("it ended with %s in attempt %d after %d runs, the steps ran %v", r.Outcome.Value, r.Attempt, h.runs.Load(), ran)
		}
		time.Sleep(day + time.Hour)
		if _, err := h.Get(t.Context(), key); !errors.Is(err, worker.ErrUnknown) {
			t.Errorf("after its lifetime: %v", err)
		}
	})
}

// TestTasksPauseForDays runs a handler that does nothing for days between its steps, longer than anything else in the store lives.
func TestTasksPauseForDays(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	when.Long(t, "a worker says each second that it has its work")
	bubble(t, 4, func(t *testing.T, h *house) {
		var ran []string
		h.handle(func(ctx context.Context, a *worker.Attempt) worker.Result {
			for i := range 3 {
				if _, err := step(ctx, a, fmt.Sprint(i), func() string { ran = append(ran, fmt.Sprint(i)); return "1" }); err != nil {
					return failed(err)
				}
				time.Sleep(8 * time.Hour)
			}
			return done(`{}`)
		})
		key := h.createLasting(`{}`, 3*day)
		time.Sleep(25 * time.Hour)
		if r := h.ended(key); r.Outcome.Kind != task.Done || r.Attempt != 1 || len(ran) != 3 || h.runs.Load() != 1 {
			t.Errorf("it ended with %+v in attempt %d and %d runs, the steps ran %v", r.Outcome, r.Attempt, h.runs.Load(), ran)
		}
	})
}

// TestTasksOfManySteps ends the process twice in the middle of five thousand steps: each runs once.
func TestTasksOfManySteps(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	const steps = 5000
	kit.Bubble(t, func(t *testing.T) {
		ran := make(map[int]int)
		var order []int
		work := func(stop int) func(ctx context.Context, a *worker.Attempt) worker.Result {
			return func(ctx context.Context, a *worker.Attempt) worker.Result {
				sum := 0
				for i := range steps {
					if i == stop {
						<-ctx.Done() // the process dies here
						return failed(context.Cause(ctx))
					}
					v, err := step(ctx, a, fmt.Sprint("step ", i), func() string {
						ran[i]++
						order = append(order, i)
						return fmt.Sprint(i)
					})
					if err != nil {
						return failed(err)
					}
					var n int
					if _, err := fmt.Sscan(v, &n); err != nil || n != i {
						return failed(fmt.Errorf("step %d gave %q", i, v))
					}
					sum += n
				}
				return done(fmt.Sprint(sum))
			}
		}
		dir := filepath.Join(t.TempDir(), "0")
		var key worker.Key
		var run func(dir string, stops []int)
		run = func(dir string, stops []int) {
			stop := -1
			if len(stops) > 0 {
				stop = stops[0]
			}
			onDisk(t, dir, work(stop), func(t *testing.T, h *house) {
				if len(stops) == 0 {
					if r := h.ended(key); string(r.Outcome.Value) != fmt.Sprint(steps*(steps-1)/2) {
						t.Errorf("it ended with kind %d %s", r.Outcome.Kind, r.Outcome.Value)
					}
					return
				}
				if key.ID == "" {
					key = h.createLasting(`{}`, day)
				}
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if len(ran) != stops[0] {
					t.Fatalf("%d steps ran, want %d", len(ran), stops[0])
				}
				next := filepath.Join(filepath.Dir(dir), fmt.Sprint(len(stops)))
				if err := os.CopyFS(next, os.DirFS(dir)); err != nil {
					t.Fatal(err)
				}
				run(next, stops[1:])
			})
		}
		run(dir, []int{1234, 3999})
		for i, n := range ran {
			if n != 1 {
				t.Errorf("step %d ran %d times", i, n)
			}
		}
		if len(order) != steps {
			t.Errorf("%d steps ran, want %d", len(order), steps)
		}
	})
}

// TestAnOlderStore goes on with a copy of the store that is one step and one task older: the step runs again, nobody knows the newer
// task, and nothing else differs.
func TestAnOlderStore(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		base := t.TempDir()
		dir, older := filepath.Join(base, "now"), filepath.Join(base, "older")
		ran := make(map[string]int)
		gate := make(chan struct{})
		handler := func(ctx context.Context, a *worker.Attempt) worker.Result {
			if string(a.Request.Message) == `"quick"` {
				return done(`"quick"`)
			}
			all := ""
			for i := range 5 {
				if i == 3 {
					<-gate // between what the older store has and what it has not
				}
				if i == 2 {
					replies, err := a.Ask(ctx, questions("q"))
					if err != nil {
						return failed(err)
					}
					all += string(replies[0].Value)
				}
				v, err := step(ctx, a, fmt.Sprint(i), func() string {
					ran[fmt.Sprint(i)]++
					return fmt.Sprint(i)
				})
				if err != nil {
					return failed(err)
				}
				all += v
				if i == 3 && ran["3"] == 1 {
					<-ctx.Done() // the process ends behind this step
					return failed(context.Cause(ctx))
				}
			}
			return done(strconv.Quote(all))
		}
		var old, ended, newer worker.Key
		var was task.Record
		onDisk(t, dir, handler, func(t *testing.T, h *house) {
			ended = h.createLasting(`"quick"`, day)
			was = h.ended(ended)
			old = h.createLasting(`{}`, day)
			time.Sleep(time.Second)
			if _, err := h.Answer(t.Context(), old, replies("q", "7")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if err := os.CopyFS(older, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			close(gate)
			newer = h.createLasting(`"quick"`, day)
			h.ended(newer)
			synctest.Wait()
			if ran["3"] != 1 {
				t.Fatalf("the steps ran %v", ran)
			}
		})
		onDisk(t, older, handler, func(t *testing.T, h *house) {
			if _, err := h.Get(t.Context(), newer); !errors.Is(err, worker.ErrUnknown) {
				t.Errorf("the newer task: %v", err)
			}
			if r := h.get(ended); string(r.Outcome.Value) != string(was.Outcome.Value) || r.Updated != was.Updated {
				t.Errorf("the task that had ended is %+v, was %+v", r, was)
			}
			if r := h.ended(old); string(r.Outcome.Value) != `"017234"` || len(r.Questions) != 1 {
				t.Errorf("it ended with kind %d %s", r.Outcome.Kind, r.Outcome.Value)
			}
			for name, want := range map[string]int{"0": 1, "1": 1, "2": 1, "3": 2, "4": 1} {
				if ran[name] != want {
					t.Errorf("step %s ran %d times, want %d", name, ran[name], want)
				}
			}
			all, next, err := h.List(t.Context(), "anon", "demo", 0, 10)
			if err != nil || len(all) != 2 || next != 0 {
				t.Errorf("%d tasks are listed, want 2: %v", len(all), err)
			}
		})
	})
}

package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/internal/nodestore"
	"github.com/troupe-run/troupe/internal/task"
	"github.com/troupe-run/troupe/internal/worker"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }

// house is a pool over a store in memory, with one service whose handler a test sets.
type house struct {
	*worker.Pool
	t    *testing.T
	node *cluster.Node
	runs atomic.Int32

	mu   sync.Mutex // guards run
	run  func(ctx context.Context, a *worker.Attempt) worker.Result
	safe atomic.Bool

	unknown atomic.Bool // the service has no such tool
}

const ttl = time.Hour

// bubble runs f with a house in virtual time.
func bubble(t *testing.T, running int, f func(t *testing.T, h *house)) {
	t.Helper()
	kit.Bubble(t, func(t *testing.T) {
		n, err := cluster.Open(t.Context(), cluster.Options{Lease: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		h := &house{t: t, node: n}
		h.safe.Store(true)
		h.open(running, "boot1")
		f(t, h)
		h.close()
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// open starts a pool, as the next process would.
func (h *house) open(running int, boot string) {
	h.Pool = worker.NewPool(worker.Config{Store: nodestore.NewTasks(h.node), Node: "n", Boot: boot, Running: running})
	h.Mount(h.service())
}

func (h *house) service() worker.Service {
	return worker.Service{ID: "demo", Known: func(string, string) bool { return !h.unknown.Load() }, Safe: func(string, string) bool { return h.safe.Load() }, Run: func(ctx context.Context, a *worker.Attempt) worker.Result {
		h.runs.Add(1)
		h.mu.Lock()
		run := h.run
		h.mu.Unlock()
		return run(ctx, a)
	}}
}

func (h *house) close() {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := h.Close(ctx); err != nil {
		h.t.Errorf("close: %v", err)
	} else if n := h.Kernel.Live(h.TaskKind); n != 0 {
		h.t.Errorf("%d tasks have actors after the end of all that ran", n)
	}
}

func (h *house) handle(f func(ctx context.Context, a *worker.Attempt) worker.Result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.run = f
}

func (h *house) create(request string) worker.Key {
	h.t.Helper()
	s, err := h.Create(h.t.Context(), worker.NewTask{Tenant: "anon", Server: "demo", Revision: "2025-11-25", Method: "tools/call", Name: "x", TTL: ttl,
		Request: worker.Request{Message: json.RawMessage(request)}})
	if err != nil {
		h.t.Fatal(err)
	}
	return s.Key
}

func (h *house) get(key worker.Key) task.Record {
	h.t.Helper()
	s, err := h.Get(h.t.Context(), key)
	if err != nil {
		h.t.Fatal(err)
	}
	return s.Record
}

// ended waits for the end of a task.
func (h *house) ended(key worker.Key) task.Record {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	var r task.Record
	if err := h.Follow(ctx, key, func(s worker.Snapshot) bool { r = s.Record; return r.State != task.Ended }); err != nil {
		h.t.Fatalf("the task does not end: %v; it is in state %d", err, r.State)
	}
	return r
}

func done(v string) worker.Result { return worker.Result{Value: []byte(v)} }

// TestATaskRuns creates tasks of each outcome and reads it.
func TestATaskRuns(t *testing.T) {
	large := `"` + strings.Repeat("x", 1<<20) + `"`
	huge := `"` + strings.Repeat("x", 17<<20) + `"`
	for name, tt := range map[string]struct {
		res   worker.Result
		kind  task.Kind
		value string
	}{
		"a result":         {done(`{"a":1}`), task.Done, `{"a":1}`},
		"a tool's error":   {worker.Result{Value: []byte(`{"isError":true}`), IsError: true}, task.ToolError, `{"isError":true}`},
		"an error":         {worker.Result{Err: mcp.NewError(-32602, "no")}, task.Failed, `{"code":-32602,"message":"no"}`},
		"a large result":   {done(large), task.Done, large},
		"too large":        {done(huge), task.Failed, `{"code":-32603,"message":"the result is larger than 16 MiB, which is what is stored of a task"}`},
		"nothing":          {done(`{}`), task.Done, `{}`},
		"an empty message": {worker.Result{Err: mcp.NewError(-32603, "")}, task.Failed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 4, func(t *testing.T, h *house) {
				h.handle(func(_ context.Context, a *worker.Attempt) worker.Result {
					if string(a.Request.Message) != `{"m":1}` || a.Number != 1 {
						t.Errorf("the handler got %s in attempt %d", a.Request.Message, a.Number)
					}
					return tt.res
				})
				key := h.create(`{"m":1}`)
				r := h.ended(key)
				if r.Outcome.Kind != tt.kind || tt.value != "" && string(r.Outcome.Value) != tt.value {
					t.Errorf("the outcome is %d %.100s, want %d %.100s", r.Outcome.Kind, r.Outcome.Value, tt.kind, tt.value)
				}
				if len(key.ID) != 26 {
					t.Errorf("the id %s has not 130 bits", key.ID)
				}
				time.Sleep(time.Second) // the work is done after the record
				if left, err := h.node.Working(t.Context()); err != nil || len(left) != 0 {
					t.Errorf("work is left: %v, %v", left, err)
				}
				if n := h.runs.Load(); n != 1 {
					t.Errorf("the handler ran %d times", n)
				}
				time.Sleep(ttl + time.Minute)
				if _, err := h.Get(t.Context(), key); !errors.Is(err, worker.ErrUnknown) {
					t.Errorf("after its lifetime: %v", err)
				}
			})
		})
	}
}

// TestAPanicIsAnError: the handler of one task does not end the process, nor hold its place.
func TestAPanicIsAnError(t *testing.T) {
	bubble(t, 1, func(t *testing.T, h *house) {
		h.handle(func(context.Context, *worker.Attempt) worker.Result { panic("oh") })
		for range 3 {
			if r := h.ended(h.create(`{}`)); r.Outcome.Kind != task.Failed {
				t.Errorf("got %+v", r.Outcome)
			}
		}
	})
}

// TestTasksQueue runs no more at a time than there are places, and drops none.
func TestTasksQueue(t *testing.T) {
	bubble(t, 3, func(t *testing.T, h *house) {
		var now, most atomic.Int32
		h.handle(func(context.Context, *worker.Attempt) worker.Result {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(20 * time.Second) // longer than work is kept without a word
			now.Add(-1)
			return done(`{}`)
		})
		var keys []worker.Key
		for range 10 {
			keys = append(keys, h.create(`{}`))
		}
		for _, k := range keys {
			for h.get(k).State != task.Ended {
				time.Sleep(time.Second)
			}
		}
		if most.Load() != 3 || h.runs.Load() != 10 {
			t.Errorf("%d ran at a time, want 3; there were %d runs, want 10", most.Load(), h.runs.Load())
		}
	})
}

// step runs a step of a handler.
func step(ctx context.Context, a *worker.Attempt, name string, f func() string) (string, error) {
	s, err := a.Find(ctx, name)
	if err != nil {
		return "", err
	}
	if s == nil {
		began := time.Now()
		value := f()
		s = &worker.Step{Name: name, Value: json.RawMessage(value)}
		if err := a.Keep(ctx, *s, began); err != nil {
			return "", err
		}
	}
	return string(s.Value), nil
}

// TestStepsRunOnce ends the process in the middle of a task: the next one goes on behind the last step that was stored.
func TestStepsRunOnce(t *testing.T) {
	bubble(t, 4, func(t *testing.T, h *house) {
		var ran []string
		large := `"` + strings.Repeat("y", 1<<20) + `"`
		h.handle(func(ctx context.Context, a *worker.Attempt) worker.Result {
			var got []string
			for i := range 6 {
				if i == 3 && h.runs.Load() == 1 {
					<-ctx.Done() // the process ends here
					return worker.Result{Err: mcp.NewError(-32603, "closing")}
				}
				name := fmt.Sprintf("step %d", i)
				v, err := step(ctx, a, name, func() string {
					ran = append(ran, name)
					if i == 1 {
						return large
					}
					return fmt.Sprint(i)
				})
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				got = append(got, v)
			}
			if got[1] != large || got[2] != "2" || got[5] != "5" {
				t.Errorf("the steps gave %.200q", got)
			}
			return done(`{}`)
		})
		key := h.create(`{}`)
		time.Sleep(2 * time.Second)
		h.close()
		h.open(4, "boot2")
		if r := h.ended(key); r.Outcome.Kind != task.Done || r.Attempt != 1 {
			t.Errorf("it ended with %+v in attempt %d, want 1: a drain loses nothing", r.Outcome, r.Attempt)
		}
		if len(ran) != 6 || !slices.IsSorted(ran) {
			t.Errorf("ran %v", ran)
		}
	})
}

// TestAnAttemptThatWakesLate has an attempt stand still until another one has taken its task over: nothing that it does counts.
func TestAnAttemptThatWakesLate(t *testing.T) {
	bubble(t, 4, func(t *testing.T, h *house) {
		late := make(chan *worker.Attempt, 1)
		wake := make(chan struct{})
		var errs []error
		h.handle(func(ctx context.Context, a *worker.Attempt) worker.Result {
			if h.runs.Load() > 1 {
				if a.Number != 2 {
					t.Errorf("the second attempt is number %d", a.Number)
				}
				_, err := step(ctx, a, "s", func() string { return `"second"` })
				errs = append(errs, err)
				time.Sleep(10 * time.Second)
				return done(`"second"`)
			}
			late <- a
			<-wake
			_, err := step(ctx, a, "s", func() string { t.Error("a step began after the task was taken over"); return `"late"` })
			errs = append(errs, err)
			return done(`"late"`)
		})
		key := h.create(`{}`)
		a := <-late
		// Another process takes the work, as it would when this one has said nothing for five seconds.
		r := h.get(key)
		if _, err := r.BeginAttempt("m", "other", time.Now()); err != nil {
			t.Fatal(err)
		}
		data, _ := json.Marshal(&r)
		s, err := h.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.node.Update(t.Context(), "task.anon.demo."+key.ID, data, s.Rev, ttl); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		close(wake)
		synctest.Wait()
		time.Sleep(time.Second)
		if len(errs) != 1 || !errors.Is(errs[0], worker.ErrTakenOver) {
			t.Errorf("the step of the late attempt: %v", errs)
		}
		if steps, _, err := h.Steps(t.Context(), key, 10); err != nil || len(steps) > 0 {
			t.Errorf("a step is stored: %+v, %v", steps, err)
		}
		if r := h.get(key); r.State != task.Running || r.Boot != "other" {
			t.Errorf("the task is in state %d on %s", r.State, r.Boot)
		}
		_ = a
	})
}

// TestNeverRunsOnce: a task that may not run again ends as lost when its worker was.
func TestNeverRunsOnce(t *testing.T) {
	bubble(t, 4, func(t *testing.T, h *house) {
		h.safe.Store(false)
		h.handle(func(ctx context.Context, a *worker.Attempt) worker.Result { t.Error("it ran"); return done(`{}`) })
		r := task.New(time.Now(), ttl)
		if _, err := r.BeginAttempt("dead", "dead", time.Now()); err != nil { // a process took it, and died
			t.Fatal(err)
		}
		data, _ := json.Marshal(&r)
		key := worker.Key{Tenant: "anon", Server: "demo", ID: "abc"}
		if err := h.node.PutPart(t.Context(), "anon.demo.abc", "req", []byte(`{}`), 0, ttl); err != nil {
			t.Fatal(err)
		}
		if _, err := h.node.Create(t.Context(), "task.anon.demo.abc", data, ttl); err != nil {
			t.Fatal(err)
		}
		if _, err := h.node.Offer(t.Context(), "anon", "demo", "abc", "", ttl); err != nil {
			t.Fatal(err)
		}
		h.close()
		h.open(4, "boot2")
		if r := h.ended(key); r.Outcome.Kind != task.Lost {
			t.Errorf("it ended with %+v", r.Outcome)
		}
	})
}

// TestAToolThatComesLater: a task of a tool that the program has not added yet waits for it, and is no loss.
func TestAToolThatComesLater(t *testing.T) {
	bubble(t, 1, func(t *testing.T, h *house) {
		h.safe.Store(false)
		h.unknown.Store(true)
		h.handle(func(context.Context, *worker.Attempt) worker.Result { return done(`{}`) })
		key := h.create(`{}`)
		time.Sleep(time.Minute)
		if r := h.get(key); r.State != task.Queued {
			t.Errorf("it is in state %d", r.State)
		}
		h.unknown.Store(false)
		if r := h.ended(key); r.Outcome.Kind != task.Done || h.runs.Load() != 1 {
			t.Errorf("it ended with %+v after %d runs", r.Outcome, h.runs.Load())
		}
	})
}

// TestWorkWithoutARecord expires: the process that made it has died before anybody had the id. Meanwhile it runs nothing, and holds up nobody.
func TestWorkWithoutARecord(t *testing.T) {
	bubble(t, 1, func(t *testing.T, h *house) {
		h.handle(func(context.Context, *worker.Attempt) worker.Result { return done(`{}`) })
		if _, err := h.node.Offer(t.Context(), "anon", "demo", "ghost", "", ttl); err != nil {
			t.Fatal(err)
		}
		key := h.create(`{}`)
		h.ended(key)
		time.Sleep(ttl + time.Minute)
		if left, err := h.node.Working(t.Context()); err != nil || len(left) != 0 || h.runs.Load() != 1 {
			t.Errorf("work is left: %v, %v, after %d runs", left, err, h.runs.Load())
		}
		if open, _ := h.Open(); open != 0 {
			t.Errorf("%d tasks are open", open)
		}
	})
}

func questions(keys ...string) (qs []worker.Question) {
	for _, k := range keys {
		qs = append(qs, worker.Question{Key: k, Request: json.RawMessage(`{"method":"elicitation/create"}`)})
	}
	return qs
}

func replies(pairs ...string) map[string]task.Reply {
	all := make(map[string]task.Reply)
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i]] = task.Reply{Value: json.RawMessage(pairs[i+1])}
	}
	return all
}

// TestWaitingHoldsNoPlace has many tasks ask their client, in a node with one place: they wait for days, others run meanwhile, and
// each goes on where it was.
func TestWaitingHoldsNoPlace(t *testing.T) {
	bubble(t, 1, func(t *testing.T, h *house) {
		h.handle(func(ctx context.Context, a *worker.Attempt) worker.Result {
			if string(a.Request.Message) == `"quick"` {
				return done(`{}`)
			}
			before := h.runs.Load()
			answers, err := a.Ask(ctx, questions("name", "age"))
			if err != nil {
				t.Errorf("ask: %v", err)
				return done(`{}`)
			}
			if h.runs.Load() < before {
				t.Error("it is another run")
			}
			again, err := a.Ask(ctx, questions("name"))
			if err != nil || !bytes.Equal(again[0].Value, answers[0].Value) {
				t.Errorf("the same question again: %v, %v", again, err)
			}
			return done(fmt.Sprintf(`[%s,%s]`, answers[0].Value, answers[1].Value))
		})
		const n = 20
		var keys []worker.Key
		for range n {
			keys = append(keys, h.create(`"ask"`))
		}
		time.Sleep(time.Second)
		if running, waiting := h.Counts(); running != 0 || waiting != n {
			t.Errorf("%d run and %d wait, want 0 and %d", running, waiting, n)
		}
		if r := h.ended(h.create(`"quick"`)); r.Outcome.Kind != task.Done {
			t.Errorf("another task ended with %+v", r.Outcome)
		}
		time.Sleep(30 * time.Minute)
		for i, k := range keys {
			if r := h.get(k); r.State != task.Waiting || len(r.OpenQuestions()) != 2 {
				t.Fatalf("task %d is in state %d with %d questions", i, r.State, len(r.OpenQuestions()))
			}
			if _, err := h.Answer(t.Context(), k, replies("name", `"a"`, "nobody", `1`)); err != nil {
				t.Fatal(err)
			}
			if r := h.get(k); r.State != task.Waiting || len(r.OpenQuestions()) != 1 || r.OpenQuestions()[0].Key != "age" {
				t.Errorf("after one answer: state %d, %+v", r.State, r.OpenQuestions())
			}
			if _, err := h.Answer(t.Context(), k, replies("name", `"b"`, "age", fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
			if r := h.ended(k); string(r.Outcome.Value) != fmt.Sprintf(`["a",%d]`, i) {
				t.Errorf("task %d ended with %s", i, r.Outcome.Value)
			}
		}
		if _, err := h.Answer(t.Context(), keys[0], replies("age", `1`)); err != nil {
			t.Errorf("an answer to a task that has ended: %v", err)
		}
		if n := h.runs.Load(); n != 21 {
			t.Errorf("there were %d runs, want 21", n)
		}
	})
}

// TestAnswersOverARestart ends the process while a task waits: the answer has it run again, and no question is asked twice.
func TestAnswersOverARestart(t *testing.T) {
	bubble(t, 2, func(t *testing.T, h *house) {
		h.handle(func(ctx context.Context, a *worker.Attempt) worker.Result {
			first, err := a.Ask(ctx, questions("one"))
			if err != nil {
				return worker.Result{Err: mcp.NewError(-32603, err.Error())}
			}
			second, err := a.Ask(ctx, questions("two"))
			if err != nil {
				return worker.Result{Err: mcp.NewError(-32603, err.Error())}
			}
			return done(fmt.Sprintf(`[%s,%s]`, first[0].Value, second[0].Value))
		})
		key := h.create(`{}`)
		for i, k := range []string{"one", "two"} {
			time.Sleep(time.Second)
			h.close()
			h.open(2, fmt.Sprint("boot", i+2))
			time.Sleep(time.Minute)
			r := h.get(key)
			if r.State != task.Waiting || len(r.OpenQuestions()) != 1 || r.OpenQuestions()[0].Key != k {
				t.Fatalf("state %d, open %+v", r.State, r.OpenQuestions())
			}
			if _, err := h.Answer(t.Context(), key, replies(k, fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
		}
		if r := h.ended(key); string(r.Outcome.Value) != `[0,1]` || len(r.Questions) != 2 || r.Attempt != 1 {
			t.Errorf("it ended with %s after %d questions in attempt %d", r.Outcome.Value, len(r.Questions), r.Attempt)
		}
	})
}

// TestCancel cancels tasks in each state: the handler's context ends, and nothing changes the task any more.
func TestCancel(t *testing.T) {
	bubble(t, 1, func(t *testing.T, h *house) {
		causes := make(chan error, 3)
		h.handle(func(ctx context.Context, a *worker.Attempt) worker.Result {
			if string(a.Request.Message) == `"ask"` {
				_, err := a.Ask(ctx, questions("q"))
				causes <- err
				return done(`{}`)
			}
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return done(`{}`) // it has finished nevertheless
		})
		cancel := func(key worker.Key) {
			t.Helper()
			if _, err := h.Cancel(t.Context(), key); err != nil {
				t.Errorf("cancel: %v", err)
			}
			if _, err := h.Cancel(t.Context(), key); !errors.Is(err, task.ErrEnded) {
				t.Errorf("cancel twice: %v", err)
			}
			time.Sleep(time.Second)
			if r := h.get(key); r.Outcome == nil || r.Outcome.Kind != task.Cancelled {
				t.Errorf("it ended with %+v", r.Outcome)
			}
		}
		asks := h.create(`"ask"`)
		time.Sleep(time.Second)
		cancel(asks)
		running := h.create(`{}`)
		time.Sleep(time.Second)
		queued := h.create(`{}`)
		time.Sleep(time.Second)
		cancel(queued)
		cancel(running)
		for range 2 {
			if cause := <-causes; !errors.Is(cause, worker.ErrCancelled) {
				t.Errorf("the cause is %v", cause)
			}
		}
		if n, _ := h.Counts(); n != 0 || h.runs.Load() != 2 {
			t.Errorf("%d run, there were %d runs", n, h.runs.Load())
		}
		if _, err := h.Cancel(t.Context(), worker.Key{Tenant: "other", Server: "demo", ID: running.ID}); !errors.Is(err, worker.ErrUnknown) {
			t.Errorf("cancel another's task: %v", err)
		}
	})
}

// TestExpiry ends handlers with their task's lifetime, whether they run or wait; nothing is left in the store.
func TestExpiry(t *testing.T) {
	bubble(t, 4, func(t *testing.T, h *house) {
		causes := make(chan error, 2)
		h.handle(func(ctx context.Context, a *worker.Attempt) worker.Result {
			if string(a.Request.Message) == `"ask"` {
				_, err := a.Ask(ctx, questions("q"))
				causes <- err
			} else {
				_, _ = step(ctx, a, "s", func() string { return `1` })
				<-ctx.Done()
				causes <- context.Cause(ctx)
			}
			return done(`{}`)
		})
		h.create(`"ask"`)
		h.create(`{}`)
		time.Sleep(ttl + time.Minute)
		for range 2 {
			if cause := <-causes; !errors.Is(cause, worker.ErrExpired) {
				t.Errorf("the cause is %v", cause)
			}
		}
		st := h.node.Stats()
		if n := st.Streams["tasks"].Messages + st.Streams["work"].Messages; n != 0 {
			t.Errorf("%d messages are left", n)
		}
		if running, waiting := h.Counts(); running+waiting != 0 {
			t.Errorf("%d run and %d wait", running, waiting)
		}
	})
}

// TestList lists the tasks of a tenant in pages.
func TestList(t *testing.T) {
	bubble(t, 4, func(t *testing.T, h *house) {
		h.handle(func(context.Context, *worker.Attempt) worker.Result { return done(`{}`) })
		want := make(map[string]bool)
		for range 7 {
			k := h.create(`{}`)
			h.ended(k)
			want[k.ID] = true
		}
		pages := 0
		for from, more := uint64(0), true; more; pages++ {
			all, next, err := h.List(t.Context(), "anon", "demo", from, 3)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range all {
				if !want[s.Key.ID] {
					t.Errorf("%s comes twice, or is none of them", s.Key.ID)
				}
				delete(want, s.Key.ID)
			}
			from, more = next, next != 0
		}
		if len(want) != 0 || pages != 3 {
			t.Errorf("%d are missing after %d pages", len(want), pages)
		}
	})
}

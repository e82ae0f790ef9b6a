package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/internal/nodestore"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/task"
	"github.com/troupe-run/troupe/internal/worker"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
)

// faulty is a store whose calls a test may delay or fail.
type faulty struct {
	worker.Store
	part   func() error
	offer  func() error
	create func()
	peek   func()
	get    func(ctx context.Context, key string) ([]byte, uint64, error)
	update func(ctx context.Context, key string, data []byte, rev uint64, ttl time.Duration) (uint64, error)
}

func (f *faulty) Part(ctx context.Context, task, name string) ([]byte, error) {
	if f.part != nil {
		if err := f.part(); err != nil {
			return nil, err
		}
	}
	return f.Store.Part(ctx, task, name)
}

func (f *faulty) Offer(ctx context.Context, tenant, server, task, from string, ttl time.Duration) (uint64, error) {
	if f.offer != nil {
		if err := f.offer(); err != nil {
			return 0, err
		}
	}
	return f.Store.Offer(ctx, tenant, server, task, from, ttl)
}

func (f *faulty) Create(ctx context.Context, key string, data []byte, ttl time.Duration) (uint64, error) {
	if f.create != nil {
		f.create()
	}
	return f.Store.Create(ctx, key, data, ttl)
}

func (f *faulty) Peek(ctx context.Context, key string) ([]byte, uint64, error) {
	if f.peek != nil {
		f.peek()
	}
	return f.Store.Peek(ctx, key)
}

func (f *faulty) Get(ctx context.Context, key string) ([]byte, uint64, error) {
	if f.get != nil {
		return f.get(ctx, key)
	}
	return f.Store.Get(ctx, key)
}

func (f *faulty) Update(ctx context.Context, key string, data []byte, rev uint64, ttl time.Duration) (uint64, error) {
	if f.update != nil {
		return f.update(ctx, key, data, rev, ttl)
	}
	return f.Store.Update(ctx, key, data, rev, ttl)
}

// deaf is a store whose queues overlook what is new until they are asked again.
type deaf struct{ worker.Store }

func (d deaf) Work(ctx context.Context, server string) (worker.Queue, error) {
	q, err := d.Store.Work(ctx, server)
	return deafQueue{q}, err
}

type deafQueue struct{ worker.Queue }

func (deafQueue) Next(ctx context.Context) (worker.Work, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func (q deafQueue) Poke() (worker.Work, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if w, err := q.Queue.Next(ctx); err == nil {
		return w, nil
	}
	return nil, nil
}

// TestOverlookedWorkIsAskedFor: a task runs soon although its queue does not tell of it.
func TestOverlookedWorkIsAskedFor(t *testing.T) {
	withFaults(t, func(t *testing.T, h *house, s *faulty) {
		h.close()
		h.over(deaf{s}, "boot2")
		h.handle(func(context.Context, *worker.Attempt) worker.Result { return done(`{}`) })
		start := time.Now()
		h.good(h.create(`{}`), 1)
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// withFaults runs f with a house over such a store. Tasks may not run again: a run too many ends one as lost.
func withFaults(t *testing.T, f func(t *testing.T, h *house, s *faulty)) {
	t.Helper()
	kit.Bubble(t, func(t *testing.T) {
		n, err := cluster.Open(t.Context(), cluster.Options{Lease: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		h, s := &house{t: t, node: n}, &faulty{Store: nodestore.NewTasks(n)}
		h.over(s, "boot1")
		f(t, h, s)
		h.close()
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

func (h *house) over(s worker.Store, boot string) {
	h.Pool = worker.NewPool(worker.Config{Store: s, Node: "n", Boot: boot, Running: 4})
	h.Mount(h.service())
}

// good fails the test unless a task ends with a result after a number of runs.
func (h *house) good(key worker.Key, runs int32) {
	h.t.Helper()
	if r := h.ended(key); r.Outcome.Kind != task.Done || h.runs.Load() != runs {
		h.t.Errorf("it ended with kind %d %s after %d runs, want a result after %d", r.Outcome.Kind, r.Outcome.Value, h.runs.Load(), runs)
	}
}

func asks(ctx context.Context, a *worker.Attempt) worker.Result {
	if _, err := a.Ask(ctx, questions("q")); err != nil {
		return worker.Result{Err: mcp.NewError(-32603, err.Error())}
	}
	return done(`{}`)
}

// TestARequestThatCannotBeReadNow: an attempt does not begin before it has all that it needs.
func TestARequestThatCannotBeReadNow(t *testing.T) {
	withFaults(t, func(t *testing.T, h *house, s *faulty) {
		failures := 3
		s.part = func() error {
			if failures--; failures >= 0 {
				return store.ErrUnavailable
			}
			return nil
		}
		h.handle(func(context.Context, *worker.Attempt) worker.Result { return done(`{}`) })
		h.good(h.create(`{}`), 1)
	})
}

// TestAnUnknownWriteIsFoundOut: a write without an answer that was done after all is not a loss.
func TestAnUnknownWriteIsFoundOut(t *testing.T) {
	withFaults(t, func(t *testing.T, h *house, s *faulty) {
		n := 0
		s.update = func(ctx context.Context, key string, data []byte, rev uint64, ttl time.Duration) (uint64, error) {
			switch n++; n {
			case 1:
				return 0, store.ErrUnavailable
			case 2: // the first one arrives now
				if _, err := s.Store.Update(ctx, key, data, rev, ttl); err != nil {
					t.Error(err)
				}
			}
			return s.Store.Update(ctx, key, data, rev, ttl)
		}
		h.handle(func(context.Context, *worker.Attempt) worker.Result { return done(`{}`) })
		h.good(h.create(`{}`), 1)
	})
}

// TestARecordThatKeepsChanging: an attempt that cannot begin for a minute, as others change the record, asks ever more
// seldom, and begins afterwards.
func TestARecordThatKeepsChanging(t *testing.T) {
	withFaults(t, func(t *testing.T, h *house, s *faulty) {
		tries, over := 0, time.Now().Add(time.Minute)
		s.update = func(ctx context.Context, key string, data []byte, rev uint64, ttl time.Duration) (uint64, error) {
			if tries++; time.Now().Before(over) {
				return 0, store.ErrConflict
			}
			return s.Store.Update(ctx, key, data, rev, ttl)
		}
		h.handle(func(context.Context, *worker.Attempt) worker.Result { return done(`{}`) })
		key := h.create(`{}`)
		time.Sleep(2 * time.Minute)
		h.good(key, 1)
		if tries > 200 {
			t.Errorf("it asked %d times", tries)
		}
	})
}

// TestTwoAnswersAtOnce have two work messages for one task, one of which begins an attempt.
func TestTwoAnswersAtOnce(t *testing.T) {
	withFaults(t, func(t *testing.T, h *house, s *faulty) {
		h.safe.Store(true)
		h.handle(asks)
		key := h.create(`{}`)
		time.Sleep(time.Second)
		h.close()
		h.over(s, "boot2")
		time.Sleep(time.Second)
		synctest.Wait()
		s.update = func(ctx context.Context, key string, data []byte, rev uint64, ttl time.Duration) (uint64, error) {
			defer time.Sleep(20 * time.Millisecond) // the answer comes late
			return s.Store.Update(ctx, key, data, rev, ttl)
		}
		var both, answered sync.WaitGroup
		both.Add(2)
		var offers atomic.Int32
		s.offer = func() error { // both have read the record
			if offers.Add(1) <= 2 {
				both.Done()
				both.Wait()
			}
			return nil
		}
		for range 2 {
			answered.Go(func() {
				if _, err := h.Answer(t.Context(), key, replies("q", "1")); err != nil {
					t.Error(err)
				}
			})
		}
		answered.Wait()
		h.good(key, 2)
		if r := h.get(key); r.Attempt != 1 {
			t.Errorf("attempt %d: none was lost", r.Attempt)
		}
	})
}

// TestAskAgainAfterGivingUp: the same question, asked again, waits for its answer.
func TestAskAgainAfterGivingUp(t *testing.T) {
	withFaults(t, func(t *testing.T, h *house, _ *faulty) {
		h.handle(func(ctx context.Context, a *worker.Attempt) worker.Result {
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			if _, err := a.Ask(short, questions("q")); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("it waited no longer than its context: %v", err)
			}
			go func() {
				time.Sleep(time.Second)
				if err := a.Say(ctx, "still waiting"); err != nil {
					t.Errorf("say while it waits: %v", err)
				}
			}()
			got, err := a.Ask(ctx, questions("q", "r"))
			if err != nil || string(got[0].Value) != "1" || string(got[1].Value) != "2" {
				t.Errorf("got %v, %v", got, err)
			}
			return done(`{}`)
		})
		key := h.create(`{}`)
		time.Sleep(time.Minute)
		if r := h.get(key); len(r.OpenQuestions()) != 2 || r.Message != "still waiting" {
			t.Errorf("open: %v, message %q", r.OpenQuestions(), r.Message)
		}
		if _, err := h.Answer(t.Context(), key, replies("q", "1", "r", "2")); err != nil {
			t.Fatal(err)
		}
		h.good(key, 1)
	})
}

// TestAHandlerGoesOnWithAPlace: one that waits for two answers has one of them, and asks for that alone. It goes on once it has a place again.
func TestAHandlerGoesOnWithAPlace(t *testing.T) {
	withFaults(t, func(t *testing.T, h *house, _ *faulty) {
		h.handle(func(ctx context.Context, a *worker.Attempt) worker.Result {
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, _ = a.Ask(short, questions("q", "r"))
			time.Sleep(10 * time.Second)
			if err := a.Say(ctx, "on"); err != nil { // it reads the answer
				t.Error(err)
			}
			got, err := a.Ask(ctx, questions("q"))
			if err != nil || string(got[0].Value) != "1" {
				t.Errorf("got %v, %v", got, err)
			}
			if running, waiting := h.Counts(); waiting != 0 {
				t.Errorf("%d run and %d wait, as the handler goes on", running, waiting)
			}
			return done(`{}`)
		})
		key := h.create(`{}`)
		time.Sleep(5 * time.Second)
		if _, err := h.Answer(t.Context(), key, replies("q", "1")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(15 * time.Second)
		if _, err := h.Answer(t.Context(), key, replies("r", "2")); err != nil {
			t.Fatal(err)
		}
		h.good(key, 1)
	})
}

// TestAHandlerThatGivesUpWaiting ends its task, which nobody has to answer any more.
func TestAHandlerThatGivesUpWaiting(t *testing.T) {
	withFaults(t, func(t *testing.T, h *house, _ *faulty) {
		h.handle(func(ctx context.Context, a *worker.Attempt) worker.Result {
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, _ = a.Ask(short, questions("q"))
			return done(`"without"`)
		})
		key := h.create(`{}`)
		h.good(key, 1)
		if _, err := h.Answer(t.Context(), key, replies("q", "1")); err != nil {
			t.Errorf("an answer that comes late: %v", err)
		}
		for range 10 { // all places are there
			h.ended(h.create(`{}`))
		}
		synctest.Wait() // an attempt is forgotten after its outcome is known
		if running, waiting := h.Counts(); running != 0 || waiting != 0 {
			t.Errorf("%d run, %d wait", running, waiting)
		}
	})
}

// TestCreateAcrossARemount: a server that was taken off and mounted again meanwhile runs the task.
func TestCreateAcrossARemount(t *testing.T) {
	withFaults(t, func(t *testing.T, h *house, s *faulty) {
		h.handle(func(context.Context, *worker.Attempt) worker.Result { return done(`{}`) })
		var once sync.Once
		s.offer = func() error {
			once.Do(func() {
				h.Unmount("demo")
				h.Mount(h.service())
				time.Sleep(time.Second) // it finds no work
			})
			return nil
		}
		h.good(h.create(`{}`), 1)
	})
}

// TestAPoolEndsBesideALateRecord: work that waits for its record does not hold up the end of its pool.
func TestAPoolEndsBesideALateRecord(t *testing.T) {
	withFaults(t, func(t *testing.T, h *house, s *faulty) {
		s.create = func() { time.Sleep(10 * time.Second) }
		h.handle(func(context.Context, *worker.Attempt) worker.Result { return done(`{}`) })
		var created sync.WaitGroup
		created.Go(func() { h.create(`{}`) })
		time.Sleep(time.Second)
		began := time.Now()
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v to close", took)
		}
		created.Wait()
	})
}

// TestAnAnswerThatTakesAMinuteToStore: the work of a task that is queued again comes before its record, and is there for as long as that takes.
func TestAnAnswerThatTakesAMinuteToStore(t *testing.T) {
	withFaults(t, func(t *testing.T, h *house, s *faulty) {
		h.handle(asks)
		key := h.create(`{}`)
		time.Sleep(time.Second)
		synctest.Wait()
		var away atomic.Bool
		away.Store(true)
		s.update = func(ctx context.Context, key string, data []byte, rev uint64, ttl time.Duration) (uint64, error) {
			if away.Load() {
				time.Sleep(5 * time.Second)
				return 0, store.ErrRetry
			}
			return s.Store.Update(ctx, key, data, rev, ttl)
		}
		var offers atomic.Int32
		s.offer = func() error {
			offers.Add(1)
			return nil
		}
		time.AfterFunc(time.Minute, func() { away.Store(false) })
		if _, err := h.Answer(t.Context(), key, replies("q", "1")); err != nil {
			t.Errorf("the answer: %v", err)
		}
		time.Sleep(2 * time.Minute)
		h.good(key, 1)
		if n := offers.Load(); n != 1 {
			t.Errorf("its work was offered %d times", n)
		}
	})
}

// TestCancelBeforeTheHandlerRuns: the cancel comes when the attempt has begun, and its handler has not.
func TestCancelBeforeTheHandlerRuns(t *testing.T) {
	withFaults(t, func(t *testing.T, h *house, s *faulty) {
		h.handle(func(ctx context.Context, a *worker.Attempt) worker.Result {
			<-ctx.Done()
			return done(`{}`)
		})
		s.update = func(ctx context.Context, key string, data []byte, rev uint64, ttl time.Duration) (uint64, error) {
			next, err := s.Store.Update(ctx, key, data, rev, ttl)
			var r task.Record
			if json.Unmarshal(data, &r) == nil && r.State == task.Running {
				time.Sleep(time.Second)
			}
			return next, err
		}
		key := h.create(`{}`)
		for h.get(key).State != task.Running {
			time.Sleep(time.Millisecond)
		}
		if _, err := h.Cancel(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if running, _ := h.Counts(); running != 0 {
			t.Errorf("%d run: the handler was not told", running)
		}
	})
}

// TestADrainKeepsItsWork: while a handler finishes in a node that closes, no other node takes its task.
func TestADrainKeepsItsWork(t *testing.T) {
	withFaults(t, func(t *testing.T, h *house, s *faulty) {
		h.handle(func(context.Context, *worker.Attempt) worker.Result {
			time.Sleep(20 * time.Second) // it finishes what it has
			return done(`{}`)
		})
		key := h.create(`{}`)
		time.Sleep(time.Second)
		other := worker.NewPool(worker.Config{Store: s, Node: "m", Boot: "b", Running: 4, Shared: true})
		other.Mount(h.service())
		h.close()
		h.good(key, 1)
		if err := other.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// TestTooMuchIsAsked: questions and answers that would leave the record no room are refused, and the task goes on.
func TestTooMuchIsAsked(t *testing.T) {
	withFaults(t, func(t *testing.T, h *house, _ *faulty) {
		h.handle(func(ctx context.Context, a *worker.Attempt) worker.Result {
			large := worker.Question{Key: "large", Request: json.RawMessage(`"` + strings.Repeat("x", 300<<10) + `"`)}
			if _, err := a.Ask(ctx, []worker.Question{large}); !errors.Is(err, actors.ErrTooMuchInput) {
				t.Errorf("a question of 300 KiB: %v", err)
			}
			return asks(ctx, a)
		})
		key := h.create(`{}`)
		time.Sleep(time.Second)
		if _, err := h.Answer(t.Context(), key, replies("q", `"`+strings.Repeat("y", 300<<10)+`"`)); !errors.Is(err, worker.ErrTooMuch) {
			t.Errorf("an answer of 300 KiB: %v", err)
		}
		if _, err := h.Answer(t.Context(), key, replies("q", `1`)); err != nil {
			t.Fatal(err)
		}
		h.good(key, 1)
	})
}

// slow is a store whose answers to stored parts a test may hold back.
type slow struct {
	*faulty
	answered func()
}

func (s *slow) PutPart(ctx context.Context, path, name string, data []byte, rev uint64, ttl time.Duration) error {
	err := s.Store.PutPart(ctx, path, name, data, rev, ttl)
	if strings.HasPrefix(name, "s-") {
		s.answered()
	}
	return err
}

// TestAnAnswerThatWaited: a process stands still between the storing of a step and its answer, and another takes the task over meanwhile.
// The next step does not begin.
func TestAnAnswerThatWaited(t *testing.T) {
	withFaults(t, func(t *testing.T, h *house, s *faulty) {
		h.close()
		var key worker.Key
		h.over(&slow{s, func() {
			time.Sleep(10 * time.Second)
			snap, err := h.Get(t.Context(), key)
			if err != nil {
				t.Error(err)
			}
			r := snap.Record
			if _, err := r.BeginAttempt("m", "other", time.Now()); err != nil {
				t.Error(err)
			}
			data, _ := json.Marshal(&r)
			if _, err := h.node.Update(t.Context(), "task.anon.demo."+key.ID, data, snap.Rev, ttl); err != nil {
				t.Error(err)
			}
		}}, "boot2")
		made := make(chan struct{})
		got := make(chan error, 2)
		h.handle(func(ctx context.Context, a *worker.Attempt) worker.Result {
			<-made
			for _, name := range []string{"first", "next"} {
				_, err := step(ctx, a, name, func() string {
					if name == "next" {
						t.Error("the next step began")
					}
					return `1`
				})
				got <- err
			}
			return done(`{}`)
		})
		key = h.create(`{}`)
		close(made)
		if err := <-got; err != nil {
			t.Errorf("the step that was stored: %v", err)
		}
		if err := <-got; !errors.Is(err, worker.ErrTakenOver) {
			t.Errorf("the next step: %v, want %v", err, worker.ErrTakenOver)
		}
	})
}

// asked counts how the records of a client's request are asked for: for certain, which may cost a write, or not. What
// the pool reads by itself, such as a task that has just ended, has no clientKey in its context.
type asked struct {
	worker.Store
	certain, not atomic.Int32
}

type clientKey struct{}

func (a *asked) Get(ctx context.Context, key string) ([]byte, uint64, error) {
	if ctx.Value(clientKey{}) != nil {
		a.certain.Add(1)
	}
	return a.Store.Get(ctx, key)
}

func (a *asked) Peek(ctx context.Context, key string) ([]byte, uint64, error) {
	if ctx.Value(clientKey{}) != nil {
		a.not.Add(1)
	}
	return a.Store.Peek(ctx, key)
}

// TestGuessesCostNoWrite: that a task is not there is only concluded for an id that a node of the store has made.
func TestGuessesCostNoWrite(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		n, err := cluster.Open(t.Context(), cluster.Options{Lease: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		s := &asked{Store: nodestore.NewTasks(n)}
		h := &house{t: t, node: n}
		h.Pool = worker.NewPool(worker.Config{Store: s, Node: "n", Boot: "boot1", Running: 4, Tag: n.Keys().Tag})
		h.Mount(h.service())
		h.handle(func(context.Context, *worker.Attempt) worker.Result { return done(`{}`) })
		key := h.create(`{}`)
		if h.ended(key); !key.Valid() {
			t.Errorf("the id of a task is %q", key.ID)
		}
		for _, tt := range []struct {
			name    string
			key     worker.Key
			certain bool
			there   bool
		}{
			{"a task", key, true, true},
			{"the same of another tenant", worker.Key{Tenant: "bob", Server: key.Server, ID: key.ID}, false, false},
			{"a guess", worker.Key{Tenant: key.Tenant, Server: key.Server, ID: key.ID[:13] + strings.Repeat("a", 13)}, false, false},
		} {
			s.certain.Store(0)
			s.not.Store(0)
			ctx := context.WithValue(t.Context(), clientKey{}, true)
			if _, err := h.Get(ctx, tt.key); (err == nil) != tt.there {
				t.Errorf("%s: %v", tt.name, err)
			}
			if certain := s.certain.Load() > 0; certain != tt.certain || certain == (s.not.Load() > 0) {
				t.Errorf("%s: asked for certain %d times, and %d times not", tt.name, s.certain.Load(), s.not.Load())
			}
		}
		h.close()
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

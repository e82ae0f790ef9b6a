package worker_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/nodestore"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/task"
	"github.com/troupe-run/troupe/internal/worker"
)

// counting is a store that counts how often work is offered and withdrawn.
type counting struct {
	worker.Store
	offers, withdrawn atomic.Int32
	ahead             time.Duration // of the clock of this process
	blind             atomic.Int32  // so many questions for work are answered by a leader that was replaced, which has none
}

func (c *counting) Offer(ctx context.Context, tenant, server, task, from string, ttl time.Duration) (uint64, error) {
	c.offers.Add(1)
	return c.Store.Offer(ctx, tenant, server, task, from, ttl)
}

func (c *counting) Withdraw(ctx context.Context, seq uint64) error {
	c.withdrawn.Add(1)
	return c.Store.Withdraw(ctx, seq)
}

func (c *counting) HasWork(ctx context.Context, tenant, server, task string, seq uint64) (bool, error) {
	if c.blind.Add(-1) >= 0 {
		return false, nil
	}
	return c.Store.HasWork(ctx, tenant, server, task, seq)
}

func (c *counting) Now() time.Time { return c.Store.Now().Add(c.ahead) }

// loses removes the work of a task, and leaves its record.
func (h *house) loses(key worker.Key) {
	h.t.Helper()
	r := h.get(key)
	if r.Work == 0 {
		h.t.Fatalf("the record of a task in state %d does not say which its work is", r.State)
	}
	if err := h.node.Withdraw(h.t.Context(), r.Work); err != nil {
		h.t.Fatal(err)
	}
}

// TestLostWorkIsOfferedAgain has tasks whose work was removed, of which one runs and others are queued, and tasks that have theirs, in the same process and in the next one. All run,
// those that lost nothing are offered once, and the one that runs does so once while its process lives.
func TestLostWorkIsOfferedAgain(t *testing.T) {
	for _, row := range []struct {
		name    string
		restart bool
		offers  int32 // beside those of the creations
		runs    int32
	}{{"the same process", false, 2, 5}, {"the next process", true, 3, 6}} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, h *house) {
				h.close()
				s := &counting{Store: nodestore.NewTasks(h.node)}
				open := func(boot string, running int) {
					h.Pool = worker.NewPool(worker.Config{Store: s, Node: "n", Boot: boot, Running: running})
					h.Mount(h.service())
				}
				var quick atomic.Bool
				h.handle(func(ctx context.Context, a *worker.Attempt) worker.Result {
					wait := 20 * time.Minute
					if quick.Load() {
						wait = 0
					}
					select {
					case <-time.After(wait):
						return done(`{}`)
					case <-ctx.Done():
						return failed(context.Cause(ctx))
					}
				})
				open("boot1", 1)
				keys := []worker.Key{h.create(`"runs"`)}
				time.Sleep(time.Second)
				for range 4 {
					keys = append(keys, h.create(`"queued"`))
				}
				time.Sleep(time.Second)
				synctest.Wait()
				h.loses(keys[0])
				h.loses(keys[1])
				h.loses(keys[2])
				if row.restart {
					// It dies: a process that closes gives its tasks back, and knows of their work.
					stale, _ := task.Decode(must(h, keys[0]))
					h.close()
					r := h.get(keys[0])
					stale.Epoch = r.Epoch
					h.put(keys[0], stale)
					quick.Store(true)
					open("boot2", 1)
				}
				if open, _ := h.Open(); open == 0 && !row.restart {
					t.Error("no task is open")
				}
				time.Sleep(11 * time.Minute)
				quick.Store(true)
				time.Sleep(10 * time.Minute)
				for i, key := range keys {
					if r := h.ended(key); r.Outcome.Kind != task.Done {
						t.Errorf("task %d ended with %+v", i, r.Outcome)
					}
				}
				if n := s.offers.Load() - int32(len(keys)); n != row.offers {
					t.Errorf("work was offered again %d times, want %d", n, row.offers)
				}
				if n := h.runs.Load(); n != row.runs {
					t.Errorf("%d runs, want %d", n, row.runs)
				}
			})
		})
	}
}

func must(h *house, key worker.Key) []byte {
	h.t.Helper()
	data, _, err := h.node.Get(h.t.Context(), "task."+key.Tenant+"."+key.Server+"."+key.ID)
	if err != nil {
		h.t.Fatal(err)
	}
	return data
}

// put stores a record over the one that is there.
func (h *house) put(key worker.Key, r task.Record) {
	h.t.Helper()
	name := "task." + key.Tenant + "." + key.Server + "." + key.ID
	_, rev, err := h.node.Get(h.t.Context(), name)
	if err == nil {
		data, _ := json.Marshal(&r)
		_, err = h.node.Update(h.t.Context(), name, data, rev, ttl)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// TestNotThereIsAskedAfterAWrite: a leader that was replaced says that the work of a queued task is not there. What is offered for that is withdrawn, as the stream has the work once it has
// taken a write.
func TestNotThereIsAskedAfterAWrite(t *testing.T) {
	bubble(t, 1, func(t *testing.T, h *house) {
		h.close()
		s := &counting{Store: nodestore.NewTasks(h.node)}
		h.unknown.Store(true) // it waits in the queue
		h.handle(func(context.Context, *worker.Attempt) worker.Result { return done(`{}`) })
		h.Pool = worker.NewPool(worker.Config{Store: s, Node: "n", Boot: "boot1", Running: 1})
		h.Mount(h.service())
		key := h.create(`{}`)
		s.blind.Store(1)
		time.Sleep(11 * time.Minute)
		if o, w := s.offers.Load(), s.withdrawn.Load(); o != 2 || w != 1 {
			t.Errorf("work was offered %d times and withdrawn %d times, want 2 and 1", o, w)
		}
		if r := h.get(key); r.Work == 0 || r.State != task.Queued {
			t.Errorf("the task is in state %d with the work %d", r.State, r.Work)
		}
		h.unknown.Store(false)
		h.good(key, 1)
	})
}

// TestOneProcessComparesTasksWithTheirWork: of three processes that share a store one looks for lost work at a time, and a task that has lost it is offered once. A process that runs a task needs no
// work for that until it is gone.
func TestOneProcessComparesTasksWithTheirWork(t *testing.T) {
	for _, gone := range []bool{false, true} {
		bubble(t, 1, func(t *testing.T, h *house) {
			h.close()
			s := &counting{Store: nodestore.NewTasks(h.node)}
			f := &fleet{Store: s}
			over := make(chan struct{})
			h.handle(func(context.Context, *worker.Attempt) worker.Result {
				<-over
				return done(`{}`)
			})
			a := h.join(f, "a")
			h.Pool = a
			key := h.create(`{}`)
			time.Sleep(time.Second)
			others := []*worker.Pool{h.join(f, "b"), h.join(f, "c")}
			synctest.Wait()
			h.loses(key)
			if gone {
				short, cancel := context.WithTimeout(t.Context(), time.Second)
				if a.Close(short) == nil {
					t.Error("the handler has ended")
				}
				cancel()
				f.dead.Store("a", true)
			}
			time.Sleep(25 * time.Minute)
			want := int32(1)
			if gone {
				want = 2
			}
			if n := s.offers.Load(); n != want {
				t.Errorf("gone %v: work was offered %d times, want %d", gone, n, want)
			}
			close(over)
			if h.Pool = a; gone {
				h.Pool = others[0]
			}
			if r := h.ended(key); r.Outcome.Kind != task.Done {
				t.Errorf("gone %v: it ended with %+v", gone, r.Outcome)
			}
			for _, p := range append(others, a) {
				if err := p.Close(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestAClockThatIsAheadRemovesNoWork: a process takes a task for expired that only its own clock has let expire, while the process that made it is away: as soon as it is given the work, or while it runs
// it. The task runs where the clock is right once there is such a process again, as the work is still there.
func TestAClockThatIsAheadRemovesNoWork(t *testing.T) {
	for _, ahead := range []time.Duration{2 * ttl, ttl / 2} {
		bubble(t, 1, func(t *testing.T, h *house) {
			h.close()
			store := nodestore.NewTasks(h.node)
			f := &fleet{Store: store}
			var quick atomic.Bool
			h.handle(func(ctx context.Context, a *worker.Attempt) worker.Result {
				if quick.Load() {
					return done(`{}`)
				}
				<-ctx.Done()
				return failed(context.Cause(ctx))
			})
			h.unknown.Store(true) // it waits in the queue
			right := h.join(f, "right")
			h.Pool = right
			key := h.create(`{}`)
			time.Sleep(time.Second)
			if err := right.Close(context.Background()); err != nil {
				t.Error(err)
			}
			f.dead.Store("right", true)
			h.unknown.Store(false)
			other := h.join(&fleet{Store: &counting{Store: store, ahead: ahead}}, "ahead")
			time.Sleep(10 * time.Second)
			h.put(key, h.get(key)) // what a process with the right clock stores is kept for as long as the task has
			time.Sleep(ttl / 2)
			quick.Store(true)
			h.Pool = h.join(f, "again")
			time.Sleep(15 * time.Minute)
			if got, err := h.Get(t.Context(), key); err != nil || got.Record.OutcomeKind() != task.Done {
				t.Errorf("%v ahead: the task is in state %d, %v %+v", ahead, got.Record.State, err, got.Record.Runs)
			}
			for _, p := range []*worker.Pool{other, h.Pool} {
				if err := p.Close(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// refusing is a store that gives out no work.
type refusing struct {
	worker.Store
	err atomic.Pointer[error]
}

func (r *refusing) Work(ctx context.Context, server string) (worker.Queue, error) {
	if err := r.err.Load(); err != nil {
		return nil, *err
	}
	return r.Store.Work(ctx, server)
}

// TestNoTaskIsMadeThatNothingRuns: where the store refuses to give out work, or did not open the queue yet, a task is refused and leaves nothing. Once it gives work out, tasks are made.
func TestNoTaskIsMadeThatNothingRuns(t *testing.T) {
	for _, err := range []error{store.ErrNoQueue, store.ErrUnavailable} {
		bubble(t, 1, func(t *testing.T, h *house) {
			h.close()
			s := &refusing{Store: nodestore.NewTasks(h.node)}
			s.err.Store(&err)
			h.handle(func(context.Context, *worker.Attempt) worker.Result { return done(`{}`) })
			h.Pool = worker.NewPool(worker.Config{Store: s, Node: "n", Boot: "boot1", Running: 1})
			h.Mount(h.service())
			if _, got := h.Create(t.Context(), worker.NewTask{Tenant: "anon", Server: "demo", Method: "tools/call", Name: "x", TTL: ttl, Request: worker.Request{Message: []byte(`{}`)}}); got == nil {
				t.Errorf("%v: the task was made", err)
			}
			if open, _ := h.Open(); open != 0 || h.Fault() == nil {
				t.Errorf("%v: %d tasks are open, and the fault is %v", err, open, h.Fault())
			}
			s.err.Store(nil)
			time.Sleep(5 * time.Second)
			h.good(h.create(`{}`), 1)
			if h.Fault() != nil {
				t.Errorf("%v: the fault is still %v", err, h.Fault())
			}
		})
	}
}

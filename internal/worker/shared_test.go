package worker_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/nodestore"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/task"
	"github.com/troupe-run/troupe/internal/worker"
	"github.com/troupe-run/troupe/test/kit/when"
)

// fleet is a store of several processes, which has no leases of its own.
type fleet struct {
	worker.Store
	dead sync.Map // the boots of those that are gone: true; false: nobody can tell

	restarted atomic.Bool // the next process comes again after a crash
}

func (f *fleet) Gone(_ context.Context, _, boot string) (bool, error) {
	dead, ok := f.dead.Load(boot)
	if ok && !dead.(bool) {
		return false, store.ErrUnavailable
	}
	return ok, nil
}

// Reclaim does what that of a node does whose process before has died a moment ago.
func (f *fleet) Reclaim(ctx context.Context, server string, had func(tenant, task string) time.Duration) error {
	if !f.restarted.Load() {
		return nil
	}
	all, err := f.AllTasks(ctx, 0, 1000)
	for _, st := range all {
		if left := had(st.Tenant, st.ID); left > 0 && err == nil {
			_, err = f.Offer(ctx, st.Tenant, server, st.ID, "", left)
		}
	}
	return err
}

// join opens a pool over the store of a house, as a process of its own, with the service.
func (h *house) join(f *fleet, node string) *worker.Pool {
	p := worker.NewPool(worker.Config{Store: f, Node: node, Boot: node, Running: 8, Shared: true})
	p.Mount(h.service())
	return p
}

// TestAnswersOfSharedTasks: a handler that waits goes on where it waits, whichever process takes the answer or is given the work. Where
// its process is gone, or has it mounted no more, the task goes on elsewhere, if it may.
func TestAnswersOfSharedTasks(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	t.Parallel()
	const n = 20
	dies := func(f *fleet, p *worker.Pool) {
		if err := p.Close(context.Background()); err != nil {
			t.Error(err)
		}
		f.dead.Store("a", true)
	}
	for name, tt := range map[string]struct {
		safe   bool
		before func(f *fleet, holder *worker.Pool)
		kind   task.Kind
		runs   int32
	}{
		"once":                  {false, func(*fleet, *worker.Pool) {}, task.Done, n},
		"safe":                  {true, func(*fleet, *worker.Pool) {}, task.Done, n},
		"dead, once":            {false, dies, task.Lost, n},
		"dead, safe":            {true, dies, task.Done, 2 * n},
		"mounted no more, once": {false, func(_ *fleet, p *worker.Pool) { p.Unmount("demo") }, task.Lost, n},
		"mounted no more, safe": {true, func(_ *fleet, p *worker.Pool) { p.Unmount("demo") }, task.Done, 2 * n},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 8, func(t *testing.T, h *house) {
				h.close()
				h.safe.Store(tt.safe)
				h.handle(asks)
				f := &fleet{Store: nodestore.NewTasks(h.node)}
				h.Pool = h.join(f, "a")
				var keys []worker.Key
				for range n {
					keys = append(keys, h.create(`{}`))
				}
				time.Sleep(time.Second)
				synctest.Wait()
				other := h.join(f, "b")
				time.Sleep(time.Second)
				first := h.Pool
				tt.before(f, first)
				h.Pool = other
				time.Sleep(time.Second)
				began := time.Now()
				for _, key := range keys {
					if _, err := h.Answer(t.Context(), key, replies("q", `1`)); err != nil {
						t.Fatal(err)
					}
				}
				for _, key := range keys {
					if r := h.ended(key); r.Outcome.Kind != tt.kind {
						t.Errorf("it ended as %s, want %s: %+v", r.Outcome.Kind, tt.kind, r.Runs)
					}
				}
				if took := time.Since(began); took > 5*time.Second && tt.kind == task.Done || took > 20*time.Second {
					t.Errorf("it took %v", took)
				}
				if runs := h.runs.Load(); runs != tt.runs {
					t.Errorf("%d tasks ran %d times, want %d", n, runs, tt.runs)
				}
				if err := first.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestWorkThatIsOfferedTwice: a task of which there are two works, as after a process was started again or a slow write, runs once, while the
// process that runs it lives.
func TestWorkThatIsOfferedTwice(t *testing.T) {
	t.Parallel()
	for _, safe := range []bool{false, true} {
		bubble(t, 8, func(t *testing.T, h *house) {
			h.close()
			h.safe.Store(safe)
			h.handle(func(ctx context.Context, _ *worker.Attempt) worker.Result {
				select {
				case <-time.After(12 * time.Second): // longer than work is kept without a word
				case <-ctx.Done():
				}
				return done(`{}`)
			})
			f := &fleet{Store: nodestore.NewTasks(h.node)}
			h.Pool = h.join(f, "a")
			var keys []worker.Key
			for range 24 {
				keys = append(keys, h.create(`{}`))
			}
			time.Sleep(time.Second)
			f.restarted.Store(true)
			other := h.join(f, "b")
			for _, key := range keys {
				if r := h.ended(key); r.Outcome.Kind != task.Done {
					t.Errorf("it ended as %s: %+v", r.Outcome.Kind, r.Runs)
				}
			}
			if runs := h.runs.Load(); runs != int32(len(keys)) {
				t.Errorf("%d tasks ran %d times", len(keys), runs)
			}
			if err := other.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}

// away is a store without a queue.
type away struct{ worker.Store }

func (away) Work(context.Context, string) (worker.Queue, error) {
	return nil, store.ErrUnavailable
}

// TestAQueueThatIsAway: while there is no queue, the log says so once a minute.
func TestAQueueThatIsAway(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(t *testing.T, h *house) {
		var log bytes.Buffer
		p := worker.NewPool(worker.Config{Store: away{nodestore.NewTasks(h.node)}, Node: "m", Boot: "m", Running: 1, Shared: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
		p.Mount(h.service())
		time.Sleep(10*time.Minute - time.Second)
		if err := p.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if n := strings.Count(log.String(), "the queue of tasks is interrupted"); n < 9 || n > 10 {
			t.Errorf("in ten minutes it said so %d times", n)
		}
	})
}

// mute is a process whose servers do not hear that it keeps its work.
type mute struct {
	*fleet
	again time.Duration // if not 0, the servers give its work out again after that, as those do that have started again
}

type muteQueue struct {
	worker.Queue
	again time.Duration
}

type muteWork struct{ worker.Work }

func (muteWork) Keep() error { return nil }

func (m mute) Work(ctx context.Context, server string) (worker.Queue, error) {
	q, err := m.fleet.Work(ctx, server)
	return muteQueue{q, m.again}, err
}

func (q muteQueue) Next(ctx context.Context) (worker.Work, error) {
	w, err := q.Queue.Next(ctx)
	if err != nil {
		return nil, err
	}
	if q.again > 0 {
		_ = w.Later(q.again)
	}
	return muteWork{w}, nil
}

// beginMute begins eight tasks that take a while, in a process whose servers do not hear that it keeps its work.
func (h *house) beginMute(safe bool, takes, again time.Duration) (f *fleet, first *worker.Pool, keys []worker.Key) {
	h.close()
	h.safe.Store(safe)
	h.handle(func(ctx context.Context, _ *worker.Attempt) worker.Result {
		select {
		case <-time.After(takes):
		case <-ctx.Done():
		}
		return done(`{}`)
	})
	f = &fleet{Store: nodestore.NewTasks(h.node)}
	h.Pool = worker.NewPool(worker.Config{Store: mute{f, again}, Node: "a", Boot: "a", Running: 8, Shared: true})
	h.Mount(h.service())
	for range 8 {
		keys = append(keys, h.create(`{}`))
	}
	return f, h.Pool, keys
}

// TestAnOutageEndsNoTask: while the servers are away, nobody's work is kept, and leases expire. A task that may not run again is left to its
// process while nobody can tell whether that is there, and ends where it is gone.
func TestAnOutageEndsNoTask(t *testing.T) {
	t.Parallel()
	for _, dead := range []bool{false, true} {
		bubble(t, 8, func(t *testing.T, h *house) {
			f, first, keys := h.beginMute(false, 40*time.Second, 0)
			time.Sleep(time.Second)
			h.Pool = h.join(f, "b")
			f.dead.Store("a", false)
			time.Sleep(10 * time.Second) // the work was given out again
			f.dead.Delete("a")
			if dead {
				f.dead.Store("a", true)
			}
			lost := 0
			for _, key := range keys {
				if r := h.ended(key); r.Outcome.Kind == task.Lost {
					lost++
				}
			}
			if lost > 0 != dead {
				t.Errorf("dead %v: %d tasks were lost", dead, lost)
			}
			if err := first.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOutcomeThatIsStoredLate: the store does not take the outcome of a task for a while, and the task's work, of which the servers have heard
// nothing, is given to the same process again meanwhile. The task has that outcome, and runs once.
func TestOutcomeThatIsStoredLate(t *testing.T) {
	t.Parallel()
	for _, safe := range []bool{false, true} {
		bubble(t, 8, func(t *testing.T, h *house) {
			h.close()
			h.safe.Store(safe)
			h.handle(func(context.Context, *worker.Attempt) worker.Result {
				time.Sleep(time.Second)
				return done(`"late"`)
			})
			stored, back := nodestore.NewTasks(h.node), time.Now().Add(40*time.Second)
			away := &faulty{Store: stored, update: func(ctx context.Context, key string, data []byte, rev uint64, ttl time.Duration) (uint64, error) {
				if time.Now().Before(back) && bytes.Contains(data, []byte("late")) {
					return 0, store.ErrUnavailable
				}
				return stored.Update(ctx, key, data, rev, ttl)
			}}
			h.Pool = worker.NewPool(worker.Config{Store: mute{fleet: &fleet{Store: away}}, Node: "a", Boot: "a", Running: 8, Shared: true})
			h.Mount(h.service())
			if r := h.ended(h.create(`{}`)); r.Outcome.Kind != task.Done || len(r.Runs) != 1 {
				t.Errorf("safe %v: it ended as %s: %+v", safe, r.Outcome.Kind, r.Runs)
			}
		})
	}
}

// unsure is a process that does not have the lease of its node for certain.
type unsure struct {
	worker.Store
	is atomic.Bool
}

func (u *unsure) Suspended() bool { return u.is.Load() }

// TestAProcessWithoutALeaseBeginsNothing: it puts work off, and begins it once it has its lease again.
func TestAProcessWithoutALeaseBeginsNothing(t *testing.T) {
	t.Parallel()
	bubble(t, 8, func(t *testing.T, h *house) {
		h.close()
		u := &unsure{Store: nodestore.NewTasks(h.node)}
		u.is.Store(true)
		h.handle(func(context.Context, *worker.Attempt) worker.Result { return done(`{}`) })
		p := worker.NewPool(worker.Config{Store: u, Node: "m", Boot: "m", Running: 1, Shared: true})
		p.Mount(h.service())
		s, err := p.Create(t.Context(), worker.NewTask{Tenant: "anon", Server: "demo", Revision: "2025-11-25", Method: "tools/call", Name: "x", TTL: ttl,
			Request: worker.Request{Message: []byte(`{}`)}})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if n := h.runs.Load(); n != 0 {
			t.Errorf("it began %d runs without a lease", n)
		}
		u.is.Store(false)
		time.Sleep(2 * time.Second)
		if got, err := p.Get(t.Context(), s.Key); err != nil || got.Record.State != task.Ended || h.runs.Load() != 1 {
			t.Errorf("with a lease again the task is in state %v after %d runs, %v", got.Record.State, h.runs.Load(), err)
		}
		if err := p.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// TestHeardFromAnotherProcess changes a task in one process while another one runs it, and a third one follows it. Those who hear of that
// look at once, and the others when it is time to look.
func TestHeardFromAnotherProcess(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		tell  func(runs, follows *worker.Pool, key worker.Key)
		least time.Duration // until the handler's context ends, and until the follower hears
		most  time.Duration
	}{
		"told":     {func(runs, follows *worker.Pool, key worker.Key) { runs.Heard(key, 0); follows.Heard(key, 0) }, 0, 50 * time.Millisecond},
		"not told": {func(_, _ *worker.Pool, _ worker.Key) {}, 200 * time.Millisecond, 7 * time.Second},
		"of something, and of the task itself": {func(runs, follows *worker.Pool, key worker.Key) {
			runs.Heard(worker.Key{Tenant: key.Tenant, Server: key.Server, ID: "other"}, 0)
			for range 100 {
				runs.Heard(key, 0)
			}
			follows.LookAgain()
		}, 0, 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 8, func(t *testing.T, h *house) {
				h.close()
				ended, heard := make(chan time.Time, 1), make(chan time.Time, 1)
				h.handle(func(ctx context.Context, _ *worker.Attempt) worker.Result {
					<-ctx.Done()
					ended <- time.Now()
					return done(`{}`)
				})
				f := &fleet{Store: nodestore.NewTasks(h.node)}
				runs := h.join(f, "a")
				h.Pool = runs
				key := h.create(`{}`)
				time.Sleep(time.Second)
				unmounted := worker.NewPool(worker.Config{Store: f, Node: "b", Boot: "b", Running: 1, Shared: true})
				follows := worker.NewPool(worker.Config{Store: f, Node: "c", Boot: "c", Running: 1, Shared: true})
				go func() {
					_ = follows.Follow(context.Background(), key, func(s worker.Snapshot) bool {
						if s.Record.State == task.Ended {
							heard <- time.Now()
						}
						return s.Record.State != task.Ended
					})
				}()
				time.Sleep(700 * time.Millisecond)
				began := time.Now()
				if _, err := unmounted.Cancel(t.Context(), key); err != nil {
					t.Fatal(err)
				}
				tt.tell(runs, follows, key)
				for what, at := range map[string]chan time.Time{"the handler": ended, "the follower": heard} {
					if took := (<-at).Sub(began); took < tt.least || took > tt.most {
						t.Errorf("%s heard of it after %v", what, took)
					}
				}
				for _, p := range []*worker.Pool{unmounted, follows} {
					if err := p.Close(context.Background()); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// TestWorkThatComesAgainEarly: work comes again that was given out a moment ago. The process which has it cannot have been silent for so long that
// another run may begin.
func TestWorkThatComesAgainEarly(t *testing.T) {
	t.Parallel()
	bubble(t, 8, func(t *testing.T, h *house) {
		f, first, keys := h.beginMute(true, 3*time.Second, time.Second)
		time.Sleep(500 * time.Millisecond)
		h.Pool = h.join(f, "b")
		for _, key := range keys {
			if r := h.ended(key); r.Outcome.Kind != task.Done || len(r.Runs) != 1 {
				t.Errorf("it ended as %s: %+v", r.Outcome.Kind, r.Runs)
			}
		}
		if err := first.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

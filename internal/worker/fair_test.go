package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/nodestore"
	"github.com/troupe-run/troupe/internal/task"
	"github.com/troupe-run/troupe/internal/worker"
	"github.com/troupe-run/troupe/test/kit/when"
)

// configured replaces the house's pool by one with another configuration.
func (h *house) configured(c worker.Config) {
	h.t.Helper()
	h.close()
	c.Store, c.Node, c.Boot = nodestore.NewTasks(h.node), "n", "boot2"
	h.Pool = worker.NewPool(c)
	h.Mount(h.service())
}

// createFor creates a task of a principal.
func (h *house) createFor(tenant, from string) (worker.Key, error) {
	s, err := h.Create(h.t.Context(), worker.NewTask{Tenant: tenant, From: from, Server: "demo", Revision: "2025-11-25", Method: "tools/call", Name: "x", TTL: ttl,
		Request: worker.Request{Message: json.RawMessage(`{}`)}})
	return s.Key, err
}

// TestNobodyWaitsBehindAFlood: behind a principal that has filled all places and queued 2,000 tasks more, others wait for no more than the
// first places that become free; and none of the 2,000 is dropped.
func TestNobodyWaitsBehindAFlood(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	t.Parallel()
	for name, c := range map[string]worker.Config{
		"in memory":    {Running: 4},
		"in the store": {Running: 4, Shared: true}, // most of the work is put off
	} {
		for who, flood := range map[string][2]string{"a tenant": {"greedy", ""}, "an address": {"anon", "192.0.2.1"}} {
			t.Run(name+" "+who, func(t *testing.T) {
				bubble(t, 1, func(t *testing.T, h *house) {
					h.configured(c)
					const each = 10 * time.Second
					var quick atomic.Bool
					var mu sync.Mutex
					began := make(map[string]time.Time)
					var order []string
					h.handle(func(ctx context.Context, a *worker.Attempt) worker.Result {
						mu.Lock()
						began[a.Key.ID] = time.Now()
						order = append(order, a.Key.ID)
						mu.Unlock()
						if !quick.Load() {
							select {
							case <-time.After(each):
							case <-ctx.Done():
							}
						}
						return done(`{}`)
					})
					must := func(tenant, from string) worker.Key {
						key, err := h.createFor(tenant, from)
						if err != nil {
							t.Fatal(err)
						}
						return key
					}
					flooding := 600
					if !c.Shared && flood[1] == "" {
						flooding = 2004
					}
					var all []worker.Key
					for range flooding {
						all = append(all, must(flood[0], flood[1]))
					}
					time.Sleep(3 * time.Second)
					synctest.Wait()
					if running, _ := h.Counts(); running != 4 {
						t.Errorf("%d run, want all 4 places taken", running)
					}
					if n := h.Queued(); c.Shared && n > 256 {
						t.Errorf("%d wait in memory, want at most 256", n)
					}
					var others []worker.Key
					for i := range 3 {
						others = append(others, must("anon", fmt.Sprintf("198.51.100.%d", i)), must(fmt.Sprintf("other%d", i), ""))
					}
					made := time.Now()
					time.Sleep(2*each + 2*time.Second)
					synctest.Wait()
					mu.Lock()
					for _, key := range others {
						if at, ok := began[key.ID]; !ok || at.Sub(made) > 2*each {
							t.Errorf("a task of %s began after %v (%v), want one of the first places that became free", key.Tenant, at.Sub(made), ok)
						}
					}
					mu.Unlock()
					quick.Store(true)
					for _, key := range append(all, others...) {
						h.ended(key)
					}
					synctest.Wait()
					if n := int(h.runs.Load()); n != len(all)+len(others) {
						t.Errorf("%d runs of %d tasks", n, len(all)+len(others))
					}
					if open, most := h.Open(); open != 0 || most != 0 || h.Queued() != 0 {
						t.Errorf("%d are open, %d of one, and %d queued, after all have ended", open, most, h.Queued())
					}
				})
			})
		}
	}
}

// TestTheLastPlaces: one principal with long tasks does not get all places, where there are many; another's task begins at once.
func TestTheLastPlaces(t *testing.T) {
	t.Parallel()
	bubble(t, 64, func(t *testing.T, h *house) {
		h.handle(func(ctx context.Context, _ *worker.Attempt) worker.Result {
			<-ctx.Done()
			return done(`{}`)
		})
		for range 100 {
			if _, err := h.createFor("greedy", ""); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if running, _ := h.Counts(); running != 56 || h.Queued() != 44 {
			t.Errorf("%d run and %d wait, want seven eighths of 64", running, h.Queued())
		}
		key, err := h.createFor("other", "")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if r := h.get(key); r.State != task.Running {
			t.Errorf("another's task is in state %d, want it running", r.State)
		}
	})
}

// TestOpenTasks refuses more tasks than may be open, of one principal and of all, and counts those that are: also after a restart, and
// no longer once they have ended, by their clients or by their lifetime.
func TestOpenTasks(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	t.Parallel()
	bubble(t, 1, func(t *testing.T, h *house) {
		limits := worker.Config{Running: 2, PerPrincipal: 5, PerNode: 8}
		h.configured(limits)
		h.handle(func(ctx context.Context, _ *worker.Attempt) worker.Result {
			<-ctx.Done()
			return worker.Result{Value: []byte(`{}`), IsError: true}
		})
		var mine []worker.Key
		for range 5 {
			key, err := h.createFor("anon", "192.0.2.1")
			if err != nil {
				t.Fatal(err)
			}
			mine = append(mine, key)
		}
		refused := func(tenant, from string, want error) {
			t.Helper()
			if err := h.Room(tenant, from); !errors.Is(err, want) {
				t.Errorf("room for %s %s: %v, want %v", tenant, from, err, want)
			}
			if _, err := h.createFor(tenant, from); !errors.Is(err, want) {
				t.Errorf("a task of %s %s: %v, want %v", tenant, from, err, want)
			}
		}
		refused("anon", "192.0.2.1", worker.ErrTooMany)
		for range 3 {
			if _, err := h.createFor("anon", "192.0.2.2"); err != nil {
				t.Fatal(err)
			}
		}
		refused("anon", "192.0.2.2", worker.ErrFull)
		refused("other", "", worker.ErrFull)
		time.Sleep(time.Second)
		synctest.Wait()
		h.configured(limits) // as the next process does
		time.Sleep(time.Minute)
		synctest.Wait()
		if open, most := h.Open(); open != 8 || most != 5 {
			t.Errorf("after a restart %d are open, %d of one; want 8 and 5", open, most)
		}
		refused("other", "", worker.ErrFull)
		if _, err := h.Cancel(t.Context(), mine[0]); err != nil {
			t.Fatal(err)
		}
		if _, err := h.createFor("anon", "192.0.2.1"); err != nil {
			t.Errorf("after one was cancelled: %v", err)
		}
		refused("anon", "192.0.2.1", worker.ErrTooMany)
		time.Sleep(ttl + time.Minute)
		if open, _ := h.Open(); open != 0 {
			t.Errorf("%d are open after their lifetime", open)
		}
	})
}

// TestOpenTasksOfTwoProcesses: where another process ends a task, the one that made it counts it no more, soon.
func TestOpenTasksOfTwoProcesses(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(t *testing.T, h *house) {
		h.configured(worker.Config{Running: 1, Shared: true, PerPrincipal: 4})
		busy := make(chan struct{})
		h.handle(func(context.Context, *worker.Attempt) worker.Result { // the only place is taken, so that the process looks at no other task
			<-busy
			return done(`{}`)
		})
		var keys []worker.Key
		for range 4 {
			key, err := h.createFor("anon", "")
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, key)
		}
		other := worker.NewPool(worker.Config{Store: nodestore.NewTasks(h.node), Node: "m", Boot: "b", Running: 1, Shared: true})
		for _, key := range keys {
			if _, err := other.Cancel(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(30 * time.Second)
		if err := h.Room("anon", ""); err != nil {
			t.Errorf("half a minute after another process has ended all: %v", err)
		}
		close(busy)
		if err := other.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

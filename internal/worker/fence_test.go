package worker_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/task"
	"github.com/troupe-run/troupe/internal/worker"
)

// TestALateReadTakesNoTask: for a while the store reads records as they were before the attempt began. The attempt goes on, and what it
// stores waits until the store says what a client has changed.
func TestALateReadTakesNoTask(t *testing.T) {
	for name, stores := range map[string]func(ctx context.Context, a *worker.Attempt) error{
		"nothing":   func(context.Context, *worker.Attempt) error { return nil },
		"a message": func(ctx context.Context, a *worker.Attempt) error { return a.Say(ctx, "on") },
		"a step": func(ctx context.Context, a *worker.Attempt) error {
			return a.Keep(ctx, worker.Step{Name: "s", Value: []byte("1")}, time.Now())
		},
	} {
		t.Run(name, func(t *testing.T) {
			withFaults(t, func(t *testing.T, h *house, s *faulty) {
				var created []byte
				var first uint64
				s.update = func(ctx context.Context, key string, data []byte, rev uint64, ttl time.Duration) (uint64, error) {
					if created == nil {
						var err error
						if created, first, err = s.Store.Get(ctx, key); err != nil {
							t.Error(err)
						}
					}
					return s.Store.Update(ctx, key, data, rev, ttl)
				}
				changed := make(chan struct{})
				h.handle(func(ctx context.Context, a *worker.Attempt) worker.Result {
					<-changed
					if err := stores(ctx, a); err != nil {
						t.Errorf("store: %v", err)
					}
					return done(`{}`)
				})
				key := h.create(`{}`)
				time.Sleep(time.Second)
				synctest.Wait()
				var reads atomic.Int32
				until := time.Now().Add(20 * time.Second)
				s.get = func(ctx context.Context, key string) ([]byte, uint64, error) {
					if reads.Add(1) < 100 && time.Now().Before(until) {
						return created, first, nil
					}
					return s.Store.Get(ctx, key)
				}
				data, rev, err := s.Peek(t.Context(), "task.anon.demo."+key.ID)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := h.node.Update(t.Context(), "task.anon.demo."+key.ID, data, rev, ttl); err != nil {
					t.Fatal(err)
				}
				h.Heard(key, 0)
				time.Sleep(time.Second)
				close(changed)
				h.good(key, 1)
				if n := reads.Load(); n == 0 || n >= 100 {
					t.Errorf("the record was read %d times", n)
				}
			})
		})
	}
}

// TestAHandlerThatIsOutdated: a task has run elsewhere, and was given back, while its handler waits here. Its next work begins a new attempt at once.
func TestAHandlerThatIsOutdated(t *testing.T) {
	withFaults(t, func(t *testing.T, h *house, s *faulty) {
		h.safe.Store(true)
		var again time.Time
		h.handle(func(ctx context.Context, a *worker.Attempt) worker.Result {
			again = time.Now()
			return asks(ctx, a)
		})
		key := h.create(`{}`)
		time.Sleep(time.Second)
		synctest.Wait()
		s.update = func(ctx context.Context, key string, data []byte, rev uint64, ttl time.Duration) (uint64, error) {
			s.update = nil
			next, err := s.Store.Update(ctx, key, data, rev, ttl)
			if err != nil {
				return 0, err
			}
			r, err := task.Decode(data)
			if err != nil {
				return 0, err
			}
			epoch, err := r.BeginAttempt("m", "other", time.Now())
			if err == nil {
				err = r.YieldAttempt(epoch, time.Now())
			}
			if data, _ = r.Encode(); err == nil {
				_, err = s.Store.Update(ctx, key, data, next, ttl)
			}
			return next, err
		}
		answered := time.Now()
		if _, err := h.Answer(t.Context(), key, replies("q", "1")); err != nil {
			t.Fatal(err)
		}
		h.good(key, 2)
		if took := again.Sub(answered); took >= 50*time.Millisecond {
			t.Errorf("the next attempt began after %v", took)
		}
	})
}

// TestStepsAtOnceLookOnce: steps that begin at once after a while read the record once.
func TestStepsAtOnceLookOnce(t *testing.T) {
	withFaults(t, func(t *testing.T, h *house, s *faulty) {
		var reads atomic.Int32
		s.get = func(ctx context.Context, key string) ([]byte, uint64, error) {
			reads.Add(1)
			time.Sleep(10 * time.Millisecond)
			return s.Store.Get(ctx, key)
		}
		h.handle(func(ctx context.Context, a *worker.Attempt) worker.Result {
			time.Sleep(10 * time.Second)
			var steps sync.WaitGroup
			for range 8 {
				steps.Go(func() {
					if _, err := a.Find(ctx, "s"); err != nil {
						t.Error(err)
					}
				})
			}
			steps.Wait()
			return done(`{}`)
		})
		h.good(h.create(`{}`), 1)
		if n := reads.Load(); n != 1 {
			t.Errorf("the record was read %d times, want 1", n)
		}
	})
}

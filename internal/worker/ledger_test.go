package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"github.com/troupe-run/troupe/mcp"
)

// ledger counts bytes, and refuses what it is told to.
type ledger struct {
	mu           sync.Mutex // guards the fields below
	charged, way int
	full         func(p worker.Purpose) bool
}

func (l *ledger) Charge(c worker.Charge, p worker.Purpose) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full != nil && l.full(p) {
		return errors.New("there is no room")
	}
	l.charged += c.Bytes
	l.way += c.Bytes
	return nil
}

func (l *ledger) Settle(c worker.Charge, stored bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.way -= c.Bytes
	if !stored {
		l.charged -= c.Bytes
	}
}

func (l *ledger) Return(c worker.Charge) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.charged -= c.Bytes
}

// has fails the test unless nothing is on its way, and the bytes that are charged lie between two numbers.
func (l *ledger) has(t *testing.T, what string, least, most int) {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.way != 0 || l.charged < least || l.charged > most {
		t.Errorf("%s: %d bytes are charged, and %d on their way; want %d to %d, and none", what, l.charged, l.way, least, most)
	}
}

// keeping has the house count what tasks store.
func (h *house) keeping(s worker.Store, l *ledger) {
	h.t.Helper()
	h.close()
	h.Pool = worker.NewPool(worker.Config{Store: s, Node: "n", Boot: "boot2", Running: 4, Ledger: l})
	h.Mount(h.service())
}

// stored says how many records the store has, and names the parts of some tasks.
func (h *house) stored(keys ...worker.Key) (records int, parts []string) {
	h.t.Helper()
	all, err := h.node.AllTasks(h.t.Context(), 0, 100)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, key := range keys {
		names, err := h.node.Parts(h.t.Context(), key.Tenant+"."+key.Server+"."+key.ID)
		if err != nil {
			h.t.Fatal(err)
		}
		parts = append(parts, names...)
	}
	return len(all), parts
}

// breaking is a store in which one kind of write to a new task fails, or whose answer is lost.
type breaking struct {
	*faulty
	at   string // put, offer or create
	lost bool   // it is done, and nobody learns of it
	key  worker.Key
}

var errLostAnswer = errors.New("lost: " + store.ErrUnavailable.Error())

func (b *breaking) failed(at string, err error) error {
	switch {
	case b.at != at:
		return err
	case b.lost:
		return errors.Join(errLostAnswer, store.ErrUnavailable)
	}
	return store.ErrFull
}

func (b *breaking) PutPart(ctx context.Context, path, name string, data []byte, rev uint64, ttl time.Duration) error {
	of := strings.Split(path, ".")
	b.key = worker.Key{Tenant: of[0], Server: of[1], ID: of[2]}
	return b.failed("put", b.Store.PutPart(ctx, path, name, data, rev, ttl))
}

func (b *breaking) Offer(ctx context.Context, tenant, server, id, from string, ttl time.Duration) (uint64, error) {
	if b.at == "offer" && !b.lost {
		return 0, store.ErrFull
	}
	seq, err := b.Store.Offer(ctx, tenant, server, id, from, ttl)
	return seq, b.failed("offer", err)
}

func (b *breaking) Create(ctx context.Context, key string, data []byte, ttl time.Duration) (uint64, error) {
	if b.at == "create" && !b.lost {
		return 0, store.ErrFull
	}
	rev, err := b.Store.Create(ctx, key, data, ttl)
	return rev, b.failed("create", err)
}

// TestAFailedCreationLeavesNothing has each write of a creation fail, and be done though its answer is lost: nothing of the task stays in the store,
// nothing is charged for it, and it does not run.
func TestAFailedCreationLeavesNothing(t *testing.T) {
	for _, at := range []string{"put", "offer", "create"} {
		for _, lost := range []bool{false, true} {
			name := at
			if lost {
				name += ", the answer is lost"
			}
			t.Run(name, func(t *testing.T) {
				withFaults(t, func(t *testing.T, h *house, s *faulty) {
					l, b := &ledger{}, &breaking{faulty: s, at: at, lost: lost}
					h.keeping(b, l)
					h.handle(func(context.Context, *worker.Attempt) worker.Result { return done(`{}`) })
					_, err := h.Create(t.Context(), worker.NewTask{Tenant: "anon", Server: "demo", Method: "tools/call", Name: "x", TTL: ttl,
						Request: worker.Request{Message: json.RawMessage(`"` + strings.Repeat("x", 600<<10) + `"`)}})
					if err == nil {
						t.Fatal("the task was created")
					}
					time.Sleep(20 * time.Second) // work without a record is looked at a few times
					if n, parts := h.stored(b.key); n != 0 || len(parts) != 0 {
						t.Errorf("%d records and the parts %v are left", n, parts)
					}
					l.has(t, "after the failure", 0, 0)
					if n := h.runs.Load(); n != 0 {
						t.Errorf("it ran %d times", n)
					}
				})
			})
		}
	}
}

// TestARefusedTaskIsNotStored: without room nothing of a task is stored, and its place among the open ones is free again.
func TestARefusedTaskIsNotStored(t *testing.T) {
	bubble(t, 4, func(t *testing.T, h *house) {
		l := &ledger{full: func(p worker.Purpose) bool { return p == worker.ForTask }}
		h.keeping(storeOf(h), l)
		if _, err := h.Create(t.Context(), worker.NewTask{Tenant: "anon", Server: "demo", Method: "tools/call", Name: "x", TTL: ttl}); err == nil {
			t.Fatal("the task was created")
		}
		if n, _ := h.stored(); n != 0 {
			t.Errorf("%d records are stored", n)
		}
		if all, _ := h.Open(); all != 0 {
			t.Errorf("%d tasks are open", all)
		}
		l.has(t, "after the refusal", 0, 0)
	})
}

// TestWhatAnEndedTaskKeeps: with its end a task gives back its request, its questions and the answers, and its steps, too, if it is cancelled,
// whether it waits, runs or is done. What is charged is given back with it.
func TestWhatAnEndedTaskKeeps(t *testing.T) {
	const size = 100 << 10
	pad := `"` + strings.Repeat("x", size) + `"`
	for _, tt := range []struct {
		name        string
		ask, cancel bool
		parts       int
		least, most int // bytes charged at the end
	}{
		{"a result", false, false, 1, size, size + 2000},
		{"a result after a question", true, false, 1, size, size + 2000},
		{"cancelled while it runs", false, true, 0, 0, 2000},
		{"cancelled while it waits", true, true, 0, 0, 2000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, 4, func(t *testing.T, h *house) {
				l := &ledger{}
				h.keeping(storeOf(h), l)
				goes := make(chan struct{})
				h.handle(func(ctx context.Context, a *worker.Attempt) worker.Result {
					if _, err := step(ctx, a, "one", func() string { return pad }); err != nil {
						return worker.Result{Err: internal(err)}
					}
					if tt.ask {
						return asks(ctx, a)
					}
					select {
					case <-goes:
					case <-ctx.Done():
					}
					return done(`{}`)
				})
				key := h.create(pad)
				time.Sleep(time.Second)
				l.has(t, "before the end", 2*size, 2*size+4000)
				switch {
				case tt.cancel:
					if _, err := h.Cancel(t.Context(), key); err != nil {
						t.Fatal(err)
					}
				case tt.ask:
					if _, err := h.Answer(t.Context(), key, replies("q", pad)); err != nil {
						t.Fatal(err)
					}
				default:
					close(goes)
				}
				h.ended(key)
				time.Sleep(10 * time.Second)
				if n, parts := h.stored(key); n != 1 || len(parts) != tt.parts {
					t.Errorf("%d records and the parts %v are left", n, parts)
				}
				if r := h.get(key); len(r.OpenQuestions()) != 0 || tt.ask && (len(r.Questions) != 1 || r.Questions[0].Answer != nil || r.Questions[0].Request != nil) {
					t.Errorf("of its questions it keeps %+v", r.Questions)
				}
				l.has(t, "after the end", tt.least, tt.most)
			})
		})
	}
}

// storeOf is the store of a house.
func storeOf(h *house) worker.Store { return nodestore.NewTasks(h.node) }

// internal is a handler's error for its client.
func internal(err error) *mcp.Error { return mcp.NewError(mcp.CodeInternalError, err.Error()) }

// undropping is a store that may not delete parts.
type undropping struct {
	*faulty
	fail atomic.Bool
}

func (u *undropping) DropPart(ctx context.Context, path, name string, size int) error {
	if u.fail.Load() {
		return store.ErrUnavailable
	}
	return u.Store.DropPart(ctx, path, name, size)
}

// TestWorkOfAnEndedTask: a process that is lost between the end of a task and the deletion of its request leaves work, and who gets that
// deletes the request.
func TestWorkOfAnEndedTask(t *testing.T) {
	withFaults(t, func(t *testing.T, h *house, s *faulty) {
		failing := &undropping{faulty: s}
		failing.fail.Store(true)
		h.keeping(failing, &ledger{})
		h.handle(func(context.Context, *worker.Attempt) worker.Result { return done(`{}`) })
		key := h.create(`{}`)
		h.ended(key)
		time.Sleep(2 * time.Second)
		if _, parts := h.stored(key); len(parts) != 1 {
			t.Fatalf("the parts %v are there", parts)
		}
		failing.fail.Store(false)
		time.Sleep(10 * time.Second)
		if _, parts := h.stored(key); len(parts) != 0 {
			t.Errorf("the parts %v are left", parts)
		}
		if r := h.get(key); r.OutcomeKind() != task.Done || h.runs.Load() != 1 {
			t.Errorf("it ended with kind %d after %d runs", r.OutcomeKind(), h.runs.Load())
		}
	})
}

// TestACancellationThatIsNotStored: a task whose cancellation fails goes on with all that it has, and one whose cancellation is stored although
// the answer of the store is lost keeps nothing.
func TestACancellationThatIsNotStored(t *testing.T) {
	for _, stored := range []bool{false, true} {
		t.Run(fmt.Sprint(stored), func(t *testing.T) {
			withFaults(t, func(t *testing.T, h *house, s *faulty) {
				l := &ledger{}
				h.keeping(s, l)
				h.handle(func(ctx context.Context, a *worker.Attempt) worker.Result {
					if _, err := step(ctx, a, "one", func() string { return `1` }); err != nil {
						return worker.Result{Err: internal(err)}
					}
					return asks(ctx, a)
				})
				key := h.create(`{}`)
				time.Sleep(time.Second)
				_, before := h.stored(key)
				s.update = func(ctx context.Context, key string, data []byte, rev uint64, ttl time.Duration) (uint64, error) {
					if !stored {
						return 0, store.ErrFull
					}
					_, err := s.Store.Update(ctx, key, data, rev, ttl)
					<-ctx.Done()
					return 0, errors.Join(errLostAnswer, store.ErrUnavailable, err)
				}
				ctx, hangUp := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer hangUp()
				if _, err := h.Cancel(ctx, key); err == nil {
					t.Error("it was cancelled")
				}
				s.update = nil
				time.Sleep(10 * time.Second)
				_, parts := h.stored(key)
				if stored {
					if len(parts) != 0 {
						t.Errorf("the parts %v are left", parts)
					}
					l.has(t, "after the end", 0, 2000)
					return
				}
				if len(parts) != len(before) || len(parts) != 2 {
					t.Errorf("of the parts %v it has %v left", before, parts)
				}
				if _, err := h.Answer(t.Context(), key, replies("q", `"x"`)); err != nil {
					t.Fatal(err)
				}
				h.ended(key)
				if r := h.get(key); r.OutcomeKind() != task.Done {
					t.Errorf("it ended with kind %d", r.OutcomeKind())
				}
			})
		})
	}
}

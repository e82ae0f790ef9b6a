package actors

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/store"
)

// asLeft returns the store as a crash leaves it.
func (m *memory) asLeft() *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := newMemory()
	left.rev = m.rev
	left.records = maps.Clone(m.records)
	for path, log := range m.appends {
		left.appends[path] = maps.Clone(log)
	}
	return left
}

// standaloneOf returns the id of the session's standalone stream.
func (a *statelessNode) standaloneOf() string { return a.s.view.Load().rec.Standalone }

// resume resumes a stream, on a goroutine of its own.
func (a *statelessNode) resume(id string) *heard {
	h := &heard{}
	go a.n.Get(a.svc, &Input{Tenant: "anon", Session: a.s.key.ID, LastEventID: id + ".0.0", Conn: h}, nil)
	return h
}

// over starts a node on what a's store has at this moment.
func (a *statelessNode) over() *statelessNode {
	m := a.store.asLeft()
	after := &statelessNode{t: a.t, store: m, n: NewNode(Config{Name: "n", Boot: "c", Store: m}), svc: NewService("test", plainHandler{}, Limits{})}
	s, err := after.n.sessions.loadSession(after.svc, a.s.key, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	after.s = s
	return after
}

// TestCrashWhileAStreamBegins loses the process at each step of a GET that begins a
// stream. The client then resumes the stream before, and either gets the session's
// messages, or is refused and can open another stream.
func TestCrashWhileAStreamBegins(t *testing.T) {
	for name, at := range map[string]struct{ when, op string }{
		"before it is stored": {"before", "OpenStream"},
		"after it is stored":  {"after", "OpenStream"},
		"before it is named":  {"before", "Update"},
		"after it is named":   {"after", "Update"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newStatelessNode(t, plainHandler{})
				a.get()
				synctest.Wait()
				old := a.standaloneOf()
				var after *statelessNode
				crash := func(op, _ string) error {
					if op == at.op && after == nil {
						after = a.over()
					}
					return nil
				}
				if at.when == "before" {
					a.store.before = crash
				} else {
					a.store.after = crash
				}
				a.get()
				synctest.Wait()
				if after == nil {
					t.Fatal("no crash")
				}
				back := after.resume(old)
				synctest.Wait()
				status, live, _ := back.now()
				named := after.standaloneOf() == old
				switch {
				case named && live:
					after.listeners(back, back)
				case !named && status == 400:
					if n := after.n.Stats().Takeovers; n != 0 {
						t.Errorf("%d streams were taken over for what was refused", n)
					}
					next := after.get()
					after.listeners(next, back, next)
				default:
					t.Errorf("the record names it: %v; resumed: status %d, live %v", named, status, live)
				}
				if err := after.n.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestStreamThatMayHaveBeenNamed leaves it unknown whether the record names a new stream:
// the stream before goes on until the node learns that the record does. Then its client
// has to open another one.
func TestStreamThatMayHaveBeenNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newStatelessNode(t, plainHandler{})
		before := a.get()
		synctest.Wait()
		old := a.standaloneOf()
		a.store.after = func(op, _ string) error {
			if op == "Update" {
				return store.ErrUnavailable
			}
			return nil
		}
		refused := a.get()
		synctest.Wait()
		a.listeners(before, before, refused)
		if status, _, _ := refused.now(); status != 503 {
			t.Errorf("the new one was answered %d", status)
		}
		a.store.after = nil
		if err := a.s.peer.SetLevel(t.Context(), "error"); err != nil { // this reads the record
			t.Fatal(err)
		}
		synctest.Wait()
		if _, live, _ := before.now(); live {
			t.Error("the client listens to a stream that is not the session's")
		}
		back := a.resume(old)
		synctest.Wait()
		if status, _, _ := back.now(); status != 400 {
			t.Errorf("the resume was answered %d", status)
		}
		next := a.get()
		a.listeners(next, before, refused, back, next)
	})
}

// TestStreamIsReplacedDuringItsTakeover checks that a stream that is replaced while it is
// being taken over gets no connection.
func TestStreamIsReplacedDuringItsTakeover(t *testing.T) {
	for _, op := range []string{"Rewrite", "Tail", "Writer"} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newStatelessNode(t, plainHandler{})
				before := a.get()
				synctest.Wait()
				old := a.standaloneOf()
				a.n.streams.Each(func(st *streamActor) { streamEnd{st}.unmountStream() }) // as if its node were lost
				synctest.Wait()
				first := true
				a.store.before = func(o, key string) error {
					if o == op && first {
						first = false
						time.Sleep(2 * time.Second)
					}
					return nil
				}
				back := a.resume(old)
				synctest.Wait()
				next := a.get()
				time.Sleep(10 * time.Second)
				a.listeners(next, before, back, next)
			})
		})
	}
}

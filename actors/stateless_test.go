package actors

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/actors/internal/session"
	"github.com/troupe-run/troupe/codec"
)

// statelessNode is a node with one session on a store in memory.
type statelessNode struct {
	t     *testing.T
	store *memory
	n     *Node
	svc   *Service
	s     *sessionActor
}

func newStatelessNode(t *testing.T, h Handler) *statelessNode {
	t.Helper()
	m := newMemory()
	a := &statelessNode{t: t, store: m, n: NewNode(Config{Name: "n", Boot: "b", Store: m}), svc: NewService("test", h, Limits{})}
	s, err := a.n.sessions.createSession(t.Context(), a.svc, &Input{Tenant: "anon"}, Settled{Revision: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	a.s = s
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := a.n.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		time.Sleep(time.Minute) // so that the store ends its operations
	})
	return a
}

// get begins a standalone stream, on a goroutine of its own.
func (a *statelessNode) get() *heard {
	h := &heard{}
	go a.n.Get(a.svc, &Input{Tenant: "anon", Session: a.s.key.ID, Conn: h}, nil)
	return h
}

// post sends a message, on a goroutine of its own.
func (a *statelessNode) post(body string) *heard {
	a.t.Helper()
	var m codec.Message
	if err := codec.Scan([]byte(body), &m, anyMessage); err != nil {
		a.t.Fatal(err)
	}
	h := &heard{}
	go a.n.Post(a.svc, &Input{Tenant: "anon", Session: a.s.key.ID, Conn: h}, nil, &m, []byte(body))
	return h
}

// hold keeps the session's actor busy until the returned function is called.
func (a *statelessNode) hold() (release func()) {
	a.t.Helper()
	busy, free := make(chan struct{}), make(chan struct{})
	m := &edit{f: func(*session.Record) bool { close(busy); <-free; return false }}
	m.Init()
	go func() { _ = a.s.Post(m) }()
	<-busy
	return func() { close(free); m.Wait() }
}

// listeners checks that only want of the connections is live, and that the session's
// messages go to it.
func (a *statelessNode) listeners(want *heard, all ...*heard) {
	a.t.Helper()
	synctest.Wait()
	for i, h := range all {
		if status, live, _ := h.now(); live != (h == want) {
			a.t.Errorf("GET %d: status %d, live %v, want %v", i+1, status, live, h == want)
		}
	}
	if live := a.n.k.Live(KindStream); live != 1 {
		a.t.Errorf("%d streams are held, want 1", live)
	}
	a.told(want)
}

// told sends a message to the session, and checks that it comes over h.
func (a *statelessNode) told(h *heard) {
	a.t.Helper()
	_, _, before := h.now()
	if err := a.s.peer.Notify(a.t.Context(), "x", nil); err != nil {
		a.t.Errorf("a message was not sent: %v", err)
	}
	synctest.Wait()
	if _, _, after := h.now(); len(after) != len(before)+1 {
		a.t.Errorf("the listener has got %d messages, want %d", len(after), len(before)+1)
	}
}

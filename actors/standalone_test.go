package actors

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/store"
)

// TestTwoStreamsOfABusySession begins two streams while the session's actor is busy:
// one of them remains.
func TestTwoStreamsOfABusySession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newStatelessNode(t, plainHandler{})
		release := a.hold()
		first, second := a.get(), a.get()
		synctest.Wait()
		release()
		synctest.Wait()
		last := first
		if _, live, _ := first.now(); !live {
			last = second
		}
		a.listeners(last, first, second)
	})
}

// TestStreamsStoredInTheOppositeOrder begins three streams, each when the record names
// the one before, and stores them in the opposite order.
func TestStreamsStoredInTheOppositeOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newStatelessNode(t, plainHandler{})
		wait := 4 * time.Second
		a.store.before = func(op, _ string) error {
			if op == "OpenStream" {
				wait -= time.Second
				time.Sleep(wait)
			}
			return nil
		}
		var all []*heard
		for range 3 {
			all = append(all, a.get())
			synctest.Wait()
		}
		time.Sleep(time.Minute / 2)
		a.listeners(all[2], all...)
	})
}

// TestMessageToAStreamThatBegins checks that a message sent when the record names a
// stream, of which nothing else exists yet, goes out on that stream.
func TestMessageToAStreamThatBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newStatelessNode(t, plainHandler{})
		told := make(chan error, 1)
		first := true
		a.store.after = func(op, _ string) error {
			if op == "Update" && first {
				first = false
				// Another change makes the node know the stream before this one is
				// reported.
				err := a.s.peer.SetLevel(t.Context(), "error")
				go func() { told <- a.s.peer.Notify(t.Context(), "x", nil) }()
				synctest.Wait()
				return err
			}
			return nil
		}
		a.store.before = func(op, _ string) error {
			if op == "Writer" { // after enough attempts the stream is stored
				time.Sleep(2 * time.Second)
			}
			return nil
		}
		h := a.get()
		if err := <-told; err != nil {
			t.Errorf("the message was not sent: %v", err)
		}
		synctest.Wait()
		if _, _, events := h.now(); len(events) != 1 {
			t.Errorf("got %q", events)
		}
		a.listeners(h, h)
		if n := a.n.Stats().Takeovers; n != 0 {
			t.Errorf("the stream was taken over %d times from the node that begins it", n)
		}
	})
}

// TestStreamThatCannotBeStored checks that the stream before goes on when a stream
// cannot be stored, even if the store took all its time to refuse.
func TestStreamThatCannotBeStored(t *testing.T) {
	for _, takes := range []time.Duration{0, 5 * time.Second} {
		t.Run(takes.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newStatelessNode(t, plainHandler{})
				before := a.get()
				synctest.Wait()
				a.store.before = func(op, _ string) error {
					if op == "OpenStream" {
						time.Sleep(takes)
						return store.ErrUnavailable
					}
					return nil
				}
				refused := a.get()
				time.Sleep(takes)
				a.listeners(before, before, refused)
				if status, _, _ := refused.now(); status != 503 {
					t.Errorf("the other one was answered %d", status)
				}
			})
		})
	}
}

// TestStreamInPlaceOfOneThatWasNotStored has a stream replace another one that turns
// out not to have begun: the stream that the other one would have replaced has ended
// nevertheless.
func TestStreamInPlaceOfOneThatWasNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newStatelessNode(t, plainHandler{})
		before := a.get()
		synctest.Wait()
		n := 0
		a.store.before = func(op, _ string) error {
			if op != "OpenStream" {
				return nil
			}
			if n++; n == 1 {
				time.Sleep(time.Second)
				return store.ErrUnavailable
			}
			return nil
		}
		refused := a.get()
		synctest.Wait()
		after := a.get()
		time.Sleep(2 * time.Second)
		a.listeners(after, before, refused, after)
	})
}

// TestStreamThatCannotBeNamed checks that a stream is refused when its session's record
// cannot be changed.
func TestStreamThatCannotBeNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newStatelessNode(t, plainHandler{})
		before := a.get()
		synctest.Wait()
		a.store.before = func(op, _ string) error {
			if op == "Update" {
				return store.ErrUnavailable
			}
			return nil
		}
		refused := a.get()
		a.listeners(before, before, refused)
		if status, _, _ := refused.now(); status != 503 {
			t.Errorf("it was answered %d", status)
		}
	})
}

// TestMessageToAStreamThatIsReplaced checks that a message whose stream is replaced
// while it is on its way goes out on the new stream.
func TestMessageToAStreamThatIsReplaced(t *testing.T) {
	for _, op := range []string{"Append", "Writer"} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newStatelessNode(t, plainHandler{})
				before := a.get()
				synctest.Wait()
				if op == "Writer" { // asked for a stream that this node does not write
					a.n.streams.Each(func(s *streamActor) { streamEnd{s}.unmountStream() })
				}
				first := true
				a.store.before = func(o, _ string) error {
					if o == op && first {
						first = false
						time.Sleep(time.Second)
					}
					return nil
				}
				told := make(chan error, 1)
				go func() { told <- a.s.peer.Notify(t.Context(), "x", nil) }()
				synctest.Wait()
				after := a.get()
				if err := <-told; err != nil {
					t.Errorf("the message was not sent: %v", err)
				}
				synctest.Wait()
				if _, _, events := after.now(); len(events) != 1 {
					t.Errorf("got %q", events)
				}
				a.listeners(after, before, after)
			})
		})
	}
}

// TestCloseWhileAStreamBegins checks that a node that closes answers a GET whose stream
// is being stored.
func TestCloseWhileAStreamBegins(t *testing.T) {
	for _, op := range []string{"Update", "OpenStream"} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newStatelessNode(t, plainHandler{})
				a.store.before = func(o, _ string) error {
					if o == op {
						time.Sleep(time.Second)
					}
					return nil
				}
				h := a.get()
				synctest.Wait()
				if err := a.n.Close(t.Context()); err != nil {
					t.Error(err)
				}
				time.Sleep(2 * time.Second)
				if status, live, _ := h.now(); status != 503 || live {
					t.Errorf("status %d, live %v", status, live)
				}
			})
		})
	}
}

// TestMessageToAStreamThatIsLeft checks that a goroutine that waits for a message to be
// stored does not wait for a stream that this node writes no longer.
func TestMessageToAStreamThatIsLeft(t *testing.T) {
	for name, tt := range map[string]struct {
		leave func(a *statelessNode)
		want  error
	}{
		"the node closes":        {func(a *statelessNode) { _ = a.n.Close(a.t.Context()) }, ErrClosing},
		"the service is retired": {func(a *statelessNode) { a.n.Unmount(a.svc) }, ErrUnmounted},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newStatelessNode(t, plainHandler{})
				a.get()
				synctest.Wait()
				a.store.before = func(op, _ string) error {
					if op == "Append" {
						time.Sleep(time.Second)
					}
					return nil
				}
				told := make(chan error, 1)
				go func() { told <- a.s.peer.Notify(t.Context(), "x", nil) }()
				synctest.Wait()
				tt.leave(a)
				synctest.Wait()
				select {
				case err := <-told:
					if !errors.Is(err, tt.want) {
						t.Errorf("got %v, want %v", err, tt.want)
					}
				default:
					t.Error("it waits")
				}
				time.Sleep(2 * time.Second)
			})
		})
	}
}

// opening notes with which gaps streams open.
type opening struct {
	plainHandler
	gaps chan bool
}

func (o opening) Opened(_ *Peer, gap bool) { o.gaps <- gap }

// TestSubscriptionWhileAStreamBegins: what a client subscribes to when the record names its new stream goes out on that stream, which has missed
// nothing. What it subscribed to before may have changed meanwhile.
func TestSubscriptionWhileAStreamBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := opening{gaps: make(chan bool, 1)}
		a := newStatelessNode(t, o)
		first := true
		a.store.after = func(op, _ string) error {
			if op == "Update" && first {
				first = false
				return a.s.peer.Subscribe(t.Context(), "x:1")
			}
			return nil
		}
		h := a.get()
		synctest.Wait()
		if <-o.gaps {
			t.Error("a stream that opens before the subscription has a gap")
		}
		a.n.ResourceUpdated(a.s.svc, "x:1", false)
		synctest.Wait()
		if _, _, events := h.now(); len(events) != 1 {
			t.Errorf("after an update the stream has %q", events)
		}
		a.get()
		synctest.Wait()
		if !<-o.gaps {
			t.Error("the stream that follows has no gap")
		}
	})
}

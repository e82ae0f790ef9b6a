package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/mcp"
)

// stuckConn is a connection that takes no update until the test releases it.
type stuckConn struct {
	heldConn
	letGo chan struct{}
}

func (c *stuckConn) Event(id string, retry int, data []byte) {
	if strings.Contains(string(data), mcp.NotifyResourcesUpdated) {
		<-c.letGo
	}
	c.heldConn.Event(id, retry, data)
}

// updates counts the updates of resources among messages.
func updates(messages []string) (n int) {
	for _, m := range messages {
		if strings.Contains(m, mcp.NotifyResourcesUpdated) {
			n++
		}
	}
	return n
}

// noSubscriptions checks that no subscription and no listener remains.
func (h *held) noSubscriptions() {
	h.t.Helper()
	synctest.Wait()
	if n := h.k.Live(KindSubscription); n != 0 || h.listeners.Len() != 0 {
		h.t.Errorf("%d subscriptions and listeners are left, %d in the directory", n, h.listeners.Len())
	}
}

// peerOf returns the Peer of a session in memory.
func (h *held) peerOf(id string) *Peer {
	h.t.Helper()
	if l, ok := h.bound.findBound(h.svc, h.input(id, "192.0.2.1", nil)); ok {
		return l.sess.peer
	}
	s, ok := h.sessions.Get(SessionKey{"anon", "s", id})
	if !ok {
		h.t.Fatal("the session is not in memory")
	}
	return s.peer
}

// TestSubscribeToOneThatIsEnding has a client subscribe while the resource's subscription
// ends. The subscription or its successor takes the messages, so that the client gets every
// later update.
func TestSubscribeToOneThatIsEnding(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		const uri = "x:1"
		first := &stuckConn{letGo: make(chan struct{})}
		h.Connect(h.svc, h.input("", "192.0.2.1", first))
		h.post(first.name, initializeAs("2024-11-05"))
		h.post(first.name, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		second := h.connect("192.0.2.2", "2024-11-05")
		if err := h.peerOf(first.name).Subscribe(t.Context(), uri); err != nil {
			t.Fatal(err)
		}
		// The subscription is busy when its last subscriber leaves, another one comes, and
		// the resource changes.
		go h.ResourceUpdated(h.svc, uri, false)
		synctest.Wait()
		sessionEnd{h.peerOf(first.name).last.Load()}.endSession()
		if err := h.peerOf(second.name).Subscribe(t.Context(), uri); err != nil {
			t.Fatal(err)
		}
		h.ResourceUpdated(h.svc, uri, false)
		close(first.letGo)
		time.Sleep(time.Second)
		if n := updates(second.read()); n != 1 {
			t.Errorf("told %d times of the change since it subscribed, want once", n)
		}
		h.ResourceUpdated(h.svc, uri, false)
		time.Sleep(time.Second)
		if n := updates(second.read()); n != 1 {
			t.Errorf("told %d times of the next change, want once", n)
		}
		sessionEnd{h.peerOf(second.name).last.Load()}.endSession()
		h.noSubscriptions()
	})
}

// TestSubscribeWhileTheSessionComesBack has a session leave memory and come back while a
// subscription is being stored: the session that came back has the subscription.
func TestSubscribeWhileTheSessionComesBack(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		const uri = "x:1"
		h.handler.f = func(context.Context, *Call) ([]byte, *mcp.Error) { return []byte("{}"), nil }
		name := h.begin("2025-11-25")
		release := h.hold("Update")
		subscribed := make(chan error, 1)
		peer := h.peerOf(name)
		old := peer.last.Load()
		go func() { subscribed <- peer.Subscribe(context.Background(), uri) }()
		synctest.Wait()
		for !old.Stopped() {
			time.Sleep(time.Minute)
		}
		h.post(name, message("1", "x"))
		release()
		if err := <-subscribed; err != nil {
			t.Fatal(err)
		}
		c := &heldConn{}
		go h.Get(h.svc, h.input(name, "192.0.2.1", c), nil)
		synctest.Wait()
		h.ResourceUpdated(h.svc, uri, false)
		time.Sleep(time.Second)
		if n := updates(c.events()); n != 1 {
			t.Errorf("told %d times, want once", n)
		}
		h.Delete(h.svc, h.input(name, "192.0.2.1", &heldConn{}))
		h.noSubscriptions()
	})
}

// TestSubscribeAgain checks that a subscription whose acknowledgement was lost is there when
// the client subscribes again, and that it ends with the session.
func TestSubscribeAgain(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		const uri = "x:1"
		name := h.begin("2025-11-25")
		peer := h.peerOf(name)
		lost := errors.New("no answer")
		h.mem.after = func(op, _ string) error {
			if op == "Update" {
				return fmt.Errorf("%w: %w", store.ErrUnavailable, lost)
			}
			return nil
		}
		if err := peer.Subscribe(t.Context(), uri); !errors.Is(err, lost) {
			t.Fatal(err)
		}
		h.mem.after = nil
		if err := peer.Subscribe(t.Context(), uri); err != nil {
			t.Fatal(err)
		}
		if all := peer.Subscribed(); !slices.Equal(all, []string{uri}) {
			t.Errorf("subscribed to %q", all)
		}
		h.Delete(h.svc, h.input(name, "192.0.2.1", &heldConn{}))
		h.noSubscriptions()
	})
}

// TestSubscribeAndUnsubscribeAtOnce checks that two concurrent requests of a client leave
// what the record says.
func TestSubscribeAndUnsubscribeAtOnce(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		const uri = "x:1"
		name := h.begin("2025-11-25")
		peer := h.peerOf(name)
		for i := range 1000 {
			done := make(chan error, 2)
			go func() { done <- peer.Subscribe(context.Background(), uri) }()
			go func() { done <- peer.Unsubscribe(context.Background(), uri) }()
			for range 2 {
				if err := <-done; err != nil {
					t.Fatal(err)
				}
			}
			if stored, live := len(peer.Subscribed()), int(h.k.Live(KindSubscription)); stored != live {
				t.Fatalf("round %d: %d subscriptions are stored and %d live", i, stored, live)
			}
		}
	})
}

// faultySubscriber is a subscriber that panics when its subscription asks it.
type faultySubscriber struct{ asked bool }

func (*faultySubscriber) Server() string    { return "s" }
func (*faultySubscriber) Push([]byte) bool  { return false }
func (*faultySubscriber) Stopped() bool     { return false }
func (*faultySubscriber) Hears(string) bool { return true }

func (s *faultySubscriber) Wants(string) bool {
	if s.asked {
		panic("in the subscription's turn")
	}
	s.asked = true // by Follow
	return true
}

// TestSubscriptionThatPanics checks that no subscriber is lost when a subscription's actor
// ends by panics.
func TestSubscriptionThatPanics(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		const uri = "x:1"
		c := h.connect("192.0.2.1", "2024-11-05")
		peer := h.peerOf(c.name)
		if err := peer.Subscribe(t.Context(), uri); err != nil {
			t.Fatal(err)
		}
		for range kernel.PanicLimit {
			h.subs.Follow(&faultySubscriber{}, uri)
		}
		if n := h.k.Panics(); n != kernel.PanicLimit {
			t.Fatalf("%d panics", n)
		}
		h.ResourceUpdated(h.svc, uri, false)
		time.Sleep(time.Second)
		if n := updates(c.read()); n != 1 {
			t.Errorf("told %d times, want once", n)
		}
		sessionEnd{peer.last.Load()}.endSession()
		h.noSubscriptions()
	})
}

// listenTo sends the request of a listener.
func (h *held) listenTo(s *sessionActor, c Exchange) {
	h.t.Helper()
	var m codec.Message
	if err := codec.Scan([]byte(`{"jsonrpc":"2.0","id":"L","method":"`+mcp.MethodSubscriptionsListen+`","params":{}}`), &m, codec.Limits{}); err != nil {
		h.t.Fatal(err)
	}
	a := &statelessRequest{n: h.Node, svc: h.svc, in: *h.input("", "192.0.2.1", c), m: &m, to: c, on: overHTTP{}}
	a.in.Exchange = c
	if s != nil {
		l := s.home.(*boundConn)
		a.to, a.on, a.sess, a.charged = boundReplier{l}, overBound{l}, s, &s.sessionAccount
	}
	a.beginListener()
}

// goneConn is a connection whose client goes as soon as it is opened, and that reports this
// at once.
type goneConn struct{ heldConn }

func (c *goneConn) Gone(f func()) {
	told := make(chan struct{})
	go func() { f(); close(told) }()
	<-told
}

// TestListenerThatEndsAtOnce checks that nothing remains of a listener that ends while it
// begins, because its client is gone or its session has ended.
func TestListenerThatEndsAtOnce(t *testing.T) {
	said := Listening{URIs: []string{"x:1"}, Accepted: []byte("{}")}
	for name, begin := range map[string]func(h *held){
		"client": func(h *held) {
			h.handler.listening = func() Listening { return said }
			h.listenTo(nil, &goneConn{})
		},
		"session": func(h *held) {
			s := h.peerOf(h.connect("192.0.2.1", "2024-11-05").name).last.Load()
			h.handler.listening = func() Listening { sessionEnd{s}.endSession(); synctest.Wait(); return said }
			h.listenTo(s, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
				begin(h)
				h.noSubscriptions()
				if n := h.accounts.Of("anon", "192.0.2.1").Held[heldStreams].Load(); n != 0 {
					t.Errorf("%d streams count on the account", n)
				}
			})
		})
	}
}

// TestListenWhileTheSessionIsIdle checks that a session whose client is opening its stream
// stays in memory, so that the client gets the messages of that stream.
func TestListenWhileTheSessionIsIdle(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		name := h.begin("2025-11-25")
		if err := h.peerOf(name).Subscribe(t.Context(), "x:1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(h.svc.Limits.SessionDrop - time.Second)
		release := h.hold("OpenStream")
		c := &heldConn{}
		go h.Get(h.svc, h.input(name, "192.0.2.1", c), nil)
		time.Sleep(2 * time.Second)
		release()
		synctest.Wait()
		h.ResourceUpdated(h.svc, "x:1", false)
		time.Sleep(time.Second)
		if n := updates(c.read()); n != 1 {
			t.Errorf("told %d times, want once", n)
		}
		time.Sleep(10 * h.svc.Limits.SessionDrop)
		h.ResourceUpdated(h.svc, "x:1", false)
		time.Sleep(time.Second)
		if n := updates(c.read()); n != 1 {
			t.Errorf("after ten minutes: told %d times, want once", n)
		}
		c.Cut()
		time.Sleep(10 * h.svc.Limits.SessionDrop)
		if n := h.sessions.Len(); n != 0 {
			t.Error("the session is in memory, though nobody listens")
		}
		h.noSubscriptions()
	})
}

// TestSubscriptionsOfAnotherNode checks that this node serves the stored subscriptions as
// soon as it learns that another node changed them.
func TestSubscriptionsOfAnotherNode(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		name := h.begin("2025-11-25")
		peer := h.peerOf(name)
		if err := peer.Subscribe(t.Context(), "x:1"); err != nil {
			t.Fatal(err)
		}
		key := peer.key.recordKey()
		rec := peer.who.clientRecord()
		rec.Subscribed = []string{"x:2"}
		data, err := codec.Marshal(rec)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.mem.Update(t.Context(), key, data, peer.last.Load().view.Load().rev, time.Hour); err != nil {
			t.Fatal(err)
		}
		if err := peer.SetLevel(t.Context(), "error"); err != nil {
			t.Fatal(err)
		}
		var live []string
		h.subs.EachResource(func(_, uri string) { live = append(live, uri) })
		if !slices.Equal(live, []string{"x:2"}) {
			t.Errorf("live: %q", live)
		}
		h.Delete(h.svc, h.input(name, "192.0.2.1", &heldConn{}))
		h.noSubscriptions()
	})
}

// TestPeerOfAnEndedSession checks that every method of a Peer says that the session has ended
// when its client has deleted it.
func TestPeerOfAnEndedSession(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		name := h.begin("2025-11-25")
		peer := h.peerOf(name)
		h.Delete(h.svc, h.input(name, "192.0.2.1", &heldConn{}))
		ctx := t.Context()
		_, asked := peer.Ask(ctx, Question{Method: "roots/list"})
		for what, err := range map[string]error{"subscribe": peer.Subscribe(ctx, "x:1"), "unsubscribe": peer.Unsubscribe(ctx, "x:1"),
			"set level": peer.SetLevel(ctx, "error"), "notify": peer.Notify(ctx, "x", nil), "ask": asked} {
			if !errors.Is(err, ErrSessionEnded) {
				t.Errorf("%s: %v, want ErrSessionEnded", what, err)
			}
		}
	})
}

// notifyingListener sends messages by the call of a listener.
type notifyingListener struct {
	*heldHandler
	errs []error
}

func (l *notifyingListener) Listening(ctx context.Context, c *Call) (Listening, *mcp.Error) {
	l.errs = append(l.errs, c.Notify(ctx, "x", nil), c.Tell(ctx, "x", nil), c.Progress(ctx, 1, nil))
	_, err := c.Ask(ctx, []Question{{}})
	l.errs = append(l.errs, err)
	_, _, err = c.AdmitLog(ctx, true)
	l.errs = append(l.errs, err)
	c.CloseConnection()
	c.Missed()
	return Listening{Accepted: []byte("{}")}, nil
}

// TestCallOfAListenerSendsNothing checks that methods that send fail on the call that begins
// a listener.
func TestCallOfAListenerSendsNothing(t *testing.T) {
	for name, carried := range map[string]bool{"over HTTP": false, "on a connection": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
				l := &notifyingListener{heldHandler: h.handler}
				h.svc = NewService("s", l, Limits{})
				var s *sessionActor
				c := &heldConn{}
				if carried {
					c = h.connect("192.0.2.1", "2024-11-05")
					c.read()
					s = h.peerOf(c.name).last.Load()
				}
				h.listenTo(s, c)
				for i, err := range l.errs {
					if err == nil && i != 2 { // progress without a token is dropped
						t.Errorf("%d: no error", i)
					}
				}
				if got := c.events(); len(l.errs) != 5 || len(got) != 1 || !strings.Contains(got[0], "acknowledged") {
					t.Errorf("%d errors, and the client got %q", len(l.errs), got)
				}
				c.Cut()
			})
		})
	}
}

// sentTo is the audience of a listener, and keeps its messages.
type sentTo struct {
	audience
	got []string
}

func (a *sentTo) isFull() bool         { return false }
func (a *sentTo) sendData(data []byte) { a.got = append(a.got, string(data)) }

// TestAcknowledgementComesFirst checks that changes between the request of a listener and its
// acknowledgement go out after the acknowledgement, in their order.
func TestAcknowledgementComesFirst(t *testing.T) {
	to := &sentTo{}
	l := &listenActor{id: []byte("7"), to: to, filter: Listening{Tools: true, Accepted: []byte(`{}`)}}
	for _, m := range []any{hear{[]byte(`{"method":"a"}`)}, hear{[]byte(`{"method":"b"}`)}, acknowledge{}, hear{[]byte(`{"method":"c"}`)}} {
		l.Receive(m)
	}
	var methods []string
	for _, data := range to.got {
		method, _ := codec.Str(codec.Field([]byte(data), "method"))
		methods = append(methods, method)
	}
	if want := []string{mcp.NotifySubscriptionsAcknowledged, "a", "b", "c"}; !slices.Equal(methods, want) {
		t.Errorf("got %q, want %q", methods, want)
	}
}

// TestListenerHearsOfItsLists checks that a listener gets the changes of the lists that it
// asked for, and no others.
func TestListenerHearsOfItsLists(t *testing.T) {
	all := []string{mcp.NotifyToolsListChanged, mcp.NotifyPromptsListChanged, mcp.NotifyResourcesListChanged}
	for i, filter := range []Listening{{Tools: true}, {Prompts: true}, {Resources: true}} {
		inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
			filter.Accepted = []byte(`{}`)
			h.handler.listening = func() Listening { return filter }
			c := &heldConn{}
			h.listenTo(nil, c)
			synctest.Wait()
			c.read()
			for _, method := range all {
				h.ListChanged(h.svc, method, false)
			}
			synctest.Wait()
			if got := c.read(); len(got) != 1 || !strings.Contains(got[0], all[i]) {
				t.Errorf("got %q, want %s alone", got, all[i])
			}
			c.Cut()
		})
	}
}

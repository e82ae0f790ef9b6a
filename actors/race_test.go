package actors

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/actors/internal/record"
	"github.com/troupe-run/troupe/actors/internal/session"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/mcp"
)

func message(id, method string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `"}`
}

// TestCancelInABatchWithEventsOnTheirWay cancels a request of a batch while its question
// is on its way to the log: the client must not get the question (invariant I13).
func TestCancelInABatchWithEventsOnTheirWay(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		began := make(chan struct{})
		h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			if string(c.Message().Method) == "ask" {
				<-began
				for range 3 {
					_ = c.Notify(ctx, "notifications/message", []byte(`{"of":"ask"}`))
				}
				_, _ = c.Ask(ctx, []Question{{Key: "k", Method: "ping"}})
				return []byte(`"asked"`), nil
			}
			_ = c.Notify(ctx, "notifications/message", []byte(`{"of":"other"}`))
			<-ctx.Done()
			return []byte(`"other"`), nil
		}
		session := h.begin("2025-03-26")
		release := h.hold("Append")
		a := h.post(session, "["+message("1", "other")+","+message("2", "ask")+"]")
		synctest.Wait() // the other request's event is being stored
		close(began)
		synctest.Wait()
		cancelled := make(chan struct{})
		go func() {
			h.post(session, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
			close(cancelled)
		}()
		synctest.Wait()
		release()
		<-cancelled
		synctest.Wait()
		for _, e := range a.events() {
			if !strings.Contains(e, "other") {
				t.Errorf("sent after the cancel: %s", e)
			}
		}
		if log := h.mem.logged(); strings.Contains(log, `"method":"ping"`) {
			t.Errorf("what waited is in the log: %.500q", log)
		}
		h.post(session, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	})
}

// TestInitializeTwiceAtOnce checks that two initializes of one session at once settle its
// revision once.
func TestInitializeTwiceAtOnce(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		c := h.connect("192.0.2.1", "")
		var both sync.WaitGroup
		both.Add(2)
		h.handler.initialize = func() { both.Done(); both.Wait() }
		var sent sync.WaitGroup
		for _, revision := range []string{"2024-11-05", "2025-11-25"} {
			sent.Go(func() { h.post(c.name, initializeAs(revision)) })
		}
		sent.Wait()
		results := 0
		for _, e := range c.events() {
			if strings.Contains(e, `"result"`) {
				results++
			} else if !strings.Contains(e, "initialized already") {
				t.Error(e)
			}
		}
		if results != 1 || len(c.events()) != 2 {
			t.Errorf("%d were answered with a result: %q", results, c.events())
		}
	})
}

// TestRequestOfASessionThatHasJustEnded has a request find its session, which ends before
// the request is entered. The request gets the same error as every later one.
func TestRequestOfASessionThatHasJustEnded(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		c := h.connect("192.0.2.1", "2024-11-05")
		l, ok := h.bound.findBound(h.svc, h.input(c.name, "192.0.2.1", nil))
		if !ok {
			t.Fatal("no session")
		}
		c.Cut()
		synctest.Wait()
		h.bound.Put(l.sess.key, l) // as the request saw it
		defer h.bound.Drop(l.sess.key, l)
		if status, body := h.post(c.name, message("1", "x")).answer(); status != 404 {
			t.Errorf("%d %s", status, body)
		}
	})
}

// TestBatchOfASessionThatHasJustLeftMemory checks that a batch whose session leaves memory
// meanwhile activates it anew.
func TestBatchOfASessionThatHasJustLeftMemory(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		h.handler.f = func(context.Context, *Call) ([]byte, *mcp.Error) { return []byte(`"here"`), nil }
		h.handler.notified = func(*Peer) { time.Sleep(2 * time.Minute) }
		session := h.begin("2025-03-26")
		status, body := h.post(session, `[{"jsonrpc":"2.0","method":"notifications/slow"},`+message("1", "x")+"]").answer()
		if status != 200 || !strings.Contains(body, "here") {
			t.Errorf("%d %s", status, body)
		}
	})
}

// TestBatchOfCancelsWhileTheStoreIsGone checks that a batch waits once for a store that
// does not answer, however many cancels it has (invariant I7).
func TestBatchOfCancelsWhileTheStoreIsGone(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			_ = c.Notify(ctx, "notifications/message", nil)
			<-ctx.Done()
			return nil, nil
		}
		session := h.begin("2025-03-26")
		var calls sync.WaitGroup
		var cancels []string
		for i := range 10 {
			calls.Go(func() { h.post(session, message(fmt.Sprint(i), "x")) })
			cancels = append(cancels, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, i))
		}
		synctest.Wait()
		release := h.hold("Append")
		begin := time.Now()
		h.post(session, "["+strings.Join(cancels, ",")+"]")
		if d := time.Since(begin); d > 5*time.Second {
			t.Errorf("answered after %v", d)
		}
		release()
		calls.Wait()
	})
}

// TestDeleteTwiceAtOnce checks that two concurrent DELETEs of a session count once: they return nine tenths of what it
// cost.
func TestDeleteTwiceAtOnce(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{Principal: PrincipalLimits{Sessions: 3}}, func(t *testing.T, h *held) {
		session := h.begin("2025-11-25")
		h.begin("2025-11-25")
		release := h.hold("Delete")
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				c := &heldConn{}
				h.Delete(h.svc, h.input(session, "192.0.2.1", c))
				if status, body := c.answer(); status != 200 {
					t.Errorf("%d %s", status, body)
				}
			})
		}
		synctest.Wait()
		release()
		both.Wait()
		more := 0
		for range 5 {
			if h.begin("2025-11-25") != "" {
				more++
			}
		}
		if more != 1 {
			t.Errorf("%d more sessions after two of three, one of which was deleted", more)
		}
	})
}

// TestQuestionsBeforeTheFirstRequest checks that questions of the server to a client that
// has sent no request yet count for that client.
func TestQuestionsBeforeTheFirstRequest(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{Principal: PrincipalLimits{Pending: 1}}, func(t *testing.T, h *held) {
		ctx, cancel := context.WithCancel(context.Background())
		ends := make(chan error, 2)
		h.handler.opened = func(p *Peer, _ bool) {
			go func() {
				_, err := p.Ask(ctx, Question{Method: "roots/list"})
				ends <- err
			}()
		}
		a, b := h.connect("192.0.2.1", "2024-11-05"), h.connect("192.0.2.2", "2024-11-05")
		synctest.Wait()
		for _, c := range []*heldConn{a, b} {
			if e := c.events(); !strings.Contains(e[len(e)-1], "roots/list") {
				t.Errorf("not asked: %q", e)
			}
		}
		cancel()
		for range 2 {
			if err := <-ends; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	})
}

// TestUpdateWhileASessionIsActivated checks that an update that comes while a session is
// being activated does not cost it the subscription.
func TestUpdateWhileASessionIsActivated(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		key := SessionKey{"anon", "s", newID()}
		s, err := h.sessions.Obtain(key, func() (*sessionActor, error) {
			rec := session.New(time.Now(), h.svc.Limits.Session)
			rec.Subscribed = []string{"x:1"}
			s := h.sessions.activateSession(h.svc, key, rec, 1, new(quota.Holding))
			h.subs.Follow(subscriber{s}, "x:1")
			h.ResourceUpdated(h.svc, "x:1", false)
			return s, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := h.k.Live(KindSubscription); n != 1 {
			t.Errorf("%d subscriptions", n)
		}
		sessionEnd{s}.endSession()
		if n := h.k.Live(KindSubscription); n != 0 {
			t.Errorf("%d subscriptions are left", n)
		}
	})
}

// TestSessionOnAConnectionThatPanics checks that a bound session whose actor ends by
// panics leaves nothing behind.
func TestSessionOnAConnectionThatPanics(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		var asked error
		h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			_ = c.Peer().Subscribe(ctx, "x:1")
			_, asked = c.Ask(context.Background(), []Question{{Method: "ping"}})
			return []byte("{}"), nil
		}
		c := h.connect("192.0.2.1", "2024-11-05")
		h.post(c.name, message("1", "x"))
		l, _ := h.bound.findBound(h.svc, h.input(c.name, "192.0.2.1", nil))
		for range kernel.PanicLimit {
			_ = l.changeRecord(context.Background(), func(*session.Record) bool { panic("on purpose") })
		}
		synctest.Wait()
		if asked == nil || !c.over {
			t.Errorf("the question ended with %v, connection closed: %v", asked, c.over)
		}
		for kind, n := range map[string]int{"links": h.bound.Len(), "sessions": h.sessions.Len(), "subscriptions": int(h.k.Live(KindSubscription)),
			"requests": int(h.k.Live(KindRequest)), "questions": h.pending.len()} {
			if n != 0 {
				t.Errorf("%d %s are left", n, kind)
			}
		}
	})
}

// TestQuestionReopenedTwice checks that a question that two runs of a call ask counts
// once.
func TestQuestionReopenedTwice(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		a := h.accounts.Of("anon", "192.0.2.1")
		w := &streamActor{key: StreamKey{Session: SessionKey{"anon", "s", "x"}}}
		again := func() *journal { return &journal{asked: []*askedBefore{{Question: record.Question{ID: `"q"`}}}} }
		runs := []*journal{again(), again()}
		for _, j := range runs {
			h.pending.reopenQuestions(w, a, j)
		}
		for _, j := range runs {
			h.pending.closeReopened(j)
		}
		if n := a.Held[heldPending].Load(); n != 0 || len(h.pending.counts) != 0 {
			t.Errorf("%d questions count on the account, %v on sessions", n, h.pending.counts)
		}
	})
}

// TestAnsweredQuestionIsNotReopened checks that a second run of a call does not wait for
// an answer that the first run got.
func TestAnsweredQuestionIsNotReopened(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		a := h.accounts.Of("anon", "192.0.2.1")
		w := &streamActor{key: StreamKey{Session: SessionKey{"anon", "s", "x"}}}
		j := &journal{asked: []*askedBefore{{Question: record.Question{ID: `"p"`, Answer: []byte(`1`)}}, {Question: record.Question{ID: `"q"`}}}}
		h.pending.reopenQuestions(w, a, j)
		for id, want := range map[string]bool{`"p"`: false, `"q"`: true} {
			if _, _, ok := h.pending.findQuestion(w.key.Session, id); ok != want {
				t.Errorf("%s is open: %t", id, ok)
			}
			if _, _, ok := h.pending.findQuestion(SessionKey{"anon", "s", "y"}, id); ok {
				t.Errorf("%s is open for another session", id)
			}
		}
		h.pending.closeReopened(j)
		if n := a.Held[heldPending].Load(); n != 0 || h.pending.len() != 0 {
			t.Errorf("%d questions count, %d are open", n, h.pending.len())
		}
	})
}

// TestEndOfARequestWhoseIDIsAnothers checks that a request that ends removes its id from
// the session's table, but not if another request has that id now.
func TestEndOfARequestWhoseIDIsAnothers(t *testing.T) {
	s := &sessionActor{}
	first, second := &requestActor{id: []byte("1")}, &requestActor{id: []byte("1")}
	begin := func(r *requestActor) error { m := &beginCall{req: r}; m.Init(); s.Receive(m); return m.err }
	end := func(r *requestActor, id string) { m := &endCall{req: r, id: id}; m.Init(); s.Receive(m) }
	if err := begin(first); err != nil {
		t.Fatal(err)
	}
	if err := begin(second); !errors.Is(err, session.ErrDuplicate) {
		t.Errorf("a second one with the id: %v", err)
	}
	end(first, "")
	if err := begin(second); err != nil {
		t.Errorf("after the first has ended: %v", err)
	}
	end(first, "1")
	end(first, "")
	if r, _ := s.calls.Find("1"); r != second {
		t.Error("the end of the first took the second out of the table")
	}
}

// TestUpdatesMadeGood checks that a client that was too slow for updates gets each of them
// once when it reads again, however many they are.
func TestUpdatesMadeGood(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		const n = 20
		h.handler.opened = func(p *Peer, gap bool) {
			for _, uri := range p.Subscribed() {
				if gap {
					p.PushUpdate(uri)
				}
			}
		}
		c := h.connect("192.0.2.1", "2024-11-05")
		c.most = 5 // the queue is full beyond that
		l, _ := h.bound.findBound(h.svc, h.input(c.name, "192.0.2.1", nil))
		for i := range n {
			if err := l.sess.peer.Subscribe(context.Background(), fmt.Sprintf("x:%d", i)); err != nil {
				t.Fatal(err)
			}
		}
		c.read() // the messages of initialize
		for i := range n {
			h.ResourceUpdated(h.svc, fmt.Sprintf("x:%d", i), false)
		}
		missed := len(c.read())
		got := map[string]int{}
		for range 100 {
			time.Sleep(10 * time.Millisecond)
			for _, e := range c.read() {
				got[e]++
			}
		}
		if missed >= n || len(got) != n {
			t.Errorf("%d told at once, %d made good, of %d", missed, len(got), n)
		}
		for e, k := range got {
			if k != 1 {
				t.Errorf("%d times: %s", k, e)
			}
		}
	})
}

// TestListenWhileTheSessionIsDeleted checks that a request for a stream is refused like
// any later one when the session is deleted elsewhere meanwhile.
func TestListenWhileTheSessionIsDeleted(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		name := h.begin("2025-11-25")
		release := h.hold("Update")
		c := &heldConn{}
		got := make(chan struct{})
		go func() { h.Get(h.svc, h.input(name, "192.0.2.1", c), nil); close(got) }()
		synctest.Wait()
		if err := h.mem.Delete(t.Context(), SessionKey{"anon", "s", name}.recordKey(), 0); err != nil {
			t.Fatal(err)
		}
		release()
		<-got
		if status, body := c.answer(); status != 404 || !strings.Contains(body, "unknown session") {
			t.Errorf("%d %s", status, body)
		}
	})
}

// TestRefusalsComeFirst has a session end before the stream of its request has begun. The
// request must be answered before its turn is over, because the transport answers 500 for
// a request without a response.
func TestRefusalsComeFirst(t *testing.T) {
	for name, body := range map[string]string{"call": message("1", "x"), "batch": "[" + message("1", "x") + "," + message("2", "x") + "]", "stream": ""} {
		inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
			h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
				<-ctx.Done()
				return nil, nil
			}
			session := h.begin("2025-03-26")
			release := h.hold("OpenStream")
			c := &heldConn{slow: time.Second}
			taken := make(chan struct{})
			go func() {
				if body == "" {
					h.Get(h.svc, h.input(session, "192.0.2.1", c), nil)
				} else {
					h.postOn(c, session, body)
				}
				if !c.begun() {
					t.Errorf("%s: not answered yet", name)
				}
				close(taken)
			}()
			time.Sleep(time.Second) // the stream is being stored
			h.Delete(h.svc, h.input(session, "192.0.2.1", &heldConn{}))
			<-taken
			release()
		})
	}
}

// TestBatchWhoseStreamEndsAtOnce has the stream of a batch end while the batch's requests
// begin. The batch is answered, and none of its requests goes on without a client.
func TestBatchWhoseStreamEndsAtOnce(t *testing.T) {
	for name, early := range map[string]bool{"before the request": true, "after it": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
				var over []error
				h.handler.f = func(ctx context.Context, _ *Call) ([]byte, *mcp.Error) {
					select {
					case <-ctx.Done():
						over = append(over, context.Cause(ctx))
					case <-time.After(time.Hour):
					}
					return nil, nil
				}
				session := h.begin("2025-03-26")
				s := h.peerOf(session).last.Load()
				var m codec.Message
				if err := codec.Scan([]byte(message("1", "x")), &m, codec.Limits{}); err != nil {
					t.Fatal(err)
				}
				requests := []*element{{m: m, raw: []byte(message("1", "x"))}}
				st, _ := batchSession{s}.newBatchStream(&Input{Conn: &heldConn{}}, nil, requests, nil)
				r := h.calls.takeActor(nil)
				sessionCalls{s}.beginRequest(r, r.loggedWay(s, nil), &m, requests[0].raw, newCall(nil, &Input{}))
				if early {
					_ = st.Post(endStream{})
				}
				r.joinBatch(st)
				if !early {
					_ = st.Post(endStream{})
				}
				if err := r.enterTable(0); err != nil {
					t.Fatal(err)
				}
				r.serveRequest()
				if len(over) != 1 || !errors.Is(over[0], ErrStreamLost) || h.k.Panics() != 0 {
					t.Errorf("the handler was ended by %v; %d panics", over, h.k.Panics())
				}
			})
		})
	}
}

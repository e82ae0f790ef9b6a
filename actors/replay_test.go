package actors

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/mcp"
)

// said returns the n-th message of a call that counts.
func said(n int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","method":"n","params":{"n":%d}}`, n) }

// say sends the n-th message.
func say(ctx context.Context, c *Call, n int) {
	_ = c.Notify(ctx, "n", fmt.Appendf(nil, `{"n":%d}`, n))
}

// TestEventsDuringAReplay has a call send messages while its client slowly reads those
// that it missed. The new messages come after the missed ones, each once, on the same
// connection, and need no further event.
func TestEventsDuringAReplay(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		more := make(chan int)
		h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			for n := range more {
				say(ctx, c, n)
			}
			return []byte(`{}`), nil
		}
		session := h.begin("2025-11-25")
		first := &heldConn{}
		go h.postOn(first, session, message("1", "x"))
		more <- 1
		synctest.Wait()
		event := first.lastID()
		first.Cut()
		for n := 2; n <= 5; n++ {
			more <- n
		}
		synctest.Wait()

		c := &heldConn{most: 2}
		in := h.input(session, "192.0.2.1", c)
		in.LastEventID = event
		go h.Get(h.svc, in, nil)
		synctest.Wait()
		if n := len(c.events()); n != 4 {
			t.Fatalf("%d events are replayed before the client reads, want those that it missed", n)
		}
		more <- 6
		more <- 7
		synctest.Wait()
		got := c.read()
		time.Sleep(time.Second)
		got = append(got, c.read()...)
		if want := []string{said(2), said(3), said(4), said(5), said(6), said(7)}; !slices.Equal(got, want) || c.over {
			t.Errorf("got %q, over %v, want %q", got, c.over, want)
		}
		more <- 8
		close(more)
		time.Sleep(time.Second)
		if got := c.read(); len(got) != 2 || got[0] != said(8) || !strings.Contains(got[1], `"result"`) {
			t.Errorf("then %q", got)
		}
	})
}

// another starts a second node on the store, whose calls may run again there.
func (h *held) another(handler *heldHandler) (*Node, *Service) {
	n := NewNode(Config{Name: "m", Boot: "c", Store: h.mem})
	return n, NewService("s", safeHandler{handler}, Limits{})
}

// counts returns a handler that sends n messages, each after a value of let, and then
// responds with who.
func counts(n int, let <-chan struct{}, who string) func(context.Context, *Call) ([]byte, *mcp.Error) {
	return func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
		for i := range n {
			select {
			case <-let:
			case <-ctx.Done():
				return nil, mcp.NewError(mcp.CodeInternalError, "ended")
			}
			_ = c.Notify(ctx, who, fmt.Appendf(nil, `{"n":%d}`, i+1))
		}
		return []byte(`"` + who + `"`), nil
	}
}

func countedBy(who string, n int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"%s","params":{"n":%d}}`, who, n)
}

func answeredBy(who string) string { return `{"jsonrpc":"2.0","id":1,"result":"` + who + `"}` }

// TestAppendJustBeforeATakeover has the old writer store something in the last moment
// before a takeover. The resume gets it: the second run does not repeat a message, and a
// call that was answered has no second run.
func TestAppendJustBeforeATakeover(t *testing.T) {
	for last, want := range map[int][]string{
		4: {countedBy("old", 2), countedBy("new", 3), countedBy("new", 4), answeredBy("new")},
		2: {countedBy("old", 2), answeredBy("old")},
	} {
		t.Run(fmt.Sprint(last), func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
				h.svc = NewService("s", safeHandler{h.handler}, Limits{})
				let := make(chan struct{})
				h.handler.f = counts(last, let, "old")
				session := h.begin("2025-11-25")
				first := &heldConn{}
				go h.postOn(first, session, message("1", "x"))
				let <- struct{}{}
				synctest.Wait()
				event := first.lastID()

				free := make(chan struct{})
				close(free)
				n, svc := h.another(&heldHandler{f: counts(last, free, "new")})
				defer func() { _ = n.Close(context.Background()) }()
				var once sync.Once
				h.mem.before = func(op, _ string) error {
					if op == "Rewrite" { // the log has been read, and the record is unchanged
						once.Do(func() {
							let <- struct{}{}
							synctest.Wait()
						})
					}
					return nil
				}
				c := &heldConn{}
				in := h.input(session, "192.0.2.1", c)
				in.LastEventID = event
				go n.Get(svc, in, nil)
				time.Sleep(time.Minute)
				if got := first.events(); len(got) < 2 || got[1] != countedBy("old", 2) {
					t.Fatalf("the old writer has sent %q", got)
				}
				if got := c.events(); !slices.Equal(got, want) {
					t.Errorf("resumed after the first message: got %q, want %q", got, want)
				}
			})
		})
	}
}

// uncertain is a store whose lease may be uncertain.
type uncertain struct {
	*memory
	on atomic.Bool
}

func (u *uncertain) Suspended() bool { return u.on.Load() }

// TestTakeoverWaitsForTheLease checks that a node whose lease is not certain takes no
// stream over: the writer goes on, and the resume is held until the lease is certain
// again.
func TestTakeoverWaitsForTheLease(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		h.svc = NewService("s", safeHandler{h.handler}, Limits{})
		let := make(chan struct{})
		h.handler.f = counts(3, let, "old")
		session := h.begin("2025-11-25")
		first := &heldConn{}
		go h.postOn(first, session, message("1", "x"))
		let <- struct{}{}
		synctest.Wait()
		event := first.lastID()

		free, again := make(chan struct{}), &atomic.Int64{}
		close(free)
		run := counts(3, free, "new")
		store := &uncertain{memory: h.mem}
		n := NewNode(Config{Name: "m", Boot: "c", Store: store})
		defer func() { _ = n.Close(context.Background()) }()
		svc := NewService("s", safeHandler{&heldHandler{f: func(ctx context.Context, c *Call) ([]byte, *mcp.Error) { again.Add(1); return run(ctx, c) }}}, Limits{})
		store.on.Store(true)
		c := &heldConn{}
		in := h.input(session, "192.0.2.1", c)
		in.LastEventID = event
		go n.Get(svc, in, nil)
		time.Sleep(20 * time.Second)
		if status, body := c.answer(); status != 0 || !c.begun() || c.over {
			t.Errorf("the resume is answered %d %s, over %v, while the lease is not certain", status, body, c.over)
		}
		let <- struct{}{}
		synctest.Wait()
		if got := first.events(); !slices.Equal(got, []string{countedBy("old", 1), countedBy("old", 2)}) {
			t.Errorf("the writer has sent %q, want it to go on", got)
		}
		if k := again.Load(); k != 0 {
			t.Errorf("the call ran again %d times", k)
		}
		store.on.Store(false)
		time.Sleep(10 * time.Second)
		if got, want := c.events(), []string{countedBy("old", 2), countedBy("new", 3), answeredBy("new")}; !slices.Equal(got, want) {
			t.Errorf("once the lease is certain: got %q, want %q", got, want)
		}
	})
}

// TestOnlyEventsAreResumedFrom checks that only the id of an event that a client can have
// seen is good for a resume: not that of the client's own answer between events, not one
// behind the end of an append, and not one of another writer.
func TestOnlyEventsAreResumedFrom(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		session, question, got := asksOnce(h)
		h.post(session, answerTo(question, "one"))
		_ = within(got)
		synctest.Wait() // until the log has all that the call sends
		good := map[stream.Position]bool{}
		h.mem.mu.Lock()
		for path, log := range h.mem.appends {
			var r stream.Reader
			for num := uint64(1); num <= uint64(len(log)); num++ {
				a, _, err := r.Add(num, log[num])
				if err != nil {
					t.Error(err)
				}
				for i := range a.Entries {
					pos := a.Position(path[len(path)-stream.IDLength:], i)
					good[pos] = a.Entries[i].Kind.Visible()
					pos.Epoch++
					good[pos] = false
				}
				good[a.Position(path[len(path)-stream.IDLength:], len(a.Entries))] = false
				good[stream.Position{Stream: path[len(path)-stream.IDLength:], Append: uint64(len(log)) + 1, Epoch: a.Epoch}] = false
			}
		}
		h.mem.mu.Unlock()
		if len(good) < 10 {
			t.Fatalf("%d ids", len(good))
		}
		for pos, want := range good {
			if status, body := h.resume(h.Node, h.svc, session, pos.String()).answer(); (status != 400) != want {
				t.Errorf("%v: answered %d %s, want it resumed: %t", pos, status, body, want)
			}
		}
	})
}

// TestHowFarClientsAreBehind has a client come back to a stream that is written there, that another node writes which is not heard for a
// while and then dies, and that has ended. It counts as behind until it was sent what is stored, once each time.
func TestHowFarClientsAreBehind(t *testing.T) {
	inFleet(t, 2, nil, func(t *testing.T, all []*member) {
		a, b := all[0], all[1]
		check := func(m *member, going int64, want ...string) {
			t.Helper()
			synctest.Wait()
			if got, n := m.behind(); !slices.Equal(got, want) || n != going {
				t.Errorf("at %s %q were behind, want %q; %d are, want %d", m.name, got, want, n, going)
			}
		}
		more, again := make(chan int), make(chan int)
		a.handler.f, b.handler.f = speaker(more), speaker(again)
		session := a.begin("2025-11-25")
		first := &heldConn{}
		go a.postOn(first, session, message("1", "x"))
		more <- 1
		check(a, 0) // it never came back
		a.get(session, first.lastID())
		check(a, 0, "here 0")
		a.box.Cut(true)
		second := b.get(session, first.lastID())
		more <- 2
		time.Sleep(20 * time.Second)
		check(b, 1)
		a.box.Cut(false)
		time.Sleep(10 * time.Second)
		if got, n := b.behind(); len(got) != 1 || n != 0 || got[0] < "elsewhere 20" || got[0] > "elsewhere 27" {
			t.Errorf("once its writer was heard again, %q were behind, and %d are", got, n)
		}
		lag, _ := b.behind()
		if got := second.events(); !slices.Equal(got, numbers(2, 2)) {
			t.Errorf("the client got %q", got)
		}
		a.kill()
		time.Sleep(10 * time.Second)
		check(b, 0, append(lag, "here 0")...)
		close(again)
		synctest.Wait()
		b.get(session, first.lastID())
		check(b, 0, append(lag, "here 0", "none 0")...)
		close(more)
	})
}

// TestResumeFromMemory has a client come back to what this node stored a moment ago: while the call goes on and after its end
// nothing is read of the log, and after half a minute it is. Once another node has had the stream, what this one kept is not
// used any more.
func TestResumeFromMemory(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		more := make(chan int)
		h.handler.f = speaker(more)
		session := h.begin("2025-11-25")
		first := &heldConn{}
		go h.postOn(first, session, message("1", "x"))
		more <- 1
		synctest.Wait()
		event := first.lastID()
		for n := 2; n <= 4; n++ {
			more <- n
		}
		synctest.Wait()
		want := numbers(2, 4)
		again := func(n *Node, svc *Service, want []string, read bool) {
			t.Helper()
			before := h.mem.reads.Load()
			c := h.resume(n, svc, session, event)
			synctest.Wait()
			if got := c.events(); !slices.Equal(got, want) {
				t.Errorf("the client got %q, want %q", got, want)
			}
			if got := h.mem.reads.Load() - before; (got > 0) != read {
				t.Errorf("%d appends were read of the log, want some: %t", got, read)
			}
		}
		again(h.Node, h.svc, want, false)
		close(more)
		synctest.Wait()
		want = append(want, `{"jsonrpc":"2.0","id":1,"result":{}}`)
		again(h.Node, h.svc, want, false)
		time.Sleep(keptInMemory + time.Second)
		again(h.Node, h.svc, want, true)
		if st := h.Stats(); st.Cache != 0 || st.Cached < 7 {
			t.Errorf("%d bytes are kept, %d appends were read of them", st.Cache, st.Cached)
		}
	})
	// The store has lost the end of the log, of which this node was told that it is stored, and another node has had the stream since: what that
	// one stored counts, whether it has ended the stream or this node takes it over again.
	for _, ended := range []bool{true, false} {
		inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
			more := make(chan int)
			h.svc = NewService("s", safeHandler{h.handler}, Limits{})
			h.handler.f = speaker(more)
			session := h.begin("2025-11-25")
			first := &heldConn{}
			go h.postOn(first, session, message("1", "x"))
			more <- 1
			synctest.Wait()
			event := first.lastID()
			more <- 2
			close(more)
			synctest.Wait()
			h.mem.mu.Lock()
			for _, log := range h.mem.appends {
				delete(log, slices.Max(slices.Collect(maps.Keys(log))))
			}
			h.mem.mu.Unlock()
			n, svc, end := h.heir(safeHandler{&heldHandler{f: func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
				for i := range 3 { // the first two were sent by the first run
					say(ctx, c, i+1)
				}
				if !ended {
					<-ctx.Done()
				}
				return []byte(`"of the other"`), nil
			}}}, Limits{})
			h.resume(n, svc, session, event)
			time.Sleep(time.Second)
			end()
			want := []string{said(2), said(3), `{"jsonrpc":"2.0","id":1,"result":"of the other"}`}
			if !ended {
				want[2] = `{"jsonrpc":"2.0","id":1,"result":{}}` // of this node's run
			}
			for range 2 {
				c := h.resume(h.Node, h.svc, session, event)
				time.Sleep(time.Second)
				if got := c.events(); !slices.Equal(got, want) {
					t.Errorf("the other has ended it %t: the client got %q, want %q", ended, got, want)
				}
			}
		})
	}
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		h.svc = NewService("s", safeHandler{h.handler}, Limits{})
		h.handler.f = ticks(5 * time.Second)
		session := h.begin("2025-11-25")
		first := &heldConn{}
		go h.postOn(first, session, aCall)
		time.Sleep(11 * time.Second)
		n, svc, end := h.heir(safeHandler{h.handler}, Limits{})
		defer end()
		h.resume(n, svc, session, first.lastID())
		time.Sleep(6 * time.Second) // until this node has been refused
		if st := h.Stats(); st.Cache != 0 || st.Streams != 0 {
			t.Errorf("%d streams are written and %d bytes kept by the node that has lost its stream", st.Streams, st.Cache)
		}
	})
}

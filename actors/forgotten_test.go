package actors

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/actors/internal/record"
	"github.com/troupe-run/troupe/actors/internal/takeover"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/mcp"
)

// heir starts a node of another boot over the same store.
func (h *held) heir(handler Handler, l Limits) (n *Node, svc *Service, end func()) {
	n = NewNode(Config{Name: "n", Boot: "c", Store: h.mem})
	return n, NewService("s", handler, l), func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = n.Close(ctx)
	}
}

// resume resumes a stream on node n after an event.
func (h *held) resume(n *Node, svc *Service, session, event string) *heldConn {
	h.t.Helper()
	c := &heldConn{}
	h.resumeOn(c, n, svc, session, event)
	return c
}

// resumeOn is resume on a connection. It returns when the stream is live there, or has ended.
func (h *held) resumeOn(c *heldConn, n *Node, svc *Service, session, event string) {
	in := h.input(session, "192.0.2.1", c)
	in.LastEventID = event
	n.Get(svc, in, nil)
}

// TestTakeoverOfALogThatHasGoneRound has a writer record that covers many appends, and as
// many appends after it: together they are more than the log holds. The takeover must not
// overwrite an append that the log still holds.
func TestTakeoverOfALogThatHasGoneRound(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		const all = 1900
		h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			for i := range all {
				_ = c.Notify(ctx, "n", fmt.Appendf(nil, `{"n":%d}`, i+1))
				time.Sleep(time.Millisecond)
			}
			<-ctx.Done()
			return nil, mcp.NewError(mcp.CodeInternalError, "ended")
		}
		c, session := &heldConn{}, h.begin("2025-11-25")
		go h.postOn(c, session, aCall)
		for len(c.events()) < all-900 {
			time.Sleep(time.Millisecond)
		}
		synctest.Wait() // an event of this instant may come between the two readings
		event, had := c.lastID(), len(c.events())
		time.Sleep(time.Minute)
		n, svc, end := h.heir(h.handler, Limits{})
		defer end()
		back := h.resume(n, svc, session, event)
		time.Sleep(time.Minute)
		got := back.events()
		if len(got) != all-had+1 || !strings.Contains(got[len(got)-1], "-32010") {
			t.Errorf("%d events came after the first %d of %d, want the others and the end", len(got), had, all)
		}
		again := h.resume(n, svc, session, event)
		time.Sleep(time.Minute)
		if len(again.events()) != len(got) {
			t.Errorf("%d events came to who resumed once more, want %d", len(again.events()), len(got))
		}
	})
}

// TestCancelledBeforeTheStreamBegan checks that a request of a batch that was cancelled
// before anything of the batch was stored does not run again, even if only the record was
// stored.
func TestCancelledBeforeTheStreamBegan(t *testing.T) {
	for name, fault := range map[string]error{"its end is in the log": nil, "the record is all there is": store.ErrUnavailable} {
		t.Run(name, func(t *testing.T) { cancelledBeforeTheStreamBegan(t, fault) })
	}
}

func cancelledBeforeTheStreamBegan(t *testing.T, fault error) {
	inBubble(t, Limits{Grace: 10 * time.Second}, NodeLimits{}, func(t *testing.T, h *held) {
		var again atomic.Int32
		work := func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			if c.Attempt() > 1 && string(c.Message().Method) == "a" {
				again.Add(1)
			}
			_ = c.Notify(ctx, "n", nil)
			return []byte(`"done"`), nil
		}
		h.handler.f = func(ctx context.Context, _ *Call) ([]byte, *mcp.Error) {
			<-ctx.Done()
			return nil, mcp.NewError(mcp.CodeInternalError, "ended")
		}
		h.svc.Handler = safeHandler{h.handler}
		var crashed atomic.Bool
		h.mem.before = func(op, _ string) error {
			if op == "Append" && !crashed.Load() {
				return fault
			}
			return nil
		}
		session := h.begin("2025-03-26")
		c := &heldConn{}
		go h.postOn(c, session, "["+message("1", "a")+","+message("2", "b")+"]")
		time.Sleep(time.Second)
		h.post(session, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		time.Sleep(time.Minute)
		if !c.begun() {
			t.Fatal("the stream has not begun")
		}
		var id string
		h.mem.mu.Lock()
		for key := range h.mem.bodies {
			id = key[strings.LastIndexByte(key, '.')+1:] + ".0.0"
		}
		h.mem.mu.Unlock()
		crashed.Store(true)
		n, svc, end := h.heir(safeHandler{&heldHandler{f: work}}, Limits{})
		defer end()
		back := h.resume(n, svc, session, id)
		time.Sleep(time.Minute)
		if got := back.events(); again.Load() != 0 || len(got) != 2 {
			t.Errorf("the cancelled one ran %d times more; events %q", again.Load(), got)
		}
	})
}

// TestPrimingIsGoodWhenNothingWasSeen checks that a client that has only the id of the
// priming event can resume, as long as no event that clients see has expired since.
func TestPrimingIsGoodWhenNothingWasSeen(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		h.handler.f = func(ctx context.Context, _ *Call) ([]byte, *mcp.Error) {
			select {
			case <-ctx.Done():
				return nil, mcp.NewError(mcp.CodeInternalError, "ended")
			case <-time.After(40 * time.Minute):
				return []byte(`"late"`), nil
			}
		}
		session := h.begin("2025-03-26")
		c := &heldConn{}
		go h.postOn(c, session, "["+message("1", "a")+","+message("2", "b")+"]")
		time.Sleep(time.Minute)
		h.post(session, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		time.Sleep(20 * time.Minute)
		var id string
		h.mem.mu.Lock()
		for path, all := range h.mem.appends {
			id = path[strings.LastIndexByte(path, '.')+1:] + ".0.0"
			if len(all) != 1 {
				t.Fatalf("%d appends", len(all))
			}
			clear(all) // as if their time were over
		}
		h.mem.mu.Unlock()
		c.Cut()
		back := &heldConn{}
		in := h.input(session, "192.0.2.1", back)
		in.LastEventID = id
		h.Get(h.svc, in, nil)
		time.Sleep(30 * time.Minute)
		if got := back.events(); len(got) != 1 || !strings.Contains(got[0], "late") {
			status, body := back.answer()
			t.Errorf("%d %s %q", status, body, got)
		}
	})
}

// TestAbandonedStreamTellsWhoWaits checks that a goroutine that waits for a message to be
// stored gets an error when the stream is given up.
func TestAbandonedStreamTellsWhoWaits(t *testing.T) {
	inBubble(t, Limits{ReplayAge: time.Minute}, NodeLimits{}, func(t *testing.T, h *held) {
		var gone atomic.Bool
		h.mem.before = func(op, _ string) error {
			if gone.Load() && op != "Get" {
				return store.ErrUnavailable
			}
			return nil
		}
		peers := make(chan *Peer, 1)
		h.handler.opened = func(p *Peer, _ bool) { peers <- p }
		session := h.begin("2025-11-25")
		c := &heldConn{}
		go h.Get(h.svc, h.input(session, "192.0.2.1", c), nil)
		p := <-peers
		c.Cut()
		time.Sleep(50 * time.Second)
		gone.Store(true)
		told := make(chan error, 1)
		go func() { told <- p.Notify(context.Background(), "n", nil) }()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		select {
		case err := <-told:
			if err == nil {
				t.Error("it was not stored")
			}
		default:
			t.Error("who sends waits for ever")
		}
		gone.Store(false)
	})
}

// TestNoMoreIsRecalledThanFits checks that the answers to a call are kept in memory only
// as far as a record has room for them, however long it is until the record is rewritten.
func TestNoMoreIsRecalledThanFits(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		const questions = 40
		h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			for range questions {
				_, _ = c.Ask(ctx, []Question{{Key: "k", Method: "elicitation/create", Params: []byte(`{}`)}})
			}
			<-ctx.Done()
			return nil, mcp.NewError(mcp.CodeInternalError, "ended")
		}
		h.svc.Handler = safeHandler{h.handler}
		c, session := &heldConn{}, h.begin("2025-11-25")
		go h.postOn(c, session, aCall)
		for i := range questions {
			synctest.Wait()
			id, _, _ := strings.Cut(strings.TrimPrefix(c.events()[i], `{"jsonrpc":"2.0","id":`), ",")
			h.post(session, `{"jsonrpc":"2.0","id":`+id+`,"result":"`+strings.Repeat("x", 8<<10)+`"}`)
		}
		synctest.Wait()
		h.streams.Each(func(s *streamActor) {
			if size := s.past.Digest.Size(); size > record.MaxDigest || (streamEnd{s}).runsAgain() {
				t.Errorf("%d bytes are kept, and the call may run again: %v", size, streamEnd{s}.runsAgain())
			}
		})
		if n := h.refused(limits.Recall.Row); n != 1 {
			t.Errorf("%d calls lost their right to run again, want 1", n)
		}
	})
}

// TestRefusedResumeOfAnEarlierReleaseTakesNothingOver checks that an event id is judged
// before its stream is taken over, even if the record is of the release before.
func TestRefusedResumeOfAnEarlierReleaseTakesNothingOver(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			_ = c.Notify(ctx, "n", nil)
			<-ctx.Done()
			return nil, mcp.NewError(mcp.CodeInternalError, "ended")
		}
		c, session := &heldConn{}, h.begin("2025-11-25")
		go h.postOn(c, session, aCall)
		time.Sleep(time.Second)
		h.mem.mu.Lock()
		for path := range h.mem.appends {
			r := h.mem.records[path]
			r.data = []byte(strings.Replace(string(r.data), `{"v":2,`, `{"v":1,`, 1))
			h.mem.records[path] = r
		}
		h.mem.mu.Unlock()
		n, svc, end := h.heir(h.handler, Limits{})
		defer end()
		id, _, _ := strings.Cut(c.lastID(), ".")
		for _, event := range []string{id + ".7.0", id + ".1.8192"} {
			if status, _ := h.resume(n, svc, session, event).answer(); status != 400 || n.Stats().Takeovers != 0 {
				t.Errorf("%s: status %d, %d takeovers", event, status, n.Stats().Takeovers)
			}
		}
		back := h.resume(n, svc, session, c.lastID())
		time.Sleep(time.Second)
		if got := back.events(); len(got) != 1 || !strings.Contains(got[0], "-32010") {
			t.Errorf("events %q", got)
		}
	})
}

// TestRerunOfASessionThatHasJustLeftMemory checks that a call whose session leaves memory
// just as the call begins to run again waits for the session to come back, and then runs
// like any other.
func TestRerunOfASessionThatHasJustLeftMemory(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		h.svc = NewService("s", safeHandler{h.handler}, Limits{})
		h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			_ = c.Notify(ctx, "n", nil)
			<-ctx.Done()
			return nil, mcp.NewError(mcp.CodeInternalError, "ended")
		}
		c, session := &heldConn{}, h.begin("2025-11-25")
		go h.postOn(c, session, aCall)
		synctest.Wait()
		id, _, _ := strings.Cut(c.lastID(), ".")

		var dead, failed error
		n, svc, end := h.heir(safeHandler{&heldHandler{f: func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			dead = context.Cause(ctx)
			_ = c.Notify(ctx, "n", nil) // the client has this one
			failed = c.Notify(ctx, "n", nil)
			return []byte(`"again"`), nil
		}}}, Limits{})
		defer end()
		key := SessionKey{"anon", "s", session}
		s, err := n.sessions.loadSession(svc, key, nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = s.Post(closeSession{}) // the session has no calls here
		if _, _, err := n.takeovers.takeOver(t.Context(), svc, s, StreamKey{key, id}, takeover.Writer{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if dead != nil || failed != nil {
			t.Errorf("the handler begins with a context that was ended by %v; it sends with %v", dead, failed)
		}
		if log := h.mem.logged(); !strings.Contains(log, `"result":"again"`) {
			t.Errorf("the log has %q", log)
		}
	})
}

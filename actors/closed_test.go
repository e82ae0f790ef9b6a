package actors

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/mcp"
)

// TestRequestsOfAClosedNode checks that a node refuses requests that come after its sessions
// have stopped, and that these requests do not look for a session forever.
func TestRequestsOfAClosedNode(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		session, batching := h.begin("2025-11-25"), h.begin("2025-03-26")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := h.Close(ctx); err != nil {
			t.Fatal(err)
		}
		h.drain.over.Store(false) // otherwise the drain would refuse them sooner
		for name, c := range map[string]*heldConn{"call": h.post(session, aCall), "batch": h.post(batching, "["+aCall+"]")} {
			if status, body := c.answer(); status != 503 && status != 200 || body == "" {
				t.Errorf("%s: answered %d %q", name, status, body)
			}
		}
		h.drain.over.Store(true)
	})
}

// TestCallThatEntersWhileTheNodeCloses has a call enter its session after Close has told those that were there to end. It ends, too: otherwise
// Close would wait for a handler whose context never ends.
func TestCallThatEntersWhileTheNodeCloses(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		session := h.begin("2025-11-25")
		var cause error
		h.handler.f = func(ctx context.Context, _ *Call) ([]byte, *mcp.Error) {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return nil, &mcp.Error{Code: mcp.CodeInternalError, Message: "ended"}
		}
		c := &heldConn{}
		in := h.input(session, "192.0.2.1", c)
		s := h.sessions.findSession(h.svc, in, nil) // as a takeover has it, which runs the calls of its stream again
		_ = s.Post(giveUpCalls{})
		synctest.Wait()
		var m codec.Message
		if err := codec.Scan([]byte(aCall), &m, codec.Limits{}); err != nil {
			t.Fatal(err)
		}
		r, err := sessionCalls{s}.admitRequest(in, &m, len(aCall))
		if err == nil {
			sessionCalls{s}.beginRequest(r, r.loggedWay(s, c), &m, []byte(aCall), newCall(nil, &Input{}))
			err = sessionCalls{s}.enterAdmitted(r)
		}
		if err != nil {
			t.Fatal(err)
		}
		go r.serveRequest()
		synctest.Wait()
		if !errors.Is(cause, ErrClosing) {
			t.Errorf("the handler's context has ended with %v", cause)
		}
	})
}

// TestFinishWaitsForNoCancelledCall checks that Finish does not wait for a cancelled
// stateless call on a connection, which gets no response, even if its handler runs on.
func TestFinishWaitsForNoCancelledCall(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		let := make(chan struct{})
		defer close(let)
		h.handler.f = func(context.Context, *Call) ([]byte, *mcp.Error) {
			<-let // ignores its context
			return []byte(`{}`), nil
		}
		c := h.patient(Limits{})
		c.call("1", "")
		c.cancel("1")
		synctest.Wait()
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		h.Finish(ctx, true, nil, nil)
		if d := time.Since(began); d > time.Second {
			t.Errorf("it has waited for %v", d)
		}
	})
}

// TestFinishLeavesTimeToHandOver has work beside the node that does not end: it takes no more than all but two seconds of a drain.
func TestFinishLeavesTimeToHandOver(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		for _, takes := range []time.Duration{10 * time.Second, time.Hour} {
			ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
			began := time.Now()
			h.Finish(ctx, true, func() bool { return time.Since(began) < takes }, nil)
			if d, want := time.Since(began).Round(time.Second), min(takes, 23*time.Second); d != want {
				t.Errorf("work of %v: it has waited for %v, want %v", takes, d, want)
			}
			cancel()
		}
	})
}

// TestResumeBesideAHandedOverRun resumes the stream of a call at the node that has handed it over, while
// the handler has not returned. The call must be left to the next process, and not be taken for lost, nor its stream for complete.
func TestResumeBesideAHandedOverRun(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		returns := make(chan struct{})
		h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			_ = c.Notify(ctx, "n", nil)
			<-returns
			return nil, mcp.NewError(mcp.CodeInternalError, "ended")
		}
		h.svc.Handler = safeHandler{h.handler}
		c, session := &heldConn{}, h.begin("2025-11-25")
		go h.postOn(c, session, aCall)
		time.Sleep(time.Second)
		event := c.lastID()
		var idle atomic.Bool
		go h.HandOver(t.Context(), idle.Load)
		time.Sleep(time.Second)
		if !c.isOver() {
			t.Fatal("the call was not handed over")
		}
		back := &heldConn{}
		go h.resumeOn(back, h.Node, h.svc, session, event) // it is held if the stream is given up again before it has it
		time.Sleep(time.Second)
		if status, body := back.answer(); len(back.events()) > 0 || status != 0 {
			t.Errorf("while the handler has not returned: %q, %d %s", back.events(), status, body)
		}
		close(returns)
		idle.Store(true)
		time.Sleep(2 * holdEvery)
		if got := back.events(); len(got) > 0 || !back.isOver() {
			t.Errorf("at the end of the node: %q, over %v", got, back.isOver())
		}
		n, svc, end := h.heir(safeHandler{&heldHandler{f: func(context.Context, *Call) ([]byte, *mcp.Error) { return []byte(`"done"`), nil }}}, Limits{})
		defer end()
		next := h.resume(n, svc, session, event)
		time.Sleep(time.Second)
		if got := strings.Join(next.events(), ""); !strings.Contains(got, `"done"`) {
			t.Errorf("in the next process: %s", got)
		}
	})
}

// TestGivenUp asks streams whose actors have stopped whether they are complete: one is whose call has its answer, and none whose call
// was handed over.
func TestGivenUp(t *testing.T) {
	for _, handOver := range []bool{false, true} {
		inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
			returns := make(chan struct{})
			h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
				_ = c.Notify(ctx, "n", nil)
				<-returns
				return []byte(`{}`), nil
			}
			h.svc.Handler = safeHandler{h.handler}
			go h.postOn(&heldConn{}, h.begin("2025-11-25"), aCall)
			time.Sleep(time.Second)
			var w *streamActor
			h.streams.Each(func(s *streamActor) { w = s })
			if handOver {
				go h.HandOver(t.Context(), nil)
				time.Sleep(time.Second)
			}
			close(returns)
			time.Sleep(time.Second)
			if !w.Stopped() {
				t.Fatalf("handed over %v: it has not stopped", handOver)
			}
			if err := w.givenUp(); errors.Is(err, store.ErrUnavailable) != handOver {
				t.Errorf("handed over %v: %v", handOver, err)
			}
		})
	}
}

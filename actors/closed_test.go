package actors

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/mcp"
)

// TestRequestsOfAClosedNode: whoever comes once the sessions have stopped is refused, and
// does not look for a session for ever.
func TestRequestsOfAClosedNode(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		session, batching := h.begin("2025-11-25"), h.begin("2025-03-26")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := h.Close(ctx); err != nil {
			t.Fatal(err)
		}
		h.drain.over.Store(false) // which would refuse them sooner, but for those that came before
		for name, c := range map[string]*heldConn{"call": h.post(session, aCall), "batch": h.post(batching, "["+aCall+"]")} {
			if status, body := c.answer(); status != 503 && status != 200 || body == "" {
				t.Errorf("%s: answered %d %q", name, status, body)
			}
		}
		h.drain.over.Store(true)
	})
}

// TestFinishWaitsForNoCancelledCall: a stateless call on a connection that was cancelled has
// no answer to come, even if its handler runs on.
func TestFinishWaitsForNoCancelledCall(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		let := make(chan struct{})
		defer close(let)
		h.handler.f = func(context.Context, *Call) ([]byte, *mcp.Error) {
			<-let // deaf
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
		h.Finish(ctx)
		if d := time.Since(began); d > time.Second {
			t.Errorf("it has waited for %v", d)
		}
	})
}

package actors

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/troupe-run/troupe/mcp"
)

func message(id, method string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `"}`
}

// A request of a batch that is cancelled while its question is on its way to the log
// must not have it asked (invariant I13).
func TestCancelInABatchWithEventsOnTheirWay(t *testing.T) {
	inBubble(t, Limits{}, func(t *testing.T, h *held) {
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
		release := h.store.hold("append")
		a := h.post(session, "["+message("1", "other")+","+message("2", "ask")+"]")
		synctest.Wait() // the other's is being stored
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
		if log := h.store.logged(); strings.Contains(log, `"method":"ping"`) {
			t.Errorf("what waited is in the log: %.500q", log)
		}
		h.post(session, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	})
}

// Two initializes of one session that come at once settle it once.
func TestInitializeTwiceAtOnce(t *testing.T) {
	inBubble(t, Limits{}, func(t *testing.T, h *held) {
		c := h.connect("")
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

package actors

import (
	"strings"
	"testing"
	"testing/synctest"
)

// TestEndOfABatchsCallIsStored ends a call of a batch of which nothing was sent: who ends it hears of that once it is stored, as the record that the
// batch begins with would have the call run again.
func TestEndOfABatchsCallIsStored(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		over := h.keepCalls()
		session := h.begin("2025-03-26")
		a := &heldConn{}
		go h.postOn(a, session, "["+message("1", "a")+","+message("2", "b")+"]")
		synctest.Wait()
		release := h.hold("Append")
		heard := false
		go func() {
			ended, err := EndCalls(t.Context(), h.Node, func(c *CallInfo) bool { return c.Method == "a" })
			if len(ended) != 1 || err != nil {
				t.Errorf("ended %+v, %v", ended, err)
			}
			heard = true
		}()
		synctest.Wait()
		if heard {
			t.Error("it is said to have ended before that is stored")
		}
		release()
		synctest.Wait()
		if !heard {
			t.Error("it is stored, and nobody hears of it")
		}
		close(over)
		synctest.Wait()
		all := strings.Join(a.events(), "\n")
		if strings.Count(all, `"id":1,"error":{"code":-32010`) != 1 || strings.Count(all, `"id":2,"result"`) != 1 || strings.Count(all, `"id":1`) != 1 {
			t.Errorf("the client has %s", all)
		}
	})
}

// TestPanicAtTheEndOfACall: what carries the response panics when an operator ends a call: the operator hears of an error, and the call goes nowhere.
func TestPanicAtTheEndOfACall(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		over := h.keepCalls()
		session := h.begin("2025-11-25")
		go h.postOn(nil, session, message("1", "a")) // its connection is none: each use of it panics
		synctest.Wait()
		if _, err := EndCall(t.Context(), h.Node, Calls(h.Node, func(*CallInfo) bool { return true })[0].ID); err == nil {
			t.Error("no error")
		}
		if left := Calls(h.Node, func(*CallInfo) bool { return true }); len(left) != 0 {
			t.Errorf("in flight: %+v", left)
		}
		close(over)
		synctest.Wait()
	})
}

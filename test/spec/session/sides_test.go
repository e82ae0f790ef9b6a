package session_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestCallsOfASessionRunSideBySide checks that a call that waits holds up nothing of
// its session: neither a ping nor the call that it waits for.
func TestCallsOfASessionRunSideBySide(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		released := make(chan struct{}, 1)
		h.AddTool("wait", 0, func(ctx context.Context, _ *troupe.Call) (string, error) {
			select {
			case <-released:
				return "waited", nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		})
		h.AddTool("release", 0, func(context.Context, *troupe.Call) (string, error) {
			released <- struct{}{}
			return "released", nil
		})
		c := h.Session()
		waiting := make(chan *kit.Answer, 1)
		go func() { waiting <- c.Post(host.Call("1", "wait", `{}`)) }()
		synctest.Wait()
		host.Equal(t, "ping", c.Post(host.Method("2", "ping", "")).Body, `{"jsonrpc":"2.0","id":2,"result":{}}`)
		host.Equal(t, "the other call", c.Post(host.Call("3", "release", `{}`)).Body, host.TextResult("3", "released"))
		host.Equal(t, "the call that waited", (<-waiting).Body, host.TextResult("1", "waited"))

		s := h.SSE()
		s.Handshake("2024-11-05", `{}`)
		s.Post(host.Call("1", "wait", `{}`), "Accept", "")
		host.Equal(t, "ping over SSE", s.Ask(host.Method("2", "ping", "")), `{"jsonrpc":"2.0","id":2,"result":{}}`)
		first := s.Ask(host.Call("3", "release", `{}`))
		second, _ := s.Next()
		answers := []string{first, second} // of two calls that end at once
		slices.Sort(answers)
		host.Equal(t, "the call that waited, over SSE", answers[0], host.TextResult("1", "waited"))
		host.Equal(t, "the other call over SSE", answers[1], host.TextResult("3", "released"))
	})
}

// TestIDsOfBothDirections checks that the ids of the two directions are independent: a
// client may use an id that the server has used, and it cancels only its own requests.
func TestIDsOfBothDirections(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		c := h.Session()
		a := c.Post(host.Call("1", "ask", `{"question":"?"}`))
		q := host.NextQuestion(t, a)
		id := string(q.ID)
		host.Equal(t, "a request with the question's id", c.Post(host.Call(id, "echo", `{"text":"x"}`)).Body, host.TextResult(id, "x"))
		sleeping := c.Post(host.Call(id, "sleep", `{"ms":600000}`))
		c.Post(host.Note("notifications/cancelled", `{"requestId":`+id+`}`))
		if got := host.Payloads(sleeping.All()); len(got) != 0 {
			t.Errorf("the client's own request with that id was answered: %v", got)
		}
		c.Post(host.Note("notifications/cancelled", `{"requestId":`+id+`}`)) // there is nothing to cancel now
		synctest.Wait()
		host.Reply(c, q.ID, "result", `{"action":"accept","content":{"answer":"still asked"}}`)
		host.Equal(t, "the question", host.Last(t, a), host.ToolText("1", `accept {"answer":"still asked"}`))

		// The id of the client's own request answers nothing.
		a = c.Post(host.Call("7", "ask", `{"question":"?"}`))
		q = host.NextQuestion(t, a)
		host.Reply(c, json.RawMessage("7"), "result", `{"action":"decline"}`)
		host.Reply(c, q.ID, "result", `{"action":"cancel"}`)
		host.Equal(t, "the answer", host.Last(t, a), host.ToolText("7", "cancel "))
	})
}

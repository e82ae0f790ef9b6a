package troupe_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/testkit"
)

// A call that waits holds up nothing of its session: neither a ping nor the call that
// it waits for.
func TestCallsOfASessionRunSideBySide(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		released := make(chan struct{}, 1)
		h.tool("wait", 0, func(ctx context.Context, _ *troupe.Call) (string, error) {
			select {
			case <-released:
				return "waited", nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		})
		h.tool("release", 0, func(context.Context, *troupe.Call) (string, error) {
			released <- struct{}{}
			return "released", nil
		})
		c := h.session()
		waiting := make(chan *testkit.Answer, 1)
		go func() { waiting <- c.Post(call("1", "wait", `{}`)) }()
		synctest.Wait()
		equal(t, "ping", c.Post(method("2", "ping", "")).Body, `{"jsonrpc":"2.0","id":2,"result":{}}`)
		equal(t, "the other call", c.Post(call("3", "release", `{}`)).Body, textResult("3", "released"))
		equal(t, "the call that waited", (<-waiting).Body, textResult("1", "waited"))

		s := h.sse()
		s.Handshake("2024-11-05", `{}`)
		s.Post(call("1", "wait", `{}`), "Accept", "")
		equal(t, "ping over SSE", s.Ask(method("2", "ping", "")), `{"jsonrpc":"2.0","id":2,"result":{}}`)
		first := s.Ask(call("3", "release", `{}`))
		second, _ := s.Next()
		answers := []string{first, second} // of two calls that end at once
		slices.Sort(answers)
		equal(t, "the call that waited, over SSE", answers[0], textResult("1", "waited"))
		equal(t, "the other call over SSE", answers[1], textResult("3", "released"))
	})
}

// The ids of the two directions have nothing to do with each other: a client may use
// an id that the server has used, and what it cancels are its own requests.
func TestIDsOfBothDirections(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		c := h.session()
		a := c.Post(call("1", "ask", `{"question":"?"}`))
		q := nextQuestion(t, a)
		id := string(q.ID)
		equal(t, "a request with the question's id", c.Post(call(id, "echo", `{"text":"x"}`)).Body, textResult(id, "x"))
		sleeping := c.Post(call(id, "sleep", `{"ms":600000}`))
		c.Post(note("notifications/cancelled", `{"requestId":`+id+`}`))
		if got := payloads(sleeping.All()); len(got) != 0 {
			t.Errorf("the client's own request with that id was answered: %v", got)
		}
		c.Post(note("notifications/cancelled", `{"requestId":`+id+`}`)) // of nothing now
		synctest.Wait()
		reply(c, q.ID, "result", `{"action":"accept","content":{"answer":"still asked"}}`)
		equal(t, "the question", last(t, a), toolText("1", `accept {"answer":"still asked"}`))

		// The id of a request of its own answers nothing.
		a = c.Post(call("7", "ask", `{"question":"?"}`))
		q = nextQuestion(t, a)
		reply(c, json.RawMessage("7"), "result", `{"action":"decline"}`)
		reply(c, q.ID, "result", `{"action":"cancel"}`)
		equal(t, "the answer", last(t, a), toolText("7", "cancel "))
	})
}

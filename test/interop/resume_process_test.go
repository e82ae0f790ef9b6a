package interop

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestReconnection calls the tool that gives up its connection: the SDK resumes the stream by itself.
func TestReconnection(t *testing.T) {
	t.Parallel()
	c := dial(t, shared, mcp.ClientOptions{})
	sameJSON(t, "result", c.call(t, "test_reconnection", nil), text("Reconnection test completed successfully"))
	resumed := c.wire.find(resumes)
	if len(resumed) != 1 || len(resumed[0].received) != 1 || resumed[0].received[0].Result == nil {
		t.Errorf("the client resumed with %+v, want once and for the result", resumed)
	}
	if got := c.told(); got != "" {
		t.Errorf("the first connection carried %q, want nothing", got)
	}
}

// progressed returns the numbers that came as progress of any call.
func (c *client) progressed() []float64 {
	var numbers []float64
	c.note(func() {
		for _, s := range c.progress {
			numbers = append(numbers, s.Done)
		}
	})
	return numbers
}

// awaitNumber waits until a call has progressed to n.
func (c *client) awaitNumber(t *testing.T, n float64) {
	t.Helper()
	eventually(t, func() bool { return slices.Contains(c.progressed(), n) },
		func() string { return fmt.Sprintf("the call does not come to %v: %v", n, c.progressed()) })
}

// outcome is the outcome of a call.
type outcome struct {
	result *mcp.CallToolResult
	err    error
}

// begin calls a tool, with a progress token, and returns where its outcome will be.
func (c *client) begin(t *testing.T, token, tool string, args any) <-chan outcome {
	t.Helper()
	ctx, done := within(t), make(chan outcome, 1)
	params := &mcp.CallToolParams{Name: tool, Arguments: args}
	params.SetProgressToken(token)
	go func() {
		r, err := c.CallTool(ctx, params)
		done <- outcome{r, err}
	}()
	return done
}

// TestKill kills the server twice during a call. The SDK resumes the call's stream each time and gets the result; the
// session goes on with its settings, and another session with its own.
func TestKill(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := start(t, "--data", data)
	c, quiet := dial(t, s, mcp.ClientOptions{}), dial(t, s, mcp.ClientOptions{})
	if err := quiet.SetLoggingLevel(within(t), &mcp.SetLoggingLevelParams{Level: "error"}); err != nil {
		t.Fatal(err)
	}
	id := c.ID()
	const watched = "test://watched-resource"
	if err := c.Subscribe(within(t), &mcp.SubscribeParams{URI: watched}); err != nil {
		t.Fatal(err)
	}

	done := c.begin(t, "long", "count", map[string]any{"to": 100, "delay_ms": 20})
	for _, at := range []float64{20, 40} {
		c.awaitNumber(t, at)
		s.restart(t, "--data", data)
	}
	got := receive(t, done)
	if got.err != nil {
		t.Fatalf("the call that was interrupted: %v\n%s", got.err, c.transcript())
	}
	sameJSON(t, "result", got.result, text("counted to 100"))
	c.awaitNumber(t, 100)
	if n := c.progressed(); len(slices.Compact(slices.Clone(n))) != len(n) || !slices.IsSorted(n) {
		t.Errorf("the progress does not rise: %v", n)
	}

	if c.ID() != id {
		t.Errorf("the session is %s now, was %s", c.ID(), id)
	}
	sameJSON(t, "echo after the restart", c.call(t, "echo", map[string]any{"text": "still here"}), text("still here"))
	sameJSON(t, "count in another session", quiet.callWith(t, "q", "count", map[string]any{"to": 3, "delay_ms": 20}), text("counted to 3"))
	quiet.awaitProgress(t, "q", steps("q", 3))
	quiet.awaitLogs(t, nil)

	// The standalone stream is back as well. It begins with an update of the subscribed resource, because the server
	// does not know what the client has missed.
	var updated []string
	eventually(t, func() bool {
		c.note(func() { updated = slices.Clone(c.updated) })
		return slices.Contains(updated, watched)
	}, func() string { return fmt.Sprintf("updates came for %q, want %s among them", updated, watched) })
	c.note(func() { c.logs = nil })
	sameJSON(t, "tick", c.call(t, "tick", map[string]any{"n": 2}), text("ticked 2 times"))
	c.awaitLogs(t, []entry{{"info", "tick", "1 of 2"}, {"info", "tick", "2 of 2"}})
}

// TestKillSilentCall kills the server twice during a call that sends nothing. The client can only resume from priming events: the SDK remembers
// only what its newest connection has carried, so a resumed one must have one too.
func TestKillSilentCall(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := start(t, "--data", data)
	c := dial(t, s, mcp.ClientOptions{})
	done := c.begin(t, "silent", "sleep", map[string]any{"ms": 8000})
	var began string
	eventually(t, func() bool {
		if x := c.wire.find(calls("tools/call")); len(x) == 1 {
			began = x[0].lastID
		}
		return began != ""
	}, func() string { return "the call has no stream:\n" + c.transcript() })
	s.restart(t, "--data", data)
	eventually(t, func() bool { // on a busy machine the call may be over before
		return len(done) > 0 || len(c.wire.find(func(x seen) bool {
			return resumes(x) && x.header.Get("Last-Event-Id") == began && slices.Contains(x.ids, began)
		})) > 0
	}, func() string {
		return "the resumed stream does not name the place from which it goes on:\n" + c.transcript()
	})
	s.restart(t, "--data", data)
	got := receive(t, done)
	if got.err != nil {
		t.Fatalf("the call that was interrupted: %v\n%s", got.err, c.transcript())
	}
	sameJSON(t, "result", got.result, text("slept 8000 ms"))
}

// TestKillWhileAsking kills the server while the user thinks about a question. The answer reaches the call that the new
// process runs, whether the client gives it before or after it has resumed the call's stream.
func TestKillWhileAsking(t *testing.T) {
	t.Parallel()
	for _, early := range []bool{true, false} {
		t.Run(fmt.Sprintf("early %v", early), func(t *testing.T) {
			t.Parallel()
			data := t.TempDir()
			s := start(t, "--data", data)
			asked, think := make(chan struct{}, 10), make(chan struct{})
			u := &user{answer: func(context.Context) (*mcp.ElicitResult, error) {
				asked <- struct{}{}
				select {
				case <-think:
				case <-t.Context().Done():
				}
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "yes"}}, nil
			}}
			c := dial(t, s, mcp.ClientOptions{ElicitationHandler: u.elicit})
			done := c.begin(t, "asking", "ask", map[string]any{"question": "Go on?"})
			receive(t, asked)
			s.restart(t, "--data", data)
			if !early {
				eventually(t, func() bool {
					return len(c.wire.find(func(x seen) bool { return resumes(x) && x.status == http.StatusOK })) == 2
				}, func() string { return "the call's stream and the session's are not both resumed:\n" + c.transcript() })
			}
			close(think)
			got := receive(t, done)
			if got.err != nil {
				t.Fatalf("the call that was interrupted: %v\n%s", got.err, c.transcript())
			}
			sameJSON(t, "result", got.result, text("yes"))
			if n := len(asked); n != 0 {
				t.Errorf("the user was asked %d times more", n)
			}
		})
	}
}

// transcript returns what went over the wire, a line for each exchange.
func (w *wire) transcript() string {
	var b strings.Builder
	for _, x := range w.find(func(seen) bool { return true }) {
		fmt.Fprintf(&b, "%s%s %s %s after %q: %d %s, %d messages up to %q, and %v\n", x.header.Get(nodeHeader), x.verb, x.sent.Method, x.sent.ID,
			x.header.Get("Last-Event-Id"), x.status, x.kind, len(x.received), x.lastID, x.end)
	}
	return b.String()
}

func (c *client) transcript() string { return c.wire.transcript() }

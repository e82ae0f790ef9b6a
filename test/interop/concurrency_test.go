package interop

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestConcurrentCalls(t *testing.T) {
	inBothEras(t, func(t *testing.T, dial dialer) {
		t.Parallel()
		c := dial(t, shared, mcp.ClientOptions{CreateMessageHandler: func(_ context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Model: "parrot", Role: "assistant", Content: r.Params.Messages[0].Content}, nil
		}})
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				said := fmt.Sprintf("number %d", i)
				switch i % 5 {
				case 0:
					sameJSON(t, said, c.call(t, "echo", map[string]any{"text": said}), text(said))
				case 1:
					sameJSON(t, said, c.call(t, "sleep", map[string]any{"ms": 200 + i}), text(fmt.Sprintf("slept %d ms", 200+i)))
				case 2:
					sameJSON(t, said, c.callWith(t, said, "count", map[string]any{"to": 10, "delay_ms": 20}), text("counted to 10"))
					c.awaitProgress(t, said, steps(said, 10))
				case 3:
					sameJSON(t, said, c.call(t, "test_sampling", map[string]any{"prompt": said}), text("LLM response: "+said))
				case 4:
					sameJSON(t, said, c.call(t, "test_error_handling", nil), failed("This tool intentionally returns an error for testing"))
				}
			})
		}
		wg.Wait()
	})
}

func TestSessionsAreApart(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	clients := make([]*client, 8)
	ids := map[string]bool{}
	for i := range clients {
		clients[i] = dial(t, shared, mcp.ClientOptions{})
		ids[clients[i].ID()] = true
	}
	if len(ids) != len(clients) {
		t.Errorf("%d sessions have %d ids", len(clients), len(ids))
	}
	for i, c := range clients {
		wg.Go(func() {
			// Every second session wants no messages, and says so only for itself.
			want := counted(i + 1)
			if i%2 == 1 {
				if err := c.SetLoggingLevel(within(t), &mcp.SetLoggingLevelParams{Level: "error"}); err != nil {
					t.Error(err)
				}
				want = nil
			}
			// The same token in every session does no harm.
			c.callWith(t, "same", "count", map[string]any{"to": i + 1, "delay_ms": 20})
			c.awaitProgress(t, "same", steps("same", i+1))
			c.awaitLogs(t, want)
		})
	}
	wg.Wait()
	if err := clients[0].Close(); err != nil {
		t.Fatal(err)
	}
	sameJSON(t, "echo beside a closed session", clients[1].call(t, "echo", map[string]any{"text": "still here"}), text("still here"))
}

// cancelled calls a tool, cancels the call once the condition holds and returns when the client has given it up.
func cancelled(t *testing.T, c *client, tool string, args any, await func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := c.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
		done <- err
	}()
	await()
	cancel()
	if err := receive(t, done); !errors.Is(err, context.Canceled) {
		t.Errorf("the cancelled call returns %v, want context.Canceled", err)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	s := start(t, "--memory")
	c := dial(t, s, mcp.ClientOptions{})
	cancelled(t, c, "sleep", map[string]any{"ms": 3600000}, func() { s.awaitGauge(t, "troupe_calls_in_flight", 1) })
	s.awaitGauge(t, "troupe_calls_in_flight", 0)
	var told []seen
	eventually(t, func() bool { // the SDK waits for no answer, and the call may be over before it
		told = c.wire.find(calls("notifications/cancelled"))
		return len(told) > 0 && told[0].status != 0
	}, func() string { return fmt.Sprintf("cancelling sent %+v", told) })
	if len(told) != 1 || told[0].status != 202 {
		t.Errorf("cancelling sent %+v, want one accepted notification", told)
	}

	// Cancelling one of several leaves the others alone.
	slept := make(chan string, 1)
	cancelled(t, c, "sleep", map[string]any{"ms": 3600000}, func() {
		go func() {
			r, err := c.CallTool(within(t), &mcp.CallToolParams{Name: "sleep", Arguments: map[string]any{"ms": 500}})
			if err != nil {
				slept <- err.Error()
				return
			}
			slept <- r.Content[0].(*mcp.TextContent).Text
		}()
		s.awaitGauge(t, "troupe_calls_in_flight", 2)
	})
	if got, want := receive(t, slept), "slept 500 ms"; got != want {
		t.Errorf("beside a cancelled call the other returns %q, want %q", got, want)
	}
	s.awaitGauge(t, "troupe_calls_in_flight", 0)
	sameJSON(t, "echo after cancelling", c.call(t, "echo", map[string]any{"text": "still here"}), text("still here"))
}

// TestCancelQuestion cancels a call whose question the user has not answered. The SDK drops the call's stream with the
// call and so does not learn that the question is withdrawn: its answer comes late, and must do no harm.
func TestCancelQuestion(t *testing.T) {
	t.Parallel()
	s := start(t, "--memory")
	asked, late := make(chan struct{}), make(chan struct{})
	u := &user{answer: func(context.Context) (*mcp.ElicitResult, error) {
		close(asked)
		select {
		case <-late:
		case <-t.Context().Done():
		}
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "late"}}, nil
	}}
	c := dial(t, s, mcp.ClientOptions{ElicitationHandler: u.elicit})
	cancelled(t, c, "ask", map[string]any{"question": "?"}, func() { receive(t, asked) })
	s.awaitGauge(t, "troupe_calls_in_flight", 0)
	s.awaitGauge(t, "troupe_requests_pending", 0)
	close(late)
	answer := func(x seen) bool { return x.verb == http.MethodPost && len(x.sent.Result) > 0 }
	var sent []seen
	eventually(t, func() bool {
		sent = c.wire.find(answer)
		return len(sent) == 1 && sent[0].status != 0
	}, func() string { return fmt.Sprintf("the late answer was sent as %+v", sent) })
	if sent[0].status != http.StatusAccepted {
		t.Errorf("the late answer is answered with %d, want 202", sent[0].status)
	}
	sameJSON(t, "echo after that", c.call(t, "echo", map[string]any{"text": "still here"}), text("still here"))
}

// TestDeleteDuringCall ends a session in which a call runs: the server gives the call up, and the client learns it.
func TestDeleteDuringCall(t *testing.T) {
	t.Parallel()
	s := start(t, "--memory")
	a, b := dial(t, s, mcp.ClientOptions{}), dial(t, s, mcp.ClientOptions{})
	done := make(chan error, 1)
	go func() {
		_, err := a.CallTool(within(t), &mcp.CallToolParams{Name: "sleep", Arguments: map[string]any{"ms": 3600000}})
		done <- err
	}()
	s.awaitGauge(t, "troupe_calls_in_flight", 1)
	// The SDK's Close waits for calls, so that another request must end the session.
	req, err := http.NewRequestWithContext(within(t), http.MethodDelete, s.endpoint, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Mcp-Session-Id", a.ID())
	req.Header.Set("Mcp-Protocol-Version", revision)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		t.Errorf("DELETE is answered with %s", resp.Status)
	}
	s.awaitGauge(t, "troupe_calls_in_flight", 0)
	if err := receive(t, done); err == nil {
		t.Error("the call of the ended session has a result")
	}
	sameJSON(t, "echo in another session", b.call(t, "echo", map[string]any{"text": "still here"}), text("still here"))
}

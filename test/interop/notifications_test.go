package interop

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// callWith calls a tool with a progress token, which identifies the call, and with the log level that a stateless
// request must name.
func (c *client) callWith(t *testing.T, token, tool string, args any) *mcp.CallToolResult {
	t.Helper()
	params := &mcp.CallToolParams{Name: tool, Arguments: args, Meta: mcp.Meta{mcp.MetaKeyLogLevel: "info"}}
	params.SetProgressToken(token)
	r, err := c.CallTool(within(t), params)
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return r
}

// steps returns the progress of a call with the token from 1 to n.
func steps(token string, n int) []step {
	var s []step
	for i := range n {
		s = append(s, step{token, float64(i + 1), float64(n)})
	}
	return s
}

// counted returns the log messages of the tool count from 1 to n.
func counted(n int) []entry {
	var e []entry
	for i := range n {
		e = append(e, entry{"info", "count", fmt.Sprintf("%d of %d", i+1, n)})
	}
	return e
}

// awaitProgress waits for the progress of the call with the token.
func (c *client) awaitProgress(t *testing.T, token string, want []step) {
	t.Helper()
	var got []step
	eventually(t, func() bool {
		c.note(func() {
			got = slices.DeleteFunc(slices.Clone(c.progress), func(s step) bool { return s.Token != token })
		})
		return len(got) >= len(want)
	}, func() string {
		return fmt.Sprintf("%d progress notifications came, want %d: %v", len(got), len(want), got)
	})
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("progress of %s (-got +want):\n%s", token, diff)
	}
}

// told writes the messages that the client received for its calls of a tool, one word each, in the order of the wire.
func (c *client) told() string {
	var words []string
	for _, x := range c.wire.find(calls("tools/call")) {
		for _, m := range x.received {
			var p struct {
				Progress float64 `json:"progress"`
				Data     string  `json:"data"`
			}
			_ = json.Unmarshal(m.Params, &p) // a result has no params
			switch {
			case m.Method == "notifications/progress":
				words = append(words, fmt.Sprintf("progress:%v", p.Progress))
			case m.Method == "notifications/message":
				words = append(words, "log:"+p.Data)
			case m.Method != "":
				words = append(words, m.Method)
			default:
				words = append(words, "result")
			}
		}
	}
	return strings.Join(words, " ")
}

func TestProgress(t *testing.T) {
	inBothEras(t, func(t *testing.T, dial dialer) {
		t.Parallel()
		for _, delay := range []int{15, 100} { // below and above the grace
			t.Run(fmt.Sprintf("delay %d ms", delay), func(t *testing.T) {
				t.Parallel()
				c := dial(t, shared, mcp.ClientOptions{})
				sameJSON(t, "result", c.callWith(t, "mine", "count", map[string]any{"to": 5, "delay_ms": delay}), text("counted to 5"))
				c.awaitProgress(t, "mine", steps("mine", 5))
				c.awaitLogs(t, counted(5))
				want := "progress:1 log:1 of 5 progress:2 log:2 of 5 progress:3 log:3 of 5 progress:4 log:4 of 5 progress:5 log:5 of 5 result"
				if got := c.told(); got != want {
					t.Errorf("the stream of the call is\n%s\nwant\n%s", got, want)
				}
			})
		}
	})
}

func TestProgressOfTheSuitesTool(t *testing.T) {
	inBothEras(t, func(t *testing.T, dial dialer) {
		t.Parallel()
		c := dial(t, shared, mcp.ClientOptions{})
		sameJSON(t, "result", c.callWith(t, "p", "test_tool_with_progress", nil), text("Tool with progress completed"))
		c.awaitProgress(t, "p", []step{{"p", 0, 100}, {"p", 50, 100}, {"p", 100, 100}})
		if got, want := c.told(), "progress:0 progress:50 progress:100 result"; got != want {
			t.Errorf("the stream of the call is %s, want %s", got, want)
		}
	})
}

func TestProgressNotAskedFor(t *testing.T) {
	inBothEras(t, func(t *testing.T, dial dialer) {
		t.Parallel()
		c := dial(t, shared, mcp.ClientOptions{})
		c.call(t, "test_tool_with_progress", nil)
		if got, want := c.told(), "result"; got != want {
			t.Errorf("the stream of the call is %s, want %s", got, want)
		}
	})
}

func TestLogging(t *testing.T) {
	t.Parallel()
	c := dial(t, shared, mcp.ClientOptions{})
	want := []entry{{"info", "", "Tool execution started"}, {"info", "", "Tool processing data"}, {"info", "", "Tool execution completed"}}
	level := func(l mcp.LoggingLevel) {
		t.Helper()
		if err := c.SetLoggingLevel(within(t), &mcp.SetLoggingLevelParams{Level: l}); err != nil {
			t.Fatal(err)
		}
	}
	c.call(t, "test_tool_with_logging", nil)
	c.awaitLogs(t, want)
	for _, l := range []mcp.LoggingLevel{"notice", "warning", "error", "critical", "alert", "emergency"} {
		level(l)
		sameJSON(t, "result", c.call(t, "count", map[string]any{"to": 2}), text("counted to 2"))
	}
	// A message that a higher level let through would come before this one.
	for _, l := range []mcp.LoggingLevel{"debug", "info"} {
		level(l)
		c.call(t, "test_tool_with_logging", nil)
		c.awaitLogs(t, want)
	}
}

// TestTick has the server send on the standalone stream.
func TestTick(t *testing.T) {
	t.Parallel()
	c := dial(t, shared, mcp.ClientOptions{})
	sameJSON(t, "result", c.call(t, "tick", map[string]any{"n": 4, "every_ms": 10}), text("ticked 4 times"))
	c.awaitLogs(t, []entry{{"info", "tick", "1 of 4"}, {"info", "tick", "2 of 4"}, {"info", "tick", "3 of 4"}, {"info", "tick", "4 of 4"}})
	if got := c.told(); got != "result" {
		t.Errorf("the stream of the call is %s, want the result alone", got)
	}
	standalone := c.wire.find(func(x seen) bool { return x.verb == http.MethodGet })
	if len(standalone) != 1 || len(standalone[0].received) != 4 {
		t.Errorf("the session's own stream is %+v, want one with four messages", standalone)
	}
}

func TestTickWithoutStream(t *testing.T) {
	t.Parallel()
	sdk := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1.0.0"}, nil)
	w := newWire()
	defer w.base.CloseIdleConnections()
	c, err := sdk.Connect(within(t), &mcp.StreamableClientTransport{Endpoint: shared.endpoint, HTTPClient: &http.Client{Transport: w}, DisableStandaloneSSE: true},
		&mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.CallTool(within(t), &mcp.CallToolParams{Name: "tick", Arguments: map[string]any{"n": 1}})
	if err = errors.Join(err, c.Close()); err != nil {
		t.Fatal(err)
	}
	if !r.IsError {
		t.Errorf("the result is %+v, want an error", r)
	}
}

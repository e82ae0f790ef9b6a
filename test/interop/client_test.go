package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The newest revision with sessions, and the one without.
const (
	revision  = "2025-11-25"
	stateless = "2026-07-28"
)

// dialer opens a session, as dial does.
type dialer func(*testing.T, *server, mcp.ClientOptions) *client

// inBothEras runs a test with clients that have sessions, and with stateless clients.
func inBothEras(t *testing.T, test func(*testing.T, dialer)) {
	t.Parallel()
	for _, version := range []string{revision, stateless} {
		t.Run(version, func(t *testing.T) {
			test(t, func(t *testing.T, s *server, options mcp.ClientOptions) *client {
				return dialAs(t, s, options, version)
			})
		})
	}
}

// client is a session of the SDK's client with the messages that it got.
type client struct {
	*mcp.ClientSession
	wire *wire

	mu       sync.Mutex // guards the rest
	progress []step
	logs     []entry
	updated  []string
}

// step is one progress notification, entry one log message.
type (
	step struct {
		Token       any
		Done, Total float64
	}
	entry struct {
		Level  mcp.LoggingLevel
		Logger string
		Data   any
	}
)

// dial opens a session with a client that the options describe. The session is closed when the test ends.
func dial(t *testing.T, s *server, options mcp.ClientOptions) *client {
	t.Helper()
	return dialAs(t, s, options, revision)
}

func dialAs(t *testing.T, s *server, options mcp.ClientOptions, version string) *client {
	t.Helper()
	c, err := connect(within(t), s, options, version)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close the session: %v", err)
		}
		c.wire.base.CloseIdleConnections()
	})
	return c
}

func connect(ctx context.Context, s *server, options mcp.ClientOptions, version string) (*client, error) {
	c := &client{wire: newWire()}
	options.ProgressNotificationHandler = func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
		c.note(func() {
			c.progress = append(c.progress, step{r.Params.ProgressToken, r.Params.Progress, r.Params.Total})
		})
	}
	options.LoggingMessageHandler = func(_ context.Context, r *mcp.LoggingMessageRequest) {
		c.note(func() { c.logs = append(c.logs, entry{r.Params.Level, r.Params.Logger, r.Params.Data}) })
	}
	options.ResourceUpdatedHandler = func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
		c.note(func() { c.updated = append(c.updated, r.Params.URI) })
	}
	transport := &mcp.StreamableClientTransport{
		Endpoint:   s.endpoint,
		HTTPClient: &http.Client{Transport: c.wire},
		MaxRetries: 10,
	}
	var err error
	c.ClientSession, err = mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1.0.0"}, &options).
		Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	return c, err
}

func (c *client) note(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// call calls a tool, which must not fail as a request.
func (c *client) call(t *testing.T, tool string, args any) *mcp.CallToolResult {
	t.Helper()
	r, err := c.CallTool(within(t), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return r
}

// awaitLogs waits for the log messages since the last call.
func (c *client) awaitLogs(t *testing.T, want []entry) {
	t.Helper()
	var got []entry
	eventually(t, func() bool {
		c.note(func() { got = c.logs })
		return len(got) >= len(want)
	}, func() string { return fmt.Sprintf("%d log messages came, want %d: %v", len(got), len(want), got) })
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("log messages (-got +want):\n%s", diff)
	}
	c.note(func() { c.logs = nil })
}

// text returns the result of a tool that returns one text.
func text(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always encodes
	}
	return `{"content":[{"type":"text","text":` + string(data) + `}]}`
}

// failed returns the result of a tool that reports an error to the model.
func failed(s string) string {
	r := text(s)
	return r[:len(r)-1] + `,"isError":true}`
}

// sameJSON checks that a value of the SDK encodes as the text does.
func sameJSON(t *testing.T, what string, got any, want string) {
	t.Helper()
	data, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var g, w any
	if err := errors.Join(json.Unmarshal(data, &g), json.Unmarshal([]byte(want), &w)); err != nil {
		t.Fatal(err)
	}
	if result, ok := g.(map[string]any); ok { // every result of 2026-07-28 has it: TestDiscover checks it
		delete(result, "resultType")
		if meta, ok := result["_meta"].(map[string]any); ok && meta[mcp.MetaKeyServerInfo] != nil && len(meta) == 1 {
			delete(result, "_meta")
		}
	}
	if diff := cmp.Diff(g, w); diff != "" {
		t.Errorf("%s (-got +want):\n%s", what, diff)
	}
}

// refused checks that a request got an error with the code.
func refused(t *testing.T, what string, err error, code int64, message string) {
	t.Helper()
	wire, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok {
		t.Errorf("%s: the error is %v, want one of the protocol", what, err)
		return
	}
	if wire.Code != code || wire.Message != message {
		t.Errorf("%s: the error is %d %q, want %d %q", what, wire.Code, wire.Message, code, message)
	}
}

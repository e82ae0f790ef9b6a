package interop

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// ran is how a command has ended.
type ran struct {
	code           int
	stdout, stderr string
}

// troupe runs the command under test.
func troupe(t *testing.T, args ...string) ran {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		t.Fatal(err)
	}
	return ran{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// sdkServer is a server of the Go SDK. Its tool flee cuts all connections between two messages of a call.
func sdkServer(t *testing.T, o mcp.StreamableHTTPOptions) *httptest.Server {
	t.Helper()
	type who struct {
		Name string `json:"name"`
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	say := func(text string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
	}
	progress := func(ctx context.Context, r *mcp.CallToolRequest, n float64) error {
		return r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: n, Total: 2})
	}
	mcp.AddTool(s, &mcp.Tool{Name: "greet", Description: "Greets."}, func(ctx context.Context, r *mcp.CallToolRequest, in who) (*mcp.CallToolResult, any, error) {
		if in.Name == "" {
			return nil, nil, errors.New("nobody to greet")
		}
		_ = progress(ctx, r, 1) // where the response is JSON there is nowhere to put it
		return say("Hello, " + in.Name + "!"), nil, nil
	})
	var srv *httptest.Server
	mcp.AddTool(s, &mcp.Tool{Name: "flee"}, func(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		if err := progress(ctx, r, 1); err != nil {
			return nil, nil, err
		}
		srv.CloseClientConnections()
		return say("fled"), nil, progress(context.WithoutCancel(ctx), r, 2)
	})
	srv = httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &o))
	t.Cleanup(srv.Close)
	return srv
}

// TestTroupeCallsServersOfTheGoSDK: the commands call and tools settle the revision with the servers that the SDK can make, and call their tools.
func TestTroupeCallsServersOfTheGoSDK(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]mcp.StreamableHTTPOptions{
		"sessions":         {},
		"sessions in JSON": {JSONResponse: true},
		"stateless":        {Stateless: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := sdkServer(t, o)
			if got := troupe(t, "tools", srv.URL); got.code != 0 || !strings.Contains(got.stdout, "greet  name       Greets.\n") {
				t.Errorf("tools: %+v", got)
			}
			if got := troupe(t, "call", srv.URL, "greet", `{"name":"Ada"}`); got.code != 0 || got.stdout != "Hello, Ada!\n" {
				t.Errorf("call: %+v", got)
			}
			if got := troupe(t, "call", srv.URL, "greet", `{"name":""}`); got.code != 3 || got.stdout != "nobody to greet\n" {
				t.Errorf("a tool that fails: %+v", got)
			}
			if got := troupe(t, "call", srv.URL, "nothing"); got.code != 1 || !strings.Contains(got.stderr, "the server refuses: ") {
				t.Errorf("no tool: %+v", got)
			}
		})
	}
}

// TestTroupeResumesAtTheGoSDK: a stream that the SDK stores is resumed, and one that it does not store is a call that is lost.
func TestTroupeResumesAtTheGoSDK(t *testing.T) {
	t.Parallel()
	stored := sdkServer(t, mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)})
	if got := troupe(t, "call", stored.URL, "flee"); got.code != 0 || got.stdout != "fled\n" || !strings.Contains(got.stderr, "1 of 2\n") || !strings.Contains(got.stderr, "2 of 2\n") {
		t.Errorf("with a store: %+v", got)
	}
	if got := troupe(t, "call", sdkServer(t, mcp.StreamableHTTPOptions{}).URL, "flee"); got.code != 1 || !strings.Contains(got.stderr, "whether the call took effect is unknown") {
		t.Errorf("without one: %+v", got)
	}
}

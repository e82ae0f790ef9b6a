package interop

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestPingFromTheServer(t *testing.T) {
	t.Parallel()
	c := dial(t, shared, mcp.ClientOptions{})
	sameJSON(t, "ping", c.call(t, "ping", nil), text("the client is there"))
}

func TestRoots(t *testing.T) {
	t.Parallel()
	client := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1.0.0"}, nil)
	client.AddRoots(&mcp.Root{URI: "file:///a"}, &mcp.Root{URI: "file:///b", Name: "b"})
	session, err := client.Connect(within(t), &mcp.StreamableClientTransport{Endpoint: shared.endpoint}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	got, err := session.CallTool(within(t), &mcp.CallToolParams{Name: "roots"})
	if err != nil {
		t.Fatal(err)
	}
	sameJSON(t, "roots", got, text("file:///a\nfile:///b"))
}

func TestVisit(t *testing.T) {
	t.Parallel()
	asked := make(chan *mcp.ElicitParams, 1)
	over := make(chan string, 1)
	c := dial(t, shared, mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}}},
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			asked <- r.Params
			return &mcp.ElicitResult{Action: "accept"}, nil
		},
		ElicitationCompleteHandler: func(_ context.Context, r *mcp.ElicitationCompleteNotificationRequest) {
			over <- r.Params.ElicitationID
		},
	})
	sameJSON(t, "visit", c.call(t, "visit", map[string]any{"url": "https://example.com/x"}), text("the user said accept"))
	if p := <-asked; p.Mode != "url" || p.URL != "https://example.com/x" || p.ElicitationID != "visit" {
		t.Errorf("asked: %+v", p)
	}
	select {
	case id := <-over:
		if id != "visit" {
			t.Errorf("complete: %q", id)
		}
	case <-within(t).Done():
		t.Error("the end of the visit was not told")
	}
}

// TestEnter gets the error that asks to open a URL. The application decides what to do
// then.
func TestEnter(t *testing.T) {
	t.Parallel()
	enter := &mcp.CallToolParams{Name: "enter", Arguments: map[string]any{"url": "https://example.com/x"}}
	elicitation := &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}}
	_, err := dial(t, shared, mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{Elicitation: elicitation}}).CallTool(within(t), enter)
	refused(t, "who has not opened the URL", err, mcp.CodeURLElicitationRequired, "the user must open a URL first")
	if wire, ok := errors.AsType[*jsonrpc.Error](err); ok {
		sameJSON(t, "data", json.RawMessage(wire.Data), `{"elicitations":[{"mode":"url","elicitationId":"enter","url":"https://example.com/x","message":"Please open this page first."}]}`)
	}
	_, err = dial(t, shared, mcp.ClientOptions{}).CallTool(within(t), enter)
	refused(t, "who cannot be asked to open it", err, jsonrpc.CodeInvalidRequest, "the user must open a URL first, but the client must declare: elicitation.url")
}

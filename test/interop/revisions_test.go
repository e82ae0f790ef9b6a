package interop

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// sessionsOnly are the revisions of a server that leaves out the newest.
const sessionsOnly = "2024-11-05,2025-03-26,2025-06-18,2025-11-25"

// TestRevisionsLeftOut has the SDK's client settle the revision with servers that speak only some, over HTTP and stdio. By default it asks
// for the newest.
func TestRevisionsLeftOut(t *testing.T) {
	t.Parallel()
	for spoken, asks := range map[string]map[string]string{
		sessionsOnly: {"": revision, stateless: revision, revision: revision, "2025-06-18": "2025-06-18"},
		"2025-06-18": {"": "2025-06-18", revision: "2025-06-18"},
		stateless:    {"": stateless, stateless: stateless, revision: ""},
	} {
		s := start(t, "--memory", "--revisions", spoken)
		for asked, want := range asks {
			for _, transport := range []string{"http", "stdio"} {
				t.Run(spoken+"/"+transport+"/asked for "+asked, func(t *testing.T) {
					t.Parallel()
					c, wire, err := settle(t, s, transport, spoken, asked)
					if want == "" {
						told, ok := errors.AsType[*jsonrpc.Error](err)
						if !ok || told.Code != mcp.CodeUnsupportedProtocolVersion || !strings.Contains(told.Message, "this server speaks only "+spoken) {
							t.Errorf("connecting: %v", err)
						}
						return
					}
					if err != nil {
						t.Fatal(err)
					}
					if got := c.InitializeResult().ProtocolVersion; got != want {
						t.Errorf("the revision is %s, want %s", got, want)
					}
					r, err := c.CallTool(within(t), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "hello"}})
					if err != nil {
						t.Fatal(err)
					}
					sameJSON(t, "echo", r, text("hello"))
					if sessions := want != stateless && transport == "http"; sessions != (c.ID() != "") {
						t.Errorf("the session is %q", c.ID())
					}
					if asked != "" || transport != "http" {
						return
					}
					var methods []string
					for _, x := range wire.find(func(x seen) bool { return x.sent.Method != "" }) {
						methods = append(methods, x.sent.Method)
					}
					sent := []string{"server/discover", "initialize", "notifications/initialized", "tools/call"}
					if want == stateless {
						sent = []string{"server/discover", "tools/call"}
					}
					if !slices.Equal(methods, sent) {
						t.Errorf("the client sent %q, want %q", methods, sent)
					}
				})
			}
		}
	}
}

// settle connects the SDK's client, which is closed when the test ends.
func settle(t *testing.T, s *server, transport, spoken, asked string) (*mcp.ClientSession, *wire, error) {
	t.Helper()
	if transport == "http" {
		c, err := connect(within(t), s, mcp.ClientOptions{}, asked)
		if err != nil {
			return nil, nil, err
		}
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Errorf("close the session: %v", err)
			}
			c.wire.base.CloseIdleConnections()
		})
		return c.ClientSession, c.wire, nil
	}
	command := exec.Command(program, "stdio", "--revisions", spoken)
	c, err := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1.0.0"}, nil).
		Connect(within(t), &mcp.CommandTransport{Command: command}, &mcp.ClientSessionOptions{ProtocolVersion: asked})
	if err == nil {
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Errorf("close the session: %v", err)
			}
		})
	}
	return c, nil, err
}

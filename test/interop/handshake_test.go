package interop

import (
	"bytes"
	"errors"
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestInitialize(t *testing.T) {
	t.Parallel()
	for asked, want := range map[string]string{
		"2025-11-25": "2025-11-25", "2025-06-18": "2025-06-18", "2025-03-26": "2025-03-26", "2024-11-05": "2024-11-05",
	} {
		t.Run("asked for "+asked, func(t *testing.T) {
			t.Parallel()
			c, err := connect(within(t), shared, mcp.ClientOptions{}, asked)
			if err != nil {
				t.Fatal(err)
			}
			defer c.wire.base.CloseIdleConnections()
			if c.ID() == "" {
				t.Error("the session has no id")
			}
			title, completions, apps := `"title":"Troupe: everything",`, `"completions":{},`, `,"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}`
			if want < "2025-06-18" {
				title, apps = "", ""
			}
			if want < "2025-03-26" {
				completions = ""
			}
			sameJSON(t, "result of initialize", c.InitializeResult(), `{
				"protocolVersion":"`+want+`",
				"capabilities":{`+completions+`"extensions":{"io.modelcontextprotocol/skills":{"directoryRead":true}`+apps+`},"logging":{},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"tools":{"listChanged":true}},
				"serverInfo":{"name":"everything",`+title+`"version":"1.0.0"},
				"instructions":"A demonstration of every feature. Start with the tools echo, count and ask."
			}`)
			for _, x := range c.wire.find(calls("notifications/initialized")) {
				if got := x.header.Get("Mcp-Protocol-Version"); got != want {
					t.Errorf("after initialize the client speaks %q, want %q", got, want)
				}
			}
			sameJSON(t, "echo", c.call(t, "echo", map[string]any{"text": "hello"}), text("hello"))
			if err := c.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
}

func TestPing(t *testing.T) {
	t.Parallel()
	c := dial(t, shared, mcp.ClientOptions{})
	for range 3 {
		if err := c.Ping(within(t), nil); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCloseEndsTheSession(t *testing.T) {
	t.Parallel()
	c, err := connect(within(t), shared, mcp.ClientOptions{}, revision)
	if err != nil {
		t.Fatal(err)
	}
	defer c.wire.base.CloseIdleConnections()
	id := c.ID()
	post := func() int {
		req, err := http.NewRequestWithContext(within(t), http.MethodPost, shared.endpoint, bytes.NewBufferString(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Mcp-Session-Id", id)
		req.Header.Set("Mcp-Protocol-Version", revision)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	if got := post(); got != http.StatusOK {
		t.Fatalf("a request in the open session is answered with %d, want 200", got)
	}
	if err := c.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	deletes := c.wire.find(func(x seen) bool { return x.verb == http.MethodDelete })
	if len(deletes) != 1 || deletes[0].header.Get("Mcp-Session-Id") != id || deletes[0].status/100 != 2 {
		t.Errorf("closing sent %+v, want one successful DELETE of session %q", deletes, id)
	}
	if got := post(); got != http.StatusNotFound {
		t.Errorf("a request in the closed session is answered with %d, want 404", got)
	}
	if err := c.Ping(within(t), nil); !errors.Is(err, mcp.ErrConnectionClosed) {
		t.Errorf("ping after close returns %v, want ErrConnectionClosed", err)
	}
}

func TestRootsChanged(t *testing.T) {
	t.Parallel()
	wires := newWire()
	defer wires.base.CloseIdleConnections()
	sdk := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1.0.0"}, nil)
	c, err := sdk.Connect(within(t), &mcp.StreamableClientTransport{Endpoint: shared.endpoint, HTTPClient: &http.Client{Transport: wires}},
		&mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	sdk.AddRoots(&mcp.Root{Name: "here", URI: "file:///here"})
	told := wires.find(calls("notifications/roots/list_changed"))
	if len(told) != 1 || told[0].status != http.StatusAccepted {
		t.Errorf("the change was told with %+v, want one notification answered with 202", told)
	}
	if err := c.Ping(within(t), nil); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

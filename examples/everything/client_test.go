package everything

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
)

// message is any JSON-RPC message.
type message struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
}

// client speaks to a server over HTTP, as small as can be.
type client struct {
	t       *testing.T
	url     string
	session string
	reply   func(method string, params json.RawMessage) string // the result of a server's request

	mu            sync.Mutex // guards the rest
	notifications []message
	lastEvent     string
}

// connect serves NewConformance in memory and opens a session.
func connect(t *testing.T, capabilities string) *client {
	t.Helper()
	return connectTo(t, NewConformance(troupe.ServerOptions{}), capabilities)
}

// connectTo serves a server in memory and opens a session.
func connectTo(t *testing.T, server *troupe.Server, capabilities string) *client {
	t.Helper()
	rt, err := troupe.New(troupe.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rt.Mount("/mcp", server)
	srv := httptest.NewServer(rt)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := rt.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		srv.CloseClientConnections()
		srv.Close()
	})
	c := &client{t: t, url: srv.URL + "/mcp"}
	c.call("initialize", `{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"clientInfo":{"name":"t","version":"1"}}`, nil)
	c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

func (c *client) do(method, body string) *http.Response {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	c.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, c.url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
	}
	if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
		req.Header.Set("MCP-Protocol-Version", "2025-11-25")
	}
	if c.lastEvent != "" && method == http.MethodGet {
		req.Header.Set("Last-Event-ID", c.lastEvent)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, body, err)
	}
	c.t.Cleanup(func() { _ = resp.Body.Close() })
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		c.session = id
	}
	return resp
}

// post sends a message that nothing answers.
func (c *client) post(body string) {
	if resp := c.do(http.MethodPost, body); resp.StatusCode != http.StatusAccepted {
		c.t.Errorf("%s is answered with %s", body, resp.Status)
	}
}

// call sends a request and decodes its result into result. It comes back for the
// answer as long as the server closes the stream without one.
func (c *client) call(method, params string, result any) message {
	c.t.Helper()
	c.lastEvent = ""
	resp := c.do(http.MethodPost, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params))
	for {
		if resp.StatusCode != http.StatusOK {
			body, _ := io.ReadAll(resp.Body)
			c.t.Fatalf("%s %s is answered with %s: %s", method, params, resp.Status, body)
		}
		m, ok := c.read(resp)
		if !ok {
			resp = c.do(http.MethodGet, "")
			continue
		}
		if result != nil {
			if m.Error != nil {
				c.t.Fatalf("%s %s is answered with the error %s", method, params, m.Error)
			}
			if err := json.Unmarshal(m.Result, result); err != nil {
				c.t.Fatalf("%s %s: %v in %s", method, params, err, m.Result)
			}
		}
		return m
	}
}

// read reads the answer, handling what comes before it. It says whether there
// was one.
func (c *client) read(resp *http.Response) (message, bool) {
	c.t.Helper()
	var m message
	if resp.Header.Get("Content-Type") == "application/json" {
		if err := json.NewDecoder(resp.Body).Decode(&m); err != nil {
			c.t.Fatal(err)
		}
		return m, true
	}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			c.lastEvent = id
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		m = message{}
		if err := json.Unmarshal([]byte(data), &m); err != nil {
			c.t.Fatalf("%v in %s", err, data)
		}
		switch {
		case m.Method == "":
			return m, true
		case m.ID == nil:
			c.mu.Lock()
			c.notifications = append(c.notifications, m)
			c.mu.Unlock()
		default:
			var answer bytes.Buffer
			fmt.Fprintf(&answer, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, c.reply(m.Method, m.Params))
			c.post(answer.String())
		}
	}
	return message{}, false
}

// notified returns the params of the notifications of a method that have come.
func (c *client) notified(method string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, n := range c.notifications {
		if n.Method == method {
			all = append(all, string(n.Params))
		}
	}
	return all
}

// toolResult is the result of a tool with its content as it came.
type toolResult struct {
	Content    []json.RawMessage `json:"content"`
	Structured json.RawMessage   `json:"structuredContent"`
	IsError    bool              `json:"isError"`
}

// tool calls a tool and returns its result. Empty arguments are left out.
func (c *client) tool(name, arguments string) toolResult {
	c.t.Helper()
	params := fmt.Sprintf(`{"name":%q,"_meta":{"progressToken":"token"}}`, name)
	if arguments != "" {
		params = fmt.Sprintf(`{"name":%q,"arguments":%s,"_meta":{"progressToken":"token"}}`, name, arguments)
	}
	var r toolResult
	c.call("tools/call", params, &r)
	return r
}

// text returns the text of a result that is one block of text.
func (r toolResult) text(t *testing.T) string {
	t.Helper()
	var block struct{ Type, Text string }
	if len(r.Content) != 1 || json.Unmarshal(r.Content[0], &block) != nil || block.Type != "text" {
		t.Fatalf("content is %s, want one block of text", r.Content)
	}
	return block.Text
}

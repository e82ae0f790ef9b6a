package main_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/examples/everything"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/troupetest"
)

// hung is how long to wait for what comes at once, unless something hangs. A busy machine comes nowhere near it.
const hung = 10 * time.Minute

// message is any JSON-RPC message.
type message struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
}

// client speaks to a server, in process or over HTTP.
type client struct {
	t       *testing.T
	reply   func(method string, params json.RawMessage) string // the result of a server's request
	process *troupetest.Client                                 // nil over HTTP

	url       string
	session   string
	lastEvent string

	mu            sync.Mutex // guards the rest
	notifications []message
}

// connect serves NewConformance in this process to a client of the newest revision that
// has sessions.
func connect(t *testing.T, capabilities string) *client {
	t.Helper()
	return connectTo(t, everything.NewConformance(troupe.ServerOptions{}), capabilities)
}

// connectTo is connect for a server.
func connectTo(t *testing.T, server *troupe.Server, capabilities string) *client {
	t.Helper()
	c := &client{t: t}
	o := troupetest.Options{Revision: mcp.LatestLegacy, Notify: func(method string, params json.RawMessage) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.notifications = append(c.notifications, message{Method: method, Params: params})
	}, Answer: func(_ context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(c.reply(method, params)), nil
	}}
	if err := json.Unmarshal([]byte(capabilities), &o.Capabilities); err != nil {
		t.Fatal(err)
	}
	c.process = troupetest.Connect(t, server, o)
	return c
}

// connectHTTP is connect over HTTP, for event streams and their ends.
func connectHTTP(t *testing.T) *client {
	t.Helper()
	rt, err := troupe.New(troupe.Options{Store: troupe.StoreOptions{Lease: 2 * time.Minute}}) // a busy machine may keep it from renewing a short one
	if err != nil {
		t.Fatal(err)
	}
	rt.Mount("/mcp", everything.NewConformance(troupe.ServerOptions{}))
	srv := httptest.NewServer(rt)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), hung)
		defer cancel()
		if err := rt.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		srv.CloseClientConnections()
		srv.Close()
	})
	c := &client{t: t, url: srv.URL + "/mcp"}
	c.call("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`, nil)
	c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

func (c *client) do(method, body string) *http.Response {
	ctx, cancel := context.WithTimeout(context.Background(), hung)
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

// post sends a message that has no response.
func (c *client) post(body string) {
	if resp := c.do(http.MethodPost, body); resp.StatusCode != http.StatusAccepted {
		c.t.Errorf("%s is answered with %s", body, resp.Status)
	}
}

// call sends a request and decodes its result into result, unless that is nil. Over HTTP
// it resumes the stream as long as the server closes it without the response.
func (c *client) call(method, params string, result any) message {
	c.t.Helper()
	if c.process != nil {
		return c.callHere(method, params, result)
	}
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

// callHere is call in this process.
func (c *client) callHere(method, params string, result any) (m message) {
	c.t.Helper()
	err := c.process.Do(c.t.Context(), method, json.RawMessage(params), &m.Result)
	if refusal, ok := errors.AsType[*mcp.Error](err); ok && result == nil {
		m.Error, err = json.Marshal(refusal)
	}
	if err == nil && result != nil {
		err = json.Unmarshal(m.Result, result)
	}
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, params, err)
	}
	return m
}

// read reads the response and handles the messages before it. It reports whether there
// was a response.
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
			c.t.Errorf("asked %s over HTTP", m.Method)
		}
	}
	return message{}, false
}

// notified returns the params of the received notifications of a method.
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

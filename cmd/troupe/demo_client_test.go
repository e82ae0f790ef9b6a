package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/examples/everything"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/troupetest"
)

// message is any JSON-RPC message.
type message struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
}

// client speaks to a server in process.
type client struct {
	t       *testing.T
	reply   func(method string, params json.RawMessage) string // the result of a server's request
	process *troupetest.Client

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

// call sends a request and decodes its result into result, unless that is nil.
func (c *client) call(method, params string, result any) (m message) {
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

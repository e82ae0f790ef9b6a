package troupetest

import (
	"context"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server/ats"

	"github.com/troupe-run/troupe/internal/bubble"
	"github.com/troupe-run/troupe/mcp"
)

// The store's clock is one goroutine of the process. If it started within a bubble, time
// would stand still in the store.
func init() { ats.Register() }

// Test runs f in virtual time, in a bubble of testing/synctest. Clients that f connects end
// with it.
func Test(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	bubble.Test(t, f)
}

// CallTool calls a tool. arguments may be any value that encodes to a JSON object, or nil
// for none. A tool that fails is a result with IsError; the errors are those of [Client.Do].
func (c *Client) CallTool(ctx context.Context, name string, arguments any) (*mcp.CallToolResult, error) {
	p := map[string]any{"name": name}
	if arguments != nil {
		p["arguments"] = arguments
	}
	r := new(mcp.CallToolResult)
	if err := c.Do(ctx, mcp.MethodToolsCall, p, r); err != nil {
		return nil, err
	}
	return r, nil
}

// Text returns the text blocks of a result, a line each. It is empty for nil.
func Text(r *mcp.CallToolResult) string {
	if r == nil {
		return ""
	}
	var texts []string
	for _, block := range r.Content {
		if text, ok := block.(*mcp.TextContent); ok {
			texts = append(texts, text.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// Tools lists all tools that the client sees, page by page.
func (c *Client) Tools(ctx context.Context) ([]mcp.Tool, error) {
	var all []mcp.Tool
	var params struct {
		Cursor string `json:"cursor,omitempty"`
	}
	for {
		var page mcp.ListToolsResult
		if err := c.Do(ctx, mcp.MethodToolsList, params, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Tools...)
		if params.Cursor = page.NextCursor; params.Cursor == "" {
			return all, nil
		}
	}
}

// Subscribe asks for notifications of changes: of the resources with these URIs and, where
// the revision requires it (2026-07-28), of all lists. It returns when the server has
// accepted that. Options.Notify gets them. ctx bounds the wait; without sessions, it also
// ends the subscription.
func (c *Client) Subscribe(ctx context.Context, uris ...string) error {
	if c.stateful {
		for _, uri := range uris {
			if err := c.Do(ctx, mcp.MethodResourcesSubscribe, map[string]string{"uri": uri}, nil); err != nil {
				return err
			}
		}
		return nil
	}
	filter := mcp.SubscriptionFilter{ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true, ResourceSubscriptions: uris}
	ended := make(chan error, 1)
	acknowledged := make(chan struct{}, 1)
	params, err := object(map[string]any{"notifications": filter})
	if err != nil {
		return err // never: a filter is only strings and booleans
	}
	go func() {
		_, err := c.ask(ctx, mcp.MethodSubscriptionsListen, params, acknowledged)
		ended <- err
	}()
	select {
	case <-acknowledged:
		return nil
	case err := <-ended:
		return err
	}
}

package troupetest

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/troupe-run/troupe/mcp"
)

// reply answers a request of the server.
func (c *Client) reply(m message) {
	result, err := c.respond(c.ctx, m.Method, m.Params)
	r := message{ID: m.ID, Result: result}
	if err != nil {
		r.Result, r.Error = nil, asError(err)
	}
	_ = c.send(r) // a server that is gone needs no answer
}

// asError returns err as a JSON-RPC error.
func asError(err error) *mcp.Error {
	if e, ok := errors.AsType[*mcp.Error](err); ok {
		return e
	}
	return mcp.NewError(mcp.CodeInternalError, err.Error())
}

// answers returns the answers to the questions of a result. If the client fails to answer,
// it sends nothing, and the call returns the error.
func (c *Client) answers(ctx context.Context, questions mcp.InputRequests) (json.RawMessage, error) {
	given := mcp.InputResponses{}
	for key, q := range questions {
		result, err := c.respond(ctx, q.Method, q.Params)
		if err != nil {
			return nil, err
		}
		given[key] = result
	}
	return json.Marshal(given)
}

// respond lets the function of the options answer a question, one at a time.
func (c *Client) respond(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	select {
	case c.order <- struct{}{}:
		defer func() { <-c.order }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	switch {
	case method == mcp.MethodPing:
		return json.RawMessage(`{}`), nil
	case method == mcp.MethodElicitationCreate && c.o.Elicit != nil:
		return respond(ctx, params, c.o.Elicit)
	case method == mcp.MethodSamplingCreateMessage && c.o.Sample != nil:
		return respond(ctx, params, c.o.Sample)
	case method == mcp.MethodRootsList && c.o.Roots != nil:
		roots, err := c.o.Roots(ctx)
		if err != nil {
			return nil, err
		}
		if roots == nil {
			roots = []mcp.Root{}
		}
		return json.Marshal(mcp.ListRootsResult{Roots: roots})
	case c.o.Answer != nil:
		return c.o.Answer(ctx, method, params)
	}
	return nil, mcp.NewError(mcp.CodeMethodNotFound, "troupetest: nothing answers "+method)
}

func respond[P, R any](ctx context.Context, params json.RawMessage, f func(context.Context, P) (R, error)) (json.RawMessage, error) {
	var p P
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, err
	}
	r, err := f(ctx, p)
	if err != nil {
		return nil, err
	}
	return json.Marshal(r)
}

// notice passes a notification to the function that sees its kind.
func (c *Client) notice(m message) {
	if m.Method == mcp.NotifySubscriptionsAcknowledged {
		pass(m.Params, c.acknowledge)
	}
	switch {
	case m.Method == mcp.NotifyProgress && c.o.Progress != nil:
		pass(m.Params, c.o.Progress)
	case m.Method == mcp.NotifyMessage && c.o.Log != nil:
		pass(m.Params, c.o.Log)
	case c.o.Notify != nil:
		c.o.Notify(m.Method, m.Params)
	}
}

// acknowledge wakes the Subscribe whose request the server has accepted.
func (c *Client) acknowledge(p mcp.AcknowledgedParams) {
	id, ok := p.Meta.SubscriptionID()
	if !ok {
		return // never: the server tags all it sends
	}
	c.mu.Lock()
	acknowledged := c.waiting[id.String()].acknowledged
	c.mu.Unlock()
	select {
	case acknowledged <- struct{}{}:
	default: // it is acknowledged already, or nobody waits
	}
}

func pass[P any](params json.RawMessage, f func(P)) {
	var p P
	if json.Unmarshal(params, &p) == nil { // never fails: the schema is checked for the server's messages
		f(p)
	}
}

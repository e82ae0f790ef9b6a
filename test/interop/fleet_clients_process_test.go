//go:build full

package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// callProgram has a program make calls, with settings as JSON: see npm/long.mjs and python/long.py.
func callProgram(t *testing.T, all []*caller, settings map[string]any, command string, args ...string) {
	settings["calls"] = all
	runQuietly(t, func(s said, _ io.Writer) {
		for _, c := range all {
			if c.Name == s.Name {
				c.hear(s)
			}
		}
	}, command, append(args, asJSON(settings))...)
}

// callGo has the Go SDK make calls.
func callGo(t *testing.T, all []*caller) {
	var each sync.WaitGroup
	for _, c := range all {
		each.Go(func() {
			if err := c.callGo(t); err != nil {
				c.hear(said{Fault: err.Error()})
			}
		})
	}
	each.Wait()
}

const tasksExtension = "io.modelcontextprotocol/tasks"

// A task as tasks/get has it. The SDK has no tasks: they are a method of the program's own.
type (
	taskParams struct {
		mcp.ParamsBase
		TaskID string `json:"taskId"`
	}
	taskResult struct {
		mcp.ResultBase
		Status string              `json:"status"`
		Result *mcp.CallToolResult `json:"result"`
	}
)

// callGo makes the call of one client, again and again if it is one without a session.
func (c *caller) callGo(t *testing.T) error {
	ctx, cancel := context.WithTimeout(t.Context(), lasting)
	defer cancel()
	attempt := 0
	capabilities := &mcp.ClientCapabilities{}
	if c.Tasks {
		capabilities.AddExtension(tasksExtension, nil)
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1.0.0"}, &mcp.ClientOptions{
		Capabilities: capabilities,
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			n, _ := r.Params.ProgressToken.(float64) // the attempt
			c.hear(said{Attempt: int(n), Progress: int(r.Params.Progress)})
		},
	})
	if err := mcp.AddSendingCustomMethod[*taskParams, *taskResult](client, "tasks/get"); err != nil {
		return err
	}
	wire := newWire()
	defer wire.base.CloseIdleConnections()
	transport := &mcp.StreamableClientTransport{Endpoint: c.URL, HTTPClient: &http.Client{Transport: taskNames{wire}}}
	session, err := client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: c.Revision})
	if err != nil {
		return err
	}
	defer session.Close() // Close returns the error of a failed connection, which the calls return as well
	if got := session.InitializeResult().ProtocolVersion; got != c.Revision {
		return fmt.Errorf("the revision is %s", got)
	}
	for done := false; !done; {
		attempt++
		c.hear(said{Attempt: attempt})
		params := &mcp.CallToolParams{Name: "count", Arguments: map[string]any{"to": c.To, "delay_ms": 1000}}
		params.SetProgressToken(attempt)
		result, err := session.CallTool(ctx, params)
		if err == nil && len(result.Content) == 0 { // what the SDK makes of a task
			result, err = c.followGo(ctx, session, wire, attempt)
		}
		if err == nil {
			text, ok := result.Content[0].(*mcp.TextContent)
			if done = true; !ok || result.IsError {
				return fmt.Errorf("the result has %v", result.Content)
			}
			c.awaitProgress(attempt)
			c.hear(said{Attempt: attempt, Text: text.Text})
			continue
		}
		c.hear(said{Attempt: attempt, Error: err.Error()})
		if done = c.Revision != stateless || attempt == 20 || ctx.Err() != nil; !done {
			time.Sleep(time.Second)
		}
	}
	echo, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "still here"}})
	if err != nil {
		return err
	}
	if text, ok := echo.Content[0].(*mcp.TextContent); ok {
		c.hear(said{After: text.Text})
	}
	return nil
}

// awaitProgress waits for the last number of a call that tells all of them, for a second: handlers may be slower than the result.
func (c *caller) awaitProgress(attempt int) {
	for range 100 {
		c.mu.Lock()
		n := len(c.attempts[attempt-1].progress)
		c.mu.Unlock()
		if n >= counts {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// followGo follows the task that a call has become. Its id is in no field of the SDK's result: it is taken from the wire.
func (c *caller) followGo(ctx context.Context, session *mcp.ClientSession, w *wire, attempt int) (*mcp.CallToolResult, error) {
	var made struct{ TaskID string }
	for _, x := range w.find(calls("tools/call")) {
		for _, m := range x.received {
			if len(m.Result) > 0 {
				if err := json.Unmarshal(m.Result, &made); err != nil {
					return nil, err
				}
			}
		}
	}
	if made.TaskID == "" {
		return nil, errors.New("the result has neither content nor a task")
	}
	c.hear(said{Attempt: attempt, Task: made.TaskID})
	for {
		got, err := mcp.CallCustomMethod[*taskParams, *taskResult](ctx, session, "tasks/get", &taskParams{TaskID: made.TaskID})
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil: // the node that was asked has ended: another one is asked
		case got.Status == "completed":
			return got.Result, nil
		case got.Status != "working":
			return nil, fmt.Errorf("the task is %s", got.Status)
		}
		time.Sleep(time.Second)
	}
}

// taskNames adds the header that the extension wants, which the SDK gives only to methods that it knows.
type taskNames struct{ base http.RoundTripper }

func (n taskNames) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Header.Get("Mcp-Method") == "tasks/get" {
		body, err := req.GetBody()
		if err != nil {
			return nil, err
		}
		var m struct{ Params struct{ TaskID string } }
		if err := json.NewDecoder(body).Decode(&m); err != nil {
			return nil, err
		}
		req = req.Clone(req.Context())
		req.Header.Set("Mcp-Name", m.Params.TaskID)
	}
	return n.base.RoundTrip(req)
}

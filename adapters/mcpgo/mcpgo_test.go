package mcpgo_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/troupe-run/troupe/adapters/mcpgo"
)

// newServer is a server of mcp-go with a tool that asks its client, and one that panics.
func newServer() *server.MCPServer {
	s := server.NewMCPServer("greeter", "1.0.0", server.WithElicitation())
	s.AddTool(mcp.NewTool("greet", mcp.WithDescription("Greets whoever calls.")), func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if r.Params.Meta != nil && r.Params.Meta.ProgressToken != nil {
			progress := map[string]any{"progressToken": r.Params.Meta.ProgressToken, "progress": 1}
			if err := s.SendNotificationToClient(ctx, "notifications/progress", progress); err != nil {
				return nil, err
			}
		}
		answer, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: mcp.ElicitationParams{Message: "Who are you?", RequestedSchema: map[string]any{"type": "object"}}})
		if err != nil {
			return nil, err
		}
		return mcp.NewToolResultText(fmt.Sprintf("Hello, %v!", answer.Content)), nil
	})
	s.AddTool(mcp.NewTool("panic"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) { panic("as it is told") })
	return s
}

// TestServer has two sessions of one server at a time, whose calls ask each its own client, and ends them by the end of their input.
func TestServer(t *testing.T) {
	name, run, ok := mcpgo.Server("greeter", newServer()).Serve()
	if !ok || name != "greeter" {
		t.Fatalf("the target is %q, %v", name, ok)
	}
	all := map[string]*instance{"Ada": start(t, run), "Grace": start(t, run)}
	for _, i := range all {
		if got := i.ask("initialize", `"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"1"}`); got["protocolVersion"] != "2025-11-25" {
			t.Errorf("initialize: %v", got)
		}
		i.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	for name, i := range all {
		i.name = name
		if got := i.ask("tools/call", `"name":"greet","_meta":{"progressToken":1}`); fmt.Sprint(got["content"]) != fmt.Sprintf("[map[text:Hello, map[name:%s]! type:text]]", name) {
			t.Errorf("greet: %v", got)
		}
		if fmt.Sprint(i.heard) != "[notifications/progress elicitation/create]" {
			t.Errorf("before the answer came %v", i.heard)
		}
		i.ask("tools/call", `"name":"panic"`)
		if i.failed == 0 {
			t.Error("a handler that panics is answered without an error")
		}
	}
	for _, i := range all {
		i.end()
	}
}

// An instance is a server that runs, and whoever speaks to it.
type instance struct {
	t     *testing.T
	in    io.WriteCloser
	out   *bufio.Scanner
	ended chan error
	ids   int

	name   string   // what it answers to questions
	heard  []string // methods of what came beside answers
	failed int      // the code of the last answer, if it was an error
}

func start(t *testing.T, run func(context.Context, io.Reader, io.Writer) error) *instance {
	read, in := io.Pipe()
	out, write := io.Pipe()
	i := &instance{t: t, in: in, out: bufio.NewScanner(out), ended: make(chan error, 1)}
	go func() {
		err := run(t.Context(), read, write)
		_ = write.Close()
		i.ended <- err
	}()
	return i
}

func (i *instance) say(line string) {
	if _, err := io.WriteString(i.in, line+"\n"); err != nil {
		i.t.Fatal(err)
	}
}

// ask returns the result of a request.
func (i *instance) ask(method, params string) map[string]any {
	i.t.Helper()
	i.ids++
	i.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`, i.ids, method, params))
	for i.out.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
			Result map[string]any
			Error  struct{ Code int }
		}
		if err := json.Unmarshal(i.out.Bytes(), &m); err != nil {
			i.t.Fatalf("%v: %s", err, i.out.Text())
		}
		if m.Method == "" && string(m.ID) == fmt.Sprint(i.ids) {
			i.failed = m.Error.Code
			return m.Result
		}
		i.heard = append(i.heard, m.Method)
		if m.ID != nil {
			i.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"name":%q}}}`, m.ID, i.name))
		}
	}
	i.t.Fatalf("no answer to %s: %v", method, i.out.Err())
	return nil
}

// end ends the input, upon which the server ends.
func (i *instance) end() {
	_ = i.in.Close()
	for i.out.Scan() {
	}
	if err := <-i.ended; err != nil {
		i.t.Errorf("it ends with %v", err)
	}
}

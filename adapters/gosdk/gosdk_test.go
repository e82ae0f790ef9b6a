package gosdk_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/troupe-run/troupe/adapters/gosdk"
)

type who struct {
	Name string `json:"name"`
}

// newServer is a server of the SDK with one tool.
func newServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "greeter", Version: "1.0.0"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "greet", Description: "Greets someone."}, func(_ context.Context, _ *mcp.CallToolRequest, in who) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "Hello, " + in.Name + "!"}}}, nil, nil
	})
	return s
}

// TestServer has two instances of one server at a time, each with a handshake of its own in one era, and ends them by the end of their input.
func TestServer(t *testing.T) {
	name, run, ok := gosdk.Server("greeter", newServer()).Serve()
	if !ok || name != "greeter" {
		t.Fatalf("the target is %q, %v", name, ok)
	}
	legacy, modern := start(t, run), start(t, run)
	if got := legacy.ask("initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}`); got["protocolVersion"] != "2025-11-25" {
		t.Errorf("initialize: %v", got)
	}
	legacy.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	if got := modern.ask("server/discover", meta); got["resultType"] != "complete" {
		t.Errorf("server/discover: %v", got)
	}
	for name, i := range map[string]*instance{"Ada": legacy, "Grace": modern} {
		params := fmt.Sprintf(`"name":"greet","arguments":{"name":%q}`, name)
		if i == modern {
			params += "," + meta
		}
		if got := i.ask("tools/call", params); fmt.Sprint(got["content"]) != fmt.Sprintf("[map[text:Hello, %s! type:text]]", name) {
			t.Errorf("greet: %v", got)
		}
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
			ID     int
			Result map[string]any
			Error  any
		}
		if err := json.Unmarshal(i.out.Bytes(), &m); err != nil {
			i.t.Fatalf("%v: %s", err, i.out.Text())
		}
		if m.ID == i.ids {
			if m.Error != nil {
				i.t.Errorf("%s: %v", method, m.Error)
			}
			return m.Result
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

package interop

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// dialStateless opens what the SDK takes for a session of a stateless client.
func dialStateless(t *testing.T, s *server, options mcp.ClientOptions) *client {
	t.Helper()
	return dialAs(t, s, options, stateless)
}

func TestDiscover(t *testing.T) {
	t.Parallel()
	for _, asked := range []string{"", stateless} {
		t.Run("asked for "+asked, func(t *testing.T) {
			t.Parallel()
			c := dialAs(t, shared, mcp.ClientOptions{}, asked)
			if c.ID() != "" {
				t.Errorf("there is a session %q", c.ID())
			}
			r := c.InitializeResult()
			sameJSON(t, "the server", []any{r.ProtocolVersion, r.ServerInfo, r.Capabilities, r.Instructions}, `["2026-07-28",
				{"name":"everything","title":"Troupe: everything","version":"1.0.0"},
				{"completions":{},"extensions":{"io.modelcontextprotocol/skills":{"directoryRead":true},"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}},"logging":{},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"tools":{"listChanged":true}},
				"A demonstration of every feature. Start with the tools echo, count and ask."]`)
			echo := c.call(t, "echo", map[string]any{"text": "hello"})
			sameJSON(t, "echo", echo, text("hello"))
			sameJSON(t, "who answers", echo.Meta, `{"io.modelcontextprotocol/serverInfo":{"name":"everything","title":"Troupe: everything","version":"1.0.0"}}`)
			all := c.wire.find(func(seen) bool { return true })
			var methods []string
			for _, x := range all {
				methods = append(methods, x.sent.Method)
				if x.header.Get("Mcp-Protocol-Version") != stateless || x.header.Get("Mcp-Method") != x.sent.Method || x.header.Get("Mcp-Session-Id") != "" {
					t.Errorf("%s has the headers %v", x.sent.Method, x.header)
				}
			}
			if want := []string{"server/discover", "tools/call"}; !slices.Equal(methods, want) {
				t.Errorf("the client sent %q, want %q", methods, want)
			}
			tools, err := c.ListTools(within(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			if tools.TTLMs != 0 || tools.CacheScope != "public" {
				t.Errorf("tools may be kept for %d ms, %s", tools.TTLMs, tools.CacheScope)
			}
		})
	}
}

// TestStatelessUndeclared calls tools that ask, as a client that cannot answer.
func TestStatelessUndeclared(t *testing.T) {
	t.Parallel()
	c := dialStateless(t, shared, mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	for tool, needs := range map[string]string{
		"ask": "elicitation.form", "visit": "elicitation.url", "test_sampling": "sampling", "delegate": "sampling.tools", "roots": "roots",
		"test_missing_capability": "sampling",
	} {
		_, err := c.CallTool(within(t), &mcp.CallToolParams{Name: tool, Arguments: map[string]any{}})
		refused(t, tool, err, mcp.CodeMissingRequiredClientCapabilities, "the client must declare: "+needs)
	}
	sameJSON(t, "what asks for what there is", c.call(t, "test_input_required_result_capabilities", nil), text("the client can answer nothing"))
}

// person answers forms by their messages, and keeps the questions.
type person struct {
	answers map[string]map[string]any // nil declines
	gate    map[string]chan struct{}  // what an answer waits for

	mu    sync.Mutex // guards asked
	asked []string
}

func (p *person) elicit(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	p.mu.Lock()
	p.asked = append(p.asked, r.Params.Message)
	p.mu.Unlock()
	if gate := p.gate[r.Params.Message]; gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	content, ok := p.answers[r.Params.Message]
	switch {
	case !ok:
		return nil, &jsonrpc.Error{Code: -31999, Message: "the user has left"}
	case content == nil:
		return &mcp.ElicitResult{Action: "decline"}, nil
	}
	return &mcp.ElicitResult{Action: "accept", Content: content}, nil
}

func (p *person) times(message string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.asked {
		if m == message {
			n++
		}
	}
	return n
}

const (
	step1 = "Step 1: What is your name?"
	step2 = "Step 2: What is your favorite color?"
)

// TestInputRequired has the client answer questions that come as results, and send the call again.
func TestInputRequired(t *testing.T) {
	t.Parallel()
	u := &person{answers: map[string]map[string]any{
		"What is your name?": {"name": "Ada 世界"}, step1: {"name": "Grace"}, step2: {"color": "blue"}, "Please confirm": {"ok": true},
		"What context should the prompt use?": {"context": "the sea"}, "Who?": nil, "Please open this page.": {},
	}}
	c := dialStateless(t, shared, mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{
			RootsV2:     &mcp.RootCapabilities{},
			Sampling:    &mcp.SamplingCapabilities{},
			Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}},
		},
		ElicitationHandler: u.elicit,
		CreateMessageHandler: func(_ context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Model: "parrot", Role: "assistant", Content: r.Params.Messages[0].Content}, nil
		},
	})
	for tool, want := range map[string]string{
		"elicitation": text("Hello, Ada 世界!"), "sampling": text("What is the capital of France?"), "list_roots": text(""),
		"request_state": text("state-ok: the user said true"), "multiple_inputs": text("Generate a greeting Ada 世界 works in "),
		"multi_round": text("Grace likes blue"), "capabilities": text("asked 3 questions"),
	} {
		sameJSON(t, tool, c.call(t, "test_input_required_result_"+tool, nil), want)
	}
	if u.times(step1) != 1 || u.times(step2) != 1 {
		t.Errorf("asked: %q", u.asked)
	}
	prompt, err := c.GetPrompt(within(t), &mcp.GetPromptParams{Name: "test_input_required_result_prompt"})
	if err != nil {
		t.Fatal(err)
	}
	sameJSON(t, "prompt", prompt.Messages, `[{"role":"user","content":{"type":"text","text":"Use this context: the sea"}}]`)
	sameJSON(t, "who declines", c.call(t, "ask", map[string]any{"question": "Who?"}), failed("the user did not answer: decline"))
	sameJSON(t, "visit", c.call(t, "visit", map[string]any{"url": "https://example.com/x"}), text("the user said accept"))
	if _, err := c.CallTool(within(t), &mcp.CallToolParams{Name: "ask", Arguments: map[string]any{"question": "What?"}}); err == nil {
		t.Error("a question that the client fails to answer was answered")
	}
	sameJSON(t, "echo after that", c.call(t, "echo", map[string]any{"text": "still here"}), text("still here"))
}

// TestStatelessLogLevel asks for log messages with single requests.
func TestStatelessLogLevel(t *testing.T) {
	t.Parallel()
	c := dialStateless(t, shared, mcp.ClientOptions{})
	for _, level := range []string{"", "warning", "emergency", "info", "debug"} {
		params := &mcp.CallToolParams{Name: "count", Arguments: map[string]any{"to": 2}}
		if level != "" {
			params.Meta = mcp.Meta{mcp.MetaKeyLogLevel: level}
		}
		if _, err := c.CallTool(within(t), params); err != nil {
			t.Fatal(err)
		}
	}
	c.awaitLogs(t, append(counted(2), counted(2)...))
}

// TestStatelessCancel closes the stream of a call, which is the only sign of the cancel.
func TestStatelessCancel(t *testing.T) {
	t.Parallel()
	s := start(t, "--memory")
	c := dialStateless(t, s, mcp.ClientOptions{})
	cancelled(t, c, "sleep", map[string]any{"ms": 3600000}, func() { s.awaitGauge(t, "troupe_calls_in_flight", 1) })
	s.awaitGauge(t, "troupe_calls_in_flight", 0)
	sameJSON(t, "echo after cancelling", c.call(t, "echo", map[string]any{"text": "still here"}), text("still here"))
}

// TestStatelessTouch subscribes to resources, each with a stream of its own, and ends one of them.
func TestStatelessTouch(t *testing.T) {
	t.Parallel()
	s := start(t, "--memory")
	c := dialStateless(t, s, mcp.ClientOptions{})
	uri := func(n int) string { return fmt.Sprintf("test://template/%d/data", n) }
	for n := range 2 {
		if err := c.Subscribe(within(t), &mcp.SubscribeParams{URI: uri(n)}); err != nil {
			t.Fatal(err)
		}
	}
	acknowledged := func() (n int) {
		for _, x := range c.wire.find(calls("subscriptions/listen")) {
			n += len(x.received)
		}
		return n
	}
	touched := func(want ...string) {
		t.Helper()
		var got []string
		eventually(t, func() bool {
			c.note(func() { got = slices.Clone(c.updated) })
			return len(got) >= len(want)
		}, func() string { return fmt.Sprintf("updates: %q, want %q", got, want) })
		if !slices.Equal(got, want) {
			t.Errorf("updates: %q, want %q", got, want)
		}
	}
	eventually(t, func() bool { return acknowledged() == 2 }, func() string { return "the streams do not begin:\n" + c.transcript() })
	for _, n := range []int{0, 7, 1} {
		c.call(t, "touch", map[string]any{"uri": uri(n)})
		if n == 0 {
			touched(uri(0))
		}
	}
	touched(uri(0), uri(1))
	if err := c.Unsubscribe(within(t), &mcp.UnsubscribeParams{URI: uri(0)}); err != nil {
		t.Fatal(err)
	}
	c.call(t, "touch", map[string]any{"uri": uri(1)})
	touched(uri(0), uri(1), uri(1))
}

// TestStatelessKill kills the server while a call is in its second round trip, and has its client go on with another
// process.
func TestStatelessKill(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := start(t, "--data", data)
	gate := make(chan struct{})
	u := &person{answers: map[string]map[string]any{step1: {"name": "Grace"}, step2: {"color": "blue"}}, gate: map[string]chan struct{}{step2: gate}}
	c := dialStateless(t, s, mcp.ClientOptions{ElicitationHandler: u.elicit})
	done := c.begin(t, "asking", "test_input_required_result_multi_round", nil)
	eventually(t, func() bool { return u.times(step2) == 1 }, func() string { return "the second question does not come" })
	s.restart(t, "--data", data)
	eventually(t, func() bool { // a kept connection may have ended meanwhile
		_, err := c.CallTool(within(t), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "a"}})
		return err == nil
	}, func() string { return "the server is not back" })
	close(gate)
	got := receive(t, done)
	if got.err != nil {
		t.Fatalf("the call that was interrupted: %v\n%s", got.err, c.transcript())
	}
	sameJSON(t, "result", got.result, text("Grace likes blue"))
	if u.times(step1) != 1 || u.times(step2) != 1 {
		t.Errorf("asked: %q", u.asked)
	}
}

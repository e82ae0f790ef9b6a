package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// noted is a middleware that notes the requests that pass it.
type noted struct {
	mu   sync.Mutex // guards seen
	seen []string
}

func (n *noted) note(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen = append(n.seen, fmt.Sprintf(format, args...))
}

// take returns the notes since the last take.
func (n *noted) take() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := strings.Join(n.seen, "\n")
	n.seen = nil
	return s
}

func (n *noted) middleware(name string) troupe.MethodMiddleware {
	return func(next troupe.MethodHandler) troupe.MethodHandler {
		return func(ctx context.Context, call *troupe.Call, method string, params json.RawMessage) (json.RawMessage, error) {
			n.note("%s %s", name, method)
			result, err := next(ctx, call, method, params)
			var wire *mcp.Error
			switch {
			case errors.As(err, &wire):
				n.note("%s ends with %d", name, wire.Code)
			case err != nil:
				n.note("%s ends with %v", name, err)
			case !json.Valid(result):
				n.note("%s gets no JSON: %s", name, result)
			}
			return result, err
		}
	}
}

// TestMiddlewareSees sends every kind of request over every transport: each passes the middleware of the Runtime and
// then that of the server, in the order of their lists.
func TestMiddlewareSees(t *testing.T) {
	complete := func(context.Context, *troupe.Call, mcp.CompleteParams) (mcp.Completion, error) {
		return mcp.Completion{Values: []string{"a"}}, nil
	}
	kit.Bubble(t, func(t *testing.T) {
		n := new(noted)
		o := troupe.Options{MethodMiddleware: []troupe.MethodMiddleware{n.middleware("1"), n.middleware("2")}}
		so := &troupe.ServerOptions{Complete: complete, MethodMiddleware: []troupe.MethodMiddleware{n.middleware("3")}}
		h := host.New(t, o, so)
		c := h.Session()
		seen := func(what, method string, more ...string) {
			t.Helper()
			want := append([]string{"1 " + method, "2 " + method, "3 " + method}, more...)
			if diff := cmp.Diff(strings.Join(want, "\n"), n.take()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		host.Equal(t, "initialize", n.take(), "")
		for _, r := range []struct{ method, params string }{
			{"tools/list", ""}, {"tools/call", `{"name":"echo","arguments":{"text":"x"}}`}, {"resources/list", ""}, {"resources/templates/list", ""},
			{"resources/read", `{"uri":"test://one"}`}, {"resources/subscribe", `{"uri":"test://one"}`}, {"resources/unsubscribe", `{"uri":"test://one"}`},
			{"prompts/list", ""}, {"prompts/get", `{"name":"greet","arguments":{"who":"x"}}`}, {"ping", ""}, {"logging/setLevel", `{"level":"error"}`},
			{"completion/complete", `{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":""}}`},
		} {
			if a := c.Post(host.Method("1", r.method, r.params)); strings.Contains(a.Body, `"error"`) {
				t.Errorf("%s: %s", r.method, a.Body)
			}
			seen(r.method, r.method)
		}
		c.Post(host.Method("1", "tools/call", `{"name":"nobody's"}`))
		seen("an unknown tool", "tools/call", "3 ends with -32602", "2 ends with -32602", "1 ends with -32602")
		c.Post(host.Method("1", "acme/unknown", ""))
		seen("an unknown method", "acme/unknown", "3 ends with -32601", "2 ends with -32601", "1 ends with -32601")
		host.Equal(t, "a stream", host.Last(t, c.Post(host.Call("1", "sleep", `{"ms":1000}`))), host.TextResult("1", "slept"))
		seen("a stream", "tools/call")

		m := h.Stateless(`{}`)
		a, id := m.Tool("echo", `{"text":"x"}`)
		host.Equal(t, "stateless", a.Body, host.StatelessText(id, "x"))
		seen("stateless", "tools/call")
		m.Do("server/discover", `{}`)
		seen("discover", "server/discover")

		s := h.SSE()
		s.Handshake("2024-11-05", `{}`)
		host.Equal(t, "over HTTP+SSE", s.Ask(host.Call("1", "echo", `{"text":"x"}`)), host.TextResult("1", "x"))
		seen("over HTTP+SSE", "tools/call")
		host.Equal(t, "ping over HTTP+SSE", s.Ask(host.Method("1", "ping", "")), `{"jsonrpc":"2.0","id":1,"result":{}}`)
		seen("ping over HTTP+SSE", "ping")

		p := host.NewPipe(t, o)
		host.Equal(t, "ping before initialize", p.Ask(host.Method("0", "ping", "")), `{"jsonrpc":"2.0","id":0,"result":{}}`)
		host.Equal(t, "ping before initialize", n.take(), "")
		p.Initialize("2025-11-25")
		host.Equal(t, "over stdio", p.Ask(host.Call("1", "echo", `{"text":"x"}`)), host.TextResult("1", "x"))
		host.Equal(t, "over stdio", n.take(), "1 tools/call\n2 tools/call")
		host.Equal(t, "ping over stdio", p.Ask(host.Method("2", "ping", "")), `{"jsonrpc":"2.0","id":2,"result":{}}`)
		host.Equal(t, "ping over stdio", n.take(), "1 ping\n2 ping")
		_ = p.In.Close()
		p.End()
	})
}

// TestMiddlewareChanges checks what a middleware may do with a request and its result, in a session and stateless.
func TestMiddlewareChanges(t *testing.T) {
	for name, tt := range map[string]struct {
		f         troupe.MethodHandler // called in place of the middleware; next is its last result
		legacy    string
		stateless string // "" means the same
	}{
		"refuses": {func(context.Context, *troupe.Call, string, json.RawMessage) (json.RawMessage, error) {
			return nil, fmt.Errorf("on Sundays: %w", mcp.NewError(-32001, "closed"))
		}, host.Fault("1", -32001, "closed", ""), ""},
		"fails": {func(context.Context, *troupe.Call, string, json.RawMessage) (json.RawMessage, error) {
			return nil, errors.New("the secret database is away")
		}, host.Fault("1", host.Internal, "internal error", ""), ""},
		"answers itself": {func(context.Context, *troupe.Call, string, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage("{ \"content\": [],\n \"_meta\": {\"a\": 1} }"), nil
		}, `{"jsonrpc":"2.0","id":1,"result":{"content":[],"_meta":{"a":1}}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","_meta":{"a":1,"io.modelcontextprotocol/serverInfo":{"name":"test","version":"1"}},"content":[]}}`},
		"answers nothing": {func(context.Context, *troupe.Call, string, json.RawMessage) (json.RawMessage, error) { return nil, nil },
			host.Fault("1", host.Internal, "internal error", ""), ""},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				h := host.New(t, troupe.Options{MethodMiddleware: []troupe.MethodMiddleware{func(troupe.MethodHandler) troupe.MethodHandler { return tt.f }}}, nil)
				c := h.Unchecked().Initialize(`{}`)
				host.Equal(t, "in a session", c.Post(host.Call("1", "echo", `{"text":"x"}`)).Body, tt.legacy)
				if tt.stateless == "" {
					tt.stateless = tt.legacy
				}
				m := &host.Stateless{T: t, Client: h.Unchecked(), Capabilities: `{}`}
				a, _ := m.Tool("echo", `{"text":"x"}`)
				host.Equal(t, "stateless", a.Body, tt.stateless)
			})
		})
	}
}

// TestMiddlewarePassesOn has a middleware pass on other params, which the handler gets as if the client had sent them.
func TestMiddlewarePassesOn(t *testing.T) {
	pass := map[string]string{
		"upper": `{"name":"echo","arguments":{"text":"LOUD"},"_meta":{"x":1}}`, "wrong": `{"name":"echo","arguments":{"text":5}}`,
		"tool": `{"name":"sleep","arguments":{"ms":0}}`, "none": `[]`, "same": "",
	}
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{MethodMiddleware: []troupe.MethodMiddleware{func(next troupe.MethodHandler) troupe.MethodHandler {
			return func(ctx context.Context, call *troupe.Call, method string, params json.RawMessage) (json.RawMessage, error) {
				var p struct{ Arguments struct{ Text string } }
				_ = json.Unmarshal(params, &p)
				if other := pass[p.Arguments.Text]; other != "" {
					params = json.RawMessage(other)
				}
				if p.Arguments.Text == "method" {
					method = "tools/list"
				}
				return next(ctx, call, method, params)
			}
		}}}, nil)
		c := h.Session()
		for text, want := range map[string]string{
			"same": host.TextResult("1", "same"), "upper": host.TextResult("1", "LOUD"),
			"wrong":  host.ToolFault("1", "invalid arguments: at '/text': got number, want string"),
			"tool":   host.Fault("1", host.Internal, "internal error", ""),
			"none":   host.Fault("1", host.Internal, "internal error", ""),
			"method": host.Fault("1", host.Internal, "internal error", ""),
		} {
			host.Equal(t, text, c.Post(host.Call("1", "echo", `{"text":"`+text+`"}`)).Body, want)
		}
	})
}

// TestMiddlewareAroundAQuestion checks that a middleware runs once around a handler that asks, in a session and
// stateless, and again around a call that runs again.
func TestMiddlewareAroundAQuestion(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		dir, n := t.TempDir(), new(noted)
		o := troupe.Options{Dir: dir, MethodMiddleware: []troupe.MethodMiddleware{n.middleware("1")}}
		h := host.New(t, o, nil)
		c := h.Session()
		a := c.Post(host.Call("1", "ask", `{"question":"?"}`))
		q := host.NextQuestion(t, a)
		host.Reply(c, q.ID, "result", `{"action":"accept","content":{"answer":"y"}}`)
		host.Equal(t, "the answer", host.Last(t, a), host.ToolText("1", `accept {"answer":"y"}`))
		host.Equal(t, "in a session", n.take(), "1 tools/call")

		m := h.Stateless(host.EveryCapability)
		asked, id := m.Tool("ask", `{"question":"?"}`)
		state := m.Parked(asked, id, "elicit")
		again, id := m.Tool("ask", `{"question":"?"}`, state, host.Given("elicit", "z"))
		host.Equal(t, "stateless", m.Done(again, id), `accept {"answer":"z"}`)
		host.Equal(t, "stateless", n.take(), "1 tools/call")

		slow := c.Post(host.CallWith("2", "count", `{"to":3,"delay_ms":1000}`, "2"))
		first, _ := slow.Next()
		host.Listen(slow)
		time.Sleep(100 * time.Millisecond)
		o.Dir = host.CopyDir(t, dir)
		n.take()
		next := host.New(t, o, nil)
		host.Equal(t, "after a crash", host.Last(t, next.Moved(c).Get(first.ID)), host.TextResult("2", "counted to 3"))
		host.Equal(t, "after a crash", n.take(), "1 tools/call")
	})
}

// TestMiddlewareThatIsNone has middleware that is nil, or returns nil: this must not skip the middleware inside.
func TestMiddlewareThatIsNone(t *testing.T) {
	through := func(next troupe.MethodHandler) troupe.MethodHandler { return next }
	none := func(troupe.MethodHandler) troupe.MethodHandler { return nil }
	for want, m := range map[string][2][]troupe.MethodMiddleware{
		": Options.MethodMiddleware[0] returns":       {{none}, {through}},
		": Options.MethodMiddleware[1] is nil":        {{through, nil}, nil},
		": ServerOptions.MethodMiddleware[1] returns": {{through}, {through, none, through}},
		": ServerOptions.MethodMiddleware[1] is nil":  {{through}, {through, nil}},
	} {
		rt, err := troupe.New(troupe.Options{MethodMiddleware: m[0]})
		if err == nil {
			t.Cleanup(func() { _ = rt.Close(context.Background()) })
			var srv *troupe.Server
			srv, err = troupe.TryNewServer(mcp.Implementation{Name: "x", Version: "1"}, &troupe.ServerOptions{MethodMiddleware: m[1]})
			if err == nil {
				if strings.Contains(want, "is nil") {
					t.Errorf("neither New nor NewServer refuses it, want %s", want)
				}
				err = rt.TryMount("/mcp", srv)
			}
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %s", err, want)
		}
	}
}

// TestMiddlewareCallsNextAtOnce has a middleware call next twice at the same time, each time with its own params.
func TestMiddlewareCallsNextAtOnce(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, &troupe.ServerOptions{MethodMiddleware: []troupe.MethodMiddleware{func(next troupe.MethodHandler) troupe.MethodHandler {
			return func(ctx context.Context, call *troupe.Call, method string, _ json.RawMessage) (json.RawMessage, error) {
				results := make([]json.RawMessage, 2)
				var both sync.WaitGroup
				for i, text := range []string{"one", "two"} {
					both.Go(func() {
						results[i], _ = next(ctx, call, method, json.RawMessage(`{"name":"echo","arguments":{"text":"`+text+`"}}`))
					})
				}
				both.Wait()
				if !strings.Contains(string(results[0]), "one") {
					t.Errorf("the first next returns %s", results[0])
				}
				return results[1], nil
			}
		}}})
		host.Equal(t, "of two", h.Session().Post(host.Call("1", "echo", `{"text":"x"}`)).Body, host.TextResult("1", "two"))
	})
}

// TestMiddlewareCallsNextTooLate has a middleware call next after the request has been answered.
func TestMiddlewareCallsNextTooLate(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		late := make(chan func() (json.RawMessage, error), 1)
		h := host.New(t, troupe.Options{}, &troupe.ServerOptions{MethodMiddleware: []troupe.MethodMiddleware{func(next troupe.MethodHandler) troupe.MethodHandler {
			return func(ctx context.Context, call *troupe.Call, method string, params json.RawMessage) (json.RawMessage, error) {
				if method != mcp.MethodToolsCall {
					return next(ctx, call, method, params)
				}
				late <- func() (json.RawMessage, error) { return next(ctx, call, method, params) }
				return json.RawMessage(`{"content":[]}`), nil
			}
		}}})
		h.Session().Post(host.Call("1", "echo", `{"text":"x"}`))
		if got, err := (<-late)(); err == nil || got != nil {
			t.Errorf("next has run: %s", got)
		}
	})
}

// TestMiddlewareCallsNextOnceItHasReturned has a middleware call next after it has returned, while the outer one still
// runs.
func TestMiddlewareCallsNextOnceItHasReturned(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		ran := new(noted)
		var late func() (json.RawMessage, error)
		outer := func(next troupe.MethodHandler) troupe.MethodHandler {
			return func(ctx context.Context, call *troupe.Call, method string, params json.RawMessage) (json.RawMessage, error) {
				result, err := next(ctx, call, method, params)
				if got, lateErr := late(); lateErr == nil {
					t.Errorf("next has run: %s", got)
				}
				again, againErr := next(ctx, call, method, params)
				if againErr != nil || string(again) != string(result) {
					t.Errorf("the second time next returns %s, %v", again, againErr)
				}
				return result, err
			}
		}
		inner := func(next troupe.MethodHandler) troupe.MethodHandler {
			return func(ctx context.Context, call *troupe.Call, method string, params json.RawMessage) (json.RawMessage, error) {
				late = func() (json.RawMessage, error) { return next(ctx, call, method, params) }
				return next(ctx, call, method, params)
			}
		}
		h := host.New(t, troupe.Options{MethodMiddleware: []troupe.MethodMiddleware{outer}},
			&troupe.ServerOptions{MethodMiddleware: []troupe.MethodMiddleware{inner, ran.middleware("innermost")}})
		host.Equal(t, "the call", h.Session().Post(host.Call("1", "echo", `{"text":"x"}`)).Body, host.TextResult("1", "x"))
		host.Equal(t, "the runs", ran.take(), "innermost tools/call\ninnermost tools/call")
	})
}

// TestMiddlewareResultWithAType checks that a result with a resultType gets the other members that clients of
// 2026-07-28 need.
func TestMiddlewareResultWithAType(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, &troupe.ServerOptions{MethodMiddleware: []troupe.MethodMiddleware{func(troupe.MethodHandler) troupe.MethodHandler {
			return func(context.Context, *troupe.Call, string, json.RawMessage) (json.RawMessage, error) {
				return json.RawMessage(`{"resultType":"complete","content":[]}`), nil
			}
		}}})
		a, _ := h.Stateless(`{}`).Tool("echo", `{"text":"x"}`)
		if !strings.Contains(a.Body, `"_meta":{"io.modelcontextprotocol/serverInfo"`) || strings.Count(a.Body, "resultType") != 1 {
			t.Errorf("the answer is %s", a.Body)
		}
	})
}

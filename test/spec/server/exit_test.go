package server_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// exiting adds to a server handlers of each kind that end their goroutine, as t.FailNow does.
func exiting(s *troupe.Server) {
	troupe.AddTool(s, troupe.Tool{Name: "exit"}, func(context.Context, *troupe.Call, struct{}) (string, error) { runtime.Goexit(); return "", nil })
	troupe.AddTool(s, troupe.Tool{Name: "late exit"}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
		_ = call.Log(ctx, mcp.LevelError, "", "about to")
		runtime.Goexit()
		return "", nil
	})
	troupe.AddPrompt(s, troupe.Prompt{Name: "exit"}, func(context.Context, *troupe.Call, map[string]string) (*mcp.GetPromptResult, error) {
		runtime.Goexit()
		return nil, nil
	})
	troupe.AddResource(s, mcp.Resource{URI: "exit://x", Name: "exit"}, func(context.Context, *troupe.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
		runtime.Goexit()
		return nil, nil
	})
	troupe.AddMethod(s, troupe.Method{Name: "x/exit"}, func(context.Context, *troupe.Call, struct{}) (struct{}, error) {
		runtime.Goexit()
		return struct{}{}, nil
	})
}

// exits are requests whose handlers end their goroutine, with their id 1.
var exits = []string{
	host.Call("1", "exit", `{}`), host.Call("1", "late exit", `{}`), host.Method("1", "prompts/get", `{"name":"exit"}`), host.Method("1", "resources/read", `{"uri":"exit://x"}`),
	host.Method("1", "resources/subscribe", `{"uri":"exit://x"}`), host.Method("1", "completion/complete", `{"ref":{"type":"ref/prompt","name":"exit"},"argument":{"name":"a","value":""}}`),
	host.Method("1", "x/exit", `{}`),
}

// TestHandlerEndsItsGoroutine has handlers of each kind end their goroutine: the client gets an error, the log says why, and
// nothing is left in flight.
func TestHandlerEndsItsGoroutine(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var log host.Lines
		h := host.New(t, troupe.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}, &troupe.ServerOptions{
			Subscribe: func(context.Context, *troupe.Call, string) error { runtime.Goexit(); return nil },
			Complete: func(context.Context, *troupe.Call, mcp.CompleteParams) (mcp.Completion, error) {
				runtime.Goexit()
				return mcp.Completion{}, nil
			},
		})
		exiting(h.Server)
		want := host.Fault("1", host.Internal, "internal error", "")
		c, sse, m := h.Session(), h.SSE(), h.Stateless(`{}`)
		sse.Handshake("2024-11-05", `{}`)
		for _, request := range exits {
			for range 2 { // the id is free again
				a := c.Post(request)
				got := a.Body
				if got == "" {
					got = host.Last(t, a)
				}
				host.Equal(t, request, got, want)
			}
			if strings.Contains(request, "late") {
				continue // Ask returns the first message
			}
			if got := sse.Ask(request); got != want {
				t.Errorf("HTTP+SSE: %s: %s", request, got)
			}
		}
		for _, tool := range []string{"exit", "late exit"} {
			a, _ := m.Tool(tool, `{}`)
			got := a.Body
			if got == "" {
				got = host.Last(t, a)
			}
			host.Contains(t, "stateless", got, `"code":-32603`)
		}
		l, _ := m.Listen("9", `{"resourceSubscriptions":["test://one"]}`)
		host.Listen(l)
		synctest.Wait()
		b := h.BatchingSession()
		both := b.Post(host.Batch(exits[0], host.Call("2", "echo", `{"text":"x"}`))).Body
		host.Contains(t, "a batch", both, want)
		host.Contains(t, "a batch", both, host.TextResult("2", "x"))
		synctest.Wait()
		if n := h.Gauge("troupe.calls.in_flight", ""); n != 0 {
			t.Errorf("%d calls are in flight", n)
		}
		host.Contains(t, "the log", log.String(), "handler ended its goroutine")
		host.Contains(t, "the log", log.String(), "must return")
	})
}

// TestStdioHandlerEndsItsGoroutine does it on a pipe, which goes on.
func TestStdioHandlerEndsItsGoroutine(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		p := host.NewPipe(t, troupe.Options{})
		exiting(p.Server)
		p.Initialize("2025-11-25")
		for _, request := range []string{exits[0], exits[2], exits[3], exits[6]} {
			host.Equal(t, request, p.Ask(request), host.Fault("1", host.Internal, "internal error", ""))
		}
		host.Equal(t, "the next", p.Ask(host.Call("1", "echo", `{"text":"x"}`)), host.TextResult("1", "x"))
		p.In.Close()
		p.End()
	})
}

// TestFunctionsEndTheirGoroutine has the functions of the options end their goroutine. What they decide counts as refused, and
// everything goes on.
func TestFunctionsEndTheirGoroutine(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var bad atomic.Pointer[string]
		exit := func(function string) {
			if now := bad.Load(); now != nil && *now == function {
				runtime.Goexit()
			}
		}
		set := func(function string) { bad.Store(&function) }
		n := new(noted)
		h := host.New(t, troupe.Options{
			Authenticate: func(r *http.Request) (troupe.Principal, error) { exit("Authenticate"); return host.User(r) },
			MethodMiddleware: []troupe.MethodMiddleware{func(next troupe.MethodHandler) troupe.MethodHandler {
				return func(ctx context.Context, call *troupe.Call, method string, params json.RawMessage) (json.RawMessage, error) {
					exit("before")
					out, err := next(ctx, call, method, params)
					exit("after")
					return out, err
				}
			}},
		}, &troupe.ServerOptions{
			SubResources: true,
			Visible:      func(troupe.Principal, troupe.Item) bool { exit("Visible"); return true },
			SessionBegan: func(context.Context, *troupe.Peer) { exit("SessionBegan"); n.note("began") },
			SessionEnded: func(*troupe.Peer, troupe.SessionEnd) { n.note("ended"); exit("SessionEnded") },
			RootsChanged: func(*troupe.Peer) { exit("RootsChanged") },
			Subscribe:    func(context.Context, *troupe.Call, string) error { exit("Subscribe"); return nil },
		})
		troupe.AddNotification(h.Server, "x/note", func(*troupe.Peer, struct{}) { exit("x/note") })
		c := host.As(h.Client(), "ann").Initialize(`{"roots":{"listChanged":true}}`)
		l := host.Listen(c.Get(""))
		echo := host.Call("1", "echo", `{"text":"x"}`)
		internal := host.Fault("1", host.Internal, "internal error", "")
		for function, want := range map[string]string{"Authenticate": `"code":-32603`, "before": internal, "after": internal, "Visible": internal} {
			set(function)
			for range 2 {
				host.Contains(t, function, c.Post(echo).Body, want)
			}
		}
		set("")
		host.Contains(t, "subscribe", c.Post(host.Method("2", "resources/subscribe", `{"uri":"test://one"}`)).Body, `"result":{}`)
		set("Visible")
		h.Server.ResourceUpdated("test://one")
		h.Server.FilterChanged()
		time.Sleep(time.Second)
		host.As(h.Client(), "bob").Initialize(`{}`)
		set("RootsChanged")
		c.Post(host.Note("notifications/roots/list_changed", `{}`))
		set("x/note")
		c.Post(host.Note("x/note", `{}`))
		set("Subscribe")
		m := h.Stateless(`{}`)
		host.As(m.Client, "ann")
		accepted, _ := m.Listen("1", `{"resourceSubscriptions":["test://one"]}`)
		if got, _ := host.Listen(accepted).Now(); strings.Contains(strings.Join(got, ""), "test://one") {
			t.Errorf("a subscription that nobody has allowed: %q", got)
		}
		for _, function := range []string{"SessionBegan", "SessionEnded"} {
			set(function)
			host.As(h.Client(), "ann").Initialize(`{}`).Do("DELETE", "")
			synctest.Wait()
		}
		set("")
		host.Equal(t, "afterwards", c.Post(echo).Body, host.TextResult("1", "x"))
		before := len(l.Since(0))
		h.Server.ResourceUpdated("test://one")
		time.Sleep(time.Second)
		host.Contains(t, "an update", strings.Join(l.Since(before), ""), host.UpdateNote("test://one"))
		if took := n.take(); strings.Count(took, "ended") != 2 {
			t.Errorf("sessions: %s", took)
		}
	})
}

package server_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestDepthBehindMiddleware has a middleware change params that are as deep as the server allows.
func TestDepthBehindMiddleware(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		mw := func(next troupe.MethodHandler) troupe.MethodHandler {
			return func(ctx context.Context, call *troupe.Call, method string, params json.RawMessage) (json.RawMessage, error) {
				if method == "tools/call" {
					params = append(params[:len(params)-1:len(params)-1], []byte(`,"x":1}`)...)
				}
				return next(ctx, call, method, params)
			}
		}
		for _, with := range []bool{false, true} {
			o := &troupe.ServerOptions{Limits: troupe.Limits{MaxDepth: 1000}}
			if with {
				o.MethodMiddleware = []troupe.MethodMiddleware{mw}
			}
			h := host.New(t, troupe.Options{}, o)
			troupe.AddRawTool(h.Server, troupe.Tool{Name: "raw", InputSchema: []byte(`{"type":"object"}`)}, func(context.Context, *troupe.Call, json.RawMessage) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{Content: mcp.Contents{mcp.Text("ok")}}, nil
			})
			a := h.Session().Post(host.Call("1", "raw", `{"a":`+strings.Repeat("[", 300)+strings.Repeat("]", 300)+`}`))
			if strings.Contains(a.Body, "error") {
				t.Errorf("middleware %v: %s", with, a.Body)
			}
		}
	})
}

// TestNextAfterAPanic has an inner middleware call next after the outer one has panicked and its request is over.
func TestNextAfterAPanic(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		result := make(chan string, 1)
		outer := func(next troupe.MethodHandler) troupe.MethodHandler {
			return func(ctx context.Context, call *troupe.Call, method string, params json.RawMessage) (json.RawMessage, error) {
				if method != "tools/call" {
					return next(ctx, call, method, params)
				}
				go next(context.WithoutCancel(ctx), call, method, params)
				time.Sleep(time.Millisecond)
				panic("oh")
			}
		}
		inner := func(next troupe.MethodHandler) troupe.MethodHandler {
			return func(ctx context.Context, call *troupe.Call, method string, params json.RawMessage) (json.RawMessage, error) {
				if method != "tools/call" {
					return next(ctx, call, method, params)
				}
				time.Sleep(time.Minute)
				_, err := next(ctx, call, method, params)
				result <- err.Error()
				return nil, err
			}
		}
		h := host.New(t, troupe.Options{MethodMiddleware: []troupe.MethodMiddleware{outer, inner}}, nil)
		h.Session().Post(host.Call("1", "echo", `{"text":"x"}`))
		if got := <-result; got != "troupe: a middleware called next after it had returned" {
			t.Errorf("next of a request that is over: %s", got)
		}
	})
}

// TestNextOfAnEarlierRun has an outer middleware call the inner one twice: a goroutine of the first run calls next during
// the second run, and next fails.
func TestNextOfAnEarlierRun(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		outer := func(next troupe.MethodHandler) troupe.MethodHandler {
			return func(ctx context.Context, call *troupe.Call, method string, params json.RawMessage) (json.RawMessage, error) {
				if method == "tools/call" {
					if _, err := next(ctx, call, method, params); err != nil {
						return nil, err
					}
				}
				return next(ctx, call, method, params)
			}
		}
		second, left := make(chan struct{}), make(chan error, 1)
		runs := 0
		inner := func(next troupe.MethodHandler) troupe.MethodHandler {
			return func(ctx context.Context, call *troupe.Call, method string, params json.RawMessage) (json.RawMessage, error) {
				if method != "tools/call" {
					return next(ctx, call, method, params)
				}
				if runs++; runs == 1 {
					go func() {
						<-second
						_, err := next(context.WithoutCancel(ctx), call, method, params)
						left <- err
					}()
					return json.RawMessage(`{}`), nil
				}
				close(second)
				if err := <-left; err == nil || err.Error() != "troupe: a middleware called next after it had returned" {
					t.Errorf("next of the first run, during the second: %v", err)
				}
				return next(ctx, call, method, params)
			}
		}
		h := host.New(t, troupe.Options{MethodMiddleware: []troupe.MethodMiddleware{outer, inner}}, nil)
		host.Equal(t, "the second run", h.Session().Post(host.Call("1", "echo", `{"text":"x"}`)).Body, host.TextResult("1", "x"))
	})
}

// TestNextOfAMiddlewareThatHasReturned has goroutines of a middleware call next after it has returned, while the outer
// middleware still runs: next fails with any context.
func TestNextOfAMiddlewareThatHasReturned(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		over, left := make(chan struct{}), make(chan error, 2)
		outer := func(next troupe.MethodHandler) troupe.MethodHandler {
			return func(ctx context.Context, call *troupe.Call, method string, params json.RawMessage) (json.RawMessage, error) {
				result, err := next(ctx, call, method, params)
				if method == "tools/call" {
					close(over)
					for range cap(left) {
						if err := <-left; err == nil || err.Error() != "troupe: a middleware called next after it had returned" {
							t.Errorf("next of a middleware that has returned: %v", err)
						}
					}
				}
				return result, err
			}
		}
		inner := func(next troupe.MethodHandler) troupe.MethodHandler {
			return func(ctx context.Context, call *troupe.Call, method string, params json.RawMessage) (json.RawMessage, error) {
				if method != "tools/call" {
					return next(ctx, call, method, params)
				}
				for _, with := range []context.Context{context.WithoutCancel(ctx), context.Background()} {
					go func() {
						<-over
						_, err := next(with, call, method, params)
						left <- err
					}()
				}
				return json.RawMessage(`{"content":[]}`), nil
			}
		}
		h := host.New(t, troupe.Options{MethodMiddleware: []troupe.MethodMiddleware{outer, inner}}, nil)
		h.Session().Post(host.Call("1", "echo", `{"text":"x"}`))
	})
}

// TestNextByTheHandler has a handler call, with its own call, the next that a middleware put into the context.
func TestNextByTheHandler(t *testing.T) {
	for _, changes := range []bool{false, true} {
		kit.Bubble(t, func(t *testing.T) {
			type key struct{}
			type again struct{}
			mw := func(next troupe.MethodHandler) troupe.MethodHandler {
				return func(ctx context.Context, call *troupe.Call, method string, params json.RawMessage) (json.RawMessage, error) {
					if method != "tools/call" {
						return next(ctx, call, method, params)
					}
					if changes {
						params = json.RawMessage(`{ "name":"twice","arguments":{}}`)
					}
					again := func(ctx context.Context, call *troupe.Call) error {
						_, err := next(ctx, call, method, params)
						return err
					}
					return next(context.WithValue(ctx, key{}, again), call, method, params)
				}
			}
			h := host.New(t, troupe.Options{MethodMiddleware: []troupe.MethodMiddleware{mw}}, nil)
			h.AddTool("twice", 0, func(ctx context.Context, call *troupe.Call) (string, error) {
				f, ok := ctx.Value(key{}).(func(context.Context, *troupe.Call) error)
				if ok && ctx.Value(again{}) == nil {
					if err := f(context.WithValue(ctx, again{}, 1), call); err != nil {
						return "", err
					}
				}
				return "ok", nil
			})
			got := h.Session().Post(host.Call("1", "twice", `{}`)).Body
			host.Equal(t, "changed params", got, host.TextResult("1", "ok"))
		})
	}
}

// TestPingHoldsNothingUp uses a pipe whose session has as many calls as it may have. It sends a ping, and the
// answer that lets the call end: with and without a middleware both are read at once.
func TestPingHoldsNothingUp(t *testing.T) {
	for _, with := range []bool{false, true} {
		kit.Bubble(t, func(t *testing.T) {
			o := troupe.Options{Limits: troupe.Limits{CallsPerSession: 1}}
			if with {
				o.MethodMiddleware = []troupe.MethodMiddleware{func(next troupe.MethodHandler) troupe.MethodHandler {
					return func(ctx context.Context, c *troupe.Call, m string, p json.RawMessage) (json.RawMessage, error) {
						return next(ctx, c, m, p)
					}
				}}
			}
			p := host.NewPipe(t, o)
			p.Send(host.Initialize("0", `{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"kit","version":"1"}}`), host.Note("notifications/initialized", ""))
			p.Next()
			p.Send(host.Call("7", "ask", `{"question":"?"}`))
			line := p.Next()
			synctest.Wait()
			start := time.Now()
			p.Send(host.Method("8", "ping", ""), host.AnswerTo(line, `{"action":"accept","content":{"answer":"x"}}`))
			for range 2 {
				if got := p.Next(); strings.Contains(got, `"error"`) {
					t.Errorf("middleware %v: %s", with, got)
				}
			}
			if d := time.Since(start); d > time.Second {
				t.Errorf("middleware %v: the answer that came with a ping was read after %v", with, d)
			}
			_ = p.In.Close()
			p.End()
		})
	}
}

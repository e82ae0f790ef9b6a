package task_test

import (
	"context"
	"encoding/json"
	"runtime"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestLongCallsThroughMiddleware has calls that take long pass a middleware that changes their params, does not return, or calls next more than once. Each becomes one
// task, which ends when the outermost middleware does.
func TestLongCallsThroughMiddleware(t *testing.T) {
	const params = `{"name":"safe","arguments":{"ms":15000,"text":"changed"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`
	for name, c := range map[string]struct {
		around func(next func(params string) (json.RawMessage, error)) (json.RawMessage, error)
		args   string
		status string
		after  time.Duration // of the call's begin
		runs   int32
	}{
		"changes the params": {
			func(next func(string) (json.RawMessage, error)) (json.RawMessage, error) { return next(params) },
			`{"ms":1}`, "completed", 15 * time.Second, 1,
		},
		"panics when the handler has returned": {
			func(next func(string) (json.RawMessage, error)) (json.RawMessage, error) {
				_, _ = next("")
				panic("on purpose")
			},
			`{"ms":15000,"text":"lost"}`, "failed", 15 * time.Second, 1,
		},
		"changes the params and ends its goroutine": {
			func(next func(string) (json.RawMessage, error)) (json.RawMessage, error) {
				_, _ = next(params)
				runtime.Goexit()
				return nil, nil
			},
			`{"ms":1}`, "failed", 15 * time.Second, 1,
		},
		"tries again while the first try is a task": {
			func(next func(string) (json.RawMessage, error)) (json.RawMessage, error) {
				_, _ = next("")
				return next(params)
			},
			`{"ms":15000}`, "completed", 30 * time.Second, 2,
		},
		"tries again before the call is a task": {
			func(next func(string) (json.RawMessage, error)) (json.RawMessage, error) {
				_, _ = next("")
				return next(params)
			},
			`{"ms":8000}`, "completed", 23 * time.Second, 2,
		},
		"calls next twice at once": {
			func(next func(string) (json.RawMessage, error)) (json.RawMessage, error) {
				other := make(chan struct{})
				go func() {
					defer close(other)
					_, _ = next("")
				}()
				defer func() { <-other }()
				return next(params)
			},
			`{"ms":20000}`, "completed", 20 * time.Second, 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				mw := func(next troupe.MethodHandler) troupe.MethodHandler {
					return func(ctx context.Context, call *troupe.Call, method string, given json.RawMessage) (json.RawMessage, error) {
						if method != "tools/call" {
							return next(ctx, call, method, given)
						}
						return c.around(func(changed string) (json.RawMessage, error) {
							if changed == "" {
								return next(ctx, call, method, given)
							}
							return next(ctx, call, method, json.RawMessage(changed))
						})
					}
				}
				h := host.New(t, troupe.Options{MethodMiddleware: []troupe.MethodMiddleware{mw}}, nil)
				runs := long(h)
				client := stateless(h, withTasks)
				began := time.Now()
				id := str(t, last(client.call("safe", c.args)), "result", "taskId")
				got := client.await(id, c.status)
				if d := time.Since(began); d < c.after || d > c.after+2*time.Second {
					t.Errorf("it has taken %v, want %v", d, c.after)
				}
				if c.status == "completed" {
					host.Contains(t, "its result", got, `"text":"changed"`)
				}
				if n := runs.Load(); n != c.runs {
					t.Errorf("the handler ran %d times, want %d", n, c.runs)
				}
			})
		})
	}
}

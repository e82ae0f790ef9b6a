package server_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestMiddlewareDeadline has a middleware give each request a deadline, as routers do. A stateless call sees it as the cause,
// and not that its client has gone; its answer still reaches the client. A call of a session goes on, since it does not end with
// its connection either.
func TestMiddlewareDeadline(t *testing.T) {
	for name, h2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				rt, err := troupe.New(troupe.Options{
					Limits: troupe.Limits{Grace: time.Minute, StatelessGrace: time.Minute},
					Middleware: func(next http.Handler) http.Handler {
						return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
							ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
							defer cancel()
							next.ServeHTTP(w, r.WithContext(ctx))
						})
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				srv := troupe.NewServer(mcp.Implementation{Name: "t", Version: "1"}, nil)
				causes := make(chan error, 1)
				troupe.AddTool(srv, troupe.Tool{Name: "wait"}, func(ctx context.Context, call *troupe.Call, in struct{ Emits bool }) (string, error) {
					if in.Emits {
						_ = call.Log(ctx, mcp.LevelError, "", "on my way")
					}
					select {
					case <-ctx.Done():
						causes <- context.Cause(ctx)
						return "", context.Cause(ctx)
					case <-time.After(10 * time.Second):
						causes <- nil
						return "done", nil
					}
				})
				rt.Mount("/mcp", srv)
				ln := kit.NewListener()
				ts := &httptest.Server{Listener: ln, Config: &http.Server{Handler: rt}, EnableHTTP2: h2}
				if h2 {
					ts.StartTLS()
				} else {
					ts.Start()
				}
				ts.Client().Transport.(*http.Transport).DialContext = ln.Dial
				defer func() {
					ts.Close()
					if err := rt.Close(t.Context()); err != nil {
						t.Error(err)
					}
				}()
				h := &host.Host{T: t, HTTP: ts.Client(), URL: ts.URL + "/mcp"}

				const told = "the request's context ended: context deadline exceeded"
				for _, args := range []string{`{"Emits":false}`, `{"Emits":true}`} {
					m := h.Stateless(`{}`)
					if args == `{"Emits":true}` && !h2 {
						continue // the stream has the connection, which no middleware sees any more
					}
					body := m.Body("1", "tools/call", host.ToolParams("wait", args), `"io.modelcontextprotocol/logLevel":"error"`)
					a := m.Client.Post(body, m.Header("tools/call", body)...)
					got := a.Body
					if a.Stream() {
						for _, e := range a.All() {
							got = e.Data
						}
					}
					if !strings.Contains(got, told) || !strings.Contains(got, `"isError":true`) {
						t.Errorf("%s: the client gets %s %s", args, a.Status, got)
					}
					if cause := <-causes; !errors.Is(cause, troupe.ErrRequestEnded) || !errors.Is(cause, context.DeadlineExceeded) || errors.Is(cause, troupe.ErrCancelled) || cause.Error() != told {
						t.Errorf("%s: the handler sees %v", args, cause)
					}
				}
				a := h.Unchecked().InitializeAs("2025-11-25", `{}`).Post(host.Call("1", "wait", `{"Emits":false}`))
				if cause := <-causes; cause != nil || !strings.Contains(a.Body, `"done"`) {
					t.Errorf("in a session: %v, %s", cause, a.Body)
				}
			})
		})
	}
}

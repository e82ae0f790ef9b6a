package transports_test

import (
	"context"
	"errors"
	"io"
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

// reader is an io.Reader made of a function.
type reader func(p []byte) (int, error)

func (r reader) Read(p []byte) (int, error) { return r(p) }

// TestLateAnswers has a program's own http.Server give each response one second, less than the requests take: whatever they
// wait for, they are answered.
func TestLateAnswers(t *testing.T) {
	const late = 5 * time.Second
	modern := func(method, name string) http.Header {
		return http.Header{"Mcp-Protocol-Version": {host.R20260728}, "Mcp-Method": {method}, "Mcp-Name": {name}}
	}
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	const begin = `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`
	for name, served := range map[string]struct{ tls, h2 bool }{"HTTP/1.1": {}, "TLS": {tls: true}, "HTTP/2": {true, true}} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				rt, err := troupe.New(troupe.Options{
					Limits: troupe.Limits{Grace: 8 * time.Second},
					Authenticate: func(r *http.Request) (troupe.Principal, error) {
						switch r.Header.Get("X-User") {
						case "slow":
							time.Sleep(late)
						case "refused":
							time.Sleep(late)
							return troupe.Principal{}, errors.New("no")
						}
						return troupe.Principal{}, nil
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				srv := troupe.NewServer(mcp.Implementation{Name: "t", Version: "1"}, &troupe.ServerOptions{SessionBegan: func(context.Context, *troupe.Peer) { time.Sleep(late) }})
				host.AddTestTools(srv)
				rt.Mount("/mcp", srv)
				ln := kit.NewListener()
				ts := &httptest.Server{Listener: ln, Config: &http.Server{Handler: rt, WriteTimeout: time.Second}, EnableHTTP2: served.h2}
				if served.tls {
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
				session := ""
				for _, row := range []struct {
					name   string
					body   string
					header http.Header
					body2  time.Duration // that the body takes
					status int
					want   string
				}{
					{"initialize, whose hook is slow", host.Initialize("1", begin), nil, 0, 200, `"protocolVersion":"2025-11-25"`},
					{"a call in its grace", host.Call("2", "sleep", `{"ms":5000}`), nil, 0, 200, `"id":2`},
					{"a call that becomes a stream", host.Call("3", "sleep", `{"ms":15000}`), nil, 0, 200, `"id":3`},
					{"a body that is slow", host.Method("4", "ping", ""), nil, late, 200, `"id":4`},
					{"a client that is looked up", host.Method("5", "ping", ""), http.Header{"X-User": {"slow"}}, 0, 200, `"id":5`},
					{"a notification of such a client", host.Note("notifications/initialized", ""), http.Header{"X-User": {"slow"}}, 0, 202, ""},
					{"a client that is refused", host.Method("6", "ping", ""), http.Header{"X-User": {"refused"}}, 0, 401, `"error"`},
					{"a stateless call", host.Method("7", "tools/call", `{"name":"sleep","arguments":{"ms":5000},`+meta+`}`), modern("tools/call", "sleep"), 0, 200, `"id":7`},
					{"a stateless call that becomes a stream", host.Method("8", "tools/call", `{"name":"sleep","arguments":{"ms":15000},`+meta+`}`), modern("tools/call", "sleep"), 0, 200, `"id":8`},
				} {
					var body io.Reader = strings.NewReader(row.body)
					if row.body2 > 0 {
						whole := body
						body = reader(func(p []byte) (int, error) {
							time.Sleep(row.body2)
							row.body2 = 0
							return whole.Read(p)
						})
					}
					r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, ts.URL+"/mcp", body)
					if err != nil {
						t.Fatal(err)
					}
					r.ContentLength = int64(len(row.body))
					r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
					if row.header.Get("Mcp-Method") == "" && session != "" {
						r.Header.Set("Mcp-Session-Id", session)
					}
					for k, v := range row.header {
						r.Header[k] = v
					}
					resp, err := ts.Client().Do(r)
					if err != nil {
						t.Errorf("%s: %v", row.name, err)
						continue
					}
					got, err := io.ReadAll(resp.Body)
					_ = resp.Body.Close()
					if err != nil || resp.StatusCode != row.status || !strings.Contains(string(got), row.want) {
						t.Errorf("%s: %s, %q, %v, want %d and %s", row.name, resp.Status, got, err, row.status, row.want)
					}
					if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
						session = id
					}
				}
			})
		})
	}
}

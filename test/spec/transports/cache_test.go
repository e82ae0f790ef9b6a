package transports_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestNoStore requires that no cache keeps a response of any path, whatever the request is: a cache that keeps the refusal of
// one client gives it to others. Event streams have directives of their own.
func TestNoStore(t *testing.T) {
	t.Parallel()
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "a 1\n") })
	h := host.NewLoopback(t, troupe.Options{Authenticate: host.User, Telemetry: troupe.Telemetry{Metrics: metrics}}, nil, nil)
	root := strings.TrimSuffix(h.URL, "/mcp")
	s := h.Session()
	modern := []string{"Mcp-Protocol-Version", host.R20260728, "Mcp-Method", "tools/list"}
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	for _, row := range []struct {
		method, path, body string
		header             []string
		status             int
	}{
		{"POST", "/mcp", host.Method("2", "ping", ""), nil, 200},
		{"POST", "/mcp", list, append(modern, "Mcp-Session-Id", ""), 200},
		{"POST", "/mcp", list, append(modern, "Mcp-Session-Id", "", "Mcp-Method", "ping"), 400},
		{"POST", "/mcp", host.Note("notifications/initialized", ""), nil, 202},
		{"POST", "/mcp", "no JSON", nil, 400},
		{"POST", "/mcp", host.Method("3", "ping", ""), []string{"Content-Type", "text/plain"}, 415},
		{"POST", "/mcp", host.Method("3", "ping", ""), []string{"X-User", "eve"}, 401},
		{"POST", "/mcp", host.Method("3", "ping", ""), []string{"Host", "evil.example"}, 403},
		{"POST", "/mcp", host.Method("3", "ping", ""), []string{"Mcp-Session-Id", strings.Repeat("a", 26)}, 404},
		{"GET", "/mcp", "", []string{"Mcp-Session-Id", strings.Repeat("a", 26)}, 404},
		{"GET", "/mcp", "", []string{"Last-Event-Id", "x"}, 400},
		{"GET", "/mcp", "", modern, 405},
		{"GET", "/mcp", "", nil, 200},
		{"PUT", "/mcp", "", nil, 405},
		{"OPTIONS", "/mcp", "", nil, 204},
		{"OPTIONS", "/mcp", "", []string{"Origin", root}, 204},
		{"POST", "/sse", "{}", nil, 405},
		{"GET", "/sse", "", nil, 200},
		{"GET", "/messages", "", nil, 405},
		{"POST", "/messages?sessionId=x", host.Method("3", "ping", ""), nil, 404},
		{"GET", "/nothing", "", nil, 404},
		{"GET", "/", "", nil, 404},
		{"GET", "/healthz", "", nil, 200},
		{"GET", "/readyz", "", nil, 200},
		{"GET", "/metrics", "", nil, 200},
		{"DELETE", "/mcp", "", nil, 200},
		{"DELETE", "/mcp", "", nil, 404},
	} {
		r, err := http.NewRequestWithContext(t.Context(), row.method, root+row.path, bytes.NewReader([]byte(row.body)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Session-Id": {s.Session}}
		for i := 0; i < len(row.header); i += 2 {
			r.Header.Set(row.header[i], row.header[i+1])
		}
		r.Host = r.Header.Get("Host")
		resp, err := h.HTTP.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		want := "no-store"
		if resp.Header.Get("Content-Type") == "text/event-stream" {
			want = "no-cache, no-transform"
		}
		if got := resp.Header["Cache-Control"]; resp.StatusCode != row.status || len(got) != 1 || got[0] != want {
			t.Errorf("%s %s %q %q: %s, Cache-Control %q, want %d and %s", row.method, row.path, row.body, row.header, resp.Status, got, row.status, want)
		}
		_ = resp.Body.Close()
	}
}

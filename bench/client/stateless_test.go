package client

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestStateless checks what a request says in its headers and its body, and that events
// have no ids.
func TestStateless(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Header.Get("Mcp-Method") != "tools/call" {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: a\n\nid: 1.2.3\ndata: b\n\n")
			return
		}
		_, _ = fmt.Fprintf(w, "%s %s %s", r.Header.Get("MCP-Protocol-Version"), r.Header.Get("Mcp-Name"), body)
	}))
	t.Cleanup(srv.Close)
	m := NewStateless(srv.URL, nil, `{"roots":{}}`)
	a, err := m.SendRequest(t.Context(), `"x"`, "tools/call", `"name":"t"`)
	if err != nil {
		t.Fatal(err)
	}
	const want = `2026-07-28 t {"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"troupe-bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"roots":{}},"progressToken":"x"},"name":"t"}}`
	if string(a.Body) != want {
		t.Errorf("got  %s\nwant %s", a.Body, want)
	}
	if a, err = m.SendRequest(t.Context(), "1", "subscriptions/listen", ""); err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if e, err := a.Events.Next(); err != nil || e.Data != "a" {
		t.Errorf("first %+v and %v", e, err)
	}
	if e, err := a.Events.Next(); err == nil || errors.Is(err, io.EOF) || Failed(err) != 0 {
		t.Errorf("an event with an id is %+v and %v", e, err)
	}
}

package scope_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// quiet is a response that nobody reads.
type quiet struct {
	header http.Header
	status int
}

func (w *quiet) Header() http.Header         { return w.header }
func (w *quiet) Write(b []byte) (int, error) { return len(b), nil }
func (w *quiet) WriteHeader(status int)      { w.status = status }

// allocations is how often a call takes memory from a server whose tools need scopes, and which needs some itself.
func allocations(t *testing.T, least []string, tools map[string][]string, call string) float64 {
	t.Helper()
	scopes := []string{"base", "tools"}
	rt, err := troupe.New(troupe.Options{Limits: host.Unhurried.Limits, Shared: host.Unhurried.Shared, Store: troupe.StoreOptions{NoSocket: true},
		Authenticate: func(*http.Request) (troupe.Principal, error) {
			return troupe.Principal{Issuer: "test", Subject: "ann", Scopes: scopes}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		_ = rt.Close(ctx)
	}()
	s := troupe.NewServer(mcp.Implementation{Name: "test", Version: "1"}, &troupe.ServerOptions{Scopes: least})
	for name, needs := range tools {
		troupe.AddTool(s, troupe.Tool{Name: name, Scopes: needs}, func(context.Context, *troupe.Call, struct{}) (string, error) { return "ran", nil })
	}
	rt.Mount("/mcp", s)
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + call + `","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	rd := strings.NewReader(body)
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/mcp", nil)
	r.Body, r.ContentLength = io.NopCloser(rd), int64(len(body))
	r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {call}}
	w := &quiet{header: http.Header{}}
	run := func() {
		rd.Reset(body)
		clear(w.header)
		if rt.ServeHTTP(w, r); w.status != 200 && w.status != 0 {
			t.Fatalf("status %d", w.status)
		}
	}
	for range 200 {
		run()
	}
	least5 := 1e9
	for range 5 { // other goroutines of the process allocate, too
		least5 = min(least5, testing.AllocsPerRun(200, run))
	}
	return least5
}

// TestScopesCostNoAllocation compares calls with scopes with those without.
func TestScopesCostNoAllocation(t *testing.T) {
	if when.RaceEnabled {
		t.Skip("under the race detector pools lose what they have, at random")
	}
	without := allocations(t, nil, map[string][]string{"one": nil, "two": nil}, "one")
	for what, got := range map[string]float64{
		"the tool has a scope":             allocations(t, nil, map[string][]string{"one": {"tools"}, "two": nil}, "one"),
		"another tool has a scope":         allocations(t, nil, map[string][]string{"one": nil, "two": {"tools"}}, "one"),
		"the server and the tool have one": allocations(t, []string{"base"}, map[string][]string{"one": {"tools"}, "two": nil}, "one"),
	} {
		if got > without {
			t.Errorf("%s: %v allocations, and %v without", what, got, without)
		}
	}
}

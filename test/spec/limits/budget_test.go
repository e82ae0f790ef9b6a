package limits_test

import (
	"encoding/json"
	"flag"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

var update = flag.Bool("update", false, "write testdata/budgets.json anew")

// operation is a request of HTTP, without the server of HTTP.
type operation struct {
	name, body string
	header     http.Header
}

// operations are the requests whose cost is bounded and measured.
func operations(session string) []operation {
	const own = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	stateless := func(method, name string) http.Header {
		h := http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {method}}
		if name != "" {
			h["Mcp-Name"] = []string{name}
		}
		return h
	}
	bound := http.Header{"Mcp-Session-Id": {session}}
	text := strings.Repeat("x", 105)
	echo := func(text string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"` + text + `"},` + own + `}}`
	}
	return []operation{
		{"era=legacy/echo", host.Call("1", "echo", `{"text":"`+text+`"}`), bound},
		{"era=legacy/echo/size=10000", host.Call("1", "echo", `{"text":"`+strings.Repeat("x", 10000)+`"}`), bound},
		{"era=legacy/list", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`, bound},
		{"era=legacy/ping", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, bound},
		{"era=stateless/echo", echo(text), stateless("tools/call", "echo")},
		{"era=stateless/echo/size=10000", echo(strings.Repeat("x", 10000)), stateless("tools/call", "echo")},
		{"era=stateless/list", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + own + `}}`, stateless("tools/list", "")},
		{"era=stateless/discover", `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + own + `}}`, stateless("server/discover", "")},
	}
}

// dispatching returns a function that makes the function that runs an operation.
func dispatching(tb testing.TB) (all []operation, runs func(operation) func()) {
	hs := benchServer(tb, troupe.Options{})
	rt := hs.Config.Handler
	return operations(benchSession(tb, hs)), func(o operation) func() {
		rd := strings.NewReader(o.body)
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/mcp", nil)
		r.Body, r.ContentLength = io.NopCloser(rd), int64(len(o.body))
		r.Header = o.header.Clone()
		r.Header["Content-Type"], r.Header["Accept"] = []string{"application/json"}, []string{"application/json, text/event-stream"}
		w := &nullWriter{h: http.Header{}}
		return func() {
			rd.Reset(o.body)
			clear(w.h)
			rt.ServeHTTP(w, r)
			if w.status != 200 && w.status != 0 {
				tb.Fatalf("%s: status %d", o.name, w.status)
			}
		}
	}
}

// budget is what an operation takes from the heap.
type budget struct {
	Allocations float64 `json:"allocations"`
	Bytes       float64 `json:"bytes"`
}

// measure returns the least of a few measurements: other goroutines of the process allocate, too.
func measure(f func()) budget {
	const rounds, each = 5, 400
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for range each {
		f()
	}
	least := budget{1e9, 1e9}
	for range rounds {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range each {
			f()
		}
		runtime.ReadMemStats(&after)
		least.Allocations = min(least.Allocations, float64(after.Mallocs-before.Mallocs)/each)
		least.Bytes = min(least.Bytes, float64(after.TotalAlloc-before.TotalAlloc)/each)
	}
	return least
}

// TestBudgets compares what requests take from the heap with testdata/budgets.json: a tenth more fails. Where they take less, write
// it anew with -update.
func TestBudgets(t *testing.T) {
	if when.RaceEnabled {
		t.Skip("under the race detector pools lose what they have, at random")
	}
	const file = "testdata/budgets.json"
	got := map[string]budget{}
	all, runs := dispatching(t)
	for _, o := range all {
		got[o.name] = measure(runs(o))
	}
	if *update {
		text, err := json.MarshalIndent(got, "", "\t")
		if err == nil {
			err = os.WriteFile(file, append(text, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]budget
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	if a, b := slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)); !slices.Equal(a, b) {
		t.Errorf("measured are %v, and %s has %v", a, file, b)
	}
	for name, w := range want {
		g := got[name]
		t.Logf("%-32s %5.1f allocations, %7.0f bytes; recorded %5.1f and %7.0f", name, g.Allocations, g.Bytes, w.Allocations, w.Bytes)
		if g.Allocations > w.Allocations*1.1+0.1 || g.Bytes > w.Bytes*1.1+16 {
			t.Errorf("%s: %.1f allocations of %.0f bytes, more than a tenth above the recorded %.1f of %.0f", name, g.Allocations, g.Bytes, w.Allocations, w.Bytes)
		}
	}
}

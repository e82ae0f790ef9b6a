//go:build full && linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestEveryPanelHasData has processes do a little of everything, and runs each query of each panel over that time.
func TestEveryPanelHasData(t *testing.T) {
	w := newWorld(t)
	began := time.Now()
	stop := repeatedly(100*time.Millisecond, func(ctx context.Context, n int) { w.exercise(t, ctx, n) })
	w.cert.write(t, 90*24*time.Hour) // which single reads within ten seconds
	for range 2 {                    // Prometheus sees no increase of a series that begins with its first count
		resumed(t, &caller{to: w.a})
		time.Sleep(2 * scrapeEvery)
	}
	for end := time.Now().Add(hung); metric(t, w.single, "troupe_tls_reloads_total", `outcome="applied"`) == 0 && time.Now().Before(end); {
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(15 * time.Second) // the windows of rates are ten
	stop()
	for name, d := range dashboards() {
		for _, p := range d.Panels {
			for _, q := range p.Targets {
				expr := strings.NewReplacer("$job", ".+", "$instance", ".+", "$__rate_interval", "10s").Replace(q.Expr)
				if values(t, w.prometheus, expr, began) == 0 {
					t.Errorf("%s, %q has no data: %s", name, p.Title, expr)
				}
			}
		}
	}
}

// exercise does one of the things that panels show.
func (w *world) exercise(t *testing.T, ctx context.Context, n int) {
	ask := func(c *caller, method, name, params string) {
		if status, body, err := c.ask(ctx, method, name, params); ctx.Err() == nil && (err != nil || status != http.StatusOK) {
			t.Errorf("%s %s: %d %s, %v", method, name, status, body, err)
		}
	}
	switch n % 10 {
	case 0:
		ask(w.onA, "tools/list", "", "")
	case 1:
		ask(w.onA, "prompts/get", "test_simple_prompt", `"name":"test_simple_prompt"`)
	case 2:
		ask(w.onA, "tools/call", "test_error_handling", `"name":"test_error_handling","arguments":{}`)
	case 3:
		_, _, _ = w.onD.tool(ctx, "fault", `{"how":"error"}`)
	case 4: // a body of the wrong type is refused before anything else
		_, _, _ = readAll(w.onA.send(ctx, "POST", "{}", "Content-Type", "text/plain"))
	case 5:
		questioned(t, ctx, &caller{to: w.a})
	case 6:
		ask(w.onSingle, "tools/call", "echo", `"name":"echo","arguments":{"text":"x"}`)
	case 7:
		go func() { _, _, _ = w.onA.tool(ctx, "sleep", `{"ms":3000}`) }()
	case 8: // a client that goes away from a stream
		c := &caller{to: w.b}
		if err := c.begin(ctx); err != nil {
			return
		}
		within, cancel := context.WithTimeout(ctx, time.Second)
		_, _, _ = readAll(c.call(within, 1, "count", `{"to":100,"delay_ms":100}`, ""))
		cancel()
	case 9: // calls that come too fast
		c := &caller{to: w.loose}
		if c.begin(ctx) == nil {
			for i := range 300 {
				_, _, _ = readAll(c.call(ctx, i, "echo", `{"text":"x"}`, ""))
			}
		}
	}
}

// questioned has a call ask its client, which answers; then the session ends.
func questioned(t *testing.T, ctx context.Context, c *caller) {
	if err := c.begin(ctx); err != nil {
		return
	}
	resp, err := c.call(ctx, 1, "ask", `{"question":"x"}`, "")
	if err != nil {
		return
	}
	events(resp, func(_, data string) bool {
		var m struct {
			ID     json.RawMessage
			Method string
			Result json.RawMessage
		}
		if json.Unmarshal([]byte(data), &m) == nil && m.Method == "elicitation/create" {
			answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"decline"}}`, m.ID)
			if status, body, err := readAll(c.send(ctx, "POST", answer)); ctx.Err() == nil && (err != nil || status != http.StatusAccepted) {
				t.Errorf("an answer: %d %s, %v", status, body, err)
			}
		}
		return m.Result == nil
	})
	_, _, _ = readAll(c.send(ctx, "DELETE", ""))
}

// resumed breaks the connection of a stream, and comes back for the rest.
func resumed(t *testing.T, c *caller) {
	t.Helper()
	resp, err := c.started(t).call(t.Context(), 1, "count", `{"to":30,"delay_ms":100}`, "")
	if err != nil {
		t.Fatal(err)
	}
	last := ""
	events(resp, func(id, _ string) bool { last = id; return last == "" })
	resp, err = c.send(t.Context(), "GET", "", "Last-Event-ID", last)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("it cannot be resumed: %v, %v", resp, err)
	}
	events(resp, func(_, data string) bool { return !strings.Contains(data, "counted to") })
}

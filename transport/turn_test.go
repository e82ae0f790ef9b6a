package transport

import (
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestLargeBodiesTakeTurns: while others have all turns, a large body is not scanned, and is refused after its time; a
// small one never waits.
func TestLargeBodiesTakeTurns(t *testing.T) {
	virtually(t, func(t *testing.T, serve func(Dispatcher, Options) *pipes) {
		seen := newCounts()
		o := Options{Observer: seen}
		a := counted(t, &o, -1)
		p := serve(funcs{post: func(x *Exchange) { x.Answer(200, pong) }}, o)
		body := func(n int) string {
			return request("POST", "localhost", strings.TrimSuffix(ping, "}")+`,"params":{"pad":"`+strings.Repeat("x", n)+`"}}`)
		}
		other := a.Of("another client", "")
		places := max(1, runtime.GOMAXPROCS(0)/2)
		for range places {
			a.Turns.Take(t.Context(), other)
		}
		start := time.Now()
		for _, row := range []struct {
			size, status int
			after        time.Duration
		}{{60 << 10, 200, 0}, {70 << 10, 503, 5 * time.Second}, {60 << 10, 200, 5 * time.Second}} {
			r := p.dial(t).send(body(row.size)).response("POST")
			if r.StatusCode != row.status || time.Since(start) != row.after {
				t.Errorf("%d bytes: %s after %v, want %d after %v", row.size, r.Status, time.Since(start), row.status, row.after)
			}
			if r.StatusCode == 503 && r.Header.Get("Retry-After") != "1" {
				t.Errorf("come back after %q", r.Header.Get("Retry-After"))
			}
		}
		seen.mu.Lock()
		if seen.rejected["503 turn"] != 1 {
			t.Errorf("counted %v", seen.rejected)
		}
		seen.mu.Unlock()
		got := make(chan *http.Response)
		go func() { got <- p.dial(t).send(body(70 << 10)).response("POST") }()
		time.Sleep(time.Second)
		if n := a.Turns.Waiting(); n != 1 {
			t.Errorf("%d wait for their turn, want 1", n)
		}
		a.Turns.Leave()
		if r := <-got; r.StatusCode != 200 || time.Since(start) != 6*time.Second {
			t.Errorf("in turn: %s after %v", r.Status, time.Since(start))
		}
		synctest.Wait()
		if !a.Turns.Take(t.Context(), other) { // the place came back
			t.Error("no place")
		}
		for range places {
			a.Turns.Leave()
		}
	})
}

package roundrobin_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-run/troupe/bench/lab/roundrobin"
)

// TestProxy gives requests to the nodes that are ready, in turn.
func TestProxy(t *testing.T) {
	t.Parallel()
	var sick atomic.Bool
	var urls []string
	for i := range 3 {
		node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/readyz" {
				if i == 1 && sick.Load() {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
				return
			}
			body, _ := io.ReadAll(r.Body)
			_, _ = fmt.Fprintf(w, "%d %s", i, body)
		}))
		t.Cleanup(node.Close)
		urls = append(urls, node.URL)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p, err := roundrobin.New(ctx, urls)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(p)
	defer front.Close()
	ask := func() string {
		resp, err := http.Post(front.URL+"/mcp", "text/plain", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		body, _ := io.ReadAll(resp.Body)
		return string(body)
	}
	until(t, func() bool { return p.Ready() == 3 })
	got := map[string]int{}
	for range 30 {
		got[ask()]++
	}
	if got["0 x"] != 10 || got["1 x"] != 10 || got["2 x"] != 10 {
		t.Errorf("answers: %v, want ten of each", got)
	}
	sick.Store(true)
	until(t, func() bool { return p.Ready() == 2 })
	for range 30 {
		if a := ask(); a == "1 x" {
			t.Fatal("a node got a request that is not ready")
		}
	}
}

// until waits until f is true.
func until(t *testing.T, f func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.After(20 * time.Second)
	for !f() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("it did not come about within 20 s")
		}
	}
}

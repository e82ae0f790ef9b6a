package limits_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/spec/host"
	"github.com/troupe-run/troupe/internal/testkit"
)

// TestMemoryIsShared: a client that has its share of the memory is refused, and no other. What its requests held is
// given back.
func TestMemoryIsShared(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Shared: troupe.SharedLimits{MaxMemory: 8 << 20}, Authenticate: host.User}, nil)
		ann, bob := host.As(h.Unchecked(), "ann").Initialize(`{}`), host.As(h.Unchecked(), "bob").Initialize(`{}`)
		large := func(n int) string { return host.Call("1", "echo", `{"text":"`+strings.Repeat("x", n)+`"}`) }
		for name, row := range map[string]struct {
			size, status int
			text, reason string
		}{
			"more than two thirds of it": {1_500_000, 429, "this client has its share of the node's memory", "memory-share"},
			"more than all of it":        {2_500_000, 503, "this node has no memory for the request", "memory"},
		} {
			a := ann.Post(large(row.size))
			host.Contains(t, name, a.Body, row.text)
			if a.StatusCode != row.status || a.Header.Get("Retry-After") != "1" {
				t.Errorf("%s: %s, Retry-After %q", name, a.Status, a.Header.Get("Retry-After"))
			}
			if n := h.Gauge("troupe.http.refused", row.reason); n != 1 {
				t.Errorf("%s: counted %d times", name, n)
			}
		}
		if a := ann.Post(large(500_000)); a.StatusCode != 200 {
			t.Errorf("a quarter of it: %s", a.Status)
		}
		if a := bob.Post(large(500_000)); a.StatusCode != 200 {
			t.Errorf("another client: %s", a.Status)
		}
		synctest.Wait()
		if n := h.Gauge("troupe.memory.held", "bodies"); n != 0 {
			t.Errorf("%d bytes are held for bodies that were answered", n)
		}
	})
}

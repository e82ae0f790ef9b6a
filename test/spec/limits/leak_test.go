package limits_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// abandonLinks leaves sessions over HTTP+SSE with everything that they may have under
// way.
func abandonLinks(h *host.Host, n int) {
	h.T.Helper()
	for i := range n {
		s := h.Unchecked().OpenSSE("/sse")
		if i%6 > 0 { // otherwise it is never initialized
			s.Handshake("2025-03-26", `{"elicitation":{}}`)
		}
		switch i % 6 {
		case 1:
			s.Ask(host.Method("1", "resources/subscribe", `{"uri":"test://one"}`))
		case 2:
			s.Post(host.Call("1", "sleep", `{"ms":600000}`))
		case 3:
			s.Ask(host.Call("1", "pingback", `{}`))
		case 4:
			s.Ask(host.Batch(host.Call("1", "sleep", `{"ms":600000}`), host.CallWith("2", "count", `{"to":1000,"delay_ms":1000}`, `"t"`)))
		case 5:
			s.Post(host.Call("1", "sleep", `{"ms":600000}`))
			s.Post(host.Cancel("1"))
		}
		s.Stream.Close()
	}
}

// abandonBatches leaves batches that are streams, that were cancelled before and after
// they became one, and that wait for answers.
func abandonBatches(h *host.Host, n int) {
	h.T.Helper()
	for i := range n {
		c := h.Unchecked().InitializeAs("2025-03-26", `{}`)
		var a *kit.Answer
		switch i % 4 {
		case 0:
			a = c.Post(host.Batch(host.Call("1", "sleep", `{"ms":600000}`), host.CallWith("2", "count", `{"to":3,"delay_ms":1000}`, `"t"`), host.Call("3", "echo", `{"text":"x"}`)))
			a.Next()
		case 1:
			a = c.Post(host.Batch(host.Call("1", "sleep", `{"ms":600000}`), host.CallWith("2", "count", `{"to":1000,"delay_ms":1000}`, `"t"`)))
			a.Next()
			c.Post(host.Batch(host.Cancel("1"), host.Cancel("2")))
		case 2:
			later := c.PostLater(host.Batch(host.Call("1", "sleep", `{"ms":600000}`), host.Call("2", "sleep", `{"ms":600000}`)))
			_ = host.Sleep(h.T.Context(), 100)
			c.Post(host.Batch(host.Cancel("1"), host.Cancel("2")))
			a = <-later
		case 3:
			a = c.Post(host.Batch(host.Call("1", "pingback", `{}`), host.Call("2", "pingback", `{}`)))
			a.Next()
		}
		a.Close()
	}
}

// abandonServers mounts servers that each have sessions, streams and subscriptions. The
// returned function unmounts them; every second server still has all of that then.
func abandonServers(h *host.Host, n int) (unmount func()) {
	h.T.Helper()
	for i := range n {
		srv := troupe.NewServer(mcp.Implementation{Name: "guest", Version: "1"}, &troupe.ServerOptions{ID: fmt.Sprintf("guest-%d", i)})
		host.AddTestTools(srv)
		h.Runtime.Mount(fmt.Sprintf("/guest-%d", i), srv)
		c := h.Unchecked()
		c.URL = fmt.Sprintf("http://127.0.0.1/guest-%d", i)
		s := c.OpenSSE(fmt.Sprintf("/guest-%d/sse", i))
		s.Handshake("2024-11-05", `{}`)
		s.Post(host.Call("1", "sleep", `{"ms":600000}`))
		c.Initialize(`{}`)
		c.Post(host.Method("1", "resources/subscribe", `{"uri":"test://one"}`))
		standalone, call := c.Get(""), c.Post(host.Call("2", "pingback", `{}`))
		call.Next()
		if i%2 == 0 {
			h.Runtime.Unmount(fmt.Sprintf("/guest-%d", i))
		}
		for _, a := range []*kit.Answer{s.Stream, standalone, call} {
			a.Close()
		}
	}
	return func() {
		for i := 1; i < n; i += 2 {
			h.Runtime.Unmount(fmt.Sprintf("/guest-%d", i))
		}
	}
}

// TestNothingIsLeft abandons sessions, streams and parked calls, waits until everything
// has expired, and does it again (invariant I9).
func TestNothingIsLeft(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	when.Long(t, "a crowd")
	sessions, streams, parked, servers := host.Sized(10_000, 200), host.Sized(1000, 60), host.Sized(1000, 60), host.Sized(100, 20)
	kit.Bubble(t, func(t *testing.T) {
		const idle = 5 * time.Minute
		// All of them come from one address.
		h := host.New(t, troupe.Options{Store: troupe.StoreOptions{SessionIdle: idle}, Shared: troupe.SharedLimits{PrincipalRate: 1e6, SessionsPerPrincipal: -1, CallsPerPrincipal: 5000, StreamsPerPrincipal: 5000, PendingPerPrincipal: 5000}}, nil)
		round := func(sessions, streams, parked int) {
			for i := range sessions {
				c := h.Unchecked().Initialize(`{"elicitation":{}}`)
				switch i % 4 {
				case 1:
					c.Post(host.Call("1", "echo", `{"text":"x"}`))
				case 2:
					c.Post(host.Method("1", "resources/subscribe", `{"uri":"test://one"}`))
				}
			}
			for i := range streams {
				c := h.Unchecked().Initialize(`{}`)
				var a *kit.Answer
				switch i % 3 {
				case 0: // answered while no client listens
					a = c.Post(host.CallWith("1", "count", `{"to":3,"delay_ms":1000}`, `"t"`))
				case 1: // goes on without a client
					a = c.Post(host.Call("1", "sleep", `{"ms":600000}`))
				case 2: // a standalone stream, with a message in its log
					a = c.Get("")
					c.Post(host.Call("1", "tick", `{"to":1}`))
				}
				a.Next()
				a.Close()
			}
			for range parked {
				a := h.Unchecked().Initialize(`{"elicitation":{}}`).Post(host.Call("1", "ask", `{"question":"?"}`))
				host.NextQuestion(t, a)
				a.Close()
			}
			abandonLinks(h, streams)
			abandonBatches(h, streams)
			unmount := abandonServers(h, servers)
			if n := h.Stored("sessions"); n < int64(sessions+streams+parked) {
				t.Errorf("%d sessions are stored", n)
			}
			h.HTTP.CloseIdleConnections()
			time.Sleep(idle + 20*time.Minute)
			unmount()
		}
		round(100, 30, 30) // starts what stays
		before := h.Leftovers(0)
		round(2*sessions, 2*streams, 2*parked) // grows tables and pools, which do not shrink
		round(sessions, streams, parked)
		first := h.Leftovers(before.Goroutines)
		round(sessions, streams, parked)
		second := h.Leftovers(before.Goroutines)
		for name, l := range map[string]host.Leftovers{"first": first, "second": second} {
			if l.Goroutines > before.Goroutines {
				t.Errorf("after the %s round: %d goroutines, before %d:\n%s", name, l.Goroutines, before.Goroutines, strings.Join(l.Stacks, "\n\n"))
			}
			for kind, n := range l.Actors {
				if want := map[string]int64{"node": 1, "queue": 1}[kind]; n != want {
					t.Errorf("after the %s round: %d actors of kind %s, want %d", name, n, kind, want)
				}
			}
			for what, n := range l.Held {
				if n != 0 {
					t.Errorf("after the %s round: %d %s, want none", name, n, what)
				}
			}
			for stream, n := range l.Stored {
				if n != 0 {
					t.Errorf("after the %s round: %d messages in %s, want none", name, n, stream)
				}
			}
		}
		if allowed := first.Heap + first.Heap/20 + 2<<20; second.Heap > allowed {
			t.Errorf("the heap grew between two rounds from %d to %d KiB", first.Heap>>10, second.Heap>>10)
		}
		t.Logf("heap %d, %d, %d KiB; %d goroutines", before.Heap>>10, first.Heap>>10, second.Heap>>10, second.Goroutines)
	})
}

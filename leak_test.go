package troupe_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/testkit"
	"github.com/troupe-run/troupe/mcp"
)

// leftovers is what a runtime holds once everything has expired.
type leftovers struct {
	goroutines int
	heap       uint64
	actors     map[string]int64
	stored     map[string]int64
	held       map[string]int64 // calls, connections, questions and the like
}

// leftovers looks around once no more than that many goroutines are left, or
// after ten seconds: the store has some that come and go.
func (h *host) leftovers(goroutines int) leftovers {
	synctest.Wait()
	for i := 0; i < 10 && runtime.NumGoroutine() > goroutines; i++ {
		time.Sleep(time.Second)
		synctest.Wait()
	}
	l := leftovers{goroutines: runtime.NumGoroutine(), heap: heap(), actors: map[string]int64{}, stored: map[string]int64{}, held: h.held()}
	for _, kind := range []string{"node", "session", "request", "stream", "subscription"} {
		l.actors[kind] = h.actors(kind)
	}
	for _, stream := range []string{"sessions", "events"} {
		l.stored[stream] = h.stored(stream)
	}
	return l
}

// abandonLinks leaves sessions over HTTP+SSE with all that they may have under way.
func (h *host) abandonLinks(n int) {
	h.t.Helper()
	for i := range n {
		s := h.unchecked().OpenSSE("/sse")
		if i%6 > 0 { // else it is never initialized
			s.Handshake("2025-03-26", `{"elicitation":{}}`)
		}
		switch i % 6 {
		case 1:
			s.Ask(method("1", "resources/subscribe", `{"uri":"test://one"}`))
		case 2:
			s.Post(call("1", "sleep", `{"ms":600000}`))
		case 3:
			s.Ask(call("1", "pingback", `{}`))
		case 4:
			s.Ask(batch(call("1", "sleep", `{"ms":600000}`), callWith("2", "count", `{"to":1000,"delay_ms":1000}`, `"t"`)))
		case 5:
			s.Post(call("1", "sleep", `{"ms":600000}`))
			s.Post(cancel("1"))
		}
		s.Stream.Close()
	}
}

// abandonBatches leaves batches that are streams, that were cancelled before and after
// they became one, and that wait for answers.
func (h *host) abandonBatches(n int) {
	h.t.Helper()
	for i := range n {
		c := h.unchecked().InitializeAs("2025-03-26", `{}`)
		var a *testkit.Answer
		switch i % 4 {
		case 0:
			a = c.Post(batch(call("1", "sleep", `{"ms":600000}`), callWith("2", "count", `{"to":3,"delay_ms":1000}`, `"t"`), call("3", "echo", `{"text":"x"}`)))
			a.Next()
		case 1:
			a = c.Post(batch(call("1", "sleep", `{"ms":600000}`), callWith("2", "count", `{"to":1000,"delay_ms":1000}`, `"t"`)))
			a.Next()
			c.Post(batch(cancel("1"), cancel("2")))
		case 2:
			later := c.PostLater(batch(call("1", "sleep", `{"ms":600000}`), call("2", "sleep", `{"ms":600000}`)))
			time.Sleep(100 * time.Millisecond)
			c.Post(batch(cancel("1"), cancel("2")))
			a = <-later
		case 3:
			a = c.Post(batch(call("1", "pingback", `{}`), call("2", "pingback", `{}`)))
			a.Next()
		}
		a.Close()
	}
}

// abandonServers mounts servers that each have sessions, streams and subscriptions, and
// takes them away, every second one while all of that is there.
func (h *host) abandonServers(n int) (unmount func()) {
	h.t.Helper()
	for i := range n {
		srv := troupe.NewServer(mcp.Implementation{Name: "guest", Version: "1"}, &troupe.ServerOptions{ID: fmt.Sprintf("guest-%d", i)})
		addTestTools(srv)
		h.rt.Mount(fmt.Sprintf("/guest-%d", i), srv)
		c := h.unchecked()
		c.URL = fmt.Sprintf("http://127.0.0.1/guest-%d", i)
		s := c.OpenSSE(fmt.Sprintf("/guest-%d/sse", i))
		s.Handshake("2024-11-05", `{}`)
		s.Post(call("1", "sleep", `{"ms":600000}`))
		c.Initialize(`{}`)
		c.Post(method("1", "resources/subscribe", `{"uri":"test://one"}`))
		standalone, call := c.Get(""), c.Post(call("2", "pingback", `{}`))
		call.Next()
		if i%2 == 0 {
			h.rt.Unmount(fmt.Sprintf("/guest-%d", i))
		}
		for _, a := range []*testkit.Answer{s.Stream, standalone, call} {
			a.Close()
		}
	}
	return func() {
		for i := 1; i < n; i += 2 {
			h.rt.Unmount(fmt.Sprintf("/guest-%d", i))
		}
	}
}

// TestNothingIsLeft abandons sessions, streams and parked calls, waits until all
// has expired, and does it again (invariant I9).
func TestNothingIsLeft(t *testing.T) {
	sessions, streams, parked, servers := 10_000, 1000, 1000, 100
	if raceEnabled {
		sessions, streams, parked, servers = 200, 60, 60, 20
	}
	testkit.Bubble(t, func(t *testing.T) {
		const idle = 5 * time.Minute
		// All of it comes from one address.
		h := newHost(t, troupe.Options{SessionIdle: idle, PrincipalRate: 1e6, CallsPerPrincipal: 5000, StreamsPerPrincipal: 5000, ParkedPerPrincipal: 5000}, nil)
		round := func(sessions, streams, parked int) {
			for i := range sessions {
				c := h.unchecked().Initialize(`{"elicitation":{}}`)
				switch i % 4 {
				case 1:
					c.Post(call("1", "echo", `{"text":"x"}`))
				case 2:
					c.Post(method("1", "resources/subscribe", `{"uri":"test://one"}`))
				}
			}
			for i := range streams {
				c := h.unchecked().Initialize(`{}`)
				var a *testkit.Answer
				switch i % 3 {
				case 0: // answered while nobody listens
					a = c.Post(callWith("1", "count", `{"to":3,"delay_ms":1000}`, `"t"`))
				case 1: // goes on alone
					a = c.Post(call("1", "sleep", `{"ms":600000}`))
				case 2: // a standalone stream, with a message in its log
					a = c.Get("")
					c.Post(call("1", "tick", `{"to":1}`))
				}
				a.Next()
				a.Close()
			}
			for range parked {
				a := h.unchecked().Initialize(`{"elicitation":{}}`).Post(call("1", "ask", `{"question":"?"}`))
				nextQuestion(t, a)
				a.Close()
			}
			h.abandonLinks(streams)
			h.abandonBatches(streams)
			unmount := h.abandonServers(servers)
			if n := h.stored("sessions"); n < int64(sessions+streams+parked) {
				t.Errorf("%d sessions are stored", n)
			}
			h.web.CloseIdleConnections()
			time.Sleep(idle + 20*time.Minute)
			unmount()
		}
		round(100, 30, 30) // starts what stays
		before := h.leftovers(0)
		round(2*sessions, 2*streams, 2*parked) // grows tables and pools, which do not shrink
		round(sessions, streams, parked)
		first := h.leftovers(before.goroutines)
		round(sessions, streams, parked)
		second := h.leftovers(before.goroutines)
		for name, l := range map[string]leftovers{"first": first, "second": second} {
			if l.goroutines > before.goroutines {
				t.Errorf("after the %s round: %d goroutines, before %d", name, l.goroutines, before.goroutines)
			}
			for kind, n := range l.actors {
				if want := map[string]int64{"node": 1}[kind]; n != want {
					t.Errorf("after the %s round: %d actors of kind %s, want %d", name, n, kind, want)
				}
			}
			for what, n := range l.held {
				if n != 0 {
					t.Errorf("after the %s round: %d %s, want none", name, n, what)
				}
			}
			for stream, n := range l.stored {
				if n != 0 {
					t.Errorf("after the %s round: %d messages in %s, want none", name, n, stream)
				}
			}
		}
		if allowed := first.heap + first.heap/20 + 2<<20; second.heap > allowed {
			t.Errorf("the heap grew between two rounds from %d to %d KiB", first.heap>>10, second.heap>>10)
		}
		t.Logf("heap %d, %d, %d KiB; %d goroutines", before.heap>>10, first.heap>>10, second.heap>>10, second.goroutines)
	})
}

package troupe_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/testkit"
)

// leftovers is what a runtime holds once everything has expired.
type leftovers struct {
	goroutines int
	heap       uint64
	actors     map[string]int64
	stored     map[string]int64
}

// leftovers looks around once no more than that many goroutines are left, or
// after ten seconds: the store has some that come and go.
func (h *host) leftovers(goroutines int) leftovers {
	synctest.Wait()
	for i := 0; i < 10 && runtime.NumGoroutine() > goroutines; i++ {
		time.Sleep(time.Second)
		synctest.Wait()
	}
	l := leftovers{goroutines: runtime.NumGoroutine(), heap: heap(), actors: map[string]int64{}, stored: map[string]int64{}}
	for _, kind := range []string{"node", "session", "request", "stream", "subscription"} {
		l.actors[kind] = h.rt.Actors(kind)
	}
	for _, stream := range []string{"sessions", "events"} {
		l.stored[stream] = h.rt.Stored(stream)
	}
	return l
}

// TestNothingIsLeft abandons sessions, streams and parked calls, waits until all
// has expired, and does it again (invariant I9).
func TestNothingIsLeft(t *testing.T) {
	sessions, streams, parked := 10_000, 1000, 1000
	if raceEnabled {
		sessions, streams, parked = 500, 100, 100
	}
	testkit.Bubble(t, func(t *testing.T) {
		const idle = 20 * time.Minute
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
			if n := h.rt.Stored("sessions"); n < int64(sessions+streams+parked) {
				t.Errorf("%d sessions are stored", n)
			}
			h.web.CloseIdleConnections()
			time.Sleep(idle + 30*time.Minute)
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

package limits_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestMemoryIsShared: a client that has its share of the memory is refused, and no other. What its requests held is
// given back.
func TestMemoryIsShared(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Shared: troupe.SharedLimits{MaxMemory: 16 << 20}, Authenticate: host.User}, nil)
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

// TestMemoryOfOutcomes: a response that is kept for a client that may have lost it is counted for as long as it is kept,
// and not kept if there is no room, or if the client has used up half of its share: its next request must find room.
func TestMemoryOfOutcomes(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Shared: troupe.SharedLimits{MaxMemory: 8 << 20}}, nil)
		text := strings.Repeat("x", 50_000)
		addAnswering(h, text)
		m := h.Stateless(host.EveryCapability)
		parked := func() int64 {
			synctest.Wait()
			return h.Gauge("troupe.memory.held", "parked")
		}
		state := ""
		for i := range 20 {
			a, id := m.Tool("answering", `{}`)
			state = m.Parked(a, id, "elicit")
			if got := m.Done(m.Tool("answering", `{}`, state, host.Given("elicit", "x"))); got != text {
				t.Fatalf("call %d: %.100s", i, got)
			}
			if i == 0 {
				if n := parked(); n < 50_000 || n > 60_000 {
					t.Errorf("%d bytes are held for a response of 50,000", n)
				}
				host.Equal(t, "sent once more", m.Done(m.Tool("answering", `{}`, state, host.Given("elicit", "x"))), text)
			}
		}
		if n := parked(); n < 200_000 || n > 400_000 { // of 1 MiB
			t.Errorf("%d bytes are held for 20 responses of 50,000", n)
		}
		host.Contains(t, "a large request beside them", m.Done(m.Tool("answering", `{"pad":"`+strings.Repeat("x", 100_000)+`"}`)), "pad")
		host.Contains(t, "one for which there was no room", m.Done(m.Tool("answering", `{}`, state, host.Given("elicit", "x"))), "error -32010")
		time.Sleep(11 * time.Minute)
		before := parked()
		a, id := m.Tool("twice", `{}`)
		state = m.Parked(a, id, "elicit")
		first := parked() - before
		m.Tool("twice", `{}`, state, host.Given("elicit", "x"))
		if n := parked() - before; before != 0 || n < first+30_000 || n > first+35_000 {
			t.Errorf("a call that asks again, with 30,000 bytes, holds %d bytes, before that %d; %d are held by others", n, first, before)
		}
		time.Sleep(21 * time.Minute) // it gives up after 10, and its response is kept as long
		if n := parked(); n != 0 {
			t.Errorf("%d bytes are held for responses that are not kept any more", n)
		}
	})
}

// addAnswering adds a tool that asks a question and then returns text.
func addAnswering(h *host.Host, text string) {
	troupe.AddTool(h.Server, troupe.Tool{Name: "answering", Description: "d", Needs: mcp.CapClientElicitationForm}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
		_, err := call.Elicit(ctx, "?", host.Form)
		return text, err
	})
	troupe.AddTool(h.Server, troupe.Tool{Name: "twice", Description: "d", Needs: mcp.CapClientElicitationForm}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
		if _, err := call.Elicit(ctx, "?", host.Form); err != nil {
			return "", err
		}
		_, err := call.Elicit(ctx, strings.Repeat("?", 30_000), host.Form)
		return "", err
	})
}

// TestMemoryOfCalls: what parked calls, listeners and sessions hold is counted while they last, refused when there is no
// room, and given back when they end.
func TestMemoryOfCalls(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Shared: troupe.SharedLimits{MaxMemory: 8 << 20}}, nil)
		end := make(chan struct{})
		defer close(end)
		addHolders(h, end, "")
		kinds := func(want ...string) {
			t.Helper()
			synctest.Wait()
			for _, kind := range []string{"parked", "listeners", "sessions"} {
				if n := h.Gauge("troupe.memory.held", kind); n > 0 != slices.Contains(want, kind) || n < 0 {
					t.Errorf("%d bytes are held for %s; some are for %v", n, kind, want)
				}
			}
		}
		kinds()
		read := func(conn net.Conn) string {
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			if resp.Header.Get("Content-Type") == "text/event-stream" {
				return ""
			}
			body, _ := io.ReadAll(resp.Body)
			return string(body)
		}
		question := stateless("tools/call", "question", `"name":"question","arguments":{"text":"`+strings.Repeat("x", 40_000)+`"}`)
		asked := 0
		var refusal string
		for range 100 {
			if body := read(raw(h, question)); strings.Contains(body, "input_required") {
				asked++
			} else {
				refusal = body
				break
			}
		}
		host.Contains(t, "too many parked calls", refusal, "this client has its share of the node's memory")
		if asked < 5 || asked > 20 { // a MiB; each is counted 64 KiB, and its request as much while it is here
			t.Errorf("%d calls are parked", asked)
		}
		kinds("parked")
		time.Sleep(11 * time.Minute) // nobody has answered
		kinds()
		conn := raw(h, stateless("subscriptions/listen", "", `"notifications":{"resourceSubscriptions":["test://a","test://b"]}`))
		read(conn)
		kinds("listeners")
		_ = conn.Close()
		kinds()
		h.Unchecked().Initialize(`{}`)
		kinds("sessions")
		time.Sleep(3 * time.Minute)
		kinds()
	})
}

package session_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

func TestUpdatesAreGathered(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		c := h.Session()
		c.Post(host.SubscribeOne)
		l := host.Listen(c.Get(""))
		defer l.Close()
		if got := l.Since(0); len(got) != 1 { // it may have missed one
			t.Fatalf("at first: %v", got)
		}
		begin := time.Now()
		update := func(times int) {
			for range times {
				h.Server.ResourceUpdated("test://one")
			}
		}
		for _, step := range []struct {
			wait  time.Duration
			times int
			want  int // messages in all
		}{
			{0, 1, 2},                      // the first at once
			{10 * time.Millisecond, 50, 2}, // these wait
			{80 * time.Millisecond, 50, 2},
			{11 * time.Millisecond, 0, 3},   // 101 ms: once for all of them
			{50 * time.Millisecond, 1, 3},   // the pause began anew
			{50 * time.Millisecond, 0, 4},   // 201 ms
			{500 * time.Millisecond, 0, 4},  // nothing more
			{0, 1, 5},                       // and at once again
			{101 * time.Millisecond, 1, 6},  // one after the pause is sent at once
			{1000 * time.Millisecond, 0, 6}, // nothing is sent twice
		} {
			time.Sleep(step.wait)
			update(step.times)
			if got := l.Since(0); len(got) != step.want {
				t.Fatalf("after %v: %d messages, want %d", time.Since(begin), len(got), step.want)
			}
		}
		for _, m := range l.Since(0) {
			host.Equal(t, "update", m, host.OneUpdated)
		}
	})
}

func TestSubResources(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		for _, below := range []bool{true, false} {
			h := host.New(t, troupe.Options{}, &troupe.ServerOptions{SubResources: below})
			var listens []*host.Listening
			hears := map[string][]string{
				"file:///a":          {"file:///a", "file:///a/b", "file:///a/b/c?d#e", "file:///a?x"},
				"file:///a/":         {"file:///a/b", "file:///a/b/c?d#e"},
				"file:///a/b":        {"file:///a/b", "file:///a/b/c?d#e"},
				"file:///a/b/c?d":    {"file:///a/b/c?d#e"},
				"file:///":           {"file:///a", "file:///a/b", "file:///a/b/c?d#e", "file:///a?x", "file:///ab"},
				"urn:x":              {"urn:x", "urn:x/y"},
				"test://host":        {"test://host", "test://host/a"},
				"test://":            nil,
				"never://told/about": nil,
			}
			uris := []string{"file:///a", "file:///a/b", "file:///a/b/c?d#e", "file:///a?x", "file:///ab", "urn:x", "urn:x/y", "test://host", "test://host/a", "test://hostile"}
			var names []string
			for uri := range hears {
				c := h.Unchecked().Initialize(`{}`)
				c.Post(host.Method("1", "resources/subscribe", `{"uri":"`+uri+`"}`))
				l := host.Listen(c.Get(""))
				defer l.Close()
				if got := l.Since(0); len(got) != 1 {
					t.Fatalf("at first: %v", got)
				}
				listens, names = append(listens, l), append(names, uri)
			}
			for _, uri := range uris {
				h.Server.ResourceUpdated(uri)
			}
			for i, name := range names {
				var want []string
				for _, uri := range hears[name] {
					if below || uri == name {
						want = append(want, host.UpdateNote(uri))
					}
				}
				if diff := cmp.Diff(want, append([]string(nil), listens[i].Since(1)...)); diff != "" {
					t.Errorf("SubResources %v: subscribed to %s (-want +got):\n%s", below, name, diff)
				}
			}
			if !below {
				continue
			}
			// When very many resources change at once, the client gets an update of the
			// subscribed one in their place.
			time.Sleep(time.Second)
			i := slices.Index(names, "urn:x")
			n := len(listens[i].Since(0))
			for k := range 5000 {
				h.Server.ResourceUpdated(fmt.Sprintf("urn:x/%d", k))
			}
			time.Sleep(time.Second)
			if got := listens[i].Since(n); len(got) > 102 || !slices.Contains(got, host.UpdateNote("urn:x")) {
				t.Errorf("%d messages for 5000 resources; the last is %s", len(got), got[len(got)-1])
			}
		}
	})
}

// TestThousandSubscribers checks that every session gets every change of its
// subscriptions although some sessions do not read, and that nothing remains of
// sessions that unsubscribe or go.
func TestThousandSubscribers(t *testing.T) {
	when.Long(t, "a crowd")
	sessions, deaf := 1000, 10
	if when.RaceEnabled {
		sessions = 100
	}
	const uris = 10
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Shared: troupe.SharedLimits{PrincipalRate: -1}}, nil)
		uri := func(i int) string { return fmt.Sprintf("test://items/%d", i) }
		clients, streams := make([]*kit.Client, sessions), make([]*host.Listening, sessions)
		for i := range clients {
			c := h.Unchecked().Initialize(`{}`)
			for k := range uris {
				if a := c.Post(host.Method("1", "resources/subscribe", `{"uri":"`+uri(k)+`"}`)); a.Body != `{"jsonrpc":"2.0","id":1,"result":{}}` {
					t.Fatalf("subscribe: %s %s", a.Status, a.Body)
				}
			}
			a := c.Get("")
			if clients[i] = c; i < deaf {
				defer a.Close()
				continue
			}
			streams[i] = host.Listen(a)
			defer a.Close()
		}
		readers := streams[deaf:]
		if n := h.Actors("subscription"); n != uris {
			t.Errorf("%d subscription actors for %d resources", n, uris)
		}
		each := func(what string, want func(s, k int) int, since []int) {
			t.Helper()
			for s, l := range readers {
				count := map[string]int{}
				for _, m := range l.Since(since[s]) {
					count[m]++
				}
				since[s] += len(l.Since(since[s]))
				for k := range uris {
					if got := count[host.UpdateNote(uri(k))]; got != want(s, k) {
						t.Fatalf("%s: session %d heard %d times of %s, want %d", what, s, got, uri(k), want(s, k))
					}
				}
			}
		}
		since := make([]int, len(readers))
		each("at first", func(int, int) int { return 1 }, since)

		before, begin := h.Gauge("troupe.log.appends", ""), time.Now()
		for range 20 {
			for k := range uris {
				h.Server.ResourceUpdated(uri(k))
			}
		}
		each("at once", func(int, int) int { return 1 }, since)
		if took := time.Since(begin); took != 0 {
			t.Errorf("those who read waited %v for those who do not", took)
		}
		time.Sleep(250 * time.Millisecond)
		each("for what came since", func(int, int) int { return 1 }, since)
		if n := h.Gauge("troupe.log.appends", "") - before; n > int64(2*sessions*uris) {
			t.Errorf("%d appends for two updates of %d resources to %d sessions", n, uris, sessions)
		}

		// Half of the sessions give up half of the resources.
		for s := 0; s < len(readers); s += 2 {
			for k := 0; k < uris; k += 2 {
				clients[deaf+s].Post(host.Method("1", "resources/unsubscribe", `{"uri":"`+uri(k)+`"}`))
			}
		}
		for k := range uris {
			h.Server.ResourceUpdated(uri(k))
		}
		each("after some unsubscribed", func(s, k int) int { return s%2*1 | k%2 }, since)

		for i, c := range clients {
			switch i % 3 {
			case 0:
				c.Do("DELETE", "")
			default:
				for k := range uris {
					c.Post(host.Method("1", "resources/unsubscribe", `{"uri":"`+uri(k)+`"}`))
				}
			}
		}
		synctest.Wait()
		if n := h.Actors("subscription"); n != 0 {
			t.Errorf("%d subscription actors are left", n)
		}
	})
}

// BenchmarkUpdate sends one change to a thousand sessions, each with an open stream,
// and waits until the last one has it. It includes their clients.
func BenchmarkUpdate(b *testing.B) {
	const n = 1000
	rt, err := troupe.New(troupe.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	srv := troupe.NewServer(mcp.Implementation{Name: "bench", Version: "1"}, &troupe.ServerOptions{SubResources: true})
	rt.Mount("/mcp", srv)
	hs := httptest.NewServer(rt)
	b.Cleanup(func() {
		_ = rt.Close(context.Background())
		hs.Close()
	})
	var heard sync.WaitGroup
	for range n {
		c := &kit.Client{T: b, HTTP: hs.Client(), URL: hs.URL + "/mcp"}
		c.Initialize(`{}`).Post(host.SubscribeOne)
		a := c.Get("")
		a.Next()
		a.Next() // updates that it may have missed
		go func() {
			for _, ok := a.Next(); ok; _, ok = a.Next() {
				heard.Done()
			}
		}()
	}
	for i := 0; b.Loop(); i++ {
		heard.Add(n)
		srv.ResourceUpdated(fmt.Sprint("test://one/", i))
		heard.Wait()
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/n, "µs/session")
}

// TestSubscriptionLimits checks the limits on the number of a session's subscriptions and on their URIs.
func TestSubscriptionLimits(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var log host.Lines
		h := host.New(t, troupe.Options{Log: slog.New(slog.NewJSONHandler(&log, nil)), Limits: troupe.Limits{SubscriptionsPerSession: 100}}, nil)
		subscribe := func(uri string) string { return host.Method("1", "resources/subscribe", `{"uri":"`+uri+`"}`) }
		refusal := host.Fault("1", host.Invalid, "the session subscribes to as many resources as it may", "")
		for name, row := range map[string]struct {
			size, fit int
		}{"many": {10, 100}, "long": {8000, 32}} {
			stored, linked := h.Client().Initialize(`{}`), h.SSE()
			linked.Handshake("2024-11-05", `{}`)
			uri := func(i int) string { return fmt.Sprintf("x:%0*d", row.size-2, i) }
			for i := range row.fit {
				host.Equal(t, name, stored.Post(subscribe(uri(i))).Body, `{"jsonrpc":"2.0","id":1,"result":{}}`)
				host.Equal(t, name, linked.Ask(subscribe(uri(i))), `{"jsonrpc":"2.0","id":1,"result":{}}`)
			}
			host.Equal(t, name, stored.Post(subscribe(uri(row.fit))).Body, refusal)
			host.Equal(t, name, linked.Ask(subscribe(uri(row.fit))), refusal)
			host.Equal(t, "one that it has", stored.Post(subscribe(uri(1))).Body, `{"jsonrpc":"2.0","id":1,"result":{}}`)
			// The record has room for the other data of the session.
			a := stored.Get("")
			if !a.Stream() {
				t.Fatalf("%s: %s %s", name, a.Status, a.Body)
			}
			a.Close()
			host.Equal(t, name, stored.Post(host.Method("1", "resources/unsubscribe", `{"uri":"`+uri(1)+`"}`)).Body, `{"jsonrpc":"2.0","id":1,"result":{}}`)
			host.Equal(t, name, stored.Post(subscribe(uri(row.fit))).Body, `{"jsonrpc":"2.0","id":1,"result":{}}`)
		}
		for _, of := range []*limits.Row{limits.SubscriptionsPerSession.Row, limits.SubscribedURIs.Row} {
			host.Contains(t, "the log", log.String(), fmt.Sprintf(`"limit":%q`, of.Name))
		}
	})
}

package server_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/toolschema"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// tenantServer returns a server of five tools, of which one program may have hundreds. Its
// responses name the server.
func tenantServer(i int) *troupe.Server {
	srv := troupe.NewServer(mcp.Implementation{Name: fmt.Sprintf("tenant %d", i), Version: "1"},
		&troupe.ServerOptions{ID: fmt.Sprintf("s%d", i), Limits: troupe.Limits{PageSize: 3}})
	for k := range 3 {
		troupe.AddTool(srv, troupe.Tool{Name: fmt.Sprintf("echo%d", k), Description: "Returns the text it is given.", Rerun: troupe.Safe},
			func(_ context.Context, _ *troupe.Call, in host.EchoIn) (string, error) {
				return fmt.Sprintf("%d says %s", i, in.Text), nil
			})
	}
	troupe.AddTool(srv, troupe.Tool{Name: "count", Description: "Counts."},
		func(ctx context.Context, call *troupe.Call, in host.CountIn) (string, error) {
			return "counted", call.Progress(ctx, float64(in.To), 0, "")
		})
	troupe.AddTool(srv, troupe.Tool{Name: "weather", Description: "Says how warm it is."},
		func(_ context.Context, _ *troupe.Call, in host.EchoIn) (weather, error) {
			return weather{City: in.Text}, nil
		})
	return srv
}

// tenants mounts n servers in a runtime.
func tenants(rt *troupe.Runtime, n int) []*troupe.Server {
	servers := make([]*troupe.Server, n)
	for i := range servers {
		servers[i] = tenantServer(i)
		rt.Mount(fmt.Sprintf("/s%d", i), servers[i])
	}
	return servers
}

// BenchmarkMount starts a runtime of a thousand servers of five tools each, and reports
// what each of them holds while idle.
func BenchmarkMount(b *testing.B) {
	const n = 1000
	for b.Loop() {
		rt, err := troupe.New(troupe.Options{})
		if err != nil {
			b.Fatal(err)
		}
		before := host.InUse()
		servers := tenants(rt, n)
		b.ReportMetric(float64(host.InUse()-before)/n, "B/server")
		runtime.KeepAlive(servers)
		if err := rt.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// TestThousandServers mounts a thousand servers in one runtime. Each answers for itself,
// and a session or stream of one server does not exist for another.
func TestThousandServers(t *testing.T) {
	when.Unraced(t, "one goroutine does all of it")
	when.Long(t, "a crowd")
	n, probe := 1000, 25
	if when.RaceEnabled {
		n = 200
	}
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Shared: troupe.SharedLimits{PrincipalRate: -1}}, nil)
		before := host.InUse()
		servers := tenants(h.Runtime, n)
		// A third more than the budget, for the remains of other tests.
		if each := (host.InUse() - before) / int64(n); each > 40<<10 && !when.RaceEnabled {
			t.Errorf("a server holds %d bytes while nobody calls, want 30 KiB at most", each)
		}
		runtime.KeepAlive(servers)
		at := func(i int) *kit.Client {
			c := h.Client()
			if i%probe != 0 {
				c = h.Unchecked() // its responses are like the others'
			}
			c.URL = fmt.Sprintf("http://127.0.0.1/s%d", i)
			return c
		}
		clients := make([]*kit.Client, n)
		for i := range clients {
			clients[i] = at(i).Initialize(`{}`)
			host.Equal(t, "own answer", clients[i].Post(host.Call("1", "echo2", `{"text":"x"}`)).Body, host.TextResult("1", fmt.Sprintf("%d says x", i)))
		}
		if live, stored := h.Actors("session"), h.Stored("sessions"); live != int64(n) || stored != int64(n) {
			t.Errorf("%d sessions in memory and %d in the store, want %d of each", live, stored, n)
		}
		owner := clients[n/2]
		events := owner.Post(host.CallWith("1", "count", `{"to":2}`, "1")).All()
		page := host.Cursor(t, owner.Post(host.Method("1", "tools/list", "")))
		unknown := strings.Repeat("a", 26)
		for i, c := range clients {
			if c == owner {
				continue
			}
			own := c.Session
			c.Session = unknown
			want := c.Post(host.Method("1", "ping", ""))
			c.Session = owner.Session
			got := c.Post(host.Method("1", "ping", ""))
			if got.StatusCode != 404 || got.Status != want.Status || got.Body != want.Body {
				t.Fatalf("server %d, another's session: %s %s; a random one: %s %s", i, got.Status, got.Body, want.Status, want.Body)
			}
			c.Session = own
			wantEvent, gotEvent := c.Get(unknown+".1.0"), c.Get(events[1].ID)
			if gotEvent.StatusCode != 400 || gotEvent.Status != wantEvent.Status || gotEvent.Body != wantEvent.Body {
				t.Fatalf("server %d, another's event: %s %s; a random one: %s %s", i, gotEvent.Status, gotEvent.Body, wantEvent.Status, wantEvent.Body)
			}
			wantPage := c.Post(host.Method("1", "tools/list", `{"cursor":"`+strings.Repeat("A", len(page))+`"}`))
			if gotPage := c.Post(host.Method("1", "tools/list", `{"cursor":"`+page+`"}`)); gotPage.Body != host.Fault("1", host.BadParam, "invalid cursor", "") || gotPage.Body != wantPage.Body {
				t.Fatalf("server %d, another's cursor: %s; a random one: %s", i, gotPage.Body, wantPage.Body)
			}
		}
		// The owner's ids are good all the time.
		if rest := owner.Get(events[1].ID).All(); len(rest) != len(events)-2 {
			t.Errorf("the owner resumes: %v", rest)
		}
		host.Contains(t, "the owner's page", owner.Post(host.Method("1", "tools/list", `{"cursor":"`+page+`"}`)).Body, `"weather"`)
	})
}

// TestSchemasAreShared checks that tools with one schema share its compiled form, and have
// none until their first call.
func TestSchemasAreShared(t *testing.T) {
	rt, err := troupe.New(troupe.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close(t.Context())
	type sharedIn struct {
		Text string `json:"text_that_no_other_test_has"`
	}
	collected := func() int {
		for range 3 { // a cleanup runs after the collection that queues it
			runtime.GC()
		}
		return toolschema.InUse()
	}
	before := collected()
	srv := tenantServer(0)
	for i := range 100 {
		troupe.AddTool(srv, troupe.Tool{Name: fmt.Sprint("own", i)},
			func(_ context.Context, _ *troupe.Call, in sharedIn) (string, error) { return in.Text, nil })
	}
	if n := toolschema.InUse() - before; n > 4 {
		t.Errorf("%d compiled schemas for 105 tools of 4 schemas", n)
	}
	for i := 0; collected() > before; i++ {
		if i == 100 {
			t.Fatalf("%d schemas are still compiled though nobody has called a tool", toolschema.InUse()-before)
		}
	}
	runtime.KeepAlive(srv)
}

// TestServersWithoutIDs mounts servers whose ids come from their paths: the next server at
// a path has its sessions, and a server at another path has not.
func TestServersWithoutIDs(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		mount := func(path string) *kit.Client {
			t.Helper()
			srv := troupe.NewServer(mcp.Implementation{Name: "s", Version: "1"}, nil)
			host.AddTestTools(srv)
			if err := h.Runtime.TryMount(path, srv); err != nil {
				t.Fatal(err)
			}
			c := h.Client()
			c.URL = "http://127.0.0.1" + path
			return c
		}
		for n := range 50 {
			mount(fmt.Sprintf("/t/%d/mcp", n)).Initialize(`{}`)
		}
		mount("/other/mcp").Initialize(`{}`)
		c := mount("/weather/mcp").Initialize(`{}`)
		if !h.Runtime.Unmount("/weather/mcp") {
			t.Fatal("it was not mounted")
		}
		mount("/weather/mcp")
		if a := c.Post(host.Call("1", "echo", `{"text":"x"}`)); a.StatusCode != 200 {
			t.Errorf("the session under the next server at its path: %s", a.Status)
		}
		c.URL = "http://127.0.0.1/other/mcp"
		if a := c.Post(host.Call("1", "echo", `{"text":"x"}`)); a.StatusCode != 404 {
			t.Errorf("the session at another path: %s", a.Status)
		}
		taken := troupe.NewServer(mcp.Implementation{Name: "s", Version: "1"}, &troupe.ServerOptions{ID: "main"})
		if err := h.Runtime.TryMount("/taken", taken); err == nil ||
			err.Error() != `troupe: mount /taken: there is a server with id "main" already, at /mcp: set ServerOptions.ID of one of them` {
			t.Errorf("an id that is taken: %v", err)
		}
	})
}

// TestOptionsAreCopied changes the slices of options after New has read them.
func TestOptionsAreCopied(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		hosts := []string{"good.test"} // a loopback name is always allowed
		h := host.New(t, troupe.Options{HTTP: troupe.HTTPOptions{AllowHosts: hosts}}, nil)
		hosts[0] = "evil.test"
		late := troupe.NewServer(mcp.Implementation{Name: "late", Version: "1"}, &troupe.ServerOptions{ID: "late"})
		h.Runtime.Mount("/late", late)
		c := h.Client()
		c.URL = "http://good.test/late"
		if a := c.Post(host.Call("1", "echo", `{}`)); a.StatusCode == 403 {
			t.Errorf("the host that was allowed: %s", a.Body)
		}
	})
}

// TestServerLimits mounts a server with limits of its own beside one with the runtime's
// limits.
func TestServerLimits(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		small := troupe.NewServer(mcp.Implementation{Name: "small", Version: "1"}, &troupe.ServerOptions{ID: "small", Limits: troupe.Limits{
			MaxBody: 1000, Grace: 50 * time.Millisecond, MaxCall: 2 * time.Second, MaxAsk: time.Second,
			CallsPerSession: 2, PendingPerSession: 1, StreamsPerSession: 1, MaxDepth: 20, MaxURI: 100,
		}})
		host.AddTestTools(small)
		h.Runtime.Mount("/small", small)
		all := `{"elicitation":{}}`
		roomy, tight := h.Client().Initialize(all), h.Client()
		tight.URL = "http://127.0.0.1/small"
		tight.Initialize(all)

		big := host.Call("1", "echo", `{"text":"`+strings.Repeat("x", 1000)+`"}`)
		if a, b := tight.Post(big), roomy.Post(big); a.StatusCode != 413 || b.StatusCode != 200 {
			t.Errorf("MaxBody: %s, and %s at the other server", a.Status, b.Status)
		}
		deep := host.Call("1", "echo", `{"text":`+strings.Repeat("[", 20)+strings.Repeat("]", 20)+`}`)
		if a, b := tight.Post(deep), roomy.Post(deep); a.StatusCode != 400 || b.StatusCode != 200 {
			t.Errorf("MaxDepth: %s, and %s at the other server", a.Status, b.Status)
		}
		long := `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"test://` + strings.Repeat("x", 100) + `"}}`
		host.Contains(t, "MaxURI", tight.Post(long).Body, "uri is longer than 100 bytes")
		if a := roomy.Post(long); strings.Contains(a.Body, "longer") {
			t.Errorf("MaxURI at the other server: %s", a.Body)
		}
		nap := host.Call("1", "sleep", `{"ms":100}`)
		if a, b := tight.Post(nap), roomy.Post(nap); !a.Stream() || b.Stream() {
			t.Errorf("Grace: stream %v, and %v at the other server", a.Stream(), b.Stream())
		} else {
			a.All()
		}
		begin := time.Now()
		host.Contains(t, "MaxCall", host.Last(t, tight.Post(host.Call("1", "sleep", `{"ms":3000}`))), "the call ran for too long")
		if took := time.Since(begin); took < 2*time.Second || took > 2100*time.Millisecond {
			t.Errorf("MaxCall: after %v", took)
		}
		naps := []*kit.Answer{tight.Post(host.Call("1", "sleep", `{"ms":1000}`)), tight.Post(host.Call("2", "sleep", `{"ms":1000}`))}
		if a := tight.Post(host.Call("3", "echo", `{"text":"x"}`)); !host.TurnedAway(a) {
			t.Errorf("CallsPerSession: %s", a.Status)
		}
		for _, a := range naps {
			a.All()
		}
		begin = time.Now()
		first := tight.Post(host.Call("1", "ask", `{"question":"?"}`))
		host.NextQuestion(t, first)
		host.Contains(t, "PendingPerSession", host.Last(t, tight.Post(host.Call("2", "ask", `{"question":"?"}`))), "too many calls wait for the client")
		host.Contains(t, "MaxAsk", host.Last(t, first), "did not answer in time")
		if took := time.Since(begin); took < time.Second || took > 1100*time.Millisecond {
			t.Errorf("MaxAsk: after %v", took)
		}
		one, two := roomy.Get(""), tight.Get("")
		defer one.Close()
		defer two.Close()
		if a := tight.Get(""); a.StatusCode != 429 {
			t.Errorf("StreamsPerSession: %s", a.Status)
		}
	})
}

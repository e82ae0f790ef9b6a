package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// guest mounts a second server with the test tools, and returns a client of it.
func guest(h *host.Host, id string) (*troupe.Server, *kit.Client) {
	srv := troupe.NewServer(mcp.Implementation{Name: id, Version: "1"}, &troupe.ServerOptions{ID: id})
	host.AddTestTools(srv)
	h.Runtime.Mount("/"+id, srv)
	c := h.Client()
	c.URL = "http://127.0.0.1/" + id
	return srv, c.Initialize(`{"elicitation":{},"roots":{}}`)
}

func TestUnmount(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		srv, c := guest(h, "guest")
		ended := make(chan error, 2)
		waits := func(ctx context.Context, call *troupe.Call, in host.SleepIn) (string, error) {
			err := host.Sleep(ctx, in.MS)
			ended <- err
			return "waited", err
		}
		troupe.AddTool(srv, troupe.Tool{Name: "wait"}, waits)
		kept := make(chan *troupe.Peer, 1)
		troupe.AddTool(srv, troupe.Tool{Name: "keep"}, func(_ context.Context, call *troupe.Call, _ struct{}) (string, error) {
			kept <- call.Peer()
			return "kept", nil
		})
		others := h.Session()
		beside := host.Listen(others.Post(host.Call("1", "sleep", `{"ms":600000}`)))
		streaming := c.Post(host.Call("10", "wait", `{"ms":600000}`))
		safe := c.Post(host.CallWith("2", "count", `{"to":3,"delay_ms":60000}`, "2"))
		prime, _ := safe.Next()
		asking := c.Post(host.Call("3", "ask", `{"question":"?"}`))
		host.NextQuestion(t, asking)
		standalone := host.Listen(c.Get(""))
		synctest.Wait() // a subscription from before the node knows the stream would cause an update
		host.Equal(t, "subscribe", c.Post(host.SubscribeOne).Body, `{"jsonrpc":"2.0","id":1,"result":{}}`)
		plain := make(chan *kit.Answer, 1)
		go func() { plain <- c.Post(host.Call("4", "wait", `{"ms":600000}`)) }()
		c.Post(host.Call("5", "keep", `{}`))
		peer := <-kept
		pinged := make(chan error, 1)
		go func() { pinged <- peer.Ping(t.Context()) }()
		synctest.Wait()

		if h.Runtime.Unmount("/nothing") || !h.Runtime.Unmount("/guest") || h.Runtime.Unmount("/guest") {
			t.Error("Unmount reports what it took away: once, and nothing else")
		}
		for range 2 {
			if err := <-ended; !errors.Is(err, troupe.ErrUnmounted) {
				t.Errorf("the handler's context ended with %v, want ErrUnmounted", err)
			}
		}
		if a := <-plain; !host.TurnedAway(a) {
			t.Errorf("a call of which nothing had been sent: %s, Retry-After %q", a.Status, a.Header.Get("Retry-After"))
		}
		host.Contains(t, "a call that must not run again", host.Last(t, streaming), `"code":-32010`)
		for name, a := range map[string]*kit.Answer{"a call that may run again": safe, "one that asks": asking} {
			for _, p := range host.Payloads(a.All()) {
				if strings.Contains(p, `"result"`) || strings.Contains(p, `"error"`) {
					t.Errorf("%s was answered: %s", name, p)
				}
			}
		}
		got, over := standalone.Now()
		if !over || len(got) != 2 { // the tools that were added, and the ping
			t.Errorf("the standalone stream got %v, ended: %v", got, over)
		}
		if err := <-pinged; !errors.Is(err, troupe.ErrUnmounted) {
			t.Errorf("a question on the session's stream ended with %v", err)
		}
		if err := peer.Log(t.Context(), mcp.LevelError, "", "x"); !errors.Is(err, troupe.ErrUnmounted) {
			t.Errorf("a kept peer's log: %v, want ErrUnmounted", err)
		}
		for _, m := range []string{"POST", "GET", "DELETE"} {
			if a := c.Do(m, host.Call("1", "echo", `{"text":"x"}`)); a.StatusCode != 404 {
				t.Errorf("%s afterwards: %s", m, a.Status)
			}
		}
		srv.ResourceUpdated("test://one") // has no listeners
		srv.RemoveTools("wait")
		time.Sleep(time.Second)
		for kind, want := range map[string]int64{"session": 1, "stream": 1, "request": 1, "subscription": 0} {
			if n := h.Actors(kind); n != want {
				t.Errorf("%d actors of kind %s are left, want %d: those of the other server", n, kind, want)
			}
		}

		// The next server of that id has its sessions, as after a restart.
		h.Runtime.Mount("/guest", srv)
		host.Equal(t, "the session goes on", c.Post(host.Call("1", "echo", `{"text":"x"}`)).Body, host.TextResult("1", "x"))
		again := host.Payloads(c.Get(prime.ID).All())
		want := []string{}
		for i := range 3 {
			want = append(want, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":%d,"total":3}}`, i+1))
		}
		if diff := cmp.Diff(append(want, host.TextResult("2", "counted to 3")), again); diff != "" {
			t.Errorf("the call that may run again (-want +got):\n%s", diff)
		}
		h.Runtime.Unmount("/guest")

		// A server of the same name may also take its path.
		srv2 := troupe.NewServer(mcp.Implementation{Name: "new", Version: "2"}, &troupe.ServerOptions{ID: "guest"})
		h.Runtime.Mount("/guest", srv2)
		host.Contains(t, "the next server", c.Post(host.Call("1", "echo", `{"text":"x"}`)).Body, "Unknown tool")
		time.Sleep(10 * time.Minute)
		got, _ = beside.Now()
		if diff := cmp.Diff([]string{host.TextResult("1", "slept")}, got); diff != "" {
			t.Errorf("the other server's call (-want +got):\n%s", diff)
		}
	})
}

// TestUnmountUnderLoad unmounts a server while requests are on their way: they are
// answered, and leave nothing.
func TestUnmountUnderLoad(t *testing.T) {
	when.Long(t, "a crowd")
	rounds, clients := 40, 8
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		srv, first := guest(h, "guest")
		sessions := make([]*kit.Client, clients)
		for i := range sessions {
			c := *first
			sessions[i] = c.Initialize(`{}`)
		}
		stop := make(chan struct{})
		done := make(chan string, clients)
		for i, c := range sessions {
			go func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						done <- ""
						return
					default:
					}
					var a *kit.Answer
					var err error
					switch (n + i) % 4 {
					case 0:
						a, err = c.Try("POST", host.Call("1", "echo", `{"text":"x"}`))
					case 1:
						a, err = c.Try("POST", host.CallWith("2", "count", `{"to":3,"delay_ms":1}`, "2"))
					case 2:
						a, err = c.Try("POST", host.Initialize("0", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}`), "Mcp-Session-Id", "")
					case 3:
						a, err = c.Try("GET", "")
					}
					switch {
					case err != nil:
						done <- err.Error()
						return
					case a.Stream() && (n+i)%4 == 3:
						a.Close()
					case a.Stream():
						a.All()
					case a.StatusCode != 200 && a.StatusCode != 404 && a.StatusCode != 503:
						done <- a.Status + " " + a.Body
						return
					}
					time.Sleep(time.Millisecond)
				}
			}()
		}
		for range rounds {
			time.Sleep(3 * time.Millisecond)
			if !h.Runtime.Unmount("/guest") {
				t.Error("not mounted")
			}
			h.Runtime.Mount("/guest", srv)
		}
		h.Runtime.Unmount("/guest")
		time.Sleep(10 * time.Millisecond)
		close(stop)
		for range clients {
			if fault := <-done; fault != "" {
				t.Error(fault)
			}
		}
		time.Sleep(time.Minute)
		for _, kind := range []string{"session", "stream", "request", "subscription"} {
			if n := h.Actors(kind); n != 0 {
				t.Errorf("%d actors of kind %s are left", n, kind)
			}
		}
	})
}

// TestUnmountedServersAreForgotten mounts and unmounts a server under ever new ids,
// which leaves nothing in the runtime.
func TestUnmountedServersAreForgotten(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	rt, err := troupe.New(troupe.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close(t.Context())
	round := func(n int) {
		for i := range n {
			rt.Mount("/s", tenantServer(i))
			rt.Unmount("/s")
		}
	}
	round(host.Sized(300, 100))
	before := host.Heap()
	round(host.Sized(3000, 500))
	if after := host.Heap(); after > before+1<<20 {
		t.Errorf("the heap grew from %d to %d KiB over as many servers", before>>10, after>>10)
	}
}

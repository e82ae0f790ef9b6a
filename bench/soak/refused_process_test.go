//go:build full

package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/troupe-run/troupe/bench/client"
	"github.com/troupe-run/troupe/bench/program"
)

// stand is a node that only says what a test wants.
type stand struct {
	*httptest.Server
	got  atomic.Int32 // requests
	does atomic.Value // func(http.ResponseWriter, *http.Request)
}

func newStand(t *testing.T) *stand {
	s := new(stand)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			return
		}
		s.got.Add(1)
		s.does.Load().(func(http.ResponseWriter, *http.Request))(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// What stands do. Each says so after it has read the whole body.
func answers(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%d bytes", len(body))
}

func refuses(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Retry-After", "7")
	w.WriteHeader(http.StatusServiceUnavailable)
	fmt.Fprint(w, "refused")
}

func breaks(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	panic(http.ErrAbortHandler)
}

// startProxy starts a proxy of deploy/proxy in front of three nodes. It returns where its MCP
// endpoint is.
func startProxy(t *testing.T, name string, nodes ...string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	_ = ln.Close()
	d, err := startDeployed(t.Context(), name, t.TempDir(), address, nodes...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.End() })
	return "http://" + address + "/mcp"
}

// TestProxiesSendWhatWasRefused has nodes refuse requests behind each proxy, or be away: another
// node gets what was not sent, or was answered with 503, with its whole body, and nobody gets twice
// what a node may have begun. Caddy gives a 503 to its client, which comes back.
func TestProxiesSendWhatWasRefused(t *testing.T) {
	for _, name := range installedProxies(t) {
		t.Run(name, func(t *testing.T) {
			a, b := newStand(t), newStand(t)
			nodes := []string{a.Listener.Addr().String(), b.Listener.Addr().String(), b.Listener.Addr().String()}
			url := startProxy(t, name, nodes...)
			post := func(body string) (int, string, string) {
				t.Helper()
				a.got.Store(0)
				b.got.Store(0)
				r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
				r.Header.Set("MCP-Protocol-Version", "2026-07-28")
				resp, err := http.DefaultClient.Do(r)
				if err != nil {
					return 0, err.Error(), "" // HAProxy closes a connection on which it was the first to know of an end
				}
				defer resp.Body.Close()
				said, _ := io.ReadAll(resp.Body)
				return resp.StatusCode, string(said), resp.Header.Get("Retry-After")
			}
			size := 300_000
			if name == "haproxy" { // has what fits its buffer
				size = 10_000
			}
			for refusing, other := range map[*stand]*stand{a: b, b: a} {
				refusing.does.Store(refuses)
				other.does.Store(answers)
				for range 6 {
					status, said, after := post(strings.Repeat("x", size))
					passedOn := name == "caddy" && status == 503 && said == "refused" && after == "7"
					if !passedOn && (status != 200 || said != fmt.Sprint(size, " bytes")) {
						t.Errorf("one node refuses: %d %s", status, said)
					}
				}
			}
			a.does.Store(refuses)
			b.does.Store(refuses)
			if status, said, after := post("x"); status != 503 || after == "" {
				t.Errorf("all nodes refuse: %d %s, Retry-After %q", status, said, after)
			}
			a.does.Store(breaks)
			b.does.Store(breaks)
			reached := int32(0)
			url = startProxy(t, name, nodes...) // as nginx leaves a node alone for a while that has failed
			for range 12 {
				if status, _, _ := post("x"); status == 200 || a.got.Load()+b.got.Load() > 1 {
					t.Fatalf("a node breaks off what it may have begun: %d, and nodes got it %d times", status, a.got.Load()+b.got.Load())
				}
			}
			for refusing, other := range map[*stand]*stand{a: b, b: a} {
				refusing.does.Store(refuses)
				other.does.Store(breaks)
				url = startProxy(t, name, nodes...)
				for range 12 {
					if status, _, _ := post("x"); status == 200 || other.got.Load() > 1 {
						t.Fatalf("one refuses, and the next one breaks off: %d, and it got it %d times", status, other.got.Load())
					}
					if refusing.got.Load() > 0 {
						reached += other.got.Load()
					}
				}
			}
			if reached == 0 && name != "caddy" {
				t.Error("no node was reached that breaks off")
			}
			b.does.Store(answers)
			url = startProxy(t, name, nodes...)
			a.Close() // which nobody knows yet
			for range 12 {
				if status, said, _ := post(strings.Repeat("x", size)); status != 200 || said != fmt.Sprint(size, " bytes") {
					t.Fatalf("one node is away: %d %s", status, said)
				}
			}
			b.Close()
			if status, said, after := post("x"); status != 503 || after == "" || !strings.Contains(said, `"retryAfterMs":1000`) {
				t.Errorf("no node is there: %d %s, Retry-After %q", status, said, after)
			}
		})
	}
}

// TestCallsInADeployGoElsewhere restarts the three nodes of a fleet in turn behind each proxy, as a
// deploy does, while a call of 2026-07-28 holds up the end of the node: no other client of that
// revision notices, though the node answers with 503, and the proxy may not know yet that it is not
// ready.
func TestCallsInADeployGoElsewhere(t *testing.T) {
	for _, name := range installedProxies(t) {
		t.Run(name, func(t *testing.T) {
			delay := "0s"
			if name == "caddy" { // gives a 503 to its client, and must know of the drain before
				delay = "3s"
			}
			var nodes []*program.Process
			var addresses []string
			for i := range 3 {
				p, err := newProcess(troupe, filepath.Join(t.TempDir(), "data"), uint64(4000+31*i+len(name)), "--trusted-proxy", "127.0.0.0/8", "--drain-delay", delay, "--drain-wait", "2m")
				if err == nil {
					err = p.Start()
				}
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = p.Kill() })
				nodes, addresses = append(nodes, p), append(addresses, p.Addr)
			}
			for _, p := range nodes {
				if !(&world{ctx: t.Context()}).until(p.IsReady) {
					t.Fatal("a node is not ready: " + p.Log.LastLines(20))
				}
			}
			through := client.NewStateless(startProxy(t, name, addresses...), client.NewTransport(), `{}`)
			echo := func(c *client.Stateless) (int, string) {
				a, err := c.SendRequest(t.Context(), "1", "tools/call", `"name":"echo","arguments":{"text":"here"}`)
				if err != nil {
					t.Fatal(err)
				}
				defer a.Close()
				return a.Status, string(a.Body)
			}
			for _, p := range nodes {
				direct := client.NewStateless("http://"+p.Addr+"/mcp", client.NewTransport(), `{}`)
				long, err := direct.SendRequest(t.Context(), "1", "tools/call", `"name":"count","arguments":{"to":100000,"delay_ms":20}`)
				if err != nil {
					t.Fatal(err)
				}
				defer long.Close()
				if long.Events == nil {
					t.Fatalf("the long call: %d %s", long.Status, long.Body)
				}
				for range 20 { // so that it is one for which the end of a node waits
					if _, err := long.Events.Next(); err != nil {
						t.Fatal(err)
					}
				}
				if err := p.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
				for status := 0; status != 503 && t.Context().Err() == nil; {
					status, _ = echo(direct)
				}
				for range 30 {
					if status, said := echo(through); status != 200 || !strings.Contains(said, `"text":"here"`) {
						t.Fatalf("a call while a node drains: %d %s", status, said)
					}
				}
				long.Close() // and the node may end
				if err := <-p.Exited; err != nil {
					t.Fatalf("the node ended with %v: %s", err, p.Log.LastLines(20))
				}
				for range 30 {
					if status, said := echo(through); status != 200 {
						t.Fatalf("a call while a node is away: %d %s", status, said)
					}
				}
				if err := p.Start(); err != nil {
					t.Fatal(err)
				}
				if !(&world{ctx: t.Context()}).until(p.IsReady) {
					t.Fatal("a node is not ready: " + p.Log.LastLines(20))
				}
			}
		})
	}
}

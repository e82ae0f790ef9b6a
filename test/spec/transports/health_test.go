package transports_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// healthAddress is a slog.Handler that passes on where health is served.
type healthAddress struct {
	slog.Handler
	at chan string
}

func (h healthAddress) Enabled(context.Context, slog.Level) bool { return true }

func (h healthAddress) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "serving health" {
		r.Attrs(func(a slog.Attr) bool { h.at <- a.Value.String(); return true })
	}
	return nil
}

// ask sends a request as it stands and returns the status and the body of the response.
func ask(t *testing.T, conn net.Conn, err error, request string) (int, string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() { _, _ = io.WriteString(conn, request) }()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	return resp.StatusCode, string(body)
}

// TestNamesOnEveryPath asks each path of Serve under names that a web page may have made up.
func TestNamesOnEveryPath(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		m := host.NewMeter()
		rt, err := troupe.New(troupe.Options{
			HTTP:      troupe.HTTPOptions{AllowHosts: []string{"mcp.example.com"}, AllowOrigins: []string{"https://app.example.com"}},
			Telemetry: troupe.Telemetry{MeterProvider: m, Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("up 1\n")) })},
		})
		if err != nil {
			t.Fatal(err)
		}
		ln := kit.NewListener()
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- rt.ServeOn(ctx, ln) }()
		refused := int64(0)
		for path, want := range map[string]string{"/healthz": "ok\n", "/readyz": "ready\n", "/metrics": "up 1\n", "/": "There is no MCP server here at the moment.\n", "/nowhere": ""} {
			status := 200
			if want == "" {
				status, want = 404, "404 page not found: GET / names the MCP endpoints\n"
			}
			public := status
			if path == "/metrics" { // it is for this machine
				public = 404
			}
			for _, row := range []struct {
				head   string
				status int
			}{
				{"GET PATH HTTP/1.1\r\nHost: 127.0.0.1\r\n", status},
				{"GET PATH HTTP/1.1\r\nHost: localhost:8080\r\n", status},
				{"GET PATH HTTP/1.1\r\nHost: mcp.example.com\r\n", public},
				{"GET PATH HTTP/1.1\r\nHost: mcp.example.com\r\nOrigin: https://app.example.com\r\n", public},
				{"GET PATH HTTP/1.1\r\nHost: evil.example.com\r\n", 403},
				{"GET PATH HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: https://evil.example.com\r\n", 403},
				{"GET PATH HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: null\r\n", 403},
				{"GET PATH HTTP/1.1\r\nHost: \r\n", 403},
				{"POST PATH HTTP/1.1\r\nHost: evil.example.com\r\nContent-Length: 0\r\n", 403},
			} {
				conn, err := ln.Dial(t.Context(), "", "")
				got, body := ask(t, conn, err, strings.Replace(row.head, "PATH", path, 1)+"\r\n")
				if row.status == 403 {
					refused++
				}
				if got != row.status || got == status && body != want || got == 403 && !strings.Contains(body, " not allowed: --allow-") {
					t.Errorf("%q of %s: %d %q, want %d", row.head, path, got, body, row.status)
				}
			}
		}
		for head, want := range map[string]int{ // a balancer's probe, and a page that would pass for one
			"GET /readyz HTTP/1.0\r\n":                             200,
			"GET /readyz HTTP/1.0\r\nOrigin: http://evil.test\r\n": 403,
			"GET / HTTP/1.0\r\n":                                   403,
		} {
			conn, err := ln.Dial(t.Context(), "", "")
			if got, _ := ask(t, conn, err, head+"\r\n"); got != want {
				t.Errorf("%q: %d, want %d", head, got, want)
			}
		}
		if n := m.Count("troupe.http.refused", "host") + m.Count("troupe.http.refused", "origin"); n != refused+2 {
			t.Errorf("%d refusals are counted, want %d", n, refused+2)
		}
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// TestHealthListen serves the probes on a listener of their own, to the end of a drain.
func TestHealthListen(t *testing.T) {
	t.Parallel()
	log := healthAddress{slog.DiscardHandler, make(chan string, 1)}
	rt, err := troupe.New(troupe.Options{Listen: "127.0.0.1:0", DrainDelay: time.Hour, Log: slog.New(log), HTTP: troupe.HTTPOptions{HealthListen: "127.0.0.1:0"},
		Telemetry: troupe.Telemetry{Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("up 1\n")) })}})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := rt.Listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- rt.ServeOn(ctx, ln) }()
	address := <-log.at
	get := func(at, name, path string) (int, string) {
		t.Helper()
		conn, err := net.Dial("tcp", at)
		return ask(t, conn, err, "GET "+path+" HTTP/1.1\r\nHost: "+name+"\r\n\r\n")
	}
	check := func(at, name, path string, status int, want string) {
		t.Helper()
		if got, body := get(at, name, path); got != status || want != "" && body != want {
			t.Errorf("%s as %s: %d %q, want %d %q", path, name, got, body, status, want)
		}
	}
	main := ln.Addr().String()
	for path, want := range map[string]string{"/healthz": "ok\n", "/readyz": "ready\n", "/metrics": "up 1\n"} {
		check(address, address, path, 200, want)
		check(address, "evil.example.com", path, 403, "")
		check(main, main, path, 404, "")
	}
	check(main, main, "/", 200, "")
	check(address, address, "/", 404, "")
	check(address, "evil.example.com", "/nowhere", 403, "")
	second, err := troupe.New(troupe.Options{Listen: "127.0.0.1:0", HTTP: troupe.HTTPOptions{HealthListen: address}})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Serve(t.Context()); err == nil || !strings.Contains(err.Error(), "troupe: health: listen tcp "+address) {
		t.Errorf("an address that is taken: %v", err)
	}
	stop()
	for status := 200; status != 503; { // a probe on that listener makes the delay last
		status, _ = get(address, address, "/readyz")
	}
	check(address, address, "/healthz", 200, "ok\n")
	if err := rt.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if conn, err := net.Dial("tcp", address); err == nil {
		_ = conn.Close()
		t.Error("health is served after the end")
	}
}

// TestMetricsAreReadByOne reads the metrics several times at once: one read waits for the other, and not for ever.
func TestMetricsAreReadByOne(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		m := host.NewMeter()
		reads, most := 0, 0 // no read runs beside another
		rt, err := troupe.New(troupe.Options{DrainDelay: -1, Telemetry: troupe.Telemetry{MeterProvider: m, Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			reads++
			most = max(most, reads)
			time.Sleep(4 * time.Second)
			reads--
			_, _ = w.Write([]byte("up 1\n"))
		})}})
		if err != nil {
			t.Fatal(err)
		}
		ln := kit.NewListener()
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- rt.ServeOn(ctx, ln) }()
		deaf, err := ln.Dial(t.Context(), "", "") // it does not read its response
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(deaf, "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Second)
		synctest.Wait()
		begin, answers := time.Now(), make(chan string, 5)
		for range cap(answers) {
			conn, err := ln.Dial(t.Context(), "", "")
			go func() {
				status, body := ask(t, conn, err, "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
				answers <- fmt.Sprintf("%v: %d %s", time.Since(begin), status, body)
			}()
		}
		var got []string
		for range cap(answers) {
			got = append(got, <-answers)
		}
		want := []string{"4.05s: 200 up 1\n", "8.1s: 200 up 1\n", "10s: 503 others read the metrics\n", "10s: 503 others read the metrics\n", "12.15s: 200 up 1\n"} // with a pause after each
		if !slices.Equal(got, want) || most != 1 {
			t.Errorf("got %q, %d at a time; want %q, one at a time", got, most, want)
		}
		if n := m.Count("troupe.http.refused", "metrics"); n != 2 {
			t.Errorf("%d are counted, want 2", n)
		}
		time.Sleep(20 * time.Second)
		if b, err := io.ReadAll(deaf); len(b) != 0 || err != nil {
			t.Errorf("a client that did not read for 32 s gets %q, %v", b, err)
		}
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// TestMetricsOfThisMachine asks for the metrics from this machine and from others, in the ways in which they may come.
func TestMetricsOfThisMachine(t *testing.T) {
	for name, row := range map[string]struct {
		local, peer string // addresses of the connection; "" is a UNIX socket
		head        string
		public      bool
		want        int
	}{
		"over loopback":                  {"127.0.0.1", "127.0.0.1", "", false, 200},
		"over a socket":                  {"", "", "", false, 200},
		"from another machine":           {"192.0.2.1", "192.0.2.2", "", false, 404},
		"from this machine, by its name": {"192.0.2.1", "192.0.2.1", "", false, 404},
		"through a proxy here":           {"127.0.0.1", "127.0.0.1", "X-Forwarded-For: 192.0.2.2\r\n", false, 404},
		"through a proxy that lies":      {"127.0.0.1", "127.0.0.1", "Forwarded: for=127.0.0.1\r\n", false, 404},
		"for everybody":                  {"192.0.2.1", "192.0.2.2", "", true, 200},
		"by a name":                      {"127.0.0.1", "127.0.0.1", "Host: localhost:8080\r\n", false, 200},
		"over IPv6":                      {"::1", "::1", "Host: [::1]:8080\r\n", false, 200},
		"by a public name":               {"127.0.0.1", "127.0.0.1", "Host: mcp.example.com\r\n", false, 404},
		"by a public name, on a socket":  {"", "", "Host: mcp.example.com\r\n", false, 404},
		"by no name":                     {"127.0.0.1", "127.0.0.1", "Host: \r\n", false, 403},
		"through nginx":                  {"127.0.0.1", "127.0.0.1", "X-Real-IP: 192.0.2.2\r\n", false, 404},
		"through a CDN":                  {"127.0.0.1", "127.0.0.1", "CF-Connecting-IP: 192.0.2.2\r\n", false, 404},
		"through a tunnel":               {"127.0.0.1", "127.0.0.1", "True-Client-IP: 192.0.2.2\r\n", false, 404},
		"through a gateway":              {"127.0.0.1", "127.0.0.1", "Via: 1.1 gateway\r\n", false, 404},
		"through a proxy of TLS":         {"127.0.0.1", "127.0.0.1", "X-Forwarded-Proto: https\r\n", false, 404},
		"through a proxy on a socket":    {"", "", "x-forwarded-host: mcp.example.com\r\n", false, 404},
		"with headers of its own":        {"127.0.0.1", "127.0.0.1", "User-Agent: x\r\nX-Prometheus-Scrape-Timeout-Seconds: 10\r\nAuthorization: x\r\n", false, 200},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				var hosts []string
				if row.local != "" { // a socket is for any host
					hosts = []string{"mcp.example.com"}
				}
				rt, err := troupe.New(troupe.Options{DrainDelay: -1, AllowAnonymous: true, HTTP: troupe.HTTPOptions{PublicMetrics: row.public, AllowHosts: hosts},
					Telemetry: troupe.Telemetry{Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("up 1\n")) })}})
				if err != nil {
					t.Fatal(err)
				}
				ln := kit.NewListener()
				ctx, stop := context.WithCancel(t.Context())
				served := make(chan error, 1)
				go func() { served <- rt.ServeOn(ctx, between{ln, row.local, row.peer}) }()
				conn, err := ln.Dial(t.Context(), "", "")
				head := row.head
				if !strings.HasPrefix(head, "Host: ") {
					head = "Host: 127.0.0.1\r\n" + head
				}
				if got, body := ask(t, conn, err, "GET /metrics HTTP/1.1\r\n"+head+"\r\n"); got != row.want {
					t.Errorf("%d %q, want %d", got, body, row.want)
				}
				stop()
				if err := <-served; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// between is a listener whose connections have these addresses.
type between struct {
	net.Listener
	local, peer string
}

func (b between) Accept() (net.Conn, error) {
	conn, err := b.Listener.Accept()
	return addressed{conn, b}, err
}

type addressed struct {
	net.Conn
	between
}

func (a addressed) Close() error         { return a.Conn.Close() }
func (a addressed) LocalAddr() net.Addr  { return addr(a.local) }
func (a addressed) RemoteAddr() net.Addr { return addr(a.peer) }

func addr(ip string) net.Addr {
	if ip == "" {
		return &net.UnixAddr{Net: "unix"}
	}
	return &net.TCPAddr{IP: net.ParseIP(ip), Port: 80}
}

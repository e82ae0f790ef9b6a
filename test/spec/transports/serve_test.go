package transports_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/certificate"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestListenBeyondLoopback checks that this needs authentication, or an option that
// says that none is wanted.
func TestListenBeyondLoopback(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		address string
		exposed bool
	}{
		{"127.0.0.1:0", false},
		{"127.9.9.9:0", false},
		{"localhost:0", false},
		{"[::1]:0", false},
		{":0", true},
		{"0.0.0.0:0", true},
		{"[::]:0", true},
		{"192.0.2.1:0", true},
		{"127.0.0.1.example.com:0", true},
		{"localhost.example.com:0", true},
		{"::1", true},
		{"nonsense", true},
	} {
		for name, o := range map[string]troupe.Options{
			"neither":        {},
			"AllowAnonymous": {AllowAnonymous: true},
			"Authenticate":   {Authenticate: host.User},
		} {
			o.Listen = tt.address
			rt, err := troupe.New(o)
			if err != nil {
				t.Fatal(err)
			}
			ln, err := rt.Listen()
			if got, want := errors.Is(err, troupe.ErrExposed), tt.exposed && name == "neither"; got != want {
				t.Errorf("%q with %s: %v, want ErrExposed: %v", tt.address, name, err, want)
			}
			if err == nil {
				_ = ln.Close()
			}
			if name == "neither" && tt.exposed {
				if err := rt.Serve(t.Context()); !errors.Is(err, troupe.ErrExposed) {
					t.Errorf("Serve on %q: %v, want ErrExposed", tt.address, err)
				}
			}
			if err := rt.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestTLS serves plain responses and event streams over https, with HTTP/2 for clients
// that speak it.
func TestTLS(t *testing.T) {
	t.Parallel()
	certFile, keyFile, pool := certificate.Files(t)
	h := host.NewLoopback(t, troupe.Options{HTTP: troupe.HTTPOptions{TLSCert: certFile, TLSKey: keyFile}}, nil, nil)
	h.URL = "https" + strings.TrimPrefix(h.URL, "http")
	for version, want := range map[string]int{"HTTP/1.1": 1, "HTTP/2": 2} {
		t.Run(version, func(t *testing.T) {
			h.T = t
			tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: want == 2}
			t.Cleanup(tr.CloseIdleConnections)
			h.HTTP = &http.Client{Transport: tr}
			c := h.Session()
			plain := c.Post(host.Call("1", "echo", `{"text":"x"}`))
			if host.Equal(t, "plain", plain.Body, host.TextResult("1", "x")); plain.ProtoMajor != want || plain.TLS == nil {
				t.Errorf("it came over %s, TLS %v", plain.Proto, plain.TLS != nil)
			}
			alone := c.Get("")
			if !alone.Stream() {
				t.Fatalf("GET: %s %s", alone.Status, alone.Body)
			}
			defer alone.Close()
			if first, _ := alone.Next(); first.ID == "" {
				t.Errorf("the standalone stream begins with %+v", first)
			}
			// The call waits for the answer to a question on its stream, so that the
			// stream cannot have been held back until its end.
			a := c.Post(host.Call("2", "ask", `{"question":"?"}`))
			q := host.NextQuestion(t, a)
			c.Post(host.Call("3", "tick", `{"to":1}`))
			if tick, _ := alone.Next(); !strings.Contains(tick.Data, `"tick"`) {
				t.Errorf("standalone: %+v", tick)
			}
			host.Reply(c, q.ID, "result", `{"action":"cancel"}`)
			host.Equal(t, "streamed", host.Last(t, a), host.TextResult("2", "cancel "))
			all := c.Post(host.CallWith("4", "count", `{"to":3}`, `"t"`)).All()
			rest := c.Get(all[1].ID).All()
			if len(rest) != len(all)-2 || rest[len(rest)-1] != all[len(all)-1] {
				t.Errorf("resumed: %+v of %+v", rest, all)
			}
		})
	}
	resp, err := http.Get("http" + strings.TrimPrefix(h.URL, "https"))
	if err != nil {
		t.Fatal(err)
	}
	if _ = resp.Body.Close(); resp.StatusCode != 400 {
		t.Errorf("without TLS: %s, want 400", resp.Status)
	}
}

// TestWindowsOfHTTP2: a connection of HTTP/2 may have 64 requests at a time, and bring 128 KiB of bodies that nobody has read: what the server's
// first frames say (RFC 9113, sections 6.5.2 and 6.9) binds every client.
func TestWindowsOfHTTP2(t *testing.T) {
	t.Parallel()
	certFile, keyFile, pool := certificate.Files(t)
	h := host.NewLoopback(t, troupe.Options{HTTP: troupe.HTTPOptions{TLSCert: certFile, TLSKey: keyFile}}, nil, nil)
	conn, err := tls.Dial("tcp", strings.TrimPrefix(h.URL[:strings.LastIndexByte(h.URL, '/')], "http://"), &tls.Config{RootCAs: pool, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const settings, ping, windowUpdate = 4, 6, 8
	// The answer to the ping comes after all that the server says by itself.
	hello := append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 0, 0, 0, settings, 0, 0, 0, 0, 0)
	if _, err := conn.Write(append(hello, 0, 0, 8, ping, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8)); err != nil {
		t.Fatal(err)
	}
	streams, window, all := uint32(0), uint32(0), uint32(65535) // what the protocol begins with
	for kind := byte(0); kind != ping; {
		head := make([]byte, 9)
		if _, err := io.ReadFull(conn, head); err != nil {
			t.Fatal(err)
		}
		body := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(conn, body); err != nil {
			t.Fatal(err)
		}
		switch kind = head[3]; kind {
		case settings:
			for ; len(body) >= 6; body = body[6:] {
				switch value := binary.BigEndian.Uint32(body[2:]); binary.BigEndian.Uint16(body) {
				case 3:
					streams = value
				case 4:
					window = value
				}
			}
		case windowUpdate:
			all += binary.BigEndian.Uint32(body)
		}
	}
	if streams != 64 || window != 128<<10 || all != 128<<10 {
		t.Errorf("%d streams, %d bytes for one and %d for all, want 64 and 131072 for each", streams, window, all)
	}
}

// TestBadCertificate checks that New refuses a certificate that Serve could not use.
func TestBadCertificate(t *testing.T) {
	t.Parallel()
	certFile, keyFile, _ := certificate.Files(t)
	absent := filepath.Join(t.TempDir(), "absent.pem")
	for _, tt := range []struct{ cert, key, want string }{
		{certFile, absent, "absent.pem"}, {absent, keyFile, "absent.pem"}, {certFile, certFile, "cannot be used"},
		{certFile, "", "belong together"}, {"", keyFile, "belong together"},
	} {
		rt, err := troupe.New(troupe.Options{HTTP: troupe.HTTPOptions{TLSCert: tt.cert, TLSKey: tt.key}})
		if err == nil {
			_ = rt.Close(t.Context())
		}
		if err == nil || !strings.Contains(err.Error(), "Options.HTTP.TLSCert") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q and %q: got %v, want an error with %s", tt.cert, tt.key, err, tt.want)
		}
	}
}

// TestHeaderLimit sends headers up to the limit, and beyond the bytes that net/http
// reads in addition.
func TestHeaderLimit(t *testing.T) {
	t.Parallel()
	when.Long(t, "connections linger for half a second")
	for _, tt := range []struct {
		limit, size, status int
	}{{0, 30 << 10, 200}, {0, 40 << 10, 431}, {2000, 1000, 200}, {2000, 8000, 431}} {
		h := host.NewLoopback(t, troupe.Options{HTTP: troupe.HTTPOptions{MaxHeader: tt.limit}}, nil, nil)
		a := h.Client().Post(host.InitializeRequest, "X-Large", strings.Repeat("x", tt.size))
		if a.StatusCode != tt.status {
			t.Errorf("limit %d, header of %d bytes: %s, want %d", tt.limit, tt.size, a.Status, tt.status)
		}
		if n := h.Gauge("troupe.http.refused", "header-too-large"); (n == 1) != (tt.status == 431) {
			t.Errorf("limit %d, header of %d bytes: %d are counted", tt.limit, tt.size, n)
		}
	}
}

// TestWhatAClientMayHoldUp sets the limits of a connection: a slow body, and a stream
// that the client does not read.
func TestWhatAClientMayHoldUp(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		m := host.NewMeter()
		h := host.New(t, troupe.Options{Telemetry: troupe.Telemetry{MeterProvider: m}, Limits: troupe.Limits{BodyTimeout: 5 * time.Second}}, nil)
		conn := raw(h, t, host.RawPost(h.Session(), "Content-Length: 1000"))
		begin := time.Now()
		resp, body, _ := host.ReadRaw(t, conn)
		host.Equal(t, "a body that does not come", body, host.Fault("", host.Invalid, "Request body took too long", ""))
		if took := time.Since(begin); resp.StatusCode != 408 || took < 5*time.Second || took > 11*time.Second {
			t.Errorf("after %v: %s, want 408 after 5 s", took, resp.Status)
		}
		if n := m.Count("troupe.http.refused", "body-timeout"); n != 1 {
			t.Errorf("%d slow bodies are counted, want 1", n)
		}
	})
	for _, tt := range []struct {
		o      troupe.Options
		reason string
	}{
		{troupe.Options{Limits: troupe.Limits{WriteTimeout: 2 * time.Second}}, "write-timeout"},
		{troupe.Options{Limits: troupe.Limits{MaxQueued: 10_000, WriteTimeout: time.Hour}}, "queue-full"},
	} {
		kit.Bubble(t, func(t *testing.T) {
			m := host.NewMeter()
			tt.o.Telemetry.MeterProvider = m
			h := host.New(t, tt.o, nil)
			c, other := h.Unchecked().Initialize(`{}`), h.Session()
			body := host.Call("1", "chatter", `{"to":1000}`)
			raw(h, t, host.RawPost(c, "Content-Length: "+strconv.Itoa(len(body)))+body) // the client does not read
			time.Sleep(time.Second)
			host.Equal(t, "another session meanwhile", other.Post(host.Call("1", "echo", `{"text":"x"}`)).Body, host.TextResult("1", "x"))
			time.Sleep(5 * time.Second)
			if n := m.Count("troupe.stream.cut", tt.reason); n != 1 {
				t.Errorf("%s: %d connections are cut, want 1", tt.reason, n)
			}
			host.Equal(t, "the session itself", c.Post(host.Call("2", "echo", `{"text":"x"}`)).Body, host.TextResult("2", "x"))
		})
	}
}

// TestTrickledBodies has bodies come slowly: one below the least rate is ended at 10 s, and one above it, or that comes at
// once after a pause, is not.
func TestTrickledBodies(t *testing.T) {
	for name, row := range map[string]struct {
		rate   float64
		size   int
		every  time.Duration
		status int
		after  time.Duration
	}{
		"it trickles":               {0, 100, time.Second, 408, 10 * time.Second},
		"it is slow":                {0, 1300, time.Second, 200, 25 * time.Second},
		"it comes late":             {0, 20_000, 9 * time.Second, 200, 25 * time.Second},
		"it trickles within limits": {50, 100, time.Second, 200, 25 * time.Second},
		"there is no limit":         {-1, 1, time.Second, 408, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				m := host.NewMeter()
				h := host.New(t, troupe.Options{Telemetry: troupe.Telemetry{MeterProvider: m}, Limits: troupe.Limits{BodyRate: row.rate}}, nil)
				parts := int(25 * time.Second / row.every)
				if row.rate < 0 {
					parts = 100
				}
				body := host.Call("1", "echo", `{"text":"x"}`)
				body += strings.Repeat(" ", parts*row.size-len(body)*min(1, parts*row.size/len(body)))
				conn := raw(h, t, host.RawPost(h.Session(), "Content-Length: "+strconv.Itoa(len(body))))
				begin := time.Now()
				go func() {
					for rest := body; rest != ""; {
						time.Sleep(row.every)
						n := min(row.size, len(rest))
						if _, err := io.WriteString(conn, rest[:n]); err != nil {
							return
						}
						rest = rest[n:]
					}
				}()
				resp, text, _ := host.ReadRaw(t, conn)
				if took := time.Since(begin); resp.StatusCode != row.status || took < row.after-8*time.Second || took > row.after+8*time.Second {
					t.Errorf("after %v: %s %s, want %d after %v", took, resp.Status, text, row.status, row.after)
				}
				want := int64(0)
				if row.status == 408 && row.rate == 0 {
					want = 1
				}
				if n := m.Count("troupe.http.refused", "body-rate"); n != want {
					t.Errorf("%d bodies are counted, want %d", n, want)
				}
			})
		})
	}
}

// raw sends bytes on a connection of their own, which stays open.
func raw(h *host.Host, t *testing.T, request string) net.Conn {
	t.Helper()
	conn, err := h.Listener.Dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() { _, _ = bytes.NewBufferString(request).WriteTo(conn) }()
	return conn
}

// TestIndex opens the address of a server in a browser.
func TestIndex(t *testing.T) {
	named := func(id string) *troupe.Server {
		return troupe.NewServer(mcp.Implementation{Name: id, Version: "1"}, &troupe.ServerOptions{ID: id})
	}
	for name, tt := range map[string]struct {
		options troupe.Options
		mount   []string
		status  int
		want    string
	}{
		"nothing is mounted": {troupe.Options{}, nil, 200, "There is no MCP server here at the moment.\n"},
		"two servers": {troupe.Options{}, []string{"/mcp", "/b/mcp"}, 200,
			"MCP is at\n\n/b/mcp   (/b/sse for clients of HTTP+SSE)\n/mcp   (/sse for clients of HTTP+SSE)\n"},
		"without HTTP+SSE":      {troupe.Options{HTTP: troupe.HTTPOptions{NoSSE: true}}, []string{"/mcp"}, 200, "MCP is at\n\n/mcp\n"},
		"callers say who":       {troupe.Options{Authenticate: host.User}, []string{"/mcp"}, 404, "404 page not found\n"},
		"a server has the path": {troupe.Options{}, []string{"/"}, 406, ""},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				rt, err := troupe.New(tt.options)
				if err != nil {
					t.Fatal(err)
				}
				for i, path := range tt.mount {
					rt.Mount(path, named("s"+strconv.Itoa(i)))
				}
				ln := kit.NewListener()
				ctx, stop := context.WithCancel(t.Context())
				served := make(chan error, 1)
				go func() { served <- rt.ServeOn(ctx, ln) }()
				client := &http.Client{Transport: &http.Transport{DialContext: ln.Dial, DisableKeepAlives: true}}
				resp, err := client.Get("http://127.0.0.1/")
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
				if resp.StatusCode != tt.status || tt.want != "" && string(body) != tt.want {
					t.Errorf("GET /: %s, %q; want %d, %q", resp.Status, body, tt.status, tt.want)
				}
				stop()
				if err := <-served; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

package transports_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/certificate"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// wire is a way in which requests reach Serve.
type wire struct {
	name          string
	plain         bool // the Front may serve it
	secure, http2 bool
	middleware    bool // a program's own handler sees the requests first, and answers some
}

var wires = []wire{
	{name: "front", plain: true},
	{name: "net/http"},
	{name: "TLS", secure: true},
	{name: "HTTP/2", secure: true, http2: true},
	{name: "front, middleware", plain: true, middleware: true},
	{name: "net/http, middleware", middleware: true},
	{name: "HTTP/2, middleware", secure: true, http2: true, middleware: true},
}

// large is more than any server keeps back of a response.
var large = bytes.Repeat([]byte("x"), 64<<10)

// begin serves a runtime over w until the test ends.
func (w wire) begin(t *testing.T, o troupe.Options) (dial func() net.Conn, m *host.Meter) {
	m = host.NewMeter()
	o.DrainDelay, o.HTTP.NetHTTP = -1, !w.plain
	o.Telemetry = troupe.Telemetry{MeterProvider: m, Metrics: http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("up 1\n")) })}
	if w.middleware {
		o.Middleware = func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/small":
					_, _ = rw.Write([]byte("small\n"))
				case "/large":
					_, _ = rw.Write(large)
				default:
					next.ServeHTTP(rw, r)
				}
			})
		}
	}
	if w.secure {
		o.HTTP.TLSCert, o.HTTP.TLSKey, _ = certificate.Files(t)
	}
	rt, err := troupe.New(o)
	if err != nil {
		t.Fatal(err)
	}
	rt.Mount("/mcp", troupe.NewServer(mcp.Implementation{Name: "deadlines", Version: "1"}, nil))
	ln := kit.NewListener()
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- rt.ServeOn(ctx, ln) }()
	var mu sync.Mutex
	var conns []net.Conn
	t.Cleanup(func() {
		for _, c := range conns {
			_ = c.Close()
		}
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return func() net.Conn {
		conn, err := ln.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		conns = append(conns, conn)
		mu.Unlock()
		if w.secure {
			name := "http/1.1"
			if w.http2 {
				name = "h2"
			}
			secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{name}})
			if err := secure.Handshake(); err != nil {
				t.Fatal(err)
			}
			conn = secure
		}
		return conn
	}, m
}

// request is one for a path of Serve.
type request struct {
	method, path string
	head         []string // pairs
	body         string
}

func (r request) String() string { return r.method + " " + r.path }

// text is the request over HTTP/1.1. more is added to its head.
func (r request) text(more string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", r.method, r.path)
	name := "127.0.0.1"
	for i := 0; i < len(r.head); i += 2 {
		if r.head[i] == "host" {
			name = r.head[i+1]
			continue
		}
		fmt.Fprintf(&b, "%s: %s\r\n", r.head[i], r.head[i+1])
	}
	fmt.Fprintf(&b, "Host: %s\r\n%s", name, more)
	if r.body != "" {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(r.body))
	}
	return b.String() + "\r\n" + r.body
}

var (
	typed    = []string{"content-type", "application/json", "accept", "application/json, text/event-stream"}
	cancels  = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}`
	requests = []request{
		{method: "GET", path: "/healthz"}, {method: "GET", path: "/readyz"}, {method: "HEAD", path: "/readyz"}, {method: "GET", path: "/metrics"}, {method: "GET", path: "/"}, {method: "GET", path: "/nowhere"},
		{method: "GET", path: "/healthz", head: []string{"host", "evil.example.com"}}, {method: "OPTIONS", path: "/mcp"}, {method: "PUT", path: "/mcp"},
		{method: "GET", path: "/mcp", head: typed}, {method: "GET", path: "/mcp", head: append(typed[:4:4], "mcp-session-id", "unknown", "last-event-id", "unknown")},
		{method: "DELETE", path: "/mcp", head: append(typed[:4:4], "mcp-session-id", "unknown")}, {method: "PUT", path: "/sse"}, {method: "GET", path: "/small"}, {method: "GET", path: "/large"},
		{method: "POST", path: "/nowhere", body: "{}"}, {method: "POST", path: "/healthz", body: "{}"}, {method: "POST", path: "/mcp", head: typed, body: "{}"},
		{method: "POST", path: "/mcp", head: typed, body: host.Method("1", "ping", "")}, {method: "POST", path: "/messages?sessionId=unknown", head: typed, body: cancels}, {method: "POST", path: "/small", body: "{}"},
		{method: "POST", path: "/mcp", head: append(typed[:4:4], "mcp-protocol-version", "2026-07-28"), body: cancels}, // 202 without a body
	}
)

// frames is a client of HTTP/2 that gives the server as little as it must.
type frames struct {
	net.Conn
	mu   sync.Mutex // guards writes
	next uint32
	over chan stream2
}

// stream2 is the end of a stream of HTTP/2, or of its connection.
type stream2 struct {
	id     uint32
	status byte // the first byte of the header: 0x88 is 200
	reset  bool
	err    error
}

// newFrames begins a connection whose streams have a window of that many bytes.
func newFrames(c net.Conn, window uint32) *frames {
	f := &frames{Conn: c, next: 1, over: make(chan stream2, 256)}
	f.mu.Lock() // read answers the server's settings, which may come first, and nothing may go before the preface
	go f.read()
	_, _ = io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	f.put(4, 0, 0, binary.BigEndian.AppendUint32([]byte{0, 4}, window))
	f.mu.Unlock()
	return f
}

func (f *frames) write(kind, flags byte, id uint32, payload []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.put(kind, flags, id, payload)
}

// put writes a frame. mu is held.
func (f *frames) put(kind, flags byte, id uint32, payload []byte) {
	n := len(payload)
	b := binary.BigEndian.AppendUint32([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}, id)
	_, _ = f.Conn.Write(append(b, payload...))
}

// send sends a request; whole says whether its body comes.
func (f *frames) send(r request, whole bool) (id uint32) {
	id, f.next = f.next, f.next+2
	name, fields := "127.0.0.1", r.head
	var b []byte
	add := func(key, value string) {
		b = append(append(append(append(b, 0, byte(len(key))), key...), byte(len(value))), value...) // a literal, not indexed
	}
	for i := 0; i < len(fields); i += 2 {
		if fields[i] == "host" {
			name = fields[i+1]
		}
	}
	add(":method", r.method)
	add(":scheme", "https")
	add(":path", r.path)
	add(":authority", name)
	for i := 0; i < len(fields); i += 2 {
		if fields[i] != "host" {
			add(fields[i], fields[i+1])
		}
	}
	flags := byte(4) // END_HEADERS
	if whole && r.body == "" {
		flags |= 1 // END_STREAM
	}
	f.write(1, flags, id, b)
	if whole && r.body != "" {
		f.write(0, 1, id, []byte(r.body))
	}
	return id
}

// read notes which streams end.
func (f *frames) read() {
	status := map[uint32]byte{}
	for in := bufio.NewReader(f.Conn); ; {
		var head [9]byte
		_, err := io.ReadFull(in, head[:])
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if err == nil {
			_, err = io.ReadFull(in, payload)
		}
		if err != nil {
			f.over <- stream2{err: err}
			return
		}
		id, ends := binary.BigEndian.Uint32(head[5:]), head[4]&1 != 0
		switch head[3] {
		case 1:
			status[id] = payload[0]
			fallthrough
		case 0:
			if ends {
				f.over <- stream2{id: id, status: status[id]}
			}
		case 3:
			f.over <- stream2{id: id, status: status[id], reset: true}
		case 4:
			if !ends {
				f.write(4, 1, 0, nil)
			}
		}
	}
}

// withinDeadline is how long a client may keep a connection, or a stream of HTTP/2, in any way of being slow.
const withinDeadline = 31 * time.Second

// TestBodiesThatDoNotCome has no path wait for a body for ever, whoever serves it.
func TestBodiesThatDoNotCome(t *testing.T) {
	for _, w := range wires {
		if w.http2 {
			continue // a stream that is answered is reset: TestStreamsThatStay
		}
		t.Run(w.name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				dial, _ := w.begin(t, troupe.Options{})
				var all sync.WaitGroup
				for _, r := range requests {
					r.body = ""
					for _, length := range []string{"Content-Length: 10\r\n", "Transfer-Encoding: chunked\r\n"} {
						all.Go(func() {
							conn, began := dial(), time.Now()
							_ = conn.SetReadDeadline(began.Add(time.Hour))
							go func() { _, _ = io.WriteString(conn, r.text(length)) }()
							got, err := io.ReadAll(conn)
							if took := time.Since(began); took > withinDeadline || err != nil || !bytes.HasPrefix(got, []byte("HTTP/1.1 ")) {
								t.Errorf("%s, %q: the connection ends after %v with %v; it brought %.60q", r, length, took, err, got)
							}
						})
					}
				}
				all.Wait()
			})
		})
	}
}

// TestResponsesThatNobodyReads has no path write for ever to a client that does not read, whoever serves it.
func TestResponsesThatNobodyReads(t *testing.T) {
	for _, w := range wires {
		if w.http2 {
			continue
		}
		t.Run(w.name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				dial, _ := w.begin(t, troupe.Options{})
				conns := map[string]net.Conn{}
				for _, r := range requests {
					conn := dial()
					conns[r.String()+" "+r.body] = conn
					go func() { _, _ = io.WriteString(conn, r.text("")) }()
				}
				time.Sleep(withinDeadline)
				synctest.Wait()
				for name, conn := range conns {
					_ = conn.SetReadDeadline(time.Now().Add(time.Second))
					if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil || isTimeout(err) {
						t.Errorf("%s: the server still writes after %v, or has: %d bytes, %v", name, withinDeadline, n, err)
					}
				}
			})
		})
	}
}

func isTimeout(err error) bool {
	e, ok := err.(net.Error)
	return ok && e.Timeout()
}

// TestStreamsThatStay has no stream of HTTP/2 last for ever whose client gives no window, or sends no body.
func TestStreamsThatStay(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	for _, w := range wires {
		if !w.http2 {
			continue
		}
		for name, whole := range map[string]bool{"no window": true, "no body": false} {
			t.Run(w.name+", "+name, func(t *testing.T) {
				kit.Bubble(t, func(t *testing.T) {
					dial, _ := w.begin(t, troupe.Options{})
					for _, r := range requests {
						window := uint32(0)
						if !whole { // it reads the response
							window = 64 << 10
						}
						f := newFrames(dial(), window)
						id, began := f.send(r, whole), time.Now()
						after := time.NewTimer(time.Hour)
						select {
						case end := <-f.over:
							if took := time.Since(began); took > withinDeadline || end.err == nil && end.id != id {
								t.Errorf("%s: %+v after %v", r, end, took)
							}
						case <-after.C:
							t.Errorf("%s: the stream stays", r)
						}
						after.Stop()
						_ = f.Close()
					}
				})
			})
		}
	}
}

// TestEveryRequestIsCounted has one address make a server hold requests that never end, on each path: it is refused when it has its share
// of the memory, before the memory is gone, and nothing stays counted. Only a resume and a probe over HTTP/1.1 are not refused: each has a
// connection.
func TestEveryRequestIsCounted(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	const memory, budget, clients = 8 << 20, 2 << 20, 120 // 85 requests of 24 KiB fit the budget
	for _, w := range wires {
		if w.secure && !w.http2 {
			continue // as net/http without TLS
		}
		t.Run(w.name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				dial, m := w.begin(t, troupe.Options{Shared: troupe.SharedLimits{MaxMemory: memory}, HTTP: troupe.HTTPOptions{Connections: 1000, ConnectionsPerAddress: -1}})
				before := int64(0)
				for _, r := range requests {
					switch {
					case w.http2 && (r.method == "HEAD" || r.method == "OPTIONS" || len(r.head) > 4 && r.head[4] == "mcp-protocol-version"): // its response needs no window
						continue
					case !w.http2 && r.path == "/small": // it has been served but for its body, and has a connection
						continue
					}
					if w.http2 {
						for range clients / 60 {
							f := newFrames(dial(), 0)
							for range 60 {
								f.send(r, true)
							}
						}
					} else {
						r.body = ""
						for range clients {
							conn := dial()
							go func() { _, _ = io.WriteString(conn, r.text("Content-Length: 10\r\n")) }()
						}
					}
					synctest.Wait()
					held, refused := m.Count("troupe.memory.held", "bodies"), m.Count("troupe.http.refused", "memory-share")+m.Count("troupe.http.refused", "memory")
					resumes := len(r.head) > 6 && r.head[6] == "last-event-id"
					probes := r.method != "POST" && (r.path == "/healthz" || r.path == "/readyz" || r.path == "/metrics")
					switch anyway := (resumes || probes) && !w.http2; {
					case anyway && (refused != before || held != clients*24<<10):
						t.Errorf("%s: %d of %d are refused, and %d bytes are held", r, refused-before, clients, held)
					case !anyway && (refused == before || held > budget):
						t.Errorf("%s: %d of %d are refused, and %d bytes are held of %d", r, refused-before, clients, held, budget)
					}
					before = refused
					time.Sleep(3 * time.Minute)
					synctest.Wait()
					if held := m.Count("troupe.memory.held", "bodies"); held != 0 {
						t.Errorf("%s: %d bytes are held at the end", r, held)
					}
				}
			})
		})
	}
}

// TestRefusedBodiesArePaidFor sends large bodies that are no messages, faster than a principal may send large ones: they are refused
// without being looked at, until time has paid for them. Small messages are served all the while.
func TestRefusedBodiesArePaidFor(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		dial, m := wires[0].begin(t, troupe.Options{Shared: troupe.SharedLimits{PrincipalRate: 10}})
		conn := dial()
		in := bufio.NewReader(conn)
		post := func(body string) (int, string) {
			go func() {
				_, _ = io.WriteString(conn, request{method: "POST", path: "/mcp", head: typed, body: body}.text(""))
			}()
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			return resp.StatusCode, resp.Header.Get("Retry-After")
		}
		junk := strings.Repeat("{},", 1<<20/3)
		for i, want := range []int{400, 429, 429, 429} { // the small one costs a token that is not there
			if got, after := post(junk); got != want || (after == "1") != (want == 429) {
				t.Errorf("body %d: %d, come back after %q s; want %d", i, got, after, want)
			}
			if got, _ := post("{}"); got != 400 {
				t.Errorf("a small one: %d, want 400", got)
			}
		}
		if n := m.Count("troupe.http.refused", "principal-rate"); n != 3 {
			t.Errorf("%d are counted, want 3", n)
		}
		time.Sleep(time.Second)
		if got, _ := post(junk); got != 400 {
			t.Errorf("after the time that was said: %d, want 400", got)
		}
	})
}

// TestSmallRefusedBodiesArePaidFor is TestRefusedBodiesArePaidFor with bodies that need not wait for their turn.
func TestSmallRefusedBodiesArePaidFor(t *testing.T) {
	values := strings.Repeat("{},", 20_000)
	for name, row := range map[string]struct {
		junk   string
		served int // before they are refused
	}{
		"a batch that is too long":   {"[" + values + "{}]", 7},                     // 30 tokens of 200
		"no JSON":                    {"[" + values, 7},                             // its values are not known
		"no message, without values": {`"` + strings.Repeat("x", 60_000) + `"`, 20}, // 10 tokens
		"a member that comes twice":  {`{"id":1,"id":2,"a":[` + values + "{}]}", 7},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				dial, _ := wires[0].begin(t, troupe.Options{Shared: troupe.SharedLimits{PrincipalRate: 10}})
				conn := dial()
				in := bufio.NewReader(conn)
				post := func(body string) int {
					go func() {
						_, _ = io.WriteString(conn, request{method: "POST", path: "/mcp", head: typed, body: body}.text(""))
					}()
					resp, err := http.ReadResponse(in, nil)
					if err != nil {
						t.Fatal(err)
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					return resp.StatusCode
				}
				n := 0
				for n < 1000 && post(row.junk) == 400 {
					n++
				}
				if n < row.served || n > row.served+1 {
					t.Errorf("%d are looked at, want %d", n, row.served)
				}
				if got := post(host.Method("1", "ping", "")); got != 200 {
					t.Errorf("a small message: %d, want 200", got)
				}
				time.Sleep(time.Second)
				if got := post(row.junk); got != 400 {
					t.Errorf("after the time that was said: %d, want 400", got)
				}
			})
		})
	}
}

// TestProbesOfABusyAddress has the clients of an address, which may be that of a balancer, hold its share of the memory: over HTTP/1.1 the
// balancer's probes are answered as ever. One that is refused would have it take the process out.
func TestProbesOfABusyAddress(t *testing.T) {
	for _, w := range wires {
		if w.http2 {
			continue // there a probe can have many requests beside it
		}
		t.Run(w.name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				dial, _ := w.begin(t, troupe.Options{Shared: troupe.SharedLimits{MaxMemory: 8 << 20}, HTTP: troupe.HTTPOptions{Connections: 1000, ConnectionsPerAddress: -1}})
				for range 100 {
					conn := dial()
					go func() {
						_, _ = io.WriteString(conn, request{method: "POST", path: "/mcp", head: typed}.text("Content-Length: 10\r\n"))
					}()
				}
				synctest.Wait()
				if status, body := ask(t, dial(), nil, request{method: "POST", path: "/mcp", head: typed, body: cancels}.text("")); status != 429 {
					t.Errorf("a request: %d %s, want 429", status, body)
				}
				for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
					if status, body := ask(t, dial(), nil, request{method: "GET", path: path}.text("")); status != 200 {
						t.Errorf("%s: %d %s", path, status, body)
					}
				}
			})
		})
	}
}

package transport

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/transport/server"
)

// from is a pipe's end whose peer has an address.
type from struct {
	net.Conn
	peer *net.TCPAddr
}

func (c from) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }
func (c from) RemoteAddr() net.Addr { return c.peer }

// crowded is a server whose connections are counted.
type crowded struct {
	t       *testing.T
	ln      *pipes
	d       *server.Listener
	release chan struct{} // a request waits for it

	mu      sync.Mutex // guards refused
	refused []string
}

func crowdOf(t *testing.T, w server.Crowd) *crowded { return crowdBehind(t, w, front) }

// crowdBehind is crowdOf with what front puts before the server.
func crowdBehind(t *testing.T, w server.Crowd, front func(net.Listener, *http.Server) net.Listener) *crowded {
	c := &crowded{t: t, ln: &pipes{make(chan net.Conn), make(chan struct{})}, release: make(chan struct{})}
	guard, own := NewGuard(Options{}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/wait":
			<-c.release
		case "/body":
			_, _ = io.Copy(io.Discard, r.Body)
		case "/large":
			_, _ = w.Write(fill(64 << 10))
		}
	})
	mcp := NewHandler(funcs{}, Options{})
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mcp" {
			mcp.ServeHTTP(w, r)
			return
		}
		guard.Serve(w, r, own, false)
	})}
	Configure(s)
	c.d = server.NewListener(c.ln, s)
	note := func(text string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.refused = append(c.refused, text)
	}
	w.Refused = func(limit *limits.Row, from netip.Addr) { note(limit.Counted + " " + from.String()) }
	w.Faulty = func(status int, reason string) { note(strconv.Itoa(status) + " " + reason) }
	c.d.Limit(w)
	served := make(chan struct{})
	go func() { defer close(served); _ = s.Serve(front(Reuse(c.d, s), s)) }()
	t.Cleanup(func() {
		close(c.release)
		_ = s.Close()
		<-served
		time.Sleep(time.Second) // net/http lingers after a response to half a body
	})
	return c
}

// dial connects from an address, sends the head of a request if there is one, and reports whether it was let in.
func (c *crowded) dial(address, request string) (*client, bool) {
	a, b := net.Pipe()
	c.ln.conns <- from{b, net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(address), 1234))}
	c.t.Cleanup(func() { a.Close() })
	if request != "" {
		go func() { _, _ = io.WriteString(a, request) }()
	}
	synctest.Wait()
	return &client{a, bufio.NewReader(a), c.t}, c.open(a)
}

// open reports whether the server has not closed a connection that gets no response.
func (c *crowded) open(a net.Conn) bool {
	_ = a.SetReadDeadline(time.Now().Add(time.Nanosecond))
	_, err := a.Read(make([]byte, 1))
	synctest.Wait()
	return err != io.EOF && err != io.ErrClosedPipe
}

func (c *crowded) seen() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.refused
	c.refused = nil
	return all
}

const waiting = "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n"

// TestCrowdOfAnAddress fills the places of one address.
func TestCrowdOfAnAddress(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		crowd   server.Crowd
		from    []string
		refused []string
	}{
		"one address":        {server.Crowd{PerAddress: 2}, []string{"192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.1"}, []string{"address-connections 192.0.2.1", "address-connections 192.0.2.1"}},
		"as IPv6":            {server.Crowd{PerAddress: 1}, []string{"192.0.2.1", "::ffff:192.0.2.1"}, []string{"address-connections 192.0.2.1"}},
		"several addresses":  {server.Crowd{PerAddress: 1}, []string{"192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2"}, nil},
		"one network":        {server.Crowd{PerAddress: 1, Network: func(a netip.Addr) netip.Addr { return netip.MustParseAddr("2001:db8::") }}, []string{"2001:db8::1", "2001:db8::2"}, []string{"address-connections 2001:db8::"}},
		"a proxy":            {server.Crowd{PerAddress: 1, Exempt: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, []string{"10.0.0.1", "10.0.0.1", "10.0.0.1", "192.0.2.1"}, nil},
		"no bound":           {server.Crowd{}, []string{"192.0.2.1", "192.0.2.1"}, nil},
		"all together":       {server.Crowd{All: 2}, []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"}, []string{"connections 192.0.2.3"}},
		"a proxy is counted": {server.Crowd{All: 2, Exempt: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, []string{"10.0.0.1", "10.0.0.1", "192.0.2.1"}, []string{"connections 192.0.2.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := crowdOf(t, row.crowd)
				var all []*client
				for i, address := range row.from {
					conn, in := c.dial(address, waiting)
					if want := i < len(row.from)-len(row.refused); in != want {
						t.Errorf("%d from %s: let in %t, want %t", i, address, in, want)
					}
					all = append(all, conn)
				}
				if diff := cmp.Diff(c.seen(), row.refused); diff != "" {
					t.Errorf("refused (-got +want):\n%s", diff)
				}
				if row.refused == nil {
					return
				}
				_ = all[0].Close()
				c.release <- struct{}{} // its handler does not notice
				synctest.Wait()
				last := row.from[len(row.from)-1]
				if _, in := c.dial(last, waiting); !in && row.from[0] != "10.0.0.1" {
					t.Errorf("with room again %s is refused: %q", last, c.seen())
				}
			})
		})
	}
}

// TestRoomInACrowd has connections that wait for a request make room for addresses that have fewer.
func TestRoomInACrowd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := crowdOf(t, server.Crowd{All: 4})
		busy, _ := c.dial("192.0.2.1", waiting)
		idle, _ := c.dial("192.0.2.1", "")
		begun, _ := c.dial("192.0.2.1", "GET / HTTP/1.1\r\nHo")
		other, _ := c.dial("192.0.2.2", "")
		if _, in := c.dial("192.0.2.1", waiting); in {
			t.Error("the address with the most connections gets one more")
		}
		if _, in := c.dial("192.0.2.3", waiting); !in || c.open(idle) {
			t.Errorf("another address is let in: %t; the idle connection of the one with the most is open: %t", in, c.open(idle))
		}
		for what, conn := range map[string]*client{"a request runs": busy, "another one was idle": begun, "the address has one alone": other} {
			if !c.open(conn) {
				t.Errorf("closed though %s", what)
			}
		}
		if _, in := c.dial("192.0.2.4", waiting); !in || c.open(begun) {
			t.Errorf("one more address is let in: %t; a connection with half a header is open: %t", in, c.open(begun))
		}
		if _, in := c.dial("192.0.2.5", waiting); in {
			t.Error("let in though no address has two connections more")
		}
		if diff := cmp.Diff(c.seen(), []string{"connections 192.0.2.1", "0 connections", "connections 192.0.2.5"}); diff != "" {
			t.Errorf("refused (-got +want):\n%s", diff)
		}
		if n := c.d.Census().Leaving; n != 0 {
			t.Errorf("%d connections are still to make room", n)
		}
	})
}

// TestRoomOnAKeptSocket has a silent connection make room where a drain would spare it.
func TestRoomOnAKeptSocket(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := crowdOf(t, server.Crowd{All: 2})
		c.d.SpareNew()
		first, _ := c.dial("192.0.2.1", "")
		second, _ := c.dial("192.0.2.1", "")
		if _, in := c.dial("192.0.2.2", waiting); !in || c.open(first) == c.open(second) {
			t.Errorf("another address is let in: %t, refused: %q; the silent connections are open: %t, %t", in, c.seen(), c.open(first), c.open(second))
		}
	})
}

// TestRoomAmongBusyConnections has an address hold connections in every way that lasts as long as it likes. Each makes room for another
// address, the oldest first. One whose request is being handled does not.
func TestRoomAmongBusyConnections(t *testing.T) {
	t.Parallel()
	const toMCP = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
	for name, held := range map[string]string{
		"half a header":              "GET / HTTP/1.1\r\nHo",
		"half of a second header":    "GET /mcp HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHo",
		"a body that nobody reads":   "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n",
		"a body that somebody reads": "POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n",
		"chunks that somebody reads": "POST /body HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
		"a body for a Handler":       toMCP + "Content-Length: 5\r\n\r\n",
		"chunks for a Handler":       toMCP + "Transfer-Encoding: chunked\r\n\r\n",
		"a response":                 "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"a large response":           "GET /large HTTP/1.1\r\nHost: x\r\n\r\n",
		"a response of a Handler":    toMCP + "Content-Length: " + strconv.Itoa(len(ping)) + "\r\n\r\n" + ping,
		"a refusal of a Handler":     "PUT /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := crowdOf(t, server.Crowd{All: 5})
				c.d.LimitWrites(time.Minute)
				hold := func(request string) net.Conn { // as dial, but for what comes: it is not read
					a, b := net.Pipe()
					c.ln.conns <- from{b, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1234}}
					t.Cleanup(func() { a.Close() })
					go func() { _, _ = io.WriteString(a, request) }()
					time.Sleep(2 * time.Second)
					synctest.Wait()
					return a
				}
				closed := func(a net.Conn) bool {
					_ = a.SetWriteDeadline(time.Now().Add(time.Nanosecond))
					_, err := a.Write([]byte("x"))
					return err != nil && !isTimeout(err)
				}
				runs := hold(waiting)
				first, second, third := hold(held), hold(held), hold(held)
				_, _ = c.dial("192.0.2.2", waiting)
				for i, row := range []struct {
					from   string
					in     bool
					closed int // of the three, those that came first
				}{{"192.0.2.1", false, 0}, {"192.0.2.3", true, 1}, {"192.0.2.4", true, 2}, {"192.0.2.5", true, 3}, {"192.0.2.6", false, 3}} {
					_, in := c.dial(row.from, waiting)
					if got, want := [3]bool{closed(first), closed(second), closed(third)}, [3]bool{row.closed > 0, row.closed > 1, row.closed > 2}; in != row.in || got != want {
						t.Errorf("%d: let in %t, closed are %v; want %t, %v", i, in, got, row.in, want)
					}
				}
				if closed(runs) {
					t.Error("the one whose request is handled is closed")
				}
				if diff := cmp.Diff(c.seen(), []string{"connections 192.0.2.1", "0 connections", "0 connections", "0 connections", "connections 192.0.2.6"}); diff != "" {
					t.Errorf("refused and closed (-got +want):\n%s", diff)
				}
			})
		})
	}
}

func isTimeout(err error) bool {
	e, ok := err.(net.Error)
	return ok && e.Timeout()
}

// TestHeadersAreCounted counts headers that come too late or are too large, and nothing else that ends by a deadline.
func TestHeadersAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := crowdOf(t, server.Crowd{PerAddress: 100})
		for name, row := range map[string]struct {
			request string
			wait    time.Duration
			want    []string
		}{
			"nothing comes":                     {"", 11 * time.Second, []string{"0 header-timeout"}},
			"a part":                            {"GET / HTTP/1.1\r\nHost: x\r\n", 11 * time.Second, []string{"0 header-timeout"}},
			"a whole one":                       {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 3 * time.Minute, nil}, // IdleTimeout ends it
			"a second that came with the first": {"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET", 11 * time.Second, nil},
			"one that waits":                    {waiting, time.Minute, nil},
			"a body that waits":                 {"POST /wait HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n", time.Minute, nil},
			"one that is large":                 {"GET / HTTP/1.1\r\nHost: x\r\nX: " + string(make([]byte, 1<<10)) + "\r\n\r\n", 0, nil}, // no valid header
			"one that is too big":               {"GET / HTTP/1.1\r\nHost: x\r\nX: " + string(fill(64<<10)) + "\r\n\r\n", 0, []string{"431 header-too-large"}},
		} {
			conn, _ := c.dial("192.0.2.1", row.request)
			_ = conn.SetReadDeadline(time.Time{})
			go func() { _, _ = io.Copy(io.Discard, conn) }()
			time.Sleep(row.wait)
			synctest.Wait()
			if diff := cmp.Diff(c.seen(), row.want); diff != "" {
				t.Errorf("%s (-got +want):\n%s", name, diff)
			}
			_ = conn.Close()
		}
		time.Sleep(time.Second) // net/http lingers after a 431
	})
}

func fill(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'x'
	}
	return b
}

// TestBrokenStreamsGiveTheirPlaces breaks streams one after the other, from an address that may have one connection.
func TestBrokenStreamsGiveTheirPlaces(t *testing.T) {
	t.Parallel()
	var o Options
	counted(t, &o, -1)
	streams := make(chan *Exchange, 1)
	h := NewHandler(funcs{get: func(x *Exchange) {
		x.Open()
		streams <- x
	}}, o)
	s := httptest.NewUnstartedServer(h)
	Configure(s.Config)
	addr := s.Listener.Addr().String()
	d := server.NewListener(s.Listener, s.Config)
	d.Limit(server.Crowd{PerAddress: 1, Refused: func(*limits.Row, netip.Addr) { t.Error("a connection was refused") }})
	s.Listener = front(Reuse(d, s.Config), s.Config)
	s.Start()
	t.Cleanup(s.Close)
	for range 3 {
		get(t, addr)
		(<-streams).Cut()
		if n := d.Census(); n.Conns != 0 || n.Addresses != 0 {
			t.Errorf("%d connections are counted, of %d addresses, and none is there", n.Conns, n.Addresses)
		}
	}
}

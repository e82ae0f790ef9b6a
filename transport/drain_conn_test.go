package transport

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// lateListener's connections report that a read has met its deadline only when the test lets them, as on a busy
// machine.
type lateListener struct {
	net.Listener
	late chan chan struct{} // gets the channel that lets one connection report
	hold *atomic.Bool
}

type lateConn struct {
	*net.TCPConn
	l lateListener
}

func (l lateListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return lateConn{c.(*net.TCPConn), l}, nil
}

func (c lateConn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) && c.l.hold.Load() {
		let := make(chan struct{})
		c.l.late <- let
		<-let
	}
	return n, err
}

// TestCloseIdle closes the idle connections of a listener, two of each of three kinds: on one of the two a request
// comes just before the server closes it.
func TestCloseIdle(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not let it be seen whether something has come")
	}
	ln := listen(t)
	late := lateListener{ln, make(chan chan struct{}), new(atomic.Bool)}
	s := &http.Server{Handler: NewHandler(funcs{post: oneEvent}, Options{}), ReadHeaderTimeout: time.Minute}
	d := NewDrainListener(late, s)
	go func() { _ = s.Serve(front(Reuse(d, s), s)) }()
	defer s.Close()
	addr := ln.Addr().String()
	var conns []*client
	for i := range 6 {
		c := dial(t, addr)
		conns = append(conns, c)
		switch i / 2 {
		case 0: // new
		case 1:
			_, _ = io.ReadAll(c.send(request("GET", addr, "")).response("GET").Body)
		case 2:
			_, _ = io.ReadAll(c.send(request("POST", addr, ping)).response("POST").Body)
		}
	}
	awaitOpen(t, d, len(conns))
	awaitWaiting(t, d, len(conns))
	late.hold.Store(true)
	d.Shut()
	d.CloseIdle()
	d.CloseIdle()
	var let []chan struct{}
	for range conns {
		let = append(let, <-late.late)
	}
	late.hold.Store(false)
	for i, c := range conns {
		if i%2 == 0 {
			c.send(request("POST", addr, ping))
		}
	}
	for _, l := range let {
		close(l)
	}
	for i, c := range conns {
		if i%2 == 0 {
			if resp := c.response("POST"); resp.StatusCode != 200 {
				t.Errorf("%d: %s", i, resp.Status)
			} else if _, err := io.ReadAll(resp.Body); err != nil {
				t.Errorf("%d: %v", i, err)
			}
		} else if b, err := io.ReadAll(c.r); len(b) > 0 || err != nil {
			t.Errorf("%d: %q, %v", i, b, err)
		}
	}
	awaitOpen(t, d, len(conns)/2)
	for i, c := range conns { // connections that served the request are as before
		if i%2 == 0 {
			_, _ = io.ReadAll(c.send(request("POST", addr, ping)).response("POST").Body)
		}
	}
	awaitWaiting(t, d, len(conns)/2)
	d.CloseIdle()
	awaitOpen(t, d, 0)
	eventually(t, 0, func() int { // none is remembered
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.conns)
	})
}

// TestCloseIdleLeavesTheOthers closes idle connections while a request is half sent, and while one is being served.
func TestCloseIdleLeavesTheOthers(t *testing.T) {
	t.Parallel()
	ln := listen(t)
	begun, finish := make(chan struct{}), make(chan struct{})
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "GET" {
			close(begun)
			<-finish
		}
		_, _ = io.Copy(w, r.Body)
	})}
	d := NewDrainListener(ln, s)
	go func() { _ = s.Serve(front(d, s)) }()
	defer s.Close()
	addr := ln.Addr().String()
	half, served := dial(t, addr), dial(t, addr)
	post := request("POST", addr, ping)
	half.send(post[:20])
	served.send(request("GET", addr, ""))
	<-begun
	awaitWaiting(t, d, 0)
	d.CloseIdle()
	half.send(post[20:])
	close(finish)
	for _, c := range []*client{half, served} {
		resp := c.response("POST")
		if _, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 {
			t.Errorf("%s, %v", resp.Status, err)
		}
	}
}

func awaitOpen(t *testing.T, d *DrainListener, want int) {
	t.Helper()
	eventually(t, want, d.Open)
}

// awaitWaiting waits until that many connections wait for a request: a client may have read its response before the
// server is done with it.
func awaitWaiting(t *testing.T, d *DrainListener, want int) {
	t.Helper()
	eventually(t, want, func() (n int) {
		d.mu.Lock()
		defer d.mu.Unlock()
		for g := range d.conns {
			g.mu.Lock()
			if g.idle {
				n++
			}
			g.mu.Unlock()
		}
		return n
	})
}

func eventually(t *testing.T, want int, count func() int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); count() != want; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("got %d, want %d", count(), want)
		}
	}
}

// TestIdleConnThatIsNeeded checks that a connection goes on that serves a request, or on which a request has begun to
// come by the time that it is closed, with the read deadline that the server has set.
func TestIdleConnThatIsNeeded(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(g *drainConn){
		"it was served":          func(g *drainConn) { g.setIdle(false); g.closeIfIdle() },
		"it was served at once":  func(g *drainConn) { g.closeIfIdle(); g.setIdle(false) },
		"it was served since":    func(g *drainConn) { g.closeIfIdle(); g.closeIfIdle(); g.setIdle(false); g.closeIfIdle() },
		"the server sets it off": func(g *drainConn) { g.closeIfIdle(); _ = g.SetReadDeadline(time.Time{}); g.setIdle(false) },
	} {
		server, peer := net.Pipe()
		g := &drainConn{Conn: server, listener: &DrainListener{}, idle: true}
		use(g)
		go func() { _, _ = peer.Write([]byte("x")) }()
		if n, err := g.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Errorf("%s: read %d bytes, %v", name, n, err)
		}
		_, _ = server.Close(), peer.Close()
	}
	server, _ := net.Pipe()
	g := &drainConn{Conn: server, listener: &DrainListener{}, idle: true}
	g.closeIfIdle()
	_ = g.SetReadDeadline(time.Now().Add(-time.Second)) // the server's own, while the connection must close
	g.setIdle(false)
	if _, err := g.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("beyond the server's own deadline: %v", err)
	}
	g = &drainConn{Conn: server, listener: &DrainListener{}, idle: true}
	g.closeIfIdle()
	if _, err := g.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("nothing came: %v, want its end", err)
	}
}

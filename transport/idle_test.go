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

	"github.com/troupe-run/troupe/transport/server"
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
	d := server.NewListener(late, s)
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
	eventually(t, 0, func() int { return d.Census().Conns }) // none is remembered
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
	d := server.NewListener(ln, s)
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

func awaitOpen(t *testing.T, d *server.Listener, want int) {
	t.Helper()
	eventually(t, want, d.Open)
}

// awaitWaiting waits until that many connections wait for a request: a client may have read its response before the
// server is done with it.
func awaitWaiting(t *testing.T, d *server.Listener, want int) {
	t.Helper()
	eventually(t, want, func() int { return d.Census().Idle })
}

func eventually(t *testing.T, want int, count func() int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); count() != want; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("got %d, want %d", count(), want)
		}
	}
}

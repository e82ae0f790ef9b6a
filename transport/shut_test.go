package transport

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/troupe-run/troupe/transport/server"
)

// TestListenerServesWhoCameInTime shuts a listener while connections with requests
// wait that it has not accepted.
func TestListenerServesWhoCameInTime(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux shows who waits")
	}
	ln := listen(t)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") })}
	d := server.NewListener(ln, s)
	var conns []net.Conn
	for i := range 20 {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = fmt.Fprintf(c, "GET /%d HTTP/1.1\r\nHost: x\r\n\r\n", i)
		conns = append(conns, c)
	}
	d.Shut()
	if c, err := net.Dial("tcp", ln.Addr().String()); err == nil {
		_ = c.Close()
		t.Error("a connection is made after the door was shut")
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(front(Reuse(d, s), s)) }()
	for i, c := range conns {
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		if body, err := io.ReadAll(resp.Body); string(body) != "served" || err != nil {
			t.Errorf("request %d: %q, %v", i, body, err)
		}
	}
	awaitOpen(t, d, len(conns)) // the next Accept counts as one until it has seen that nobody waits
	_ = s.Close()
	if err := <-served; err != http.ErrServerClosed {
		t.Errorf("serve: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
}

// TestListenerKeepsConnections sends requests on connections that are open when
// the listener is shut: one of net/http, and one that an event stream had.
func TestListenerKeepsConnections(t *testing.T) {
	t.Parallel()
	ln := listen(t)
	s := &http.Server{Handler: NewHandler(funcs{post: oneEvent}, Options{})}
	d := server.NewListener(ln, s)
	go func() { _ = s.Serve(front(Reuse(d, s), s)) }()
	defer s.Close()
	addr := ln.Addr().String()
	plain, stream := dial(t, addr), dial(t, addr)
	ask := func(method string, c *client) {
		t.Helper()
		body := ""
		if method == "POST" {
			body = ping
		}
		resp := c.send(request(method, addr, body)).response(method)
		if resp.StatusCode != 200 || resp.Close {
			t.Errorf("%s: %s, close %t", method, resp.Status, resp.Close)
		}
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Errorf("%s: %v", method, err)
		}
	}
	ask("GET", plain)
	ask("POST", stream)
	d.Shut()
	d.Shut()
	for range 2 {
		ask("GET", plain)
		ask("POST", stream)
	}
	awaitOpen(t, d, 2) // the handler returns a stream's connection after its end
}

// TestListenerCountsFromTheStart checks that a connection counts as open from when its client has made it, however long it takes until
// a server begins with it: a request may be on it.
func TestListenerCountsFromTheStart(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("this system does not list the connections that wait to be accepted")
	}
	ln := listen(t)
	s := &http.Server{}
	d := server.NewListener(ln, s)
	defer d.Close()
	want := func(when string, n int) {
		t.Helper()
		got := d.Open()
		for end := time.Now().Add(20 * time.Second); got > n && time.Now().Before(end); got = d.Open() {
			runtime.Gosched()
		}
		if got != n {
			t.Errorf("%s: %d connections are open, want %d", when, got, n)
		}
	}
	accept := func() net.Conn {
		c, err := d.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	dial(t, ln.Addr().String())
	first := accept()
	want("accepted", 1)
	dial(t, ln.Addr().String())
	d.Shut()
	want("shut with another one that waits", 2)
	second := accept()
	want("both accepted", 2)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = d.Accept()
	}()
	want("while the next is waited for", 2)
	s.ConnState(first, http.StateNew)
	s.ConnState(first, http.StateHijacked)
	want("an event stream has one", 1)
	_ = second.Close()
	s.ConnState(second, http.StateClosed)
	want("the other is closed", 0)
	s.ConnState(first, http.StateNew)
	want("the stream has given the first back", 1)
	s.ConnState(first, http.StateHijacked)
	_ = first.Close()
	s.ConnState(first, http.StateHijacked) // nobody has it any more
	want("all are closed", 0)
	_ = d.Close()
	<-ended
}

package transport

import (
	"io"
	"net"
	"runtime"
	"testing"
	"time"
)

func init() { restTime = 50 * time.Millisecond } // TestMain waits for the last epoll to end

// TestListenersHaveNoGoroutine opens many idle streams, and then has all clients leave.
func TestListenersHaveNoGoroutine(t *testing.T) {
	if testing.Short() {
		t.Skip("a crowd: runs without -short")
	}
	streams := make(chan *Exchange, 1)
	s := serve(t, funcs{post: func(x *Exchange) {
		x.Open()
		streams <- x
	}}, bothEras)
	const n = 1000
	before := runtime.NumGoroutine()
	var conns []net.Conn
	var held []*Exchange
	for range n {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, listenRequest()); err != nil {
			t.Fatal(err)
		}
		conns, held = append(conns, c), append(held, <-streams)
	}
	after := 0
	for range 12_000 {
		if after = runtime.NumGoroutine() - before; after < 20 {
			break
		}
		<-time.After(5 * time.Millisecond)
	}
	if after >= 20 || s.Streams() != n {
		t.Errorf("%d silent streams: %d goroutines more than before", s.Streams(), after)
	}
	for i, c := range conns {
		c.Close()
		if i%2 == 0 { // sometimes one, mostly several at once
			wait(t, "the end of a context", held[i].Context().Done())
		}
	}
	settled(t, s.Handler)
	if !s.hangups.ends() {
		t.Error("nothing is watched, and the epoll is still there")
	}
}

// ends waits for the goroutine to end.
func (p *hangups) ends() bool {
	for range 12_000 {
		p.mu.Lock()
		over := p.epoll == nil && p.watched == nil
		p.mu.Unlock()
		if over {
			return true
		}
		<-time.After(5 * time.Millisecond)
	}
	return false
}

// TestHangupsRest has the second after the last connection end while there is another connection, and then
// with none.
func TestHangupsRest(t *testing.T) {
	t.Parallel()
	s := serve(t, funcs{post: func(x *Exchange) {
		x.Open()
		x.Flush()
		<-x.Context().Done()
	}}, bothEras)
	for range 3 {
		c := dial(t, s.addr).send(listenRequest())
		c.response("POST")
		s.hangups.mu.Lock()
		_ = s.hangups.epoll.SetReadDeadline(past) // as if the second were over
		s.hangups.mu.Unlock()
		c.Close()
		settled(t, s.Handler)
	}
	if !s.hangups.ends() {
		t.Error("nothing is watched, and the epoll is still there")
	}
	c := dial(t, s.addr).send(listenRequest())
	c.response("POST")
	c.Close()
	settled(t, s.Handler)
}

// TestHangupsOfNoSocket has connections that are not sockets, and one that is closed already.
func TestHangupsOfNoSocket(t *testing.T) {
	t.Parallel()
	var p hangups
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	x := &Exchange{}
	if got := p.watchConn(x, a); got != 0 {
		t.Errorf("a pipe is watched as %d", got)
	}
	l := listen(t)
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if got := p.watchConn(x, c); got != 0 || !p.ends() {
		t.Errorf("a closed connection is watched as %d", got)
	}
	p.stopWatching(0)
	p.stopWatching(7)
}

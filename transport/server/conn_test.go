package server

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// TestIdleConnThatIsNeeded checks that a connection goes on that serves a request, or on which a request has begun to
// come by the time that it is closed, with the read deadline that the server has set.
func TestIdleConnThatIsNeeded(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(g *Conn){
		"it was served":          func(g *Conn) { g.SetIdle(false); g.closeIfIdle(false) },
		"it was served at once":  func(g *Conn) { g.closeIfIdle(false); g.SetIdle(false) },
		"it was served since":    func(g *Conn) { g.closeIfIdle(false); g.closeIfIdle(false); g.SetIdle(false); g.closeIfIdle(false) },
		"the server sets it off": func(g *Conn) { g.closeIfIdle(false); _ = g.SetReadDeadline(time.Time{}); g.SetIdle(false) },
	} {
		server, peer := net.Pipe()
		g := &Conn{Conn: server, direct: server, listener: &Listener{}, idle: true}
		use(g)
		go func() { _, _ = peer.Write([]byte("x")) }()
		if n, err := g.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Errorf("%s: read %d bytes, %v", name, n, err)
		}
		_, _ = server.Close(), peer.Close()
	}
	server, _ := net.Pipe()
	g := &Conn{Conn: server, direct: server, listener: &Listener{}, idle: true}
	g.closeIfIdle(false)
	_ = g.SetReadDeadline(time.Now().Add(-time.Second)) // the server's own, while the connection must close
	g.SetIdle(false)
	if _, err := g.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("beyond the server's own deadline: %v", err)
	}
	g = &Conn{Conn: server, direct: server, listener: &Listener{}, idle: true}
	g.closeIfIdle(false)
	if _, err := g.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("nothing came: %v, want its end", err)
	}
}

// TestNewConnIsSpared closes a connection that has carried a request, and not one on which nothing has come yet.
func TestNewConnIsSpared(t *testing.T) {
	t.Parallel()
	for _, spared := range []bool{true, false} {
		server, peer := net.Pipe()
		g := &Conn{Conn: server, direct: server, listener: &Listener{}, idle: true, header: true}
		if g.closeIfIdle(spared); g.closing == spared {
			t.Errorf("spared: %v, and the new connection is asked to close: %v", spared, g.closing)
		}
		g.SetIdle(true) // after its first request
		if g.closeIfIdle(spared); !g.closing {
			t.Errorf("spared: %v, and the connection that is idle is not asked to close", spared)
		}
		_, _ = server.Close(), peer.Close()
	}
}

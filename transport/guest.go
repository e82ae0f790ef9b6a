package transport

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// guest is a connection that a Door let in. It knows whether it waits for a request, and can be asked to leave then.
//
// A server that closes a kept connection may meet a request that is on its way, which its client cannot send again: it
// does not know whether it was received. What is on the network nobody sees. But most of the time such a request has
// arrived, and only the goroutine that reads the connection has not run since. So that goroutine does the closing, right
// after it has looked once more.
type guest struct {
	net.Conn
	door *Door

	mu    sync.Mutex // guards what follows
	waits bool       // nothing has come since the last response, or since the connection was made
	asked bool       // to leave: the read deadline has passed, whatever others set
	until time.Time  // the read deadline that others set
}

// guestOf is the guest below c, nil if there is none.
func guestOf(c net.Conn) *guest {
	for {
		switch t := c.(type) {
		case *guest:
			return t
		case interface{ NetConn() net.Conn }:
			c = t.NetConn()
		default:
			return nil
		}
	}
}

// rests notes that the next request is waited for, or no longer.
func (g *guest) rests(waits bool) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waits = waits; !waits {
		g.stay()
	}
}

// leave has the connection closed if it waits for a request and none has come.
func (g *guest) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waits && !g.asked {
		g.asked = g.Conn.SetReadDeadline(time.Unix(1, 0)) == nil
	}
}

// stay takes back what leave asked for. mu is held.
func (g *guest) stay() {
	if g.asked {
		g.asked = false
		_ = g.Conn.SetReadDeadline(g.until)
	}
}

func (g *guest) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	g.mu.Lock()
	defer g.mu.Unlock()
	if n == 0 && g.asked && errors.Is(err, os.ErrDeadlineExceeded) {
		_ = g.Conn.SetReadDeadline(time.Time{})
		if n = lastLook(g.Conn, p); n == 0 {
			_ = g.Conn.Close()
			return 0, io.EOF
		}
		err = nil
	}
	if n > 0 {
		g.waits = false
		g.stay()
	}
	return n, err
}

func (g *guest) SetReadDeadline(t time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.until = t; g.asked {
		return nil
	}
	return g.Conn.SetReadDeadline(t)
}

func (g *guest) SetDeadline(t time.Time) error {
	return errors.Join(g.SetReadDeadline(t), g.SetWriteDeadline(t))
}

func (g *guest) Close() error {
	g.door.left(g)
	return g.Conn.Close()
}

// NetConn is the connection below, as of a TLS connection.
func (g *guest) NetConn() net.Conn { return g.Conn }

// CloseWrite ends what is written, where the connection below can.
func (g *guest) CloseWrite() error { return closeWrite(g.Conn) }

func closeWrite(c net.Conn) error {
	if c, ok := c.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return http.ErrNotSupported
}

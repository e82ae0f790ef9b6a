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

// drainConn is a connection that a DrainListener accepted. It knows whether it waits for a request, and closes itself
// on demand while it does.
//
// A server that closes a kept connection may lose a request that is on its way. Its client cannot send it again,
// because it does not know whether the server got it. Nobody sees a request that is still on the network. Most of the
// time, though, the request has arrived and only the goroutine that reads the connection has not run yet. So that
// goroutine closes the connection, after it has looked once more.
type drainConn struct {
	net.Conn
	listener *DrainListener

	mu      sync.Mutex // guards the fields below
	idle    bool       // nothing has come since the last response, or since the connection was made
	closing bool       // asked to close: the read deadline has passed, whatever others set
	until   time.Time  // the read deadline that others set
}

// drainConnOf returns the drainConn below c, or nil if there is none.
func drainConnOf(c net.Conn) *drainConn {
	for {
		switch t := c.(type) {
		case *drainConn:
			return t
		case interface{ NetConn() net.Conn }:
			c = t.NetConn()
		default:
			return nil
		}
	}
}

// setIdle notes whether the connection waits for its next request.
func (g *drainConn) setIdle(waits bool) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.idle = waits; !waits {
		g.keepOpen()
	}
}

// closeIfIdle makes the connection close if it waits for a request and none has come.
func (g *drainConn) closeIfIdle() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.idle && !g.closing {
		g.closing = g.Conn.SetReadDeadline(time.Unix(1, 0)) == nil
	}
}

// keepOpen takes back what closeIfIdle asked for. mu is held.
func (g *drainConn) keepOpen() {
	if g.closing {
		g.closing = false
		_ = g.Conn.SetReadDeadline(g.until)
	}
}

func (g *drainConn) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	g.mu.Lock()
	defer g.mu.Unlock()
	if n == 0 && g.closing && errors.Is(err, os.ErrDeadlineExceeded) {
		_ = g.Conn.SetReadDeadline(time.Time{})
		if n = lastLook(g.Conn, p); n == 0 {
			_ = g.Conn.Close()
			return 0, io.EOF
		}
		err = nil
	}
	if n > 0 {
		g.idle = false
		g.keepOpen()
	}
	return n, err
}

func (g *drainConn) SetReadDeadline(t time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.until = t; g.closing {
		return nil
	}
	return g.Conn.SetReadDeadline(t)
}

func (g *drainConn) SetDeadline(t time.Time) error {
	return errors.Join(g.SetReadDeadline(t), g.SetWriteDeadline(t))
}

func (g *drainConn) Close() error {
	g.listener.untrack(g)
	return g.Conn.Close()
}

// NetConn returns the connection below, as tls.Conn does.
func (g *drainConn) NetConn() net.Conn { return g.Conn }

// CloseWrite closes the writing side, if the connection below can.
func (g *drainConn) CloseWrite() error { return closeWrite(g.Conn) }

func closeWrite(c net.Conn) error {
	if c, ok := c.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return http.ErrNotSupported
}

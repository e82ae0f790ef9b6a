package http1

import (
	"net"
	"net/http"
)

// Ahead is a connection of which some bytes were read. Its reader gets them first.
type Ahead struct {
	net.Conn
	rest []byte
	err  error // that reading has returned after rest, nil if the connection is read on
}

// NewAhead returns c with bytes that come before what it reads.
func NewAhead(c net.Conn, rest []byte) *Ahead { return &Ahead{Conn: StripAhead(c), rest: rest} }

// StripAhead returns the connection below, if c is an Ahead of which everything was read; otherwise c.
func StripAhead(c net.Conn) net.Conn {
	for {
		a, ok := c.(*Ahead)
		if !ok || len(a.rest) > 0 || a.err != nil {
			return c
		}
		c = a.Conn
	}
}

// Read reads what was read ahead, and then the connection.
func (a *Ahead) Read(p []byte) (int, error) {
	if len(a.rest) == 0 && a.err != nil {
		return 0, a.err
	}
	if len(a.rest) == 0 || len(p) == 0 {
		return a.Conn.Read(p)
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// NetConn returns the connection below, as tls.Conn does.
func (a *Ahead) NetConn() net.Conn { return a.Conn }

// CloseWrite closes the writing side, if the connection below can.
func (a *Ahead) CloseWrite() error {
	if c, ok := a.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return http.ErrNotSupported
}

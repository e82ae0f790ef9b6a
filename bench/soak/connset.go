package main

import (
	"context"
	"net"
	"net/http"

	"github.com/troupe-run/troupe/bench/client"
)

// connSet has all connections of one client, which breakAll ends at once.
type connSet struct {
	*http.Transport
	connGroup
}

// trackedConn is a connection of a connSet.
type trackedConn struct {
	net.Conn
	c *connSet
}

func newConnSet() *connSet {
	c := &connSet{Transport: client.NewTransport()}
	dial := c.DialContext
	c.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if p := (&trackedConn{conn, c}); c.add(p) {
			return p, nil
		}
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	return c
}

// Close ends the connection.
func (p *trackedConn) Close() error {
	p.c.remove(p)
	return p.Conn.Close()
}

// breakAll breaks all connections. There are no others afterwards.
func (c *connSet) breakAll() {
	c.setShut(true)
	c.CloseIdleConnections()
}

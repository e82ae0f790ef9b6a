package main

import (
	"context"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"

	"github.com/troupe-run/troupe/bench/client"
)

// connSet has all connections of one client, which breakAll ends at once.
type connSet struct {
	*http.Transport

	mu     sync.Mutex // guards the rest
	broken bool
	open   map[*trackedConn]bool
}

// trackedConn is a connection of a connSet.
type trackedConn struct {
	net.Conn
	c *connSet
}

func newConnSet() *connSet {
	c := &connSet{Transport: client.NewTransport(), open: make(map[*trackedConn]bool)}
	dial := c.DialContext
	c.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		p := &trackedConn{conn, c}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.broken {
			_ = conn.Close()
			return nil, net.ErrClosed
		}
		c.open[p] = true
		return p, nil
	}
	return c
}

// Close ends the connection.
func (p *trackedConn) Close() error {
	p.c.mu.Lock()
	delete(p.c.open, p)
	p.c.mu.Unlock()
	return p.Conn.Close()
}

// breakAll breaks all connections. There are no others afterwards.
func (c *connSet) breakAll() {
	c.mu.Lock()
	c.broken = true
	c.mu.Unlock()
	c.breakOpen()
}

// breakOpen breaks the connections that there are.
func (c *connSet) breakOpen() {
	c.mu.Lock()
	all := slices.Collect(maps.Keys(c.open))
	c.mu.Unlock()
	for _, p := range all {
		_ = p.Close()
	}
	c.CloseIdleConnections()
}

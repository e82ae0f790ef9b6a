package main

import (
	"context"
	"net"
	"net/http"
	"sync"

	"github.com/troupe-run/troupe/bench/client"
)

// cable has all connections of one client, which end at once when it is pulled.
type cable struct {
	*http.Transport

	mu     sync.Mutex // guards the rest
	pulled bool
	open   map[*plug]bool
}

// plug is a connection of a cable.
type plug struct {
	net.Conn
	c *cable
}

func newCable() *cable {
	c := &cable{Transport: client.NewTransport(), open: make(map[*plug]bool)}
	dial := c.DialContext
	c.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		p := &plug{conn, c}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.pulled {
			_ = conn.Close()
			return nil, net.ErrClosed
		}
		c.open[p] = true
		return p, nil
	}
	return c
}

// Close ends the connection.
func (p *plug) Close() error {
	p.c.mu.Lock()
	delete(p.c.open, p)
	p.c.mu.Unlock()
	return p.Conn.Close()
}

// pull breaks all connections. There are no others afterwards.
func (c *cable) pull() {
	c.mu.Lock()
	c.pulled = true
	var all []*plug
	for p := range c.open {
		all = append(all, p)
	}
	c.mu.Unlock()
	for _, p := range all {
		_ = p.Close()
	}
	c.CloseIdleConnections()
}

package main

import (
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"

	"github.com/troupe-run/troupe/bench/client"
)

// connGroup is connections that are broken together.
type connGroup struct {
	mu   sync.Mutex // guards the rest
	shut bool
	open map[net.Conn]bool
}

// add notes a connection, unless the group is shut.
func (g *connGroup) add(c net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open == nil {
		g.open = make(map[net.Conn]bool)
	}
	if !g.shut {
		g.open[c] = true
	}
	return !g.shut
}

func (g *connGroup) remove(c net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.open, c)
}

// setShut breaks all connections, and each that is made until the group is opened again.
func (g *connGroup) setShut(shut bool) {
	g.mu.Lock()
	g.shut = shut
	all := slices.Collect(maps.Keys(g.open))
	g.mu.Unlock()
	for _, c := range all {
		if shut {
			_ = c.Close()
		}
	}
}

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

// link is a way of TCP connections to a server, which setShut cuts.
type link struct {
	to       string
	listener net.Listener
	connGroup
}

func newLink(to string) (*link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &link{to: to, listener: listener}
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go l.carry(c)
		}
	}()
	return l, nil
}

// carry joins a connection to one of its own.
func (l *link) carry(from net.Conn) {
	defer from.Close()
	to, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer to.Close()
	if !l.add(from) || !l.add(to) {
		return
	}
	defer l.remove(from)
	defer l.remove(to)
	over := make(chan struct{}, 2)
	for _, d := range [][2]net.Conn{{to, from}, {from, to}} {
		go func() {
			_, _ = io.Copy(d[0], d[1])
			over <- struct{}{}
		}()
	}
	<-over
}

func (l *link) end() {
	_ = l.listener.Close()
	l.setShut(true)
}

package main

import (
	"io"
	"net"
	"sync"
)

// link is a way of TCP connections to a server, which can be cut.
type link struct {
	to       string
	listener net.Listener

	mu   sync.Mutex // guards the rest
	cut  bool
	open map[net.Conn]bool
}

// newLink makes a line to an address.
func newLink(to string) (*link, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &link{to: to, listener: l, open: make(map[net.Conn]bool)}
	go w.accept()
	return w, nil
}

// address is where it begins.
func (l *link) address() string { return l.listener.Addr().String() }

func (l *link) accept() {
	for {
		c, err := l.listener.Accept()
		if err != nil {
			return
		}
		go l.carry(c)
	}
}

// carry joins a connection to one of its own.
func (l *link) carry(from net.Conn) {
	defer from.Close()
	if !l.keep(from) {
		return
	}
	defer l.forget(from)
	to, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer to.Close()
	if !l.keep(to) {
		return
	}
	defer l.forget(to)
	over := make(chan struct{}, 2)
	for _, d := range [][2]net.Conn{{to, from}, {from, to}} {
		go func() {
			_, _ = io.Copy(d[0], d[1])
			over <- struct{}{}
		}()
	}
	<-over
}

// keep notes a connection, unless the link is cut.
func (l *link) keep(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.cut {
		l.open[c] = true
	}
	return !l.cut
}

func (l *link) forget(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, c)
}

// setCut breaks all connections, and each that is made until the link is joined again.
func (l *link) setCut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut = cut; cut {
		for c := range l.open {
			_ = c.Close()
		}
	}
}

func (l *link) end() {
	_ = l.listener.Close()
	l.setCut(true)
}

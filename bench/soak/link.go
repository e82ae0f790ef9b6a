package main

import (
	"io"
	"net"
)

// link is a way of TCP connections to a server, which setShut cuts.
type link struct {
	to       string
	listener net.Listener
	connGroup
}

// newLink makes a link to an address.
func newLink(to string) (*link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &link{to: to, listener: listener}
	go l.accept()
	return l, nil
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
	if !l.add(from) {
		return
	}
	defer l.remove(from)
	to, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer to.Close()
	if !l.add(to) {
		return
	}
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

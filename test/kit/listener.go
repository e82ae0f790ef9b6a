package kit

import (
	"context"
	"net"
	"sync"
)

// Listener hands out in-memory connections, which, unlike sockets, let virtual
// time pass while they wait.
type Listener struct {
	ch   chan net.Conn
	done chan struct{}
	once sync.Once
}

// NewListener returns an open listener.
func NewListener() *Listener {
	return &Listener{ch: make(chan net.Conn), done: make(chan struct{})}
}

var _ net.Listener = (*Listener)(nil)

// Accept waits for a Dial.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.ch:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close refuses further connections.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr is a loopback address, so that the rules of loopback listeners hold.
func (l *Listener) Addr() net.Addr { return loopback }

var loopback = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}

// Dial connects; it fits http.Transport.DialContext.
func (l *Listener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	a, b := net.Pipe()
	select {
	case l.ch <- pipeConn{b}:
		return a, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// pipeConn is a pipe's end with an address.
type pipeConn struct{ net.Conn }

func (pipeConn) LocalAddr() net.Addr  { return loopback }
func (pipeConn) RemoteAddr() net.Addr { return loopback }

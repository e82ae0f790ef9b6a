package http1

import (
	"context"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Front is a listener for http.Server.Serve that serves plain requests itself, and gives the server the connections that bring others. Make
// it with NewFront. Its methods may be called from any goroutine.
type Front struct {
	net.Listener
	hs *http.Server

	waits   waits
	handing atomic.Int64 // connections that the server is given and has not begun with
	given   atomic.Bool  // Accept has returned one of them last
	ending  atomic.Bool
	begin   sync.Once
	odd     chan net.Conn
	failed  chan error
	done    chan struct{} // closed by Close

	mu    sync.Mutex // guards conns, and the closing of done
	conns map[*conn]struct{}
}

// NewFront returns a Front before s, which serves what ln accepts: s.Serve(NewFront(ln, s)). The Handler, ReadHeaderTimeout, IdleTimeout, BaseContext,
// ConnContext, ConnState and ErrorLog of s are those of both, and are not changed once s serves. It does not work for a TLS server, because ServeTLS wraps the
// connections.
func NewFront(ln net.Listener, s *http.Server) *Front {
	return &Front{Listener: ln, hs: s, odd: make(chan net.Conn), failed: make(chan error), done: make(chan struct{}), conns: make(map[*conn]struct{})}
}

// Accept returns the next connection that the http.Server is to serve.
func (f *Front) Accept() (net.Conn, error) {
	f.begin.Do(func() { go f.acceptConns() })
	if f.given.Swap(false) { // the server has begun with it before it asks for the next
		f.handing.Add(-1)
	}
	select {
	case c := <-f.odd:
		f.given.Store(true)
		return c, nil
	case err := <-f.failed:
		return nil, err
	case <-f.done:
		return nil, net.ErrClosed
	}
}

// acceptConns takes connections until the listener is closed.
func (f *Front) acceptConns() {
	base := context.Background()
	if f.hs.BaseContext != nil {
		base = f.hs.BaseContext(f.Listener)
	}
	base = context.WithValue(base, http.ServerContextKey, f.hs)
	for {
		rwc, err := f.Listener.Accept()
		if err != nil {
			select {
			case f.failed <- err: // the server says whether it goes on
				continue
			case <-f.done:
				return
			}
		}
		ctx := base
		if f.hs.ConnContext != nil {
			ctx = f.hs.ConnContext(ctx, rwc)
		}
		if c := f.addConn(ctx, rwc); c != nil {
			f.reportState(rwc, http.StateNew)
			go c.serve()
		} else {
			_ = rwc.Close()
		}
	}
}

// addConn returns the connection, or nil if the Front is closed.
func (f *Front) addConn(ctx context.Context, rwc net.Conn) *conn {
	ctx = context.WithValue(ctx, http.LocalAddrContextKey, rwc.LocalAddr())
	c := &conn{front: f, rwc: rwc, ctx: ctx, buf: make([]byte, bufferBytes)}
	c.template = &http.Request{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, RemoteAddr: rwc.RemoteAddr().String()}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ending.Load() {
		return nil
	}
	f.conns[c] = struct{}{}
	return c
}

func (f *Front) forget(c *conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, c)
}

func (f *Front) reportState(c net.Conn, state http.ConnState) {
	if f.hs.ConnState != nil {
		f.hs.ConnState(c, state)
	}
}

func (f *Front) logf(text string, args ...any) {
	if f.hs.ErrorLog != nil {
		f.hs.ErrorLog.Printf(text, args...)
		return
	}
	log.Printf(text, args...)
}

// handToServer gives a connection to the http.Server.
func (f *Front) handToServer(c net.Conn) {
	select {
	case f.odd <- c:
	case <-f.done:
		_ = c.Close()
		f.handing.Add(-1)
	}
}

// Handing returns how many connections are on their way to the http.Server: for ConnState they are in the state StateHijacked, and will be in
// StateNew.
func (f *Front) Handing() int { return int(f.handing.Load()) }

// Close closes the listener and the connections that wait for a request. The others are closed after their responses.
func (f *Front) Close() error {
	f.mu.Lock()
	if !f.ending.Swap(true) {
		close(f.done)
	}
	f.mu.Unlock()
	f.closeAll(false)
	return f.Listener.Close()
}

// lookForIdle is how often Wait looks for connections without a request.
const lookForIdle = 10 * time.Millisecond

// Wait waits, after Close, until no connection is left that the Front serves. If ctx ends first, it closes them and returns the cause.
func (f *Front) Wait(ctx context.Context) error {
	t := time.NewTicker(lookForIdle)
	defer t.Stop()
	for f.closeAll(false) > 0 {
		select {
		case <-t.C:
		case <-ctx.Done():
			f.closeAll(true)
			return context.Cause(ctx)
		}
	}
	return nil
}

// closeAll closes all connections, or those that wait for a request, and returns how many there were.
func (f *Front) closeAll(busy bool) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		if busy || !c.serving.Load() {
			_ = c.rwc.Close()
		}
	}
	return len(f.conns)
}

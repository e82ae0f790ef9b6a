package transport

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/troupe-run/troupe/transport/server"
	"github.com/troupe-run/troupe/transport/server/http1"
)

// Reuse returns a listener for s.Serve that lets a connection carry further requests when its event stream has ended
// well. Without it such a connection is closed, because net/http does not take back a hijacked connection, and the
// response announces that in its header. That costs the client a connection for each stream. Worse, if the close was
// announced, clients on Node's fetch take any end of the connection for the end of the response: those that resume a
// stream only when it breaks then never do.
//
// Reuse sets s.ConnContext, and must be the outermost listener: Serve must get the connections as Reuse accepted them.
// It does not work for a TLS server, because ServeTLS wraps the connections. Between requests a connection may be idle
// for s.IdleTimeout.
func Reuse(ln net.Listener, s *http.Server) net.Listener {
	l := &reuse{
		Listener: ln, limit: s.IdleTimeout, ready: make(chan net.Conn), accepted: make(chan accepted), done: make(chan struct{}),
		idle: make(map[net.Conn]struct{}),
	}
	before := s.ConnContext
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if before != nil {
			ctx = before(ctx, c)
		}
		return context.WithValue(ctx, reuseKey{}, l)
	}
	return l
}

// reuse returns new connections, and used ones on which a request has begun to come.
type reuse struct {
	net.Listener
	limit    time.Duration // how long a connection may be idle; 0 is forever
	ready    chan net.Conn
	accepted chan accepted
	begin    sync.Once

	mu   sync.Mutex // guards idle and the closing of done
	done chan struct{}
	idle map[net.Conn]struct{}
}

type accepted struct {
	conn net.Conn
	err  error
}

type reuseKey struct{}

func (l *reuse) Accept() (net.Conn, error) {
	l.begin.Do(func() { go l.acceptNew() })
	select {
	case c := <-l.ready:
		return c, nil
	case a := <-l.accepted:
		return a.conn, a.err
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// acceptNew takes new connections until the listener is closed.
func (l *reuse) acceptNew() {
	for {
		c, err := l.Listener.Accept()
		select {
		case l.accepted <- accepted{c, err}:
		case <-l.done:
			if err == nil {
				_ = c.Close()
			}
			return
		}
	}
}

func (l *reuse) Close() error {
	l.mu.Lock()
	select {
	case <-l.done:
	default:
		close(l.done)
		for c := range l.idle {
			_ = c.Close()
		}
	}
	l.mu.Unlock()
	return l.Listener.Close()
}

// keepConn keeps c, which has carried whole requests and responses, for its next request. It returns false if the listener
// is closed.
func (l *reuse) keepConn(c net.Conn) bool {
	c = http1.StripAhead(c)
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.done:
		return false
	default:
	}
	g := server.ConnOf(c)
	g.SetIdle(true)
	g.SetAway(false)
	l.idle[c] = struct{}{}
	go l.awaitRequest(c)
	return true
}

// awaitRequest gives c to the server once something comes on it. Earlier, the time to read its header would already run.
func (l *reuse) awaitRequest(c net.Conn) {
	_ = c.SetDeadline(time.Time{})
	if l.limit > 0 {
		_ = c.SetReadDeadline(time.Now().Add(l.limit))
	}
	first := make([]byte, 1)
	_, err := c.Read(first)
	l.mu.Lock()
	delete(l.idle, c)
	l.mu.Unlock()
	if err == nil && c.SetReadDeadline(time.Time{}) == nil {
		select {
		case l.ready <- http1.NewAhead(c, first):
			return
		case <-l.done:
		}
	}
	_ = c.Close()
}

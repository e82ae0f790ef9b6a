package transport

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// Reuse returns a listener for s.Serve that lets a connection carry further requests when its event stream has ended
// well. Without it such a connection is closed, as net/http does not take back what was hijacked, and the response says
// so in its header. That costs the client a connection for each stream. Worse, clients on Node's fetch take the end of
// a connection whose close was announced for the end of the response, however it comes: those that resume a stream only
// when it breaks then never do.
//
// It sets s.ConnContext, and must be the outermost listener: Serve has to get the connections as they were accepted
// here. A server of TLS does not fit, because ServeTLS wraps them.
func Reuse(ln net.Listener, s *http.Server) net.Listener {
	l := &reuse{Listener: ln, again: make(chan net.Conn), accepted: make(chan accepted), done: make(chan struct{})}
	before := s.ConnContext
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if before != nil {
			ctx = before(ctx, c)
		}
		return context.WithValue(ctx, reuseKey{}, l)
	}
	return l
}

// reuse accepts new connections and used ones.
type reuse struct {
	net.Listener
	again    chan net.Conn
	accepted chan accepted
	done     chan struct{} // closed by Close
	begin    sync.Once
	end      sync.Once
}

type accepted struct {
	conn net.Conn
	err  error
}

type reuseKey struct{}

func (l *reuse) Accept() (net.Conn, error) {
	l.begin.Do(func() { go l.accept() })
	select {
	case c := <-l.again:
		return c, nil
	case a := <-l.accepted:
		return a.conn, a.err
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// accept takes new connections until the listener is closed.
func (l *reuse) accept() {
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
	l.end.Do(func() { close(l.done) })
	return l.Listener.Close()
}

// put has the server take c, which has carried whole requests and responses. It returns false if it takes no more.
func (l *reuse) put(c net.Conn) bool {
	if c.SetDeadline(time.Time{}) != nil {
		return false
	}
	select {
	case l.again <- c:
		return true
	case <-l.done:
		return false
	}
}

// reuseOf returns where to put the connection of x after its stream, or nil if it must be closed. Bytes that are read
// already, ahead, nobody could give back.
func (x *Exchange) reuseOf(ahead int) *reuse {
	if !x.chunks || x.closes || ahead > 0 {
		return nil
	}
	l, _ := x.base.Value(reuseKey{}).(*reuse)
	return l
}

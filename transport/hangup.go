package transport

import (
	"cmp"
	"context"
	"net"
)

// The client of a stateless stream cancels it by closing the connection, and that of HTTP+SSE ends
// its session. Nobody reads from a connection that was taken over, so something must look for its
// end. On Linux one goroutine looks for all connections of a Handler (hangup_linux.go), so that a
// stream costs nothing beside its connection. Elsewhere each connection has a goroutine,
// awaitHangup below, whose stack is larger than all the rest of a stream.

// readMost is how many bytes read takes from a client that has nothing to send, and throws away. If
// a client sends more, the next write notices its end.
const readMost = 4 << 10

// clientEnd is who learns that the client of an exchange is gone. The Exchange's mu guards it.
type clientEnd struct {
	ctx          context.Context // of Exchange.Context, nil until somebody asks for it
	cancel       context.CancelCauseFunc
	hook         func()      // of WhenGone
	stopWatching func() bool // stops watching the request's context, nil if nothing watches
	onGone       []func()    // of Gone
}

// takeHook returns the function that WhenGone got, if it was not taken before. mu is held.
func (e *clientEnd) takeHook() func() {
	f := e.hook
	e.hook = nil
	return f
}

// takeAll returns all that tellGone tells, the functions only once. mu is held.
func (e *clientEnd) takeAll() (cancel context.CancelCauseFunc, hook func(), after []func()) {
	cancel, hook, after = e.cancel, e.takeHook(), e.onGone
	e.onGone = nil
	return cancel, hook, after
}

func tellGone(cancel context.CancelCauseFunc, hook func(), after []func()) {
	if cancel != nil {
		cancel(ErrGone)
	}
	if hook != nil {
		go hook()
	}
	for _, f := range after {
		go f()
	}
}

// exchangeClient is an exchange as far as it notices when its client is gone.
type exchangeClient struct{ *Exchange }

// hasEnded reports whether the end has come, so that nothing watches for it any more. mu is held.
func (x exchangeClient) hasEnded() bool {
	return x.state == gone || x.s == nil && x.w == nil && !x.last
}

// watchBase watches the request's context, unless the connection was taken over. mu is held.
func (x exchangeClient) watchBase() {
	switch {
	case x.s != nil && x.s.conn != nil:
	case x.end.stopWatching == nil:
		x.end.stopWatching = context.AfterFunc(x.base, x.baseDone)
	case x.base.Err() != nil: // baseDone ran before
		go x.baseDone()
	}
}

// baseDone runs when the request's context is done. If the connection was taken over, this only
// means that ServeHTTP has returned.
func (x exchangeClient) baseDone() {
	cause := cmp.Or(x.Expired(), ErrGone)
	x.mu.Lock()
	var cancel context.CancelCauseFunc
	var hook func()
	if !x.last && (x.s == nil || x.s.conn == nil) {
		cancel, hook = x.end.cancel, x.end.takeHook()
	}
	x.mu.Unlock()
	if cancel != nil {
		cancel(cause)
	}
	tellGone(nil, hook, nil)
}

// endByClient ends an exchange that ends with its connection, which the client has closed, unless
// the end of its response is being written.
func (x exchangeClient) endByClient() {
	x.mu.Lock()
	ended := x.s != nil && x.s.ended
	x.mu.Unlock()
	if !ended {
		x.writer().cutStream(cutClosed)
	}
}

// hasCancelled reports whether the client of a stateless request has closed the connection:
// then nothing may be written. It only knows that of connections that were not taken over.
func (x exchangeClient) hasCancelled() bool { return x.Stateless && x.hasLeft() }

// hasLeft reports whether the client has ended the request's context.
func (x exchangeClient) hasLeft() bool { return x.base.Err() != nil && x.Expired() == nil }

// endsWithConnection reports whether what the client has begun ends with its connection.
func (x exchangeClient) endsWithConnection() bool { return x.Stateless || x.endpoint == sseEndpoint }

// watchConnection makes sure that x is closed when the client closes conn. mu is held.
func (x exchangeClient) watchConnection(conn net.Conn) {
	conn = belowTLS(conn)
	if x.s.watch = x.h.hangups.watchConn(x.Exchange, conn); x.s.watch == 0 {
		x.s.reuse = nil // awaitHangup may take the start of the next request
		go x.awaitHangup(conn)
	}
}

// noteGone ends an exchange whose client is gone before anything was sent.
func (x exchangeClient) noteGone() {
	if x.Stateless {
		x.endByClient()
		return
	}
	x.mu.Lock()
	if x.state == fresh {
		x.state = gone
	}
	x.mu.Unlock()
}

// awaitHangup waits for the end of a connection, and closes x.
func (x exchangeClient) awaitHangup(conn net.Conn) {
	var b [32]byte
	for n := 0; n < readMost; {
		k, err := conn.Read(b[:])
		if err != nil {
			x.endByClient()
			return
		}
		n += k
	}
}

// belowTLS returns the connection that carries conn. What the client sends over TLS is ignored, and
// both end together.
func belowTLS(conn net.Conn) net.Conn {
	for {
		t, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return conn
		}
		conn = t.NetConn()
	}
}

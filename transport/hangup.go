package transport

import "net"

// The client of a stateless stream cancels it by closing the connection, and that of HTTP+SSE ends its session. Nobody
// reads from a connection that was taken over, so something must look for its end. On Linux one goroutine looks for all connections of a Handler
// (hangup_linux.go), so that a stream costs nothing beside its connection. Elsewhere each connection has a goroutine,
// awaitHangup below, whose stack is larger than all the rest of a stream.

// endsWithConnection reports whether what the client has begun ends with its connection.
func (x *Exchange) endsWithConnection() bool { return x.Stateless || x.endpoint == sseEndpoint }

// watchConnection makes sure that x is closed when the client closes conn. mu is held.
func (x *Exchange) watchConnection(conn net.Conn) {
	conn = belowTLS(conn)
	if x.s.watch = x.h.hangups.watchConn(x, conn); x.s.watch == 0 {
		x.s.reuse = nil // awaitHangup may take the start of the next request
		go x.awaitHangup(conn)
	}
}

// readMost is how many bytes read takes from a client that has nothing to send, and throws away. If a client sends
// more, the next write notices its end.
const readMost = 4 << 10

// awaitHangup waits for the end of a connection, and closes x.
func (x *Exchange) awaitHangup(conn net.Conn) {
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

// belowTLS returns the connection that carries conn. What the client sends over TLS is ignored, and both end together.
func belowTLS(conn net.Conn) net.Conn {
	for {
		t, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return conn
		}
		conn = t.NetConn()
	}
}

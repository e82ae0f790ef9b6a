package transport

import (
	"net"
)

// The client of a stateless stream cancels it by closing the connection, and that of HTTP+SSE ends its session. Nobody
// reads from a connection that was taken over, so something must look for its end. On Linux one goroutine looks for all connections of a Handler
// (hangup_linux.go), so that a stream costs nothing beside its connection. Elsewhere each connection has a goroutine,
// awaitHangup below, whose stack is larger than all the rest of a stream.

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

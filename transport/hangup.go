package transport

import "net"

// The client of a stateless stream cancels it by closing the connection. Nobody reads from one that was taken over, so that
// somebody has to look: where the system can (hangup_linux.go) one goroutine for all of a Handler's, which has a stream
// cost nothing beside its connection; else read below, whose stack is more than all the rest of a stream.

// notice sees to it that x is closed when the client closes conn. mu is held.
func (x *Exchange) notice(conn net.Conn) {
	conn = belowTLS(conn)
	if x.s.watch = x.h.hangups.add(x, conn); x.s.watch == 0 {
		x.s.reuse = nil // read may take the start of the next request
		go x.read(conn)
	}
}

// readMost is how many bytes read takes from a client that has nothing to send, and throws away. Of one that goes on
// sending the end is noticed by the next write.
const readMost = 4 << 10

// read waits for the end of a connection.
func (x *Exchange) read(conn net.Conn) {
	var b [32]byte
	for n := 0; n < readMost; {
		k, err := conn.Read(b[:])
		if err != nil {
			x.closed()
			return
		}
		n += k
	}
}

// belowTLS is the connection that carries conn: what the client says in TLS is not for us, and its end is the same.
func belowTLS(conn net.Conn) net.Conn {
	for {
		t, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return conn
		}
		conn = t.NetConn()
	}
}

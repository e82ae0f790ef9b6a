package server

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/internal/limits"
)

// writeState is what a Conn knows of writes to its client.
type writeState struct {
	since atomic.Int64 // when the write under way began, by the clock of the listener; 0 is none

	mu     sync.Mutex // guards the fields below, and the order in which deadlines are set
	until  int64      // the deadline that the connection has set itself, by the same clock; 0 is none
	theirs bool       // somebody else has set one
}

// writeInTime writes p, for which the client has the time of LimitWrites. Moving the deadline costs as much as a small write, so it is
// moved only when an eighth of that time is gone.
func (g *Conn) writeInTime(p []byte) (int, error) {
	d := g.listener
	limit := int64(d.patience)
	if limit <= 0 {
		return g.direct.Write(p)
	}
	w, now := &g.writes, d.now()
	w.since.Store(now)
	w.mu.Lock()
	if !w.theirs && w.until-now < limit-limit/8 {
		w.until = now + limit
		_ = g.Conn.SetWriteDeadline(time.Now().Add(d.patience))
	}
	w.mu.Unlock()
	n, err := g.direct.Write(p)
	w.since.Store(0)
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		dropUnsent(g.Conn)
	}
	return n, err
}

// SetWriteDeadline sets a deadline in place of that of LimitWrites. The zero time brings that one back.
func (g *Conn) SetWriteDeadline(t time.Time) error {
	w := &g.writes
	w.mu.Lock()
	defer w.mu.Unlock()
	w.until, w.theirs = 0, !t.IsZero()
	return g.Conn.SetWriteDeadline(t)
}

// boundBuffers bounds what the system keeps for a connection: requests that were sent ahead, and responses that were not read. Otherwise
// it lets that grow to megabytes for each, which nothing counts.
func boundBuffers(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(limits.SocketBuffer.Value())
		_ = tcp.SetWriteBuffer(limits.SocketBuffer.Value())
	}
}

// dropUnsent has the system forget what it holds for a client that does not read, as soon as the connection is closed. Otherwise it
// keeps megabytes for minutes.
func dropUnsent(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}

// closeAtOnce closes a connection whose client is not waited for.
func closeAtOnce(c net.Conn) {
	dropUnsent(c)
	_ = c.Close()
}

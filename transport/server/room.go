package server

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/rawio"
)

// roomState says whether a connection can be closed to make room for another one, and which of several should be.
type roomState struct {
	// handlers counts the requests whose handlers run. The connection keeps its place for them. It does not while it waits for the
	// rest of a header or of a body, nor while its client does not read a response: a client can make that last as long as it likes.
	handlers atomic.Int64
	// since is when the connection was made, or the request began that came last, by the clock of the listener.
	since atomic.Int64
}

// noteRequest notes that a request begins now.
func (r *roomState) noteRequest(d *Listener) { r.since.Store(d.now()) }

// connKey has the Conn of a connection in its context.
type connKey struct{}

// WithConn returns ctx with the Conn below c, if there is one: [RequestConn] finds it there.
func WithConn(ctx context.Context, c net.Conn) context.Context {
	if g := ConnOf(c); g != nil {
		return context.WithValue(ctx, connKey{}, g)
	}
	return ctx
}

// RequestConn returns the Conn of a request, or nil if there is none.
func RequestConn(r *http.Request) *Conn {
	g, _ := r.Context().Value(connKey{}).(*Conn)
	return g
}

// Kept returns the T that the program keeps for the connection of r: a zero T when it is first asked for, forgotten with the connection. It
// returns nil if no Listener has the connection. A program keeps one type.
func Kept[T any](r *http.Request) *T {
	g := RequestConn(r)
	if g == nil {
		return nil
	}
	if v, ok := g.kept.Load().(*T); ok {
		return v
	}
	g.kept.CompareAndSwap(nil, new(T)) // or another request of the connection has made it
	v, _ := g.kept.Load().(*T)
	return v
}

const (
	// candidates is how many connections are looked at for one that can make room.
	candidates = 64
	// mostLeaving bounds the idle connections that were asked to make room and are not closed yet. By so many there may be
	// more than Crowd.All.
	mostLeaving = 32
	// stalledAfter is how long a write may take before its client counts as one that does not read.
	stalledAfter = time.Second
)

// letIn adds c to the connections of the listener. It returns nil, with the limit, if there are too many. taken reports whether
// another connection, which was not idle, was closed for it.
func (d *Listener) letIn(c net.Conn) (g *Conn, from netip.Addr, limit *limits.Row, taken bool) {
	from = d.crowd.addressOf(c)
	d.mu.Lock()
	defer d.mu.Unlock()
	own := d.from[from]
	if d.crowd.PerAddress > 0 && from.IsValid() && own >= d.crowd.PerAddress {
		return nil, from, limits.ConnectionsPerAddress.Row, false
	}
	if d.crowd.All > 0 && len(d.conns) >= d.crowd.All {
		made := false
		if made, taken = d.makeRoom(own); !made {
			return nil, from, limits.Connections.Row, false
		}
	}
	return d.addConn(c, from), from, nil, taken
}

// addConn adds c to the connections of the listener. mu is held.
func (d *Listener) addConn(c net.Conn, from netip.Addr) *Conn {
	g := &Conn{Conn: c, direct: rawio.Of(c), listener: d, from: from, idle: true, header: true}
	g.room.noteRequest(d)
	boundBuffers(c)
	d.conns[g] = struct{}{}
	if from.IsValid() {
		d.from[from]++
	}
	return g
}

// candidate is a connection that can make room.
type candidate struct {
	conn  *Conn
	owned int // connections of its address
	idle  bool
	since int64
}

// yieldsBefore reports whether c should make room rather than o: first what belongs to the address that has most, then what is idle, then
// what has been as it is for longest.
func (c candidate) yieldsBefore(o candidate) bool {
	switch {
	case o.conn == nil || c.owned != o.owned:
		return o.conn == nil || c.owned > o.owned
	case c.idle != o.idle:
		return c.idle
	}
	return c.since < o.since
}

// makeRoom closes a connection for one of an address that has own connections. It chooses among some connections, and their
// addresses must stay ahead. It reports whether it found one, and whether that was not idle. mu is held.
func (d *Listener) makeRoom(own int) (made, taken bool) {
	var first candidate
	left, now := candidates, d.now()
	for g := range d.conns { // in no order
		if owned := d.from[g.from]; owned > own+1 && !g.away {
			if c, ok := g.asCandidate(owned, now); ok && c.yieldsBefore(first) {
				first = c
			}
		}
		if left--; left == 0 {
			break
		}
	}
	switch {
	case first.conn == nil:
		return false, false
	case first.idle:
		return d.leaving.Load() < mostLeaving && first.conn.closeForRoom(), false
	}
	d.forgetConn(first.conn)
	closeAtOnce(first.conn.Conn)
	return true, true
}

package server

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/internal/limits"
)

// Listener is a listener for s.Serve that can stop accepting while the connections it accepted are served on. So a
// server that ends, or is replaced, finishes the requests that it got. http.Server.Shutdown cannot do that: it closes
// each connection that has no request at the moment, and loses a request that is on its way there.
//
// Make it with NewListener. Its methods may be called from any goroutine.
type Listener struct {
	net.Listener
	crowd    Crowd         // set before Accept
	also     func() int    // the same; may be nil
	patience time.Duration // for a write, set before Accept; 0 or less is no bound
	spareNew bool          // set before Accept: CloseIdle leaves connections on which nothing has come
	began    time.Time     // its clock is the time since then
	taking   atomic.Int64  // Accepts that may have a connection which is not yet in conns
	leaving  atomic.Int64  // connections that were asked to make room

	once sync.Once
	shut chan struct{} // closed by Shut
	done chan struct{} // closed by Close

	mu     sync.Mutex // guards the fields below
	late   []net.Conn // made before Shut, and not yet accepted
	closed bool
	conns  map[*Conn]struct{}
	away   int                // how many of conns event streams have
	from   map[netip.Addr]int // how many of conns an address has
}

// NewListener returns a Listener in front of ln. It sets s.ConnState and s.ConnContext. Reuse may be put around it.
func NewListener(ln net.Listener, s *http.Server) *Listener {
	d := &Listener{Listener: ln, began: time.Now(), shut: make(chan struct{}), done: make(chan struct{}), conns: make(map[*Conn]struct{}), from: make(map[netip.Addr]int)}
	before := s.ConnState
	s.ConnState = func(c net.Conn, state http.ConnState) {
		switch g := ConnOf(c); state {
		case http.StateNew, http.StateHijacked:
			g.SetAway(state == http.StateHijacked)
		case http.StateActive, http.StateIdle:
			g.SetIdle(state == http.StateIdle)
		}
		if before != nil {
			before(c, state)
		}
	}
	connContext := s.ConnContext
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if connContext != nil {
			ctx = connContext(ctx, c)
		}
		return WithConn(withFraming(ctx, c), c)
	}
	return d
}

// withFraming marks the context of c, unless what is read below it is encrypted.
func withFraming(ctx context.Context, c net.Conn) context.Context {
	g := ConnOf(c)
	if g == nil {
		return ctx
	}
	if _, encrypted := c.(*tls.Conn); encrypted {
		g.markEncrypted()
		return ctx
	}
	return context.WithValue(ctx, framedKey{}, true)
}

// CountAlso has Open count connections that others know of, which are in the state StateHijacked and will be in StateNew. Call it before Accept.
func (d *Listener) CountAlso(f func() int) { d.also = f }

// Limit bounds the connections. Call it before Accept.
func (d *Listener) Limit(crowd Crowd) { d.crowd = crowd }

// LimitWrites bounds how long one write to a client may take, whatever it belongs to, where nobody else sets a deadline for it. A
// connection on which a write takes longer is closed. Call it before Accept.
func (d *Listener) LimitWrites(limit time.Duration) { d.patience = limit }

// SpareNew has CloseIdle leave connections on which nothing has come yet: their clients could not tell that from a refused connection. Call
// it before Accept.
func (d *Listener) SpareNew() { d.spareNew = true }

// now is the clock of the listener, in nanoseconds. It is never 0.
func (d *Listener) now() int64 { return int64(time.Since(d.began)) + 1 }

// Open returns the number of connections that are served or wait for their next request, from when they were made. It does not count
// those that an open event stream took over from net/http: see Handler.Streams.
func (d *Listener) Open() int {
	n := 0
	if d.isShut() { // before, a connection that is not accepted is none yet
		n = int(d.taking.Load())
	}
	if d.also != nil {
		n += d.also()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return n + len(d.late) + len(d.conns) - d.away
}

// Census is how many connections a listener has: all that it counts, of those the ones that wait for a request, the ones that were asked
// to make room, and the addresses that all come from.
type Census struct{ Conns, Idle, Leaving, Addresses int }

// Census counts the connections.
func (d *Listener) Census() Census {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := Census{Conns: len(d.conns), Leaving: int(d.leaving.Load()), Addresses: len(d.from)}
	for g := range d.conns {
		g.mu.Lock()
		if g.idle {
			c.Idle++
		}
		g.mu.Unlock()
	}
	return c
}

// Accept waits for the next connection. After Shut it returns the connections that had been made before, and then waits
// for Close, so that Serve goes on.
func (d *Listener) Accept() (net.Conn, error) {
	d.taking.Add(1)
	defer d.taking.Add(-1)
	for !d.isShut() {
		c, err := d.Listener.Accept()
		switch {
		case err == nil:
			g, from, limit, taken := d.letIn(c)
			if taken {
				d.crowd.reportFaulty(0, limits.Connections.Counted)
			}
			if limit == nil {
				return g, nil
			}
			d.crowd.reportRefused(limit, from) // first, so that who sees the end finds it counted
			_ = c.Close()
		case !d.isShut():
			return nil, err
		}
	}
	d.once.Do(d.stopListening) // another goroutine may be about to close it
	d.mu.Lock()
	if n := len(d.late); n > 0 && !d.closed {
		c := d.late[n-1]
		d.late = d.late[:n-1]
		g := d.addConn(c, d.crowd.addressOf(c))
		d.mu.Unlock()
		return g, nil
	}
	d.mu.Unlock()
	d.taking.Add(-1)
	defer d.taking.Add(1)
	<-d.done
	return nil, net.ErrClosed
}

// removeConn removes g, which is closed.
func (d *Listener) removeConn(g *Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forgetConn(g)
}

// forgetConn removes g from the connections of the listener. mu is held.
func (d *Listener) forgetConn(g *Conn) {
	if _, there := d.conns[g]; !there {
		return
	}
	delete(d.conns, g)
	if g.away {
		d.away--
	}
	if !g.from.IsValid() {
		return
	}
	if d.from[g.from]--; d.from[g.from] == 0 {
		delete(d.from, g.from)
	}
}

// CloseIdle closes the connections that wait for a request, except those on which one has come, and see SpareNew: each connection is
// looked at just before. CloseIdle does not wait until they are closed; Open tells. A request that is still on the
// network is lost, and its client does not know whether the server got it. So use CloseIdle for connections that have
// been silent for a while.
//
// http.Server.Shutdown does not look: it also closes connections whose request has come and was not yet read.
func (d *Listener) CloseIdle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for g := range d.conns {
		g.closeIfIdle(d.spareNew)
	}
}

func (d *Listener) isShut() bool {
	select {
	case <-d.shut:
		return true
	default:
		return false
	}
}

// Shut closes the listener: from now on connections are refused. Connections that had been made are served, also those
// that Accept has not returned yet, if the system can list them (Linux). Serve does not return when Shut is called.
func (d *Listener) Shut() {
	d.mu.Lock()
	if !d.isShut() {
		close(d.shut)
	}
	d.mu.Unlock()
	d.once.Do(d.stopListening)
}

func (d *Listener) stopListening() {
	late := lastCallers(d.Listener)
	_ = d.Listener.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		for _, c := range late {
			_ = c.Close()
		}
		return
	}
	d.late = late
}

// Close closes the listener and makes Accept fail. It does not close connections that were accepted.
func (d *Listener) Close() error {
	d.Shut()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	close(d.done)
	for _, c := range d.late {
		_ = c.Close()
	}
	d.late = nil
	return nil
}

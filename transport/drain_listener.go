package transport

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// DrainListener is a listener for s.Serve that can let nobody in any more while those who are in are served on: a server that
// ends, or is to be replaced, finishes what came to it. http.Server.Shutdown cannot do that, since it closes each
// connection that has no request at the moment, and with it the request that is on its way there.
//
// Make it with NewDrainListener. Its methods may be called from any goroutine.
type DrainListener struct {
	net.Listener
	open atomic.Int64 // connections that net/http has

	once sync.Once
	shut chan struct{} // closed by Shut
	done chan struct{} // closed by Close

	mu     sync.Mutex // guards what follows
	late   []net.Conn // were open when Shut came, and not yet accepted
	closed bool
	reuse  *reuse // that gives connections back, nil if none does
	conns  map[*drainConn]struct{}
}

// NewDrainListener returns a DrainListener in front of ln. It sets s.ConnState. Reuse may be put around it.
func NewDrainListener(ln net.Listener, s *http.Server) *DrainListener {
	d := &DrainListener{Listener: ln, shut: make(chan struct{}), done: make(chan struct{}), conns: make(map[*drainConn]struct{})}
	before := s.ConnState
	s.ConnState = func(c net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			d.open.Add(1)
		case http.StateClosed, http.StateHijacked:
			d.open.Add(-1)
		case http.StateActive, http.StateIdle:
			drainConnOf(c).setIdle(state == http.StateIdle)
		}
		if before != nil {
			before(c, state)
		}
	}
	return d
}

// Open returns the number of connections that are served or wait for their next request. Those of open event streams
// that were taken over from net/http are not among them: see Handler.Streams.
func (d *DrainListener) Open() int {
	n := int(d.open.Load())
	d.mu.Lock()
	l := d.reuse
	d.mu.Unlock()
	if l != nil {
		l.mu.Lock()
		n += len(l.idle)
		l.mu.Unlock()
	}
	return n
}

// Accept waits for the next connection. After Shut it returns those that had come before, and then waits for Close, so
// that Serve goes on.
func (d *DrainListener) Accept() (net.Conn, error) {
	if !d.isShut() {
		c, err := d.Listener.Accept()
		if err == nil {
			return d.track(c), nil
		}
		if !d.isShut() {
			return nil, err
		}
	}
	d.once.Do(d.close) // another goroutine may be about to
	d.mu.Lock()
	if n := len(d.late); n > 0 && !d.closed {
		c := d.late[n-1]
		d.late = d.late[:n-1]
		d.mu.Unlock()
		return d.track(c), nil
	}
	d.mu.Unlock()
	<-d.done
	return nil, net.ErrClosed
}

// track lets c in.
func (d *DrainListener) track(c net.Conn) net.Conn {
	g := &drainConn{Conn: c, listener: d, idle: true}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns[g] = struct{}{}
	return g
}

// untrack notes that g is closed.
func (d *DrainListener) untrack(g *drainConn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.conns, g)
}

// CloseIdle closes the connections that wait for a request, but those on which one has come: each is looked at just
// before. It does not wait for that; Open tells. A request that is still on the network is lost, and its client does
// not know whether it was received, so that CloseIdle is for connections that were silent for a while.
//
// http.Server.Shutdown does not look: it also closes connections whose request has come, and was not yet read.
func (d *DrainListener) CloseIdle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for g := range d.conns {
		g.closeIfIdle()
	}
}

func (d *DrainListener) isShut() bool {
	select {
	case <-d.shut:
		return true
	default:
		return false
	}
}

// Shut closes the listener: from now on connections are refused. Those that had been made are served, also the ones
// that nobody had accepted yet, where the system lets that be seen (Linux). Serve does not return for it.
func (d *DrainListener) Shut() {
	d.mu.Lock()
	if !d.isShut() {
		close(d.shut)
	}
	d.mu.Unlock()
	d.once.Do(d.close)
}

func (d *DrainListener) close() {
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

// Close closes the listener, and has Accept fail. Connections that were accepted stay.
func (d *DrainListener) Close() error {
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

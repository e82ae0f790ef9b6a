package server

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/quota"
)

// LastAccount is an account that was found for an address.
type LastAccount struct {
	Address string
	Account *quota.Account
}

// Conn is a connection that a Listener accepted. It knows whether it waits for a request, and closes itself
// on demand while it does.
//
// A server that closes a kept connection may lose a request that is on its way. Its client cannot send it again,
// because it does not know whether the server got it. Nobody sees a request that is still on the network. Most of the
// time, though, the request has arrived and only the goroutine that reads the connection has not run yet. So that
// goroutine closes the connection, after it has looked once more.
type Conn struct {
	net.Conn
	direct   io.ReadWriter // of the same
	listener *Listener
	from     netip.Addr // the address that it counts for; the zero Addr is none
	room     roomState  // what says whether it can be closed to make room
	writes   writeState
	away     bool                        // an event stream has it; guarded by the listener's mu
	over     atomic.Bool                 // a header had two lengths: nothing more is read
	Account  atomic.Pointer[LastAccount] // of its first request
	kept     atomic.Value                // what Kept returns

	mu           sync.Mutex // guards the fields below
	idle         bool       // nothing has come since the last response, or since the connection was made
	header       bool       // a header is to come: the connection is new, or a request has begun
	closing      bool       // asked to close: the read deadline has passed, whatever others set
	leaving      bool       // asked to make room
	encrypted    bool       // what is read is encrypted
	framing      framing    // of the requests
	readDeadline time.Time  // the read deadline that others set
}

// ConnOf returns the Conn below c, or nil if there is none.
func ConnOf(c net.Conn) *Conn {
	for {
		switch t := c.(type) {
		case *Conn:
			return t
		case interface{ NetConn() net.Conn }:
			c = t.NetConn()
		default:
			return nil
		}
	}
}

// SetIdle notes whether the connection waits for its next request.
func (g *Conn) SetIdle(waits bool) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !waits && g.idle { // the request came with the one before
		g.room.noteRequest(g.listener)
	}
	g.header = false
	if g.idle = waits; !waits {
		g.keepOpen()
	}
}

// SetAway notes whether an event stream has the connection.
func (g *Conn) SetAway(away bool) {
	if g == nil {
		return
	}
	d := g.listener
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, there := d.conns[g]; !there || g.away == away {
		return
	}
	if g.away = away; away {
		d.away++
	} else {
		d.away--
	}
}

// markEncrypted notes that what is read is encrypted, so that no request can be seen in it.
func (g *Conn) markEncrypted() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.encrypted = true
}

// closeIfIdle makes the connection close if it waits for a request and none has come. With spareNew it does not if none has ever come.
func (g *Conn) closeIfIdle(spareNew bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	isNew := g.idle && g.header
	if g.idle && !g.closing && !(isNew && spareNew) {
		g.closing = g.Conn.SetReadDeadline(time.Unix(1, 0)) == nil
	}
}

// keepOpen takes back what closeIfIdle asked for. mu is held.
func (g *Conn) keepOpen() {
	g.cancelLeaving()
	if g.closing {
		g.closing = false
		_ = g.Conn.SetReadDeadline(g.readDeadline)
	}
}

func (g *Conn) Read(p []byte) (int, error) {
	if g.over.Load() {
		return 0, errFraming
	}
	n, err := g.direct.Read(p)
	n, err, fault := g.judgeRead(p, n, err)
	switch fault {
	case errLateHeader:
		g.listener.crowd.reportFaulty(0, limits.HeaderTimeout.Counted)
	case errFraming:
		g.listener.crowd.reportFaulty(http.StatusBadRequest, "framing")
	}
	return n, err
}

var (
	// errLateHeader says that a header has not come in time.
	errLateHeader = errors.New("transport: the header took too long")
	// errFraming makes net/http answer 400 and close the connection.
	errFraming = errors.New("transport: the end of the request is in doubt")
)

// judgeRead judges what a read has returned: whether the connection was asked to close, and whether the header that
// comes is at fault.
func (g *Conn) judgeRead(p []byte, n int, err error) (_ int, _, fault error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n == 0 && g.closing && errors.Is(err, os.ErrDeadlineExceeded) {
		_ = g.Conn.SetReadDeadline(time.Time{})
		if n = lastLook(g.Conn, p); n == 0 {
			_ = g.Conn.Close()
			return 0, io.EOF, nil
		}
		err = nil
	}
	if n > 0 {
		whole, faulty := g.followRequests(p[:n])
		if g.idle && !g.encrypted && g.framing.awaitsRequest() {
			return n, err, nil // it still waits for a request
		}
		if g.idle {
			g.header, g.idle = true, false
			g.room.noteRequest(g.listener)
		}
		g.keepOpen()
		switch {
		case !faulty:
		case whole == 0:
			return 0, errFraming, errFraming
		default:
			return whole, nil, errFraming // what is read next is the fault
		}
	}
	if g.header && err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		g.header = false
		return n, err, errLateHeader
	}
	return n, err, nil
}

// followRequests takes what was read, and returns how much of it may be used, and whether nothing more may be read. mu is held.
func (g *Conn) followRequests(p []byte) (n int, faulty bool) {
	if g.encrypted {
		return len(p), false
	}
	if g.idle {
		g.framing.expectRequest()
	}
	n, faulty = g.framing.followBytes(p)
	if faulty {
		g.over.Store(true)
	}
	return n, faulty
}

// headerTooLarge begins the response that net/http itself writes when a header is too large.
var headerTooLarge = []byte("HTTP/1.1 431 ")

func (g *Conn) Write(p []byte) (int, error) {
	if bytes.HasPrefix(p, headerTooLarge) {
		g.listener.crowd.reportFaulty(http.StatusRequestHeaderFieldsTooLarge, limits.MaxHeader.Counted)
	}
	return g.writeInTime(p)
}

func (g *Conn) SetReadDeadline(t time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.readDeadline = t; g.closing {
		return nil
	}
	return g.Conn.SetReadDeadline(t)
}

func (g *Conn) SetDeadline(t time.Time) error {
	return errors.Join(g.SetReadDeadline(t), g.SetWriteDeadline(t))
}

func (g *Conn) Close() error {
	err := g.Conn.Close()
	g.listener.removeConn(g)
	g.mu.Lock()
	g.cancelLeaving()
	g.mu.Unlock()
	return err
}

// NetConn returns the connection below, as tls.Conn does.
func (g *Conn) NetConn() net.Conn { return g.Conn }

// CloseWrite closes the writing side, if the connection below can.
func (g *Conn) CloseWrite() error { return CloseWrite(g.Conn) }

// BeginHandler keeps the connection from being closed to make room, until EndHandler. A nil Conn does nothing.
func (g *Conn) BeginHandler() {
	if g != nil {
		g.room.handlers.Add(1)
	}
}

// EndHandler ends what BeginHandler has begun.
func (g *Conn) EndHandler() {
	if g != nil {
		g.room.handlers.Add(-1)
	}
}

// Handlers returns how many requests keep the connection's place: BeginHandler less EndHandler.
func (g *Conn) Handlers() int64 { return g.room.handlers.Load() }

// asCandidate returns the connection as one that can make room, if it can. The listener's mu is held.
func (g *Conn) asCandidate(owned int, now int64) (candidate, bool) {
	g.mu.Lock()
	idle, closing := g.idle, g.closing
	g.mu.Unlock()
	writing := g.writes.since.Load()
	waits := idle || g.Handlers() <= 0 || writing > 0 && now-writing >= int64(stalledAfter)
	return candidate{g, owned, idle, g.room.since.Load()}, waits && !closing
}

// closeForRoom makes an idle connection close to make room, and reports whether it will unless a request has come.
func (g *Conn) closeForRoom() bool {
	g.closeIfIdle(false) // a silent connection must not keep others out, new or not
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closing && !g.leaving {
		g.leaving = true
		g.listener.leaving.Add(1)
	}
	return g.closing
}

// cancelLeaving takes back that the connection makes room, or has made it. mu is held.
func (g *Conn) cancelLeaving() {
	if g.leaving {
		g.leaving = false
		g.listener.leaving.Add(-1)
	}
}

func CloseWrite(c net.Conn) error {
	if c, ok := c.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return http.ErrNotSupported
}

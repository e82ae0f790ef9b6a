package http1

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// bufferBytes is what a connection reads into, and grows to maxHead for the head of a request.
	bufferBytes = 4 << 10
	// lingerTime is how long a connection is read from after its last response, if the client may still be sending.
	lingerTime = 500 * time.Millisecond
)

// conn is one connection, served by one goroutine.
type conn struct {
	front    *Front
	rwc      net.Conn
	ctx      context.Context
	template *http.Request
	head     head

	buf              []byte // what was read and not used is buf[from:to]
	from             int
	to               int
	until            time.Time   // the read deadline, zero for none
	readDeadlineSet  atomic.Bool // a handler has set another one
	writeDeadlineSet atomic.Bool // a handler has set a deadline for writes
	serving          atomic.Bool // a request is being served, or has begun to come
	headers          http.Header // of responses, reused
	blanks           int         // how many CR and LF may come before the next request
	away             bool        // somebody else has it
	cut              error       // why the head was not read on

	mu       sync.Mutex // guards the rest
	current  *call
	watching chan struct{} // closed when the goroutine ends that watches; nil if there is none
	stopping bool
	ahead    []byte // what that has read, at most a byte
}

var (
	// errOdd says that an http.Server is to serve the connection.
	errOdd = errors.New("http1: not a plain request")
	past   = time.Unix(1, 0)
)

// serve serves requests until the connection ends or somebody else has it.
func (c *conn) serve() {
	defer c.end()
	s := c.front
	if limit := s.hs.ReadHeaderTimeout; limit > 0 {
		c.setUntil(time.Now().Add(limit))
	}
	for first := true; ; first = false {
		n, err := c.readHead(first)
		if err == nil && !c.head.read(c.buf[c.from:c.from+n]) {
			err = errOdd
		}
		if errors.Is(err, errOdd) {
			c.away = true
			s.handing.Add(1)
			s.reportState(c.rwc, http.StateHijacked)
			s.forget(c)
			odd := NewAhead(c.rwc, append([]byte(nil), c.buf[c.from:c.to]...))
			odd.err = c.cut
			s.handToServer(odd)
			return
		}
		if err != nil {
			return
		}
		c.from += n
		if c.blanks = 0; c.head.method == http.MethodPost {
			c.blanks = mostBlanks
		}
		s.reportState(c.rwc, http.StateActive)
		if !c.serveRequest() {
			return
		}
		c.skipBlanks()
		c.serving.Store(c.from < c.to)
		s.reportState(c.rwc, http.StateIdle)
		if s.ending.Load() {
			c.linger()
			return
		}
	}
}

// end closes the connection, unless somebody else has it. It runs also if a handler ends its goroutine.
func (c *conn) end() {
	if c.away {
		return
	}
	_ = c.rwc.Close()
	c.front.reportState(c.rwc, http.StateClosed)
	c.front.forget(c)
}

// mostBlanks is how many CR and LF are ignored after the body of a POST, where some clients send an empty line (RFC 9112, 2.2):
// as many as net/http ignores.
const mostBlanks = 4

// skipBlanks ignores what has come of an empty line before the next request.
func (c *conn) skipBlanks() {
	for c.blanks > 0 && c.from < c.to && (c.buf[c.from] == '\r' || c.buf[c.from] == '\n') {
		c.from++
		c.blanks--
	}
	if c.from < c.to {
		c.blanks = 0
	}
}

// readHead reads until the head of a request is there, and returns its length.
func (c *conn) readHead(first bool) (int, error) {
	limits := c.front.hs
	most := maxHead
	if limit := limits.MaxHeaderBytes; limit > 0 {
		most = min(most, limit)
	}
	if c.from == c.to {
		c.shrinkBuffer()
	}
	switch {
	case first:
	case c.from == c.to:
		c.setIdleDeadline(limits.IdleTimeout)
	case c.readDeadlineSet.Swap(false): // the deadline was for the request before
		c.setUntil(time.Time{})
	}
	if n := headLength(c.buf[c.from:c.to]); n > 0 {
		c.serving.Store(true)
		return n, tooLong(n, most)
	}
	if c.from > 0 {
		c.to = copy(c.buf, c.buf[c.from:c.to])
		c.from = 0
	}
	begun := first // the time for the header runs from the beginning of the connection
	for {
		if c.to > 0 {
			if !c.head.canBegin(c.buf[:c.to]) {
				return 0, errOdd
			}
			if !begun {
				begun = true
				c.setHeadDeadline(limits.ReadHeaderTimeout)
			}
		}
		if c.to == len(c.buf) {
			if len(c.buf) >= maxHead {
				return 0, errOdd
			}
			c.buf = append(c.buf, make([]byte, len(c.buf))...)
		}
		before := c.to
		n, err := c.rwc.Read(c.buf[c.to:])
		c.to += n
		if c.blanks > 0 {
			c.skipBlanks()
			c.to, c.from = copy(c.buf, c.buf[c.from:c.to]), 0
		}
		c.serving.Store(c.to > 0)
		if n := headLength(c.buf[max(before-3, 0):c.to]); n > 0 {
			n += max(before-3, 0)
			return n, tooLong(n, most)
		}
		switch {
		case err == nil:
		case errors.Is(err, net.ErrClosed), c.to == 0:
			return 0, err
		default: // the head was cut off, or what is below has refused it, or it took too long, and net/http says so
			c.cut = err
			return 0, errOdd
		}
	}
}

// shrinkBuffer gives back what a large head has needed, when nothing of it is left.
func (c *conn) shrinkBuffer() {
	if len(c.buf) > bufferBytes {
		c.buf, c.head = make([]byte, bufferBytes), head{}
	}
	c.from, c.to = 0, 0
}

// tooLong returns errOdd for a head that is too long.
func tooLong(n, most int) error {
	if n > most {
		return errOdd
	}
	return nil
}

// setIdleDeadline bounds the wait for the next request. The deadline is only moved when it must be: that costs as much as a read.
func (c *conn) setIdleDeadline(limit time.Duration) {
	dated := c.readDeadlineSet.Swap(false)
	now := time.Now()
	switch {
	case limit <= 0:
		if dated || !c.until.IsZero() {
			c.setUntil(time.Time{})
		}
	case dated, c.until.IsZero(), c.until.Sub(now) < limit-limit/8, c.until.Sub(now) > limit:
		c.setUntil(now.Add(limit))
	}
}

// setHeadDeadline bounds the time for the rest of a head.
func (c *conn) setHeadDeadline(limit time.Duration) {
	switch {
	case limit > 0:
		c.setUntil(time.Now().Add(limit))
	case !c.until.IsZero():
		c.setUntil(time.Time{})
	}
}

func (c *conn) setUntil(t time.Time) {
	c.until = t
	_ = c.rwc.SetReadDeadline(t)
}

// Read reads the body of a request.
func (c *conn) Read(p []byte) (int, error) {
	if c.from < c.to {
		n := copy(p, c.buf[c.from:c.to])
		c.from += n
		return n, nil
	}
	if !c.until.IsZero() && !c.readDeadlineSet.Load() { // the deadline was that of the wait for the request
		c.setUntil(time.Time{})
	}
	return c.rwc.Read(p)
}

// serveRequest serves one request, and reports whether the connection goes on.
func (c *conn) serveRequest() bool {
	x, r := c.newCall(&c.head)
	c.mu.Lock()
	c.current = x
	c.mu.Unlock()
	whole := c.runHandler(x, r)
	if x.hijacked {
		return false
	}
	goesOn := whole && x.finishResponse()
	c.stopWatching()
	if c.writeDeadlineSet.Swap(false) {
		_ = c.rwc.SetWriteDeadline(time.Time{})
	}
	if !goesOn && whole && x.err == nil {
		c.linger()
	}
	x.releaseBuffers()
	return goesOn
}

// ending reports whether the connection is closed after the response that is under way.
func (c *conn) ending() bool { return c.front.ending.Load() }

// newCall returns a call, and the request as its handler sees it.
func (c *conn) newCall(h *head) (*call, *http.Request) {
	x := &call{conn: c, url: h.url}
	x.ctx.Context, x.ctx.waits, x.ctx.watcher = c.ctx, &c.front.waits, x
	x.response.begin(h.last)
	r := c.template.WithContext(&x.ctx)
	r.Method, r.URL, r.RequestURI, r.Host, r.Header = h.method, &x.url, h.target, h.host, h.header
	r.ContentLength, r.Close, r.Body = h.length, h.last, http.NoBody
	if h.length > 0 {
		x.body.from, x.body.ctx, x.body.left = c, &x.ctx, h.length
		r.Body = &x.body
	} else {
		x.body.whole.Store(true)
	}
	return x, r
}

// runHandler runs the handler. It is false if that panicked.
func (c *conn) runHandler(x *call, r *http.Request) (whole bool) {
	defer func() {
		x.ctx.end()
		if whole {
			return
		}
		if v := recover(); v != nil && v != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
			c.front.logf("http: panic serving %v: %v\n%s", r.RemoteAddr, v, debug.Stack())
		}
	}()
	c.front.hs.Handler.ServeHTTP(x, r)
	return true
}

// linger closes the connection's writing side, and waits for the client to close it. Otherwise what the client has sent meanwhile would
// reset the connection before the client has read the response (RFC 9112, 9.6).
func (c *conn) linger() {
	if w, ok := c.rwc.(interface{ CloseWrite() error }); ok && w.CloseWrite() == nil {
		_ = c.rwc.SetReadDeadline(time.Now().Add(lingerTime))
		_, _ = io.Copy(io.Discard, c.rwc)
	}
}

// responseHeader returns an empty header.
func (c *conn) responseHeader() http.Header {
	if c.headers == nil || len(c.headers) > maxFields {
		c.headers = make(http.Header, 8)
	}
	clear(c.headers)
	return c.headers
}

// watchClient begins to read the connection while a call goes on, to notice that the client is gone. It is false if that cannot be yet: the body
// has not come whole.
func (c *conn) watchClient(x *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.current != x || c.watching != nil || c.stopping:
		return true
	case !x.body.whole.Load():
		return false
	}
	done := make(chan struct{})
	c.watching = done
	go func() {
		defer close(done)
		if !c.until.IsZero() {
			c.mu.Lock()
			if !c.stopping {
				c.setUntil(time.Time{})
			}
			c.mu.Unlock()
		}
		var b [1]byte
		n, err := c.rwc.Read(b[:])
		c.mu.Lock()
		defer c.mu.Unlock()
		switch {
		case n == 1: // the next request, which waits its turn
			c.ahead = append(c.ahead, b[0])
		case err != nil && !c.stopping:
			go x.ctx.end()
		}
	}()
	return true
}

// stopWatching ends the watch of a call that is over.
func (c *conn) stopWatching() {
	c.mu.Lock()
	c.current = nil
	done := c.watching
	if done == nil {
		c.mu.Unlock()
		return
	}
	c.stopping = true
	_ = c.rwc.SetReadDeadline(past)
	c.mu.Unlock()
	<-done
	c.mu.Lock()
	c.watching, c.stopping = nil, false
	ahead := c.ahead
	c.ahead = nil
	c.mu.Unlock()
	c.setUntil(time.Time{})
	if c.from == c.to {
		c.from, c.to = 0, 0
	}
	if c.to+len(ahead) > len(c.buf) {
		c.buf = append(c.buf, make([]byte, len(c.buf))...)
	}
	c.to += copy(c.buf[c.to:], ahead)
}

// takeOver gives the connection to its handler, and returns what was read and not used. The Front forgets it at once: a handler may go on
// for long after that, and nobody waits for it. The context of the request, which may live as long, keeps no buffers.
func (c *conn) takeOver() (rest []byte) {
	c.stopWatching()
	c.away = true
	c.front.reportState(c.rwc, http.StateHijacked)
	c.front.forget(c)
	_ = c.rwc.SetDeadline(time.Time{})
	rest = append([]byte(nil), c.buf[c.from:c.to]...)
	c.buf, c.from, c.to = nil, 0, 0
	c.head, c.headers, c.template = head{}, nil, nil
	return rest
}

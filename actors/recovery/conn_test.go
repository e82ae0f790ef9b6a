package recovery

import (
	"context"
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
)

// conn is one HTTP exchange. What the process writes after its death, or after the
// client has gone, is lost.
type conn struct {
	p    *process
	hole int           // after this many events the rest is lost on the way; negative for none
	slow time.Duration // time until the client notices that

	mu      sync.Mutex // guards the rest
	status  int        // of a plain answer
	body    []byte
	session string
	open    bool // the response has begun as a stream
	ended   bool // the server has ended it, in order
	over    bool
	queue   []event // the client has not read these
	sent    int
	gone    []func()
	wake    chan struct{}
}

// event is one event of a stream as a client gets it.
type event struct {
	id   string
	data []byte // empty in a priming event
}

var _ actors.Conn = (*conn)(nil)

func newConn(p *process) *conn { return &conn{p: p, hole: -1, wake: make(chan struct{}, 1)} }

func (c *conn) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// reaches reports whether what is written now gets to the client. The caller holds mu.
func (c *conn) reaches() bool { return !c.over && !c.p.dead.Load() }

func (c *conn) SetSession(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = id
}

func (c *conn) Answer(status int, body []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.status != 0 || c.open || !c.reaches() {
		return false
	}
	c.status, c.body = status, append([]byte{}, body...)
	c.signal()
	return true
}

func (c *conn) Accepted() { c.Answer(202, nil) }

func (c *conn) Reject(status, code int, message string, data, id []byte, _ time.Duration) {
	c.Answer(status, codec.AppendError(nil, id, code, message, data))
}

func (c *conn) Open() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.status != 0 || c.open || !c.reaches() {
		return false
	}
	c.open = true
	c.signal()
	return true
}

func (c *conn) Event(id string, _ int, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.open || c.ended || !c.reaches() {
		return
	}
	c.sent++
	if c.hole >= 0 && c.sent > c.hole {
		if c.sent == c.hole+1 {
			time.AfterFunc(c.slow, c.breaks)
		}
		return
	}
	c.queue = append(c.queue, event{id, append([]byte(nil), data...)})
	c.signal()
}

func (c *conn) Comment() {}
func (c *conn) Flush()   {}

func (c *conn) Finish() {
	if !c.p.dead.Load() {
		c.end(true)
	}
}

func (c *conn) Cut() {
	if !c.p.dead.Load() {
		c.end(false)
	}
}

// breaks ends the connection as if it broke, which neither side wants.
func (c *conn) breaks() { c.end(false) }

func (c *conn) end(inOrder bool) {
	c.mu.Lock()
	if c.over {
		c.mu.Unlock()
		return
	}
	c.over = true
	c.ended = inOrder && (c.hole < 0 || c.sent <= c.hole)
	gone := c.gone
	c.gone = nil
	c.signal()
	c.mu.Unlock()
	for _, f := range gone {
		go f()
	}
}

func (c *conn) Room(context.Context) error { return nil }

func (c *conn) Gone(f func()) {
	c.mu.Lock()
	over := c.over
	if !over {
		c.gone = append(c.gone, f)
	}
	c.mu.Unlock()
	if over {
		go f()
	}
}

// wait waits until done returns true, or until the connection or the history is over,
// and returns what done says then. It calls done with mu held.
func (c *conn) wait(until <-chan struct{}, done func() bool) bool {
	for {
		c.mu.Lock()
		ok, over := done(), c.over
		c.mu.Unlock()
		if ok || over {
			return ok
		}
		select {
		case <-c.wake:
		case <-until:
			return false
		}
	}
}

// begun waits until the response has begun.
func (c *conn) begun(until <-chan struct{}) bool {
	return c.wait(until, func() bool { return c.open || c.status != 0 })
}

// next returns the next event; ok is false when no event comes any more.
func (c *conn) next(until <-chan struct{}) (e event, ok bool) {
	ok = c.wait(until, func() bool {
		if len(c.queue) == 0 {
			return false
		}
		e, c.queue = c.queue[0], c.queue[1:]
		return true
	})
	return e, ok
}

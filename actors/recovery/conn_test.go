package recovery

import (
	"context"
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/refusal"
)

// conn is one HTTP exchange. What the process writes after its death, or after the
// client has gone, is lost. What it writes while it stands still is written when it goes on.
type conn struct {
	p    *process
	hole int           // after this many events the rest is lost on the way; negative for none
	slow time.Duration // time until the client notices that

	mu      sync.Mutex // guards the rest
	status  int        // of a plain answer
	body    []byte
	session string
	open    bool      // the response has begun as a stream
	since   time.Time // when that was
	ended   bool      // the server has ended it, in order
	over    bool
	queue   []event // the client has not read these
	sent    int
	gone    []func()
	wake    chan struct{}
	held    []func()      // what is to be written when the process goes on
	patient time.Duration // for how long the client waits for anything to come; 0 is without end
	giveUp  *time.Timer   // ends that; nil: it waits without end
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

// waits has the client give the connection up when nothing has come over it for d.
func (c *conn) waits(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.patient, c.giveUp = d, time.AfterFunc(d, func() {
		c.p.w.judge.Count("connections given up")
		c.breaks()
	})
	if c.over || c.status != 0 { // meanwhile
		c.giveUp.Stop()
	}
}

// write has f write to the connection, and reports whether the process may think that it has. It calls f with mu held.
func (c *conn) write(f func() bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.held) > 0 || c.p.stands() != nil {
		c.held = append(c.held, func() { f() })
		return true
	}
	return f()
}

// goesOn writes what the process wrote while it stood still.
func (c *conn) goesOn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.held) > 0 {
		c.held[0]()
		c.held = c.held[1:]
	}
}

// came notes that the client got something. The caller holds mu.
func (c *conn) came() {
	if c.giveUp != nil {
		c.giveUp.Reset(c.patient)
	}
	c.signal()
}

func (c *conn) SetSession(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = id
}

func (c *conn) Answer(status int, body []byte) bool {
	body = append([]byte{}, body...)
	return c.write(func() bool {
		if c.status != 0 || c.open || !c.reaches() {
			return false
		}
		c.status, c.body = status, body
		if c.giveUp != nil {
			c.giveUp.Stop()
		}
		c.signal()
		return true
	})
}

func (c *conn) Accepted() { c.Answer(202, nil) }

func (c *conn) Reject(no *refusal.Refusal) {
	c.Answer(no.Status, codec.AppendError(nil, no.ID, no.Code, no.Text, no.Data))
}

func (c *conn) Open() bool {
	return c.write(func() bool {
		if c.status != 0 || c.open || !c.reaches() {
			return false
		}
		c.open, c.since = true, time.Now()
		c.came()
		return true
	})
}

func (c *conn) Event(id string, _ int, data []byte) {
	data = append([]byte(nil), data...)
	c.write(func() bool {
		if !c.open || c.ended || !c.reaches() {
			return false
		}
		c.sent++
		if c.hole >= 0 && c.sent > c.hole {
			if c.sent == c.hole+1 {
				time.AfterFunc(c.slow, c.breaks)
			}
			return false
		}
		c.queue = append(c.queue, event{id, data})
		c.came()
		return true
	})
}

func (c *conn) Comment() {
	c.write(func() bool {
		if c.open && c.reaches() && (c.hole < 0 || c.sent <= c.hole) {
			c.came()
		}
		return true
	})
}

func (c *conn) Flush() {}

func (c *conn) Finish() { c.ends(true) }
func (c *conn) Cut()    { c.ends(false) }

// ends ends the response.
func (c *conn) ends(inOrder bool) {
	c.write(func() bool {
		if !c.p.dead.Load() {
			c.end(inOrder)
		}
		return true
	})
}

// breaks ends the connection as if it broke, which neither side wants.
func (c *conn) breaks() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end(false)
}

// end ends the connection. The caller holds mu.
func (c *conn) end(inOrder bool) {
	if c.over {
		return
	}
	c.over = true
	c.ended = inOrder && (c.hole < 0 || c.sent <= c.hole)
	if c.giveUp != nil {
		c.giveUp.Stop()
	}
	for _, f := range c.gone {
		go f()
	}
	c.gone = nil
	c.signal()
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

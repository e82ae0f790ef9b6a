package kernel

import (
	"fmt"
	"runtime/debug"
	"time"
)

// PanicLimit is the number of panics within a minute that ends an actor.
const PanicLimit = 3

// panicked keeps a panic of Receive on m inside the actor.
func (c *Actor) panicked(m, r any) {
	c.k.panics.Add(1)
	c.k.log.Error("actor panicked", "actor", c.pid.Id, "message", fmt.Sprintf("%T", m), "panic", r, "stack", string(debug.Stack()))
	if c.panics == nil {
		c.panics = new(panicWindow)
	}
	last := c.panics.hit(time.Now())
	defer func() {
		if r := recover(); r != nil {
			c.k.log.Error("actor panicked while failing", "actor", c.pid.Id, "panic", r)
		}
		if last {
			c.Stop()
		}
	}()
	c.b.Failed(m, last)
}

// Contain runs f and returns normally when f panics: the panic is logged and counted
// ([Kernel.Panics]), and does not bring the actor closer to [PanicLimit]. An actor uses
// it for steps of which one must not keep the next from happening.
func (c *Actor) Contain(f func()) {
	defer func() {
		if r := recover(); r != nil {
			c.k.panics.Add(1)
			c.k.log.Error("actor panicked", "actor", c.pid.Id, "panic", r, "stack", string(debug.Stack()))
		}
	}()
	f()
}

// panicWindow counts panics within a minute. Only the actor's own turn uses it.
type panicWindow struct {
	n     int
	since time.Time
}

// hit counts a panic, and reports whether it reaches PanicLimit.
func (w *panicWindow) hit(now time.Time) bool {
	if w.n == 0 || now.Sub(w.since) > time.Minute {
		w.n, w.since = 0, now
	}
	w.n++
	return w.n >= PanicLimit
}

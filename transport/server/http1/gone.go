package http1

import (
	"context"
	"sync"
	"time"
)

// callContext is the context of a request: done when the client is gone, or when the handler has returned.
type callContext struct {
	context.Context // of the connection
	waits           *waits
	watcher         watcher

	mu      sync.Mutex // guards the rest
	done    chan struct{}
	err     error
	funcs   []*func()
	waiting bool // it is, or was, among waits
	asked   bool // somebody has called Err

	// waits guards these.
	listed     bool
	since      time.Time
	prev, next *callContext
}

// watcher has a connection watched.
type watcher interface {
	// watchClient begins to watch for the end of the client, which ends the context. It is false if that cannot be yet.
	watchClient() bool
}

// Deadline is that of the connection's context.
func (c *callContext) Deadline() (time.Time, bool) { return c.Context.Deadline() }

// Done implements context.Context.
func (c *callContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.err != nil {
			close(c.done)
		} else {
			c.registerWait()
		}
	}
	return c.done
}

// Err implements context.Context. Whoever asks again and again, as a loop does, waits.
func (c *callContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil && c.asked {
		c.registerWait()
	}
	c.asked = true
	return c.err
}

// AfterFunc calls f once on a goroutine of its own when the context is done. Package context uses it instead of a goroutine. stop reports
// whether f will not be called.
func (c *callContext) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		go f()
		return func() bool { return false }
	}
	p := &f
	c.funcs = append(c.funcs, p)
	c.registerWait()
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for i, q := range c.funcs {
			if q == p {
				c.funcs[i] = c.funcs[len(c.funcs)-1]
				c.funcs = c.funcs[:len(c.funcs)-1]
				return true
			}
		}
		return false
	}
}

// registerWait has the client's connection watched, unless the request is over soon. The lock is held.
func (c *callContext) registerWait() {
	if !c.waiting {
		c.waiting = true
		c.waits.add(c)
	}
}

// end makes the context done.
func (c *callContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = context.Canceled
	if c.done != nil {
		close(c.done)
	}
	for _, f := range c.funcs {
		go (*f)()
	}
	c.funcs = nil
	if c.waiting {
		c.waits.drop(c)
	}
}

const (
	// lookEvery is how often watchOldCalls looks for calls that somebody waits for.
	lookEvery = 25 * time.Millisecond
	// lookAfter is how old a call must be then: most are over before that.
	lookAfter = lookEvery / 2
)

// waits are the contexts for whose end somebody waits, and whose connections are not watched yet, oldest first.
type waits struct {
	mu          sync.Mutex // guards the rest, and the links and since of the contexts
	first, last *callContext
	looking     bool
}

func (w *waits) add(c *callContext) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.listed, c.since, c.prev = true, time.Now(), w.last
	if w.last != nil {
		w.last.next = c
	} else {
		w.first = c
	}
	w.last = c
	if !w.looking {
		w.looking = true
		time.AfterFunc(lookEvery, w.watchOldCalls)
	}
}

func (w *waits) drop(c *callContext) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.listed {
		w.unlink(c)
	}
}

// unlink takes a call out. The lock is held.
func (w *waits) unlink(c *callContext) {
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		w.first = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	} else {
		w.last = c.prev
	}
	c.prev, c.next, c.listed = nil, nil, false
}

// watchOldCalls has those watch their connections that go on for long.
func (w *waits) watchOldCalls() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for c := w.first; c != nil && now.Sub(c.since) >= lookAfter; {
		next := c.next
		if c.watcher.watchClient() {
			w.unlink(c)
		}
		c = next
	}
	if w.looking = w.first != nil; w.looking {
		time.AfterFunc(lookEvery, w.watchOldCalls)
	}
}

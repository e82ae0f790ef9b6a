package kernel

import (
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// Kind says what an actor stands for: it is the place of a name among those that
// NewKernel was given.
type Kind uint8

// Kernel is the actor system of one process. Make one with NewKernel; its
// methods are safe for concurrent use.
type Kernel struct {
	sys    *actor.ActorSystem
	log    *slog.Logger
	kinds  []string
	live   []atomic.Int64 // by kind
	panics atomic.Int64
}

// NewKernel starts an actor system. A nil logger discards. The kinds are the names,
// in metrics and logs, of what actors may stand for; Kind(0) is the first.
func New(log *slog.Logger, kinds ...string) *Kernel {
	if log == nil {
		log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	// The library logs its own start, and dead letters that are of no concern:
	// what matters is logged here.
	quiet := actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) })
	return &Kernel{sys: actor.NewActorSystem(quiet), log: log, kinds: kinds, live: make([]atomic.Int64, len(kinds))}
}

// Live is the number of actors of a kind that stand for something now; pooled
// ones at rest do not count.
func (k *Kernel) Live(kind Kind) int64 { return k.live[kind].Load() }

// Panics is the number of panics contained so far.
func (k *Kernel) Panics() int64 { return k.panics.Load() }

// Kinds calls f for every kind with its live count.
func (k *Kernel) Kinds(f func(kind string, live int64)) {
	for i, kind := range k.kinds {
		f(kind, k.live[i].Load())
	}
}

// CountPanic counts a panic that was contained outside an actor's turn.
func (k *Kernel) CountPanic() { k.panics.Add(1) }

// start makes c an actor with a PID.
func (k *Kernel) Start(c *Actor, kind Kind, b Behaviour) {
	c.k, c.kind, c.b = k, kind, b
	c.pid, _ = k.sys.ProcessRegistry.Add((*process)(c), k.kinds[kind]+k.sys.ProcessRegistry.NextId())
	k.live[kind].Add(1)
}

// rest has c not count as live any more: it stands for nothing and keeps its PID,
// until wake.
func (c *Actor) Rest() { c.k.live[c.kind].Add(-1) }

// wake has c, which was at rest, count as live again.
func (c *Actor) Wake() { c.k.live[c.kind].Add(1) }

// stop ends c: later messages are refused, and so is what waits in its mailbox. An
// actor at rest is woken first.
func (c *Actor) Stop() {
	k := c.k
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	left := c.queue
	c.queue = nil
	c.mu.Unlock()
	k.sys.ProcessRegistry.Remove(c.pid)
	k.live[c.kind].Add(-1)
	c.refuse(left)
}

// stopIdle is stop for an actor that ends by itself, in its own turn. It reports
// false, and c goes on, when messages wait in the mailbox: whoever sent them was
// told that c has them.
func (c *Actor) StopIdle() bool {
	c.mu.Lock()
	waiting := len(c.queue) > 0
	if waiting || c.closed {
		c.mu.Unlock()
		return !waiting
	}
	c.closed = true
	c.mu.Unlock()
	k := c.k
	k.sys.ProcessRegistry.Remove(c.pid)
	k.live[c.kind].Add(-1)
	return true
}

// contain keeps a panic inside the actor that had it.
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

// contained runs f, and keeps a panic of it from what comes after it.
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

// hit reports whether this panic is the one too many.
func (w *panicWindow) hit(now time.Time) bool {
	if w.n == 0 || now.Sub(w.since) > time.Minute {
		w.n, w.since = 0, now
	}
	w.n++
	return w.n >= PanicLimit
}

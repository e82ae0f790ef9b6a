package kernel

import (
	"errors"
	"strconv"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// ErrStopped reports a message to an actor that has stopped. The message was not
// handled.
var ErrStopped = errors.New("kernel: the actor has stopped")

// ErrOverloaded reports a [Bulk] message to an actor whose mailbox is full. The
// message was not handled, and may be sent again later.
var ErrOverloaded = errors.New("kernel: mailbox full")

const (
	// mailboxCap is the number of waiting messages from which a mailbox refuses bulk
	// messages. Other messages are few: each belongs to something that its owner has
	// counted, and a sender that lost one might wait forever.
	mailboxCap = 16384
	// turnBudget is the number of messages that a sender handles on behalf of others
	// before a new goroutine handles the rest.
	turnBudget = 64
)

// Behaviour is what an actor does with its messages. The kernel calls it for one
// message at a time, on whichever goroutine runs the actor, which may be a sender's:
// its methods must not block and must not take a lock that a sender may hold.
type Behaviour interface {
	// Receive handles one message.
	Receive(m any)
	// Failed follows a panic of Receive on m. It completes or refuses what others
	// wait for. The actor then goes on with its next message, unless last is set: it
	// ends when Failed returns, and Failed ends what depends on it.
	Failed(m any, last bool)
}

// Bulk is a message whose sender does not wait and of which there may be any number, such
// as an announcement.
type Bulk interface {
	// Bulk reports whether a full mailbox refuses the message, with [ErrOverloaded].
	Bulk() bool
}

// Refusable is a message whose sender waits for its outcome.
type Refusable interface {
	// Refused takes the place of Receive when the actor stops while the message is in
	// its mailbox. It may run on any goroutine.
	Refused(error)
}

// Actor is the kernel's part of an actor: its name and its mailbox. A type that is an
// actor embeds it and passes it to [Kernel.Start] before any other use; the zero
// value is not usable, and an Actor must not be copied. The methods are safe for
// concurrent use.
type Actor struct {
	k    *Kernel
	key  string
	kind Kind
	b    Behaviour

	mu      sync.Mutex // guards the fields below; never held over Receive
	running bool
	closed  bool
	queue   []any

	failures *actor.RestartStatistics // nil before the first panic; only for the actor's turn
}

// Start makes c an idle actor with an empty mailbox; b is its behaviour, usually the type
// that embeds c. key tells the actor from others of its kind in the log; an empty key gets a
// unique number. Call Start once per Actor, before its other methods. It panics for a kind
// that has no name in the [Config].
func (k *Kernel) Start(c *Actor, kind Kind, key string, b Behaviour) {
	if key == "" {
		key = strconv.FormatUint(k.named.Add(1), 36)
	}
	c.k, c.key, c.kind, c.b = k, key, kind, b
	k.live[kind].Add(1)
}

// Key tells the actor from others of its kind: see [Kernel.Start].
func (c *Actor) Key() string { return c.key }

// Post sends m to the actor. An idle actor handles m on the calling goroutine before Post
// returns; a busy one finds m in its mailbox. Post fails with [ErrStopped] when the actor
// has stopped, and with [ErrOverloaded] when m is [Bulk] and the mailbox is full. After an
// error neither Receive nor Refused is called for m.
func (c *Actor) Post(m any) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return ErrStopped
	}
	if c.running {
		if len(c.queue) >= mailboxCap {
			if b, ok := m.(Bulk); ok && b.Bulk() {
				c.mu.Unlock()
				return ErrOverloaded
			}
		}
		c.queue = append(c.queue, m)
		waiting := len(c.queue)
		c.mu.Unlock()
		c.k.waits(waiting)
		return nil
	}
	c.running = true
	c.mu.Unlock()
	c.turn(m)
	c.drain(turnBudget)
	return nil
}

// drain handles waiting messages, and leaves those beyond budget to a new goroutine; a
// budget of 0 is unlimited.
func (c *Actor) drain(budget int) {
	for n := 0; ; n++ {
		c.mu.Lock()
		if len(c.queue) == 0 {
			c.running = false
			c.mu.Unlock()
			return
		}
		if budget > 0 && n == budget {
			c.mu.Unlock()
			go c.drain(0)
			return
		}
		m := c.queue[0]
		c.queue[0] = nil
		if c.queue = c.queue[1:]; len(c.queue) == 0 {
			c.queue = nil
		}
		c.mu.Unlock()
		c.turn(m)
	}
}

func (c *Actor) turn(m any) {
	defer func() {
		if r := recover(); r != nil {
			c.panicked(m, r)
		}
	}()
	c.b.Receive(m)
}

// Stop ends the actor. It refuses the messages in the mailbox on the calling
// goroutine, and later ones fail with [ErrStopped]; a message that is being handled is
// completed. A second Stop does nothing. An actor at rest has to be woken first.
func (c *Actor) Stop() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	left := c.queue
	c.queue = nil
	c.mu.Unlock()
	c.k.live[c.kind].Add(-1)
	for _, m := range left {
		if r, ok := m.(Refusable); ok {
			r.Refused(ErrStopped)
		}
	}
}

// StopIdle ends the actor if its mailbox is empty, and reports whether it has ended.
// The actor itself calls it, in its own turn: it must not refuse messages that Post
// has accepted from senders that expect it to live.
func (c *Actor) StopIdle() bool {
	c.mu.Lock()
	waiting := len(c.queue) > 0
	if waiting || c.closed {
		c.mu.Unlock()
		return !waiting
	}
	c.closed = true
	c.mu.Unlock()
	c.k.live[c.kind].Add(-1)
	return true
}

// Stopped reports whether the actor has ended.
func (c *Actor) Stopped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// Rest takes the actor out of the count of live actors, for an owner that keeps it for later use. The actor still takes messages.
func (c *Actor) Rest() { c.k.live[c.kind].Add(-1) }

// Wake ends what Rest began.
func (c *Actor) Wake() { c.k.live[c.kind].Add(1) }

package kernel

import (
	"errors"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// ErrStopped reports a message to an actor that has stopped: not delivered.
var ErrStopped = errors.New("kernel: stopped")

// ErrOverloaded reports a message to an actor whose mailbox is full: not
// delivered, and worth another try later.
var ErrOverloaded = errors.New("kernel: mailbox full")

const (
	// mailboxCap bounds the bulk messages that may wait for one actor: those that
	// nobody waits for. The others are few: each belongs to a request, a
	// connection or a write that has been counted, and a lost one could leave
	// somebody waiting for ever.
	mailboxCap = 16384
	// turnBudget is how many messages a sender handles on behalf of others
	// before the rest moves to a goroutine of its own.
	turnBudget = 64
	// PanicLimit is how many panics in a minute an actor survives.
	PanicLimit = 3
)

// behaviour is what an actor does with one message. It runs one message at a
// time and never blocks.
type Behaviour interface {
	Receive(m any)
	// failed is told that receive panicked on m; the actor goes on unless
	// last is set, when it has to end what depends on it.
	Failed(m any, last bool)
}

// cell is an actor: a protoactor process with a mailbox of its own that is run
// by whoever finds it idle, so that a message to an idle actor costs no
// hand-off. The zero value is not usable; Kernel.start makes one.
type Actor struct {
	k    *Kernel
	pid  *actor.PID
	kind Kind
	b    Behaviour

	mu      sync.Mutex // guards the fields below; never held over receive
	running bool
	closed  bool
	queue   []any
	panics  *panicWindow // nil before the first
}

// process is a cell as the library has it in its registry of PIDs.
type process Actor

var _ actor.Process = (*process)(nil)

// SendUserMessage delivers a message that came by PID.
func (p *process) SendUserMessage(_ *actor.PID, message any) {
	c := (*Actor)(p)
	_, m, sender := actor.UnwrapEnvelope(message)
	if sender != nil {
		m = &Asked{Message: m, sender: sender, k: c.k}
	}
	err := c.Post(m)
	if err != nil && sender != nil {
		c.k.sys.Root.Send(sender, err)
	}
}

// SendSystemMessage honours a stop; the rest of the system messages concern
// supervision, which these actors do without.
func (p *process) SendSystemMessage(_ *actor.PID, message any) {
	if _, ok := message.(*actor.Stop); ok {
		(*Actor)(p).Stop()
	}
}

// Stop ends the actor; what waits in its mailbox is refused.
func (p *process) Stop(*actor.PID) { (*Actor)(p).Stop() }

// post hands m to the actor. It runs the actor on the calling goroutine when it
// is idle, and leaves m in the mailbox when it is busy.
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
		c.mu.Unlock()
		return nil
	}
	c.running = true
	c.mu.Unlock()
	c.turn(m)
	c.drain(turnBudget)
	return nil
}

// drain handles what has gathered meanwhile; budget 0 means all of it.
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

// stopped reports that the actor has ended.
func (c *Actor) Stopped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// refuse tells what still waits that it will not be handled.
func (c *Actor) refuse(left []any) {
	for _, m := range left {
		if r, ok := m.(Refusable); ok {
			r.Refused(ErrStopped)
		}
	}
}

// bulk is a message of which there may be any number. A full mailbox refuses it.
type Bulk interface{ Bulk() bool }

// refusable is a message whose sender waits: it learns that the actor stopped
// before its turn.
type Refusable interface{ Refused(error) }

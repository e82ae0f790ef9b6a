package kernel

import (
	"errors"

	"github.com/asynkron/protoactor-go/actor"
)

// ErrUnreachable reports a PID without an actor, or a node that cannot be reached. The
// message was not handled.
var ErrUnreachable = errors.New("kernel: unreachable")

// Refusable is a message whose sender waits for its outcome.
type Refusable interface {
	// Refused takes the place of Receive when the actor stops while the message is in
	// its mailbox, and when [Kernel.Send] cannot deliver it. It may run on any
	// goroutine.
	Refused(error)
}

// sent is a message in protoactor's hands. protoactor must not log its fate: the throttle
// of that log keeps a goroutine.
type sent struct {
	m      any
	answer bool // an answer: no loss if the asker is gone
}

// IgnoreDeadLetterLogging implements [actor.IgnoreDeadLetterLogging].
func (*sent) IgnoreDeadLetterLogging() {}

// Send sends m to the actor with the PID to, of this node or another. It does not report
// whether m arrived. If m is [Refusable] and certainly did not arrive, its Refused gets
// [ErrUnreachable], [ErrStopped] or [ErrOverloaded]. On this node an idle actor has handled
// m when Send returns, as with [Actor.Post].
func (k *Kernel) Send(to *PID, m any) {
	// A PID caches the process that it first finds, even after that has ended.
	k.sys.Root.Send(actor.NewPID(to.Address, to.Id), &sent{m: m})
}

// answer sends v to the asker.
func (k *Kernel) answer(to *PID, v any) { k.sys.Root.Send(to, &sent{m: v, answer: true}) }

// undelivered handles protoactor's dead letters: messages to a PID of this node that no
// actor has. protoactor itself sends askers a DeadLetterResponse.
func (k *Kernel) undelivered(event any) {
	letter, ok := event.(*actor.DeadLetterEvent)
	if !ok {
		return
	}
	switch t, ok := letter.Message.(*sent); {
	case !ok && letter.Sender != nil:
		k.lost.Add(1)
	case ok && !t.answer:
		k.refuse(t.m, ErrUnreachable)
	}
}

// refuse counts m as undelivered, and tells m why if it is [Refusable].
func (k *Kernel) refuse(m any, why error) {
	k.lost.Add(1)
	if r, ok := m.(Refusable); ok {
		r.Refused(why)
	}
}

// unreachable wraps an error of a Remote so that it is ErrUnreachable.
func unreachable(err error) error {
	if errors.Is(err, ErrUnreachable) {
		return err
	}
	return errors.Join(ErrUnreachable, err)
}

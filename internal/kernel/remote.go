package kernel

import (
	"errors"

	"github.com/asynkron/protoactor-go/actor"
)

// Remote takes the messages that leave this node: protoactor's address resolver passes it
// those whose PID has the name of another node. [Kernel.Send] and [Ask] work alike for
// local and remote actors.
type Remote interface {
	// Send puts m into the inbox of the node to.Address, where [Kernel.Deliver] gives it to
	// the actor. from is the asker, nil when none waits; an answer goes the same way back,
	// with from nil. m is the message that was sent, or an error for the asker. Send must
	// not block, and may be called from any goroutine. After an error nothing has left. As
	// a network may lose messages, an asker needs a deadline.
	Send(to, from *PID, m any) error
}

// Deliver gives a message of another node to the actor with the PID to, and sends the
// answer to from, unless that is nil. A message for another process, such as an earlier one
// of the same machine, is answered with [ErrUnreachable].
func (k *Kernel) Deliver(to, from *PID, m any) {
	to = actor.NewPID(to.Address, to.Id) // a copy, as protoactor writes to a PID
	if from != nil {
		from = actor.NewPID(from.Address, from.Id)
	}
	switch {
	case to.Address != k.sys.ProcessRegistry.Address && from != nil:
		k.lost.Add(1)
		k.answer(from, ErrUnreachable)
	case to.Address != k.sys.ProcessRegistry.Address:
		k.refuse(m, ErrUnreachable)
	case from != nil:
		k.sys.Root.RequestWithCustomSender(to, m, from)
	default:
		k.sys.Root.Send(to, &sent{m: m})
	}
}

// elsewhere is the process of every PID of another node. It has no state, because PIDs
// cache it.
type elsewhere Kernel

// SendUserMessage sends a message to the other node.
func (e *elsewhere) SendUserMessage(to *actor.PID, message any) {
	k := (*Kernel)(e)
	_, m, from := actor.UnwrapEnvelope(message)
	answer := false
	switch v := m.(type) {
	case *sent:
		m, answer = v.m, v.answer
	case *actor.DeadLetterResponse:
		m = ErrUnreachable
	}
	err := errNoRemote
	if k.remote != nil {
		err = k.remote.Send(to, from, m)
	}
	switch {
	case err == nil || answer:
	case from != nil:
		k.lost.Add(1)
		k.answer(from, unreachable(err))
	default:
		k.refuse(m, unreachable(err))
	}
}

var errNoRemote = errors.New("kernel: this node knows no other")

// SendSystemMessage does nothing: each node controls its own actors.
func (e *elsewhere) SendSystemMessage(*actor.PID, any) {}

// Stop does nothing, for the same reason.
func (e *elsewhere) Stop(*actor.PID) {}

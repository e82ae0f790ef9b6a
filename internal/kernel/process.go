package kernel

import "github.com/asynkron/protoactor-go/actor"

// process is an Actor as protoactor's registry of PIDs sees it. It is a type of its own, so
// that types that embed Actor do not get protoactor's methods.
type process Actor

var _ actor.Process = (*process)(nil)

// SendUserMessage delivers a message that was sent to the PID.
func (p *process) SendUserMessage(pid *actor.PID, message any) {
	c := (*Actor)(p)
	_, m, sender := actor.UnwrapEnvelope(message)
	if t, ok := m.(*sent); ok {
		m = t.m
	}
	if sender != nil {
		m = &Asked{Message: m, sender: sender, k: c.k}
	}
	switch err := c.Post(m); {
	case err == nil:
	case sender != nil:
		c.k.answer(sender, err)
	default:
		c.k.refuse(m, err)
	}
}

// SendSystemMessage handles protoactor's stop. Its other system messages are about
// children, which these actors do not have.
func (p *process) SendSystemMessage(_ *actor.PID, message any) {
	if _, ok := message.(*actor.Stop); ok {
		(*Actor)(p).Stop()
	}
}

// Stop is Actor.Stop.
func (p *process) Stop(*actor.PID) { (*Actor)(p).Stop() }

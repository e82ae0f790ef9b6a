package kernel

import "github.com/asynkron/protoactor-go/actor"

// process is an Actor as protoactor's registry of PIDs has it. It is a type of its own
// so that the types that embed Actor do not get protoactor's methods.
type process Actor

var _ actor.Process = (*process)(nil)

// SendUserMessage delivers a message that was sent to the PID.
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

// SendSystemMessage handles protoactor's stop. Its other system messages are about
// supervision, which these actors do without.
func (p *process) SendSystemMessage(_ *actor.PID, message any) {
	if _, ok := message.(*actor.Stop); ok {
		(*Actor)(p).Stop()
	}
}

// Stop is Actor.Stop.
func (p *process) Stop(*actor.PID) { (*Actor)(p).Stop() }

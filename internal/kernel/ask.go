package kernel

import (
	"context"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
)

// Asked is what an actor receives for a message that [Ask] sent.
type Asked struct {
	Message any // as it was given to Ask
	sender  *actor.PID
	k       *Kernel
}

// Answer sends the answer, from any goroutine. An error becomes the error of Ask. An
// answer after the first, or after Ask has returned, is dropped.
func (a *Asked) Answer(v any) { a.k.answer(a.sender, v) }

// Refused implements [Refusable]: Ask fails with the error.
func (a *Asked) Refused(e error) { a.Answer(e) }

// asker is the process that waits for one answer; it drops a second one.
type asker struct{ ch chan any }

func (a *asker) SendUserMessage(_ *actor.PID, m any) {
	_, msg, _ := actor.UnwrapEnvelope(m)
	if t, ok := msg.(*sent); ok {
		msg = t.m
	}
	select {
	case a.ch <- msg:
	default:
	}
}
func (a *asker) SendSystemMessage(_ *actor.PID, m any) { a.SendUserMessage(nil, m) }
func (a *asker) Stop(*actor.PID)                       {}

// Ask sends m to the actor with the PID to, which receives it as [*Asked], and waits for
// the answer. It fails with
//   - the cause of ctx when ctx ends first: it is unknown whether m was handled;
//   - [ErrUnreachable] when no actor has the PID, and [ErrStopped] or [ErrOverloaded] as
//     [Actor.Post] does: m was not handled;
//   - the answer, when that is an error;
//   - an error that names the answer's type, when the answer is neither an error nor a T.
func Ask[T any](ctx context.Context, k *Kernel, to *PID, m any) (T, error) {
	var zero T
	a := &asker{make(chan any, 1)}
	self, _ := k.sys.ProcessRegistry.Add(a, "ask/"+k.sys.ProcessRegistry.NextId())
	defer k.sys.ProcessRegistry.Remove(self)
	// A PID caches the process that it first finds, even after that has ended.
	k.sys.Root.RequestWithCustomSender(actor.NewPID(to.Address, to.Id), m, self)
	select {
	case <-ctx.Done():
		return zero, context.Cause(ctx)
	case r := <-a.ch:
		switch v := r.(type) {
		case T:
			return v, nil
		case error:
			return zero, v
		case *actor.DeadLetterResponse:
			return zero, ErrUnreachable
		default:
			return zero, fmt.Errorf("kernel: unexpected answer %T", r)
		}
	}
}

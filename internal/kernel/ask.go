package kernel

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// ErrUnreachable reports that nobody has the PID that was asked: not done.
var ErrUnreachable = errors.New("kernel: unreachable")

// asked is a message whose sender waits for an answer by PID.
type Asked struct {
	Message any
	sender  *actor.PID
	k       *Kernel
}

func (a *Asked) Answer(v any)    { a.k.sys.Root.Send(a.sender, v) }
func (a *Asked) Refused(e error) { a.Answer(e) }

// asker is the process that waits for one answer; a second one is dropped.
type asker struct{ ch chan any }

func (a *asker) SendUserMessage(_ *actor.PID, m any) {
	_, msg, _ := actor.UnwrapEnvelope(m)
	select {
	case a.ch <- msg:
	default:
	}
}
func (a *asker) SendSystemMessage(_ *actor.PID, m any) { a.SendUserMessage(nil, m) }
func (a *asker) Stop(*actor.PID)                       {}

// Ask sends m to the actor to and waits for its answer. It returns the cause of
// ctx when that ends first (the outcome is then unknown), ErrUnreachable when
// nobody has that PID and ErrStopped when the actor ended before its turn (not
// done, both).
func Ask[T any](ctx context.Context, k *Kernel, to *actor.PID, m any) (T, error) {
	var zero T
	a := &asker{make(chan any, 1)}
	self, _ := k.sys.ProcessRegistry.Add(a, "ask"+k.sys.ProcessRegistry.NextId())
	defer k.sys.ProcessRegistry.Remove(self)
	k.sys.Root.RequestWithCustomSender(to, m, self)
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

// reply is the answer slot inside a message to an actor that is usually idle:
// then the answer is there when post returns, and nobody waits. It may be used
// again after wait has returned. The zero value needs init.
type Reply struct {
	state atomic.Int32
	wake  chan struct{}
}

const (
	replyPending int32 = iota
	replyWaiting
	replyDone
)

func (r *Reply) Init() {
	if r.wake == nil {
		r.wake = make(chan struct{}, 1)
	}
	r.state.Store(replyPending)
}

// done is called by the actor once the answer is in the message.
func (r *Reply) Done() {
	if r.state.Swap(replyDone) == replyWaiting {
		r.wake <- struct{}{}
	}
}

// wait returns when done has been called.
func (r *Reply) Wait() {
	if r.state.CompareAndSwap(replyPending, replyWaiting) {
		<-r.wake
	}
}

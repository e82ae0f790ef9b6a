package kernel

import "sync/atomic"

// Reply is embedded in a message whose sender waits for the answer in its other
// fields. The sender calls Init, posts the message and, if that succeeded, calls Wait;
// the actor writes the answer and calls Done. An idle actor has done so when Post
// returns, and Wait then costs one atomic operation.
//
// A message may be used again, from Init on, after Wait has returned. The zero value
// needs Init, and a Reply must not be copied.
type Reply struct {
	state atomic.Int32
	wake  chan struct{}
}

const (
	replyPending int32 = iota
	replyWaiting
	replyDone
)

// Init prepares the message for one Done and one Wait.
func (r *Reply) Init() {
	if r.wake == nil {
		r.wake = make(chan struct{}, 1)
	}
	r.state.Store(replyPending)
}

// Done says that the answer is in the message. It is called once per Init, and the
// caller must not touch the message afterwards.
func (r *Reply) Done() {
	if r.state.Swap(replyDone) == replyWaiting {
		r.wake <- struct{}{}
	}
}

// Wait returns once Done has been called, now or before. Only the sender calls it, once per
// Init.
func (r *Reply) Wait() {
	if r.state.CompareAndSwap(replyPending, replyWaiting) {
		<-r.wake
	}
}

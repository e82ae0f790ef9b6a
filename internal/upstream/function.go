package upstream

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// A Serve is a server in this process. It is called with each message, on a goroutine of its own, and
// returns the response, or nil for what has none. say sends what belongs to the request, and may be called
// until Serve has returned. ctx ends when the request is given up, or the link ends. The bytes that go in
// are Serve's, and those that come out belong to the link.
type Serve func(ctx context.Context, message []byte, say func(message []byte)) []byte

// Function is the link to a server in this process.
type Function struct {
	serve Serve

	life    context.Context
	end     context.CancelFunc
	running chan struct{} // has a token for each message that is being served
	in      Inbox
	once    sync.Once
}

var _ Link = (*Function)(nil)

// NewFunction returns the link to a server in this process.
func NewFunction(serve Serve) *Function {
	f := &Function{serve: serve, running: make(chan struct{}, 2*MostOpen)}
	f.life, f.end = context.WithCancel(context.Background())
	return f
}

// Open keeps in for what the server says by itself.
func (l *Function) Open(_ context.Context, in Inbox) error {
	l.in = in
	return nil
}

// Say sends what the server says by itself. Call it after the link was opened.
func (l *Function) Say(message []byte) { l.in.Receive(message, 0) }

// Send has the server run. A server that does not end with its context counts against the number of
// messages that are served at once, and so does what it was given up for.
func (l *Function) Send(ctx context.Context, m Outgoing) error {
	if l.life.Err() != nil {
		return &Failure{Why: ReasonClosed, Outcome: NotRun, Text: "the backend has ended"}
	}
	select {
	case l.running <- struct{}{}:
	default:
		return &Failure{Why: ReasonFull, Outcome: NotRun, Text: "too many requests run in the backend"}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.life, func() { cancel(context.Canceled) })
	message := bytes.Clone(m.Body)
	ended := make(chan *Failure, 1)
	go func() {
		f := &Failure{Why: ReasonEnded, Text: "the backend broke"} // unless run returns
		defer func() {
			if v := recover(); v != nil {
				f.Err = fmt.Errorf("panic: %v", v)
			}
			<-l.running
			ended <- f
		}()
		f = l.run(ctx, message, m.ID)
	}()
	defer cancel(context.Canceled)
	defer stop()
	select {
	case f := <-ended:
		if f != nil {
			return f
		}
		return nil
	case <-ctx.Done():
		return &Failure{Why: ReasonEnded, Text: "the backend has ended", Err: context.Cause(ctx)}
	}
}

// run calls the server. Its panics are its own: whoever calls run contains them, and other servers of this process go on.
func (l *Function) run(ctx context.Context, message []byte, id int64) *Failure {
	var answered atomic.Bool
	receive := func(m []byte) {
		if l.in.Receive(m, id) {
			answered.Store(true)
		}
	}
	answer := l.serve(ctx, message, receive)
	if answer != nil {
		receive(answer)
	}
	if id != 0 && !answered.Load() {
		return malformed("the backend returned no answer", answer)
	}
	return nil
}

// Close ends the contexts of what is being served. It does not wait for it: a server may not end.
func (l *Function) Close(context.Context, bool) { l.once.Do(l.end) }

// Scoped is true.
func (l *Function) Scoped() bool { return true }

// ClosesStream is true: the end of the context tells the server.
func (l *Function) ClosesStream() bool { return true }

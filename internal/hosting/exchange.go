package hosting

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/mcp"
)

// What a backend may say during one call before the client has got it. What is beyond it is dropped, but for the newest progress; log messages
// are counted, and questions refused.
var (
	mostSaid      = limits.Said.Value()
	mostSaidBytes = limits.SaidBytes.Value()
)

// together is how long a question to a stateless client waits for further ones, which are asked in the same round.
const together = 25 * time.Millisecond

// answerTime bounds how long a backend may take to take an answer.
const answerTime = 10 * time.Second

// exchange is a call as far as its backend says something to its client. What comes waits in a queue, which a goroutine empties as long as
// there is something in it.
type exchange struct {
	*Request
	ctx  context.Context // ends with the call, and its questions with it
	stop context.CancelCauseFunc

	mu      sync.Mutex // guards the rest
	quiet   sync.Cond  // nothing is in the queue, or being sent
	queue   []Said
	bytes   int // of the queue
	sending bool
	newest  *Said // the progress that came when the queue was full, nil for none
	missed  int   // log messages that were dropped
	over    bool
	left    bool // the next process goes on with the call: what comes is for that

	open  map[Question]context.CancelCauseFunc // questions that are with the client, or about to be
	round []*pending                           // those that wait for further ones
	timer *time.Timer                          // ends that wait; nil if no question waits
	asked bool                                 // a round is with the client
	asks  sync.WaitGroup                       // questions that are put
	given givenAnswers

	fault   atomic.Pointer[error] // why a task of the backend came to nothing, nil for nothing; needs no lock
	literal map[string]string     // the questions that were put under the backend's own keys, by those
}

// pending is a question of the backend for the client.
type pending struct {
	actors.Question
	from Question
	ctx  context.Context // ends when it needs no answer
}

// Causes of the end of a question.
var (
	errAnswered  = errors.New("the backend has answered the call")
	errWithdrawn = errors.New("the backend has withdrawn the question")
)

func newExchange(ctx context.Context, q *Request) *exchange {
	x := &exchange{Request: q, open: make(map[Question]context.CancelCauseFunc)}
	x.quiet.L = &x.mu
	x.ctx, x.stop = context.WithCancelCause(ctx)
	return x
}

// mayAsk reports whether the backend may ask the client during the call.
func (x *exchange) mayAsk() bool {
	return x.Caller.mayBeAsked(&x.Item.backend.Options) && (!x.Caller.Revision.Stateless() || actors.Asks(x.Message.Method))
}

// hit notes that a limit was hit.
func (x *exchange) hit(row *limits.Row) {
	if x.Hit != nil {
		x.Hit(row)
	}
}

// hear takes what the backend says. It never waits.
func (x *exchange) hear(said Said) {
	said.Params = withoutTask(said.Params)
	x.mu.Lock()
	if x.left {
		x.mu.Unlock()
		return
	}
	over := x.over
	kept := !over && x.queueSaid(said)
	if kept && !x.sending {
		x.sending = true
		go x.sendQueue()
	}
	x.mu.Unlock()
	if kept || said.Question == nil {
		return
	}
	go func() {
		if over {
			said.leaveOpen(mcp.NewError(mcp.CodeInvalidRequest, "the call has been answered"))
			return
		}
		_ = said.refuse(mcp.NewError(mcp.CodeInternalError, "too many messages wait for the client"))
	}()
}

// queueSaid puts something into the queue, and reports whether there was room. Progress has room for the newest one. The caller holds mu.
func (x *exchange) queueSaid(said Said) bool {
	progress := said.Method == mcp.NotifyProgress
	full := limits.Said.Row
	if len(x.queue) < mostSaid {
		full = limits.SaidBytes.Row
		if x.bytes+len(said.Params) <= mostSaidBytes || len(x.queue) == 0 {
			if progress {
				x.newest = nil
			}
			x.queue = append(x.queue, said)
			x.bytes += len(said.Params)
			return true
		}
	}
	x.hit(full)
	if progress {
		x.newest = &said
	}
	if said.Method == mcp.NotifyMessage {
		x.missed++
	}
	return progress
}

// sendQueue sends what is in the queue until it is empty.
func (x *exchange) sendQueue() {
	for {
		x.mu.Lock()
		if len(x.queue) == 0 && x.newest != nil {
			said := *x.newest
			x.newest = nil
			x.mu.Unlock()
			x.passToClient(said)
			continue
		}
		if len(x.queue) == 0 {
			x.sending, x.queue = false, nil
			x.quiet.Broadcast()
			x.mu.Unlock()
			return
		}
		said := x.queue[0]
		x.queue[0] = Said{}
		x.queue = x.queue[1:]
		x.bytes -= len(said.Params)
		x.mu.Unlock()
		x.passToClient(said)
	}
}

// flush waits until all that the backend has said is sent, and tells how much was dropped.
func (x *exchange) flush(ctx context.Context) {
	x.mu.Lock()
	for x.sending {
		x.quiet.Wait()
	}
	missed := x.missed
	x.missed = 0
	x.mu.Unlock()
	if missed > 0 && x.Missed != nil {
		x.Missed(ctx, missed)
	}
}

// close withdraws the questions that are open, and waits until nothing of the exchange runs.
func (x *exchange) close() {
	x.mu.Lock()
	x.over = true
	waiting := x.round
	x.round = nil
	if x.timer != nil {
		x.timer.Stop()
		x.timer = nil
	}
	for x.sending {
		x.quiet.Wait()
	}
	waiting = append(waiting, x.round...)
	x.round = nil
	x.mu.Unlock()
	x.stop(errAnswered)
	for _, p := range waiting {
		if x.left {
			break
		}
		Said{Question: p.from}.leaveOpen(mcp.NewError(mcp.CodeInvalidRequest, errAnswered.Error()))
	}
	x.asks.Wait()
}

// leave leaves the call to the next process, with the questions that are open.
func (x *exchange) leave() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.left = true
}

// passToClient sends one thing to the client, or puts a question.
func (x *exchange) passToClient(said Said) {
	known, ofProtocol := protocol.LookupMethod(said.Method)
	switch {
	case said.Question != nil:
		x.askClient(said)
	case said.Method == mcp.NotifyProgress:
		x.passProgress(said.Params)
	case said.Method == mcp.NotifyMessage:
		x.Log(x.ctx, said.Params)
	case said.Method == mcp.NotifyTasksStatus:
		x.passTaskMessage(said.Params)
	case said.Method == mcp.NotifyCancelled:
		x.withdrawQuestion()
	case !ofProtocol, said.Method == mcp.NotifyElicitationComplete && known.Allowed(protocol.ToClient, x.Caller.Revision):
		_ = x.Client.Notify(x.ctx, said.Method, said.Params) // it fails when the call has ended
	}
}

// passProgress passes progress on under the token of the client.
func (x *exchange) passProgress(params []byte) {
	token := x.Client.ProgressToken()
	value, err := strconv.ParseFloat(string(codec.Field(params, "progress")), 64)
	if token == nil || err != nil {
		return
	}
	if !protocol.Has(x.Caller.Revision, protocol.FeatureProgressMessage) {
		params = Without(params, "message")
	}
	_ = x.Client.Progress(x.ctx, value, WithMember(params, "progressToken", token))
}

// withdrawQuestion withdraws the question that is open. With several nothing says which one the backend means.
func (x *exchange) withdrawQuestion() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.open) != 1 {
		return
	}
	for _, cancel := range x.open {
		cancel(errWithdrawn)
	}
}

// askClient puts a question of the backend to the client: at once in a session, together with those that come soon to a stateless client.
func (x *exchange) askClient(said Said) {
	q, refusal := questionFor(x.Caller, said.Method, said.Params)
	if refusal == nil && x.Caller.Revision.Stateless() && !actors.Asks(x.Message.Method) {
		refusal = mcp.Errorf(mcp.CodeInvalidRequest, "the client cannot be asked during %s", x.Message.Method)
	}
	if refusal != nil {
		x.asks.Go(func() { _ = said.refuse(refusal) })
		return
	}
	x.Complete(x.ctx, &q)
	p := &pending{Question: q, from: said.Question}
	var cancel context.CancelCauseFunc
	p.ctx, cancel = context.WithCancelCause(x.ctx)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.open[p.from] = cancel
	if !x.Caller.Revision.Stateless() {
		x.asks.Go(func() { x.putQuestions(p.ctx, []*pending{p}) })
		return
	}
	x.round = append(x.round, p)
	x.waitForMore()
}

// waitForMore has the questions that wait be put when no further one has come for a while. The caller holds mu.
func (x *exchange) waitForMore() {
	switch {
	case x.asked || x.over:
	case x.timer == nil:
		x.timer = time.AfterFunc(together, x.putRound)
	default:
		x.timer.Reset(together)
	}
}

// putRound puts the questions that wait.
func (x *exchange) putRound() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.timer = nil
	if x.over || x.asked || len(x.round) == 0 {
		return
	}
	round := x.round
	x.round, x.asked = nil, true
	x.asks.Go(func() {
		ctx, done := untilAll(x.ctx, round)
		x.putQuestions(ctx, round)
		done()
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.asked = false; len(x.round) > 0 {
			x.waitForMore()
		}
	})
}

// untilAll returns a context that ends when none of the questions needs an answer.
func untilAll(ctx context.Context, round []*pending) (context.Context, func()) {
	if len(round) == 1 {
		return round[0].ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var stops []func() bool
	var left atomic.Int64
	left.Store(int64(len(round)))
	for _, p := range round {
		stops = append(stops, context.AfterFunc(p.ctx, func() {
			if left.Add(-1) == 0 {
				cancel(context.Cause(p.ctx))
			}
		}))
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(nil)
	}
}

// beginRun says that a backend is about to run the call, perhaps once more.
func (x *exchange) beginRun() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.given.beginRun()
}

// answerAgain gives the backend what the client has answered in an earlier run of the call, and returns the other questions.
func (x *exchange) answerAgain(round []*pending) (rest []*pending) {
	for _, p := range round {
		x.mu.Lock()
		a := x.given.answerOf(&p.Question)
		if a != nil {
			x.closeQuestion(p)
		}
		x.mu.Unlock()
		if a == nil {
			rest = append(rest, p)
			continue
		}
		p.giveAnswer(a)
	}
	return rest
}

// closeQuestion takes a question that has its answer from those that are open. The caller holds mu.
func (x *exchange) closeQuestion(p *pending) {
	x.open[p.from](nil)
	delete(x.open, p.from)
}

// giveAnswer gives the backend what the client has answered. A backend that has gone waits for nothing.
func (p *pending) giveAnswer(a *actors.Answer) {
	said := Said{Question: p.from}
	if a.Err != nil {
		_ = said.refuse(a.Err)
		return
	}
	_ = said.answer(a.Result)
}

// putQuestions puts questions to the client, and gives the backend what it answers.
func (x *exchange) putQuestions(ctx context.Context, round []*pending) {
	if round = x.answerAgain(round); len(round) == 0 {
		return
	}
	qs := make([]actors.Question, len(round))
	for i, p := range round {
		qs[i] = p.Question
	}
	answers, err := x.Client.Ask(ctx, qs)
	for i, p := range round {
		x.mu.Lock()
		x.closeQuestion(p)
		left, over := x.left, x.over
		kept := err != nil || x.given.add(&p.Question, answers[i])
		x.mu.Unlock()
		if !kept {
			x.hit(limits.Recall.Row)
		}
		said := Said{Question: p.from}
		switch {
		case err != nil && (left || errors.Is(err, actors.ErrClosing) && x.Key != ""):
		case err != nil && over:
			said.leaveOpen(mcp.Errorf(mcp.CodeInternalError, "the client has not answered: %s", err))
		case err != nil:
			_ = said.refuse(mcp.Errorf(mcp.CodeInternalError, "the client has not answered: %s", err)) // a backend that has gone waits for nothing
		default:
			p.giveAnswer(&answers[i])
		}
	}
}

// passTaskMessage passes on what a backend says of its task to people.
func (x *exchange) passTaskMessage(task []byte) {
	if text, _ := codec.Str(codec.Field(task, "statusMessage")); text != "" && x.Task != nil {
		x.Task.Say(x.ctx, text)
	}
}

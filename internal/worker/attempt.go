package worker

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/guard"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/task"
	"github.com/troupe-run/troupe/mcp"
)

// maxOutcome is the largest outcome, in bytes.
var maxOutcome = limits.TaskResult.Value()

// Attempt is a run of a task's handler.
type Attempt struct {
	Key      Key
	Revision string // that the task's creator spoke
	Request  Request
	// Number is 1 for the first run, and more when the task runs again because its worker was lost.
	Number int

	fence
	p            *Pool
	s            *serving
	ctx          context.Context
	method, name string
	expires      time.Time
	expiry       *time.Timer
	asks         chan struct{} // has one place: one question after the other
	mayHaveSteps bool          // there may be steps of earlier attempts
	charge       Charge        // without bytes
	epochSeen    atomic.Int64  // when it was certain that the attempt had the task, unix nanoseconds
	endSuspicion func()        // it is no suspect any more
	requestSize  int           // bytes of the request as it is stored
	began        time.Time     // of a call that became a task

	// Only the actor of the task uses the fields below.
	work     *assignment
	wake     chan struct{} // closed when a handler that waits goes on; nil if it does not wait
	returned atomic.Bool   // the handler has, which is said under the turn
}

// newAttempt makes the attempt whose beginning was sent to the store at began, in unix nanoseconds.
func newAttempt(s *serving, key Key, k known, w *assignment, req Request, began int64) *Attempt {
	p, r := s.p, &k.rec
	a := &Attempt{Key: key, Revision: r.Revision, Number: r.Attempt, Request: req, p: p, s: s, method: r.Method, name: r.Name, expires: r.Expires(), mayHaveSteps: k.epoch > 1, endSuspicion: func() {}, asks: make(chan struct{}, 1), work: w}
	a.charge = chargeFor(key, r, 0)
	a.epochSeen.Store(began)
	p.books.census.AddAnyway(key, w.who, a.expires)
	a.fence = fence{records: &p.records, key: key, turn: make(chan struct{}, 1)}
	a.known.Store(&k)
	a.ctx, a.cancel = context.WithCancelCause(s.ctx)
	a.expiry = time.AfterFunc(r.TimeLeft(p.Store.Now()), func() { a.cancel(ErrExpired) })
	return a
}

// enterActor gives an attempt, whose record is stored, to the actor of its task, and reports whether
// it is there. w is the work that is looked at no more, nil for an adopted one. If the actor panics,
// or has ended since the record was stored, the task is not left behind: its work was stored before
// the record, nobody keeps it now, and so it comes again.
func (a *Attempt) enterActor(w *assignment) (entered bool) {
	m := &opened{w: w, a: a}
	m.Init()
	t := a.p.actors.tellActor(a.Key, m)
	if m.Wait(); m.err != nil {
		a.actor = t
		a.left.Store(true)
		a.expiry.Stop()
		a.cancel(ErrTakenOver)
		a.endSuspicion()
		a.work.freePlace()
	}
	return m.err == nil
}

// Again reports whether there may have been an earlier attempt, whether it was lost or given back.
func (a *Attempt) Again() bool { return a.mayHaveSteps }

// keepWork keeps the work of an attempt that runs.
func (a *Attempt) keepWork() {
	if a.isParked() || errors.Is(context.Cause(a.ctx), ErrTakenOver) { // the work is nobody's, or another's
		return
	}
	a.work.keepWork()
}

// runHandler runs the handler to its end. The attempt has a place.
func (a *Attempt) runHandler() {
	began := time.Now()
	a.p.Log.Debug("a run of a task begins", "server", a.Key.Server, "task", a.Key.Digest(), "attempt", a.Number)
	res, returned := Result{Err: mcp.NewError(mcp.CodeInternalError, "")}, false
	defer func() { // the handler may panic, or end the goroutine
		if !returned {
			failure := guard.Caught(recover())
			a.p.Log.Error("the handler of a task "+failure.Did(), append(failure.Attrs(), "server", a.Key.Server, "name", a.name)...)
		}
		a.concludeRun(began, res)
	}()
	res = a.s.Run(a.ctx, a)
	returned = true
}

// concludeRun stores the outcome of a run that began at a time, and gives up its place.
func (a *Attempt) concludeRun(began time.Time, res Result) {
	// An error of the actor says that it has panicked, and ended: the work comes again.
	m := &returning{a: a}
	err := a.takeTurn(func() error { return a.actor.askActor(m) })
	a.expiry.Stop()
	defer func() { _ = a.actor.askActor(&concluded{a: a}) }()
	if err != nil {
		return
	}
	parked, work := m.parked, m.work
	cause := context.Cause(a.ctx)
	a.p.Log.Debug("a run of a task is over", "server", a.Key.Server, "task", a.Key.Digest(), "attempt", a.Number, "took", time.Since(began), "cause", cause)
	closing := errors.Is(cause, ErrClosing)
	if closing && parked && a.p.Shared && a.p.base.Err() == nil {
		// Another process goes on with the task once it has its answers. Of a process that ends,
		// its lease says so.
		_ = a.changeAtEnd(func(r *task.Record, epoch uint64) error { return r.ReleaseHolder(epoch) })
	}
	if closing && (res.Err != nil || res.IsError) && a.s.Safe(a.method, a.name) {
		if !parked && a.changeAtEnd(func(r *task.Record, epoch uint64) error { return r.YieldAttempt(epoch, a.p.Store.Now()) }) == nil {
			_ = work.Later(0)
		}
		return
	}
	if cause == nil || closing && !parked {
		cause = a.storeOutcome(res)
	}
	a.cancel(nil)
	switch {
	case errors.Is(cause, ErrTakenOver): // its work is another's
	case parked: // it has none
		if cause == nil {
			a.p.keepTrying(a.dropRequest, func(error) {})
		}
	case cause == nil:
		ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), 2*keepEvery)
		defer cancel()
		if a.dropRequest(ctx) == nil { // otherwise the work comes again, and does it
			_ = work.Done()
		}
	case errors.Is(cause, ErrCancelled): // who cancelled it has deleted all
		_ = work.Done()
	case errors.Is(cause, ErrExpired): // its work expires, too, unless this process's clock is wrong
	default:
		a.p.Log.Warn("the outcome of a task was not stored, it runs again", "server", a.Key.Server, "task", a.Key.Digest(), "error", cause)
	}
}

// dropRequest deletes the request of a task that has its outcome: nothing reads it again.
func (a *Attempt) dropRequest(ctx context.Context) error {
	return a.p.Store.DropPart(ctx, a.Key.path(), requestPart, a.requestSize)
}

// finishWait is how long an outcome waits for the store once the task's server is unmounted, or the
// pool closes.
const finishWait = time.Minute

// storeOutcome stores the outcome. It waits for the store for as long as the task is kept: nobody
// else has the outcome, and a task that may not run again would be lost with it.
func (a *Attempt) storeOutcome(res Result) error {
	o := task.Outcome{Kind: task.Done, Value: res.Value}
	switch {
	case res.Err == nil && !codec.Valid(res.Value):
		o = task.Outcome{Kind: task.Failed, Value: internalError}
	case res.Err != nil:
		value, err := codec.Marshal(res.Err)
		if err != nil {
			value = internalError
		}
		o = task.Outcome{Kind: task.Failed, Value: value}
	case res.IsError:
		o.Kind = task.ToolError
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), a.expires.Sub(a.p.Store.Now()))
	defer cancel()
	defer context.AfterFunc(a.s.ctx, func() { time.AfterFunc(finishWait, cancel) })()
	if len(o.Value) > maxOutcome {
		o = task.Outcome{Kind: task.Failed, Value: []byte(`{"code":-32603,"message":"the result is larger than 16 MiB, which is what is stored of a task"}`)}
	}
	return a.storeCharged(ctx, len(o.Value), ForResult, atExpiry, func() error {
		if len(o.Value) > inRecord {
			if err := a.putPart(ctx, outcomePart, o.Value); err != nil {
				return err
			}
			o.Value, o.Parts = nil, 1
		}
		err := a.changeInTurn(ctx, func(r *task.Record, epoch uint64) error { return r.Finish(epoch, o, a.p.Store.Now()) })
		if errors.Is(err, errTooBig) { // that is an outcome, and no other run has a better one
			err = a.changeInTurn(ctx, func(r *task.Record, epoch uint64) error {
				r.Message = ""
				return r.Finish(epoch, task.Outcome{Kind: task.Failed, Value: noRoom}, a.p.Store.Now())
			})
		}
		return err
	})
}

// noRoom is the error of a task whose record has no room for its outcome.
var noRoom = []byte(`{"code":-32603,"message":"what the task has said and asked leaves no room for its outcome"}`)

// changeAtEnd changes the record of a task that the node does not go on with.
func (a *Attempt) changeAtEnd(edit func(r *task.Record, epoch uint64) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), 5*time.Second)
	defer cancel()
	return a.changeRecord(ctx, edit)
}

// storeCharged stores so many bytes of the task, which it charges before. A step waits for that
// while the client has its share of the store.
func (a *Attempt) storeCharged(ctx context.Context, bytes int, purpose Purpose, back refundAt, do func() error) error {
	c := a.charge
	c.Bytes = bytes
	for b, said := (backoff{}), false; a.p.Ledger.Charge(c, purpose) != nil; said = true {
		if !said {
			a.p.Log.Warn("a task waits until its principal has less in the store", "server", a.Key.Server, "tenant", a.Key.Tenant, "task", a.Key.Digest())
		}
		if !b.sleep(ctx) {
			return context.Cause(ctx)
		}
	}
	err := a.takeTurn(do)
	a.p.books.settleBytes(a.Key, c, err, back)
	return err
}

// Context ends with the attempt, for one of the causes of this package: nothing that its handler
// does counts any more then, or the node ends.
func (a *Attempt) Context() context.Context { return a.ctx }

// Conclude stores what the handler of an adopted call has returned.
func (a *Attempt) Conclude(res Result) {
	defer a.p.running.Done()
	a.concludeRun(a.began, res)
}

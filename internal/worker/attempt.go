package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/guard"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/task"
	"github.com/troupe-run/troupe/mcp"
)

const (
	// inRecord is the largest outcome that is stored in the record, in bytes.
	inRecord = 64 << 10
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

	p      *Pool
	s      *serving
	ctx    context.Context
	cancel context.CancelCauseFunc
	expiry *time.Timer
	work   atomic.Pointer[given]
	parked atomic.Bool   // the handler waits for its client: the attempt has neither work nor a place; changed with mu held
	asking chan struct{} // has one place: one question after the other
	again  bool          // there may be steps of earlier attempts
	of     Charge        // without bytes
	sure   atomic.Int64  // when it was certain that the attempt had the task, unix nanoseconds
	clear  func()        // it is no suspect any more
	stored int           // bytes of the request as it is stored
	began  time.Time     // of a call that became a task
	heard  atomic.Int32  // changes by other processes that nobody has looked at

	mu       slowLock // guards the fields below; held while the record is written, however long that takes
	rec      task.Record
	rev      uint64
	epoch    uint64
	wake     chan struct{} // closed when a handler that waits goes on; nil if it does not wait
	returned bool          // the handler has
}

// attempt begins an attempt for work, or says why there is nothing to begin. No other goroutine of the process does so for the
// same task.
func (p *Pool) attempt(s *serving, key Key, w *given) (*Attempt, error) {
	for {
		r, rev, err := p.readBy(s.ctx, key, p.Store.Peek) // whoever makes the task may be about to store its record
		if err != nil {
			return nil, err
		}
		p.mu.Lock()
		here := p.live[key]
		p.mu.Unlock()
		switch {
		case p.Shared && here != nil && r.State == task.Running && r.Boot == p.Boot && r.Work != w.Seq():
			return nil, errTwice
		case here != nil && r.State == task.Running && here.has(r.Epoch, w):
			return nil, errResumed // it was given out again although it runs here
		case here != nil && r.State == task.Queued:
			if err := here.resume(s.ctx, w); !errors.Is(err, errGone) {
				return nil, err
			}
		}
		if r.State != task.Ended && !s.Known(r.Method, r.Name) {
			return nil, errNotKnown
		}
		if err := p.elsewhere(s, &r, w); err != nil {
			return nil, err
		}
		if r.State == task.Running {
			switch stored, err := p.Store.PartsSince(s.ctx, key.path(), rev); {
			case err != nil:
				return nil, err
			case stored:
				r.Progressed()
			}
		}
		// Everything is read before the attempt begins: one that has begun runs. Whoever has the record has the request, which was stored before.
		var req Request
		size, bad := p.request(s.ctx, key, &req)
		if bad != nil && !errors.Is(bad, errNoRequest) {
			return nil, bad
		}
		epoch, err := r.Begin(p.Node, p.Boot, p.Store.Now())
		r.Work = w.Seq()
		switch {
		case errors.Is(err, task.ErrEnded):
			return nil, errNothing
		case errors.Is(err, task.ErrWaiting):
			return nil, err
		case s.ctx.Err() != nil:
			return nil, context.Cause(s.ctx)
		case !w.fresh():
			return nil, errStale
		}
		ended := err != nil
		switch {
		case ended:
		case bad != nil: // it can never run
			p.Log.Error("a task has lost its request", "server", s.ID, "task", key.Digest(), "error", bad)
			_ = r.Finish(epoch, task.Outcome{Kind: task.Failed, Value: internalError}, p.Store.Now())
			ended = true
		case epoch > 1 && !s.Safe(r.Method, r.Name): // an earlier run may have taken effect
			_ = r.Finish(epoch, task.Outcome{Kind: task.Lost}, p.Store.Now())
			ended = true
		}
		clear, err := p.suspect(&r)
		if err != nil {
			return nil, err
		}
		// What has begun does not end with the mount: that would be an attempt without a run.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), beginWait)
		began := time.Now().UnixNano()
		next, err := p.put(ctx, key, &r, rev)
		cancel()
		if err != nil || ended {
			clear()
		}
		switch {
		case errors.Is(err, actors.ErrConflict):
			continue
		case err != nil:
			return nil, err
		case ended:
			return nil, errNothing
		}
		a := p.prepare(s, key, r, next, epoch, w, req, began)
		a.stored = size
		if a.clear = clear; r.Lost >= suspectAfter {
			time.AfterFunc(suspectFor, clear)
		}
		return a, nil
	}
}

// errNoRequest reports that the request of a task is not there, or cannot be read.
var errNoRequest = errors.New("worker: the request of a task cannot be read")

// internalError is the error of a task that broke down.
var internalError = []byte(`{"code":-32603,"message":"internal error"}`)

// request reads the request of a task, and returns its size as it is stored.
func (p *Pool) request(ctx context.Context, key Key, req *Request) (size int, err error) {
	data, err := p.Store.Part(ctx, key.path(), requestPart)
	if err == nil {
		err = json.Unmarshal(data, req)
	} else if !errors.Is(err, actors.ErrNotFound) {
		return 0, err
	}
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errNoRequest, err)
	}
	return len(data), nil
}

// prepare makes the attempt whose beginning was sent to the store at began, in unix nanoseconds.
func (p *Pool) prepare(s *serving, key Key, r task.Record, rev, epoch uint64, w *given, req Request, began int64) *Attempt {
	a := &Attempt{Key: key, Revision: r.Revision, Number: r.Attempt, Request: req, p: p, s: s, again: epoch > 1, rec: r, rev: rev, epoch: epoch, asking: make(chan struct{}, 1), mu: make(slowLock, 1)}
	a.of = p.charge(key, &r, 0)
	a.work.Store(w)
	a.sure.Store(began)
	p.census.See(key, w.who, r.Expires())
	a.ctx, a.cancel = context.WithCancelCause(s.ctx)
	a.expiry = time.AfterFunc(r.Left(p.Store.Now()), func() { a.cancel(ErrExpired) })
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live[key] = a
	if w.cancelled { // its client was quicker
		a.cancel(ErrCancelled)
	}
	return a
}

// has gives the attempt a new hold on its work, if it is the one of that epoch.
func (a *Attempt) has(epoch uint64, w *given) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.epoch != epoch || a.returned || a.ctx.Err() != nil {
		return false
	}
	a.work.Store(w)
	a.p.free(w) // the attempt has its own place
	return true
}

// put stores a record for as long as the task is kept. It reports actors.ErrConflict if the record has changed, and finds out what
// became of a write without an answer. While the store is full or away it tries again until ctx ends.
func (p *Pool) put(ctx context.Context, key Key, r *task.Record, rev uint64) (uint64, error) {
	data, err := r.Encode()
	if err != nil {
		return 0, fmt.Errorf("worker: record of a task: %w", err)
	}
	if len(data) > maxRecord {
		return 0, fmt.Errorf("%w: %d bytes, at most %d are stored", errTooBig, len(data), maxRecord)
	}
	unknown := false
	for b := (backoff{}); ; {
		left := r.Left(p.Store.Now())
		if left == 0 {
			return 0, actors.ErrNotFound
		}
		next, err := p.Store.Update(ctx, key.record(), data, rev, left)
		if errors.Is(err, actors.ErrConflict) && unknown {
			stored, now, gone := p.Store.Get(ctx, key.record())
			switch {
			case gone == nil && bytes.Equal(stored, data):
				next, err = now, nil // it was done after all
			case gone != nil && !errors.Is(gone, actors.ErrNotFound):
				err = gone
			}
		}
		switch {
		case err == nil:
			p.changed(key, next, r)
			return next, nil
		case errors.Is(err, actors.ErrUnavailable):
			unknown = true
		case !errors.Is(err, actors.ErrAgain) && !errors.Is(err, actors.ErrFull):
			return 0, err
		}
		if !b.sleep(ctx) {
			return 0, fmt.Errorf("worker: %w: %w", context.Cause(ctx), err)
		}
	}
}

// change changes the record of the task under the attempt's epoch. If another attempt has the task, or the task has ended, the
// attempt is over.
func (a *Attempt) change(ctx context.Context, f func(r *task.Record) error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changeLocked(ctx, f)
}

func (a *Attempt) changeLocked(ctx context.Context, f func(r *task.Record) error) error {
	for {
		r := a.rec
		if err := f(&r); err != nil {
			return a.lost(err)
		}
		rev, err := a.p.put(ctx, a.Key, &r, a.rev)
		switch {
		case err == nil:
			a.rec, a.rev = r, rev
			return nil
		case errors.Is(err, actors.ErrConflict):
			err = a.reread(ctx)
		}
		if err != nil {
			return a.lost(err)
		}
	}
}

// reread reads the record again, which another has changed.
func (a *Attempt) reread(ctx context.Context) error {
	for b := (backoff{}); ; {
		r, rev, err := a.p.read(ctx, a.Key)
		if err == nil {
			a.rec, a.rev = r, rev
			return nil
		}
		if errors.Is(err, actors.ErrNotFound) {
			return err
		}
		if !b.sleep(ctx) {
			return context.Cause(ctx)
		}
	}
}

// lost ends the attempt if err says that it does not have the task any more.
func (a *Attempt) lost(err error) error {
	switch {
	case errors.Is(err, task.ErrEnded) && a.rec.Outcome != nil && a.rec.Outcome.Kind == task.Cancelled:
		err = ErrCancelled
	case errors.Is(err, task.ErrFenced), errors.Is(err, task.ErrEnded), errors.Is(err, actors.ErrNotFound):
		err = ErrTakenOver
	default:
		return err
	}
	a.cancel(err)
	return err
}

// Again reports whether there may have been an earlier attempt, whether it was lost or given back.
func (a *Attempt) Again() bool { return a.again }

// keep keeps the work of an attempt that runs.
func (a *Attempt) keep() {
	if a.parked.Load() || errors.Is(context.Cause(a.ctx), ErrTakenOver) { // the work is nobody's, or another's
		return
	}
	a.work.Load().keep()
}

// verify ends the attempt if another one has the task by now, or if the task has ended.
func (a *Attempt) verify() {
	ctx, cancel := context.WithTimeout(a.ctx, keepEvery)
	defer cancel()
	r, _, err := a.p.read(ctx, a.Key)
	if !a.mu.TryLock() { // a write is under way, which finds out by itself
		return
	}
	defer a.mu.Unlock()
	switch {
	case errors.Is(err, actors.ErrNotFound):
		_ = a.lost(err)
	case err == nil && r.Epoch >= a.epoch && (r.Epoch > a.epoch || r.State == task.Ended):
		a.rec = r
		_ = a.lost(task.ErrEnded)
	}
}

// run runs the handler to its end. The attempt has a place.
func (a *Attempt) run() {
	began := time.Now()
	a.p.Log.Debug("a run of a task begins", "server", a.Key.Server, "task", a.Key.Digest(), "attempt", a.Number)
	res, returned := Result{Err: mcp.NewError(mcp.CodeInternalError, "")}, false
	defer func() { // the handler may panic, or end the goroutine
		if !returned {
			failure := guard.Caught(recover())
			a.p.Log.Error("the handler of a task "+failure.Did(), append(failure.Attrs(), "server", a.Key.Server, "name", a.rec.Name)...)
		}
		a.conclude(began, res)
	}()
	res = a.s.Run(a.ctx, a)
	returned = true
}

// conclude stores the outcome of a run that began at a time, and gives up its place.
func (a *Attempt) conclude(began time.Time, res Result) {
	a.mu.Lock()
	a.returned = true // from here on it neither parks nor resumes
	parked := a.parked.Load()
	a.mu.Unlock()
	a.expiry.Stop()
	defer a.drop()
	cause := context.Cause(a.ctx)
	a.p.Log.Debug("a run of a task is over", "server", a.Key.Server, "task", a.Key.Digest(), "attempt", a.Number, "took", time.Since(began), "cause", cause)
	closing := errors.Is(cause, ErrClosing)
	if parked && closing {
		a.release()
	}
	if closing && (res.Err != nil || res.IsError) && a.s.Safe(a.rec.Method, a.rec.Name) {
		if !parked {
			a.giveBack()
		}
		return
	}
	if cause == nil || closing && !parked {
		cause = a.finish(res)
	}
	a.cancel(nil)
	switch {
	case errors.Is(cause, ErrTakenOver): // its work is another's
	case parked: // it has none
		if cause == nil {
			a.p.tryOn(a.dropRequest, func(error) {})
		}
	case cause == nil:
		ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), 2*keepEvery)
		defer cancel()
		if a.dropRequest(ctx) == nil { // otherwise the work comes again, and does it
			_ = a.work.Load().Done()
		}
	case errors.Is(cause, ErrCancelled): // who cancelled it has deleted all
		_ = a.work.Load().Done()
	case errors.Is(cause, ErrExpired): // its work expires, too, unless this process's clock is wrong
	default:
		a.p.Log.Warn("the outcome of a task was not stored, it runs again", "server", a.Key.Server, "task", a.Key.Digest(), "error", cause)
	}
}

// dropRequest deletes the request of a task that has its outcome: nothing reads it again.
func (a *Attempt) dropRequest(ctx context.Context) error {
	return a.p.Store.DropPart(ctx, a.Key.path(), requestPart, a.stored)
}

// finishWait is how long an outcome waits for the store once the task's server is unmounted, or the pool closes.
const finishWait = time.Minute

// finish stores the outcome. It waits for the store for as long as the task is kept: nobody else has the outcome, and a task that may not run again
// would be lost with it.
func (a *Attempt) finish(res Result) error {
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
	a.mu.Lock()
	defer a.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), a.rec.Left(a.p.Store.Now()))
	defer cancel()
	defer context.AfterFunc(a.s.ctx, func() { time.AfterFunc(finishWait, cancel) })()
	switch {
	case len(o.Value) > maxOutcome:
		o = task.Outcome{Kind: task.Failed, Value: []byte(`{"code":-32603,"message":"the result is larger than 16 MiB, which is what is stored of a task"}`)}
	}
	return a.storing(ctx, len(o.Value), ForResult, atExpiry, func() error {
		if len(o.Value) > inRecord {
			if err := a.putPart(ctx, outcomePart, o.Value); err != nil {
				return err
			}
			o.Value, o.Parts = nil, 1
		}
		err := a.changeLocked(ctx, func(r *task.Record) error { return r.Finish(a.epoch, o, a.p.Store.Now()) })
		if errors.Is(err, errTooBig) { // that is an outcome, and no other run has a better one
			err = a.changeLocked(ctx, func(r *task.Record) error {
				r.Message = ""
				return r.Finish(a.epoch, task.Outcome{Kind: task.Failed, Value: noRoom}, a.p.Store.Now())
			})
		}
		return err
	})
}

// errTooBig reports that a record is larger than what is stored of one. Nothing was stored.
var errTooBig = errors.New("worker: the record of a task is too large")

// noRoom is the error of a task whose record has no room for its outcome.
var noRoom = []byte(`{"code":-32603,"message":"what the task has said and asked leaves no room for its outcome"}`)

// storing has put store bytes of the task, which it charges before. A step waits for that while the client has its share of the store.
func (a *Attempt) storing(ctx context.Context, bytes int, purpose Purpose, back giveBack, put func() error) error {
	c := a.of
	c.Bytes = bytes
	for b, said := (backoff{}), false; a.p.Ledger.Charge(c, purpose) != nil; said = true {
		if !said {
			a.p.Log.Warn("a task waits until its principal has less in the store", "server", a.Key.Server, "tenant", a.Key.Tenant, "task", a.Key.Digest())
		}
		if !b.sleep(ctx) {
			return context.Cause(ctx)
		}
	}
	err := put()
	a.p.settled(a.Key, c, err, back)
	return err
}

// putPart stores a part beside the record, as long as the attempt has the task. mu is held.
func (a *Attempt) putPart(ctx context.Context, name string, data []byte) error {
	for b := (backoff{}); ; {
		left := a.rec.Left(a.p.Store.Now())
		if left == 0 {
			return a.lost(actors.ErrNotFound)
		}
		err := a.p.Store.PutPart(ctx, a.Key.path(), name, data, a.rev, left)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, actors.ErrFenced), errors.Is(err, actors.ErrConflict):
			// A client may have changed the record, which leaves the attempt the task.
			if err := a.reread(ctx); err != nil {
				return a.lost(err)
			}
			if a.rec.State == task.Ended || a.rec.Epoch != a.epoch {
				return a.lost(task.ErrFenced)
			}
		case errors.Is(err, actors.ErrUnavailable), errors.Is(err, actors.ErrAgain), errors.Is(err, actors.ErrFull):
			if !b.sleep(ctx) {
				return fmt.Errorf("worker: %w: %w", context.Cause(ctx), err)
			}
		default:
			return err
		}
	}
}

// giveBack gives the task back that the node does not go on with.
func (a *Attempt) giveBack() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), 5*time.Second)
	defer cancel()
	if a.change(ctx, func(r *task.Record) error { return r.Yield(a.epoch, a.p.Store.Now()) }) == nil {
		_ = a.work.Load().Later(0)
	}
}

// drop forgets the attempt, and gives its place back.
func (a *Attempt) drop() {
	a.clear()
	if !a.parked.Load() {
		a.p.free(a.work.Load())
	}
	a.p.mu.Lock()
	defer a.p.mu.Unlock()
	if a.p.live[a.Key] == a {
		delete(a.p.live, a.Key)
	}
}

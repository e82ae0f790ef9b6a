package worker

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/task"
)

// given is work that this process was given.
type given struct {
	Work
	s    *serving
	key  Key          // of its task
	who  string       // whose task it is
	kept atomic.Int64 // when it was given, or kept last, unix nanoseconds
}

// fate is what becomes of work that was given out.
type fate uint8

const (
	begins         fate = iota // an attempt begins
	goesOn                     // it is that of the attempt which is here: its handler goes on, or has run all the time
	runsAlready                // the task runs here, by other work
	isOver                     // there is nothing to run: the task has ended, or has just been taken over
	isEarly                    // the record does not say that there is anything to run
	isStale                    // it was not kept: another worker has it by now
	isUnknown                  // the service cannot run the task now
	waitsElsewhere             // a handler waits in another process
	runsElsewhere              // the task may run in another process
	isSuspect                  // too many tasks run that may be what ends processes
)

// work does the work: it has a place.
func (w *given) work() {
	p := w.s.p
	m := &opening{w: w}
	m.Init()
	t := p.actors.tell(w.key, m)
	if m.Wait(); !m.granted { // another work of the same task is being looked at
		w.later(time.Second)
		w.free()
		return
	}
	a, f, err := w.beginAttempt(m.here)
	if err == nil && f == begins {
		a.enter(w)
		a.run()
		return
	}
	_ = t.ask(&opened{w: w})
	if f != goesOn || err != nil { // otherwise its place is the attempt's, or was given back
		w.putBack(f, err)
		w.free()
	}
}

// putBack has work come again that has begun nothing, or removes it if its task has ended. err is
// why the store could not be read.
func (w *given) putBack(f fate, err error) {
	p := w.s.p
	switch {
	case f == isEarly, errors.Is(err, store.ErrNotFound):
		w.putOffEarly()
	case err != nil && w.s.ctx.Err() != nil:
		w.later(0)
	case err != nil:
		p.Log.Warn("a task cannot be read now", "server", w.s.ID, "task", w.key.Digest(), "error", err)
		w.later(time.Second)
	case f == isOver:
		switch ended, err := p.dropEnded(w.s.ctx, w.key); {
		case err != nil:
			w.later(time.Second)
		case ended:
			_ = w.Done()
		default:
			w.putOffEarly()
		}
	case f == isUnknown:
		w.later(unknownRetry)
	case f == waitsElsewhere:
		w.later(waitsElsewhereRetry)
	case f == runsElsewhere, f == runsAlready: // it stays until the task has ended
		w.later(runsElsewhereRetry)
	case f == isSuspect:
		w.later(p.places.PutOff(time.Now()))
	}
}

// beginAttempt begins an attempt for work, unless there is none to begin. No other goroutine of the
// process does so for the same task.
func (w *given) beginAttempt(here *Attempt) (*Attempt, fate, error) {
	p, s, key := w.s.p, w.s, w.key
	for {
		r, rev, err := p.readBy(s.ctx, key, p.Store.Peek) // whoever makes the task may be about to store its record
		if err != nil {
			return nil, 0, err
		}
		if here != nil {
			if f, err := w.meetAttempt(here, &r); f != begins || err != nil {
				return nil, f, err
			}
		}
		if r.State != task.Ended && !s.Known(r.Method, r.Name) {
			return nil, isUnknown, nil
		}
		if f := w.elsewhere(&r); f != begins {
			return nil, f, nil
		}
		if r.State == task.Running {
			switch stored, err := p.Store.PartsSince(s.ctx, key.path(), rev); {
			case err != nil:
				return nil, 0, err
			case stored:
				r.Progressed()
			}
		}
		// Everything is read before the attempt begins: one that has begun runs. Whoever has the
		// record has the request, which was stored before.
		var req Request
		size, bad := p.request(s.ctx, key, &req)
		if bad != nil && !errors.Is(bad, errNoRequest) {
			return nil, 0, bad
		}
		epoch, err := r.Begin(p.Node, p.Boot, p.Store.Now())
		r.Work = w.Seq()
		switch {
		case errors.Is(err, task.ErrEnded):
			return nil, isOver, nil
		case errors.Is(err, task.ErrWaiting):
			return nil, isEarly, nil
		case s.ctx.Err() != nil:
			return nil, 0, context.Cause(s.ctx)
		case !w.fresh():
			return nil, isStale, nil
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
		clear := p.suspects.admit(&r)
		if clear == nil {
			return nil, isSuspect, nil
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
		case errors.Is(err, store.ErrConflict):
			continue
		case err != nil:
			return nil, 0, err
		case ended:
			return nil, isOver, nil
		}
		a := newAttempt(s, key, known{r, next, epoch}, w, req, began)
		a.stored = size
		if a.clear = clear; r.Lost >= suspectAfter {
			time.AfterFunc(suspectFor, clear)
		}
		return a, begins, nil
	}
}

// meetAttempt says what the work is to an attempt that is here, by the record as it was read. A
// handler that waited goes on if the answers are in the record.
func (w *given) meetAttempt(a *Attempt, r *task.Record) (fate, error) {
	m := &meeting{a: a, w: w, r: r}
	if r.State != task.Queued {
		err := a.actor.ask(m)
		return m.fate, err
	}
	err := a.takeTurn(func() error {
		if err := a.actor.ask(m); err != nil || m.fate == begins {
			return err
		}
		// Where it has run meanwhile, the steps are stored that this handler does not know.
		if err := a.checkEpoch(w.s.ctx); err != nil {
			return err
		}
		err := a.putRecord(w.s.ctx, func(r *task.Record, _ uint64) error {
			_, err := r.Begin(w.s.p.Node, w.s.p.Boot, w.s.p.Store.Now())
			r.Work = w.Seq()
			return err
		})
		if err != nil {
			return err
		}
		return a.actor.ask(&resumed{a: a, w: w})
	})
	if errors.Is(err, ErrTakenOver) || errors.Is(err, ErrCancelled) || errors.Is(err, task.ErrWaiting) {
		return isOver, nil
	}
	return m.fate, err
}

// later has the store give work out again after a time.
func (w *given) later(d time.Duration) {
	_ = w.Later(d)
	_ = w.s.Post(putOff{time.Now().Add(d)})
}

// putOffEarly puts work off whose record does not say that there is something to run, nor that the
// task has ended. It is never removed: the record may be about to be stored, or have expired only
// by the clock of this process. Work that nobody needs expires with its task.
func (w *given) putOffEarly() {
	n := w.Deliveries()
	if n < earlyLooks {
		w.later(time.Duration(n) * earlyLookWait)
		return
	}
	_ = w.Later(min(time.Second<<min(n-earlyLooks, 20), maxLookWait)) // nobody asks for it again each second
}

// keep says that the work is being done.
func (w *given) keep() {
	now := time.Now().UnixNano()
	if w.Keep() == nil {
		w.kept.Store(now)
	}
}

// fresh reports whether the work was kept so lately that nobody else has been given it.
func (w *given) fresh() bool { return time.Now().UnixNano()-w.kept.Load() < int64(4*keepEvery) }

// free gives the place of work back, to work that waits for one.
func (w *given) free() {
	if next, ok := w.s.p.places.Leave(w.who); ok {
		w.s.p.running.Go(next.work)
	}
}

// errNoRequest reports that the request of a task is not there, or cannot be read.
var errNoRequest = errors.New("worker: the request of a task cannot be read")

// internalError is the error of a task that broke down.
var internalError = []byte(`{"code":-32603,"message":"internal error"}`)

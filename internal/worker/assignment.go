package worker

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/task"
)

// assignment is work that this process was given.
type assignment struct {
	Work
	s    *serving
	key  Key          // of its task
	who  string       // whose task it is
	kept atomic.Int64 // when it was given, or kept last, unix nanoseconds
}

// fate is what becomes of work that was given out.
type fate uint8

const (
	fateBegins      fate = iota // an attempt begins
	fateResumes                 // it is that of the attempt which is here: its handler goes on, or has run all the time
	fateRunsHere                // the task runs here, by other work, or its outcome is being stored
	fateOver                    // there is nothing to run: the task has ended, or has just been taken over
	fateEarly                   // the record does not say that there is anything to run
	fateStale                   // it was not kept: another worker has it by now
	fateUnknownTool             // the service cannot run the task now
	fateWaitsRemote             // a handler waits in another process
	fateRunsRemote              // the task may run in another process
	fateSuspect                 // too many tasks run that may be what ends processes
)

// doWork does the work: it has a place.
func (w *assignment) doWork() {
	p := w.s.p
	m := &opening{w: w}
	m.Init()
	t := p.actors.tellActor(w.key, m)
	if m.Wait(); !m.granted { // another work of the same task is being looked at
		w.deliverLater(time.Second)
		w.freePlace()
		return
	}
	a, f, err := w.beginAttempt(t)
	if err == nil && f == fateBegins {
		if a.enterActor(w) {
			a.runHandler()
		}
		return
	}
	_ = t.askActor(&opened{w: w})
	if f != fateResumes || err != nil { // otherwise its place is the attempt's, or was given back
		w.putBack(f, err)
		w.freePlace()
	}
}

// putBack has work come again that has begun nothing, or removes it if its task has ended. err is
// why the store could not be read.
func (w *assignment) putBack(f fate, err error) {
	p := w.s.p
	switch {
	case f == fateEarly, errors.Is(err, store.ErrNotFound):
		w.putOffEarly()
	case err != nil && w.s.ctx.Err() != nil:
		w.deliverLater(0)
	case err != nil:
		p.Log.Warn("a run of a task cannot begin now", "server", w.s.ID, "task", w.key.Digest(), "error", err)
		w.deliverLater(time.Second)
	case f == fateOver:
		switch ended, err := p.dropEnded(w.s.ctx, w.key); {
		case err != nil:
			w.deliverLater(time.Second)
		case ended:
			_ = w.Done()
		default:
			w.putOffEarly()
		}
	case f == fateUnknownTool:
		w.deliverLater(unknownToolRetry)
	case f == fateWaitsRemote:
		w.deliverLater(remoteWaitRetry)
	case f == fateRunsRemote, f == fateRunsHere: // it stays until the task has ended
		w.deliverLater(remoteRunRetry)
	case f == fateSuspect:
		w.deliverLater(p.places.PutOff(time.Now()))
	}
}

// beginTries is how often an attempt tries to begin whose record others change meanwhile. The work
// stays fresh for as long as that takes; then it is put back.
const beginTries = 5

// beginAttempt begins an attempt for work, unless there is none to begin. No other goroutine of the
// process does so for the same task. It reports store.ErrConflict if the record changes each time.
func (w *assignment) beginAttempt(t *taskActor) (*Attempt, fate, error) {
	for b, tries := (backoff{}), 1; ; tries++ {
		a, f, err := w.tryAttempt(t)
		if !errors.Is(err, store.ErrConflict) || tries == beginTries || !b.sleep(w.s.ctx) {
			return a, f, err
		}
	}
}

// tryAttempt is beginAttempt for a record that does not change meanwhile.
func (w *assignment) tryAttempt(t *taskActor) (*Attempt, fate, error) {
	p, s, key := w.s.p, w.s, w.key
	r, rev, err := p.readBy(s.ctx, key, p.Store.Peek) // whoever makes the task may be about to store its record
	if err != nil {
		return nil, 0, err
	}
	// The record may be that of an attempt which has come here meanwhile.
	if f, err := w.matchAttempt(t, &r); f != fateBegins || err != nil {
		return nil, f, err
	}
	if r.State != task.Ended && !s.Known(r.Method, r.Name) {
		return nil, fateUnknownTool, nil
	}
	if f := w.remoteFate(&r); f != fateBegins {
		return nil, f, nil
	}
	if r.State == task.Running {
		switch stored, err := p.Store.PartsSince(s.ctx, key.path(), rev); {
		case err != nil:
			return nil, 0, err
		case stored:
			r.NoteProgress()
		}
	}
	// Everything is read before the attempt begins: one that has begun runs. Whoever has the
	// record has the request, which was stored before.
	var req Request
	size, bad := p.readRequest(s.ctx, key, &req)
	if bad != nil && !errors.Is(bad, store.ErrNotFound) {
		return nil, 0, bad
	}
	epoch, err := r.BeginAttempt(p.Node, p.Boot, p.Store.Now())
	r.Work = w.Seq()
	switch {
	case errors.Is(err, task.ErrEnded):
		return nil, fateOver, nil
	case errors.Is(err, task.ErrWaiting):
		return nil, fateEarly, nil
	case s.ctx.Err() != nil:
		return nil, 0, context.Cause(s.ctx)
	case !w.isFresh():
		return nil, fateStale, nil
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
	clear := p.suspects.admitSuspect(&r)
	if clear == nil {
		return nil, fateSuspect, nil
	}
	// What has begun does not end with the mount: that would be an attempt without a run.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), beginWait)
	began := time.Now().UnixNano()
	next, err := p.putRecord(ctx, key, &r, rev)
	cancel()
	if err != nil || ended {
		clear()
	}
	switch {
	case err != nil:
		return nil, 0, err
	case ended:
		return nil, fateOver, nil
	}
	a := newAttempt(s, key, known{r, next, epoch}, w, req, began)
	a.requestSize = size
	if a.endSuspicion = clear; r.Lost >= suspectAfter {
		time.AfterFunc(suspectTime, clear)
	}
	return a, fateBegins, nil
}

// matchAttempt says what the work is to an attempt that is here, by the record as it was read. A
// handler that waited goes on if the answers are in the record.
func (w *assignment) matchAttempt(t *taskActor, r *task.Record) (fate, error) {
	m := &matching{w: w, r: r}
	if err := t.askActor(m); err != nil || m.a == nil || r.State != task.Queued {
		return m.fate, err
	}
	a := m.a
	err := a.takeTurn(func() error { // it may have been about to wait
		if err := t.askActor(m); err != nil || m.fate == fateBegins {
			return err
		}
		// Where it has run meanwhile, the steps are stored that this handler does not know.
		if err := a.checkEpoch(w.s.ctx); err != nil {
			return err
		}
		err := a.changeInTurn(w.s.ctx, func(r *task.Record, _ uint64) error {
			_, err := r.BeginAttempt(w.s.p.Node, w.s.p.Boot, w.s.p.Store.Now())
			r.Work = w.Seq()
			return err
		})
		if err != nil {
			return err
		}
		return t.askActor(&resumed{a: a, w: w})
	})
	switch {
	case errors.Is(err, ErrTakenOver) && a.known.Load().rec.State != task.Ended:
		return fateBegins, nil // in place of the handler that was here
	case errors.Is(err, ErrTakenOver), errors.Is(err, ErrCancelled), errors.Is(err, task.ErrWaiting):
		return fateOver, nil
	}
	return m.fate, err
}

// deliverLater has the store give work out again after a time.
func (w *assignment) deliverLater(d time.Duration) {
	_ = w.Later(d)
	_ = w.s.Post(workPutOff{time.Now().Add(d)})
}

// putOffEarly puts work off whose record does not say that there is something to run, nor that the
// task has ended. It is never removed: the record may be about to be stored, or have expired only
// by the clock of this process. Work that nobody needs expires with its task.
func (w *assignment) putOffEarly() {
	n := w.Deliveries()
	if n < earlyLooks {
		w.deliverLater(time.Duration(n) * earlyLookWait)
		return
	}
	_ = w.Later(min(time.Second<<min(n-earlyLooks, 20), maxLookWait)) // nobody asks for it again each second
}

// keepWork says that the work is being done.
func (w *assignment) keepWork() {
	now := time.Now().UnixNano()
	if w.Keep() == nil {
		w.kept.Store(now)
	}
}

// isFresh reports whether the work was kept so lately that nobody else has been given it.
func (w *assignment) isFresh() bool { return time.Now().UnixNano()-w.kept.Load() < int64(silence) }

// freePlace gives the place of work back, to work that waits for one.
func (w *assignment) freePlace() {
	if next, ok := w.s.p.places.LeavePlace(w.who); ok {
		w.s.p.running.Go(next.doWork)
	}
}

// internalError is the error of a task that broke down.
var internalError = []byte(`{"code":-32603,"message":"internal error"}`)

// holderWait is for how long a task that may run again is left to the process whose handler waits
// for the answers.
const holderWait = 10 * time.Second

// silence is for how long a process that has written a task's record has certainly not been silent
// for as long as the servers wait.
const silence = 4 * keepEvery

// remoteFate says fateBegins, fateWaitsRemote if the answers of a task are for a handler that waits
// in another process, or the task runs in one that has not been given its work, as it ran before
// there was a task, and fateRunsRemote if the task runs in another process that is not gone and was
// given other work of it. A task that may not run again has nowhere else to go on: it is left to
// its process until that is gone. One that may is left to it while nobody can tell, as after an
// outage in which the process could not say that it has the work: it says so again before the work
// comes once more. So is one that its process has begun a moment ago: servers that start again do
// not know when work was given out that had been given out before, and give it out at once.
func (w *assignment) remoteFate(r *task.Record) fate {
	p, s := w.s.p, w.s
	safe := s.Safe(r.Method, r.Name)
	node, boot, is := r.Holder, r.HolderBoot, fateWaitsRemote
	kept := true // while its process is there
	switch {
	case !p.Shared:
		return fateBegins
	case r.State == task.Running && boot != "":
	case r.State == task.Running && (!safe || r.Work != 0 && r.Work != w.Seq()):
		node, boot, is = r.Node, r.Boot, fateRunsRemote
	case r.State == task.Running:
		node, boot, is, kept = r.Node, r.Boot, fateRunsRemote, p.Store.Now().UnixMilli()-r.Updated < silence.Milliseconds()
	case r.State != task.Queued || boot == "":
		return fateBegins
	case safe && p.Store.Now().UnixMilli()-r.Updated > holderWait.Milliseconds():
		return fateBegins
	}
	if boot == p.Boot {
		return fateBegins
	}
	if gone, err := p.Store.Gone(s.ctx, node, boot); err != nil || !gone && kept {
		return is
	}
	return fateBegins
}

// A process that is lost takes down all that it runs, and one of these tasks may be why. Each of
// them counts as lost, so that five such losses would end all; while few of them run at a time,
// most have not begun when the process is lost once more, and do not count.
const (
	// suspectAfter is after how many losses in a row a task is a suspect.
	suspectAfter = 2
	// suspectTime is for how long a suspect runs before it is none any more, unless it stores a
	// step or ends before.
	suspectTime = time.Second
)

// mostSuspects is how many suspects run at a time.
var mostSuspects = limits.TaskSuspects.Value()

// suspects are the places of tasks that may be what ends processes.
type suspects chan struct{}

// admitSuspect gives a task that is about to begin one of the places for suspects, if it is one.
// clear gives the place back, once; nil: there is none now.
func (s suspects) admitSuspect(r *task.Record) (clear func()) {
	if r.State == task.Ended || r.Lost < suspectAfter {
		return func() {}
	}
	select {
	case s <- struct{}{}:
		return sync.OnceFunc(func() { <-s })
	default:
		return nil
	}
}

// noWork is the work of an attempt that was not given its own yet.
type noWork struct{}

var _ Work = noWork{}

func (noWork) Of() (tenant, task, from string) { return "", "", "" }
func (noWork) Deliveries() uint64              { return 0 }
func (noWork) Seq() uint64                     { return 0 }
func (noWork) Keep() error                     { return nil }
func (noWork) Done() error                     { return nil }
func (noWork) Later(time.Duration) error       { return nil }

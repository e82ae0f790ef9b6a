package worker

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-run/troupe/internal/task"
)

// heldFor is for how long a task that may run again is left to the process whose handler waits for the answers.
const heldFor = 10 * time.Second

// elsewhere returns errHeld if the answers of a task are for a handler that waits in another process, or the task runs in one that has not been given
// its work, as it ran before there was a task, and errTwice if the task runs in
// another process that is not gone and was given other work of it. A task that may not run again has nowhere else to go on: it is left to
// its process until that is gone. One that may is left to it while nobody can tell, as after an outage in which the process could not say that it
// has the work: it says so again before the work comes once more.
func (p *Pool) elsewhere(s *serving, r *task.Record, w *given) error {
	safe := s.Safe(r.Method, r.Name)
	node, boot, is := r.Holder, r.HolderBoot, errHeld
	kept := true // while its process is there
	switch {
	case !p.Shared:
		return nil
	case r.State == task.Running && boot != "":
	case r.State == task.Running && (!safe || r.Work != 0 && r.Work != w.Seq()):
		node, boot, is = r.Node, r.Boot, errTwice
	case r.State == task.Running:
		node, boot, is, kept = r.Node, r.Boot, errTwice, false
	case r.State != task.Queued || boot == "":
		return nil
	case safe && p.Store.Now().UnixMilli()-r.Updated > heldFor.Milliseconds():
		return nil
	}
	if boot == p.Boot {
		return nil
	}
	if gone, err := p.Store.Gone(s.ctx, node, boot); err != nil || !gone && kept {
		return is
	}
	return nil
}

// release has another process go on with a task once it has its answers: the handler that waited here has ended with the mount. Of a
// process that ends, its lease says so.
func (a *Attempt) release() {
	if !a.p.Shared || a.p.base.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), 5*time.Second)
	defer cancel()
	_ = a.change(ctx, func(r *task.Record) error { return r.Release(a.epoch) })
}

// errGone reports that no handler waits here.
var errGone = errors.New("worker: no handler waits")

// resume has a handler go on that waited: the answers are in the record, and its new work has a place.
func (a *Attempt) resume(ctx context.Context, w *given) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.parked.Load() || a.returned || a.ctx.Err() != nil {
		return errGone
	}
	if err := a.reread(ctx); err != nil {
		return err
	}
	if a.rec.Epoch != a.epoch { // it has run elsewhere meanwhile, and stored steps that this handler does not know
		a.cancel(ErrTakenOver)
		return errGone
	}
	var epoch uint64
	if err := a.changeLocked(ctx, func(r *task.Record) (err error) {
		epoch, err = r.Begin(a.p.Node, a.p.Boot, a.p.Store.Now())
		r.Work = w.Seq()
		return err
	}); err != nil {
		if errors.Is(err, ErrTakenOver) || errors.Is(err, ErrCancelled) || errors.Is(err, task.ErrWaiting) {
			return errNothing
		}
		return err
	}
	a.epoch = epoch
	a.work.Store(w)
	a.parked.Store(false)
	close(a.wake)
	a.wake = nil
	return errResumed
}

// slowLock is a lock for what may take long. In virtual time (testing/synctest) a goroutine that waits for a mutex keeps the clock from
// going on, and with it the one that holds it while it waits for the store; one that waits for a channel does not. It has one place.
type slowLock chan struct{}

func (l slowLock) Lock()   { l <- struct{}{} }
func (l slowLock) Unlock() { <-l }

func (l slowLock) TryLock() bool {
	select {
	case l <- struct{}{}:
		return true
	default:
		return false
	}
}

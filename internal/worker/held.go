package worker

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/internal/task"
)

// holderWait is for how long a task that may run again is left to the process whose handler waits for the answers.
const holderWait = 10 * time.Second

// elsewhere says begins, waitsElsewhere if the answers of a task are for a handler that waits in another process, or the task runs in one that has not been given
// its work, as it ran before there was a task, and runsElsewhere if the task runs in
// another process that is not gone and was given other work of it. A task that may not run again has nowhere else to go on: it is left to
// its process until that is gone. One that may is left to it while nobody can tell, as after an outage in which the process could not say that it
// has the work: it says so again before the work comes once more.
func (w *given) elsewhere(r *task.Record) fate {
	p, s := w.s.p, w.s
	safe := s.Safe(r.Method, r.Name)
	node, boot, is := r.Holder, r.HolderBoot, waitsElsewhere
	kept := true // while its process is there
	switch {
	case !p.Shared:
		return begins
	case r.State == task.Running && boot != "":
	case r.State == task.Running && (!safe || r.Work != 0 && r.Work != w.Seq()):
		node, boot, is = r.Node, r.Boot, runsElsewhere
	case r.State == task.Running:
		node, boot, is, kept = r.Node, r.Boot, runsElsewhere, false
	case r.State != task.Queued || boot == "":
		return begins
	case safe && p.Store.Now().UnixMilli()-r.Updated > holderWait.Milliseconds():
		return begins
	}
	if boot == p.Boot {
		return begins
	}
	if gone, err := p.Store.Gone(s.ctx, node, boot); err != nil || !gone && kept {
		return is
	}
	return begins
}

// release has another process go on with a task once it has its answers: the handler that waited here has ended with the mount. Of a
// process that ends, its lease says so.
func (a *Attempt) release() {
	if !a.p.Shared || a.p.base.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), 5*time.Second)
	defer cancel()
	_ = a.changeRecord(ctx, func(r *task.Record, epoch uint64) error { return r.Release(epoch) })
}

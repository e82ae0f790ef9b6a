package worker

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/internal/task"
)

// Adopt stores a task of a call whose handler runs already. That run is the task's first attempt: no other begins beside it, wherever its work is given out, until
// it ends or its process is gone. It takes a place, also if there is none left where the process is about to end, and otherwise fails with ErrNoPlace then. The other errors are those
// of Create. Conclude must be called once, when the handler has returned.
func (p *Pool) Adopt(ctx context.Context, n NewTask) (_ *Attempt, made Snapshot, err error) {
	s, err := p.findService(n.Server)
	if err != nil {
		return nil, Snapshot{}, err
	}
	if !p.holdEnd() {
		return nil, Snapshot{}, ErrClosing
	}
	w := &given{Work: noWork{}, s: s, who: principal(n.Tenant, token(n.From))}
	if !p.places.Take(w.who, n.Ending) {
		p.running.Done()
		return nil, Snapshot{}, ErrNoPlace
	}
	var a *Attempt
	var epoch uint64
	began := time.Now()
	made, err = p.create(ctx, n, func(r *task.Record) (err error) {
		if r.Questions = n.Answered; size(r.Questions) > maxAsked || !leavesRoom(r) {
			return actors.ErrTooMuchInput
		}
		epoch, err = r.Adopt(p.Node, p.Boot, p.Store.Now())
		return err
	}, func(made Snapshot, size int) {
		a = newAttempt(s, made.Key, known{made.Record, made.Rev, epoch}, w, n.Request, began.UnixNano())
		a.stored, a.began = size, began
		a.enter(nil)
	})
	if err != nil {
		w.free()
		p.running.Done()
		return nil, Snapshot{}, err
	}
	p.changed(made.Key, made.Rev, &made.Record) // so that others open their queues, if it is the first task of the server
	return a, made, nil
}

// ErrNoPlace reports that the client of a call has as many handlers of tasks running as it may have now: the call goes on as one, and no task is stored.
var ErrNoPlace = errors.New("worker: there is no place for one task more that runs")

// Context ends with the attempt, for one of the causes of this package: nothing that its handler does counts any more then, or the node ends.
func (a *Attempt) Context() context.Context { return a.ctx }

// Conclude stores what the handler of an adopted call has returned.
func (a *Attempt) Conclude(res Result) {
	defer a.p.running.Done()
	a.conclude(a.began, res)
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

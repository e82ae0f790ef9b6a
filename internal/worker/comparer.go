package worker

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/task"
)

const (
	// compareEvery is how often tasks are compared with their work, by one of the processes that
	// share a store.
	compareEvery = 10 * time.Minute
	// compareTurn is for how long nobody else does so: shorter, so that who did it last does it
	// next.
	compareTurn = compareEvery - 30*time.Second
	// compareRetry is how soon a comparison begins anew that the store has not let end.
	compareRetry = 30 * time.Second
	// comparePage is how many records are read at a time, and compareRest for how much longer than
	// that took nothing is read then: a store may have hundreds of thousands of records, and
	// reading five thousand is a second of work.
	comparePage = 100
	compareRest = 3
)

// comparer compares tasks with their work.
type comparer struct{ p *Pool }

// repeatComparison offers the work of tasks again that have lost it, at the first mount and every
// ten minutes. The record of a task and its work lie in two streams, and one may be lost without
// the other: in a power cut, as each is flushed by its own timer, or with the stream of work, which
// somebody may remove.
func (c *comparer) repeatComparison() {
	p := c.p
	t := time.NewTimer(0)
	defer t.Stop()
	for mine := !p.Shared; ; {
		select {
		case <-t.C:
		case <-p.base.Done():
			return
		}
		err := p.serveWorking()
		if err == nil && !mine {
			mine, err = p.Store.TakeTurn(p.base, compareTurn)
		}
		if err == nil && mine {
			err = c.compareAll(p.base)
		}
		wait := compareEvery
		switch {
		case p.base.Err() != nil:
			return
		case err != nil: // a turn that it has, it keeps
			p.Log.Debug("tasks could not be compared with their work", "error", err)
			wait = compareRetry
		default:
			mine = !p.Shared
		}
		t.Reset(wait)
	}
}

// compareAll compares all tasks with their work.
func (c *comparer) compareAll(ctx context.Context) error {
	for from := uint64(0); ; {
		began := time.Now()
		page, err := c.p.Store.AllTasks(ctx, from, comparePage)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, st := range page {
			if err := c.offerLost(ctx, st); err != nil {
				return err
			}
			from = st.Rev + 1
		}
		select {
		case <-time.After(compareRest * time.Since(began)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// offerLost offers the work of a task again if the task has something to run, and no work of the
// number that its record has. To offer it twice does no harm.
func (c *comparer) offerLost(ctx context.Context, st Stored) error {
	p := c.p
	ctx, cancel := context.WithTimeout(ctx, beginWait)
	defer cancel()
	key := Key{st.Tenant, st.Server, st.ID}
	r, err := task.Decode(st.Data)
	if err != nil || r.State == task.Ended || r.State == task.Waiting || r.TimeLeft(p.Store.Now()) == 0 {
		return nil
	}
	has := func() (bool, error) { return p.Store.HasWork(ctx, key.Tenant, key.Server, key.ID, r.Work) }
	if there, err := has(); there || err != nil {
		return err
	}
	if r.State == task.Running && !c.isGone(ctx, &r) { // it needs no work as long as its process lives
		return nil
	}
	switch _, rev, err := p.readRecord(ctx, key); {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return err
	case rev != st.Rev: // it goes on
		return nil
	}
	o := p.actors.beginOffer(key, r.From)
	defer o.settleOffer()
	if err := o.makeWork(ctx, r.TimeLeft(p.Store.Now())); err != nil {
		return err
	}
	// Now that the stream has taken a write, what is not there is not there for certain. A stream
	// that is as it was earlier gives numbers twice.
	there, err := false, error(nil)
	if o.seq != r.Work {
		there, err = has()
	}
	if err == nil && !there {
		r.Work = o.seq
		_, err = p.putRecord(ctx, key, &r, st.Rev)
	}
	if there || errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrNotFound) { // it goes on, or has its work
		return p.Store.Withdraw(ctx, o.seq)
	}
	if err != nil {
		return err
	}
	p.Log.Warn("a task had lost its work, which is offered again", "server", key.Server, "task", key.Digest())
	p.Serve(key.Server)
	return nil
}

// isGone reports whether the process is gone that runs a task.
func (c *comparer) isGone(ctx context.Context, r *task.Record) bool {
	p := c.p
	if !p.Shared || r.Boot == p.Boot {
		return r.Boot != p.Boot
	}
	gone, err := p.Store.Gone(ctx, r.Node, r.Boot)
	return gone && err == nil
}

package worker

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/internal/task"
)

// charge is what a task stores, for as long as it is kept.
func (p *Pool) charge(key Key, r *task.Record, bytes int) Charge {
	return Charge{key.Tenant, r.From, bytes, time.UnixMilli(r.Created), time.Duration(r.TTL) * time.Millisecond}
}

// settled says what became of bytes of a task that were charged, and notes what is to be given back when it ends.
func (p *Pool) settled(key Key, c Charge, err error, back giveBack) {
	stored := err == nil || errors.Is(err, actors.ErrUnavailable)
	p.Ledger.Settle(c, stored)
	if stored {
		p.noteCharged(key, c, back)
	}
}

// over counts a task no more that has ended, and gives back what went with it; how is 0 if it is not known.
func (p *Pool) over(key Key, how task.Kind) {
	n := p.census.Remove(key)
	if how == task.Cancelled {
		n.atEnd += n.atCancellation
	}
	if n.atEnd > 0 {
		n.of.Bytes = n.atEnd
		p.Ledger.Return(n.of)
	}
}

// charged is what this process has charged for a task, and gives back early.
type charged struct {
	of                    Charge // the last
	atEnd, atCancellation int    // bytes
}

// noteCharged notes bytes of a task that were charged. What the census has not has ended, or expired: its bytes are given back with time.
func (p *Pool) noteCharged(key Key, c Charge, back giveBack) {
	if back == atExpiry {
		return
	}
	p.census.Note(key, func(n *charged) {
		if n.of = c; back == atEnd {
			n.atEnd += c.Bytes
		} else {
			n.atCancellation += c.Bytes
		}
	})
}

// drop deletes what a task that has ended needs no more: its request, and all parts of one that was cancelled.
func (p *Pool) drop(ctx context.Context, key Key, how task.Kind) error {
	name := requestPart
	if how == task.Cancelled {
		name = ""
	}
	return p.Store.DropPart(ctx, key.path(), name, math.MaxInt)
}

// dropEnded is drop for a task that has ended, and reports whether it has. One that goes on, or only seems to have expired, needs all that it has.
func (p *Pool) dropEnded(ctx context.Context, key Key) (ended bool, err error) {
	r, _, err := p.read(ctx, key)
	if errors.Is(err, actors.ErrNotFound) {
		p.over(key, 0)
		return false, nil
	}
	if err == nil && r.State == task.Ended {
		p.over(key, r.How())
		return true, p.drop(ctx, key, r.How())
	}
	return false, err
}

// tryOn does something in the background, again and again for beginWait while it fails, and then calls end. A pool that closes leaves it.
func (p *Pool) tryOn(f func(ctx context.Context) error, end func(err error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		go end(ErrClosing)
		return
	}
	p.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(p.base, beginWait)
		defer cancel()
		for b := (backoff{}); ; {
			err := f(ctx)
			if err == nil || !b.sleep(ctx) {
				end(err)
				return
			}
		}
	})
}

// undo deletes all of a task that could not be created, whose id nobody has, with its work if it has any, and gives back what was charged for it, unless it has ended, which did.
func (p *Pool) undo(key Key, c Charge, work uint64) {
	ended := p.census.Remove(key).atEnd == 0
	p.tryOn(func(ctx context.Context) error {
		// The record goes first: without it no attempt begins, and what begins without the request runs nothing.
		if err := p.Store.Delete(ctx, key.record(), 0); err != nil {
			return err
		}
		if err := p.Store.DropPart(ctx, key.path(), "", math.MaxInt); err != nil || work == 0 {
			return err
		}
		return p.Store.Withdraw(ctx, work)
	}, func(err error) { p.Ledger.Settle(c, ended || err != nil) })
}

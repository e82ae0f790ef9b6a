package worker

import (
	"context"
	"errors"
	"math"

	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/task"
)

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
	if errors.Is(err, store.ErrNotFound) {
		p.books.taskEnded(key, 0)
		return false, nil
	}
	if err == nil && r.State == task.Ended {
		p.books.taskEnded(key, r.How())
		return true, p.drop(ctx, key, r.How())
	}
	return false, err
}

// undo deletes all of a task that could not be created, whose id nobody has, with its work if it has any, and gives back what was charged for it, unless it has ended, which did.
func (p *Pool) undo(key Key, c Charge, work uint64) {
	ended := p.books.census.Remove(key).atEnd == 0
	p.keepTrying(func(ctx context.Context) error {
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

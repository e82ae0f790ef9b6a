package worker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/task"
)

// fence changes what is stored of a task, as long as its attempt has the task. One goroutine at a
// time has the turn to do so: each knows what the one before it has stored.
type fence struct {
	records *records
	key     Key
	actor   *taskActor              // is set in its turn
	cancel  context.CancelCauseFunc // ends the attempt
	turn    chan struct{}           // has one place
	known   atomic.Pointer[known]   // stored by whoever has the turn
	left    atomic.Bool             // the actor of the task has forgotten the attempt
}

// known is what an attempt knows to be stored of its task. It does not change.
type known struct {
	rec   task.Record
	rev   uint64
	epoch uint64 // of the attempt
}

// takeTurn waits for the turn, and does something with it. An attempt that is over has lost the
// task: this is a goroutine that its handler left behind. A panic is one of the actor, whose
// goroutine this is not.
func (f *fence) takeTurn(do func() error) error {
	f.turn <- struct{}{}
	defer func() { <-f.turn }()
	if f.left.Load() {
		return ErrTakenOver
	}
	err := errBroken
	f.actor.Contain(func() { err = do() })
	return err
}

// changeRecord changes the record of the task under the attempt's epoch. If another attempt has the
// task, or the task has ended, the attempt is over.
func (f *fence) changeRecord(ctx context.Context, edit func(r *task.Record, epoch uint64) error) error {
	return f.takeTurn(func() error { return f.changeInTurn(ctx, edit) })
}

// changeInTurn is changeRecord for whoever has the turn.
func (f *fence) changeInTurn(ctx context.Context, edit func(r *task.Record, epoch uint64) error) error {
	for b := (backoff{}); ; {
		k := f.known.Load()
		r := k.rec
		if err := edit(&r, k.epoch); err != nil {
			return f.endLost(err)
		}
		rev, err := f.records.putRecord(ctx, f.key, &r, k.rev)
		if err == nil {
			f.known.Store(&known{r, rev, r.Epoch})
			return nil
		}
		if errors.Is(err, store.ErrConflict) {
			err = f.rereadRecord(ctx)
		}
		if err != nil {
			return f.endLost(err)
		}
		if f.known.Load() == k && !b.sleep(ctx) { // the store does not say yet what has changed
			return context.Cause(ctx)
		}
	}
}

// rereadRecord reads the record again, which another may have changed. The store may answer with
// one that is older than what is known, which stays then.
func (f *fence) rereadRecord(ctx context.Context) error {
	for b := (backoff{}); ; {
		r, rev, err := f.records.readRecord(ctx, f.key)
		if err == nil {
			if k := f.known.Load(); rev > k.rev {
				f.known.Store(&known{r, rev, k.epoch})
			}
			return nil
		}
		if errors.Is(err, store.ErrNotFound) {
			return err
		}
		if !b.sleep(ctx) {
			return context.Cause(ctx)
		}
	}
}

// checkEpoch reads the record again, and ends the attempt if it has lost the task.
func (f *fence) checkEpoch(ctx context.Context) error {
	if err := f.rereadRecord(ctx); err != nil {
		return f.endLost(err)
	}
	if k := f.known.Load(); k.rec.State == task.Ended || k.rec.Epoch != k.epoch {
		return f.endLost(task.ErrEnded)
	}
	return nil
}

// putPart stores a part beside the record, as long as the attempt has the task.
func (f *fence) putPart(ctx context.Context, name string, data []byte) error {
	for b := (backoff{}); ; {
		k := f.known.Load()
		left := k.rec.TimeLeft(f.records.store.Now())
		if left == 0 {
			return f.endLost(store.ErrNotFound)
		}
		err := f.records.store.PutPart(ctx, f.key.path(), name, data, k.rev, left)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, store.ErrFenced), errors.Is(err, store.ErrConflict):
			// A client may have changed the record, which leaves the attempt the task.
			if err := f.checkEpoch(ctx); err != nil {
				return err
			}
			if f.known.Load() == k && !b.sleep(ctx) {
				return context.Cause(ctx)
			}
		case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrRetry), errors.Is(err, store.ErrFull):
			if !b.sleep(ctx) {
				return fmt.Errorf("worker: %w: %w", context.Cause(ctx), err)
			}
		default:
			return err
		}
	}
}

// endLost ends the attempt if err says that it has lost the task.
func (f *fence) endLost(err error) error {
	switch {
	case errors.Is(err, task.ErrEnded) && f.known.Load().rec.OutcomeKind() == task.Cancelled:
		err = ErrCancelled
	case errors.Is(err, task.ErrEnded), errors.Is(err, task.ErrFenced), errors.Is(err, store.ErrNotFound):
		err = ErrTakenOver
	default:
		return err
	}
	f.cancel(err)
	return err
}

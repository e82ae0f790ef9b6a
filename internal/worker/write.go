package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/task"
)

// known is what an attempt knows to be stored of its task.
type known struct {
	rec   task.Record
	rev   uint64
	epoch uint64 // of the attempt
}

// behind reports whether a record that was read says that the attempt has lost the task. An older
// one was read before the attempt went on under a newer epoch.
func (k *known) behind(r *task.Record) bool {
	return r.Epoch > k.epoch || r.Epoch == k.epoch && r.State == task.Ended
}

// write is a change to what is stored of a task. An attempt has one of them under way at a time:
// each knows what the one before it has stored.
type write struct {
	answered
	a     *Attempt
	asker *meeting // that waits for its end; nil: none does

	// begin and end are called in turns of the actor, and do on a goroutine of its own, however long
	// the store takes. Nothing is done if begin returns false. Each may be nil.
	begin   func() bool
	do      func(k *known) error
	end     func(begun bool, err error)
	known   known
	started bool
}

func (w *write) Refused(err error) {
	w.answered.Refused(err)
	if w.asker != nil {
		w.asker.Refused(err)
	}
}

// addWrite does a write once those before it are done.
func (t *taskActor) addWrite(w *write) {
	if !slices.Contains(t.attempts, w.a) { // it is from a goroutine that the handler left behind
		w.err = ErrTakenOver
		w.Done()
		return
	}
	t.writes++
	if w.a.writes = append(w.a.writes, w); len(w.a.writes) == 1 {
		t.startWrite(w.a)
	}
}

// unheard ends a write that was done while its actor ended: what it has stored is stored.
func (w *write) unheard() {
	w.Done()
	if w.asker != nil {
		w.asker.Refused(errBroken)
	}
}

// startWrite starts the first of an attempt's writes.
func (t *taskActor) startWrite(a *Attempt) {
	w := a.writes[0]
	w.known, w.started = a.known, true
	begins := true
	if w.begin != nil && !t.contained(func() { begins = w.begin() }) {
		w.Refused(errBroken)
		t.dropWrite(w)
		return
	}
	if !begins || w.do == nil {
		t.finishWrite(w, begins)
		return
	}
	go func() {
		w.err = errBroken
		t.Contain(func() { w.err = w.do(&w.known) })
		if t.Post(stored{w}) != nil { // a panic has ended it
			w.unheard()
		}
	}()
}

// removeWrite takes a write off those of its attempt, if it is there still.
func (t *taskActor) removeWrite(w *write) {
	if i := slices.Index(w.a.writes, w); i >= 0 {
		w.a.writes = slices.Delete(w.a.writes, i, i+1)
		t.writes--
	}
}

// startNext starts the next write of an attempt that has none under way.
func (t *taskActor) startNext(a *Attempt) {
	if len(a.writes) > 0 && !a.writes[0].started {
		t.startWrite(a)
	}
}

// dropWrite goes on with the next write after a panic.
func (t *taskActor) dropWrite(w *write) {
	t.removeWrite(w)
	t.startNext(w.a)
}

// contained runs f, and reports whether it did not panic.
func (t *taskActor) contained(f func()) (whole bool) {
	t.Contain(func() {
		f()
		whole = true
	})
	return whole
}

// endWrite takes over what a write has found and stored.
func (t *taskActor) endWrite(w *write) {
	w.a.known = w.known
	t.finishWrite(w, true)
}

// finishWrite answers who waits for a write, and starts the next.
func (t *taskActor) finishWrite(w *write, begun bool) {
	t.removeWrite(w)
	if w.end == nil || t.contained(func() { w.end(begun, w.err) }) {
		w.Done()
	} else {
		w.Refused(errBroken)
	}
	t.startNext(w.a)
}

// write has the actor of the task do a write, and waits for it. An attempt that is over has lost
// the task.
func (a *Attempt) write(w *write) error {
	w.a = a
	if a.actor.ask(w) != nil {
		return ErrTakenOver
	}
	return w.err
}

// change changes the record of the task under the attempt's epoch. If another attempt has the task,
// or the task has ended, the attempt is over.
func (a *Attempt) change(ctx context.Context, f func(r *task.Record, epoch uint64) error) error {
	return a.write(&write{do: func(k *known) error {
		return a.changeKnown(ctx, k, func(r *task.Record) error { return f(r, k.epoch) })
	}})
}

// changeKnown is change for a write.
func (a *Attempt) changeKnown(ctx context.Context, k *known, f func(r *task.Record) error) error {
	for {
		r := k.rec
		if err := f(&r); err != nil {
			return a.lost(err, &k.rec)
		}
		rev, err := a.p.records.put(ctx, a.Key, &r, k.rev)
		switch {
		case err == nil:
			k.rec, k.rev = r, rev
			return nil
		case errors.Is(err, store.ErrConflict):
			err = a.reread(ctx, k)
		}
		if err != nil {
			return a.lost(err, &k.rec)
		}
	}
}

// reread reads the record again, which another has changed.
func (a *Attempt) reread(ctx context.Context, k *known) error {
	for b := (backoff{}); ; {
		r, rev, err := a.p.records.read(ctx, a.Key)
		if err == nil {
			k.rec, k.rev = r, rev
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

// putPart stores a part beside the record, as long as the attempt has the task.
func (a *Attempt) putPart(ctx context.Context, k *known, name string, data []byte) error {
	for b := (backoff{}); ; {
		left := k.rec.Left(a.p.Store.Now())
		if left == 0 {
			return a.lost(store.ErrNotFound, &k.rec)
		}
		err := a.p.Store.PutPart(ctx, a.Key.path(), name, data, k.rev, left)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, store.ErrFenced), errors.Is(err, store.ErrConflict):
			// A client may have changed the record, which leaves the attempt the task.
			if err := a.reread(ctx, k); err != nil {
				return a.lost(err, &k.rec)
			}
			if k.rec.State == task.Ended || k.rec.Epoch != k.epoch {
				return a.lost(task.ErrFenced, &k.rec)
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

// lost ends the attempt if err says that it does not have the task any more, whose record is r.
func (a *Attempt) lost(err error, r *task.Record) error {
	switch {
	case errors.Is(err, task.ErrEnded) && r.How() == task.Cancelled:
		err = ErrCancelled
	case errors.Is(err, task.ErrFenced), errors.Is(err, task.ErrEnded), errors.Is(err, store.ErrNotFound):
		err = ErrTakenOver
	default:
		return err
	}
	a.cancel(err)
	return err
}

// storing does a write of so many bytes of the task, which it charges before. A step waits for that
// while the client has its share of the store.
func (a *Attempt) storing(ctx context.Context, bytes int, purpose Purpose, back giveBack, w *write) error {
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
	err := a.write(w)
	a.p.books.settle(a.Key, c, err, back)
	return err
}

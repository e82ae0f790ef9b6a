package worker

import (
	"context"
	"errors"

	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/task"
)

// editRecord changes the record of a task for its client, if edit says that it has changed.
func (p *Pool) editRecord(ctx context.Context, key Key, edit func(r *task.Record) (changed bool, err error)) (Snapshot, error) {
	for b := (backoff{}); ; {
		r, rev, err := p.readForClient(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			return Snapshot{}, ErrUnknown
		}
		if err != nil {
			return Snapshot{}, err
		}
		if changed, err := edit(&r); err != nil || !changed {
			return Snapshot{key, r, rev}, err
		}
		next, err := p.putRecord(ctx, key, &r, rev)
		switch {
		case errors.Is(err, store.ErrConflict):
			if !b.sleep(ctx) {
				return Snapshot{}, context.Cause(ctx)
			}
		case errors.Is(err, store.ErrNotFound):
			return Snapshot{}, ErrUnknown
		default:
			return Snapshot{key, r, next}, err
		}
	}
}

// Cancel ends a task for its client. task.ErrEnded: it has ended before, as the snapshot says.
func (p *Pool) Cancel(ctx context.Context, key Key) (Snapshot, error) {
	s, err := p.editRecord(ctx, key, func(r *task.Record) (bool, error) { return true, r.Cancel(p.Store.Now()) })
	if err == nil {
		p.actors.tellIfHeld(key, taskCancelled{})
	}
	if s.Record.OutcomeKind() != task.Cancelled {
		return s, err
	}
	drop := func(ctx context.Context) error { return p.dropParts(ctx, key, task.Cancelled) }
	if err != nil && !errors.Is(err, task.ErrEnded) { // it may go on, and then needs what it has
		p.keepTrying(func(ctx context.Context) error {
			_, err := p.dropEnded(ctx, key)
			return err
		}, func(error) {})
	} else if drop(ctx) != nil { // now, or before: that may have left something
		p.keepTrying(drop, func(error) {})
	}
	return s, err
}

// Answer takes a client's answers. Keys that nobody has asked for are ignored, and so are answers
// to a task that does not wait.
func (p *Pool) Answer(ctx context.Context, key Key, answers map[string]task.Reply) (Snapshot, error) {
	o := p.actors.beginOffer(key, "")
	defer o.settleOffer()
	var c Charge // of the answers
	s, err := p.editRecord(ctx, key, func(r *task.Record) (changed bool, err error) {
		o.from = clientToken(r.From)
		before := *r
		ready, err := r.TakeAnswers(answers, p.Store.Now())
		if err == nil && (questionsSize(r.Questions) > maxAsked || !leavesRoom(r)) {
			return false, ErrTooMuch
		}
		if err == nil {
			err = p.books.chargeAnswers(key, &c, &before, r)
		}
		if err == nil && ready {
			err = o.makeWork(ctx, r.TimeLeft(p.Store.Now()))
			r.Work = o.seq
		}
		return before.Updated != r.Updated || before.State != r.State || before.Unfit != r.Unfit || len(before.OpenQuestions()) != len(r.OpenQuestions()), err
	})
	if c.Bytes > 0 {
		p.books.settleBytes(key, c, err, atEnd)
	}
	if o.seq != 0 {
		p.Serve(key.Server)
	}
	if errors.Is(err, task.ErrNotWaiting) || errors.Is(err, task.ErrEnded) {
		err = nil
	}
	return s, err
}

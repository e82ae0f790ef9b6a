package worker

import (
	"errors"
	"time"

	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/task"
)

// books has what is counted of tasks: those that have not ended, as far as this process has made
// them or been given them and has not seen them end, and what they store.
type books struct {
	ledger Ledger
	census *quota.Census[Key, charged]
}

// charge is what a task stores, for as long as it is kept.
func charge(key Key, r *task.Record, bytes int) Charge {
	return Charge{key.Tenant, r.From, bytes, time.UnixMilli(r.Created), time.Duration(r.TTL) * time.Millisecond}
}

// settle says what became of bytes of a task that were charged, and notes what is to be given back
// when it ends.
func (b *books) settle(key Key, c Charge, err error, back giveBack) {
	stored := err == nil || errors.Is(err, store.ErrUnavailable)
	b.ledger.Settle(c, stored)
	if stored {
		b.note(key, c, back)
	}
}

// taskEnded counts a task no more that has ended, and gives back what went with it; how is 0 if it
// is not known.
func (b *books) taskEnded(key Key, how task.Kind) {
	n := b.census.Remove(key)
	if how == task.Cancelled {
		n.atEnd += n.atCancellation
	}
	if n.atEnd > 0 {
		n.of.Bytes = n.atEnd
		b.ledger.Return(n.of)
	}
}

// charged is what this process has charged for a task, and gives back early.
type charged struct {
	of                    Charge // the last
	atEnd, atCancellation int    // bytes
}

// note notes bytes of a task that were charged. What the census has not has ended, or expired: its
// bytes are given back with time.
func (b *books) note(key Key, c Charge, back giveBack) {
	if back == atExpiry {
		return
	}
	b.census.Note(key, func(n *charged) {
		if n.of = c; back == atEnd {
			n.atEnd += c.Bytes
		} else {
			n.atCancellation += c.Bytes
		}
	})
}

// The errors of a Pool that has as many tasks as it may. None was made.
var (
	// ErrTooMany reports that too many tasks of the principal have not ended.
	ErrTooMany = errors.New("worker: too many tasks of this principal have not ended")
	// ErrFull reports that too many tasks of the node have not ended.
	ErrFull = errors.New("worker: too many tasks of this node have not ended")
)

// openError is the error for what the census has said.
func openError(no quota.Refusal) error {
	switch no {
	case quota.Admitted:
		return nil
	case quota.Full:
		return ErrFull
	}
	return ErrTooMany
}

// chargeAnswers charges what answers add to the record of a task, once, however often the record is tried. Small ones count, and are never refused.
func (b *books) chargeAnswers(key Key, c *Charge, before, after *task.Record) error {
	bytes := size(after.Questions) - size(before.Questions)
	if bytes <= c.Bytes {
		return nil
	}
	if c.Bytes > 0 {
		b.ledger.Settle(*c, false)
	}
	*c = charge(key, after, bytes)
	purpose := ForStep
	if bytes <= smallAnswer {
		purpose = ForResult
	}
	err := b.ledger.Charge(*c, purpose)
	if err != nil {
		*c = Charge{}
	}
	return err
}

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
	census *quota.Census[Key, taskCharges]
}

// chargeFor is what a task stores, for as long as it is kept.
func chargeFor(key Key, r *task.Record, bytes int) Charge {
	return Charge{key.Tenant, r.From, bytes, time.UnixMilli(r.Created), time.Duration(r.TTL) * time.Millisecond}
}

// settleBytes says what became of bytes of a task that were charged, and notes what is to be given
// back when it ends.
func (b *books) settleBytes(key Key, c Charge, err error, back refundAt) {
	stored := err == nil || errors.Is(err, store.ErrUnavailable)
	b.ledger.Settle(c, stored)
	if stored {
		b.noteBytes(key, c, back)
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

// taskCharges is what this process has charged for a task, and gives back early.
type taskCharges struct {
	of                    Charge // the last
	atEnd, atCancellation int    // bytes
}

// noteBytes notes bytes of a task that were charged. What the census has not has ended, or expired:
// its bytes are given back with time.
func (b *books) noteBytes(key Key, c Charge, back refundAt) {
	if back == atExpiry {
		return
	}
	b.census.ChangeNote(key, func(n *taskCharges) {
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

// chargeAnswers charges what answers add to the record of a task, once, however often the record is
// tried. Small ones count, and are never refused.
func (b *books) chargeAnswers(key Key, c *Charge, before, after *task.Record) error {
	bytes := questionsSize(after.Questions) - questionsSize(before.Questions)
	if bytes == c.Bytes {
		return nil
	}
	if c.Bytes > 0 {
		b.ledger.Settle(*c, false)
	}
	*c = Charge{}
	if bytes <= 0 {
		return nil
	}
	next, purpose := chargeFor(key, after, bytes), ForStep
	if bytes <= smallAnswer {
		purpose = ForResult
	}
	err := b.ledger.Charge(next, purpose)
	if err == nil {
		*c = next
	}
	return err
}

// Ledger counts what tasks store on the clients whose they are. Its methods do not wait, and are
// safe for concurrent use.
type Ledger interface {
	// Charge counts bytes that are about to be stored. An error says that there is no room for
	// them, and that nothing was counted.
	Charge(c Charge, p Purpose) error
	// Settle says that bytes that were charged are stored, or that they certainly are not, which
	// gives them back.
	Settle(c Charge, stored bool)
	// Return gives back bytes that are stored no more.
	Return(c Charge)
}

// Charge is what is stored for a client, and for how long: that of its task, whenever it is stored.
type Charge struct {
	Tenant, Address string // Address is "" unless others share the tenant
	Bytes           int
	Made            time.Time // the task
	Kept            time.Duration
}

// Purpose is what bytes are stored for.
type Purpose uint8

// The purposes.
const (
	ForTask   Purpose = iota // a new task, which a store that is nearly full refuses, too
	ForStep                  // a step, or a large answer: refused only while the client has its share
	ForResult                // what ends a task, or has it go on: never refused
)

// noLedger is the ledger of a pool that has none.
type noLedger struct{}

func (noLedger) Charge(Charge, Purpose) error { return nil }
func (noLedger) Settle(Charge, bool)          {}
func (noLedger) Return(Charge)                {}

// smallAnswer is the size of answers, in bytes, that a task takes though its client has its share
// of the store.
const smallAnswer = 4 << 10

// refundAt says when bytes of a task are given back.
type refundAt uint8

const (
	atExpiry       refundAt = iota // with all that is left of the task
	atEnd                          // when it ends: requests, questions and answers
	atCancellation                 // when it is cancelled: steps, which otherwise say how it went
)

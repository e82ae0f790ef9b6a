package worker

import "time"

// Ledger counts what tasks store on the clients whose they are. Its methods do not wait, and are safe for concurrent use.
type Ledger interface {
	// Charge counts bytes that are about to be stored. An error says that there is no room for them, and that nothing was counted.
	Charge(c Charge, p Purpose) error
	// Settle says that bytes that were charged are stored, or that they certainly are not, which gives them back.
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

// freely is the ledger of a pool that has none.
type freely struct{}

func (freely) Charge(Charge, Purpose) error { return nil }
func (freely) Settle(Charge, bool)          {}
func (freely) Return(Charge)                {}

// smallAnswer is the size of answers, in bytes, that a task takes though its client has its share of the store.
const smallAnswer = 4 << 10

// giveBack says when bytes of a task are given back.
type giveBack uint8

const (
	atExpiry       giveBack = iota // with all that is left of the task
	atEnd                          // when it ends: requests, questions and answers
	atCancellation                 // when it is cancelled: steps, which otherwise say how it went
)

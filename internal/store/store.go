package store

import (
	"context"
	"time"
)

// Records keeps small values under keys, each with a revision that every change of it raises.
type Records interface {
	// Get reads a record. ErrNotFound is certain, which may cost a write. Peek is for keys that may
	// be made up, on which none is spent.
	Get(ctx context.Context, key string) (data []byte, rev uint64, err error)
	Peek(ctx context.Context, key string) (data []byte, rev uint64, err error)
	// Create stores a record that is not there yet, or returns ErrConflict.
	Create(ctx context.Context, key string, data []byte, ttl time.Duration) (rev uint64, err error)
	// Update replaces the record that has revision rev and gives it a new lifetime, or returns
	// ErrConflict.
	Update(ctx context.Context, key string, data []byte, rev uint64, ttl time.Duration) (uint64, error)
	// Delete removes the record that has revision rev, or any if rev is 0. With 0 a missing record
	// is no error.
	Delete(ctx context.Context, key string, rev uint64) error
}

// Log keeps the event log of each stream, with the record of its writer and the body of its call.
type Log interface {
	// OpenStream creates the writer record of a stream and, unless body is nil, beside it the body
	// of a call that may run again.
	OpenStream(ctx context.Context, stream string, rec, body []byte, ttl time.Duration) (rev uint64, err error)
	// Writer reads the writer record as Get does.
	Writer(ctx context.Context, stream string) (rec []byte, rev uint64, err error)
	// Holds returns nil if the writer record has revision rev, and ErrFenced if it has not. Both
	// are certain, which may cost a write.
	Holds(ctx context.Context, stream string, rev uint64) error
	// Body reads the body. ErrNotFound: there is none, or a part of it is missing.
	Body(ctx context.Context, stream string) ([]byte, error)
	// Rewrite rewrites the writer record if its revision is still rev. From then on appends under
	// rev are refused. KeepBody then gives the body the same lifetime; a nil body keeps the stored
	// one.
	Rewrite(ctx context.Context, stream string, rec []byte, rev uint64, ttl time.Duration) (uint64, error)
	KeepBody(ctx context.Context, stream string, body []byte, rev uint64, ttl time.Duration) error
	// Append stores append num if the writer record still has revision rev. It calls done once, from
	// another goroutine, and does not keep data.
	Append(stream string, rev, num uint64, data []byte, done func(error))
	// Read calls f with the stored appends from..to in order. One that is missing is gone:
	// overwritten, emptied or expired. After an error nothing is known of those that f did not get.
	Read(ctx context.Context, stream string, from, to uint64, f func(num uint64, data []byte)) error
	// Tail is the number of the last append, found forward from hint.
	Tail(ctx context.Context, stream string, hint uint64) (uint64, error)
	// EndStream removes a stream. What is left after an error expires.
	EndStream(ctx context.Context, stream string) error
}

// Lease is this node's claim to what it has.
type Lease interface {
	// Suspended reports whether the lease is uncertain now: the node must take no new work.
	Suspended() bool
	// Lapsed reports whether the lease has been over for as long as it lasts: by then others have
	// what this node had, if they live.
	Lapsed() bool
	// MarkTaken notes for a time that a boot is gone, before the first of its streams is taken over.
	MarkTaken(ctx context.Context, boot string, ttl time.Duration) error
	// Taken reports whether some node has noted that of this one. False is certain, which may cost
	// a write.
	Taken(ctx context.Context) (bool, error)
}

// Store is what sessions and their streams need.
type Store interface {
	Records
	Log
	Lease
	// Now is the clock by which the store counts lifetimes. It is a machine's clock and may jump; it
	// has no monotonic reading.
	Now() time.Time
	// Use returns how many bytes of a budget are in use, and its limit; both are 0 if unknown.
	Use(b Budget) (used, limit int64)
}

// Budget names a part of the store that has a limit of its own.
type Budget uint8

// The budgets that clients fill.
const (
	SessionBudget Budget = iota // the records of sessions
	EventBudget                 // the event log, with the records and bodies of calls
	TaskBudget                  // tasks, with their requests, steps and outcomes
	Budgets                     // how many there are
)

// Keys seal data that clients carry for a node. Any node of the store can open it, and nobody else
// can read or change it.
type Keys interface {
	// Seal binds what it seals to aad. ErrUnavailable: there is no key to be had now.
	Seal(plain, aad []byte) ([]byte, error)
	// Open needs the aad of Seal. ErrSealed: sealed is not good and never will be. ErrUnavailable:
	// that is unknown.
	Open(sealed, aad []byte) ([]byte, error)
	// Tag returns a code of 8 bytes that only nodes of the store can make for data, nil if there is
	// none. It does not read the store.
	Tag(data []byte) []byte
}

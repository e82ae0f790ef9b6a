// Package sim holds a deterministic model of the store, for tests in virtual time.
//
// A Store is what a power cut leaves: records and the event log of streams, as
// package cluster keeps them in NATS, with the same revisions, guards, lifetimes and
// ring. Its only clock is that of the bubble it is used in, plus Store.Jump: the
// clock of a machine jumps, or goes on while a process stands still. Store.Snapshot
// is a flush, and Store.Restore is a power cut.
//
// A Link is one process's way to a store. It delays and fails operations as its Fate
// says, and can be down or dead. An operation that was under way then may have been
// done or not: its outcome is unknown.
//
//	Link:  up ◀──▶ down        up, down ──▶ dead
//
// All of it may be used from any goroutine. A test in package cluster compares the
// model with the real store.
//
// # Files
//
// From the top; most of what a file uses lies in its own line or below:
//
//	link  Link
//	store  Store
//	errors  what operations of both fail with
package sim

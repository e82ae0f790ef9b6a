// Package sim holds a deterministic model of the store, for tests in virtual time.
//
// A Store is what a power cut leaves: records and the event log of streams, as
// package cluster keeps them in NATS, with the same revisions, guards, lifetimes
// and ring. It has no clock of its own but that of the bubble it is used in, plus
// Store.Jump, which is how the clock of a machine jumps or goes on while a process
// stands still. Store.Snapshot and Store.Restore are a flush and a power cut.
//
// A Link is one process's way to a store. It takes the time and the faults that
// its Fate says, and can be down or dead. An operation that was under way then has
// been done or not, and nobody knows.
//
//	Link:  up ◀──▶ down        up, down ──▶ dead
//
// Everything may be used from any goroutine. A test in package cluster holds the
// model against the real store.
package sim

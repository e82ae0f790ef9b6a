// Package sim holds a deterministic model of the store, for tests in virtual time.
//
// A Store is what a power cut leaves: records and the event log of streams, as
// package cluster keeps them in NATS, with the same revisions, guards, lifetimes and
// ring. Its only clock is that of the bubble it is used in, plus Store.Jump: the
// clock of a machine jumps, or goes on while a process stands still. Store.Snapshot
// is a flush, and Store.Restore is a power cut; Snapshot.Apart is one that takes back
// only what some of the server's streams have.
//
// A Link is one process's way to a store. It delays and fails operations as its Fate
// says, and can be down or dead. An operation that was under way then may have been
// done or not: its outcome is unknown. A link that is behind is down, but for reads, which
// find what was stored when it was cut off, as from a leader that does not know yet that it
// was replaced.
//
//	Link:  up ◀──▶ behind, down        up, behind, down ──▶ dead
//
// A link also stands for the process's entry in the store, which it renews while it is up.
// The entry is gone when it was not renewed for a lease, when another boot of the node has
// begun, or when the process has given it back. Link.Freeze has the process stand still, in
// either phase, and Link.Ahead has it be wrong about the store's clock.
//
// An Office carries messages between processes, each of which has a Box there.
//
// All of it may be used from any goroutine. A test in package cluster compares the
// model with the real store.
package sim

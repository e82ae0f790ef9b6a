// Package worker runs the durable tasks of a node: it creates them, takes what they have to run
// from a queue that all nodes share, runs attempts, and answers what clients ask of them. Package
// internal/task says how a task changes; this package reads and writes the store.
//
// # Guarantees
//
//   - [Pool.Create] returns once the task is stored: whatever happens to the process, it runs or
//     expires. Its work is offered again where the store has lost it, and is removed only once the
//     task has ended.
//   - An attempt changes a task only while no other attempt has taken it over. The store checks
//     each write of an attempt, its steps included, against the revision of the task's record.
//   - What ended never changes. A step that was stored does not run again, and a question that was
//     answered is not asked again.
//   - A task that waits for its client holds no place among those that run.
//   - Principals get places in turn: nobody waits behind all that another has queued. Work for
//     which a process has no room stays in the store, and comes again.
//
// # The way of a task
//
//	Create ──▶ work message ──▶ record ──▶ the client has the id
//	queue  ──▶ Begin ──▶ handler ──▶ Finish ──▶ work is done
//	                      │  └─ Step: stored before the handler goes on
//	                      └─ Ask: work is done, the handler waits in memory
//	Answer ──▶ work message ──▶ record ──▶ the handler goes on, or runs again if its process is gone
//	Adopt  ──▶ work message ──▶ record of a run under way ──▶ Conclude
//
// The work of an adopted run goes to the process that has the run, as long as that is there.
//
// A worker keeps the work messages of all that it runs once a second. Whoever says nothing for five
// seconds has lost them.
//
// # Goroutines
//
// Any goroutine may call the methods of Pool and Attempt. A handler runs on a goroutine of its own.
//
// Each task that this node holds has an actor (package kernel): while its work is made or looked at
// here, and while its handler runs here or waits here for the client. The actor alone decides what
// becomes of the task here, and never blocks. Whoever reads or writes the store does so on another
// goroutine, and tells the actor what came of it:
//
//	its work is made ──▶ its work is looked at ──▶ its handler runs ◀──▶ its handler waits
//
// Any of these but the last may be the first. An actor of which none is true any more ends.
//
// A mounted server has one, too, which asks its queue for work that the store may have overlooked.
//
// What is stored of a task is changed by whoever has the turn of its attempt (see fence), one
// goroutine at a time. Work that is in line for a place has no actor yet: package quota has the
// lines, and the count of the tasks that have not ended.
package worker

// Package worker runs the durable tasks of a node: it creates them, takes what they have to run from a queue that all nodes
// share, runs attempts, and answers what clients ask of them. Package internal/task says how a task changes; this package
// reads and writes the store.
//
// # Guarantees
//
//   - [Pool.Create] returns once the task is stored: whatever happens to the process, it runs or expires. Its work is offered again where the
//     store has lost it, and is removed only once the task has ended.
//   - An attempt changes a task only while no other attempt has taken it over. The store checks each write of an attempt,
//     its steps included, against the revision of the task's record.
//   - What ended never changes. A step that was stored does not run again, and a question that was answered is not asked again.
//   - A task that waits for its client holds no place among those that run.
//   - Principals get places in turn: nobody waits behind all that another has queued. Work for which a process has no room stays in
//     the store, and comes again.
//
// # The way of a task
//
//	Create ──▶ work message ──▶ record ──▶ the client has the id
//	queue  ──▶ Begin ──▶ handler ──▶ Finish ──▶ work is done
//	                      │  └─ Step: stored before the handler goes on
//	                      └─ Ask: work is done, the handler waits in memory
//	Answer ──▶ work message ──▶ record ──▶ the handler goes on, or runs again where its process is gone
//	Adopt  ──▶ work message ──▶ record of a run under way ──▶ Conclude; the work goes to the process that has the run, as long as it is there
//
// A worker keeps the work messages of all that it runs once a second. Whoever says nothing for five seconds has lost them.
//
// # Goroutines
//
// Any goroutine may call the methods of Pool and Attempt. A handler runs on a goroutine of its own.
//
// # Files
//
// From the top; most of what a file uses lies in its own line or below:
//
//	follow tasks look  what clients and operators ask of tasks
//	adopt step held attempt question  a run of a handler, which may wait for its client
//	compare reclaim offer pool serving suspect ending  the tasks of a node: queues, what runs, and what goes with their ends
//	store ledger  what a pool is given
package worker

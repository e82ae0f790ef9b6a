// Package pool decides which instance of a backend serves a call, and when instances begin and end. An instance is one
// process, upstream session or in-process session of a backend; a call that wants one is a want. The package is a
// machine: it has no clock, starts nothing and knows no protocol. Its user tells it what has happened, and does what it
// returns.
//
//	Want ──▶ Give, or a place in the queue, or Refuse          CallEnded gives it back
//	Start ──▶ InstanceReady | StartFailed          Stop ──▶ InstanceExited
//
// # Who gets which instance
//
// A [Kind] is a backend, by the digest of its configuration, and what instances were told of their client. A want gets
// an instance of its kind. By the backend's [Isolation] the instance belongs to a holder from its first want on, and to
// nobody else: nothing that one holder has said to an instance is ever seen by another one. Instances that nobody has
// yet are spares; [Terms].Warm of them are kept for each kind that was wanted lately. A want that only looks ([Want].Looks)
// makes an instance nobody's: it is a spare for a minute, and whoever comes next is served by it.
//
// Over lines nothing says which call a question belongs to. So of the wants that may be asked ([Want].Askable) an
// instance serves one at a time; further ones of the same holder get further instances. A holder that is a session
// takes questions itself, and none of its wants is askable in this sense.
//
// # Bounds
//
// Instances that start, run or stop count toward the bounds of backend, principal and node. A want that finds no room
// waits; the queue is bounded for each backend, and principals take turns in it. A want that has waited for StartTimeout
// is refused. Instances that belong to somebody are not taken from them for others. Where a bound was lowered, instances
// beyond it end when they serve no call.
//
// # Faults
//
// A start that fails, and an instance that ends by itself within a minute, have the next start of that backend wait: a
// second, two, four and so on up to a minute, unless it was not the backend's fault ([ExcuseInstance]). From the fifth in a row
// on the breaker is open: wants are refused at once, with the reason of the last failure, until one start is tried when
// that time is over. A minute of life closes it, and so does [RestartBackend].
//
// An instance that has not ended a cancelled call within CancelWait is suspect of asking the next caller: it ends once
// its other calls have, and gets none. One that serves no call and does not answer a ping ends at once.
package pool

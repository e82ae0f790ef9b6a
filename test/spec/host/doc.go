// Package host has what the black-box tests of the specification share. Those tests lie below test/spec, a package
// for each subject. They use Troupe as its users do: through the public API, the wire, and metrics.
//
//   - [New] starts a runtime whose server has the tools, the resources and the prompt of [AddTestTools], behind a
//     listener in memory: it works in a bubble of virtual time. [NewLoopback] does the same behind a real listener.
//   - [Host.Client], [Host.Session], [Host.Stateless] and [Host.SSE] are its clients. [NewPipe] is a server on a pair
//     of pipes with its client. Unless their names say otherwise, the clients check each message of the server against
//     the official schema of its revision, if TROUPE_SPEC_DIR has that.
//   - [Call], [Method], [Note] and [Batch] write messages of a client; [TextResult], [ToolFault] and [Fault] write the
//     expected messages of the server. All are JSON as on the wire, so that a test shows it.
//   - [Host.Gauge] and its neighbours read the runtime's metrics.
//   - [Fleet] starts several runtimes on one store.
//   - [Crashed] starts another runtime with the data that a crash would leave.
//   - [Sized] chooses the size of a test that the race detector would make too slow in full.
//
// A helper belongs here once two packages use it. A function with a [testing.T] ends the test or marks it as failed; it
// may be called from the goroutine of the test alone, unless it says otherwise.
package host

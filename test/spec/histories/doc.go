// Package histories holds the property test of a fleet in a virtual cluster. It has nothing but tests.
//
// A history is drawn from a seed as a plan, and then happens in virtual time, in a bubble of its own, with a real NATS server, two or three
// nodes as programs make them ([troupe.New], with all their goroutines), and their HTTP handlers behind listeners in memory. Each request of a
// client goes to any node.
//
//	session  a session of 2025-11-25: calls whose connections break and are resumed at any node, questions that are answered at any node,
//	         cancels, DELETE, a standalone stream with a subscription, tasks
//	modern   requests of 2026-07-28: calls whose questions are answered by retries at any node, some sent twice at once, listeners, tasks
//	sse      a session over HTTP+SSE whose messages go to any node
//
// Handlers log, make progress, ask, tell their sessions, work in steps, keep silent for longer than anything is stored, and return. Resources and lists
// change. Faults are:
//
//	kill    a process is dead at once, and another one starts under its name
//	drain   a process ends in order, and another one starts
//	cut     nothing passes between a process and the NATS server, and nobody is told
//	refuse  its connections break, and no others are made
//	island  nothing passes to the NATS server, and its clients lose it, too
//	lose    some or all messages of other nodes do not come
//	outage  that happens to all processes
//	stop    the NATS server ends, and starts again with its streams
//	power   all processes end, and the streams are as they were some time before
//
// A judge that knows nothing of the implementation collects what clients and handlers see. It reports a fault when
//
//   - a request is answered twice, or with what no run returned, or never though it was accepted; when a call runs again that may not, was
//     answered, or still runs on a node that nobody may take it from; when it is said to be lost though it was not;
//   - an event id stands for two events, comes out of order, or leaves events out; when a message comes twice, out of order or on another
//     stream; when a client has the response of a call and lacks a message that it sent before;
//   - a question gets an answer that no client gave, or another one than an earlier run got;
//   - a run of a call in a session, or of a task, begins a step whose result is stored, or gets another result of it;
//   - a client is told that nothing follows, or is refused with an event id, though more must be there;
//   - a client that listens does not hear of a change within 2 s, or more than once, while nothing is wrong; or never, if it listens
//     through a fault that does not end the process where it changed;
//   - a cancelled call runs on for 2 s, or a session that was ended is served;
//   - a request is refused, or a connection breaks or is silent for 50 s, while nothing is wrong;
//   - a goroutine is left behind.
//
// It does not hold the server to what a power cut may have taken back, except to the meaning of event ids.
//
//	go test ./test/spec/histories -run TestHistories -histories 200 -seed 0      # a seed is drawn, and printed
//	go test ./test/spec/histories -run TestHistories -histories 1 -seed 7 -tell  # one history, with all that happens
//	go test ./test/spec/histories -timeout 0 -run TestHistories -histories 5000
//
// Bubbles with clients of NATS are one at a time in a process, so two processes share the histories. The plan of a history that is wrong is
// made smaller for as long as it is wrong in the same way, and kept in testdata/histories, which TestKept begins with ever after. A seed gives
// the same plan; what happens in one instant is in the order of the scheduler.
//
// A process that stands still (SIGSTOP) cannot be had in a bubble, where all share the clock: actors/recovery has that, and bench/soak.
package histories

// Command soak runs real troupe processes, harms them, and checks from outside that they keep every promise to their clients.
//
//	soak world  harms one node, or several behind a load balancer, while clients of all kinds work with them
//	soak mixed  has clients come, work in all ways and leave for --time, and judges whether what the process holds stays the same
//	soak greed  has clients take all they can get of a process with 1 GiB, one way after the other and then in all ways at once, beside a quiet client
//	soak costs  measures without harm: streams of a fleet that are resumed at their node and at another one (attach); and behind --events stored
//	            events one node that is killed (behind) and a stream of 200 events that is resumed (resume), --rounds times each
//
// # World
//
// There is one node with a data directory, or --nodes of them on --nats NATS servers behind a load balancer that gives each request to the next node
// that is ready, or with --proxy two nodes with a data directory each behind nginx or HAProxy as deploy has them. In each of --rounds one
// harm is done to them:
//
//	kill       of a node; of the only one now and then once more while it starts
//	pause      of a node, for longer than its lease; nobody may take the data directory of the only one meanwhile
//	stop       of a node in order, which is started again later
//	restart    of the only node in order, at once
//	roll       all nodes end in order and start again, one after the other
//	partition  of a node from NATS, for longer than its lease
//	twin       a second process takes the name of a node, and both are killed in favour of a third
//	crowd      a node is killed, and --crowd clients with a stream each come back within a second
//	leader     with three NATS servers, the one that leads a stream of events is paused for 8 s and killed
//	crash      all NATS servers are killed at once, and are back within three seconds
//	outage     all NATS servers are away for --away, once
//
// With --harms only these come, in this order; otherwise all that fit, each before one comes again. With --old each start is of the other of two
// releases, on the same data.
//
// --visitors chooses who works with the nodes meanwhile; otherwise all that fit:
//
//	calls      plain calls, slow ones, lists, short sessions, and calls whose client goes away
//	streams    calls that stream, batches, cancels, streams that clients break off, and resumes of all of them
//	asks       calls that ask their client, which answers at once, soon, after the harm, rounds later, or never
//	updates    of resources and of sessions, on standalone streams and to listeners
//	tasks      that work in steps, and write down which of them ran
//	stateless  clients of 2026-07-28, which do what of the above is chosen
//	sse        clients of HTTP+SSE, with one node
//	greedy     a client that takes all that each of several nodes gives it, with --greedy calls at a time, some with large arguments
//
// One judge reads all that they get. It ends the run with the history of the stream concerned:
//
//   - when an event that a client was sent does not come again to who resumes from one before it, comes twice, out of order, in another form, or in
//     another's session;
//   - when an accepted call has no response or two, other messages than its own before it, or a response that says otherwise than its handler;
//   - when a call that may run again is given up, or one that may not runs again, or is given up though its node was not lost;
//   - when an answer that was accepted (202) does not reach its question, an update does not come, or a state or a cursor leads elsewhere than before;
//   - when a cancelled call is answered or sends on, or a handler goes on whose client has closed its connection;
//   - when an id of another session is told apart from an invented one, or a session is lost or served by another server;
//   - when a task does not complete, changes after its end, or runs a step again that is stored; or what a node does that has lost a task counts;
//   - when a request fails, or is refused for a moment, though the nodes are well. While a node, or the fleet, is harmed, and for ten seconds after that, one of
//     a fleet may. In a roll none may at any time; only streams break, and go on elsewhere;
//   - when a node that is to end in order does not, or waits for calls that may run again. That shows with --harms restart, where no other calls last.
//
// The report says how long all of that takes. Times are judged too, unless there is --counts, as they need a machine that does nothing else: a task goes on
// within 10 s (p99) of a kill, and 20 s of a pause; with --harms restart one refuses others for a second at most; a handler ends within 100 ms of its client's leaving one node.
//
// # Greed
//
// In greed the quiet client works from 127.0.0.1 and the greedy ones from other addresses of the
// loopback network, in a process of their own with the lowest priority: elsewhere they would have
// their own processors, and what they take from others here is to be what the server gives
// them. Each attack lasts for --duration, and until it has met a limit. Every request of the quiet client must
// succeed, with a p99 of at most three times that of the seconds in which it was alone, or of 25 ms if that is more: a
// goroutine runs for 10 ms before another has its turn, and two processors are shared by the server
// and its clients. The lease must never be late, /readyz never 503, the process must never have more
// than 1 GiB, and what it holds for clients must be what it was a minute after each attack. The memory is bounded by --max-memory, and measured. The server waits 10 s
// for answers (max-ask); all other settings are the defaults.
//
// soak greed bad-tokens has a server of its own: one address sends 5,000 access tokens a second that do not count, and the quiet client has tokens that count,
// some of which the server has not seen before. The p99 of that client may be twice that of when it was alone. All bad tokens must be refused, most of them without a look.
//
// go run ./bench/soak greed --greedy 10 --duration 60s herd resumes 1,000 streams of 3.9 MB within a second, and again
// until each has come as a whole. The streams of the quiet client may pause for a second at most.
//
// # Mixed
//
// In mixed --clients clients of each of three kinds are there at a time: with sessions over Streamable HTTP, of 2026-07-28 without sessions, and of 2024-11-05 over HTTP+SSE.
// The process keeps events, tasks, questions and sessions that nobody uses for a minute, or for a
// twelfth of --time if that is shorter. They call, some with arguments of 10 KB or 1 MB, read streams and resume those that they have broken off, open standalone
// streams, answer questions, make tasks, send batches, listen, and cancel. Half of the sessions over Streamable HTTP end with DELETE; the others are left behind, idle, in a call or
// with a question that nobody answers, by clients whose connections break off.
//
// A client of HTTP+SSE gets everything on one stream, between the messages of other calls, and has to be sent each message once and in order: nothing can be resumed. It
// calls once or several times at once, sends batches, cancels, answers questions, subscribes, and leaves by closing its stream or all its connections: before
// it has initialized, idle, in a call, in a batch, or with a question. The server notices
// that its connection has closed; from then on a message for its session must be refused, and what the client has left behind must end. There are as many of these clients as of the others. They work
// in the same way at the same pace, so that what leaks with each of their connections shows as soon as what leaks with a session.
//
// Every request must get its right answer. The process is asked for what it
// holds every few seconds, and the median of the last quarter of the run may be little more than that of the second: the first is for what is
// kept for a time to accumulate, and a run of less than twelve minutes is not judged so. When all clients have left and those times are over, no session, stream, call, event, task
// or byte that is held for a client may remain, and no more goroutines and files than before but for those of the store.
// go run ./bench/soak mixed --time 30m --clients 12 takes 33 minutes and a third to a half of a processor for the server, and about as much for the clients.
//
// As soon as a promise is broken, a run ends with exit code 1. A seed decides what happens when; real time adds the rest.
package main

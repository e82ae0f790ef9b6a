// Command soak runs real troupe processes, harms them, and checks from outside that they keep every
// promise to their clients. As soon as one is broken, a run ends with exit code 1.
//
//	soak world  harms one node, or several behind a load balancer, while clients of all kinds work
//	soak mixed  has clients come, work in all ways and leave, and judges what the process holds
//	soak greed  has clients take all they can get of a process with 1 GiB, beside a quiet client
//	soak costs  measures behind --events stored events a stream of 200 events that is resumed
//	            (resume) and a node that is killed (behind), --rounds times each
//	soak hosted     measures what a hosted server costs, beside the same one that is spoken to directly
//	soak orphans    kills serve, its keeper, and wrappers and servers that it hosts, --rounds times
//	soak abandoned  has clients of hosted servers leave without ending their sessions
//	soak survival   ends serve --rounds times in the middle of what its clients do with a hosted server
//
// # World
//
// There is one node with a data directory, or --nodes of them on --nats NATS servers behind a load
// balancer that gives each request to the next node that is ready, or with --proxy three behind
// nginx, HAProxy or Caddy as deploy/proxy has them. In each of --rounds one harm is done to them:
//
//	kill       of a node; of the only one now and then once more while it starts
//	pause      of a node, for longer than its lease
//	stop       of a node in order, which is started again later
//	restart    of the only node in order, at once
//	roll       all nodes end in order and start again, one after the other
//	partition  of a node from NATS, for longer than its lease
//	twin       a second process takes the name of a node, and both are killed in favour of a third
//	leader     with three NATS servers, the one that leads a stream of events is paused and killed
//	crash      all NATS servers are killed at once, and are back within three seconds
//	outage     all NATS servers are away for --away, once
//
// With --harms only these come, in this order; otherwise all that fit, each before one comes again.
// With --old each start of a node is of the other of two releases. --visitors chooses who works with
// the nodes meanwhile; otherwise all that fit:
//
//	calls      plain calls, slow ones, lists, short sessions, and calls whose client goes away
//	streams    calls that stream, batches, cancels, streams that clients break off, and resumes
//	asks       calls that ask their client, which answers at once, soon, later, or never
//	updates    of resources and of sessions, on standalone streams and to listeners
//	tasks      that work in steps, and write down which of them ran
//	stateless  clients of 2026-07-28, which do what of the above is chosen
//	sse        clients of HTTP+SSE, with one node or behind a proxy
//	greedy     a client that takes all that each of several nodes gives it, --greedy calls at a time
//
// One judge reads all that they get. It ends the run with the history of the stream concerned:
//
//   - when an event that a client was sent does not come again to who resumes from one before it,
//     comes twice, out of order or in another form;
//   - when an accepted call has no response or two, other messages than its own before it, or a
//     response that says otherwise than its handler;
//   - when a call that may run again is given up, or one that may not runs again, or is given up
//     though its node was not lost;
//   - when an answer that was accepted (202) does not reach its question, an update does not come,
//     or a state leads elsewhere than before;
//   - when a cancelled call is answered or sends on, or a handler goes on whose client has left;
//   - when a task does not complete, changes after its end, or runs a step again that is stored; or
//     what a node does that has lost a task counts;
//   - when a request fails, or is refused for a moment, though the nodes are well. While a node, or
//     the fleet, is harmed, and for ten seconds after that, one of a fleet may. In a roll none may
//     at any time; only streams break, and go on elsewhere;
//   - when a node that is to end in order does not, or waits for calls that may run again. That
//     shows with --harms restart, where no other calls last.
//
// Behind a proxy streams of all kinds are then silent for --idle, and must go on over the same
// connections; an event must come within 100 ms of its write; and results of 10 MB must come. With
// --socket the only node is given a socket that stays open, as by systemd: in a restart no request
// over a new connection may fail. Leave out asks and sse then: what such a client sends over a new
// connection comes to the next process, for which the one that waits for it cannot make way.
//
// The report says how long all of that takes. Times are judged too, unless there is --counts, as
// they need a machine that does nothing else: a task goes on within 10 s (p99) of a kill, and 20 s
// of a pause; with --harms restart one refuses others for a second at most; a handler ends within
// 100 ms of its client's leaving one node.
//
// # Greed
//
// The quiet client works from 127.0.0.1 and the greedy ones from other addresses of the loopback
// network, in a process of their own with the lowest priority: elsewhere they would have their own
// processors, and what they take from others here is to be what the server gives them. Each attack
// lasts for --duration, and until it has met a limit. Every request of the quiet client must
// succeed, with a p99 of at most three times that of the seconds in which it was alone, or of 25 ms
// if that is more. The lease must never be late, /readyz never 503, the process must never have
// more than 1 GiB, which --max-memory bounds, and what it holds for clients must be what it was a
// minute after each attack. The server waits 10 s for answers (max-ask); all other settings are the
// defaults.
//
// soak greed bad-tokens has a server of its own: one address sends 5,000 access tokens a second
// that do not count, and the quiet client has tokens that count, some of which the server has not
// seen before. Its p99 may be twice that of when it was alone. All bad tokens must be refused, most
// of them without a look.
//
// # Mixed
//
// The clients are those of world, --clients of each of three kinds at a time: with sessions over
// Streamable HTTP, of 2026-07-28 without sessions, and of 2024-11-05 over HTTP+SSE. They come, do
// what they do in a round of world, and leave: half of the sessions end with DELETE, and the others
// are left behind, idle, in a call or with a question that nobody answers, by clients whose
// connections break off. The process keeps events, tasks, questions and sessions that nobody uses
// for a minute, or for a twelfth of --time if that is shorter.
//
// Every request must get its right answer. The process is asked for what it holds every few
// seconds, and the median of the last quarter of the run may be little more than that of the
// second; a run of less than twelve minutes is not judged so. When all clients have left and those
// times are over, no session, stream, call, event, task or byte that is held for a client may
// remain, and no more goroutines and files than before but for those of the store.
//
// # Hosted
//
// One client speaks to test/backend directly, over its standard input and output, and to serve, which
// hosts it, in turn, --rounds times: echo in a closed loop, the first call of a session whose backend
// keeps a process ready, that of one whose process must be started, and the handshake and lists of a
// backend that is known. The processor time of a call is that of serve and of the keeper alone, and the
// memory of an instance what both have more of with --clients sessions that have one than with as many
// that have none; 200 of them or more say something. --counts judges none of it.
//
// # Orphans
//
// The backends are test/backend, alone, below a wrapper as npx is, deaf to the end of its input and to
// SIGTERM, beside children, daemons and zombies, or all of that. In each round three sessions have an
// instance each, some in mid-call, and one of serve, the keeper, a wrapper and a server is killed, in
// every other round while a further session begins and another one ends. Then each session is served,
// by the process that it had unless that was lost, and ends with DELETE:
//
//   - within 5 s no process of a backend is left, nor one that has ended and was not waited for. With
//     --counts only one that stays for minutes counts;
//   - serve has no more goroutines and files than after the first round of its process, and the keeper
//     no more files;
//   - after the end of serve the keeper ends, too.
//
// # Abandoned
//
// --clients at a time begin sessions for --time, call their instances once, some in a call that never
// ends, and go without a word. There must never be more processes than max, twice --clients, and none
// once they were idle for a tenth of --time.
//
// # Survival
//
// serve is killed, or ends in order, and is started anew, while --clients questions of a hosted server
// of 2025-11-25 wait in sessions and as many in calls of 2026-07-28, long operations report progress,
// and sessions write all the time, each into a process that keeps it in memory. A third of the answers
// to questions come at the very moment, the others after the start; and half of the operations come to
// their end while serve is away. Then:
//
//   - each process is there, with all that it has;
//   - each stream goes on by its Last-Event-ID with the right answer, and nothing comes twice;
//   - each call of 2026-07-28 completes when it is sent again with its answers, which may be asked for
//     once more where serve had taken them before its end;
//   - each operation ran once;
//   - each write counts once. One whose connection broke before it was a stream may have been run or
//     not, as the next one shows.
package main

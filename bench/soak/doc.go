// Command soak runs real troupe processes, kills, stops or restarts them, and checks
// from outside that they keep every promise to their clients.
//
//	soak kill   kills the process over and over while clients of both eras work; with --old COMMIT
//	            each start is of the other of two releases, on the same data
//	soak stop   stops it past its lease and lets it go on
//	soak balance restarts two processes in turn behind nginx and HAProxy
//	soak roll   restarts the nodes of a fleet one after the other
//	soak costs  measures a fleet: streams read at another node (attach), an update to 9,000 listeners (listen), 100,000
//	            sessions (sessions), events and tasks that are stored (writes; --sync has NATS flush each write), and --streams
//	            streams of 3.9 MB resumed at once after a node died (large)
//	soak restart restarts one process in order while a safe call runs; with --events N it kills it behind so many
//	            stored events
//	soak resume resumes a stream of 200 events, --rounds times, behind --events of others
//	soak cancel measures how soon a handler ends when its client has gone away
//	soak tasks  kills the process over and over while it runs tasks in steps
//	soak nodes  kills or stops one of two processes that share tasks over NATS servers
//	soak chaos  harms a fleet of three nodes behind a load balancer while clients of both eras work
//	soak greed  has clients take all they can get of a process with 1 GiB, one way after the
//	            other and then in all ways at once, beside a quiet client
//	soak auth   has one address send 5,000 access tokens a second that do not count, beside a quiet client of another
//	soak mixed  has clients of both eras, and of HTTP+SSE, come, work in all ways and leave for --time, and judges whether memory,
//	            goroutines, files and what is stored stay the same
//
// In greed the quiet client works from 127.0.0.1 and the greedy ones from other addresses of the
// loopback network, in a process of their own with the lowest priority: elsewhere they would have
// their own processors, and what they take from others here is to be what the server gives
// them. Each attack lasts for --duration, and until it has met a limit. Every request of the quiet client must
// succeed, with a p99 of at most three times that of the seconds in which it was alone, or of 25 ms if that is more: a
// goroutine runs for 10 ms before another has its turn, and two processors are shared by the server
// and its clients. The lease must never be late, /readyz never 503, the process must never have more
// than 1 GiB, and what it holds for clients must be what it was a minute after each attack. The memory is bounded by a
// cgroup where soak may make one, otherwise by --max-memory alone, and measured. The server waits 10 s
// for answers (--max-ask); all other settings are the defaults.
//
// In auth the same quiet client has tokens that count, some of which the server has not seen before. It works for --duration alone and for as long beside the bad tokens, --rounds
// times in turn: each of its requests must succeed, and its p99 be at most twice that of when it was alone. All bad tokens must be refused, most of them without a look.
//
// go run ./bench/soak greed --greedy 10 --duration 60s herd resumes 1,000 streams of 3.9 MB within a second, and again
// until each has come as a whole. The streams of the quiet client may pause for a second at most.
//
// In chaos each request goes to the next node that is ready. In each round the fleet is harmed in one way: a node is killed, stopped or cut off from
// NATS past its lease, or drained; a second process takes its name; it is killed and --herd clients with a stream each come back within a second; all NATS servers are
// killed at once, and are back within three seconds, or are away for --away, once; and
// with --nats 3 the server that leads a stream of events is stopped for 8 s and killed. "soak chaos kill cut" has only these. Clients judge as in kill; tasks are
// made in each round, and judged as in nodes. Beside all of it a greedy tenant with an address of its own takes all that each node gives it, with --greedy calls at a
// time, some with large arguments: each is answered or refused. A request may fail, or be refused for a moment, only while the fleet is harmed and for 10 s after that.
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
// As soon as a promise is broken, a run ends with exit code 1 and prints the history of
// the stream concerned. A seed decides what happens when; real time adds the rest.
//
// # Files
//
// From the top; most of what a file uses lies in its own line or below:
//
//	costs roll chaos nodes tasks auth greed behind restart stop balance cancel kill mixed  the scenarios
//	visitor passer guest  the clients of mixed with a session, without one, and with one that is their connection
//	departure endless inquiry  how a guest leaves, calls that it does not see through, and questions to it
//	wire trend cable  what a guest sends and gets, what rises, and the connections of one client
//	fill  what behind stores before it measures
//	crowd harm  who comes back at once, and what may happen to a fleet
//	tenant writes  a greedy tenant of a fleet, and what a fleet stores at most
//	quiet gauges cgroup  the quiet client of greed, and what the process holds and may hold
//	stateless batch listener parked replay ask standalone  what their clients do
//	probe call signals follow verdict driver world  how that is done and judged
//	main fleet line nats process  the program, and the one that it tries, or several with NATS servers
package main

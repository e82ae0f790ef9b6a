// Package troupe is an actor-based runtime for servers of the Model Context
// Protocol. One Runtime serves any number of Servers from one store. Sessions
// and event streams survive a crash of the process: a client that comes back
// goes on with its session, and with each of its streams, where it left them.
//
//	srv := troupe.NewServer(mcp.Implementation{Name: "hello", Version: "1.0"}, nil)
//	troupe.AddTool(srv, troupe.Tool{Name: "greet", Description: "Greets someone."},
//		func(ctx context.Context, call *troupe.Call, in struct{ Name string `json:"name"` }) (string, error) {
//			return "Hello, " + in.Name, nil
//		})
//	rt, err := troupe.New(troupe.Options{Dir: "data"})
//	...
//	rt.Mount("/mcp", srv)
//	err = rt.Serve(ctx)
//
// # Guarantees
//
// In a session, a request is accepted once the store has its record, or a byte of its response
// has left. An accepted request gets exactly one response, unless its client cancels
// it. If the process that runs the call is lost, a call that may run again ([Safe])
// does so when its client comes back. Any other call ends with error -32010: that is [Never], the default for
// tools that declare neither readOnlyHint nor idempotentHint. The store has every
// event with an id before a client gets it.
//
// A stateless client (2026-07-28) has nothing to resume: a request gets one response at most, and none if the connection or the
// process that runs the call is lost. A safe call that takes long becomes a task ([TaskAutomatic]), for which all of the above holds, if
// the client handles tasks.
//
// # What survives what
//
//	                            connection breaks  deploy      kill -9     power cut   another node  NATS away
//	Session, to 2025-11-25      goes on            goes on     goes on     goes on     goes on       waits
//	Safe call in it             runs on            runs again  runs again  runs again  runs on       runs on
//	Other call in it            runs on            ends first  -32010      -32010      runs on       runs on
//	Task                        runs on            goes on     goes on     goes on     goes on       goes on
//	2026-07-28: safe, tasks     resend             a task      resend      resend      runs on       runs on
//	2026-07-28: safe, no tasks  resend             ends first  resend      resend      runs on       runs on
//	2026-07-28: other call      cancelled          ends first  unknown     unknown     runs on       runs on
//	2026-07-28: question        waits              runs again  runs again  runs again  goes on       not promised
//	2026-07-28: listener        reopen             reopen      reopen      reopen      goes on       reopen
//	Process of a backend        goes on            goes on     goes on     ends        not promised  not promised
//	HTTP+SSE                    ends               ends        ends        ends        goes on       goes on
//	stdio                       ends               ends        ends        ends        one process   not promised
//
// docs/what-survives.md has what the words mean, and the test that holds each cell.
//
// # Revisions
//
// Every server serves clients of all [Revisions] at once, unless [Options] or [ServerOptions] name fewer: clients that begin a session
// with initialize, and stateless clients (2026-07-28), whose requests belong to no session.
// A handler is written once for all of them. In a session, a question to the client
// ([Call.Ask]) is a request of the server; a stateless client gets it in an input_required
// result. The Runtime converts, leaves out or refuses (Needs of [Tool]) what the client's
// revision lacks.
//
// # Around handlers
//
// [Options.Auth] or [Options.Authenticate] says who calls, [ServerOptions.Visible] says which items that
// caller sees, the Scopes of [ServerOptions], [Tool] and the like which ones it may use
// ([Call.Require]; docs/auth.md), and a [MethodMiddleware] sees each request and its result. A handler gets
// the principal, the header and the context of its request, and the values of its session
// ([Call.Principal], [Call.Header], [Call.Session]). ServerOptions has hooks for the
// beginning and the end of sessions. [AddMethod] adds a method of your own, [AddSkill] a
// directory of files that tell a model how to use the server, and [AddPage] a page in which
// hosts show a tool's results; docs/extensions.md has both.
//
// Functions that register something panic, as a mistake there is one in the program. For
// tools, servers and paths that the program learns only when it runs, use the forms that
// return errors: [TryNewServer], [TryAddTool] and the like, and [Runtime.TryMount].
//
// # Concurrency
//
// All methods of Runtime and Server may be called from any goroutine. A handler
// runs on the goroutine that read its request. Several handlers run at once, even
// in one session. A handler's context ends when the client cancels, when the call
// has run too long, when the session is deleted, and when the node stops;
// context.Cause tells which. It does not end when the connection breaks: the
// call runs on, and its response waits for the client's return.
package troupe

// Package troupe is an actor-based runtime for servers of the Model Context
// Protocol. One Runtime serves any number of Servers over one store: sessions
// and event streams survive a crash of the process, and a client that comes back
// finds its session, and each of its streams, where it left them.
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
// A request is accepted once its record is stored or a byte of its answer has
// left. An accepted request is answered exactly once, or was cancelled by its
// client, or ends with error -32010 when the process that ran it was lost and it
// may not be run again by itself ([Never], the default for tools that declare
// neither readOnlyHint nor idempotentHint). No event with an id reaches a client
// before it is stored.
//
// # Revisions
//
// Every server serves clients of all [Revisions], at once: those that begin a session
// with initialize, and since 2026-07-28 those whose requests each stand for themselves.
// A handler is written once. What it asks of the client ([Call.Ask]) goes out as a
// request of the server in a session, and as an answer that asks for input since then;
// what a revision does not have is converted, left out or refused (Needs of [Tool]).
//
// # Around handlers
//
// [Options.Authenticate] says who calls, [ServerOptions.Visible] what that caller has,
// and a [MethodMiddleware] sees each request and what comes of it. A handler has the
// principal, the header and the context of its request, and what the session keeps
// ([Call.Principal], [Call.Header], [Call.Session]). ServerOptions has hooks for when
// sessions begin and end, and [AddMethod] serves a method of a program's own.
//
// Registering panics for what is a mistake in the program. For what is only known when it
// runs there are forms that return errors: [TryNewServer], [TryAddTool] and the like, and
// [Runtime.TryMount].
//
// # Concurrency
//
// All methods of Runtime and Server may be called from any goroutine. A handler
// runs on the goroutine that read its request, and several run at once, also of
// one session. A handler's context ends when the client cancels, when the call
// has run too long, when the session is deleted, and when the node stops;
// context.Cause tells which. It does not end when the connection breaks: the
// call runs on, and its answer waits for the client's return.
//
// # Files
//
// From the top; most of what a file uses lies in its own line or below:
//
//	serve drain mount  serving, and how it ends
//	dispatch form ask complete log method  what comes in, and what a handler can do
//	prompt session catalogue stateless resource server result tool  a server, and what it offers
//	runtime needs service options visible principal call  what all of these need
package troupe

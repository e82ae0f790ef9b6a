// Package actors serves MCP sessions, requests and streams in one process: it has the
// actors of a node. Package internal/kernel says how an actor works: it handles one message
// at a time, on the sender's goroutine if it is idle, and never blocks.
//
//	actor         one per                                    owns
//	heart         process                                    when silent streams and connections are due
//	session       session this node serves now               nothing: it caches the record, and knows the calls here
//	request       request in flight                          context, deadline, progress, its delivery
//	stream        SSE stream this node writes                the writer's side of the event log, one live connection
//	subscription  resource URI that sessions here subscribe  who wants its updates
//	listener      open subscriptions/listen                  what its client hears
//
// The tasks of a node, and the queues of their work, are actors of package internal/worker.
// What is decided without a clock and a store is in actors/internal, as machines that the
// actors carry out. Node composes the owners of the actors.
//
// Each kind of actor has an owner, a type that holds the actors and names the other owners that
// they use: sessions, boundSessions, requestPool, statelessCalls, parkedCalls, streams, takeovers,
// resumes, pendingRequests, answers, listeners. What all of them share is in site, which knows none
// of them.
//
// A type that has nothing but a pointer to an actor is that actor in one respect, and costs
// nothing: writerRecord is a stream as far as its record goes, and sessionView a session as far as
// it knows its own. The fields that only those methods use stand beside them.
//
// # The way of a request
//
// Node finds the session's actor, from its record if need be. The account of the caller
// admits the request; a pooled request actor runs the handler on the calling goroutine. If
// the handler returns before it has emitted anything and within the grace, its response is
// plain JSON and nothing is stored. Otherwise a stream actor stores the call record before
// it sends headers, and every event before it sends that.
//
//	request:  Plain ──▶ Answered                stream:  Opening ──▶ Open ──▶ Ended
//	            └─────▶ Streaming ──▶ Answered                └───────┴─────▶ Lost
//
// The call's delivery decides how that looks to the client, the session's home where its
// record is: in the store, or on a connection.
//
// # The way of a resume
//
// Node finds the stream's writer: here, on another node, from which it attaches, or gone.
// Then this node takes the stream over: it sets the writer record to the next epoch by
// compare-and-set, and reads the tail of the log. A call whose node was lost runs again if
// it is safe; any other ends with -32010.
//
// # Who may call what
//
// Any goroutine may use Node, Call and Peer. The arguments of a Handler are valid until it
// returns, unless they say otherwise. Nothing here knows HTTP or NATS: this package
// declares Conn, package internal/store what a store promises.
//
// # Not the public API
//
// Programs use the root package, troupe, and package mcp. Anything exported here may change
// in any release without a word in the changelog.
package actors

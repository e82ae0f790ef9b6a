// Package actors has the actors of a node: what serves MCP sessions, requests and
// streams in one process. How an actor works is internal/kernel's: it handles one
// message at a time, on the sender's goroutine if it is idle, and never blocks.
//
//	actor         one per                                    owns
//	heart         process                                    when silent streams and connections are due
//	session       session this node serves now               nothing: it caches the record, and knows the calls here
//	request       request in flight                          context, deadline, progress, its delivery
//	stream        SSE stream this node writes                the writer's side of the event log, one live connection
//	subscription  resource URI that sessions here subscribe  who wants its updates
//
// A type owns each of them with what it needs of a node: sessions, links (sessions that are
// their connection), calls, statelessCalls, parked (calls that wait for their request to be
// sent again), streams, attachments, questions, listeners, subscriptions, accounts, and
// draining. Node composes the owners.
//
// # The way of a request
//
// Node.Post finds the session's actor (from its record if need be), takes a
// pooled request actor, enters it in the session's table and runs the handler on
// the calling goroutine. A handler that returns before it has emitted anything
// and within the grace is answered plainly, and nothing has been stored. Else
// the request becomes resumable: a stream actor stores the call record, and only
// then sends headers; from there every frame is appended to the log before it is
// sent.
//
// How that looks to the client is up to the delivery of the call: delivery.go.
//
//	request:  Plain ──▶ Answered                stream:  Opening ──▶ Open ──▶ Ended
//	            └─────▶ Streaming ──▶ Answered                └───────┴─────▶ Lost
//
// # The way of a resume
//
// Node.Get finds the stream's writer. If it is gone, this node takes the stream
// over: a compare-and-set of the writer record to the next epoch, then the tail
// of the log. The connection becomes the writer's only live one, reads from the
// log what it missed, and then gets what the writer appends. A call whose node
// was lost runs again where that is declared safe, and else ends with -32010.
//
// # Who is let in
//
// accounts.admit takes a place for a request on the account of its principal, or of its
// address, and a token of its session and of that account. internal/quota has the
// accounts, and shares a node that is nearly full equally; what an account counts, and
// how a client learns of a refusal, is said here (admission.go). A refusal
// costs nothing and is counted by its Reason. A call that runs again after a crash is
// never refused.
//
// # Who may call what
//
// Node, Call and Peer may be used from any goroutine. What a Handler is called
// with is valid until it returns, unless it says otherwise. Nothing here knows
// HTTP or NATS: Conn and Store are what it needs of them, and the root joins
// them.
//
// # Not the public API
//
// This package is a part of Troupe that its own packages share. Programs use the root
// package, troupe, and package mcp: what is exported here may change in any release, without
// a word in the changelog.
package actors

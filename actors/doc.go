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
//
// The tasks that a node holds, and the queues of their work, are actors of the same kernel: package
// worker has them.
//
// Each kind of actor has an owner, a type that holds the actors and names the other owners that
// they use: sessions, boundSessions, requestPool, statelessCalls, parkedCalls, streams, takeovers,
// resumes, pendingRequests, answers, listeners. What all of them share is in site, which knows none
// of them. Node composes the owners.
//
// A type that has nothing but a pointer to an actor is that actor in one respect, and costs
// nothing: writerRecord is a stream as far as its record goes, and sessionView a session as far as
// it knows its own. The fields that only those methods use stand beside them.
//
// # The files
//
// A file uses those of its own line and of the lines below, and none above:
//
//	node heart drain news  accept bound relay  ask resume takeover remote   what comes, and from where
//	listen                                                                  subscriptions/listen
//	session sessions view stored  request delivery mrtr stateless
//	call step peer service                                                  who calls, and what runs
//	pending                                                                 questions to clients
//	stream streams fence batch                                              the writer's side of the log
//	site terms admission fleet                                              what all of them share
//
// # The way of a request
//
// Node.Post finds the session's actor, from its record if need be. It takes a pooled
// request actor, enters it in the session's table and runs the handler on the calling
// goroutine. If the handler returns before it has emitted anything and within the grace,
// its response is plain JSON and nothing is stored. Otherwise the request becomes
// resumable: a stream actor stores the call record and only then sends headers. From there
// it appends every frame to the log before it sends it.
//
// The call's delivery decides how that looks to the client: see delivery.go. The session's
// home decides where its record is and how messages outside of calls reach the client: a
// record in the store, or a connection. See session.go.
//
//	request:  Plain ──▶ Answered                stream:  Opening ──▶ Open ──▶ Ended
//	            └─────▶ Streaming ──▶ Answered                └───────┴─────▶ Lost
//
// # The way of a resume
//
// Node.Get finds the stream's writer. If the writer is gone, this node takes the stream
// over: it sets the writer record to the next epoch by compare-and-set, then reads the tail
// of the log. The new connection becomes the stream's only live one. It reads from the log
// what it missed, or from memory if this node stored that a moment ago, and then gets what
// the writer appends. A call whose node was lost runs again if it is declared safe; any
// other ends with -32010.
//
// # Admission
//
// accounts.admitRequest takes a place for a request on the account of its principal, or of its
// address, and a token from its session's bucket and from that account's. Package
// internal/quota has the accounts and shares a node that is nearly full equally. File
// admission.go says what an account counts and how a client learns of a refusal. A refusal
// costs nothing and is counted by its limit. A call that runs again after a crash is never
// refused.
//
// # Who may call what
//
// Any goroutine may use Node, Call and Peer. The arguments of a Handler are valid until it
// returns, unless they say otherwise. Nothing here knows HTTP or NATS: this package
// declares Conn and Store, and the root package implements them.
//
// # Not the public API
//
// This package is shared by Troupe's own packages. Programs use the root package, troupe,
// and package mcp. Anything exported here may change in any release without a word in the
// changelog.
package actors

// Package upstream is the client half of one connection to an MCP server that somebody else wrote, in
// all revisions of the protocol. It is no SDK: params and results are spans of bytes, from the backend's
// message to whoever passes them on. What belongs to the connection itself is made anew: ids, progress
// tokens, the protocol's members of `_meta`, headers.
//
// # Links and connections
//
// A [Link] carries whole messages: [Lines] to a process, [HTTP] over Streamable HTTP, [SSE] over the
// transport of 2024-11-05. A [Conn] is what both eras have in common above it:
//
//	c, err := upstream.Open(ctx, upstream.NewHTTP(upstream.HTTPOptions{URL: url}), upstream.Options{})
//	r, err := c.Do(ctx, upstream.Request{Method: "tools/call", Params: params})
//
// What is decided is decided by machines without I/O, a clock or a goroutine: handshake (what does the
// backend speak), calls (what is open, and whose is what comes), httpReply (what does a response say).
// Links and the Conn carry that out.
//
//	Open ──▶ probing ──▶ initializing ──▶ ready ──▶ ended        the link's end, Close, Detach
//	            └───────────────────────────▲
//	Resume ─────────────────────────────────┘
//
// # Outcomes
//
// A request is answered, by a result or an error of the backend, which is a [Response]; or it has none,
// which is a [*Failure]. A Failure wraps [ErrUnsent] if the backend did not run the request, because
// nothing of it was handed over or the backend said so: it may be sent again, elsewhere. Otherwise it
// wraps [ErrLost]. Between the two is one byte: a link says for each message whether any of it may have
// been read.
//
// # The era of a backend
//
// [Open] sends server/discover, whose supportedVersions decide. An error that the newer era does not
// have means the older one; so does silence or anything odd, but then [Settled].Found is EraUnknown,
// because it may be otherwise the next time. A process that learns too late that it should be spoken to in the newer era is to be
// started again: [ReasonRestart]. Each restart narrows what is known; whoever restarts more than twice
// has a backend that changes its mind. A backend of both eras gets two connections, if it has callers of
// both.
//
// # Whose is what
//
// Progress belongs to the request with its token. Over HTTP all on the response stream of a request does
// too, but for what is about the whole server (lists, resources, tasks). Over lines, in the newer era, a
// notification may carry the id of a subscription, which is a request as well: subscriptions/listen is
// called by [Conn.Do] as any other, with a context that ends when nobody listens. Everything else goes to
// [Options].Event: nothing says whose it is. A question has the backend's id, by which it is answered
// once; pings are answered here.
//
// # What a backend may do
//
// Nothing that it sends is trusted, and nothing of what it should not do ends more than what it is about.
// An answer with an unknown id, a second one, progress of nothing and the like are counted ([Counts])
// and dropped, and told of as an [Oddity] the first, second, fourth time. An answer that is no JSON-RPC
// ends its request with [ReasonMalformed], if it names one. Only a message beyond [MostMessage], a
// backend that does not read what it is sent, and the end of the link end the connection. A batch counts
// as its messages, in all revisions. What a result holds is not looked at, but for the type of results in
// the newer era: schemas are the backend's to enforce.
//
// All that a backend can fill is bounded (the constants that begin with Most): requests, questions,
// replies, lists, messages. What comes has no queue: the functions of its owner are called on the
// goroutine that reads, so that a slow owner slows the backend.
//
// # Lives that outlast a process
//
// [Conn.State] has what another process needs to go on: over HTTP the session and the last event id of each response
// stream, over lines the ids of what is open. [Resume] makes a Conn of it, without a handshake; [Conn.Rejoin]
// waits for the answer to a request that was sent before.
//
// # Goroutines
//
// All methods of a Conn are safe for concurrent use, and so are the links' by the Conn. The functions of
// [Options] and [Request] are called on the goroutine that reads, in the order in which things came on
// their stream, perhaps before Open has returned; they must not block, and not call [Conn.Close] or
// [Conn.Detach], which wait for that goroutine. A Conn keeps one goroutine, a link of lines or with an open stream another. Time
// comes from a [Clock].
package upstream

// Package transport carries MCP over HTTP and stdio: bytes and headers in, frames out. It holds no protocol state; what
// a message means, which session it belongs to and what is answered is decided by the [Dispatcher] it is given.
//
// [Handler] is one MCP endpoint of the Streamable HTTP transport, of both eras at once. Before the dispatcher
// sees a request, the handler has checked, in this order: Host, Origin, method, authentication,
// MCP-Protocol-Version, Mcp-Session-Id, then for a POST Content-Type, Accept, size, the time the body took and that
// the body is one JSON-RPC message, and for a GET Accept and Last-Event-ID. Every refusal is an HTTP error whose body
// is a JSON-RPC error.
//
// [Handler.SSE] and [Handler.Messages] are the two endpoints of HTTP+SSE (2024-11-05), for a dispatcher that is a
// [Connector]. A session is one open stream there, the exchange that Connect got: its first event names the address of
// the session's messages, which come as POSTs, and every message to the client is one more event of it. What is checked
// is the same, but that a POST needs no Accept and names its session in the query.
//
// [Pipe] is the stdio transport: one session over a reader and a writer, one message a line. Its methods are those of an
// Exchange that is open from the start, so that whoever serves the session of HTTP+SSE serves this one as well.
//
// # Eras
//
// Up to 2025-11-25 requests belong to sessions. From 2026-07-28 on, if [Options].Stateless has it, each stands for itself,
// and is stateless if MCP-Protocol-Version says such a date or params._meta has a protocol version, whatever the method
// or the other headers are; everything else is legacy. Of a stateless POST is checked, in this order, once its message is
// read: that it is one request or notification; the version in _meta, and that MCP-Protocol-Version is the same; that
// it is served; in _meta the client's capabilities, and what it says of itself; Mcp-Method; Mcp-Name, where the method
// has one. Of a notification only what is there is checked. A stateless GET or DELETE is answered with 405, Mcp-Session-Id
// and Last-Event-ID are passed over, and Mcp-Param-* are for the dispatcher, which knows the tools ([codec.DecodeHeader]). A
// version that is of neither era is refused with the id of its message.
//
// # Guarantees
//
//   - One request is one [Exchange], and one exchange gets one response: whatever would send a second one is ignored.
//     If the dispatcher returns without having answered, the response is 500 with -32603.
//   - Events reach the client in the order of the calls of Event and whole or not at all; Finish delivers all that
//     was queued before it. Nothing is written before Flush.
//   - What is queued for one connection is bounded, and a reader that does not read is cut loose without a delay for
//     any other connection.
//   - No method of an Exchange but Room waits for the peer, except that Answer and Reject write a response, which a
//     peer that does not read can hold up for at most WriteTimeout.
//   - The client of a stateless request cancels it by closing the connection: [Exchange.Context] is done at once, before
//     the first byte as in mid-stream, and nothing is written from then on.
//   - What a Pipe writes is whole messages, each on one line, and nothing else. Its methods that write never wait.
//
// # States of an Exchange
//
//	    Answer, AnswerLast, Accepted, Reject        ServeHTTP returns
//	fresh ───────────────────────────────▶ answered ────────────────▶ over
//	  │
//	  │ Open               Finish                   all written
//	  ├────────▶ streaming ──────────▶ finishing ────────────────────▶ gone
//	  │              │                     │                            ▲
//	  │              └─────────────────────┴── Cut, write error, ───────┤
//	  │ Cut, closed (stateless)                   too much queued,         │
//	  │                                        closed (stateless)          │
//	  └─────────────────────────────────────────────────────────────────┘
//
// # Connections of open streams
//
// Over HTTP/1 Open takes the connection over from net/http. An idle stream then has no goroutine and no buffers: a
// goroutine exists only while there is something to write. It also means that a peer which hangs up is noticed by the
// next write, so the caller sends a Comment from time to time, and that http.Server.Shutdown does not know of the
// stream: call [Handler.Close]. Where a connection cannot be taken over (HTTP/2, wrapped writers) the goroutine of
// ServeHTTP stays and does the writing, and the dispatcher runs on a goroutine of its own.
//
// A stateless client cancels by closing the connection. Before the stream is open net/http notices that, and afterwards, of
// a connection that was taken over, one goroutine for all does, where the system can tell (Linux), and elsewhere one for
// each.
//
// # Who may call what
//
// All methods of Handler, Exchange and Pipe may be called from any goroutine, but Pipe.Serve only once. The fields of an
// Exchange are set before the dispatcher runs and must not be written to; Msg, Body and Header are gone when the
// dispatcher's method has returned.
//
// # Not the public API
//
// This package is a part of Troupe that its own packages share. Programs use the root
// package, troupe, and package mcp: what is exported here may change in any release, without
// a word in the changelog.
package transport

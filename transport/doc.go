// Package transport carries MCP over HTTP and stdio: bytes and headers in, frames out. It holds no protocol state. Its
// [Dispatcher] decides what a message means, which session it belongs to and how it is answered.
//
// [Handler] is one MCP endpoint of the Streamable HTTP transport, for the revisions with sessions and those without.
// Before the dispatcher sees a request, the handler has checked, in this order: Host, Origin, method, authentication,
// MCP-Protocol-Version, Mcp-Session-Id; then for a POST Content-Type, Accept, size, the time the body took and that the
// body is one JSON-RPC message; for a GET Accept and Last-Event-ID. Every refusal is an HTTP error whose body is a
// JSON-RPC error.
//
// [Handler.SSE] and [Handler.Messages] are the two endpoints of HTTP+SSE (2024-11-05), for a dispatcher that is a
// [Connector]. There a session is one open stream, the exchange that Connect got. Its first event gives the address to
// which the client POSTs the session's messages, and every message to the client is one more event. The handler makes
// the same checks, except that a POST needs no Accept and names its session in the query.
//
// [Pipe] is the stdio transport: one session over a reader and a writer, one message a line. Its methods are those of
// an Exchange that is open from the start, so that code that serves a session of HTTP+SSE serves a Pipe as well.
//
// # Eras
//
// Up to 2025-11-25 requests belong to sessions: the legacy era. From 2026-07-28 on, if [Options].Stateless has it, each
// request belongs to none. A request is stateless if MCP-Protocol-Version is such a date or params._meta has a protocol
// version, whatever its method and other headers are. Every other request is legacy.
//
// Once the message of a stateless POST is read, the handler checks, in this order:
//
//   - that it is one request or notification;
//   - that _meta has a version, and MCP-Protocol-Version is the same;
//   - that the version is served;
//   - in _meta, the client's capabilities and clientInfo;
//   - Mcp-Method, and Mcp-Name where the method has one.
//
// Of a notification it checks only the members and headers that are there. A stateless GET or DELETE is answered with 405. Mcp-Session-Id and
// Last-Event-ID are ignored. Mcp-Param-* are for the dispatcher, which knows the tools ([codec.DecodeHeader]). A
// version of neither era is refused with the id of its message.
//
// # Guarantees
//
//   - One request is one [Exchange], and one exchange gets one response: a second one is ignored. If the dispatcher
//     returns without having answered, the response is 500 with -32603.
//   - Events reach the client in the order of the calls of Event, each whole or not at all. Finish delivers all that
//     was queued before it. Nothing is written before Flush.
//   - The queue of a connection is bounded. A reader that does not read is cut off, without a delay for any other
//     connection. A stream begins with a byte of its body: a comment, if no event follows its header at once.
//   - No method of an Exchange except Room waits for the peer. But Answer and Reject write a response, which a peer
//     that does not read can hold up for at most WriteTimeout.
//   - The client of a stateless request cancels it by closing the connection. [Exchange.Context] is then done at once,
//     before the first byte and in mid-stream, and nothing more is written.
//   - A Pipe writes whole messages, each on one line, and nothing else. Its methods that write never wait.
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
// goroutine exists only while there is something to write. So only the next write notices a peer that has hung up, but
// for the two kinds of stream below, and the caller must send a Comment from time to time. Nor does http.Server.Shutdown know of the stream: call
// [Handler.Close]. Where a connection cannot be taken over (HTTP/2, wrapped writers) the goroutine of ServeHTTP stays
// and writes, and the dispatcher runs on a goroutine of its own.
//
// A stateless client cancels by closing the connection, and one of HTTP+SSE ends its session. Before the stream is open,
// net/http notices that. Once the connection is taken over, one goroutine notices it for all connections where the
// system can (Linux), and elsewhere one goroutine for each.
//
// # Who may call what
//
// All methods of Handler, Exchange and Pipe may be called from any goroutine; call Pipe.Serve only once. The fields of
// an Exchange are set before the dispatcher runs: do not write to them. Do not use Msg, Body and Header after the
// dispatcher's method has returned.
//
// # Not the public API
//
// This package is a part of Troupe that its own packages share. Programs use the root
// package, troupe, and package mcp: its exported names may change in any release, without
// a word in the changelog.
package transport

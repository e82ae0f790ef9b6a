// Package server is the door of a server: which connections are let in, kept, drained and ended. It
// knows HTTP only as far as it has to see where a request begins and ends, and nothing of MCP.
//
// A [Listener] stands between the network and an http.Server. It
//
//   - bounds the connections of one address and of all ([Crowd]), and makes room for those of
//     addresses that have fewer;
//   - closes idle connections when the server ends, without losing a request that has begun to come;
//   - refuses a request whose end two servers in a row may see in different places (RFC 9112, 6.1 and
//     6.3);
//   - bounds the time of a write, and what the system buffers for a client that does not read.
//
// Package http1 serves plain requests of HTTP/1.1 before net/http does.
//
// All methods of Listener and [Conn] may be called from any goroutine, but Limit, LimitWrites,
// CountAlso and SpareNew only before Accept.
package server

// Package client is a small MCP client at the level of the wire: revision
// 2025-11-25 over Streamable HTTP, one method per HTTP request and nothing
// behind the caller's back. It does not reconnect, retry or answer by itself.
// Stateless does the same for 2026-07-28, and SSE for the HTTP+SSE transport of 2024-11-05,
// whose streams cannot be resumed and are not recorded. Do is one request of any of them.
//
// Guarantees: Next records every event of every stream before it returns the event,
// so that Record.MergeEvents can check afterwards whether the connections of a stream
// agree with each other. The *Error of a failed request says how far the request got.
//
// Any goroutine may use a Client, its Records and a Stateless, and send messages by an SSE. An
// Events belongs to the goroutine that reads it, and so does Next of an SSE, but any goroutine
// may close it.
package client

// Package client is a small MCP client at the level of the wire: revision
// 2025-11-25 over Streamable HTTP, one method per HTTP request and nothing
// behind the caller's back. It does not reconnect, retry or answer by itself.
// Stateless is the same for 2026-07-28, whose streams cannot be resumed and are not
// recorded.
//
// Guarantees: every event of every stream is recorded before Next returns it,
// so that Record.Merge can say afterwards whether the connections of a stream
// agree with each other. A request that fails says in an *Error how far it got.
//
// A Client, its Records and a Stateless may be used from any goroutine; an Events belongs to
// the goroutine that reads it, except that any may close it.
package client

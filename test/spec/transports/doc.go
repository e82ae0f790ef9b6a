// Package transports tests what clients meet on the wire, whatever the method: stdio, HTTP+SSE and how a server listens
// (TLS, headers, slow clients); the event streams of Streamable HTTP, when a call becomes one and how a client resumes it
// from any event (stream_*); the JSON-RPC batches of 2025-03-26 (batch_*); and what a server answers to messages that
// break a rule (bad_*). Each of those is answered with its own error, harms no other client and leaves nothing behind.
package transports

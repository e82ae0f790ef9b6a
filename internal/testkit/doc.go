// Package testkit helps tests to run a whole server in virtual time: an HTTP
// listener of in-memory connections that works inside a synctest bubble, and a
// client that speaks the wire protocol and nothing else. It is for tests only.
//
// # Files
//
// From the top; most of what a file uses lies in its own line or below:
//
//	sse client  the client
//	listener  the connections
//	virtual sieve  a NATS server that needs no network, and lines to it that can be cut and lose messages
//	bubble  virtual time
//	cables  three NATS servers of which one can be cut off
//	nats disk cpu document  NATS servers, a small disk, the time of a processor, and documents that tests write
package testkit

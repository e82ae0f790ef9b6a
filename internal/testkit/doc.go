// Package testkit helps tests to run a whole server in virtual time: an HTTP
// listener of in-memory connections that works inside a synctest bubble, and a
// client that speaks the wire protocol and nothing else. It is for tests only.
//
// # Files
//
// From the top; most of what a file uses lies in its own line or below:
//
//	client sse  the client
//	listener  the connections
//	bubble  virtual time, and what -short leaves out
//	disk cpu document race  a small disk, the time of a processor, documents that tests write, and the race detector
package testkit

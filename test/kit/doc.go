// Package kit helps tests to run a whole server in virtual time: an HTTP
// listener of in-memory connections that works inside a synctest bubble, and a
// client that speaks the wire protocol and nothing else. It is for tests only.
package kit

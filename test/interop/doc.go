// Package interop tests the command troupe against the client of the official
// Go SDK (github.com/modelcontextprotocol/go-sdk), in the protocol's revision
// 2025-11-25, and against releases of the TypeScript and Python SDKs: see README.md,
// which says what is driven. It holds tests only, in a module of their own, so that the SDK is
// no dependency of troupe:
//
//	cd test/interop && go test -count=1 ./...
//
// Without -count=1 the go command repeats the last outcome even when troupe has
// changed since, because nothing here imports it.
//
// The tests build the command from the directory above, under the race detector
// when they run under it themselves, and start it on a free port of the loopback
// interface. They import nothing of troupe: what they know of it is what it
// answers over HTTP, and the demo (examples/everything) that it serves. Most
// tests share one server that keeps its data in memory; tests that kill a
// server, or look at its metrics, have their own. A server must end with exit
// code 0 when it is asked to, and must have reported neither a panic nor a data
// race. Tests of access tokens have it take those of an issuer of their own; two of them start bench/lab and examples/auth in its place.
//
// Every client of the Go SDK is an mcp.Client on an mcp.StreamableClientTransport. Below it a
// recorder keeps what went over the wire, because the SDK hides what some tests
// are about: the order of a call's notifications and its result, the headers of a
// resumed stream, the request that ends a session.
package interop

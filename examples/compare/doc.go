// Package compare has servers that are written with Troupe, with the official Go SDK and with mcp-go, so that one can read
// them side by side, and tests of what the libraries do, for docs/comparison.md and docs/coming-from.md:
//
//	weather  two tools that ask a weather service
//	book     a tool that asks a user twice
//	tenants  fifty servers behind one address, each for callers with its token
//	first    a server of one tool, which docs/coming-from.md shows
//	service  what a program for customers has: tokens, tools per customer, questions, progress, updates, completion,
//	         routes of its own and a drain, with Troupe and with the Go SDK
//
// The programs of a kind do the same for the same clients. The tests run them with the official SDK's client, in the newest
// revision with sessions and in the one without, and print how long each of them is. Those of the Go SDK, but for service,
// have sessions alone, and that client falls back to these. Other tests run probes, small servers in which one thing goes wrong.
// No test measures time. It is a separate module, so that Troupe's has none of its dependencies.
//
//	go test -v .
package compare

// Package faults is the table of what a request is refused for before a handler sees it:
// one row for each fault, with its code, its text, its HTTP status and whether the request
// may be sent again. Every door, which is Streamable HTTP, HTTP+SSE and stdio, takes the
// row, so that a fault has the same words wherever it is met.
//
// What is refused because of a limit has its words in internal/limits, and what a code
// means by itself is in the table of package mcp. docs/errors.md has all three; its tables
// are written by
//
//	go test ./internal/faults -update
//
// The table is made when the program starts and does not change.
package faults

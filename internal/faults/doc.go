// Package faults is the table of the faults for which a request is refused before a handler
// sees it: one row for each, with its code, its text, its HTTP status and whether the request
// may be sent again. Streamable HTTP, HTTP+SSE and stdio all use the row, so that a fault has
// the same words on each transport.
//
// The texts of refusals by a limit are in internal/limits, and the meanings of the codes in
// package mcp. docs/errors.md has all three; its tables are written by
//
//	go test ./internal/faults -update
//
// The table is made when the program starts and does not change.
package faults

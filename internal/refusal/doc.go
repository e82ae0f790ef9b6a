// Package refusal has what a request is refused for, as one type: [Refusal]. Its table has one row
// for each fault of a request, or of the server, for which no handler sees it: its code, its text,
// its HTTP status and whether the request may be sent again. [Of] makes the same of a limit, whose
// row is in internal/limits. Streamable HTTP, HTTP+SSE and stdio all use the row, so that a
// refusal has the same words on each transport.
//
// The meanings of the codes are in package mcp. docs/errors.md has all three; its tables are
// written by
//
//	go test ./internal/refusal -update
//
// The table is made when the program starts and does not change.
package refusal

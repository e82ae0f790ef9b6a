// Package limits is the table of what a process bounds: one row for each limit, from which
// come the default and the bounds of an option, its flag, how a request is refused, the
// label under which that is counted, the row of docs/limits.md and that of TestLimits.
//
// A new limit is a row in table.go, the field of troupe.Options that the row names with its
// line in settle, and the place that enforces it:
//
//	if len(uri) > limits.MaxURI.Or(o.MaxURI) { … }
//
// The tables of docs/limits.md are written by
//
//	go test ./internal/limits -update
//
// # Zero and negative values
//
// One rule holds for all options: 0 is the default, and a negative value is none, which is
// no limit, no delay, never. What has to be bounded has no such value: [Limit.Settle]
// refuses it, and so does the command, which writes 0 for none.
//
// The table is made when the program starts and does not change. All methods are safe for
// concurrent use.
package limits

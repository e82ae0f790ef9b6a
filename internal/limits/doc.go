// Package limits is the table of the limits of a process, one row for each. From a row come the
// default and the bounds of an option, its setting, the refusal of a request, the label of the
// refusal's count, and the rows of docs/limits.md and TestLimits.
//
// A new limit is a row in table.go, the field of troupe.Options that the row names, and the place
// that enforces it:
//
//	if wait := bucket.Take(now); wait > 0 { return refusal.Of(limits.CallRate.Row).In(wait) }
//
// or, where a request fails in a way of its own,
//
//	if len(uri) > most { hits.Refused(limits.MaxURI.Row); return mcp.Errorf(mcp.CodeInvalidParams, "...") }
//
// Below the root that place has the value in a field with the option's name as its tag, which [Fill]
// sets:
//
//	MaxDepth int `option:"Limits.MaxDepth"`
//
// The tables of docs/limits.md are written by
//
//	go test ./internal/limits -update
//
// # Zero and negative values
//
// One rule holds for all options: 0 is the default, and a negative value switches the limit,
// the delay or the interval off. Some limits cannot be switched off: [Settle] refuses a
// negative value for them, and so does the command, where 0 means off.
//
// The table is made when the program starts and does not change. All methods are safe for
// concurrent use.
package limits

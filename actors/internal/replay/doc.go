// Package replay judges the event id that a client comes back with, and what is read of the log for it: a [Cursor] is how far
// that has got. It says which appends must be read, refuses an id whose event the log and the writer record know nothing of,
// and a log that has a gap.
//
//	FindPlace ──▶ AddAppend ... ──▶ EndReading ──▶ JudgeEvent ──▶ AddAppend ... ──▶ EndReading ...
//
// A [Cache] has what was stored a moment ago, for clients that come back at once.
//
// Nothing here reads a clock, does I/O or starts a goroutine. A Cursor is used by one goroutine at a time.
package replay

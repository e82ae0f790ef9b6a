// Package stream holds the writer's side of an SSE stream's event log as a pure
// state machine, and the layout of what is stored.
//
//	Opening ──Opened──▶ Open ──Stored(last)──▶ Ended
//	   │                  │
//	   └──OpenFailed──┐   └──Fenced──┐
//	                  ▼              ▼
//	                 Lost           Lost
//
// Guarantees: at most one write is in flight; an append is delivered only after
// it was acknowledged, in order, exactly once; after Fenced nothing is written
// or delivered; what could not be stored is handed back with its reason. The
// log keeps the last Limits.Appends appends and at most Limits.Bytes bytes; what
// is beyond that is overwritten with nothing.
//
// Nothing here reads a clock, does I/O or starts a goroutine. A Machine is used
// by one goroutine at a time: the stream actor's turn.
package stream

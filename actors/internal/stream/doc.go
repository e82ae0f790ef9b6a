// Package stream has the writer's side of an SSE stream's event log as a pure state
// machine, and the layout of stored appends.
//
//	Opening ──Opened──▶ Open ──Stored(last)──▶ Ended
//	   │                  │
//	   └──OpenFailed──┐   └──Fenced──┐
//	                  ▼              ▼
//	                 Lost           Lost
//
// Guarantees: at most one write is in flight; an append is delivered only after it was
// acknowledged, in order, exactly once; after Fenced nothing is written or delivered;
// entries that could not be stored are handed back with the reason. The log keeps the last
// Limits.Appends appends and at most Limits.Bytes bytes; older appends are overwritten with
// nothing.
//
// Nothing here reads a clock, does I/O or starts a goroutine. A Machine is used
// by one goroutine at a time: the stream actor's turn.
package stream

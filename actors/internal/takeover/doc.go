// Package takeover decides who writes a stream, and how a node becomes its next writer.
//
//	Reading ──▶ Asking ──▶ Elsewhere
//	               │
//	               └──▶ Judging ──▶ Certain ──▶ Keeping ──▶ Fencing ──▶ Judging again ──▶ Taken
//	                       │                                  │   ▲          │
//	                       ▼                                  ▼   │          ▼
//	                     Ended                               Doubting       Ended
//
// A [Machine] is one attempt. It reads the writer record, and asks whether the writer that the record names is gone. Then it
// reads the log, because a stream that has ended is not taken over, and because the next record must cover what the log may
// forget. It is the writer once it has replaced the record by one of the next epoch, which no append of the old writer
// passes; what that one has stored meanwhile is read then.
//
// [Log] is what record and log say together. [ClaimOf] says what a writer may do whose guard was refused, and [Lifetime]
// when its record would outlive the log.
//
// Nothing here reads a clock, does I/O or starts a goroutine. Values are not safe for concurrent use.
package takeover

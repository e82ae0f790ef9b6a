// Package session has the stored record of a session (of revisions before 2026-07-28), and
// the pure rules of its lifetime and of the table of calls that run here.
//
//	fresh ──first message──▶ alive ──idle for Lifetime.Idle, or Absolute old──▶ expired
//	  │                        └──DELETE──▶ gone
//	  └──nothing for Lifetime.Fresh──▶ expired
//
// A session owns nothing: the record is the truth, so that any node can serve it. Nothing
// here reads a clock, does I/O or starts a goroutine; callers pass the time.
package session

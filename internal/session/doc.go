// Package session has the stored record of a session (of revisions before 2026-07-28), and
// the pure rules of its lifetime and of the table of calls that run here.
//
//	fresh ──first message──▶ alive ──idle for Lifetime.Idle, or Absolute old──▶ expired
//	  │                        └──DELETE──▶ gone
//	  └──nothing for Lifetime.Fresh──▶ expired
//
// A session owns nothing: the record is the truth, so that any node can serve it. Nothing
// here reads a clock, does I/O or starts a goroutine; callers pass the time.
//
// # Files
//
// From the top; most of what a file uses lies in its own line or below:
//
//	calls  the calls that run here
//	client  what is kept of the client
//	values  what handlers keep in the session
//	record  Record and Lifetime
package session

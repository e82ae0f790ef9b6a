// Package session holds what a legacy session is: its stored record, and the
// pure rules of its lifetime and of the table of calls that run here.
//
//	created ──activity──▶ alive ──idle for Lifetime.Idle, or Absolute old──▶ expired
//	                        └──DELETE──▶ gone
//
// A session owns nothing: the record is the truth, so that any node can serve
// it. No clock, no I/O, no goroutine in here; callers pass the time.
package session

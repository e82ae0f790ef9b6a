// Package limits tests over the wire that each limit holds, refuses with its own error and harms no other client, and that a
// runtime keeps nothing of clients that are gone. Its benchmarks (cost_*) say what requests, streams, resumes, takeovers
// and sessions cost over the wire; bench/run --benchmarks runs them with those that stand beside other code.
package limits

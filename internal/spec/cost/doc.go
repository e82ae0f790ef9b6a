// Package cost has benchmarks of what requests, streams, resumes, takeovers and sessions cost over the wire.
// bench/run runs them with those that stand beside other code.
package cost

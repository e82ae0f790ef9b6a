package loadgen_test

import (
	"os"

	"github.com/troupe-run/troupe/bench/loadgen"
)

// Two reports of the same scenario, before a change of the server and after it.
func ExampleCompare() {
	before := &loadgen.Report{Scenario: "echo", Clients: 32, PerSecond: 20_000, Latency: loadgen.Latency{P50: 1.5, P99: 4}, CPU: 40}
	after := &loadgen.Report{Scenario: "echo", Clients: 32, PerSecond: 25_000, Latency: loadgen.Latency{P50: 1.2, P99: 3}, CPU: 30}
	_ = loadgen.Compare(os.Stdout, before, after)
	// Output:
	//          operations/s  20000.00  25000.00  x 1.25
	//                p50 ms      1.50      1.20  x 0.80
	//                p99 ms      4.00      3.00  x 0.75
	//   server µs/operation     40.00     30.00  x 0.75
}

package recovery

import (
	"flag"
	"runtime"
	"testing"

	"github.com/troupe-run/troupe/test/histories"
)

var (
	count  = flag.Int("histories", 60, "how many histories happen")
	fleets = flag.Int("fleets", 60, "how many histories of fleets happen")
)

// alone are histories of one node.
var alone = histories.Harness[plan]{
	Package: "./actors/recovery", Flag: "histories", Draw: newPlan, Happen: happen, Workers: runtime.GOMAXPROCS(0), Times: 2, Wrong: 10,
}

// TestKept runs the histories that were wrong once, which must be right now.
func TestKept(t *testing.T) {
	times := 3 // events at the same instant have any order
	if testing.Short() {
		times = 1
	}
	alone.Kept(t, times)
}

// TestHistories runs random histories. Every accepted request has at most one response,
// which uses the answers to its questions. Every event id names one event. No client
// learns that it has everything unless it has.
func TestHistories(t *testing.T) {
	if testing.Short() {
		*count = min(*count, 15)
	}
	all := alone.Run(t, *count, 1)
	if *count >= 1000 {
		all.Must(t, "events", "answers", "answers found again", "calls lost", "cancels", "nothing more", "power cuts", "refusals", "resumes", "second runs")
	}
	all.Write(t)
}

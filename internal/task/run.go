package task

import (
	"slices"
	"time"
)

// KeptRuns is how many attempts a record tells of.
const KeptRuns = 10

// Run is what a record tells of an attempt. It decides nothing.
type Run struct {
	Epoch   uint64 `json:"epoch"`
	Attempt int    `json:"attempt"` // as handlers see it
	Node    string `json:"node"`
	Began   int64  `json:"began"`          // milliseconds since 1970
	Over    int64  `json:"over,omitempty"` // milliseconds since 1970; 0 while it runs
	End     End    `json:"end,omitempty"`
}

// End is how an attempt ended.
type End string

// The ends of attempts. The zero End is that of one that runs.
const (
	RunFinished  End = "finished"  // the task has its outcome
	RunCancelled End = "cancelled" // the task has
	RunAsked     End = "asked"     // the task waits for its client
	RunYielded   End = "yielded"   // its node ended, and gave the task back
	RunLost      End = "lost"      // its node was lost, or fell silent
)

// addRun returns the runs with one more, of which it keeps the newest.
func addRun(runs []Run, one Run) []Run {
	kept := runs[max(0, len(runs)+1-KeptRuns):]
	return append(slices.Clip(slices.Clone(kept)), one)
}

// endRun returns the runs with the end of the newest, if that has none.
func endRun(runs []Run, how End, now time.Time) []Run {
	i := len(runs) - 1
	if i < 0 || runs[i].End != "" {
		return runs
	}
	runs = slices.Clone(runs)
	runs[i].End, runs[i].Over = how, max(runs[i].Began, now.UnixMilli())
	return runs
}

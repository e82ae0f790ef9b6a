package main

import (
	"fmt"
	"testing"
)

// TestKill kills the process eight times while eight clients work. More rounds
// and other seeds: go run ./bench/soak kill.
func TestKill(t *testing.T) {
	if testing.Short() {
		t.Skip("kills real processes")
	}
	for _, seed := range []uint64{1, 2} {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r, err := runKill(t.Context(), options{rounds: 4, clients: 8, seed: seed, bin: program, data: t.TempDir(), log: t.Output()})
			if err != nil {
				t.Fatal(err)
			}
			for _, what := range []string{"resumes", "resumes_from_earlier", "replays_of_answered", "safe_calls_over_a_restart", "calls_lost_-32010", "answers_given", "batches", "resource_updates"} {
				if r.Counts[what] == 0 {
					t.Errorf("the run had no %s: it proves less than it should", what)
				}
			}
			t.Logf("restart to first answer: p50 %.0f ms, max %.0f ms; %v", r.Restart.P50, r.Restart.Max, r.Counts)
		})
	}
}

//go:build full

package main

import (
	"fmt"
	"testing"
)

// TestKill kills the process eight times while eight clients work, half of the times
// with a hundred servers in it. go run ./bench/soak kill has more rounds and other
// seeds.
func TestKill(t *testing.T) {
	for seed, servers := range map[uint64]int{1: 1, 2: 100} {
		t.Run(fmt.Sprintf("servers=%d", servers), func(t *testing.T) {
			o := options{rounds: 4, clients: 8, seed: seed, servers: servers, bin: program, data: t.TempDir(), log: t.Output()}
			if servers > 1 {
				o.bin = host
			}
			r, err := runKill(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			for _, what := range []string{
				"stateless_calls", "stateless_streams", "stateless_left", "stateless_pages_over_a_restart", "stateless_answered_over_a_restart", "stateless_lost_-32010",
				"stateless_same_answers_again", "stateless_other_answers_refused", "stateless_listeners_again", "stateless_updates", "stateless_foreign_states_refused",
				"resumes", "resumes_from_earlier", "replays_of_answered", "safe_calls_over_a_restart", "calls_lost_-32010", "answers_given", "batches", "resource_updates", "servers_after_restart",
			} {
				if r.Counts[what] == 0 && (servers > 1 || what != "servers_after_restart" && what != "stateless_foreign_states_refused") {
					t.Errorf("the run had no %s: it proves less than it should", what)
				}
			}
			t.Logf("restart to first answer: p50 %.0f ms, max %.0f ms; %v", r.Restart.P50, r.Restart.Max, r.Counts)
		})
	}
}

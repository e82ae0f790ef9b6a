//go:build full

package main

import "testing"

// TestStopCont stops the process past its lease while it serves, and lets it go on. go
// run ./bench/soak stop has more rounds and other seeds.
func TestStopCont(t *testing.T) {
	r, err := runStop(t.Context(), options{rounds: 2, clients: 6, seed: 1, bin: program, data: t.TempDir(), log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	if r.Counts["answered"] == 0 || r.Counts["connections"] == 0 {
		t.Errorf("nothing was under way: %v", r.Counts)
	}
	t.Logf("ready again: p50 %.0f ms, max %.0f ms; %v", r.Ready.P50, r.Ready.Max, r.Counts)
}

//go:build full

package main

import "testing"

// TestTasks kills the process eight times while two hundred tasks work in it. go run ./bench/soak tasks has more rounds and other
// seeds.
func TestTasks(t *testing.T) {
	r, err := runTasks(t.Context(), options{rounds: 8, seed: 1, bin: host, data: t.TempDir() + "/data", log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	if r.Tasks < taskPopulation || r.Attempts < 2 || r.Again == 0 { // how many more there are depends on the machine
		t.Errorf("the run had %d tasks, and no more than %d attempts of one: it proves less than it should", r.Tasks, r.Attempts)
	}
	t.Logf("ready to first step: p50 %.0f ms, max %.0f ms; %+v", r.PickUp.P50, r.PickUp.Max, *r)
}

package main

import (
	"testing"
)

// TestRecovery checks that the soak runs as many histories as it is asked for.
func TestRecovery(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a test")
	}
	r, err := runRecovery(t.Context(), options{histories: 20, seed: 5, log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	if r.Histories != 20 || r.Seed != 5 || r.Sums["events"] == 0 {
		t.Errorf("got %+v", r)
	}
}

package main

import (
	"testing"

	"github.com/troupe-run/troupe/internal/testkit/when"
)

// TestRecovery checks that the soak runs as many histories as it is asked for.
func TestRecovery(t *testing.T) {
	when.Full(t, "builds a test")
	for _, of := range []property{recoveryProperty, fleetsProperty, simProperty} {
		r, err := runHistories(t.Context(), options{histories: 20, seed: 5, log: t.Output()}, of)
		if err != nil {
			t.Fatal(err)
		}
		if r.Histories != 20 || r.Seed != 5 || r.Sums["events"] == 0 || (r.Sums["takeovers"] > 0) != (of == fleetsProperty) || (r.Sums["news"] > 0) != (of == simProperty) {
			t.Errorf("%+v: got %+v", of, r)
		}
	}
}

//go:build full

package main

import (
	"testing"
	"time"
)

// TestAuth sends bad tokens for a moment: all are refused, most without a look, and another's requests succeed. How long these take needs a machine that does nothing
// else: go run ./bench/soak auth.
func TestAuth(t *testing.T) {
	r, err := runAuth(t.Context(), options{rounds: 1, seed: 12, bin: program, data: t.TempDir(), duration: time.Second, log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range r.Broken {
		t.Error(what)
	}
	for _, what := range r.Over {
		t.Logf("not judged here: %s", what)
	}
}

//go:build full

package main

import (
	"testing"
	"time"
)

// TestGreed has two greedy clients make some of the attacks, and then all at once, beside a quiet one. The process must live, every
// request of the quiet client succeed, and each attack meet its limit. How long the quiet client waits, and how much memory the
// process has, need a machine that does nothing else: go run ./bench/soak greed.
func TestGreed(t *testing.T) {
	r, err := runGreed(t.Context(), options{
		greedy: 2, seed: 11, bin: program, data: t.TempDir(), duration: 500 * time.Millisecond, counts: true, log: t.Output(),
		parts: []string{"bodies", "values", "in-flight", "inputs", "unknown-states", "batches", "resumes", "listens", allAtOnce},
	})
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

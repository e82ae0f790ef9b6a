//go:build full

package main

import (
	"testing"
	"time"

	"github.com/troupe-run/troupe/bench/soak/greed"
)

// TestGreed has two greedy clients make some of the attacks, and then all at once, beside a quiet
// one. The process must live, every request of the quiet client succeed, and each attack meet its
// limit. How long the quiet client waits, and how much memory the process has, need a machine that
// does nothing else: go run ./bench/soak greed.
func TestGreed(t *testing.T) {
	attacked(t, 2, "bodies", "values", "in-flight", "inputs", "unknown-states", "batches", "resumes", "listens", greed.AllAtOnce)
}

// TestBadTokens sends tokens that do not count, which must be refused, mostly without a look,
// beside a quiet client whose tokens count.
func TestBadTokens(t *testing.T) { attacked(t, 1, greed.BadTokens) }

func attacked(t *testing.T, greedy int, parts ...string) {
	r, err := runGreed(t.Context(), options{greedy: greedy, seed: 11, bin: troupe, data: t.TempDir() + "/data", duration: 500 * time.Millisecond, counts: true, log: t.Output(), parts: parts})
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

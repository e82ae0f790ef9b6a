//go:build full

package main

import (
	"testing"
	"time"
)

// TestMixed has clients of both eras, and of HTTP+SSE, come and go for some seconds. Every request
// must succeed; what the process holds is not judged, as that takes minutes to become steady: go
// run ./bench/soak mixed --time 30m.
func TestMixed(t *testing.T) {
	r, err := runMixed(t.Context(), options{clients: 6, seed: 1, time: 15 * time.Second, counts: true, bin: troupe, data: t.TempDir(), log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range r.Broken {
		t.Error(what)
	}
	for _, what := range []string{"echoes", "reads", "answered", "answers_given", "tasks", "batches", "resource_updates", "sessions_deleted", "sessions_left_in_a_call", "sessions_left_with_a_question",
		"stateless_echo", "stateless_count", "stateless_answered", "stateless_updates", "stateless_left", "stateless_left_with_a_question", "stateless_tasks",
		"sse_connect_and_no_more", "sse_call", "sse_read", "sse_streamed_call", "sse_calls_at_once", "sse_cancelled_call", "sse_question", "sse_update", "sse_leave",
		"resumes", "dropped_by_client", "replays_of_answered", "sse_left_idle", "sse_left_uninitialized", "sse_left_in_a_call", "sse_left_with_a_question"} {
		if r.Counts[what] == 0 {
			t.Errorf("the run had no %s: it proves less than it should", what)
		}
	}
	if r.Samples < 4 || len(r.Trends) != len(mixedBounds) {
		t.Errorf("the run has %d samples and %d trends", r.Samples, len(r.Trends))
	}
	t.Logf("%d clients, %v", r.Visitors, r.Counts)
}

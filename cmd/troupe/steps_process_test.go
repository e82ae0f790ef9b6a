package main

import (
	"encoding/json"
	"syscall"
	"testing"
)

// TestStepsOfASessionSurviveAKill kills the process with SIGKILL in the middle of a call of 60 steps, in a session. The next process goes on with the step that was under
// way, and does none again that was stored.
func TestStepsOfASessionSurviveAKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, "--data", dir)
	s := sit(t, p, "2025-11-25")
	var err error
	if s.stream, err = p.post(t.Context(), `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{`+tool("job", `{"steps":60,"step_ms":200}`)+`,"_meta":{"progressToken":"p"}}}`, s.header()...); err != nil {
		t.Fatal(err)
	}
	const told = 7
	for range told {
		if m, err := s.next(); err != nil || m.Method != "notifications/progress" {
			t.Fatalf("it gets %+v (%v)", m, err)
		}
	}
	p.signal(t, syscall.SIGKILL)
	p.exit(t)
	p = start(t, "--data", dir)
	if err := s.resume(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	defer s.stream.close()
	var m message
	for string(m.ID) != "7" {
		if m, err = s.next(); err != nil {
			t.Fatal(err)
		}
	}
	var got struct {
		Steps []struct{ N, Attempt int }
	}
	if len(m.Result.Content) != 1 || json.Unmarshal([]byte(m.Result.Content[0].Text), &got) != nil || len(got.Steps) != 60 {
		t.Fatalf("it ends with %+v", m)
	}
	for i, step := range got.Steps {
		if step.N != i+1 || i < told && step.Attempt != 1 || i > 0 && step.Attempt < got.Steps[i-1].Attempt {
			t.Errorf("step %d is %d of run %d, after one of run %d", i+1, step.N, step.Attempt, got.Steps[max(0, i-1)].Attempt)
		}
	}
	if last := got.Steps[59]; last.Attempt != 2 {
		t.Errorf("the last step is of run %d, want 2", last.Attempt)
	}
}

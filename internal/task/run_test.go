package task

import (
	"encoding/json"
	"testing"
	"time"
)

// TestRuns: a record tells how its newest attempts ended, and of no more than KeptRuns; a copy of the record keeps its own.
func TestRuns(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_000_000)
	r := New(now, time.Hour)
	last := func(want End) {
		t.Helper()
		if got := r.Runs[len(r.Runs)-1]; got.End != want || want != "" && got.Over != now.UnixMilli() || want == "" && got.Over != 0 {
			t.Errorf("the last run is %+v, want the end %q", got, want)
		}
	}
	begin := func() uint64 {
		t.Helper()
		r.NoteProgress()
		epoch, err := r.BeginAttempt("a", "1", now)
		if err != nil {
			t.Fatal(err)
		}
		last("")
		now = now.Add(time.Second)
		return epoch
	}
	before := r
	epoch := begin()
	if before.Runs != nil {
		t.Error("an earlier copy has the run, too")
	}
	if err := r.YieldAttempt(epoch, now); err != nil {
		t.Fatal(err)
	}
	last(RunYielded)
	epoch = begin()
	before = r
	if err := r.AskQuestions(epoch, now, Question{Key: "q"}); err != nil {
		t.Fatal(err)
	}
	last(RunAsked)
	if before.Runs[1].End != "" {
		t.Error("an earlier copy has the end, too")
	}
	if _, err := r.TakeAnswers(map[string]Reply{"q": {Value: []byte(`1`)}}, now); err != nil {
		t.Fatal(err)
	}
	begin()
	lost := now
	for range 2 * KeptRuns {
		begin()
	}
	if n := len(r.Runs); n != KeptRuns || r.Runs[0].Epoch != r.Epoch-KeptRuns+1 || r.Runs[0].End != RunLost || !time.UnixMilli(r.Runs[0].Over).After(lost) {
		t.Errorf("%d runs, the first one %+v", n, r.Runs[0])
	}
	cancelled := r
	if err := cancelled.Cancel(now); err != nil || cancelled.Runs[KeptRuns-1].End != RunCancelled {
		t.Errorf("cancelled: %+v, %v", cancelled.Runs[KeptRuns-1], err)
	}
	if err := r.Finish(r.Epoch, Outcome{Kind: Done}, now); err != nil {
		t.Fatal(err)
	}
	last(RunFinished)
	var old Record // as the first release stored it, without runs
	if err := json.Unmarshal([]byte(`{"v":1,"created":1,"updated":1,"ttl":3600000,"state":1,"epoch":1,"attempt":1,"node":"a","boot":"1"}`), &old); err != nil {
		t.Fatal(err)
	}
	if _, err := old.BeginAttempt("b", "2", now); err != nil || len(old.Runs) != 1 || old.Runs[0].Epoch != 2 {
		t.Errorf("a record without runs: %+v, %v", old.Runs, err)
	}
}

package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit/when"
)

var start = time.UnixMilli(1_800_000_000_000)

// must returns v, and fails the test if there is an error.
func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func asked(keys ...string) (qs []Question) {
	for _, k := range keys {
		qs = append(qs, Question{Key: k, Request: json.RawMessage(`{"method":"elicitation/create"}`)})
	}
	return qs
}

func answers(keys ...string) map[string]Reply {
	all := make(map[string]Reply)
	for _, k := range keys {
		all[k] = Reply{Value: json.RawMessage(`{"action":"accept"}`)}
	}
	return all
}

// in returns a task in a state, after a life that has used the key "old", and the epoch of its newest attempt.
func in(t *testing.T, s State) (r Record, epoch uint64) {
	t.Helper()
	r = New(start, time.Hour)
	epoch = must[uint64](t)(r.BeginAttempt("n", "b", start))
	if err := r.AskQuestions(epoch, start, asked("old")...); err != nil {
		t.Fatal(err)
	}
	must[bool](t)(r.TakeAnswers(answers("old"), start))
	if s == Queued {
		return r, epoch
	}
	epoch = must[uint64](t)(r.BeginAttempt("n", "b", start))
	switch s {
	case Waiting:
		if err := r.AskQuestions(epoch, start, asked("a", "b")...); err != nil {
			t.Fatal(err)
		}
	case Ended:
		if err := r.Finish(epoch, Outcome{Kind: Done, Value: json.RawMessage(`{}`)}, start); err != nil {
			t.Fatal(err)
		}
	}
	return r, epoch
}

// TestChanges makes each change in each state. What is refused changes nothing.
func TestChanges(t *testing.T) {
	t.Parallel()
	later := start.Add(time.Minute)
	type to struct {
		state State
		err   error
	}
	for name, row := range map[string]struct {
		change func(r *Record, epoch uint64) error
		want   [4]to // by the state before: queued, running, waiting, ended
	}{
		"an attempt begins": {
			func(r *Record, _ uint64) error { _, err := r.BeginAttempt("m", "c", later); return err },
			[4]to{{Running, nil}, {Running, nil}, {Waiting, ErrWaiting}, {Ended, ErrEnded}},
		},
		"it is given back": {
			func(r *Record, epoch uint64) error { return r.YieldAttempt(epoch, later) },
			[4]to{{Queued, ErrFenced}, {Queued, nil}, {Waiting, ErrFenced}, {Ended, ErrEnded}},
		},
		"it asks": {
			func(r *Record, epoch uint64) error { return r.AskQuestions(epoch, later, asked("c")...) },
			[4]to{{Queued, ErrFenced}, {Waiting, nil}, {Waiting, nil}, {Ended, ErrEnded}},
		},
		"it asks nothing": {
			func(r *Record, epoch uint64) error { return r.AskQuestions(epoch, later) },
			[4]to{{Queued, ErrFenced}, {Running, ErrNotWaiting}, {Waiting, ErrNotWaiting}, {Ended, ErrEnded}},
		},
		"it asks with a key of an earlier attempt": {
			func(r *Record, epoch uint64) error { return r.AskQuestions(epoch, later, asked("c", "old")...) },
			[4]to{{Queued, ErrFenced}, {Running, ErrKeyUsed}, {Waiting, ErrKeyUsed}, {Ended, ErrEnded}},
		},
		"it asks twice with a key": {
			func(r *Record, epoch uint64) error { return r.AskQuestions(epoch, later, asked("c", "c")...) },
			[4]to{{Queued, ErrFenced}, {Running, ErrKeyUsed}, {Waiting, ErrKeyUsed}, {Ended, ErrEnded}},
		},
		"some answers": {
			func(r *Record, _ uint64) error { _, err := r.TakeAnswers(answers("a", "unknown"), later); return err },
			[4]to{{Queued, ErrNotWaiting}, {Running, ErrNotWaiting}, {Waiting, nil}, {Ended, ErrEnded}},
		},
		"all answers": {
			func(r *Record, _ uint64) error { _, err := r.TakeAnswers(answers("a", "b"), later); return err },
			[4]to{{Queued, ErrNotWaiting}, {Running, ErrNotWaiting}, {Queued, nil}, {Ended, ErrEnded}},
		},
		"it says something": {
			func(r *Record, epoch uint64) error { return r.SetMessage(epoch, "half", later) },
			[4]to{{Queued, ErrFenced}, {Running, nil}, {Waiting, nil}, {Ended, ErrEnded}},
		},
		"it finishes": {
			func(r *Record, epoch uint64) error { return r.Finish(epoch, Outcome{Kind: ToolError}, later) },
			[4]to{{Queued, ErrFenced}, {Ended, nil}, {Ended, nil}, {Ended, ErrEnded}},
		},
		"it is cancelled": {
			func(r *Record, _ uint64) error { return r.Cancel(later) },
			[4]to{{Ended, nil}, {Ended, nil}, {Ended, nil}, {Ended, ErrEnded}},
		},
		"an earlier attempt finishes": {
			func(r *Record, epoch uint64) error { return r.Finish(epoch-1, Outcome{Kind: Done}, later) },
			[4]to{{Queued, ErrFenced}, {Running, ErrFenced}, {Waiting, ErrFenced}, {Ended, ErrEnded}},
		},
	} {
		for before, want := range row.want {
			r, epoch := in(t, State(before))
			old := r
			err := row.change(&r, epoch)
			if !errors.Is(err, want.err) || r.State != want.state {
				t.Errorf("%s in state %d: state %d, %v, want %d, %v", name, before, r.State, err, want.state, want.err)
			}
			if err != nil && !reflect.DeepEqual(r, old) {
				t.Errorf("%s in state %d is refused, and has changed\n%+v to\n%+v", name, before, old, r)
			}
			if err == nil && r.Updated != later.UnixMilli() {
				t.Errorf("%s in state %d: updated at %d", name, before, r.Updated)
			}
			if running := r.State == Running; running != (r.Node != "" && r.Boot != "") || (r.State == Ended) != (r.Outcome != nil) {
				t.Errorf("%s in state %d: state %d with worker %q, %q and outcome %v", name, before, r.State, r.Node, r.Boot, r.Outcome)
			}
		}
	}
}

// TestAnswers answers questions in parts: unknown keys are ignored, the first answer counts, and the last one that is due
// has the task go on.
func TestAnswers(t *testing.T) {
	t.Parallel()
	r, _ := in(t, Waiting)
	step := func(ready bool, open []string, given map[string]Reply) {
		t.Helper()
		got := must[bool](t)(r.TakeAnswers(given, start))
		var keys []string
		for _, q := range r.OpenQuestions() {
			keys = append(keys, q.Key)
		}
		if got != ready || !slices.Equal(keys, open) {
			t.Errorf("ready %v, open %v, want %v, %v", got, keys, ready, open)
		}
	}
	first := []byte(`{"action":"decline"}`)
	step(false, []string{"a", "b"}, answers("unknown", "old"))
	step(false, []string{"a", "b"}, map[string]Reply{"a": {}})
	step(false, []string{"b"}, map[string]Reply{"a": {Value: first}})
	step(false, []string{"b"}, answers("a"))
	copy(first, `xxxxxxxxxxx`) // the client's bytes, which are not kept
	step(true, nil, map[string]Reply{"a": {Value: json.RawMessage(`{}`)}, "b": {Value: json.RawMessage(`{"code":-1}`), Refused: true}})
	if q := r.Questions[1]; string(q.Answer) != `{"action":"decline"}` || q.Refused {
		t.Errorf("the first answer was %s", q.Answer)
	}
	if q := r.Questions[2]; string(q.Answer) != `{"code":-1}` || !q.Refused {
		t.Errorf("the refusal was %s, %v", q.Answer, q.Refused)
	}
}

// TestAttempts: a task that is lost as often as it may be ends; what gives it back, or has it wait, does not count.
func TestAttempts(t *testing.T) {
	t.Parallel()
	r := New(start, time.Hour)
	for i := range 20 {
		epoch := must[uint64](t)(r.BeginAttempt("n", "b", start))
		var err error
		if i%2 == 0 {
			err = r.YieldAttempt(epoch, start)
		} else if err = r.AskQuestions(epoch, start, asked(fmt.Sprint(i))...); err == nil {
			must[bool](t)(r.TakeAnswers(answers(fmt.Sprint(i)), start))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if r.Attempt != 0 || r.Lost != 0 {
		t.Errorf("attempt %d, lost %d: none was lost", r.Attempt, r.Lost)
	}
	last := r.Epoch
	for range MaxAttempts {
		if epoch := must[uint64](t)(r.BeginAttempt("n", "b", start)); epoch <= last {
			t.Fatalf("epoch %d after %d", epoch, last)
		}
		last = r.Epoch
	}
	if _, err := r.BeginAttempt("n", "b", start); !errors.Is(err, ErrTooManyAttempts) || r.State != Ended || r.Outcome.Kind != Lost {
		t.Errorf("got %v in state %d", err, r.State)
	}
	r = New(start, time.Hour)
	for range 10 * MaxAttempts { // each has stored a step before it was lost
		must[uint64](t)(r.BeginAttempt("n", "b", start))
		r.NoteProgress()
	}
	if r.Attempt != 10*MaxAttempts {
		t.Errorf("attempt %d", r.Attempt)
	}
	r.NoteProgress()
	for range MaxAttempts {
		must[uint64](t)(r.BeginAttempt("n", "b", start))
	}
	if _, err := r.BeginAttempt("n", "b", start); !errors.Is(err, ErrTooManyAttempts) {
		t.Errorf("lost %d times in a row: %v", MaxAttempts, err)
	}
}

// TestLifetime: what is left of the lifetime counts from the creation, whatever happens to the task; clocks that go back do
// not take its last change back.
func TestLifetime(t *testing.T) {
	t.Parallel()
	r, epoch := in(t, Running)
	if err := r.SetMessage(epoch, "x", start.Add(20*time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := r.SetMessage(epoch, "y", start.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if got := time.UnixMilli(r.Updated); !got.Equal(start.Add(20 * time.Minute)) {
		t.Errorf("updated at %v", got)
	}
	for after, want := range map[time.Duration]time.Duration{0: time.Hour, 20 * time.Minute: 40 * time.Minute, time.Hour: 0, 9 * time.Hour: 0} {
		if got := r.TimeLeft(start.Add(after)); got != want {
			t.Errorf("after %v %v are left, want %v", after, got, want)
		}
	}
}

// TestStatus names each state and outcome in the words of both eras.
func TestStatus(t *testing.T) {
	t.Parallel()
	for state, word := range map[State]mcp.TaskStatus{Queued: mcp.TaskWorking, Running: mcp.TaskWorking, Waiting: mcp.TaskInputRequired} {
		r, _ := in(t, state)
		for _, reader := range []mcp.Revision{mcp.Revision20251125, mcp.Revision20260728} {
			if got := r.Status(reader); got != word {
				t.Errorf("state %d is %s for %v, want %s", state, got, reader, word)
			}
		}
	}
	for kind, want := range map[Kind][2]mcp.TaskStatus{
		Done:      {mcp.TaskCompleted, mcp.TaskCompleted},
		ToolError: {mcp.TaskFailed, mcp.TaskCompleted},
		Failed:    {mcp.TaskFailed, mcp.TaskFailed},
		Cancelled: {mcp.TaskCancelled, mcp.TaskCancelled},
		Lost:      {mcp.TaskFailed, mcp.TaskFailed},
		0:         {mcp.TaskFailed, mcp.TaskFailed}, // no release writes it
		99:        {mcp.TaskFailed, mcp.TaskFailed}, // a later release
	} {
		r := Record{State: Ended, Outcome: &Outcome{Kind: kind}}
		if got := [2]mcp.TaskStatus{r.Status(mcp.Revision20251125), r.Status(mcp.Revision20260728)}; got != want {
			t.Errorf("kind %d is %v, want %v", kind, got, want)
		}
	}
	if r := (Record{State: Ended}); r.Status(mcp.Revision20251125) != mcp.TaskFailed {
		t.Error("an ended task without an outcome is no failure")
	}
}

// TestEndedIsFinal makes random changes by attempts that come and go, some of them with epochs of before. Once a task has
// ended it never changes, no epoch is given twice, and only the newest attempt has changed anything.
func TestEndedIsFinal(t *testing.T) {
	when.Unraced(t, "one goroutine does all of it")
	t.Parallel()
	for seed := range uint64(2000) {
		rnd := rand.New(rand.NewPCG(seed, 12))
		r, now := New(start, time.Hour), start
		var final []byte
		epochs := map[uint64]bool{}
		for i := range 60 {
			now = now.Add(time.Duration(rnd.IntN(1000)) * time.Millisecond)
			epoch := r.Epoch - min(r.Epoch, uint64(rnd.IntN(3)))
			newest, state := epoch == r.Epoch, r.State
			var err error
			attempts := true // only an attempt makes this change
			switch rnd.IntN(9) {
			case 0, 1:
				var e uint64
				if e, err = r.BeginAttempt("n", fmt.Sprint(i), now); err == nil && epochs[e] {
					t.Fatalf("seed %d: epoch %d is given twice", seed, e)
				}
				epochs[e], attempts = true, false
			case 2:
				err = r.YieldAttempt(epoch, now)
			case 3:
				err = r.AskQuestions(epoch, now, asked(fmt.Sprint(rnd.IntN(40)))...)
			case 4:
				var open []string
				for _, q := range r.OpenQuestions() {
					open = append(open, q.Key)
				}
				_, err = r.TakeAnswers(answers(open...), now)
				attempts = false
			case 5:
				err = r.SetMessage(epoch, fmt.Sprint(i), now)
			case 6:
				if rnd.IntN(8) == 0 {
					err, attempts = r.Cancel(now), false
				}
			default:
				if rnd.IntN(8) == 0 {
					err = r.Finish(epoch, Outcome{Kind: Done}, now)
				} else {
					continue
				}
			}
			if err == nil && attempts && (!newest || state != Running && (state != Waiting || r.State != Ended)) && state != r.State {
				t.Fatalf("seed %d: an attempt that has lost the task moved it from %d to %d", seed, state, r.State)
			}
			stored, _ := json.Marshal(r)
			if final != nil && string(stored) != string(final) {
				t.Fatalf("seed %d: an ended task changed from %s to %s", seed, final, stored)
			}
			if r.State == Ended {
				final = stored
			}
			var back Record
			if json.Unmarshal(stored, &back) != nil || !reflect.DeepEqual(back.OpenQuestions(), r.OpenQuestions()) || back.State != r.State || back.Epoch != r.Epoch {
				t.Fatalf("seed %d: %s is read as %+v", seed, stored, back)
			}
		}
	}
}

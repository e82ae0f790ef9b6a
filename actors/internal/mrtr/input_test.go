package mrtr

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestKeysAreUnique checks that a later run uses the same keys, and that no two
// questions of a run have the same key.
func TestKeysAreUnique(t *testing.T) {
	t.Parallel()
	for range 2 {
		var in Input
		var got []string
		for _, key := range []string{"name", "name", "name-2", "name", "age", "name-2", "name"} {
			got = append(got, in.UniqueKey(key))
		}
		if diff := cmp.Diff([]string{"name", "name-2", "name-2-2", "name-3", "age", "name-2-3", "name-4"}, got); diff != "" {
			t.Errorf("keys (-want +got):\n%s", diff)
		}
		slices.Sort(got)
		if n := len(slices.Compact(got)); n != 7 {
			t.Errorf("%d different keys, want 7", n)
		}
	}
}

// TestAnswersThatDoNotFit checks that an answer that does not fit its question is
// dropped, so that the next request may bring another one, and that only answers to
// questions are carried on.
func TestAnswersThatDoNotFit(t *testing.T) {
	t.Parallel()
	number := func(raw []byte) bool { var n int; return json.Unmarshal(raw, &n) == nil }
	var in Input
	if in.HasAnswer("n", number) {
		t.Error("there is an answer before any came")
	}
	in.TakeAnswer("n", []byte(`"seven"`))
	in.TakeAnswer("unasked", []byte(`1`))
	if in.HasAnswer("n", number) {
		t.Error(`"seven" is taken for a number`)
	}
	if in.HasAnswer("n", nil) {
		t.Error("what was no answer is still there")
	}
	if given, size := in.UsedAnswers(); given != nil || size != 0 {
		t.Errorf("carried on: %s, %d bytes, want nothing", given, size)
	}
	in.TakeAnswer("n", []byte(`7`))
	for range 2 {
		if !in.HasAnswer("n", number) {
			t.Error("7 is no number")
		}
	}
	given, size := in.UsedAnswers()
	if diff := cmp.Diff(map[string]json.RawMessage{"n": json.RawMessage(`7`)}, given); diff != "" || size != 2 {
		t.Errorf("carried on, %d bytes (-want +got):\n%s", size, diff)
	}
}

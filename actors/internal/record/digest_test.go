package record

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/troupe-run/troupe/actors/internal/stream"
)

// batch returns the record of a stream of three calls; the last one may not run again.
func batch() *Stream {
	return &Stream{Version: Version, Safe: true, Calls: []Call{{ID: json.RawMessage(`1`)}, {ID: json.RawMessage(`"b"`)}, {ID: json.RawMessage(`3`), Never: true}}}
}

func asked(q Question) stream.Entry { return stream.Entry{Kind: stream.Request, Meta: QuestionMeta(q)} }

func answer(id, data string) stream.Entry {
	return stream.Entry{Kind: stream.Answer, Meta: []byte(id), Data: []byte(data)}
}

func final(id string) stream.Entry { return stream.Entry{Kind: stream.Final, Meta: []byte(id)} }

// TestDigestOfALog checks that the digest of a log has what a second run needs: the
// first answer to each question, and which calls of a batch have their response.
func TestDigestOfALog(t *testing.T) {
	t.Parallel()
	rec := batch()
	past := rec.Past()
	for i, entries := range [][]stream.Entry{
		{{Kind: stream.Message, Meta: []byte{1}}, asked(Question{ID: `"q1"`, Key: "name", Use: 1}), asked(Question{ID: `"q2"`, Key: "age", Use: 1, Member: 1})},
		{asked(Question{ID: `"q3"`, Key: "name", Use: 1, Member: 2}), answer(`"q1"`, `r{"a":1}`)},
		{answer(`"q1"`, `r{"a":2}`), answer(`"q9"`, `r{}`), answer(`"q2"`, `e{"code":1}`)},
		{final(`"b"`), {Kind: stream.End, Meta: []byte(`3`)}},
		{final(`"b"`), {Kind: stream.End, Meta: []byte(`7`)}, answer(`"q1"`, `e{}`)},
	} {
		if n := past.NoteAppend(rec, uint64(i+1), 9, entries); n != 0 {
			t.Errorf("append %d takes the right to run again from %d calls", i+1, n)
		}
	}
	want := Digest{
		Seen: Seen{Append: 5, Epoch: 9, Entry: 0}, // clients see no event after it
		Done: []int{1, 2},
		Questions: []Question{
			{ID: `"q1"`, Key: "name", Use: 1, Answer: json.RawMessage(`{"a":1}`)},
			{ID: `"q2"`, Key: "age", Use: 1, Member: 1, Answer: json.RawMessage(`{"code":1}`), Failed: true},
		},
	}
	if diff := cmp.Diff(want, past.Digest); diff != "" {
		t.Errorf("digest (-want +got):\n%s", diff)
	}
}

// TestDigestOfACall checks that the end of a call that is alone on its stream is not
// noted, because it is the end of the stream.
func TestDigestOfACall(t *testing.T) {
	t.Parallel()
	rec := &Stream{Version: Version, Safe: true, Calls: []Call{{ID: json.RawMessage(`1`)}}}
	past := rec.Past()
	past.NoteAppend(rec, 1, 1, []stream.Entry{{Kind: stream.Progress, Meta: make([]byte, 8)}, answer(`"q"`, `r1`), final(`1`)})
	if diff := cmp.Diff(Digest{Seen: Seen{1, 1, 2}}, past.Digest); diff != "" {
		t.Errorf("digest (-want +got):\n%s", diff)
	}
}

// TestTooMuchForARecord checks that a record without enough room costs the call with the
// most answers its right to run again, and no other call, and that other copies of the
// record stay as they are.
func TestTooMuchForARecord(t *testing.T) {
	t.Parallel()
	rec := batch()
	before := *rec
	past := rec.Past()
	note := func(member int, id string, size int) int {
		q := asked(Question{ID: id, Key: "k", Use: 1, Member: member})
		return past.NoteAppend(rec, 1, 1, []stream.Entry{q, answer(id, "r"+strings.Repeat("1", size))})
	}
	third := int(MaxDigest) / 3
	if n := note(0, `"a"`, third) + note(1, `"b"`, third) + note(1, `"c"`, third/2); n != 0 {
		t.Fatalf("%d calls may not run again, want none: %d bytes of %d", n, past.Digest.Size(), MaxDigest)
	}
	if n := note(1, `"d"`, third); n != 1 {
		t.Errorf("%d calls may not run again, want one", n)
	}
	if got, want := []bool{rec.MayRerun(0), rec.MayRerun(1), rec.MayRerun(2)}, []bool{true, false, false}; !cmp.Equal(got, want) {
		t.Errorf("may run again: %v, want %v", got, want)
	}
	if !before.MayRerun(1) {
		t.Error("a copy of the record has lost the right, too")
	}
	if n := len(past.Digest.Questions); n != 1 || past.Digest.Questions[0].Member != 0 {
		t.Errorf("%d questions are left: %+v", n, past.Digest.Questions)
	}
	note(1, `"e"`, third)
	if n := len(past.Digest.Questions); n != 1 {
		t.Errorf("%d questions, want that of the call that may run again", n)
	}
}

// TestTellFits checks that a record that gets more than it has room for keeps what fits.
func TestTellFits(t *testing.T) {
	t.Parallel()
	rec := batch()
	past := Past{Digest: Digest{Questions: []Question{
		{ID: `"a"`, Key: "k", Answer: make([]byte, MaxDigest/2)}, {ID: `"b"`, Key: "k", Member: 1, Answer: make([]byte, MaxDigest)}}}}
	if n := rec.TakePast(7, &past); n != 1 || rec.MayRerun(1) || !rec.MayRerun(0) || rec.Tail != 7 {
		t.Errorf("%d calls may not run again, tail %d: %+v", n, rec.Tail, rec.Calls)
	}
	if len(rec.Digest.Questions) != 1 || rec.Digest.Size() > int(MaxDigest) {
		t.Errorf("the record has %d questions, %d bytes of %d", len(rec.Digest.Questions), rec.Digest.Size(), MaxDigest)
	}
}

// TestQuestionsWithoutNumbers checks that questions of releases that did not number them
// count by their order.
func TestQuestionsWithoutNumbers(t *testing.T) {
	t.Parallel()
	rec := batch()
	past := rec.Past()
	for _, meta := range []string{"\"1\"\x00k", "\"2\"\x00k\x001", "\"3\"\x00k", "\"4\"\x00other", "\"5\"\x00k"} {
		past.NoteAppend(rec, 1, 1, []stream.Entry{{Kind: stream.Request, Meta: []byte(meta)}})
	}
	want := []Question{{ID: `"1"`, Key: "k", Use: 1}, {ID: `"2"`, Key: "k", Use: 1, Member: 1}, {ID: `"3"`, Key: "k", Use: 2}, {ID: `"4"`, Key: "other", Use: 1}, {ID: `"5"`, Key: "k", Use: 3}}
	if diff := cmp.Diff(want, past.Digest.Questions, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("questions (-want +got):\n%s", diff)
	}
}

// FuzzAskedMeta checks that no stored entry makes a reader panic or gives a place that a
// batch does not have, and that a written entry is read.
func FuzzAskedMeta(f *testing.F) {
	for _, q := range []Question{{}, {ID: `"a"`, Key: "k", Use: 1}, {ID: `"a"`, Key: "k\x00l", Use: 4464, Member: 12}} {
		f.Add(QuestionMeta(q))
	}
	for _, meta := range []string{"", "\x01", "\x01\x01\x00\x7f", "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x01\x01\xff\xff\x7f\x00", "\"1\"\x00k\x0099999999"} {
		f.Add([]byte(meta))
	}
	f.Fuzz(func(t *testing.T, meta []byte) {
		q := QuestionOf(meta)
		if q.Member < 0 || q.Member >= MaxMembers {
			t.Fatalf("%q: place %d", meta, q.Member)
		}
		if again := QuestionOf(QuestionMeta(q)); !cmp.Equal(q, again) {
			t.Errorf("%q: %+v is read as %+v", meta, q, again)
		}
	})
}

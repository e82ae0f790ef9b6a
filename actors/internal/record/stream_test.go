package record

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe/actors/internal/stream"
)

func message(n uint64, member int) stream.Entry {
	return stream.Entry{Kind: stream.Message, Meta: AppendMember(binary.AppendUvarint(nil, n), member)}
}

func progress(v float64, member int) stream.Entry {
	return stream.Entry{Kind: stream.Progress, Meta: AppendMember(binary.BigEndian.AppendUint64(nil, math.Float64bits(v)), member)}
}

// TestSentsOnlyGrow checks that the progress of notifications never goes back: a second
// run would send again what the client has seen.
func TestSentsOnlyGrow(t *testing.T) {
	t.Parallel()
	var s Sents
	s.NoteEntries([]stream.Entry{message(1, 0), message(3, 2), message(2, 2), progress(-1, 0), progress(0.5, 2)})
	s.NoteEntries([]stream.Entry{message(2, 0), progress(0.25, 2), progress(-2, 0), message(1, 2)})
	want := Sents{{Messages: 2, Progressed: true, Progress: -1}, {}, {Messages: 3, Progressed: true, Progress: 0.5}}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	if got := s.Of(7); got != (Sent{}) {
		t.Errorf("a call that sent nothing: %+v", got)
	}
}

// TestMemberOf checks that an entry names a call that a batch can have, or none: what is
// noted for each place is kept in memory.
func TestMemberOf(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		entry  stream.Entry
		member int
		ok     bool
	}{
		"the first":              {message(1, 0), 0, true},
		"another":                {progress(1, 12), 12, true},
		"the last that can be":   {message(1, MaxMembers-1), MaxMembers - 1, true},
		"one more":               {message(1, MaxMembers), 0, false},
		"far more":               {stream.Entry{Kind: stream.Message, Meta: binary.AppendUvarint([]byte{1}, 1<<62)}, 0, false},
		"beyond what is counted": {stream.Entry{Kind: stream.Message, Meta: []byte{1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}}, 0, false},
		"no number":              {stream.Entry{Kind: stream.Message}, 0, false},
		"short progress":         {stream.Entry{Kind: stream.Progress, Meta: make([]byte, 7)}, 0, false},
		"an answer":              {stream.Entry{Kind: stream.Final, Meta: []byte{1, 1}}, 0, false},
	} {
		if member, ok := MemberOf(&row.entry); ok != row.ok || ok && member != row.member {
			t.Errorf("%s: got %d, %t, want %d, %t", name, member, ok, row.member, row.ok)
		}
	}
}

// TestWatermarks checks that each rewrite of the record after an event marks the last
// event that clients saw, for clients that resume from it, and that the newest marks are
// kept.
func TestWatermarks(t *testing.T) {
	t.Parallel()
	rec := &Stream{Version: Version}
	past := rec.Past()
	for num := uint64(1); num <= 100; num++ {
		past.NoteAppend(rec, num, 1, []stream.Entry{message(num, 0)})
		before := *rec
		rec.TakePast(num, &past)
		rec.TakePast(num+1, &past) // no event that clients see has come since
		if len(before.Earlier) > 0 && len(rec.Earlier) > 1 && &before.Earlier[0] == &rec.Earlier[0] {
			t.Fatal("two records share their marks")
		}
		num++
	}
	if n := len(rec.Earlier); n != maxWatermarks {
		t.Fatalf("%d marks, want %d", n, maxWatermarks)
	}
	for i, m := range rec.Earlier {
		num := uint64(99 - 2*(maxWatermarks-i))
		if want := (Watermark{Seen: Seen{num, 1, 0}, Upto: num + 1}); m != want {
			t.Errorf("mark %d: %+v, want %+v", i, m, want)
		}
	}
	all := rec.Watermarks()
	if want := (Watermark{Seen: Seen{99, 1, 0}, Upto: 100}); len(all) != maxWatermarks+1 || all[maxWatermarks] != want {
		t.Errorf("its own: %+v, want %+v", all[len(all)-1], want)
	}
	if old := (&Stream{Version: 1, Tail: 7}).Watermarks(); old != nil {
		t.Errorf("of a release without marks: %+v", old)
	}
}

// TestRuns checks that a record of the release that counted by epochs says how often its
// calls have run.
func TestRuns(t *testing.T) {
	t.Parallel()
	for record, want := range map[string]int{
		`{"v":1,"epoch":3}`:                        3,
		`{"v":2,"epoch":918273645463,"attempt":2}`: 2,
	} {
		var r Stream
		if err := json.Unmarshal([]byte(record), &r); err != nil {
			t.Fatal(err)
		}
		if got := r.RunCount(); got != want {
			t.Errorf("%s: %d runs, want %d", record, got, want)
		}
	}
}

// TestPastIsCloned checks that a note in one copy of the past does not appear in another
// copy.
func TestPastIsCloned(t *testing.T) {
	t.Parallel()
	rec := batch()
	first := rec.Past()
	first.NoteAppend(rec, 1, 1, []stream.Entry{message(1, 1), asked(Question{ID: `"q"`, Key: "k", Use: 1}), final(`1`)})
	first.Digest.Questions = append(make([]Question, 0, 8), first.Digest.Questions...) // to have room for changes in place
	first.Digest.Done = append(make([]int, 0, 8), first.Digest.Done...)
	second := first.Clone()
	want := second.Clone()
	first.NoteAppend(rec, 2, 1, []stream.Entry{message(9, 1), answer(`"q"`, `r1`), asked(Question{ID: `"p"`, Key: "l", Use: 1}), final(`3`)})
	second.NoteAppend(rec, 2, 1, []stream.Entry{asked(Question{ID: `"o"`, Key: "m", Use: 1}), final(`"b"`)})
	if diff := cmp.Diff(want.Sents, second.Sents); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	if q := second.Digest.Questions; len(q) != 2 || q[0].Answer != nil || q[1].ID != `"o"` {
		t.Errorf("questions: %+v", q)
	}
	if diff := cmp.Diff([][]int{{0, 2}, {0, 1}}, [][]int{first.Digest.Done, second.Digest.Done}); diff != "" {
		t.Errorf("done (-want +got):\n%s", diff)
	}
}

package stream

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/troupe-run/troupe/test/kit/when"
)

func msg(s string) Entry { return Entry{Kind: Message, Data: []byte(s)} }

// world is a deterministic log that executes effects.
type world struct {
	t         *testing.T
	m         *Machine
	log       map[uint64][]byte
	delivered []string
	ended     bool
	lost      error
	dropped   int
	inFlight  *Effect
}

func (w *world) do(effects []Effect) {
	w.t.Helper()
	for _, e := range effects {
		switch e.Do {
		case DoAppend, DoRefresh, DoLook, DoCreate:
			if w.inFlight != nil {
				w.t.Fatalf("effect %+v while %+v is in flight", e, *w.inFlight)
			}
			w.inFlight = &e
		case DoDeliver:
			for i, x := range e.Entries {
				w.delivered = append(w.delivered, fmt.Sprintf("%d.%d %s", e.Num, i, x.Data))
				x.Drop(nil)
			}
			w.ended = w.ended || e.Last
		case DoDrop:
			w.dropped += len(e.Entries)
			for _, x := range e.Entries {
				x.Drop(e.Err)
			}
		case DoLost:
			w.lost = e.Err
		case DoRetry:
			// The write stays in flight until Resend repeats it.
		}
	}
}

func (w *world) step(e Event) { w.t.Helper(); w.do(w.m.Step(e, nil)) }

// ack stores the write in flight.
func (w *world) ack() bool {
	w.t.Helper()
	e := w.inFlight
	if e == nil {
		return false
	}
	w.inFlight = nil
	if e.Do == DoRefresh {
		w.step(Event{Op: Refreshed, Rev: w.m.Rev() + 100})
		return true
	}
	w.log[e.Num] = e.Data
	w.step(Event{Op: Stored})
	return true
}

func newWorld(t *testing.T, l Limits) *world {
	return &world{t: t, m: New(l), log: map[uint64][]byte{}}
}

func TestQueuedEntriesShareTheNextAppend(t *testing.T) {
	w := newWorld(t, Limits{})
	w.step(Event{Op: Push, Entries: []Entry{msg("a")}})
	if w.inFlight != nil {
		t.Fatal("an append left before the record was stored")
	}
	w.step(Event{Op: Opened, Rev: 7})
	w.step(Event{Op: Push, Entries: []Entry{msg("b")}})
	w.step(Event{Op: Push, Entries: []Entry{msg("c")}, Last: true})
	if len(w.delivered) != 0 {
		t.Fatalf("delivered before the acknowledgement: %v", w.delivered)
	}
	for w.ack() {
	}
	want := []string{"1.0 a", "2.0 b", "2.1 c"}
	if diff := cmp.Diff(want, w.delivered); diff != "" || !w.ended {
		t.Errorf("delivered (-want +got):\n%s ended=%v", diff, w.ended)
	}
	w.step(Event{Op: Push, Entries: []Entry{msg("late")}})
	if w.dropped != 1 || w.inFlight != nil {
		t.Errorf("after the end: dropped %d, in flight %v; want 1, none", w.dropped, w.inFlight)
	}
}

// TestAppendsHaveAsManyEntriesAsTheyMay checks that entries beyond the limit go into the
// next append, because event ids count the entries of an append.
func TestAppendsHaveAsManyEntriesAsTheyMay(t *testing.T) {
	for name, lim := range map[string]Limits{"by default": {}, "three": {Batch: 3}, "more than ids count": {Batch: 1 << 20}} {
		w := newWorld(t, lim)
		most := w.m.lim.Batch
		for range most + 1 {
			w.step(Event{Op: Push, Entries: []Entry{msg("x")}})
		}
		w.step(Event{Op: Opened, Rev: 1})
		for w.ack() {
		}
		if n := len(w.delivered); most > maxEntries || n != most+1 || w.delivered[most] != "2.0 x" {
			t.Errorf("%s: %d entries to an append, %d delivered, the last as %q", name, most, n, w.delivered[n-1])
		}
	}
}

// fates records what entries learn about their own storing, by their data.
type fates map[string][]error

func (f fates) entry(k Kind, s string) Entry {
	return Entry{Kind: k, Data: []byte(s), Acked: func(err error) { f[s] = append(f[s], err) }}
}

func (f fates) check(t *testing.T, want fates) {
	t.Helper()
	if diff := cmp.Diff(want, f, cmpopts.EquateErrors()); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

func TestCancelDropsWhatQueuesAndEndsTheStream(t *testing.T) {
	w, told := newWorld(t, Limits{}), fates{}
	push := func(s string) { w.step(Event{Op: Push, Entries: []Entry{told.entry(Message, s)}}) }
	cancel := func(s string) { w.step(Event{Op: Cancel, Entries: []Entry{told.entry(End, s)}}) }
	w.step(Event{Op: Opened, Rev: 1})
	push("in flight")
	push("queued")
	push("queued too")
	cancel("end")
	told.check(t, fates{"queued": {ErrEnded}, "queued too": {ErrEnded}})
	end := msg("end")
	if len(w.delivered) != 0 || w.ended || w.m.Queued() != end.size() {
		t.Errorf("before the acknowledgement: delivered %v, ended %v, %d bytes queued", w.delivered, w.ended, w.m.Queued())
	}
	push("late")
	cancel("second end")
	for w.ack() {
	}
	if diff := cmp.Diff([]string{"1.0 in flight", "2.0 end"}, w.delivered); diff != "" || !w.ended || w.m.Phase() != Ended {
		t.Errorf("delivered (-want +got):\n%s ended=%v", diff, w.ended)
	}
	if IsLast(w.log[1]) || !IsLast(w.log[2]) {
		t.Errorf("last: append 1 %v, append 2 %v", IsLast(w.log[1]), IsLast(w.log[2]))
	}
	cancel("after the end")
	told.check(t, fates{
		"in flight": {nil}, "end": {nil}, "queued": {ErrEnded}, "queued too": {ErrEnded},
		"late": {ErrEnded}, "second end": {ErrEnded}, "after the end": {ErrEnded},
	})
}

func TestCancelBeforeTheRecordIsStored(t *testing.T) {
	w, told := newWorld(t, Limits{}), fates{}
	w.step(Event{Op: Push, Entries: []Entry{told.entry(Progress, "queued")}})
	w.step(Event{Op: Cancel, Entries: []Entry{told.entry(End, "end")}})
	if w.inFlight != nil {
		t.Fatal("an append left before the record was stored")
	}
	w.step(Event{Op: Opened, Rev: 1})
	for w.ack() {
	}
	if diff := cmp.Diff([]string{"1.0 end"}, w.delivered); diff != "" || !w.ended {
		t.Errorf("delivered (-want +got):\n%s ended=%v", diff, w.ended)
	}
	told.check(t, fates{"queued": {ErrEnded}, "end": {nil}})
}

// TestCancelAfterTheAnswer checks that a response before the cancel stands.
func TestCancelAfterTheAnswer(t *testing.T) {
	w, told := newWorld(t, Limits{}), fates{}
	w.step(Event{Op: Opened, Rev: 1})
	w.step(Event{Op: Push, Entries: []Entry{told.entry(Message, "in flight")}})
	w.step(Event{Op: Push, Entries: []Entry{told.entry(Final, "answer")}, Last: true})
	w.step(Event{Op: Cancel, Entries: []Entry{told.entry(End, "end")}})
	for w.ack() {
	}
	if diff := cmp.Diff([]string{"1.0 in flight", "2.0 answer"}, w.delivered); diff != "" || !w.ended {
		t.Errorf("delivered (-want +got):\n%s ended=%v", diff, w.ended)
	}
	told.check(t, fates{"in flight": {nil}, "answer": {nil}, "end": {ErrEnded}})
}

// TestWithdrawDropsWhatQueuesOfACall checks that the write in flight keeps its place, and
// so do the entries of other calls.
func TestWithdrawDropsWhatQueuesOfACall(t *testing.T) {
	w, told := newWorld(t, Limits{}), fates{}
	push := func(s string, k Kind) { w.step(Event{Op: Push, Entries: []Entry{told.entry(k, s)}}) }
	w.step(Event{Op: Opened, Rev: 1})
	push("in flight", Progress)
	push("its own", Progress)
	push("another's", Message)
	push("its own too", Progress)
	w.step(Event{Op: Withdraw, Of: func(e *Entry) bool { return e.Kind == Progress }})
	other := msg("another's")
	if w.m.Queued() != other.size() {
		t.Errorf("%d bytes queued", w.m.Queued())
	}
	for w.ack() {
	}
	if diff := cmp.Diff([]string{"1.0 in flight", "2.0 another's"}, w.delivered); diff != "" || w.ended {
		t.Errorf("delivered (-want +got):\n%s ended=%v", diff, w.ended)
	}
	told.check(t, fates{"in flight": {nil}, "another's": {nil}, "its own": {ErrEnded}, "its own too": {ErrEnded}})
}

// TestPartsSayWhatTheyAre reads what appends are without decoding them.
func TestPartsSayWhatTheyAre(t *testing.T) {
	type verdict struct{ Rest, Last bool }
	big, small := msg(fmt.Sprintf("%0500d", 1)), msg("a")
	for name, tt := range map[string]struct {
		parts [][]byte
		want  []verdict
	}{
		"one of many":       {encodeEntries([]Entry{small, small}, false, 300), []verdict{{}}},
		"the last":          {encodeEntries([]Entry{small}, true, 300), []verdict{{Last: true}}},
		"in parts":          {encodeEntries([]Entry{big}, false, 300), []verdict{{}, {Rest: true}}},
		"the last in parts": {encodeEntries([]Entry{big, big}, true, 400), []verdict{{}, {}, {Rest: true, Last: true}}},
		"blanked":           {[][]byte{nil, {}}, []verdict{{}, {}}},
		"too short":         {[][]byte{{appendVersion, flagLast}}, []verdict{{}}},
		"another version":   {[][]byte{{appendVersion + 1, flagLast | flagCont}}, []verdict{{}}},
	} {
		var got []verdict
		for _, p := range tt.parts {
			got = append(got, verdict{IsLastPart(p), IsLast(p)})
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestReaderNeedsTheFirstPart checks that nothing of an append is read when its first part
// is gone, and that the next append is.
func TestReaderNeedsTheFirstPart(t *testing.T) {
	parts := encodeEntries([]Entry{msg(fmt.Sprintf("%0500d", 1))}, false, 200)
	next := encodeEntries([]Entry{msg("next")}, true, 200)[0]
	if len(parts) < 3 {
		t.Fatalf("%d parts", len(parts))
	}
	for name, row := range map[string]struct {
		appends [][]byte
		want    []string // the first byte of each entry, by the append that it ended with
	}{
		"all of it":            {[][]byte{parts[0], parts[1], parts[2], next}, []string{"3 0", "4 n"}},
		"the first is gone":    {[][]byte{nil, parts[1], parts[2], next}, []string{"4 n"}},
		"it begins within":     {[][]byte{parts[1], parts[2], next}, []string{"3 n"}},
		"it begins at its end": {[][]byte{parts[2], next}, []string{"2 n"}},
		"one within is gone":   {[][]byte{parts[0], nil, parts[2], next}, []string{"4 n"}},
	} {
		var r Reader
		var got []string
		for i, data := range row.appends {
			a, ok, err := r.Add(uint64(i+1), data)
			if err != nil {
				t.Errorf("%s: append %d: %v", name, i+1, err)
			}
			if ok {
				got = append(got, fmt.Sprintf("%d %c", a.Num, a.Entries[0].Data[0]))
			}
		}
		if diff := cmp.Diff(row.want, got); diff != "" || r.Open() {
			t.Errorf("%s (-want +got):\n%s open: %t", name, diff, r.Open())
		}
	}
}

func TestFencedWriterWritesAndDeliversNothing(t *testing.T) {
	w := newWorld(t, Limits{})
	w.step(Event{Op: Opened, Rev: 1})
	w.step(Event{Op: Push, Entries: []Entry{msg("a")}})
	w.step(Event{Op: Push, Entries: []Entry{msg("b")}})
	w.inFlight = nil
	fenced := errors.New("fenced")
	w.step(Event{Op: Fenced, Err: fenced})
	w.step(Event{Op: Stored})
	w.step(Event{Op: Push, Entries: []Entry{msg("c")}})
	if w.inFlight != nil || len(w.delivered) != 0 || w.lost != fenced || w.dropped != 3 {
		t.Errorf("in flight %v, delivered %v, lost %v, dropped %d", w.inFlight, w.delivered, w.lost, w.dropped)
	}
}

func TestRetryRepeatsTheSameAppend(t *testing.T) {
	w := newWorld(t, Limits{})
	w.step(Event{Op: Opened, Rev: 1})
	w.step(Event{Op: Push, Entries: []Entry{msg("a")}})
	first := *w.inFlight
	w.inFlight = nil
	w.step(Event{Op: Again})
	if w.inFlight != nil {
		t.Fatal("the append was repeated at once")
	}
	w.do(w.m.Resend(nil))
	if diff := cmp.Diff(first, *w.inFlight, cmpopts.IgnoreFields(Entry{}, "Acked"), cmpopts.EquateErrors()); diff != "" {
		t.Errorf("the repeated append differs:\n%s", diff)
	}
	w.ack()
	if diff := cmp.Diff([]string{"1.0 a"}, w.delivered); diff != "" {
		t.Error(diff)
	}
}

func TestBytesCapBlanksTheOldest(t *testing.T) {
	w := newWorld(t, Limits{Bytes: 1000})
	w.step(Event{Op: Opened, Rev: 1})
	for i := range 50 {
		w.step(Event{Op: Push, Entries: []Entry{msg(fmt.Sprintf("%0100d", i))}})
		for w.ack() {
		}
	}
	total, blanks := 0, 0
	for n := uint64(1); n <= 50; n++ {
		total += len(w.log[n])
		if len(w.log[n]) == 0 {
			blanks++
		} else if blanks != int(n-1) && n-1 < uint64(blanks) {
			t.Errorf("append %d kept although a later one is blank", n)
		}
	}
	if total > 1000 || blanks < 40 {
		t.Errorf("kept %d bytes, %d blanks", total, blanks)
	}
}

// TestAppendsCapBlanksTheOldest keeps fewer appends than the log has room for.
func TestAppendsCapBlanksTheOldest(t *testing.T) {
	for _, tt := range []struct{ limit, pushed, kept, blanks int }{
		{5, 50, 5, 45}, {1, 3, 1, 2}, {0, 1500, 1500, 0}, {5000, 1500, 1500, 0},
	} {
		w := newWorld(t, Limits{Appends: tt.limit})
		w.step(Event{Op: Opened, Rev: 1})
		for range tt.pushed {
			w.step(Event{Op: Push, Entries: []Entry{msg("x")}})
			for w.ack() {
			}
		}
		blanks := 0
		for n := uint64(1); n <= uint64(tt.pushed); n++ {
			if len(w.log[n]) == 0 {
				if blanks++; uint64(blanks) != n {
					t.Errorf("limit %d: append %d is blank though an earlier one is not", tt.limit, n)
				}
			}
		}
		if kept := len(w.log) - blanks; blanks != tt.blanks || kept != tt.kept {
			t.Errorf("limit %d: kept %d and blanked %d, want %d and %d", tt.limit, kept, blanks, tt.kept, tt.blanks)
		}
	}
}

func TestRefreshTakesItsTurnAndGuardsWhatFollows(t *testing.T) {
	w := newWorld(t, Limits{})
	w.step(Event{Op: Opened, Rev: 1})
	w.step(Event{Op: Push, Entries: []Entry{msg("a")}})
	w.step(Event{Op: Refresh})
	w.step(Event{Op: Push, Entries: []Entry{msg("b")}})
	w.ack()
	if w.inFlight.Do != DoRefresh || w.inFlight.Num != 1 {
		t.Fatalf("after the append: %+v; want a refresh with tail 1", *w.inFlight)
	}
	w.ack()
	if w.m.Rev() != 101 || w.inFlight == nil || w.inFlight.Num != 2 {
		t.Errorf("after the refresh: rev %d, in flight %+v", w.m.Rev(), w.inFlight)
	}
}

// TestTakeoverCoversAllThatItFinds has a takeover find appends that its record does not cover: the parts of an append that was not finished. They may
// be about to expire, and then the next takeover would not know what is missing.
func TestTakeoverCoversAllThatItFinds(t *testing.T) {
	w := newWorld(t, Limits{})
	w.step(Event{Op: Push, Entries: []Entry{msg("a")}})
	w.step(Event{Op: Opened, Rev: 1, Tail: 20, Covered: 17, Sizes: []int{5, 5, 5}})
	if e := w.inFlight; e == nil || e.Do != DoRefresh || e.Num != 20 {
		t.Fatalf("the first write of a takeover is %+v; want a record that covers 20 appends", e)
	}
	w.ack()
	if e := w.inFlight; e == nil || e.Do != DoAppend || e.Num != 21 {
		t.Errorf("after that: %+v; want append 21", e)
	}
	w = newWorld(t, Limits{})
	if w.step(Event{Op: Opened, Rev: 1, Tail: 20, Covered: 20}); w.inFlight != nil {
		t.Errorf("a takeover whose record covers all writes %+v", *w.inFlight)
	}
}

// TestRandomWalk checks, over seeded orders of events, that each pushed entry is delivered
// once and in order, and that the log reads back the same.
func TestRandomWalk(t *testing.T) {
	when.Unraced(t, "one goroutine does all of it")
	seeds := uint64(200)
	if testing.Short() {
		seeds = 40
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(t, Limits{Part: 300, Batch: 5})
		var want []string
		n, opened := 0, false
		for step := 0; step < 300; step++ {
			switch k := r.IntN(6); {
			case k == 0 && !opened:
				opened = true
				w.step(Event{Op: Opened, Rev: 1})
			case k <= 2:
				s := fmt.Sprintf("%d-%0*d", n, r.IntN(900)+1, n)
				n++
				want = append(want, s)
				w.step(Event{Op: Push, Entries: []Entry{msg(s)}})
			case k == 3:
				w.step(Event{Op: Refresh})
			case k == 4 && w.inFlight != nil && w.inFlight.Do == DoAppend:
				w.inFlight = nil
				w.step(Event{Op: Again})
				w.do(w.m.Resend(nil))
			default:
				w.ack()
			}
		}
		if !opened {
			w.step(Event{Op: Opened, Rev: 1})
		}
		w.step(Event{Op: Push, Last: true})
		for w.ack() {
		}
		var got []string
		for _, d := range w.delivered {
			var id, s string
			fmt.Sscan(d, &id, &s)
			got = append(got, s)
		}
		if diff := cmp.Diff(want, got); diff != "" || !w.ended {
			t.Fatalf("seed %d: delivered (-want +got):\n%s ended=%v", seed, diff, w.ended)
		}
		var rd Reader
		var read []string
		for i := uint64(1); w.log[i] != nil; i++ {
			a, ok, err := rd.Add(i, w.log[i])
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			for k, e := range a.Entries {
				read = append(read, fmt.Sprintf("%d.%d %s", a.Num, k, e.Data))
			}
			if ok && a.Last != (i == w.m.Tail()) {
				t.Fatalf("seed %d: append %d last=%v of %d", seed, i, a.Last, w.m.Tail())
			}
		}
		if diff := cmp.Diff(w.delivered, read); diff != "" {
			t.Fatalf("seed %d: read back (-delivered +read):\n%s", seed, diff)
		}
	}
}

func TestParsePosition(t *testing.T) {
	const id = "abcdefghijklmnopqrstuvwx27"
	for _, s := range []string{id + ".0.0", id + ".1.0", id + ".18446744073.12", id + ".3.4098", id + ".3.4611686018427387903"} {
		p, ok := ParsePosition(s)
		if !ok || p.String() != s {
			t.Errorf("%q: got %v, %v", s, p, ok)
		}
	}
	for _, s := range []string{"", ".", "..", id, id + ".1", id + ".1.", id + ".01.0", id + ".1.00", id + ".0.1", id + ".-1.0", id + ".+1.0",
		id + ".1.0.0", "A" + id[1:] + ".1.0", id[1:] + ".1.0", id + ".99999999999999999999.0", id + ".1.4611686018427387904", " " + id + ".1.0", id + ".1.0\n"} {
		if p, ok := ParsePosition(s); ok {
			t.Errorf("%q: accepted as %v", s, p)
		}
	}
}

func FuzzReader(f *testing.F) {
	for _, p := range encodeEntries([]Entry{msg("abc"), {Kind: Answer, Meta: []byte("x"), Data: []byte("{}")}}, true, 1<<10) {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var r Reader
		a, ok, err := r.Add(1, data)
		if err != nil || !ok {
			return
		}
		again := encodeEntries(a.Entries, a.Last, 1<<30)
		setEpoch(again[0], a.Epoch)
		var r2 Reader
		b, ok, err := r2.Add(1, again[0])
		if err != nil || !ok || cmp.Diff(a, b, cmpopts.IgnoreFields(Entry{}, "Acked"), cmpopts.EquateEmpty()) != "" {
			t.Errorf("%x does not survive a round trip: %v %v", data, ok, err)
		}
	})
}

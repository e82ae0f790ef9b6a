package stream

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// guarded returns a stream with one append in flight whose guard is refused.
func guarded(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, Limits{})
	w.step(Event{Op: Opened, Rev: 1, Epoch: 1})
	w.step(Event{Op: Push, Entries: []Entry{msg("a")}})
	w.inFlight = nil
	w.step(Event{Op: Guarded})
	if w.inFlight == nil || w.inFlight.Do != DoLook {
		t.Fatalf("after the refusal: %+v, want a look at the record", w.inFlight)
	}
	w.inFlight = nil
	return w
}

// TestRefusedGuardIsLookedInto walks the possible states of the record.
func TestRefusedGuardIsLookedInto(t *testing.T) {
	t.Run("it is another writer's", func(t *testing.T) {
		w, taken := guarded(t), errors.New("taken")
		w.step(Event{Op: Fenced, Err: taken})
		if w.lost != taken || w.inFlight != nil || w.dropped != 1 {
			t.Errorf("lost %v, in flight %+v, dropped %d", w.lost, w.inFlight, w.dropped)
		}
	})
	t.Run("it is ours", func(t *testing.T) {
		w := guarded(t)
		w.step(Event{Op: Ours, Rev: 9})
		if w.m.Rev() != 9 || w.inFlight == nil || w.inFlight.Do != DoAppend || EpochOf(w.inFlight.Data) != 1 {
			t.Fatalf("rev %d, in flight %+v", w.m.Rev(), w.inFlight)
		}
		w.ack()
		if diff := cmp.Diff([]string{"1.0 a"}, w.delivered); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("it cannot be read", func(t *testing.T) {
		w := guarded(t)
		for range 1000 { // the number of attempts has no bound
			w.step(Event{Op: Again})
			w.do(w.m.Resend(nil))
			if w.inFlight == nil || w.inFlight.Do != DoLook || w.lost != nil {
				t.Fatalf("in flight %+v, lost %v", w.inFlight, w.lost)
			}
			w.inFlight = nil
		}
	})
	t.Run("it is gone", func(t *testing.T) {
		w := guarded(t)
		w.step(Event{Op: Absent, Epoch: 5})
		if w.inFlight == nil || w.inFlight.Do != DoCreate || w.inFlight.Num != 0 {
			t.Fatalf("in flight %+v", w.inFlight)
		}
		w.inFlight = nil
		w.step(Event{Op: Again})
		w.do(w.m.Resend(nil))
		w.inFlight = nil
		w.step(Event{Op: Created, Rev: 30})
		if w.m.Rev() != 30 || w.inFlight.Do != DoAppend || EpochOf(w.inFlight.Data) != 5 {
			t.Fatalf("rev %d, in flight %+v", w.m.Rev(), w.inFlight)
		}
	})
	t.Run("it is gone when it is due", func(t *testing.T) {
		w := newWorld(t, Limits{})
		w.step(Event{Op: Opened, Rev: 1, Epoch: 1})
		w.step(Event{Op: Refresh})
		w.step(Event{Op: Push, Entries: []Entry{msg("a")}})
		for _, e := range []Event{{Op: Guarded}, {Op: Absent, Epoch: 2}, {Op: Guarded}, {Op: Ours, Rev: 7}} {
			w.inFlight = nil
			w.step(e)
		}
		if w.inFlight.Do != DoRefresh {
			t.Fatalf("in flight %+v: what is stored under our name may be older than what we know", w.inFlight)
		}
		w.inFlight = nil
		w.step(Event{Op: Refreshed, Rev: 8})
		if w.inFlight.Do != DoAppend || w.m.Rev() != 8 {
			t.Errorf("rev %d, in flight %+v", w.m.Rev(), w.inFlight)
		}
	})
}

// TestEndInPlaceOfWhatWaits stores a stream again whose calls may have ended elsewhere: nothing of what waits is stored any more, whatever the write in
// flight was, and the entries that end the stream are.
func TestEndInPlaceOfWhatWaits(t *testing.T) {
	taken := errors.New("taken")
	rest := strings.Repeat("e", 75) // has no room in the same append
	end := []Entry{msg("end"), msg(rest)}
	for name, first := range map[string][]Event{
		"found by the append":               {{Op: Guarded}},
		"found by a rewriting before it":    {{Op: Outlived}, {Op: Guarded}},
		"and found once more":               {{Op: Guarded}, {Op: Absent, Epoch: 6, Entries: end, Last: true, Err: taken}, {Op: Guarded}},
		"the response is what is in flight": nil,
	} {
		t.Run(name, func(t *testing.T) {
			w, told := newWorld(t, Limits{Part: 100}), fates{}
			w.step(Event{Op: Opened, Rev: 1, Epoch: 1})
			w.step(Event{Op: Push, Entries: []Entry{msg("a")}})
			w.ack()
			large := strings.Repeat("b", 250)
			w.step(Event{Op: Push, Entries: []Entry{told.entry(Message, large)}, Last: first == nil})
			w.ack() // the first of its parts
			if first == nil {
				first = []Event{{Op: Guarded}}
			} else {
				w.step(Event{Op: Push, Entries: []Entry{told.entry(Final, "response")}, Last: true})
			}
			for _, e := range append(first, Event{Op: Absent, Epoch: 7, Entries: end, Last: true, Err: taken}) {
				w.inFlight = nil
				w.step(e)
			}
			if w.inFlight.Do != DoCreate || w.inFlight.Num != 1 {
				t.Fatalf("in flight %+v", w.inFlight)
			}
			w.inFlight = nil
			w.step(Event{Op: Push, Entries: []Entry{told.entry(Final, "late")}, Last: true})
			w.step(Event{Op: Created, Rev: 2})
			for w.ack() {
			}
			if diff := cmp.Diff([]string{"1.0 a", "2.0 end", "3.0 " + rest}, w.delivered); diff != "" || !w.ended || !IsLast(w.log[3]) || EpochOf(w.log[3]) != 7 {
				t.Errorf("delivered (-want +got):\n%s, ended %t", diff, w.ended)
			}
			want := fates{large: {taken}, "late": {ErrEnded}}
			if _, ok := told["response"]; ok {
				want["response"] = []error{taken}
			}
			told.check(t, want)
			if name != "the response is what is in flight" && told["response"] == nil {
				t.Error("the response was not dropped")
			}
		})
	}
}

// TestPartsBeforeARecordThatIsStoredAgain checks that all parts of an append are stored once more when
// the record is gone, because they will expire before the new record does.
func TestPartsBeforeARecordThatIsStoredAgain(t *testing.T) {
	for name, first := range map[string][]Event{
		"found by the append":            {{Op: Guarded}},
		"found by a rewriting before it": {{Op: Outlived}, {Op: Guarded}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Limits{Part: 100})
			w.step(Event{Op: Opened, Rev: 1, Epoch: 1})
			w.step(Event{Op: Push, Entries: []Entry{msg("a")}})
			w.ack()
			w.step(Event{Op: Push, Entries: []Entry{msg(strings.Repeat("b", 250))}})
			w.ack()
			w.ack()
			if w.m.Tail() != 3 {
				t.Fatalf("tail %d, want two parts behind it", w.m.Tail())
			}
			for _, e := range append(first, Event{Op: Absent, Epoch: 7}) {
				w.inFlight = nil
				w.step(e)
			}
			if w.inFlight.Do != DoCreate || w.inFlight.Num != 1 {
				t.Fatalf("in flight %+v", w.inFlight)
			}
			w.inFlight = nil
			w.step(Event{Op: Created, Rev: 2})
			for num := uint64(2); w.inFlight != nil; num++ {
				if e := w.inFlight; e.Do != DoAppend || e.Num != num || EpochOf(e.Data) != 7 {
					t.Fatalf("in flight %+v, want append %d", e, num)
				}
				w.ack()
			}
			low, bytes := w.m.Kept()
			total := 0
			for num := low; num <= w.m.Tail(); num++ {
				total += len(w.log[num])
			}
			if low != 1 || bytes != total || len(w.delivered) != 2 {
				t.Errorf("kept from %d, %d bytes, want 1, %d; delivered %d", low, bytes, total, len(w.delivered))
			}
		})
	}
}

// TestLateAcknowledgementIsNoOther checks that the outcome of a write that was given up to look at the
// record is not mistaken for that of the next write.
func TestLateAcknowledgementIsNoOther(t *testing.T) {
	w := guarded(t)
	w.step(Event{Op: Stored})
	if len(w.delivered) != 0 || w.m.Tail() != 0 {
		t.Errorf("delivered %v, tail %d", w.delivered, w.m.Tail())
	}
}

// ring is a log that forgets as the store does, with the extent of its record.
type ring struct {
	*world
	told   uint64 // the record covers all appends up to here
	absent bool
}

func (r *ring) ack(seed *rand.Rand) {
	e := r.inFlight
	if e == nil {
		return
	}
	r.inFlight = nil
	switch {
	case e.Do == DoLook:
		if r.absent {
			r.step(Event{Op: Absent, Epoch: r.m.Epoch() + 1 + seed.Uint64N(9)})
		} else {
			r.step(Event{Op: Ours, Rev: r.m.Rev() + 1})
		}
	case e.Do == DoCreate:
		r.absent, r.told = false, e.Num
		r.step(Event{Op: Created, Rev: r.m.Rev() + 1})
	case r.absent || seed.IntN(20) == 0:
		r.step(Event{Op: Guarded})
	case e.Do == DoRefresh:
		r.told = e.Num
		r.step(Event{Op: Refreshed, Rev: r.m.Rev() + 1})
	default:
		if len(e.Data) > 0 {
			delete(r.log, e.Num-Ring)
		}
		r.log[e.Num] = e.Data
		r.step(Event{Op: Stored})
	}
}

// TestRecordTellsWhatTheLogForgets checks that whenever a writer may be lost, each append that the
// record does not cover is in the log, from its first part on.
func TestRecordTellsWhatTheLogForgets(t *testing.T) {
	for s := range uint64(20) {
		seed := rand.New(rand.NewPCG(s, 2))
		r := &ring{world: newWorld(t, Limits{Part: 200, Batch: 5, Bytes: 20000 + seed.IntN(200000), Appends: 1 + seed.IntN(1500)})}
		r.step(Event{Op: Opened, Rev: 1, Epoch: 1})
		for n := range 1300 {
			switch k := seed.IntN(40); {
			case k == 0:
				r.absent = true
			case k == 1:
				r.step(Event{Op: Refresh})
			case k < 30:
				r.step(Event{Op: Push, Entries: []Entry{msg(fmt.Sprintf("%0*d", 1+seed.IntN(700), n))}})
			}
			for range 1 + seed.IntN(4) {
				r.ack(seed)
			}
			// The log forgets from its beginning on, so the first needed append stands for all.
			if num := r.told + 1; num <= r.m.Tail() && len(r.log[num]) == 0 {
				t.Fatalf("seed %d, step %d: the record tells of what came up to append %d, the log has not got %d of %d", s, n, r.told, num, r.m.Tail())
			}
			if next := r.log[r.told+1]; len(next) > 0 && next[1]&flagCont != 0 {
				t.Fatalf("seed %d, step %d: append %d, the first that the record does not tell of, is the rest of another", s, n, r.told+1)
			}
		}
	}
}

// TestTakeoverOfMoreThanTheRing checks that a writer that begins with more sizes than the log holds
// does not empty the places that other appends have by now.
func TestTakeoverOfMoreThanTheRing(t *testing.T) {
	w := newWorld(t, Limits{})
	w.step(Event{Op: Opened, Rev: 1, Epoch: 1, Tail: Ring + 500, Covered: Ring + 500, Sizes: make([]int, Ring+500)})
	if low, _ := w.m.Kept(); w.inFlight != nil || low != 501 {
		t.Errorf("in flight %+v, the log begins with %d, want none and 501", w.inFlight, low)
	}
}

// TestRecordTellsEachHundredAppends bounds what a takeover has to read.
func TestRecordTellsEachHundredAppends(t *testing.T) {
	r := &ring{world: newWorld(t, Limits{})}
	r.step(Event{Op: Opened, Rev: 1, Epoch: 1})
	for range 1000 {
		r.step(Event{Op: Push, Entries: []Entry{msg("x")}})
		for r.inFlight != nil {
			r.ackAll()
		}
		if n := r.m.Tail() - r.told; n > told {
			t.Fatalf("the record does not tell of %d appends", n)
		}
	}
}

// ackAll stores everything in flight, and refuses nothing.
func (r *ring) ackAll() {
	if e := *r.inFlight; e.Do == DoRefresh {
		r.told = e.Num
	}
	r.world.ack()
}

// TestRecordThatOutlivesIsRewrittenFirst checks that an append in flight, stored or not, waits until
// the record has been rewritten, and is stored after it.
func TestRecordThatOutlivesIsRewrittenFirst(t *testing.T) {
	w := newWorld(t, Limits{Part: 100})
	w.step(Event{Op: Opened, Rev: 1, Epoch: 1})
	w.step(Event{Op: Push, Entries: []Entry{msg("a")}})
	w.inFlight = nil
	w.step(Event{Op: Outlived})
	if w.inFlight == nil || w.inFlight.Do != DoRefresh || w.inFlight.Num != 0 {
		t.Fatalf("in flight %+v", w.inFlight)
	}
	w.inFlight = nil
	w.step(Event{Op: Stored}) // a late outcome of the append, which is not in flight now
	w.step(Event{Op: Outlived})
	w.step(Event{Op: Refreshed, Rev: 2})
	if w.inFlight == nil || w.inFlight.Do != DoAppend || w.inFlight.Num != 1 || w.m.Rev() != 2 {
		t.Fatalf("rev %d, in flight %+v", w.m.Rev(), w.inFlight)
	}
	w.ack()
	// An append that makes the log forget something does so, too.
	w.m.lim.Appends = 1
	w.step(Event{Op: Push, Entries: []Entry{msg("c")}})
	w.ack() // of the append, and then of the record that covers it
	w.ack()
	blank := *w.inFlight
	w.inFlight = nil
	w.step(Event{Op: Outlived})
	w.ack()
	if blank.Data != nil || w.inFlight.Do != DoAppend || w.inFlight.Data != nil || w.inFlight.Num != blank.Num {
		t.Fatalf("in flight %+v, want %+v", w.inFlight, blank)
	}
	w.ack()
	w.m.lim.Appends = Ring
	// An append in parts is stored from its first part on.
	w.step(Event{Op: Push, Entries: []Entry{msg(strings.Repeat("b", 150))}, Last: true})
	w.ack()
	w.inFlight = nil
	w.step(Event{Op: Outlived})
	if w.inFlight.Do != DoRefresh || w.inFlight.Num != 2 || w.m.Tail() != 2 {
		t.Fatalf("in flight %+v", w.inFlight)
	}
	w.ack()
	if w.inFlight.Do != DoAppend || w.inFlight.Num != 3 {
		t.Fatalf("in flight %+v, want append 3", w.inFlight)
	}
	w.ack()
	w.ack()
	if diff := cmp.Diff([]string{"1.0 a", "2.0 c", fmt.Sprintf("4.0 %s", strings.Repeat("b", 150))}, w.delivered); diff != "" || w.m.Phase() != Ended {
		t.Errorf("phase %d (-want +got):\n%s", w.m.Phase(), diff)
	}
}

// TestAppendInAsManyPartsAsTheLog checks that an append waits for the record when its parts would
// replace an append that the record does not cover. A fence then ends the wait.
func TestAppendInAsManyPartsAsTheLog(t *testing.T) {
	big := func(parts int) string { return strings.Repeat("x", 100*parts-50) } // parts of 100 bytes each, including their heads
	for name, tt := range map[string]struct {
		parts int
		want  Do
	}{
		"as many as are free": {Ring - 1, DoAppend},
		"one more":            {Ring, DoRefresh},
	} {
		w, told := newWorld(t, Limits{Part: head + 100}), fates{}
		w.step(Event{Op: Opened, Rev: 1, Epoch: 1})
		w.step(Event{Op: Push, Entries: []Entry{told.entry(Message, "first")}})
		w.ack() // so that the record lacks one append
		w.step(Event{Op: Push, Entries: []Entry{told.entry(Message, big(tt.parts))}})
		if w.inFlight == nil || w.inFlight.Do != tt.want {
			t.Fatalf("%s: in flight %+v, want effect %d", name, w.inFlight, tt.want)
		}
		w.step(Event{Op: Push, Entries: []Entry{told.entry(Message, "queued")}})
		w.inFlight = nil
		fenced := errors.New("fenced")
		w.step(Event{Op: Fenced, Err: fenced})
		told.check(t, fates{"first": {nil}, big(tt.parts): {fenced}, "queued": {fenced}})
	}
}

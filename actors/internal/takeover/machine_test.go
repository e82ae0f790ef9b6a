package takeover

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/troupe-run/troupe/actors/internal/record"
)

// TestEpochsOnlyGrow checks that each writer's epoch is greater than that of the one before, and within what an event id can carry.
func TestEpochsOnlyGrow(t *testing.T) {
	for _, random := range []uint64{0, 1, epochStep - 1, epochStep, 1<<64 - 1} {
		if next := NextEpoch(7, random); next <= 7 || next > 7+epochStep {
			t.Errorf("after 7 comes %d", next)
		}
	}
	if NextEpoch(7, 3) == NextEpoch(7, 4) {
		t.Error("two writers that begin from one record have the same epoch")
	}
}

var (
	me   = Writer{Node: "n", Boot: "b"}
	dead = record.Stream{Version: record.Version, Node: "m", Boot: "a", Epoch: 3, Safe: true, Calls: []record.Call{{ID: json.RawMessage("1")}}}
)

// upTo brings a takeover of dead to where it is about to do something.
func upTo(t *testing.T, m *Machine, do Do) {
	t.Helper()
	for range 20 {
		if m.Next() == do {
			return
		}
		switch m.Next() {
		case ReadRecord:
			m.RecordRead(dead, 7, false, nil)
		case AskGone:
			m.WriterGone(true, nil)
		case ReadLog:
			m.Log.FirstUnread(0)
			m.LogRead(m.Log.EndReading(0))
		case CheckLease:
			m.LeaseChecked(true)
		case MarkTaken:
			m.WriterMarked(nil)
		case ReadBody:
			m.BodyRead([]byte("body"), false, nil)
		case Replace:
			m.RecordReplaced(8, false, nil)
		case KeepBody:
			m.BodyKept()
		default:
			t.Fatalf("it ends with %d, %v", m.Next(), m.Err)
		}
	}
	t.Fatalf("it does not come to %d", do)
}

// TestTakeoverIsNotedFirst checks that a takeover from a boot that is gone is noted before the record changes, and does not go on without that; of
// a stream that is this boot's own, or was given up, nothing is noted.
func TestTakeoverIsNotedFirst(t *testing.T) {
	m := New(me, Writer{}, false, 41)
	upTo(t, m, MarkTaken)
	if m.WriterMarked(errors.New("away")); m.Next() != Failed {
		t.Errorf("next is %d though it is not noted", m.Next())
	}
	for name, m := range map[string]*Machine{"given up": New(me, Writer{"m", "a", 3}, false, 41), "alone": New(me, Writer{}, true, 41), "its own": New(Writer{Node: "m", Boot: "a"}, Writer{}, false, 41)} {
		for range 4 { // the steps up to the lease
			switch m.Next() {
			case ReadRecord:
				m.RecordRead(dead, 7, false, nil)
			case ReadLog:
				m.Log.FirstUnread(0)
				m.LogRead(m.Log.EndReading(0))
			case CheckLease:
				m.LeaseChecked(true)
			}
		}
		if m.Next() != ReadBody {
			t.Errorf("%s: next is %d, want the body", name, m.Next())
		}
	}
}

// TestTakeover checks that a takeover asks for the old writer before it does anything, and has a new epoch after it.
func TestTakeover(t *testing.T) {
	m := New(me, Writer{}, false, 41)
	upTo(t, m, AskGone)
	if m.Writer != (Writer{"m", "a", 3}) {
		t.Errorf("it asks for %+v", m.Writer)
	}
	upTo(t, m, Done)
	if rec := &m.Rec; rec.Boot != "b" || rec.Epoch != NextEpoch(3, 41) || rec.Attempt != 1 || !rec.Safe || m.Rev != 8 || string(m.Body) != "body" {
		t.Errorf("it has %+v, revision %d, body %q", rec, m.Rev, m.Body)
	}
}

// TestWhoIsTakenFrom checks that a stream is taken from a writer that is gone, has given it up or is this boot, and from no other.
func TestWhoIsTakenFrom(t *testing.T) {
	for name, row := range map[string]struct {
		by, given Writer
		alone     bool
		want      Do
	}{
		"another":                         {by: Writer{"m", "a", 3}, want: AskGone},
		"another that gave up its former": {by: Writer{"m", "a", 3}, given: Writer{"m", "a", 2}, want: AskGone},
		"another that gave it up":         {by: Writer{"m", "a", 3}, given: Writer{"m", "a", 3}, want: ReadLog},
		"another, alone":                  {by: Writer{"m", "a", 3}, alone: true, want: ReadLog},
		"an earlier boot":                 {by: Writer{"n", "a", 3}, want: AskGone},
		"this boot":                       {by: Writer{"n", "b", 3}, want: ReadLog},
	} {
		rec := dead
		rec.Node, rec.Boot, rec.Epoch = row.by.Node, row.by.Boot, row.by.Epoch
		m := New(me, row.given, row.alone, 0)
		m.RecordRead(rec, 7, false, nil)
		if m.Next() != row.want {
			t.Errorf("%s: next is %d, want %d", name, m.Next(), row.want)
		}
	}
	m := New(me, Writer{}, false, 0)
	upTo(t, m, AskGone)
	if m.WriterGone(false, nil); m.Next() != Elsewhere {
		t.Errorf("the writer is there: next is %d", m.Next())
	}
}

// TestWithoutTheLease checks that a node that is not certain of its own lease takes nothing over.
func TestWithoutTheLease(t *testing.T) {
	m := New(me, Writer{}, false, 0)
	upTo(t, m, CheckLease)
	if m.LeaseChecked(false); m.Next() != Failed || !errors.Is(m.Err, ErrUncertain) {
		t.Errorf("next is %d, %v", m.Next(), m.Err)
	}
}

// TestRewriteThatFindsAnother checks a takeover whose first attempt has an unknown outcome:
// it is done if the record has its boot and epoch, and only then.
func TestRewriteThatFindsAnother(t *testing.T) {
	next := NextEpoch(3, 41)
	for name, row := range map[string]struct {
		there record.Stream
		gone  bool
		want  Do
	}{
		"its own":                        {record.Stream{Boot: "b", Epoch: next}, false, KeepBody},
		"another boot's, later":          {record.Stream{Boot: "c", Epoch: next + 1}, false, Failed},
		"another boot's, of that epoch":  {record.Stream{Boot: "c", Epoch: next}, false, Failed},
		"of this boot, another takeover": {record.Stream{Boot: "b", Epoch: next + 1}, false, Failed},
		"none":                           {record.Stream{}, true, Failed},
	} {
		m := New(me, Writer{}, false, 41)
		upTo(t, m, Replace)
		m.RecordReplaced(0, true, errors.New("conflict"))
		if m.Next() != Reread {
			t.Fatalf("%s: next is %d", name, m.Next())
		}
		var err error
		if row.gone {
			err = errors.New("none")
		}
		m.RecordRead(row.there, 9, row.gone, err)
		if m.Next() != row.want || row.want == KeepBody && m.Rev != 9 || row.want == Failed && !errors.Is(m.Err, ErrTaken) {
			t.Errorf("%s: next is %d, %v, revision %d", name, m.Next(), m.Err, m.Rev)
		}
	}
}

// TestBodies checks that calls without a body do not run again, and that a body that cannot be read now ends the takeover before
// anything is written.
func TestBodies(t *testing.T) {
	m := New(me, Writer{}, false, 0)
	upTo(t, m, ReadBody)
	if m.BodyRead(nil, true, errors.New("away")); m.Next() != Failed {
		t.Errorf("it cannot be read: next is %d", m.Next())
	}
	m = New(me, Writer{}, false, 0)
	upTo(t, m, ReadBody)
	if m.BodyRead(nil, false, errors.New("gone")); m.Next() != Replace || m.Rec.Safe {
		t.Errorf("it is gone: next is %d, safe %v", m.Next(), m.Rec.Safe)
	}
}

// TestFates checks what becomes of the calls of a batch.
func TestFates(t *testing.T) {
	rec := record.Stream{Version: record.Version, Safe: true, Calls: []record.Call{{ID: []byte("1")}, {ID: []byte("2"), Never: true}, {ID: []byte("3")}, {ID: []byte("4")}}}
	log := NewLog(&rec)
	log.Digest.Done = []int{2}
	fates, all := Fates(&rec, log, 3)
	for i, want := range []Fate{Again, Over, Answered, Over} {
		if fates[i] != want {
			t.Errorf("call %d has %d, want %d", i, fates[i], want)
		}
	}
	if log.Unknown = true; all {
		t.Error("all calls are given up")
	}
	if fates, all = Fates(&rec, log, 4); !all || fates[0] != Over || fates[2] != Answered {
		t.Errorf("with an unknown past: %v, %v", fates, all)
	}
}

// TestLifetimes checks that a record outlives what is stored after the clock has gone back by more than events outlive records,
// and that of several attempts the longest lifetime counts.
func TestLifetimes(t *testing.T) {
	l := NewLifetime(0)
	if l.Outlives(-time.Second) || !l.Outlives(-time.Second-1) {
		t.Error("the bound is not a second")
	}
	l.Writing(time.Minute)
	l.Writing(0)
	l.Wrote(0)
	if !l.Outlives(0) || l.Outlives(time.Minute) {
		t.Error("an attempt with a longer lifetime may have been the one")
	}
}

// TestWhose checks what a writer may do whose guard was refused.
func TestWhose(t *testing.T) {
	own := record.Stream{Boot: "b", Epoch: 3}
	for name, row := range map[string]struct {
		rec     *record.Stream
		certain bool
		want    Claim
	}{
		"its own":                        {&own, true, Own},
		"its own, and the lease is over": {&own, false, Own},
		"another's":                      {&record.Stream{Boot: "c", Epoch: 3}, true, Taken},
		"of this boot, another takeover": {&record.Stream{Boot: "b", Epoch: 4}, true, Taken},
		"expired":                        {nil, true, Lost},
		"expired, and the lease is over": {nil, false, Doubt},
	} {
		if got := ClaimOf(row.rec, "b", 3, row.certain); got != row.want {
			t.Errorf("%s: got %d, want %d", name, got, row.want)
		}
	}
}

package mrtr

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"
)

// TestOutcomesAreFreed: whatever way an outcome goes, it is freed once.
func TestOutcomesAreFreed(t *testing.T) {
	t.Parallel()
	o, freed := Outcomes{}, make(map[string]int)
	start := time.Now()
	put := func(park, name string, size int, until time.Duration) {
		o.Put(park, Outcome{Rest: make([]byte, size), Until: start.Add(until), Free: func() { freed[name]++ }})
	}
	put("a", "replaced", 10, time.Hour)
	put("a", "crowded out", 10, time.Hour)
	put("b", "expired", maxOutcomeBytes-5, time.Minute)
	put("c", "kept", 5, time.Hour)
	o.Expire(start.Add(2 * time.Minute))
	if want := map[string]int{"replaced": 1, "crowded out": 1, "expired": 1}; !maps.Equal(freed, want) {
		t.Errorf("freed %v, want %v", freed, want)
	}
}

// TestOutcomesAreBounded checks that the newest outcomes are kept, up to the bound,
// however many there are.
func TestOutcomesAreBounded(t *testing.T) {
	for name, tt := range map[string]struct{ puts, size, kept int }{
		"by number": {puts: maxOutcomes + 100, size: 10, kept: maxOutcomes},
		"by bytes":  {puts: 40, size: 1 << 20, kept: maxOutcomeBytes >> 20},
	} {
		t.Run(name, func(t *testing.T) {
			o := Outcomes{}
			for i := range tt.puts {
				o.Put(fmt.Sprint(i), Outcome{Rest: make([]byte, tt.size), Until: time.Now().Add(time.Hour)})
			}
			for i := range tt.puts {
				if _, ok := o.Get(fmt.Sprint(i)); ok != (i >= tt.puts-tt.kept) {
					t.Fatalf("of %d, the one that came as number %d is kept: %v", tt.puts, i, ok)
				}
			}
			if len(o.all) != tt.kept || len(o.order) != tt.kept || o.bytes != tt.kept*tt.size {
				t.Errorf("%d kept, %d in order, %d bytes", len(o.all), len(o.order), o.bytes)
			}
		})
	}
}

// TestOutcomesExpire checks that an outcome is kept until its time, and that an outcome
// that is put again has the new time.
func TestOutcomesExpire(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	o := Outcomes{}
	for i := range 3 {
		o.Put(fmt.Sprint(i), Outcome{Rest: []byte("x"), Until: now.Add(time.Duration(i) * time.Minute)})
	}
	o.Put("0", Outcome{Round: 2, Rest: []byte("xy"), Until: now.Add(3 * time.Minute)})
	for minutes, want := range map[int]int{0: 3, 1: 3, 2: 2, 3: 1, 4: 0} {
		kept := Outcomes{all: maps.Clone(o.all), order: slices.Clone(o.order), bytes: o.bytes}
		kept.Expire(now.Add(time.Duration(minutes) * time.Minute))
		if len(kept.order) != want || len(kept.all) != want {
			t.Errorf("after %d minutes %d are kept, want %d", minutes, len(kept.all), want)
		}
		if x, ok := kept.Get("0"); ok && (x.Round != 2 || kept.bytes < 2) {
			t.Errorf("after %d minutes the first has round %d, %d bytes", minutes, x.Round, kept.bytes)
		}
	}
	if o.bytes != 4 {
		t.Errorf("%d bytes, want 4", o.bytes)
	}
}

// TestEndedOutcomesStay: what was ended while it waited is not begun anew because others have ended since.
func TestEndedOutcomesStay(t *testing.T) {
	t.Parallel()
	var o Outcomes
	now := time.Now()
	o.PutEnded("ended", Outcome{Rest: []byte("x"), Until: now.Add(time.Hour)})
	for i := range maxOutcomes + 1 {
		o.Put(strconv.Itoa(i), Outcome{Until: now.Add(time.Minute)})
	}
	if x, ok := o.Get("ended"); !ok || !x.Ended || string(x.Rest) != "x" {
		t.Errorf("got %+v, %t", x, ok)
	}
	o.Expire(now.Add(2 * time.Minute))
	if _, ok := o.Get("ended"); !ok {
		t.Error("it is gone before its time")
	}
	o.Expire(now.Add(2 * time.Hour))
	if _, ok := o.Get("ended"); ok {
		t.Error("it stays for ever")
	}
	for i := range maxOutcomes + 1 {
		o.PutEnded(strconv.Itoa(i), Outcome{})
	}
	if _, ok := o.Get("0"); ok || len(o.ended) != maxOutcomes {
		t.Errorf("%d are kept", len(o.ended))
	}
}

package quota

import (
	"fmt"
	"math"
	"strconv"
	"sync"
	"testing"
)

const mib = 1 << 20

func TestFairBytes(t *testing.T) {
	t.Parallel()
	const limit = 128 * mib // of which 112 are for everybody
	for _, tt := range []struct {
		name              string
		load, mine, limit int64
		want              Refusal
	}{
		{"alone, two thirds", 74 * mib, 74 * mib, limit, Admitted},
		{"alone, more than that", 75 * mib, 75 * mib, limit, OverShare},
		{"two fifths beside one that has as much", 88 * mib, 44 * mib, limit, Admitted},
		{"more than that", 90 * mib, 45 * mib, limit, OverShare},
		{"little, in the last eighth", 120 * mib, mib / 4, limit, Admitted},
		{"more than a little there", 120 * mib, mib/4 + 1, limit, OverShare},
		{"less, where less is left", 127 * mib, leastBytes, limit, Admitted},
		{"more than that there", 127 * mib, leastBytes + 1, limit, OverShare},
		{"but no more than the node has", limit + 1, 1, limit, Full},
		{"what everybody may hold of a small limit", 999 << 10, leastBytes, mib, Admitted},
		{"nothing is to be had", 1, 1, 0, Full},
		{"a huge limit", math.MaxInt64 / 2, math.MaxInt64 / 2, math.MaxInt64, Admitted},
	} {
		if got := fairBytes(tt.load, 0, tt.mine, tt.limit); got != tt.want {
			t.Errorf("%s: got reason %d, want %d", tt.name, got, tt.want)
		}
	}
}

// TestHowManyLeaveRoom has greedy clients come one after the other, each with requests of 24 KiB until it is refused, and then a quiet one with
// eight of them.
func TestHowManyLeaveRoom(t *testing.T) {
	t.Parallel()
	a := New(Limits{Places: 10, Each: 10, Accounts: 100, Bytes: 256 * mib})
	for i := range 50 {
		for greedy := a.Of(strconv.Itoa(i), ""); ; {
			if no, _ := a.Charge(greedy, Bodies, RequestBytes); no != Admitted {
				break
			}
		}
	}
	quiet := a.Of("quiet", "")
	for i := range 8 {
		if no, _ := a.Charge(quiet, Bodies, RequestBytes); no != Admitted {
			t.Fatalf("request %d of a quiet client is refused, reason %d: %d bytes are held", i+1, no, a.Bytes())
		}
	}
}

// TestWaitingBytesAreTheirOwners has clients with more waiting for the store than the node may hold: they get nothing new, and
// an account that holds little is admitted, as long as the others hold no more than the limit beside that.
func TestWaitingBytesAreTheirOwners(t *testing.T) {
	t.Parallel()
	a := New(Limits{Places: 10, Each: 10, Accounts: 10, Bytes: 128 * mib})
	greedy, quiet := a.Of("greedy", ""), a.Of("quiet", "")
	var waits Holding
	if no, ok := a.Charge(greedy, Bodies, 60*mib); no != Admitted || !ok || !waits.ChargeAnyway(a, greedy, Waiting, 200*mib) {
		t.Fatalf("not counted: reason %d", no)
	}
	if no, _ := a.Charge(greedy, Bodies, 1); no != Full || !a.IsOutOfRoom(greedy) {
		t.Errorf("who holds more than there is gets more: reason %d", no)
	}
	if no, _ := a.Charge(quiet, Bodies, 2*mib); no != Admitted {
		t.Errorf("who holds little gets nothing: reason %d", no)
	}
	if no, _ := a.Charge(quiet, Bodies, mib); no != Full {
		t.Errorf("who holds more gets more: reason %d", no)
	}
	if !a.ChargeAnyway(greedy, Bodies, 67*mib) {
		t.Fatal("not counted")
	}
	if no, _ := a.Charge(a.Of("another", ""), Bodies, 1); no != Full {
		t.Errorf("more than the limit is held beside what waits: reason %d", no)
	}
	waits.Free()
	if n := a.BytesOf(Waiting); n != 0 {
		t.Errorf("%d bytes wait", n)
	}
}

// TestBytesAreGivenBack counts in and out by account, by kind and in all; a refusal counts nothing.
func TestBytesAreGivenBack(t *testing.T) {
	t.Parallel()
	a := New(Limits{Places: 10, Each: 10, Accounts: 10, Bytes: 128 * mib})
	greedy, quiet := a.Of("greedy", ""), a.Of("quiet", "")
	held := int64(0)
	for {
		no, ok := a.Charge(greedy, Bodies, mib)
		if !ok || no != Admitted {
			if no != OverShare || !ok {
				t.Fatalf("at %d bytes: reason %d, %v", held, no, ok)
			}
			break
		}
		held += mib
	}
	if held != 74*mib || a.Bytes() != held || greedy.Bytes() != held || a.BytesOf(Bodies) != held || a.MostBytes() != held {
		t.Errorf("alone it holds %d bytes; counted %d in all, %d for it, %d bodies, %d at most", held, a.Bytes(), greedy.Bytes(), a.BytesOf(Bodies), a.MostBytes())
	}
	for range 25 {
		if no, ok := a.Charge(quiet, Sessions, mib); no != Admitted || !ok {
			t.Fatalf("the other gets none of a fifth: reason %d", no)
		}
		if no, _ := a.Charge(greedy, Bodies, mib); no != OverShare {
			t.Fatalf("beyond its share: reason %d", no)
		}
	}
	if !a.ChargeAnyway(quiet, Queues, 29*mib) {
		t.Fatal("what is held anyway is not counted")
	}
	if no, _ := a.Charge(quiet, Queues, 1); no != Full {
		t.Errorf("beyond all: reason %d", no)
	}
	a.Refund(quiet, Queues, 29*mib)
	a.Refund(quiet, Sessions, 25*mib)
	a.Refund(greedy, Bodies, held)
	if a.Bytes() != 0 || greedy.Bytes() != 0 || quiet.Bytes() != 0 {
		t.Errorf("%d bytes are left, %d, %d", a.Bytes(), greedy.Bytes(), quiet.Bytes())
	}
	for k := range Kinds {
		if n := a.BytesOf(k); n != 0 {
			t.Errorf("%d bytes of %v are left", n, k)
		}
	}
	a.sweepAll()
	if !quiet.Dropped() || a.Len() != 0 {
		t.Error("accounts that hold nothing are kept")
	}
	if _, ok := a.Charge(quiet, Bodies, 1); ok || a.ChargeAnyway(quiet, Bodies, 1) || a.Bytes() != 0 || quiet.Bytes() != 0 {
		t.Error("a dropped account holds bytes")
	}
}

// TestBytesKeepTheAccount: an account that holds bytes is not dropped.
func TestBytesKeepTheAccount(t *testing.T) {
	t.Parallel()
	a := New(Limits{Places: 10, Each: 10, Accounts: 10, Bytes: -1})
	x := a.Of("x", "")
	if no, ok := a.Charge(x, Parked, math.MaxInt32); no != Admitted || !ok {
		t.Fatalf("no limit refuses: reason %d", no)
	}
	a.sweepAll()
	if a.Of("x", "") != x || x.Dropped() {
		t.Error("it was dropped")
	}
	a.Refund(x, Parked, math.MaxInt32)
	a.sweepAll()
	if !x.Dropped() {
		t.Error("it was kept")
	}
}

// TestGreedyBytes: ten accounts that always want more leave room for one that wants little.
func TestGreedyBytes(t *testing.T) {
	t.Parallel()
	a := New(Limits{Places: 10, Each: 10, Accounts: 100, Bytes: 128 * mib})
	var greedy [10]*Account
	for i := range greedy {
		greedy[i] = a.Of(fmt.Sprint(i), "")
	}
	quiet := a.Of("quiet", "")
	for step := range 1000 {
		for i, g := range greedy {
			for { // as much as it gets
				if no, _ := a.Charge(g, Bodies, mib/2); no != Admitted {
					break
				}
			}
			if (step+i)%3 == 0 && g.Bytes() > 0 {
				a.Refund(g, Bodies, mib/2)
			}
		}
		if step%7 != 0 {
			continue
		}
		if no, _ := a.Charge(quiet, Bodies, mib/4); no != Admitted {
			t.Fatalf("step %d: the quiet one is refused for reason %d with %d bytes held of %d", step, no, a.Bytes(), a.lim.Bytes)
		}
		a.Refund(quiet, Bodies, mib/4)
	}
}

// TestBytesAtOnce counts on many goroutines while the table is swept: nothing is lost.
func TestBytesAtOnce(t *testing.T) {
	t.Parallel()
	a := New(Limits{Places: 10, Each: 10, Accounts: 5, Bytes: 10 * mib})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 2000 {
				x := a.Of(fmt.Sprint((g+i)%4), "")
				if no, ok := a.Charge(x, Kind(i)%Kinds, mib); ok && no == Admitted {
					a.Refund(x, Kind(i)%Kinds, mib)
				}
				if i%64 == 0 {
					a.MostBytes()
				}
			}
		})
	}
	wg.Go(func() {
		for range 50 {
			a.sweepAll()
		}
	})
	wg.Wait()
	if a.Bytes() != 0 || a.MostBytes() != 0 {
		t.Errorf("%d bytes are left, %d of one", a.Bytes(), a.MostBytes())
	}
}

func TestFairStore(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name          string
		used, mine, n int64
		want          Refusal
	}{
		{"nothing is known", 0, 0, 10, Admitted},
		{"half of it, with what is new", 500, 500, 300, Admitted},
		{"more than half with what is new", 500, 500, 301, OverShare},
		{"more than half with what is new, of another", 790, 40, 60, Admitted},
		{"half of it, and already more than a share", 800, 800, 1, OverShare},
		{"more, and already more than a share", 801, 101, 1, OverShare},
		{"more, up to a sixteenth", 801, 50, 49, Admitted},
		{"beyond a sixteenth", 801, 50, 51, OverShare},
		{"a sixth of what is left", 1400, 0, 6, Admitted},
		{"more than a sixth of what is left", 1400, 0, 7, OverShare},
		{"nothing is left", 1441, 0, 1, Full},
	} {
		if got := FairStore(tt.used, tt.mine, tt.n, 1600, 16); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	if got := FairStore(1<<40, 1<<40, 1, 0, 16); got != Admitted {
		t.Errorf("without a limit: %v", got)
	}
}

// TestFairStoreLeavesRoom has ten clients store all they can, together and one after the other. An eleventh may still store a
// hundredth.
func TestFairStoreLeavesRoom(t *testing.T) {
	t.Parallel()
	const limit, clients, piece = 1 << 30, 10, 64 << 10
	for name, together := range map[string]bool{"together": true, "one by one": false} {
		var used int64
		var mine [clients]int64
		store := func(i int) bool {
			if FairStore(used, mine[i], piece, limit, 16) != Admitted {
				return false
			}
			used, mine[i] = used+piece, mine[i]+piece
			return true
		}
		for more := true; more; {
			more = false
			for i := range clients {
				for store(i) {
					if more = true; together {
						break
					}
				}
			}
		}
		var late int64
		for FairStore(used, late, piece, limit, 16) == Admitted {
			used, late = used+piece, late+piece
		}
		if late < limit/100 {
			t.Errorf("%s: %d of %d bytes are used, and another client may store %d", name, used-late, limit, late)
		}
	}
}

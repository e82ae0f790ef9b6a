package quota

import (
	"sync"
	"testing"
)

func TestHolding(t *testing.T) {
	t.Parallel()
	a := New(Limits{Places: 10, Each: 10, Accounts: 10, Bytes: 10 * mib})
	x := a.Of("x", "")
	var h Holding
	held := func(what string, want int64) {
		t.Helper()
		if a.Bytes() != want || x.Bytes() != want || a.BytesOf(Parked) != want {
			t.Errorf("%s: %d bytes in all, %d of the account, %d of the kind, want %d", what, a.Bytes(), x.Bytes(), a.BytesOf(Parked), want)
		}
	}
	h.Set(7)
	h.Grow(7)
	h.Free()
	held("before it is charged", 0)
	if no, ok := h.Charge(a, x, Parked, 20*mib); no != Full || !ok {
		t.Errorf("too much: reason %d", no)
	}
	h.Set(7)
	held("after a refusal", 0)
	if no, ok := h.Charge(a, x, Parked, 100); no != Admitted || !ok {
		t.Errorf("a little: reason %d", no)
	}
	held("charged", 100)
	h.Grow(50)
	held("grown", 150)
	if no := h.GrowIfRoom(50); no != Admitted {
		t.Errorf("a little more: reason %d", no)
	}
	held("extended", 200)
	if no := h.GrowIfRoom(20 * mib); no != Full {
		t.Errorf("too much more: reason %d", no)
	}
	held("extended by too much", 200)
	h.Set(20)
	held("set", 20)
	h.Set(20 * mib)
	held("set beyond the limit", 20*mib)
	h.Free()
	held("freed", 0)
	h.Free()
	h.Set(9)
	h.Grow(9)
	held("after its end", 0)
	h.Reset()
	if !h.ChargeAnyway(a, x, Parked, 30*mib) {
		t.Error("not charged")
	}
	held("again", 30*mib)
	h.Reset()
	held("reset", 0)
}

// TestHoldingAtOnce changes and frees a holding on many goroutines: nothing is left.
func TestHoldingAtOnce(t *testing.T) {
	t.Parallel()
	a := New(Limits{Places: 10, Each: 10, Accounts: 10, Bytes: -1})
	for range 200 {
		var h Holding
		h.ChargeAnyway(a, a.Of("x", ""), Sessions, 5)
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() { h.Set(int64(i)); h.Grow(3) })
		}
		wg.Go(func() { h.GrowIfRoom(2) })
		wg.Go(h.Free)
		wg.Wait()
	}
	if n := a.Bytes(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}

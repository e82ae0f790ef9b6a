package quota

import (
	"math"
	"testing"
)

// TestWeights: when places are short, or memory, a client gets what its weight says, and others what is theirs.
func TestWeights(t *testing.T) {
	t.Parallel()
	acc := New(Limits{Places: 100, Each: 1000, Accounts: 10, Bytes: 1 << 20, Weights: Weights{{Tenant: "heavy"}: 4, {Tenant: "anon", Address: "2001:db8::"}: 5}})
	heavy, light, addressed := acc.Of("heavy", ""), acc.Of("light", ""), acc.Of("anon", "2001:db8::7")
	all, has := []*Account{heavy, light, addressed}, [3]int{}
	ask := func(i int) {
		if no, _ := acc.AdmitRequest(all[i]); no == Admitted {
			has[i]++
		}
	}
	for range 200 {
		ask(1) // light has everything
	}
	for range 1000 {
		for i, a := range all { // a call of each ends, and each asks for more than it can have
			if has[i] > 0 {
				has[i]--
				acc.LeavePlace(a)
			}
			for k := range all {
				ask(k)
				ask(k)
			}
		}
	}
	for i, want := range []int{40, 10, 50} {
		if has[i] < want-2 || has[i] > want+2 {
			t.Errorf("clients of weight 4, 1 and 5 have %v of 100 places", has)
			break
		}
	}
	for _, c := range []struct{ limit, weight, sum, want int64 }{
		{100, 1, 4, 25}, {100, 3, 4, 75}, {100, 4, 4, 100}, {100, 7, 4, 100}, {100, 1, 0, 100}, {100, 1, 1000, 0},
		{math.MaxInt64, 1, 2, math.MaxInt64 / 2}, {math.MaxInt64, MostWeight, 2 * MostWeight, math.MaxInt64 / (2 * MostWeight) * MostWeight},
	} {
		if got := partOf(c.limit, c.weight, c.sum); got != c.want {
			t.Errorf("%d of %d of %d is %d, want %d", c.weight, c.sum, c.limit, got, c.want)
		}
	}
	fill := func(a *Account) (n int64) {
		for ; ; n += 1 << 10 {
			if no, _ := acc.Charge(a, Bodies, 1<<10); no != Admitted {
				return n
			}
		}
	}
	if l := fill(light); l < 500<<10 || l > 700<<10 {
		t.Errorf("alone, light holds %d bytes of 1 MiB", l)
	}
	acc.Refund(light, Bodies, light.Bytes())
	if h, l := fill(heavy), fill(light); h < 780<<10 || h > 900<<10 || l < 10<<10 {
		t.Errorf("of 1 MiB heavy holds %d bytes, and light beside it %d", h, l)
	}
}

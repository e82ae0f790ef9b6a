package quota

import (
	"math"
	"testing"
)

func TestFair(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		load, mine int64 // including the new request
		limit      int
		contenders int
		want       Refusal
	}{
		{"the first", 1, 1, 100, 1, Admitted},
		{"alone, up to the last place", 100, 100, 100, 1, Admitted},
		{"alone, one too many", 101, 101, 100, 1, Full},
		{"most of it below three quarters", 75, 74, 100, 2, Admitted},
		{"more than a half above three quarters", 76, 75, 100, 2, OverShare},
		{"exactly a half", 76, 50, 100, 2, Admitted},
		{"one more than a half", 76, 51, 100, 2, OverShare},
		{"a latecomer has his share to come", 100, 1, 100, 2, Admitted},
		{"but no more than the node has", 101, 1, 100, 2, Full},
		{"more contenders than places", 90, 1, 100, 1000, Admitted},
		{"more contenders than places, a second", 90, 2, 100, 1000, OverShare},
		{"three quarters of a few", 3, 3, 5, 5, Admitted},
		{"beyond three quarters of a few", 4, 2, 5, 5, OverShare},
		{"a single place", 1, 1, 1, 9, Admitted},
		{"no places", 1, 1, 0, 1, Full},
		{"nobody counted yet", 80, 1, 100, 0, Admitted},
		{"no limit", math.MaxInt64, math.MaxInt64, -1, 1000, Admitted},
		{"a huge limit", math.MaxInt64/4*3 - 1, 7, math.MaxInt64, 2, Admitted},
	} {
		got := Admitted
		if isBusy(tt.load, tt.limit) {
			got = fairPlaces(tt.load, tt.mine, tt.limit, 1, int64(tt.contenders))
		}
		if got != tt.want {
			t.Errorf("%s: got reason %d, want %d", tt.name, got, tt.want)
		}
	}
}

// TestFairStarvesNobody has tenants that always want more than the node has: each ends up
// with about its share, whichever came first.
func TestFairStarvesNobody(t *testing.T) {
	t.Parallel()
	const limit, tenants = 100, 4
	var has [tenants]int64
	load, claims := int64(0), [tenants]bool{}
	contenders := func(me int) (n int) {
		for i := range has {
			if i == me || has[i] > 0 || claims[i] {
				n++
			}
		}
		return n
	}
	ask := func(i int) {
		if isBusy(load+1, limit) {
			claims[i] = true
			if fairPlaces(load+1, has[i]+1, limit, 1, int64(contenders(i))) != Admitted {
				return
			}
		}
		has[i]++
		load++
	}
	for range 2 * limit { // the first tenant has everything
		ask(0)
	}
	if has[0] != limit {
		t.Fatalf("alone, a tenant got %d of %d places", has[0], limit)
	}
	for range 100 * limit {
		for i := range tenants { // a call of each tenant ends, and all ask, the first tenant most often
			if has[i] > 0 {
				has[i]--
				load--
			}
			for range 10 {
				ask(0)
			}
			ask(i)
			ask(i)
		}
	}
	for i, n := range has {
		if n < limit/tenants-2 || n > limit/tenants+2 {
			t.Errorf("tenant %d has %d places of %d, want about %d: %v", i, n, limit, limit/tenants, has)
		}
	}
}

// TestRefusalsTakeNoPlace checks that a refusal for any reason takes no place, and that a
// returned place can be taken again.
func TestRefusalsTakeNoPlace(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		lim   Limits
		other int // places that another account has
		mine  int // calls of this account that are admitted
		want  Refusal
	}{
		"its own limit":  {Limits{Places: 100, Each: 2, Accounts: 9}, 0, 2, OverLimit},
		"its share":      {Limits{Places: 8, Each: 100, Accounts: 9}, 3, 4, OverShare},
		"the process":    {Limits{Places: 1, Each: 100, Accounts: 9}, 0, 1, Full},
		"no place":       {Limits{Places: 0, Each: 100, Accounts: 9}, 0, 0, Full},
		"none for it":    {Limits{Places: 100, Each: 0, Accounts: 9}, 0, 0, OverLimit},
		"both are spent": {Limits{Places: 4, Each: 4, Accounts: 9}, 0, 4, Full},
	} {
		a := New(row.lim)
		me, other := a.Of("me", ""), a.Of("other", "")
		for range row.other {
			a.EnterRequest(other)
		}
		for range 2 { // the second time with the returned places
			for n := range row.mine {
				if no, ok := a.AdmitRequest(me); no != Admitted || !ok {
					t.Fatalf("%s: number %d: got reason %d", name, n+1, no)
				}
			}
			for range 3 {
				if no, ok := a.AdmitRequest(me); no != row.want || !ok {
					t.Errorf("%s: got reason %d, want %d", name, no, row.want)
				}
			}
			if got := a.InFlight(); got != int64(row.mine+row.other) {
				t.Errorf("%s: %d places in use, want %d", name, got, row.mine+row.other)
			}
			for range row.mine {
				a.LeavePlace(me)
			}
		}
	}
}

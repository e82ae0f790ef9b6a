package quota

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/directory"
)

// Counts and rates of the accounts in these tests.
const (
	streams, gets, parked = 0, 1, 2
	calls, sessions       = 0, 1
)

// newAccounts returns a table for that many accounts, each with generous limits.
func newAccounts(accounts int) *Accounts {
	return New(Limits{Places: 10_000, Each: 1024, Accounts: accounts, Rates: [Rates]Rate{
		calls: {PerSecond: 1000, Burst: 2000}, sessions: {PerSecond: 100_000 / (72 * time.Hour).Seconds(), Burst: 100_000}}})
}

// sweepAll settles every part of the table once.
func (t *Accounts) sweepAll() {
	for range directory.Shards {
		t.DropStale(time.Now())
	}
}

func TestAccountsOf(t *testing.T) {
	t.Parallel()
	a := newAccounts(100_000)
	same := func(t1, a1, t2, a2 string) bool { return a.Of(t1, a1) == a.Of(t2, a2) }
	for _, tt := range []struct {
		name           string
		t1, a1, t2, a2 string
		same           bool
	}{
		{"one tenant", "x", "", "x", "", true},
		{"two tenants", "x", "", "y", "", false},
		{"one address", "anon", "192.0.2.1", "anon", "192.0.2.1", true},
		{"two addresses", "anon", "192.0.2.1", "anon", "192.0.2.2", false},
		{"two spellings", "anon", "192.0.2.1", "anon", "::ffff:192.0.2.1", true},
		{"one network", "anon", "2001:db8::1", "anon", "2001:db8::2", true},
		{"two networks", "anon", "2001:db8::1", "anon", "2001:db8:0:1::1", false},
		{"two that are no address", "anon", "@", "anon", "pipe", true},
		{"an address and none", "anon", "192.0.2.1", "anon", "pipe", false},
	} {
		if got := same(tt.t1, tt.a1, tt.t2, tt.a2); got != tt.same {
			t.Errorf("%s: same account: %v, want %v", tt.name, got, tt.same)
		}
	}
}

func TestAccountsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAccounts(10)
		for i := range 15 {
			x := a.Of(fmt.Sprint(i), "")
			x.Buckets[calls].Take(time.Now())
			if full := x == a.overflow; full != (i >= 10) {
				t.Errorf("account %d is the shared one: %v", i, full)
			}
		}
		if n, spilled := a.size.Load(), a.spilled.Load(); n != 10 || spilled != 5 {
			t.Errorf("%d accounts and %d overflows, want 10 and 5", n, spilled)
		}
		if a.Of("3", "") == a.overflow {
			t.Error("who has an account loses it")
		}
		a.sweepAll()
		if n := a.size.Load(); n != 10 {
			t.Errorf("%d accounts while their buckets fill, want 10", n)
		}
		time.Sleep(time.Second)
		a.sweepAll()
		if n, table := a.size.Load(), a.table.Len(); n != 0 || table != 0 {
			t.Errorf("%d accounts, %d in the table, want none", n, table)
		}
		if a.Of("14", "") == a.overflow {
			t.Error("there is room again, but not for a newcomer")
		}
	})
}

// TestAccountsStay checks that an account in use stays, whatever uses it.
func TestAccountsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAccounts(100_000)
		for name, use := range map[string]struct{ begin, end func(x *Account) }{
			"a call":     {func(x *Account) { a.countRequest(x) }, func(x *Account) { a.addLoad(x, -1) }},
			"a stream":   {func(x *Account) { x.Held[streams].Add(1) }, func(x *Account) { x.Held[streams].Add(-1) }},
			"a GET":      {func(x *Account) { x.Held[gets].Add(1) }, func(x *Account) { x.Held[gets].Add(-1) }},
			"a question": {func(x *Account) { x.Held[parked].Add(1) }, func(x *Account) { x.Held[parked].Add(-1) }},
			"a session":  {func(x *Account) { x.Buckets[sessions].Take(time.Now()) }, func(x *Account) { x.Buckets[sessions].GiveBack(time.Now()) }},
		} {
			x := a.Of(name, "")
			use.begin(x)
			a.sweepAll()
			if a.Of(name, "") != x || x.dropped.Load() {
				t.Errorf("%s did not keep the account", name)
			}
			use.end(x)
			a.sweepAll()
			if a.Of(name, "") == x || !x.dropped.Load() {
				t.Errorf("%s kept the account beyond its end", name)
			}
			if _, ok := a.countRequest(x); ok {
				t.Error("a dropped account takes calls")
			}
			for what := range x.Held {
				if n, ok := x.AddHeld(what); ok || x.Held[what].Load() != 0 {
					t.Errorf("a dropped account holds %d of %d", n, what)
				}
			}
		}
		if n := a.active.Load(); n != 0 {
			t.Errorf("%d contenders, want none", n)
		}
	})
}

func TestClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAccounts(100_000)
		x, y := a.Of("x", ""), a.Of("y", "")
		a.countRequest(x)
		for range 3 {
			a.claimPlace(x, time.Now())
			a.claimPlace(y, time.Now())
		}
		if n := a.active.Load(); n != 2 {
			t.Fatalf("%d contend, want who runs and who waits", n)
		}
		if mine, _ := a.countRequest(y); mine != 1 {
			t.Errorf("%d in flight, want 1: a claim is none", mine)
		}
		a.addLoad(y, -1)
		if n := a.active.Load(); n != 2 {
			t.Errorf("%d contend between two calls of one, want 2", n)
		}
		time.Sleep(claimFor - time.Millisecond)
		a.claimPlace(x, time.Now())
		time.Sleep(time.Millisecond)
		a.sweepAll()
		if n := a.active.Load(); n != 1 || len(a.claimants) != 1 || !y.dropped.Load() {
			t.Errorf("after a claim %d contend, %d claim, want one of each", n, len(a.claimants))
		}
		a.addLoad(x, -1)
		if n := a.active.Load(); n != 1 {
			t.Errorf("%d contend, want who has asked lately", n)
		}
		time.Sleep(claimFor)
		a.sweepAll()
		if n := a.active.Load(); n != 0 || len(a.claimants) != 0 || !x.dropped.Load() {
			t.Errorf("after the last claim %d contend, %d claim, want none", n, len(a.claimants))
		}
	})
}

// TestAccountsAtOnce counts calls in and out on many goroutines while the table
// is swept: nothing is lost, and no account is used that the table has forgotten.
func TestAccountsAtOnce(t *testing.T) {
	t.Parallel()
	a := New(Limits{Places: 10_000, Each: 1024, Accounts: 5})
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				a.sweepAll()
			}
		}
	})
	var callers sync.WaitGroup
	for g := range 8 {
		callers.Go(func() {
			for i := range 2000 {
				name := fmt.Sprint((g + i) % 7)
				x := a.Of(name, "")
				if a.EnterRequest(x) {
					if y := a.Of(name, ""); y != x && x != a.overflow && y != a.overflow {
						t.Errorf("an account in use was forgotten")
					}
					a.LeavePlace(x)
				}
			}
		})
	}
	callers.Wait()
	close(stop)
	wg.Wait()
	a.sweepAll()
	if n, busy, size, table := a.active.Load(), a.InFlight(), a.size.Load(), a.table.Len(); n != 0 || busy != 0 || size != 0 || table != 0 {
		t.Errorf("%d contenders, %d requests, %d accounts, %d in the table, want none", n, busy, size, table)
	}
}

// BenchmarkAccount measures what counting adds to a request, with its account found in
// each of the ways.
func BenchmarkAccount(b *testing.B) {
	t := newAccounts(100_000)
	for _, bm := range []struct {
		name, tenant, address string
		lost                  bool // the account is not remembered
	}{
		{"session", "anon", "192.0.2.1", false},
		{"table/tenant", "abcdefghijklmnopqrstuvwxyz", "", true},
		{"table/ipv4", "anon", "192.0.2.1", true},
		{"table/ipv6", "anon", "2001:db8:85a3:8d3:1319:8a2e:370:7348", true},
	} {
		b.Run(bm.name, func(b *testing.B) {
			var m Memo
			b.ReportAllocs()
			for b.Loop() {
				if bm.lost {
					m.p.Store(nil)
				}
				a := m.Of(t, bm.tenant, bm.address)
				t.EnterRequest(a)
				t.LeavePlace(a)
			}
		})
	}
}

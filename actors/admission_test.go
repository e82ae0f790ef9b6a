package actors

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
)

func TestFair(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		load, mine int64 // the new request included
		limit      int
		contenders int
		want       Reason
	}{
		{"the first", 1, 1, 100, 1, admitted},
		{"alone, up to the last place", 100, 100, 100, 1, admitted},
		{"alone, one too many", 101, 101, 100, 1, CallsOfNode},
		{"most of it below three quarters", 75, 74, 100, 2, admitted},
		{"more than a half above three quarters", 76, 75, 100, 2, ShareOfNode},
		{"exactly a half", 76, 50, 100, 2, admitted},
		{"one more than a half", 76, 51, 100, 2, ShareOfNode},
		{"a latecomer has his share to come", 100, 1, 100, 2, admitted},
		{"but no more than the node has", 101, 1, 100, 2, CallsOfNode},
		{"more contenders than places", 90, 1, 100, 1000, admitted},
		{"more contenders than places, a second", 90, 2, 100, 1000, ShareOfNode},
		{"three quarters of a few", 3, 3, 5, 5, admitted},
		{"beyond three quarters of a few", 4, 2, 5, 5, ShareOfNode},
		{"a single place", 1, 1, 1, 9, admitted},
		{"no places", 1, 1, 0, 1, CallsOfNode},
		{"nobody counted yet", 80, 1, 100, 0, admitted},
		{"no limit", math.MaxInt64, math.MaxInt64, -1, 1000, admitted},
		{"a huge limit", math.MaxInt64/4*3 - 1, 7, math.MaxInt64, 2, admitted},
	} {
		got := admitted
		if busy(tt.load, tt.limit) {
			got = fair(tt.load, tt.mine, tt.limit, tt.contenders)
		}
		if got != tt.want {
			t.Errorf("%s: got reason %d, want %d", tt.name, got, tt.want)
		}
	}
}

// TestFairStarvesNobody has tenants that always want more than the node has: each
// ends up with about its share, whoever came first.
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
		if busy(load+1, limit) {
			claims[i] = true
			if fair(load+1, has[i]+1, limit, contenders(i)) != admitted {
				return
			}
		}
		has[i]++
		load++
	}
	for range 2 * limit { // the first has it all
		ask(0)
	}
	if has[0] != limit {
		t.Fatalf("alone, a tenant got %d of %d places", has[0], limit)
	}
	for range 100 * limit {
		for i := range tenants { // a call of each ends, and all ask, the first the most
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

func TestNetwork(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ address, want string }{
		{"192.0.2.1", "192.0.2.1"},
		{"192.0.2.2", "192.0.2.2"},
		{"::ffff:192.0.2.1", "192.0.2.1"},
		{"2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"},
		{"2001:db8:1:2:ffff:ffff:ffff:ffff", "2001:db8:1:2::"},
		{"2001:db8:1:3::", "2001:db8:1:3::"},
		{"::1", "::"},
		{"fe80::1%eth0", "fe80::"},
		{"", "invalid IP"},
		{"@", "invalid IP"},
		{"pipe", "invalid IP"},
		{"192.0.2.1:80", "invalid IP"},
		{"300.0.0.1", "invalid IP"},
		{"localhost", "invalid IP"},
	} {
		if got := network(tt.address).String(); got != tt.want {
			t.Errorf("%q counts as %s, want %s", tt.address, got, tt.want)
		}
	}
}

func TestBucket(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	b := newBucket(10, 3)
	for i := range 3 {
		if wait := b.take(now); wait != 0 {
			t.Fatalf("token %d: to come in %v", i, wait)
		}
	}
	if wait := b.take(now); wait != 100*time.Millisecond {
		t.Errorf("an empty bucket: the next token in %v, want 100 ms", wait)
	}
	if wait := b.take(now.Add(60 * time.Millisecond)); wait != 40*time.Millisecond {
		t.Errorf("60 ms later: in %v, want 40 ms", wait)
	}
	if wait := b.take(now.Add(100 * time.Millisecond)); wait != 0 {
		t.Errorf("100 ms later: in %v, want at once", wait)
	}
	b.giveBack(now.Add(100 * time.Millisecond))
	if wait := b.take(now.Add(100 * time.Millisecond)); wait != 0 {
		t.Errorf("a token given back: in %v, want at once", wait)
	}
	later := now.Add(time.Hour)
	if !b.full(later) {
		t.Error("not full after an hour")
	}
	for range 10 {
		b.giveBack(later)
	}
	later = later.Add(time.Nanosecond)
	for range 3 {
		b.take(later)
	}
	if b.take(later) == 0 {
		t.Error("a full bucket kept what was given back")
	}
	if b.full(later) {
		t.Error("full though it is empty")
	}
	if slow := newBucket(1e-12, 1); slow.take(now) != 0 || slow.take(now) != 1e9*time.Second {
		t.Error("a bucket that hardly fills does not say so")
	}
	if none := newBucket(-1, 0); none.take(now) != 0 || !none.full(now) {
		t.Error("a bucket without a limit has one")
	}
}

func TestBurst(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rate float64
		n    int
		want int
	}{{100, 0, 200}, {100, 7, 7}, {100, -1, 200}, {0.1, 0, 1}, {1.2, 0, 3}, {-1, 0, 1}, {math.MaxFloat64, 0, math.MaxInt32}} {
		if got := burst(tt.rate, tt.n); got != tt.want {
			t.Errorf("burst of %g, %d: got %d, want %d", tt.rate, tt.n, got, tt.want)
		}
	}
}

func newAccounts(lim NodeLimits) *accounts {
	t := &accounts{}
	t.init(lim.Defaults())
	return t
}

// sweepAll settles every part of the table once.
func (t *accounts) sweepAll() {
	for range kernel.Shards {
		t.settle(time.Now())
	}
}

func TestAccountsOf(t *testing.T) {
	t.Parallel()
	a := newAccounts(NodeLimits{})
	same := func(t1, a1, t2, a2 string) bool { return a.of(t1, a1) == a.of(t2, a2) }
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
		a := newAccounts(NodeLimits{Accounts: 10})
		for i := range 15 {
			x := a.of(fmt.Sprint(i), "")
			x.rate.take(time.Now())
			if full := x == a.overflow; full != (i >= 10) {
				t.Errorf("account %d is the shared one: %v", i, full)
			}
		}
		if n, spilled := a.size.Load(), a.spilled.Load(); n != 10 || spilled != 5 {
			t.Errorf("%d accounts and %d overflows, want 10 and 5", n, spilled)
		}
		if a.of("3", "") == a.overflow {
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
		if a.of("14", "") == a.overflow {
			t.Error("there is room again, but not for a newcomer")
		}
	})
}

// TestAccountsStay keeps what is in use, by whatever it is used.
func TestAccountsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAccounts(NodeLimits{})
		for name, use := range map[string]struct{ begin, end func(x *account) }{
			"a call":     {func(x *account) { a.enter(x) }, func(x *account) { a.leave(x) }},
			"a stream":   {func(x *account) { x.streams.Add(1) }, func(x *account) { x.streams.Add(-1) }},
			"a GET":      {func(x *account) { x.gets.Add(1) }, func(x *account) { x.gets.Add(-1) }},
			"a question": {func(x *account) { x.parked.Add(1) }, func(x *account) { x.parked.Add(-1) }},
			"a session":  {func(x *account) { x.sessions.take(time.Now()) }, func(x *account) { x.sessions.giveBack(time.Now()) }},
		} {
			x := a.of(name, "")
			use.begin(x)
			a.sweepAll()
			if a.of(name, "") != x || x.dropped.Load() {
				t.Errorf("%s did not keep the account", name)
			}
			use.end(x)
			a.sweepAll()
			if a.of(name, "") == x || !x.dropped.Load() {
				t.Errorf("%s kept the account beyond its end", name)
			}
			if _, ok := a.enter(x); ok {
				t.Error("a dropped account takes calls")
			}
		}
		if n := a.active.Load(); n != 0 {
			t.Errorf("%d contenders, want none", n)
		}
	})
}

func TestClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAccounts(NodeLimits{})
		x, y := a.of("x", ""), a.of("y", "")
		a.enter(x)
		for range 3 {
			a.claim(x, time.Now())
			a.claim(y, time.Now())
		}
		if n := a.active.Load(); n != 2 {
			t.Fatalf("%d contend, want who runs and who waits", n)
		}
		if mine, _ := a.enter(y); mine != 1 {
			t.Errorf("%d in flight, want 1: a claim is none", mine)
		}
		a.leave(y)
		if n := a.active.Load(); n != 2 {
			t.Errorf("%d contend between two calls of one, want 2", n)
		}
		time.Sleep(claimFor - time.Millisecond)
		a.claim(x, time.Now())
		time.Sleep(time.Millisecond)
		a.sweepAll()
		if n := a.active.Load(); n != 1 || len(a.claimants) != 1 || !y.dropped.Load() {
			t.Errorf("after a claim %d contend, %d claim, want one of each", n, len(a.claimants))
		}
		a.leave(x)
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
	a := newAccounts(NodeLimits{Accounts: 5, Principal: PrincipalLimits{Rate: -1, Sessions: -1}})
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
				x := a.of(name, "")
				if _, ok := a.enter(x); ok {
					if y := a.of(name, ""); y != x && x != a.overflow && y != a.overflow {
						t.Errorf("an account in use was forgotten")
					}
					a.leave(x)
				}
			}
		})
	}
	callers.Wait()
	close(stop)
	wg.Wait()
	a.sweepAll()
	if n, size, table := a.active.Load(), a.size.Load(), a.table.Len(); n != 0 || size != 0 || table != 0 {
		t.Errorf("%d contenders, %d accounts, %d in the table, want none", n, size, table)
	}
}

// TestAdmissionAllocatesNothing finds accounts in each of the ways, and takes from
// both buckets.
func TestAdmissionAllocatesNothing(t *testing.T) {
	n := &Node{}
	n.accounts.init(NodeLimits{Principal: PrincipalLimits{Rate: 1e9}}.Defaults())
	m := codec.Message{Method: []byte("tools/call")}
	for _, address := range []string{"", "192.0.2.1", "2001:db8::1"} {
		s := &sessionActor{svc: &Service{Limits: Limits{Rate: 1e9}.Defaults()}}
		in := Input{Tenant: "anon", Address: address}
		for _, found := range []bool{true, false} {
			run := func() {
				if !found {
					s.account.Store(nil)
				}
				a, no := n.admit(s, &in, &m)
				if a == nil {
					t.Fatal(no)
				}
				n.leave(a)
			}
			if got := testing.AllocsPerRun(100, run); got != 0 {
				t.Errorf("from %q, account found on the session: %v: %v allocations", address, found, got)
			}
		}
	}
}

// BenchmarkAccount is what admission adds to a call, with its account found in
// each of the ways.
func BenchmarkAccount(b *testing.B) {
	n := &Node{}
	n.accounts.init(NodeLimits{Principal: PrincipalLimits{Rate: 1e9}}.Defaults())
	svc := &Service{Limits: Limits{Rate: 1e9}.Defaults()}
	for _, bm := range []struct {
		name string
		in   Input
		lost bool // the session has forgotten its account
	}{
		{"session", Input{Tenant: "anon", Address: "192.0.2.1"}, false},
		{"table/tenant", Input{Tenant: "abcdefghijklmnopqrstuvwxyz"}, true},
		{"table/ipv4", Input{Tenant: "anon", Address: "192.0.2.1"}, true},
		{"table/ipv6", Input{Tenant: "anon", Address: "2001:db8:85a3:8d3:1319:8a2e:370:7348"}, true},
	} {
		b.Run(bm.name, func(b *testing.B) {
			s := &sessionActor{svc: svc}
			b.ReportAllocs()
			for b.Loop() {
				if bm.lost {
					s.account.Store(nil)
				}
				a := n.accounts.ofSession(s, &bm.in)
				n.accounts.enter(a)
				n.leave(a)
			}
		})
	}
}

// BenchmarkAdmit is a whole admission, both buckets included.
func BenchmarkAdmit(b *testing.B) {
	n := &Node{}
	n.accounts.init(NodeLimits{Principal: PrincipalLimits{Rate: 1e9}}.Defaults())
	s := &sessionActor{svc: &Service{Limits: Limits{Rate: 1e9}.Defaults()}}
	in := Input{Tenant: "anon", Address: "192.0.2.1"}
	m := codec.Message{Method: []byte("tools/call")}
	b.ReportAllocs()
	for b.Loop() {
		a, no := n.admit(s, &in, &m)
		if a == nil {
			b.Fatal(no)
		}
		n.leave(a)
	}
}

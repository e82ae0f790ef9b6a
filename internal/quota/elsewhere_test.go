package quota

import (
	"testing"
	"time"
)

const perSecond, atOnce = 100, 200

func shared() *Accounts {
	return New(Limits{Places: 1000, Each: 64, Accounts: 10, Bytes: -1, Held: [Counts]int{64}, Rates: [Rates]Rate{{PerSecond: perSecond, Burst: atOnce}}})
}

// left is how many tokens a client has now.
func left(a *Account, now time.Time) (n int) { return int(a.Buckets[0].l.TokensAt(now)) }

// TestHear: what a client takes elsewhere it has less of here, whatever order reports come in, and never owes more than a second of it.
func TestHear(t *testing.T) {
	t.Parallel()
	type report struct {
		from  string
		n     uint64
		taken int64
		after time.Duration
	}
	for name, tt := range map[string]struct {
		reports []report
		left    int // after the last one
	}{
		"one":                   {[]report{{"b", 1, 50, 0}}, atOnce - 50},
		"two processes":         {[]report{{"b", 1, 50, 0}, {"c", 1, 30, 0}}, atOnce - 80},
		"one that comes twice":  {[]report{{"b", 1, 50, 0}, {"b", 1, 50, 0}}, atOnce - 50},
		"one that is late":      {[]report{{"b", 2, 50, 0}, {"b", 1, 70, 0}}, atOnce - 50},
		"all that there is":     {[]report{{"b", 1, atOnce, 0}}, 0},
		"much more":             {[]report{{"b", 1, 1e12, 0}}, 0},
		"much more, repeatedly": {[]report{{"b", 1, 1e12, 0}, {"b", 2, 1e12, 0}, {"b", 3, 1e12, 0}}, -perSecond},
		"paid back":             {[]report{{"b", 1, 1e12, 0}, {"b", 2, 1e12, 0}, {"b", 3, 1, 2 * time.Second}}, perSecond - 1},
		"nonsense":              {[]report{{"b", 1, -1e12, 0}}, atOnce},
		"nothing":               {nil, atOnce},
	} {
		acc, now := shared(), time.Unix(1000, 0)
		me := acc.Of("me", "")
		me.Buckets[0].TakeN(now, 1)
		me.Buckets[0].GiveBackN(now, 1)
		for _, r := range tt.reports {
			now = now.Add(r.after)
			acc.HearShares(now, r.from, r.n, []Share{{Tenant: "me", Taken: [Rates]int64{r.taken}}, {Tenant: "other", Taken: [Rates]int64{7}}})
		}
		if got := left(me, now); got != tt.left {
			t.Errorf("%s: %d tokens are left, want %d", name, got, tt.left)
		}
		if got := left(acc.Of("third", ""), now); got != atOnce {
			t.Errorf("%s: a client that took nothing has %d tokens", name, got)
		}
	}
}

// TestHeardInUse: what a client has in use elsewhere counts here until the next report, or until its process was silent for a while; and
// for as long its account is kept.
func TestHeardInUse(t *testing.T) {
	t.Parallel()
	acc, now := shared(), time.Unix(1000, 0)
	use := func(n, held int64) []Share {
		return []Share{{Tenant: "anon", Address: "192.0.2.1", InFlight: n, Held: [Counts]int64{held}}}
	}
	admits := func() (n int) {
		a := acc.Of("anon", "192.0.2.1")
		for {
			if no, _ := acc.AdmitRequest(a); no != Admitted {
				break
			}
			n++
		}
		for range n {
			acc.LeavePlace(a)
		}
		return n
	}
	want := func(what string, calls int, held, shares int64) {
		t.Helper()
		if got := admits(); got != calls {
			t.Errorf("%s: %d calls are admitted, want %d", what, got, calls)
		}
		if got := acc.Of("anon", "192.0.2.1").HeldElsewhere(0); got != held {
			t.Errorf("%s: %d are held elsewhere, want %d", what, got, held)
		}
		if got := acc.SharesHeard(); got != shares {
			t.Errorf("%s: %d shares count, want %d", what, got, shares)
		}
	}
	want("at first", 64, 0, 0)
	acc.HearShares(now, "b", 1, use(60, 5))
	want("60 elsewhere", 4, 5, 1)
	acc.HearShares(now, "c", 1, use(10, 1))
	want("70 elsewhere", 0, 6, 2)
	acc.HearShares(now, "b", 2, use(20, 2))
	want("30 elsewhere", 34, 3, 2)
	now = now.Add(HeardFor / 2)
	acc.HearShares(now, "b", 3, nil)
	want("only the 10 of c", 54, 1, 1)
	for range 2 * 256 {
		acc.DropStale(now)
	}
	want("the account was not dropped", 54, 1, 1)
	now = now.Add(HeardFor / 2)
	acc.DropStale(now)
	want("c is silent", 64, 0, 0)
	acc.HearShares(now, "b", 2, use(60, 5))
	want("an old report of b", 64, 0, 0)
	now = now.Add(time.Hour)
	for range 2 * 256 {
		acc.DropStale(now)
	}
	if n := acc.Len(); n != 0 {
		t.Errorf("%d accounts are left", n)
	}
	if n := len(acc.elsewhere.all); n != 0 {
		t.Errorf("%d processes are left", n)
	}
}

// TestReport: who uses much of a process is reported, most first, and what was taken only once.
func TestReport(t *testing.T) {
	t.Parallel()
	acc, now := shared(), time.Unix(1000, 0)
	for range 5 {
		acc.EnterRequest(acc.Of("calls", ""))
	}
	acc.Of("takes", "").Buckets[0].TakeN(now, 60)
	acc.Of("takes", "").Buckets[0].GiveBackN(now, 10)
	acc.Of("anon", "2001:db8::1").AddHeld(0)
	for range 40 {
		acc.Of("anon", "2001:db8::1").AddHeld(0)
	}
	acc.Of("little", "").Buckets[0].TakeN(now, 3)
	acc.EnterRequest(acc.Of("little", ""))
	got := acc.ReportShares()
	want := []Share{
		{Tenant: "anon", Address: "2001:db8::", Held: [Counts]int64{41}},
		{Tenant: "takes", Taken: [Rates]int64{50}},
		{Tenant: "calls", InFlight: 5},
	}
	if len(got) != len(want) {
		t.Fatalf("reported are %+v, want %+v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("share %d is %+v, want %+v", i, got[i], want[i])
		}
	}
	if again := acc.ReportShares(); len(again) != 2 || again[0].Tenant != "anon" || again[1].Tenant != "calls" {
		t.Errorf("a second later there is %+v", again)
	}
	many := New(Limits{Places: 1000, Each: 1, Accounts: 1000, Bytes: -1})
	for i := range 2 * mostShares {
		many.EnterRequest(many.Of("t", "192.0."+string(rune('1'+i/200))+"."+string([]rune{rune('1' + i%2)})))
		many.EnterRequest(many.Of(string(rune('a'+i)), ""))
	}
	if n := len(many.ReportShares()); n != mostShares {
		t.Errorf("%d accounts are in a report", n)
	}
}

package actors

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/quota"
)

// TestAdmissionAllocatesNothing finds accounts in each of the ways, and takes tokens from
// both buckets.
func TestAdmissionAllocatesNothing(t *testing.T) {
	n := &Node{}
	n.accounts = newAccounts(NodeLimits{Principal: PrincipalLimits{Rate: 1e9}}, n.refusals, nil)
	m := codec.Message{Method: []byte("tools/call")}
	const size = 100
	for _, address := range []string{"", "192.0.2.1", "2001:db8::1"} {
		s := &sessionActor{svc: &Service{Terms: Terms{Limits: Limits{Rate: 1e9}.Defaults()}}}
		in := Input{Tenant: "anon", Address: address}
		for _, found := range []bool{true, false} {
			run := func() {
				if !found {
					s.account = quota.Memo{}
				}
				a, no := n.accounts.admitRequest(&s.sessionAccount, &s.svc.Limits, &in, s.callCost(&m, size))
				if a == nil {
					t.Fatal(no)
				}
				n.accounts.LeavePlace(a)
			}
			if got := testing.AllocsPerRun(100, run); got != 0 {
				t.Errorf("from %q, account found on the session: %v: %v allocations", address, found, got)
			}
		}
	}
}

// TestRefusedCallsCostNothing checks that a call that one bucket refuses takes no token of
// the other, and that a call that does not run after all returns both tokens.
func TestRefusedCallsCostNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &Node{}
		n.accounts = newAccounts(NodeLimits{Principal: PrincipalLimits{Rate: 1, Burst: 2 * 3}}, n.refusals, nil)
		s, l := &sessionAccount{}, Limits{Rate: 1, Burst: 3 * 3}.Defaults()
		const cost = 3
		in := Input{Tenant: "anon", Address: "192.0.2.1"}
		admit := func(want *limits.Row) *quota.Account {
			t.Helper()
			a, no := n.accounts.admitRequest(s, &l, &in, cost)
			switch {
			case no == nil && want != nil, no != nil && no.Limit != want:
				t.Errorf("got %v, want %v", no, want)
			}
			if a != nil {
				n.accounts.LeavePlace(a)
			}
			return a
		}
		a := admit(nil)
		admit(nil)
		for range 5 {
			admit(limits.PrincipalRate.Row)
		}
		if b := s.callBucket(&l); b.Full(time.Now()) || b.TakeN(time.Now(), cost) != 0 {
			t.Fatal("the calls that the account refused took the session's last tokens")
		}
		a.Buckets[rateOfCalls].GiveBackN(time.Now(), cost)
		for range 5 {
			admit(limits.CallRate.Row)
		}
		if a.Buckets[rateOfCalls].TakeN(time.Now(), cost) != 0 {
			t.Error("the calls that the session refused took the account's tokens")
		}
		for range 2 {
			n.accounts.refundTokens(s, &l, a, cost)
		}
		admit(nil)
		admit(nil)
		if n := n.accounts.InFlight(); n != 0 {
			t.Errorf("%d in flight", n)
		}
	})
}

// TestCosts checks what requests cost.
func TestCosts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		method       string
		size, values int
		want         int
	}{
		{"tools/call", 100, 5, 1},
		{"completion/complete", 100, 5, 1},
		{"a/program's-own", 100, 5, 1},
		{"resources/read", 100, 5, 1},
		{"prompts/get", 100, 5, 1},
		{"resources/subscribe", 100, 5, 1},
		{"resources/unsubscribe", 100, 5, 1},
		{"logging/setLevel", 100, 5, 1},
		{"tools/list", 100, 5, 1},
		{"server/discover", 100, 5, 1},
		{"subscriptions/listen", 100, 5, 1},
		{"ping", 100, 5, 0},
		{"ping", 4 << 20, 5, 64},
		{"tools/call", 64<<10 - 1, 9_999, 1},
		{"tools/call", 64 << 10, 9_999, 2},
		{"tools/call", 64<<10 - 1, 10_000, 2},
		{"tools/call", 4 << 20, 100_000, 75},
	} {
		m := codec.Message{Method: []byte(tt.method), Values: tt.values}
		if got := (&sessionAccount{}).callCost(&m, tt.size); got != tt.want {
			t.Errorf("%s of %d bytes with %d values costs %d, want %d", tt.method, tt.size, tt.values, got, tt.want)
		}
		if got := (&sessionAccount{patient: true}).callCost(&m, tt.size); got != 0 {
			t.Errorf("%s costs a client %d that has the process for itself", tt.method, got)
		}
	}
}

// TestRefusedHoldNothing checks that refused listeners and questions hold no place: there
// is one as soon as another listener or question ends.
func TestRefusedHoldNothing(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{Principal: PrincipalLimits{Streams: 2, Pending: 2}}, func(t *testing.T, h *held) {
		in := h.input("", "192.0.2.1", &heldConn{})
		for name, row := range map[string]struct {
			what  int
			admit func() (*quota.Account, bool)
		}{
			"listeners": {heldStreams, func() (*quota.Account, bool) { return h.accounts.admitListener(in, &heldConn{}, []byte(`1`)) }},
			"questions": {heldPending, func() (*quota.Account, bool) {
				a, err := h.accounts.admitPending(in.Tenant, in.Address)
				return a, err == nil
			}},
		} {
			var a *quota.Account
			for range 2 {
				var ok bool
				if a, ok = row.admit(); !ok {
					t.Fatalf("%s: one of two is refused", name)
				}
			}
			for range 3 {
				if _, ok := row.admit(); ok {
					t.Errorf("%s: a third is admitted", name)
				}
			}
			if n := a.Held[row.what].Load(); n != 2 {
				t.Errorf("%s: the account holds %d, want 2", name, n)
			}
			a.Held[row.what].Add(-1)
			if _, ok := row.admit(); !ok {
				t.Errorf("%s: none is admitted in the place of one that has ended", name)
			}
			a.Held[row.what].Store(0)
		}
	})
}

// TestStreamsOnTheirWayCount checks that GETs whose streams have not begun count like open
// streams.
func TestStreamsOnTheirWayCount(t *testing.T) {
	inBubble(t, Limits{Streams: 2}, NodeLimits{Principal: PrincipalLimits{Streams: 3}}, func(t *testing.T, h *held) {
		get := func(session string) *heldConn {
			c := &heldConn{}
			go h.Get(h.svc, h.input(session, "192.0.2.1", c), nil)
			synctest.Wait()
			return c
		}
		one, other := h.begin("2025-11-25"), h.begin("2025-11-25")
		release := h.hold("OpenStream")
		for i, row := range []struct {
			session string
			refused bool
		}{{one, false}, {one, false}, {one, true}, {other, false}, {other, true}} {
			if status, body := get(row.session).answer(); (status == 429) != row.refused {
				t.Errorf("GET %d: answered %d %s, refused should be %t", i+1, status, body, row.refused)
			}
		}
		release()
	})
}

// BenchmarkAdmit measures a whole admission with both buckets.
func BenchmarkAdmit(b *testing.B) {
	n := &Node{}
	n.accounts = newAccounts(NodeLimits{Principal: PrincipalLimits{Rate: 1e9}}, n.refusals, nil)
	s := &sessionActor{svc: &Service{Terms: Terms{Limits: Limits{Rate: 1e9}.Defaults()}}}
	in := Input{Tenant: "anon", Address: "192.0.2.1"}
	m := codec.Message{Method: []byte("tools/call")}
	b.ReportAllocs()
	for b.Loop() {
		a, no := n.accounts.admitRequest(&s.sessionAccount, &s.svc.Limits, &in, s.callCost(&m, 100))
		if a == nil {
			b.Fatal(no)
		}
		n.accounts.LeavePlace(a)
	}
}

package actors

import (
	"testing"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/quota"
)

// TestAdmissionAllocatesNothing finds accounts in each of the ways, and takes from
// both buckets.
func TestAdmissionAllocatesNothing(t *testing.T) {
	n := &Node{}
	n.accounts = newAccounts(NodeLimits{Principal: PrincipalLimits{Rate: 1e9}}, &n.refusals, nil)
	m := codec.Message{Method: []byte("tools/call")}
	for _, address := range []string{"", "192.0.2.1", "2001:db8::1"} {
		s := &sessionActor{svc: &Service{Limits: Limits{Rate: 1e9}.Defaults()}}
		in := Input{Tenant: "anon", Address: address}
		for _, found := range []bool{true, false} {
			run := func() {
				if !found {
					s.account = quota.Memo{}
				}
				a, no := n.accounts.admit(&s.sessionAccount, &s.svc.Limits, &in, &m)
				if a == nil {
					t.Fatal(no)
				}
				n.accounts.Leave(a)
			}
			if got := testing.AllocsPerRun(100, run); got != 0 {
				t.Errorf("from %q, account found on the session: %v: %v allocations", address, found, got)
			}
		}
	}
}

// BenchmarkAdmit is a whole admission, both buckets included.
func BenchmarkAdmit(b *testing.B) {
	n := &Node{}
	n.accounts = newAccounts(NodeLimits{Principal: PrincipalLimits{Rate: 1e9}}, &n.refusals, nil)
	s := &sessionActor{svc: &Service{Limits: Limits{Rate: 1e9}.Defaults()}}
	in := Input{Tenant: "anon", Address: "192.0.2.1"}
	m := codec.Message{Method: []byte("tools/call")}
	b.ReportAllocs()
	for b.Loop() {
		a, no := n.accounts.admit(&s.sessionAccount, &s.svc.Limits, &in, &m)
		if a == nil {
			b.Fatal(no)
		}
		n.accounts.Leave(a)
	}
}

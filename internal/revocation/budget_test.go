//go:build !race

package revocation_test

import (
	"context"
	"testing"
	"time"

	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/internal/revocation"
)

// TestBudget bounds what a request allocates whose token counts: nothing, whoever else is revoked.
func TestBudget(t *testing.T) {
	n := started(t, newModel(), false)
	id := token("alice", time.Hour)
	check := func(what string) {
		t.Helper()
		if got := testing.AllocsPerRun(1000, func() {
			if n.Refusal(id) != nil {
				t.Fatal("refused")
			}
		}); got != 0 {
			t.Errorf("%s: %v allocations", what, got)
		}
	}
	check("nobody is revoked")
	for _, r := range []revocation.Revocation{{Subject: "bob"}, {Subject: "alice", Issuer: "https://b.example"}, {Client: "app", Issuer: "https://b.example"}} {
		revoke(t, n, r)
	}
	check("others are revoked")
}

// BenchmarkRefusal is the look-up of a token that counts.
func BenchmarkRefusal(b *testing.B) {
	for name, revoked := range map[string]int{"none": 0, "1000": 1000} {
		b.Run("revoked="+name, func(b *testing.B) {
			n := revocation.New(revocation.Config{Records: newModel(), End: func(context.Context, revocation.Match) {}, EndStored: func(context.Context, *revocation.Revocation) error { return nil }})
			defer n.Close()
			for i := range revoked {
				if _, err := n.Revoke(b.Context(), revocation.Revocation{Subject: string(rune('a'+i%26)) + time.Duration(i).String()}); err != nil {
					b.Fatal(err)
				}
			}
			id := &auth.Identity{Issuer: "https://a.example", Subject: "alice", Client: "app", Issued: time.Now()}
			for b.Loop() {
				if n.Refusal(id) != nil {
					b.Fatal("refused")
				}
			}
		})
	}
}

//go:build full

package auth

import (
	"strings"
	"testing"
	"time"
)

// TestManyScopes has a token of nearly 16 KiB full of scopes cost about what one does that is full of something else: anybody can make up either.
func TestManyScopes(t *testing.T) {
	a := newAuthority(t, newStub("a"))
	var b strings.Builder
	for i := range 3800 {
		b.WriteString(base62[i/62:][:1] + base62[i%62:][:1] + " ")
	}
	cost := func(claim string) time.Duration {
		text := token("a", nil, members{claim: b.String()})
		least := time.Hour
		for range 20 {
			began := time.Now()
			if _, r := a.verifySigned(t.Context(), text, server+"/other"); r == nil || r.Reason != ReasonAudience {
				t.Fatal(r)
			}
			least = min(least, time.Since(began))
		}
		return least
	}
	if other, scopes := cost("pad"), cost("scope"); scopes > 30*other {
		t.Errorf("scopes cost %v, something else of that length %v", scopes, other)
	}
}

//go:build !race

package auth

import (
	"net/http"
	"testing"
	"time"
)

// TestBudget bounds what a request allocates whose connection, or whose table, knows the token: nothing.
func TestBudget(t *testing.T) {
	a := newAuthority(t, newStub("a"), func(c *Config) { c.Implies = map[string][]string{"files:write": {"files:list"}} })
	text := token("a", nil, members{"pad": string(make([]byte, 100))})
	copied := string([]byte(text)) // as it comes with another request
	v, err := a.Verify(t.Context(), text, server)
	if err != nil {
		t.Fatal(err)
	}
	var last Last
	if _, err := last.Verify(t.Context(), a, text, server); err != nil {
		t.Fatal(err)
	}
	h, at := http.Header{"Authorization": {"Bearer " + copied}}, a.Resource("/mcp", "", nil)
	keys, _, key := withKeys(t)
	var lastKey Last
	if _, err := lastKey.Verify(t.Context(), keys, key, server); err != nil {
		t.Fatal(err)
	}
	sameKey := string([]byte(key))
	ctx, needed := t.Context(), []string{"files:read", "files:list"}
	for name, f := range map[string]func() bool{
		"the last token": func() bool { w, err := last.Verify(ctx, a, copied, server); return w == v && err == nil },
		"what is known":  func() bool { return a.Known(h, at, &last) == v },
		"the table":      func() bool { w, err := a.Verify(ctx, copied, server); return w == v && err == nil },
		"the last key":   func() bool { w, err := lastKey.Verify(ctx, keys, sameKey, server); return w != nil && err == nil },
		"a known key":    func() bool { w, err := keys.Verify(ctx, sameKey, server); return w != nil && err == nil },
		"a verdict":      func() bool { return v.Valid(time.Now()) },
		"scopes":         func() bool { return a.Require(v.Scopes, needed) == nil },
	} {
		if n := testing.AllocsPerRun(1000, func() {
			if !f() {
				t.Fatal(name + " does not know the token")
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations, none are allowed", name, n)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	a := newAuthority(b, newStub("a", "rsa", "ed"))
	text := token("a", nil, nil)
	copied := string([]byte(text))
	ctx := b.Context()
	b.Run("last", func(b *testing.B) {
		b.ReportAllocs()
		var last Last
		for b.Loop() {
			if _, err := last.Verify(ctx, a, copied, server); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("shared", func(b *testing.B) {
		b.ReportAllocs()
		var last Last
		for b.Loop() {
			if _, err := last.Verify(ctx, a, text, server); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("table", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := a.Verify(ctx, copied, server); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("valid", func(b *testing.B) {
		v, err := a.Verify(ctx, text, server)
		if err != nil {
			b.Fatal(err)
		}
		now := time.Now()
		for b.Loop() {
			if !v.Valid(now) {
				b.Fatal("the token has ended")
			}
		}
	})
	for _, name := range []string{"a", "rsa", "ed"} {
		b.Run("first/"+pairs()[name].alg, func(b *testing.B) {
			b.ReportAllocs()
			text := token(name, nil, nil)
			for b.Loop() {
				if _, r := a.verifySigned(ctx, text, server); r != nil {
					b.Fatal(r)
				}
			}
		})
	}
}

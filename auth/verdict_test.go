package auth

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestVerdictsAreBounded fills the table: it keeps those that are used, and never more than it may.
func TestVerdictsAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Now()
	table := newVerdicts(100)
	name := func(n int) verdictKey { return verdictKey{resource: fmt.Sprint(n)} }
	v := &Verdict{ends: now.Add(time.Hour)}
	for n := range 10_000 {
		table.addVerdict(name(n), v)
		if l := table.len(); l > 100 {
			t.Fatalf("%d verdicts are kept", l)
		}
		if found(table, name(0), now) != v {
			t.Fatalf("a verdict that is used is forgotten after %d others", n)
		}
	}
	for n := 10_000 - 49; n < 10_000; n++ {
		if found(table, name(n), now) != v {
			t.Errorf("the verdict %d is forgotten", n)
		}
	}
	if found(table, name(1), now) != nil || found(table, name(0), v.ends) != nil || found(table, name(0), now) != nil {
		t.Error("a verdict is found that is old, or does not hold")
	}
}

// TestTokensAreTakenApart by the server that they came to.
func TestTokensAreTakenApart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := newAuthority(t, newStub("a"))
		text := token("a", nil, nil)
		first := expect(t, a, text, "200")
		if second := expect(t, a, text, "200"); second != first {
			t.Error("the token was verified twice")
		}
		if _, err := a.Verify(t.Context(), text, public+"/other"); outcome(err) != "401 audience" {
			t.Errorf("at another server: %v", err)
		}
		var last Last
		for range 2 {
			if _, err := last.Verify(t.Context(), a, text, server); err != nil {
				t.Error(err)
			}
			if _, err := last.Verify(t.Context(), a, text, public+"/other"); outcome(err) != "401 audience" {
				t.Errorf("at another server of the connection: %v", err)
			}
			if _, err := last.Verify(t.Context(), a, text+"x", server); outcome(err) != "401 malformed" && outcome(err) != "401 signature" {
				t.Errorf("a longer token: %v", err)
			}
			bob := token("a", nil, members{"sub": "bob"})
			if v, err := last.Verify(t.Context(), a, bob, server); err != nil || v.Subject != "bob" {
				t.Errorf("the token of another over the same connection: %v, %v", v, err)
			}
		}
		if _, err := last.Verify(t.Context(), a, text, server); err != nil {
			t.Error(err)
		}
		other := newAuthority(t, newStub("b"))
		if _, err := last.Verify(t.Context(), other, text, server); outcome(err) != "401 key" {
			t.Errorf("for another authority: %v", err)
		}
		if (*Verdict)(nil).Valid(time.Now()) {
			t.Error("no verdict holds")
		}
	})
}

// TestNoTokenIsKept looks for a token in all that a verdict, a table and a log have.
func TestNoTokenIsKept(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := newAuthority(t, newStub("a"))
		text := token("a", nil, nil)
		v := expect(t, a, text, "200")
		var keys []string
		for k := range a.verdicts.all.new {
			keys = append(keys, fmt.Sprintf("%+v %s", k, k.token))
		}
		for _, part := range strings.Split(text, ".") {
			if s := fmt.Sprintf("%+v %q", v.Identity, keys); strings.Contains(s, part) {
				t.Errorf("%s has the token", s)
			}
		}
	})
}

// TestManyAtOnce verifies tokens from many goroutines while keys come and go.
func TestManyAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStub("a", "b")
		answering(s, nil)
		a := newAuthority(t, s, asking)
		var wg sync.WaitGroup
		var last Last
		for n := range 50 {
			wg.Go(func() {
				for range 20 {
					text := token("a", nil, members{"sub": fmt.Sprint("user", n), "iat": fromNow(-time.Hour)})
					v, err := last.Verify(t.Context(), a, text, server)
					if err != nil || v.Subject != fmt.Sprint("user", n) {
						t.Errorf("%v, %v", v, err)
					}
					if _, err := a.Verify(t.Context(), fmt.Sprint("opaque", n), server); err != nil {
						t.Error(err)
					}
					if _, err := a.Verify(t.Context(), token("c", nil, nil), server); err == nil {
						t.Error("a key that is not there has signed it")
					}
					time.Sleep(time.Minute)
				}
			})
		}
		wg.Go(func() {
			for n := range 20 {
				s.set(keysURL, page{body: keySetOf([]string{"a", "b"}[:1+n%2]...), delay: time.Second})
				time.Sleep(time.Minute)
			}
		})
		wg.Wait()
	})
}

func found(t *verdicts, k verdictKey, now time.Time) *Verdict {
	v, _ := t.findVerdict(k, now)
	return v
}

func (t *verdicts) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.all.new) + len(t.all.old)
}

// TestKnown has tokens that are remembered, and those about which something would have to be found out: nobody is asked.
func TestKnown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStub("a")
		a := newAuthority(t, s, asking)
		answering(s, members{"active": false})
		at := a.Resource("/mcp", "", nil)
		text := token("a", nil, members{"exp": fromNow(time.Minute)})
		header := func(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }
		var last, other Last
		nothing := func(what string, h http.Header) {
			t.Helper()
			asked := len(s.asked)
			if v := a.Known(h, at, &last); v != nil || len(s.asked) != asked {
				t.Errorf("%s is known: %v", what, v)
			}
		}
		nothing("a new token", header(text))
		nothing("no token", nil)
		nothing("another scheme", http.Header{"Authorization": {"Basic x"}})
		v, err := a.Authenticate(t.Context(), header(text), at, &last)
		if err != nil {
			t.Fatal(err)
		}
		nothing("two credentials", http.Header{"Authorization": {"Bearer " + text, "Bearer " + text}})
		nothing("a token of another server", http.Header{"Authorization": {"Bearer " + text + "x"}})
		if w := a.Known(header(text), a.Resource("/other", "", nil), &last); w != nil {
			t.Errorf("the token is known at another server: %v", w)
		}
		a.verdicts = newVerdicts(2)
		if w := a.Known(header(text), at, &last); w != v {
			t.Errorf("the last token of the connection: %v", w)
		}
		nothing("a token that is forgotten", header(token("a", nil, nil)))
		a.verdicts.addVerdict(verdictKey{sha256.Sum256([]byte(text)), at.URL()}, v)
		for _, l := range []*Last{&other, nil} {
			if w := a.Known(header(text), at, l); w != v {
				t.Errorf("a token of the table: %v", w)
			}
		}
		a.verdicts = newVerdicts(2)
		if w := a.Known(header(text), at, &other); w != v {
			t.Errorf("a token of the table is not the connection's last one: %v", w)
		}
		if _, err := a.Authenticate(t.Context(), header("opaque"), at, nil); outcome(err) != "401 inactive" {
			t.Error(err)
		}
		nothing("a token that is refused", header("opaque"))
		time.Sleep(time.Minute + Leeway)
		nothing("a token that has ended", header(text))
	})
}

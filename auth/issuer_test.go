package auth

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// inBubble runs a test in virtual time, with the keys made outside of it.
func inBubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	pairs()
	synctest.Test(t, f)
}

// TestLeeway looks at each second around the ends of a token.
func TestLeeway(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := newAuthority(t, newStub("a"))
		early := token("a", nil, members{"nbf": fromNow(time.Minute)})
		ahead := token("a", nil, members{"iat": fromNow(time.Minute)})
		ends := token("a", nil, members{"exp": fromNow(time.Minute)})
		v := expect(t, a, ends, "200")
		time.Sleep(29 * time.Second)
		expect(t, a, early, "401 early")
		expect(t, a, ahead, "401 early")
		time.Sleep(time.Second)
		expect(t, a, early, "200")
		expect(t, a, ahead, "200")
		time.Sleep(time.Minute - 1)
		if expect(t, a, ends, "200"); !v.Valid(time.Now()) || !v.Expires.Add(Leeway).Equal(time.Now().Add(1)) {
			t.Errorf("a verdict of %v does not hold", v.Expires)
		}
		time.Sleep(time.Nanosecond)
		if expect(t, a, ends, "401 expired"); v.Valid(time.Now()) {
			t.Error("a verdict holds after the token's end")
		}
		expect(t, newAuthority(t, newStub("a")), ends, "401 expired")
	})
}

// TestFetchedWhenATokenComes asks an issuer for nothing before a token that could count.
func TestFetchedWhenATokenComes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStub("a")
		a := newAuthority(t, s)
		time.Sleep(48 * time.Hour)
		expect(t, a, token("a", nil, members{"iss": "https://evil.example.com"}), "401 issuer")
		expect(t, a, token("a", nil, members{"aud": public + "/other"}), "401 audience")
		expect(t, a, token("a", members{"alg": "HS256"}, nil), "401 algorithm")
		expect(t, a, token("a", nil, members{"exp": 1}), "401 expired")
		if len(s.asked) != 0 {
			t.Errorf("%q were asked for", s.asked)
		}
		expect(t, a, token("a", nil, nil), "200")
		if s.count(keysURL) != 1 || s.count(oauthURL) != 1 {
			t.Errorf("%q were asked for", s.asked)
		}
	})
}

// TestRotation replaces keys with and without an overlap.
func TestRotation(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStub("a")
		a := newAuthority(t, s)
		expect(t, a, token("a", nil, nil), "200")
		time.Sleep(time.Minute)
		s.set(keysURL, page{body: keySetOf("a", "b")})
		expect(t, a, token("b", nil, nil), "200")
		expect(t, a, token("a", nil, nil), "200")
		if n := s.count(keysURL); n != 2 {
			t.Errorf("%d fetches, want 2", n)
		}
		time.Sleep(time.Minute)
		old := token("a", nil, nil)
		v := expect(t, a, old, "200")
		s.set(keysURL, page{body: keySetOf("c")})
		expect(t, a, token("c", nil, nil), "200")
		if v.Valid(time.Now()) {
			t.Error("a verdict of a key that is gone holds")
		}
		expect(t, a, old, "401 key")
		expect(t, a, token("b", nil, nil), "401 key")
		time.Sleep(time.Nanosecond)
		expect(t, a, token("b", nil, nil), "503 key") // as the issuer may have it again since
	})
}

// TestRotationWithoutKeyIDs has an issuer whose tokens do not say which key has signed them.
func TestRotationWithoutKeyIDs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStub("a")
		a := newAuthority(t, s)
		expect(t, a, token("a", members{"kid": nil}, nil), "200")
		time.Sleep(time.Minute)
		s.set(keysURL, page{body: keySetOf("b")})
		expect(t, a, token("b", members{"kid": nil}, nil), "200")
		time.Sleep(time.Nanosecond)
		expect(t, a, token("a", members{"kid": nil}, members{"iat": fromNow(-time.Minute)}), "401 key")
		if n := s.count(keysURL); n != 2 {
			t.Errorf("%d fetches, want 2", n)
		}
	})
}

// TestNewTokenSoonAfterAFetch has an issuer make a key a moment after it was asked: the token is told to come again, and not that it does not count.
func TestNewTokenSoonAfterAFetch(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStub("a")
		a := newAuthority(t, s)
		expect(t, a, token("a", nil, nil), "200")
		time.Sleep(3 * time.Second)
		s.set(keysURL, page{body: keySetOf("a", "b")})
		_, err := a.Verify(t.Context(), token("b", nil, nil), server)
		r, _ := errors.AsType[*Refusal](err)
		if r == nil || r.Status != http.StatusServiceUnavailable || r.RetryAfter != 7*time.Second || r.Code != "" {
			t.Fatalf("got %v, want a 503 for 7 seconds", err)
		}
		time.Sleep(r.RetryAfter)
		expect(t, a, token("b", nil, nil), "200")
	})
}

// TestRemovedKey has an issuer take a key out: within one refresh nothing counts that it has signed, whoever remembers it.
func TestRemovedKey(t *testing.T) {
	for name, header := range map[string]http.Header{"5m": {"Cache-Control": {"max-age=1"}}, "15m": nil, "1h": {"Cache-Control": {"public, max-age=86400"}}} {
		interval, err := time.ParseDuration(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newStub()
				s.set(keysURL, page{header: header, body: keySetOf("a", "b")})
				a := newAuthority(t, s)
				long, other := token("a", nil, members{"exp": fromNow(10 * time.Hour)}), token("b", nil, members{"exp": fromNow(10 * time.Hour)})
				v, w := expect(t, a, long, "200"), expect(t, a, other, "200")
				var last Last
				if _, err := last.Verify(t.Context(), a, long, server); err != nil {
					t.Fatal(err)
				}
				s.set(keysURL, page{header: header, body: keySetOf("b")})
				time.Sleep(interval - 1)
				if !v.Valid(time.Now()) {
					t.Error("the issuer was asked too early")
				}
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				if v.Valid(time.Now()) || !w.Valid(time.Now()) {
					t.Errorf("the verdicts hold: %v, %v; want the second", v.Valid(time.Now()), w.Valid(time.Now()))
				}
				if _, err := last.Verify(t.Context(), a, long, server); outcome(err) != "401 key" {
					t.Errorf("a connection that remembers: %v", err)
				}
				expect(t, a, long, "401 key")
				expect(t, a, other, "200")
				if n := a.verdicts.len(); n != 1 {
					t.Errorf("%d verdicts are kept", n)
				}
			})
		})
	}
}

// TestRandomKeyIDs sends 10,000 tokens with random kids within a minute.
func TestRandomKeyIDs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStub("a")
		s.set(keysURL, page{body: keySetOf("a"), delay: 200 * time.Millisecond})
		a := newAuthority(t, s)
		good := token("a", nil, nil)
		var wg sync.WaitGroup
		var mu sync.Mutex
		outcomes := map[string]int{}
		text := strings.Split(token("a", nil, nil), ".")
		for n := range 10_000 {
			wg.Go(func() {
				time.Sleep(time.Duration(n) * 6 * time.Millisecond)
				head := strictBase64.EncodeToString([]byte(fmt.Sprintf(`{"alg":"ES256","kid":"%d"}`, n)))
				_, err := a.Verify(t.Context(), head+"."+text[1]+"."+text[2], server)
				mu.Lock()
				defer mu.Unlock()
				outcomes[outcome(err)]++
			})
		}
		wg.Go(func() {
			for range 59 {
				expect(t, a, good, "200")
				time.Sleep(time.Second)
			}
		})
		wg.Wait()
		if n := s.count(keysURL); n > 6 || n < 5 {
			t.Errorf("%d fetches, want 6 at most", n)
		}
		if outcomes["401 key"] == 0 || outcomes["401 key"]+outcomes["503 key"] != 10_000 {
			t.Errorf("outcomes are %v", outcomes)
		}
	})
}

// TestOneRequest has 100 tokens wait for one fetch, the first one and one for an unknown key.
func TestOneRequest(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStub("a")
		s.set(keysURL, page{body: keySetOf("a"), delay: time.Second})
		a := newAuthority(t, s)
		for _, name := range []string{"a", "b"} {
			var wg sync.WaitGroup
			for range 100 {
				wg.Go(func() { expect(t, a, token(name, nil, nil), "200") })
			}
			wg.Wait()
			s.set(keysURL, page{body: keySetOf("a", "b"), delay: time.Second})
			time.Sleep(time.Minute)
		}
		if n := s.count(keysURL); n != 2 {
			t.Errorf("%d fetches, want 2", n)
		}
	})
}

// TestOutage has an issuer down for a day. A process starts in the middle of it.
func TestOutage(t *testing.T) {
	for name, fault := range map[string]page{"refuses": {err: errDown}, "500": {status: 500}, "404": {status: 404}, "hangs": {delay: time.Hour}, "a page": {body: "<html>"}, "another set": {body: `{"error":"x"}`}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s, c := newStub("a"), &memoryCache{}
				cached := func(of *Config) { of.Cache = c }
				a := newAuthority(t, s, cached)
				long := token("a", nil, members{"exp": fromNow(100 * time.Hour)})
				v := expect(t, a, long, "200")
				if name != "a page" && name != "another set" {
					s.set(oauthURL, fault)
				}
				s.set(keysURL, fault)
				var again *Authority
				for hour := range 24 {
					expect(t, a, long, "200")
					expect(t, a, token("a", nil, nil), "200")
					if again != nil {
						expect(t, again, long, "200")
						expect(t, again, token("a", nil, nil), "200")
					}
					if hour == 12 {
						again = newAuthority(t, s, cached)
						expect(t, again, token("a", nil, nil), "200")
						expect(t, again, token("b", nil, nil), "503 key")
					}
					if hour < 23 {
						time.Sleep(time.Hour)
					}
				}
				if !v.Valid(time.Now()) {
					t.Error("a verdict does not hold during the outage")
				}
				time.Sleep(time.Hour)
				if v.Valid(time.Now()) {
					t.Error("a verdict holds after a day")
				}
				fresh := newAuthority(t, s, cached)
				for _, a := range []*Authority{a, again, fresh} {
					for _, text := range []string{long, token("a", nil, nil), token("b", nil, nil)} {
						_, err := a.Verify(t.Context(), text, server)
						r, _ := errors.AsType[*Refusal](err)
						if r == nil || r.Status != 503 || r.Reason != ReasonUnavailable || r.RetryAfter < time.Second || r.RetryAfter > spacing {
							t.Errorf("after a day: %v", err)
						}
					}
				}
				s.set(oauthURL, page{body: encoded(members{"issuer": issuerURL, "jwks_uri": keysURL})})
				s.set(keysURL, page{body: keySetOf("a")})
				time.Sleep(maxBackoff)
				synctest.Wait()
				if expect(t, a, long, "200"); !v.Valid(time.Now()) {
					t.Error("a verdict does not hold again")
				}
				expect(t, fresh, long, "200")
			})
		})
	}
}

// TestOutageAtStart has no keys at all.
func TestOutageAtStart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStub("a")
		s.setDown(errDown)
		var l logged
		a := newAuthority(t, s, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&l, nil)) })
		for range 600 {
			expect(t, a, token("a", nil, nil), "503 unavailable")
			time.Sleep(100 * time.Millisecond)
		}
		if n := s.count(oauthURL); n > 6 {
			t.Errorf("%d fetches in a minute", n)
		}
		if !strings.Contains(l.String(), "the keys of an issuer cannot be fetched") || !strings.Contains(l.String(), "connection refused") {
			t.Errorf("the log is %s", l.String())
		}
		s.setDown(nil)
		time.Sleep(spacing)
		expect(t, a, token("a", nil, nil), "200")
		synctest.Wait() // for the log
		if !strings.Contains(l.String(), "fetched again") {
			t.Errorf("the log is %s", l.String())
		}
	})
}

// TestCacheIsShared has a second process take fresh keys without a request, and newer ones when the issuer does not answer it.
func TestCacheIsShared(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, c := newStub("a"), &memoryCache{}
		cached := func(of *Config) { of.Cache = c }
		first := newAuthority(t, s, cached)
		expect(t, first, token("a", nil, nil), "200")
		synctest.Wait() // for the cache
		second := newAuthority(t, s, cached)
		expect(t, second, token("a", nil, nil), "200")
		if n := s.count(keysURL); n != 1 {
			t.Errorf("%d fetches, want 1", n)
		}
		s.set(keysURL, page{body: keySetOf("b")})
		expect(t, second, token("b", nil, nil), "200") // fresh keys do not stand for a fetch
		if n := s.count(keysURL); n != 2 {
			t.Errorf("%d fetches, want 2", n)
		}

		synctest.Wait()
		apart := newStub("a")
		third := newAuthority(t, apart, func(of *Config) { of.Cache = c })
		expect(t, third, token("b", nil, nil), "200")
		old := expect(t, third, token("b", nil, members{"exp": fromNow(10 * time.Hour)}), "200")
		apart.setDown(errDown)
		s.set(keysURL, page{body: keySetOf("c")})
		time.Sleep(time.Hour)
		synctest.Wait()
		expect(t, third, token("c", nil, nil), "200")
		if old.Valid(time.Now()) {
			t.Error("a verdict holds whose key another process has seen gone")
		}
	})
}

// TestCacheThatIsNotOurs has records of something else, and a cache that fails: the issuer is asked.
func TestCacheThatIsNotOurs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		record := func(change members) []byte {
			return []byte(encoded(members{"issuer": issuerURL, "fetched": time.Now(), "interval": time.Hour, "keys": []byte(keySetOf("b"))}.with(change)))
		}
		for name, data := range map[string][]byte{
			"good": record(nil), "another issuer": record(members{"issuer": "https://evil.example.com"}), "from another place": record(members{"from": "https://old.example.com/keys"}),
			"old": record(members{"fetched": time.Now().Add(-lastGood)}), "broken": []byte("{"), "no keys": record(members{"keys": []byte("{}")}), "empty": {},
		} {
			s := newStub("a")
			a := newAuthority(t, s, func(c *Config) { c.Cache = &memoryCache{records: map[string][]byte{issuerURL: data}} })
			if name == "good" {
				expect(t, a, token("b", nil, nil), "200")
				continue
			}
			if _, err := a.Verify(t.Context(), token("b", nil, nil), server); outcome(err) != "401 key" {
				t.Errorf("%s: %v", name, err)
			}
			if expect(t, a, token("a", nil, nil), "200"); s.count(keysURL) != 1 {
				t.Errorf("%s: %d fetches", name, s.count(keysURL))
			}
		}
		a := newAuthority(t, newStub("a"), func(c *Config) { c.Cache = &memoryCache{err: errDown} })
		expect(t, a, token("a", nil, nil), "200")
		a = newAuthority(t, newStub("a"), func(c *Config) { c.Cache = panics{} })
		expect(t, a, token("a", nil, nil), "200")
	})
}

// panics is a KeyCache that panics.
type panics struct{ KeyCache }

// TestKeysOfOtherPlaces takes keys from a URL and from a file.
func TestKeysOfOtherPlaces(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStub()
		s.set("https://keys.example.com/set", page{body: keySetOf("a")})
		a := newAuthority(t, s, func(c *Config) { c.Issuers[0].Keys = "https://keys.example.com/set" })
		expect(t, a, token("a", nil, nil), "200")
		if len(s.asked) != 1 {
			t.Errorf("%q were asked for", s.asked)
		}
		if _, err := a.IssuerMetadata(t.Context()); !errors.Is(err, ErrNoMetadata) {
			t.Errorf("metadata: %v", err)
		}

		path := filepath.Join(t.TempDir(), "keys.json")
		write := func(text string) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c := &memoryCache{}
		a = newAuthority(t, s, func(of *Config) { of.Issuers[0].Keys, of.Cache = path, c })
		expect(t, a, token("a", nil, nil), "503 unavailable")
		write(keySetOf("a"))
		time.Sleep(spacing)
		expect(t, a, token("a", nil, nil), "200")
		long := token("a", nil, members{"exp": fromNow(time.Hour)})
		expect(t, a, long, "200")
		write(keySetOf("b"))
		time.Sleep(minInterval)
		synctest.Wait()
		expect(t, a, long, "401 key")
		write(strings.Repeat(" ", maxDocument+1))
		time.Sleep(minInterval)
		synctest.Wait()
		expect(t, a, token("b", nil, nil), "200")
		if c.stored != 0 {
			t.Error("the keys of a file were stored")
		}
	})
}

// TestKeysOfAFile has tokens of keys that a file has got a moment ago count at once, others be refused for good, and a file that is broken and mended serve again within two seconds.
func TestKeysOfAFile(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "keys.json")
		write := func(text string) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(keySetOf("a"))
		a := newAuthority(t, newStub(), func(of *Config) { of.Issuers[0].Keys = path })
		expect(t, a, token("a", nil, nil), "200")
		time.Sleep(time.Millisecond)
		expect(t, a, token("b", nil, nil), "401 key")
		write(keySetOf("a", "b"))
		time.Sleep(time.Millisecond)
		expect(t, a, token("b", nil, nil), "200")
		write("{bad")
		time.Sleep(time.Millisecond)
		expect(t, a, token("c", nil, nil), "503 key")
		expect(t, a, token("a", nil, members{"jti": "another"}), "200")
		write(keySetOf("c"))
		time.Sleep(fileSpacing)
		expect(t, a, token("c", nil, nil), "200")
	})
}

// TestEmptySet has an issuer take all keys out: nothing counts, and that is no 401.
func TestEmptySet(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStub("a")
		a := newAuthority(t, s)
		v := expect(t, a, token("a", nil, nil), "200")
		s.set(keysURL, page{body: `{"keys":[]}`})
		time.Sleep(interval)
		synctest.Wait()
		if v.Valid(time.Now()) {
			t.Error("a verdict of a key that is gone holds")
		}
		expect(t, a, token("a", nil, nil), "503 unavailable")
	})
}

// TestClose ends a fetch under way, and those who wait for it. What is known stays so.
func TestClose(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStub("a")
		a := newAuthority(t, s)
		expect(t, a, token("a", nil, nil), "200")
		s.set(keysURL, page{delay: time.Hour})
		time.Sleep(time.Minute)
		began := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() { expect(t, a, token("b", nil, nil), "503 key") })
		synctest.Wait()
		a.Close()
		wg.Wait()
		a.Close()
		if time.Since(began) > 0 {
			t.Errorf("it took %v", time.Since(began))
		}
		expect(t, a, token("a", nil, nil), "200")
		time.Sleep(spacing)
		expect(t, a, token("b", nil, nil), "503 unavailable")
		n := s.count(keysURL)
		if time.Sleep(3 * time.Hour); s.count(keysURL) != n {
			t.Error("it fetches after its end")
		}
	})
}

// TestCallerThatLeaves ends the wait of one caller. The fetch goes on for the others.
func TestCallerThatLeaves(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStub("a")
		s.set(keysURL, page{body: keySetOf("a"), delay: 2 * time.Second})
		a := newAuthority(t, s)
		ctx, cancel := contextFor(t, time.Second)
		defer cancel()
		if _, err := a.Verify(ctx, token("a", nil, nil), server); outcome(err) != "503 unavailable" {
			t.Errorf("got %v", err)
		}
		expect(t, a, token("a", nil, nil), "200")
		if n := s.count(keysURL); n != 1 {
			t.Errorf("%d fetches, want 1", n)
		}
	})
}

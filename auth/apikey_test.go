package auth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestTheFormOfAPIKeys makes keys: each is another one, has the form that the documentation names, and no other text has it.
func TestTheFormOfAPIKeys(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^trp_[0-9A-Za-z]{49}$`)
	seen := make(map[string]bool)
	for range 1000 {
		key := newKey(t)
		d, ok := DigestAPIKey(key)
		if !form.MatchString(key) || seen[key] || !ok || d != sha256.Sum256([]byte(key)) {
			t.Fatalf("%q: seen %v, %v, %x", key, seen[key], ok, d)
		}
		seen[key] = true
	}
	zero, err := NewAPIKey(bytes.NewReader(make([]byte, 64)))
	if want := "trp_" + strings.Repeat("0", 43) + "4XCeYP"; err != nil || zero != want {
		t.Errorf("of zeros: %q, %v; want %q", zero, err, want)
	}
	if _, err := NewAPIKey(bytes.NewReader(make([]byte, 63))); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("without enough random bytes: %v", err)
	}
	for i := range zero {
		for _, c := range "1z-" {
			other := zero[:i] + string(c) + zero[i+1:]
			if _, ok := DigestAPIKey(other); ok {
				t.Errorf("%q counts, which has another character at %d", other, i)
			}
		}
	}
	for _, bad := range []string{"", "trp_", zero[4:], zero + "0", zero[:len(zero)-1], "TRP_" + zero[4:]} {
		if _, ok := DigestAPIKey(bad); ok {
			t.Errorf("%q counts", bad)
		}
	}
}

// TestCharactersOfAPIKeysAreAlike counts them: each of the 62 is as likely as any other.
func TestCharactersOfAPIKeysAreAlike(t *testing.T) {
	t.Parallel()
	random := rand.NewChaCha8([32]byte{})
	n := make(map[byte]int)
	for range 4000 {
		key, err := NewAPIKey(random)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []byte(key[len(APIKeyPrefix) : len(APIKeyPrefix)+keyRandom]) {
			n[c]++
		}
	}
	least, most := 1<<30, 0
	for _, c := range []byte(base62) {
		least, most = min(least, n[c]), max(most, n[c])
	}
	if len(n) != 62 || most-least > most/5 {
		t.Errorf("%d characters, from %d to %d times", len(n), least, most)
	}
}

func newKey(t testing.TB) string {
	t.Helper()
	key, err := NewAPIKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// keyStub is a store of keys in memory.
type keyStub struct {
	mu    sync.Mutex
	keys  map[KeyDigest]APIKey
	away  error
	slow  time.Duration
	finds int
	most  int // look-ups at once
	at    int
	used  []time.Time
}

func (s *keyStub) Find(ctx context.Context, d KeyDigest) (*APIKey, error) {
	s.mu.Lock()
	s.finds++
	s.at++
	s.most = max(s.most, s.at)
	slow, away := s.slow, s.away
	k, ok := s.keys[d]
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.at--
		s.mu.Unlock()
	}()
	if slow > 0 {
		select {
		case <-time.After(slow):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	switch {
	case away != nil:
		return nil, away
	case !ok:
		return nil, ErrNoKey
	}
	return &k, nil
}

func (s *keyStub) Used(_ context.Context, d KeyDigest, day time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away != nil {
		return s.away
	}
	s.used = append(s.used, day)
	k := s.keys[d]
	k.Used = day
	s.keys[d] = k
	return nil
}

// change changes the key of a text, and makes it if it is not there.
func (s *keyStub) change(text string, f func(*APIKey)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, _ := DigestAPIKey(text)
	k, ok := s.keys[d]
	if !ok {
		k = APIKey{ID: "k1", Name: "CI", Scopes: []string{"files:read"}, Created: time.Now()}
	}
	f(&k)
	s.keys[d] = k
}

func (s *keyStub) set(away error, slow time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away, s.slow = away, slow
}

func (s *keyStub) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.finds
}

// withKeys returns an Authority for keys alone, a store, and a key that is in it.
func withKeys(t testing.TB) (*Authority, *keyStub, string) {
	t.Helper()
	s := &keyStub{keys: make(map[KeyDigest]APIKey)}
	a, err := New(Config{APIKeys: s, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	key := newKey(t)
	s.change(key, func(*APIKey) {})
	return a, s, key
}

// TestAPIKeys verifies keys: whose they are, and why they do not count.
func TestAPIKeys(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a, s, key := withKeys(t)
		ends := time.Now().Add(time.Hour)
		s.change(key, func(k *APIKey) { k.Servers, k.Expires = []string{"/mcp"}, ends })
		v := expect(t, a, key, "200")
		if v.Issuer != KeyIssuer || v.Subject != "k1" || v.Client != "k1" || !v.Machine || !slices.Equal(v.Scopes, []string{"files:read"}) || !v.Ends().Equal(ends) {
			t.Errorf("whose it is: %+v", v.Identity)
		}
		if !v.Serves("main", "/mcp") || v.Serves("main") || v.Serves() {
			t.Errorf("it is for %q", v.Servers)
		}
		expect(t, a, key[:len(key)-1]+"!", "401 malformed")
		expect(t, a, key[:len(key)-1], "401 malformed")
		expect(t, a, newKey(t), "401 key_unknown")
		time.Sleep(time.Hour - time.Nanosecond)
		expect(t, a, key, "200")
		time.Sleep(time.Nanosecond)
		if v.Valid(time.Now()) {
			t.Error("the verdict holds longer than the key")
		}
		expect(t, a, key, "401 expired")
		_, err := a.Verify(t.Context(), key, server)
		var log bytes.Buffer
		slog.New(slog.NewJSONHandler(&log, nil)).Info("refused", slog.Any("refusal", err))
		if !strings.Contains(log.String(), `"reason":"expired","status":401,"key":{"id":"k1","name":"CI","expired":`) {
			t.Errorf("a log has of a key that has expired: %s", &log)
		}
		s.change(key, func(k *APIKey) { k.Expires = time.Time{} })
		time.Sleep(time.Minute)
		if v := expect(t, a, key, "200"); !v.Ends().IsZero() || !v.Valid(time.Now()) {
			t.Errorf("a key without an end: %v", v.Ends())
		}
		n := s.count()
		a.Close()
		expect(t, a, key, "200") // as it was found
		expect(t, a, newKey(t), "503 unavailable")
		if s.count() != n {
			t.Error("a closed authority has asked")
		}
	})
}

// TestAPIKeysAreNoTokens: without a store, and with an issuer, they are like any other token.
func TestAPIKeysAreNoTokens(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := newAuthority(t, newStub("a"))
		expect(t, a, newKey(t), "401 malformed")
		both, s, key := newAuthorityWithKeys(t)
		expect(t, both, key, "200")
		expect(t, both, token("a", nil, nil), "200")
		if s.count() != 1 {
			t.Errorf("%d look-ups of a token and a key", s.count())
		}
		alone, _, _ := withKeys(t)
		expect(t, alone, token("a", nil, nil), "401 issuer")
		if _, err := alone.IssuerMetadata(t.Context()); !errors.Is(err, ErrNoMetadata) {
			t.Errorf("metadata of no issuer: %v", err)
		}
	})
}

func newAuthorityWithKeys(t testing.TB) (*Authority, *keyStub, string) {
	s := &keyStub{keys: make(map[KeyDigest]APIKey)}
	key := newKey(t)
	s.change(key, func(*APIKey) {})
	return newAuthority(t, newStub("a"), func(c *Config) { c.APIKeys = s }), s, key
}

// TestRevokedAPIKeys are refused within 2 seconds, however often and seldom they come, by the table and by the connection.
func TestRevokedAPIKeys(t *testing.T) {
	for _, every := range []time.Duration{time.Millisecond, 300 * time.Millisecond, 999 * time.Millisecond, 1500 * time.Millisecond, time.Minute} {
		for _, slow := range []time.Duration{0, 400 * time.Millisecond, 900 * time.Millisecond} {
			inBubble(t, func(t *testing.T) {
				a, s, key := withKeys(t)
				s.set(nil, slow)
				var last Last
				verify := func() string {
					_, err := last.Verify(t.Context(), a, key, server)
					return outcome(err)
				}
				for began := time.Now(); time.Since(began) < 10*every; time.Sleep(every) {
					if got := verify(); got != "200" {
						t.Fatal(got)
					}
				}
				s.change(key, func(k *APIKey) { k.Revoked = time.Now() })
				revoked := time.Now()
				for {
					time.Sleep(every)
					asked := time.Now()
					got := verify()
					if got == "401 revoked" {
						break
					}
					if asked.Sub(revoked) >= 2*time.Second || time.Since(revoked) > 2*time.Second {
						t.Fatalf("every %v, with %v for a look-up: %s %v after it was revoked", every, slow, got, asked.Sub(revoked))
					}
				}
				time.Sleep(time.Hour)
				if got := verify(); got != "401 revoked" {
					t.Errorf("an hour later: %s", got)
				}
			})
		}
	}
}

// TestAPIKeysCostLittle counts look-ups: one a second and key, which holds nobody up.
func TestAPIKeysCostLittle(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a, s, key := withKeys(t)
		v := expect(t, a, key, "200")
		s.set(nil, 300*time.Millisecond)
		for range 10_000 {
			asked := time.Now()
			if w := expect(t, a, key, "200"); w != v {
				t.Fatal("another verdict, though nothing has changed")
			}
			if took := time.Since(asked); took != 0 {
				t.Fatalf("a request waited %v", took)
			}
			time.Sleep(time.Millisecond)
		}
		if n := s.count(); n > 11 {
			t.Errorf("%d look-ups in 10 s", n)
		}
	})
}

// TestUnknownAPIKeysAreNoFlood asks the store about each once a second, about as many at a time as there are places, and forgets no key that there is.
func TestUnknownAPIKeysAreNoFlood(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a, s, key := withKeys(t)
		expect(t, a, key, "200")
		bad := newKey(t)
		n := s.count()
		for began := time.Now(); time.Since(began) < 5*time.Second; time.Sleep(time.Millisecond) {
			expect(t, a, bad, "401 key_unknown")
		}
		if n = s.count() - n; n > 5 {
			t.Errorf("%d look-ups of an unknown key in 5 s", n)
		}
		s.set(nil, 100*time.Millisecond)
		n = s.count()
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { expect(t, a, bad[:4]+bad[4:], "401 key_unknown") })
		}
		wg.Wait()
		if n = s.count() - n; n > 1 {
			t.Errorf("%d look-ups for 100 requests at once", n)
		}
		s.change(bad, func(k *APIKey) { k.ID = "k2" }) // somebody makes it
		time.Sleep(time.Second)
		expect(t, a, bad, "200")
		refused := make(map[string]int)
		var mu sync.Mutex
		for range 3000 {
			made := newKey(t)
			wg.Go(func() {
				_, err := a.Verify(t.Context(), made, server)
				mu.Lock()
				defer mu.Unlock()
				refused[outcome(err)]++
			})
		}
		synctest.Wait()
		asked := time.Now()
		expect(t, a, key, "200")
		if took := time.Since(asked); took > 200*time.Millisecond {
			t.Errorf("a known key waited %v", took)
		}
		wg.Wait()
		if refused["503 unavailable"] < 3000-maxFirst || refused["401 key_unknown"] == 0 || len(refused) != 2 || s.most > 2*findsAtOnce {
			t.Errorf("of 3000 unknown keys at once: %v, with %d look-ups at once", refused, s.most)
		}
		time.Sleep(5 * time.Second)
		for range 3 * maxUnknown {
			expect(t, a, newKey(t), "401 key_unknown")
		}
		if l := len(a.keys.unknown.new) + len(a.keys.unknown.old); l > maxUnknown {
			t.Errorf("%d unknown keys are remembered", l)
		}
		s.set(errors.New("away"), 0)
		expect(t, a, key, "200")
	})
}

// TestTheStoreOfAPIKeysIsAway: keys that are known count until they end, others are a 503, and one that was revoked meanwhile counts no more once the store is back.
func TestTheStoreOfAPIKeysIsAway(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a, s, key := withKeys(t)
		bad, gone := newKey(t), newKey(t)
		ends := time.Now().Add(48 * time.Hour)
		s.change(key, func(k *APIKey) { k.Expires = ends })
		s.change(gone, func(k *APIKey) { k.Revoked = time.Now() })
		expect(t, a, key, "200")
		expect(t, a, bad, "401 key_unknown")
		expect(t, a, gone, "401 revoked")
		for _, slow := range []time.Duration{0, time.Minute} { // an error, or no answer
			s.set(errors.New("away"), slow)
			time.Sleep(3 * time.Second)
			asked, waited := time.Now(), time.Duration(0)
			for range 1000 {
				began := time.Now()
				expect(t, a, key, "200")
				waited += time.Since(began)
				time.Sleep(10 * time.Millisecond)
			}
			expect(t, a, gone, "401 revoked")
			expect(t, a, bad, "503 unavailable")
			expect(t, a, newKey(t), "503 unavailable")
			if waited > keyAgain+time.Millisecond {
				t.Errorf("requests waited %v in %v without the store", waited, time.Since(asked))
			}
		}
		time.Sleep(24 * time.Hour)
		expect(t, a, key, "200")
		s.change(key, func(k *APIKey) { k.Revoked = time.Now() })
		s.set(nil, 0)
		time.Sleep(2 * time.Second)
		expect(t, a, key, "401 revoked")
		expect(t, a, bad, "401 key_unknown")
		s.set(errors.New("away"), 0)
		time.Sleep(30 * time.Hour)
		expect(t, a, key, "401 revoked")
		s.set(nil, 0)
		s.change(key, func(k *APIKey) { k.Revoked = time.Time{} })
		time.Sleep(5 * time.Second)
		expect(t, a, key, "401 expired")
	})
}

// TestAPIKeysThatPanic: neither a panic of the store nor a key without an id ends the process, or counts.
func TestAPIKeysThatPanic(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for name, find := range map[string]finder{
			"a panic": func() (*APIKey, error) { panic("no") },
			"no key":  func() (*APIKey, error) { return nil, nil },
			"no id":   func() (*APIKey, error) { return &APIKey{}, nil },
			"stored":  func() (*APIKey, error) { return StoredKeys.Find(context.Background(), KeyDigest{}) },
		} {
			a, err := New(Config{APIKeys: find, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := a.Verify(t.Context(), newKey(t), server); outcome(err) != "503 unavailable" {
				t.Errorf("%s: %v", name, err)
			}
			a.Close()
		}
	})
}

type finder func() (*APIKey, error)

func (f finder) Find(context.Context, KeyDigest) (*APIKey, error) { return f() }

// TestWhenAPIKeysWereUsed notes the day, once a day, and never for a key that does not count.
func TestWhenAPIKeysWereUsed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a, s, key := withKeys(t)
		begins := utcDay(time.Now()).Add(24 * time.Hour)
		time.Sleep(time.Until(begins) - 10*time.Second)
		for range 300 {
			expect(t, a, key, "200")
			time.Sleep(100 * time.Millisecond)
		}
		if want := []time.Time{begins.Add(-24 * time.Hour), begins}; !slices.EqualFunc(s.used, want, time.Time.Equal) {
			t.Errorf("noted were %v, want %v", s.used, want)
		}
		other := newAuthorityOf(t, s) // of another process
		expect(t, other, key, "200")
		synctest.Wait()
		if len(s.used) != 2 {
			t.Errorf("it was noted again on that day: %v", s.used)
		}
		revoked := newKey(t)
		s.change(revoked, func(k *APIKey) { k.Revoked = time.Now() })
		expect(t, a, revoked, "401 revoked")
		synctest.Wait()
		if len(s.used) != 2 {
			t.Errorf("the use of a revoked key was noted: %v", s.used)
		}
	})
}

func newAuthorityOf(t testing.TB, s KeyStore) *Authority {
	t.Helper()
	a, err := New(Config{APIKeys: s, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

// TestChallengesForAPIKeys name no metadata, as there is no issuer to ask, and have a parameter all the same.
func TestChallengesForAPIKeys(t *testing.T) {
	t.Parallel()
	for _, public := range []string{"", "https://mcp.example.com"} {
		a, err := New(Config{APIKeys: StoredKeys, PublicURL: public, Scopes: []string{"files:read"}})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		r := a.Resource("/mcp", "", nil)
		if r.Metadata() != nil || r.URL() != public+"/mcp" {
			t.Errorf("at %q: %s, metadata %s", public, r.URL(), r.Metadata())
		}
		_, err = a.Authenticate(t.Context(), http.Header{}, r, nil)
		if no, _ := errors.AsType[*Refusal](err); no == nil || r.Challenge(no) != `Bearer realm="mcp", scope="files:read"` {
			t.Errorf("at %q: %v: %s", public, err, r.Challenge(no))
		}
		bad := http.Header{"Authorization": {"Bearer trp_x"}}
		_, err = a.Authenticate(t.Context(), bad, r, nil)
		if no, _ := errors.AsType[*Refusal](err); no == nil || r.Challenge(no) != `Bearer error="invalid_token", error_description="the access token is not valid for this server", realm="mcp", scope="files:read"` {
			t.Errorf("at %q: %v: %s", public, err, r.Challenge(no))
		}
	}
}

// FuzzAPIKey reads any text: what counts as a key has the form and the checksum of one.
func FuzzAPIKey(f *testing.F) {
	zero, err := NewAPIKey(bytes.NewReader(make([]byte, 64)))
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{"", "trp_", zero, zero[1:], zero + "0", strings.ToLower(zero), newKey(f)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, ok := DigestAPIKey(s)
		if !ok {
			if d != (KeyDigest{}) {
				t.Errorf("%q is no key and has the digest %x", s, d)
			}
			return
		}
		sum := computeChecksum([]byte(s[:len(s)-keyChecksum]))
		if !regexp.MustCompile(`^trp_[0-9A-Za-z]{49}$`).MatchString(s) || !strings.HasSuffix(s, string(sum[:])) || d != sha256.Sum256([]byte(s)) || !isToken(s) {
			t.Errorf("%q counts as a key", s)
		}
	})
}

// TestServersOfAPIKeys: a key for one server is refused at another, also by a connection and a table that know it.
func TestServersOfAPIKeys(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a, s, key := withKeys(t)
		s.change(key, func(k *APIKey) { k.Servers = []string{"main"} })
		mine, other := a.Resource("/mcp", "", nil, "main", "/mcp"), a.Resource("/other", "", nil, "other", "/other")
		header := http.Header{"Authorization": {"Bearer " + key}}
		var last Last
		for range 3 {
			for _, last := range []*Last{nil, &last} {
				if v, err := a.Authenticate(t.Context(), header, mine, last); err != nil || a.Known(header, mine, last) != v {
					t.Errorf("at its server: %v", err)
				}
				if _, err := a.Authenticate(t.Context(), header, other, last); outcome(err) != "401 audience" || a.Known(header, other, last) != nil {
					t.Errorf("at another server: %v", err)
				}
			}
			time.Sleep(time.Minute)
		}
		s.change(key, func(k *APIKey) { k.Revoked = time.Now() })
		time.Sleep(2 * time.Second)
		if a.Known(header, mine, &last) != nil {
			t.Error("a revoked key is known")
		}
	})
}

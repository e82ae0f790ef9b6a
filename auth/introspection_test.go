package auth

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const introspectURL = issuerURL + "/introspect"

// asking is a configuration with introspection.
func asking(c *Config) {
	c.Issuers[0].Introspection = &Introspection{URL: introspectURL, ClientID: "mcp server", ClientSecret: "se:cret"}
}

// answering has a stub answer an introspection with these claims.
func answering(s *stub, claims members) {
	s.set(introspectURL, page{do: func(*http.Request) page {
		return page{body: encoded(goodClaims().with(members{"active": true, "token_type": "Bearer"}).with(claims))}
	}})
}

// TestIntrospection has a row for each answer.
func TestIntrospection(t *testing.T) {
	for name, tt := range map[string]struct {
		answer members
		want   string
	}{
		"good":                     {nil, "200"},
		"without iss":              {members{"iss": nil}, "200"},
		"without token_type":       {members{"token_type": nil}, "200"},
		"inactive":                 {members{"active": false}, "401 inactive"},
		"active is a string":       {members{"active": "true"}, "503 unavailable"},
		"active is missing":        {members{"active": nil}, "503 unavailable"},
		"another issuer":           {members{"iss": "https://evil.example.com"}, "401 issuer"},
		"without exp":              {members{"exp": nil}, "401 expired"},
		"exp past":                 {members{"exp": fromNow(-time.Minute)}, "401 expired"},
		"nbf ahead":                {members{"nbf": fromNow(time.Minute)}, "401 early"},
		"without aud":              {members{"aud": nil}, "401 audience"},
		"another aud":              {members{"aud": public}, "401 audience"},
		"bound":                    {members{"cnf": members{"jkt": "x"}}, "401 bound"},
		"for DPoP":                 {members{"token_type": "DPoP"}, "401 bound"},
		"a machine":                {members{"sub": nil}, "200 machine"},
		"a user without sub":       {members{"sub": nil, "username": "alice"}, "401 subject"},
		"a refresh token of Hydra": {members{"token_use": "refresh_token"}, "401 id_token"},
		"a refresh token":          {members{"typ": "Refresh"}, "401 id_token"},
		"neither sub nor client":   {members{"sub": nil, "client_id": nil}, "401 subject"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newStub("a")
				a := newAuthority(t, s, asking)
				answering(s, tt.answer)
				want, machine := strings.CutSuffix(tt.want, " machine")
				v := expect(t, a, "opaque-token", want)
				if machine && (v.Subject != "editor" || !v.Machine) || tt.want == "200" && (v.Machine || v.Subject != "alice" || v.Client != "editor" || v.Issuer != issuerURL) {
					t.Errorf("got %+v", v.Identity)
				}
				expect(t, a, "opaque-token", want)
				if n, want := s.count(introspectURL), map[bool]int{false: 1, true: 2}[tt.want[:3] == "503"]; n != want {
					t.Errorf("%d questions, want %d", n, want)
				}
				if s.count(keysURL) != 0 {
					t.Error("keys were asked for")
				}
			})
		})
	}
}

// TestIntrospectionRequest looks at the question (RFC 7662, 2.1; RFC 6749, 2.3.1).
func TestIntrospectionRequest(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStub("a")
		s.set(introspectURL, page{do: func(r *http.Request) page {
			body, _ := io.ReadAll(r.Body)
			form, err := url.ParseQuery(string(body))
			user, password, _ := r.BasicAuth()
			if err != nil || r.Method != "POST" || form.Encode() != "token=opaque%2Btoken%2F%3D%3D&token_type_hint=access_token" || user != "mcp+server" || password != "se%3Acret" ||
				r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
				t.Errorf("%s %q, %q and %q, %v", r.Method, body, user, password, r.Header)
			}
			return page{body: encoded(goodClaims().with(members{"active": true}))}
		}})
		expect(t, newAuthority(t, s, asking), "opaque+token/==", "200")
	})
}

// TestWhatIsOpaque puts no JWT to the endpoint, and no token to it that nobody has asked for.
func TestWhatIsOpaque(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStub("a")
		answering(s, nil)
		a := newAuthority(t, s, asking)
		expect(t, a, token("a", nil, nil), "200")
		expect(t, a, token("a", nil, members{"iss": "https://evil.example.com"}), "401 issuer")
		expect(t, a, token("b", nil, nil), "401 key")
		expect(t, a, "eyJhbGciOiJSU0EtT0FFUCIsImVuYyI6IkEyNTZHQ00ifQ.a.b.c.d", "401 encrypted")
		expect(t, a, rawToken(`{"alg":"none","alg":"ES256"}`, encoded(goodClaims()), func(string) []byte { return nil }), "401 malformed")
		if n := s.count(introspectURL); n != 0 {
			t.Errorf("%d questions", n)
		}
		for _, opaque := range []string{"abc", "v1.abc.def", "e30", "a.b"} {
			expect(t, a, opaque, "200")
		}
		expect(t, newAuthority(t, s), "abc", "401 malformed")
		if n := s.count(introspectURL); n != 4 {
			t.Errorf("%d questions, want 4", n)
		}
	})
}

// TestIntrospectedVerdicts count for 30 seconds at most, and not beyond the token's end.
func TestIntrospectedVerdicts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStub("a")
		answering(s, nil)
		a := newAuthority(t, s, asking)
		v := expect(t, a, "long", "200")
		answering(s, members{"active": false})
		time.Sleep(30*time.Second - 1)
		if expect(t, a, "long", "200"); !v.Valid(time.Now()) {
			t.Error("the verdict does not hold")
		}
		time.Sleep(time.Nanosecond)
		if v.Valid(time.Now()) {
			t.Error("the verdict holds after 30 seconds")
		}
		expect(t, a, "long", "401 inactive")
		answering(s, members{"exp": fromNow(10 * time.Second)})
		v = expect(t, a, "short", "200")
		time.Sleep(10*time.Second - 1)
		if !v.Valid(time.Now()) {
			t.Error("the verdict does not hold")
		}
		time.Sleep(time.Nanosecond)
		if v.Valid(time.Now()) {
			t.Error("the verdict holds beyond the token's end")
		}
	})
}

// TestIntrospectionOutage is a 503, and so is an endpoint that does not know this server.
func TestIntrospectionOutage(t *testing.T) {
	for name, p := range map[string]page{"refuses": {err: errDown}, "500": {status: 500}, "our secret is wrong": {status: 401, body: `{"error":"invalid_client"}`}, "hangs": {delay: time.Hour}, "a page": {body: "<html>"}, "twice": {body: `{"active":false,"active":true}`}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newStub("a")
				s.set(introspectURL, p)
				a := newAuthority(t, s, asking)
				began := time.Now()
				_, err := a.Verify(t.Context(), "secret-token", server)
				if outcome(err) != "503 unavailable" || time.Since(began) > fetchTime || strings.Contains(err.Error(), "secret-token") || strings.Contains(err.Error(), "se:cret") {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
				answering(s, nil)
				expect(t, a, "secret-token", "200")
			})
		})
	}
}

// TestOneQuestion has 100 requests wait for one answer, bounds the questions under way, and lets a caller leave.
func TestOneQuestion(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStub("a")
		running, most := 0, 0
		var mu sync.Mutex
		s.set(introspectURL, page{do: func(*http.Request) page {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			running--
			mu.Unlock()
			return page{body: encoded(goodClaims().with(members{"active": true}))}
		}})
		a := newAuthority(t, s, asking)
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { expect(t, a, "one", "200") })
		}
		ctx, cancel := contextFor(t, time.Millisecond)
		defer cancel()
		if _, err := a.Verify(ctx, "one", server); outcome(err) != "503 unavailable" {
			t.Errorf("a caller that leaves: %v", err)
		}
		wg.Wait()
		if n := s.count(introspectURL); n != 1 {
			t.Errorf("%d questions, want 1", n)
		}
		for n := range 2 * maxAsking {
			wg.Go(func() { expect(t, a, "many"+strings.Repeat("x", n), "200") })
		}
		wg.Wait()
		if most != maxAsking {
			t.Errorf("%d questions at once, want %d", most, maxAsking)
		}
		s.set(introspectURL, page{delay: time.Hour})
		wg.Go(func() { expect(t, a, "hangs", "503 unavailable") })
		synctest.Wait()
		began := time.Now()
		a.Close()
		wg.Wait()
		expect(t, a, "after", "503 unavailable")
		if d := time.Since(began); d > time.Second {
			t.Errorf("it took %v", d)
		}
	})
}

// TestKnownOpaqueTokens are asked about again before others are, also where new ones fail, or wait for their turn: who was let in does not suffer from who makes up tokens.
func TestKnownOpaqueTokens(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStub("a")
		answering(s, members{"exp": fromNow(2 * time.Minute)})
		a := newAuthority(t, s, asking)
		at := a.Resource("/mcp", "", nil)
		header := http.Header{"Authorization": {"Bearer good"}}
		known := func(want string, questions int) {
			t.Helper()
			before := s.count(introspectURL)
			got := "nobody"
			if v := a.Known(header, at, nil); v != nil {
				got = v.Subject
			}
			if n := s.count(introspectURL) - before; got != want || n != questions {
				t.Errorf("%s after %d questions, want %s after %d", got, n, want, questions)
			}
		}
		known("nobody", 0)
		expect(t, a, "good", "200")
		known("alice", 0)
		time.Sleep(maxOpaque)
		known("alice", 1)
		known("alice", 0)
		time.Sleep(maxOpaque)
		s.set(introspectURL, page{do: func(r *http.Request) page {
			if r.ContentLength == int64(len("token=good&token_type_hint=access_token")) {
				return page{body: encoded(goodClaims().with(members{"active": true, "exp": fromNow(time.Minute)}))}
			}
			time.Sleep(4 * time.Second)
			return page{body: `{"active":false}`}
		}})
		var wg sync.WaitGroup
		for n := range 2 * maxAsking {
			wg.Go(func() { _, _ = a.Verify(t.Context(), "made-up"+strings.Repeat("x", n), server) })
		}
		synctest.Wait()
		known("alice", 1)
		wg.Wait()
		time.Sleep(maxOpaque)
		s.set(introspectURL, page{delay: time.Hour})
		began := time.Now()
		if known("nobody", 1); time.Since(began) != keyAgain {
			t.Errorf("it took %v", time.Since(began))
		}
		time.Sleep(10 * time.Second)
		answering(s, members{"active": false})
		known("nobody", 1)
		known("nobody", 0)
	})
}

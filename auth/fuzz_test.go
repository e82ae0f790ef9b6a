package auth

import (
	"crypto/rsa"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// FuzzCredentials reads any header: what it returns is a token, and stands in it.
func FuzzCredentials(f *testing.F) {
	for _, s := range []string{"", "Bearer abc", "bearer  abc==", "Bearer", "Basic YTpi", "Bearer a b", "Bearer \x00", "Bearer abc, Basic x", "DPoP abc"} {
		f.Add(s, "")
	}
	f.Add("Bearer abc", "Bearer abc")
	f.Fuzz(func(t *testing.T, one, two string) {
		h := http.Header{"Authorization": {one}}
		if two != "" {
			h.Add("Authorization", two)
		}
		token, r := Credentials(h)
		switch {
		case two != "" && (r == nil || r.Status != http.StatusBadRequest):
			t.Errorf("two headers: %q, %v", token, r)
		case r != nil && (token != "" || r.Status != 400 && r.Status != 401):
			t.Errorf("%q and %v", token, r)
		case token != "" && (!isToken(token) || !strings.HasSuffix(strings.TrimRight(one, " "), " "+token) || !strings.EqualFold(strings.TrimLeft(one, " ")[:7], "bearer ")):
			t.Errorf("%q of %q", token, one)
		}
	})
}

// FuzzToken verifies any token: none counts but those that the issuer has made, in the one spelling that it gave them.
func FuzzToken(f *testing.F) {
	long := members{"exp": 4102444800, "iat": nil}
	// Those of the key ed are the same in all processes, those of the others count in the one that made them.
	made := []string{token("a", nil, long), token("rsa", nil, long), token("ed", members{"kid": nil}, long), token("ed", nil, long), token("p384", nil, long)}
	for _, s := range made {
		f.Add(s)
		f.Add(s[:len(s)-1])
		f.Add(s + "A")
		f.Add(strings.Replace(s, ".", "..", 1))
	}
	for _, s := range []string{"", "a.b.c", "e30.e30.", "eyJhbGciOiJub25lIn0.e30.", token("b", members{"jwk": pairs()["b"].jwk()}, long), token("a", nil, members{"aud": public, "x": []any{[]any{members{"y": 1}}}}), hs256()} {
		f.Add(s)
	}
	a := newAuthority(f, newStub("a", "rsa", "ed", "p384"))
	for _, s := range made {
		if _, err := a.Verify(f.Context(), s, server); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, s string) {
		a.issuers[0].mu.Lock()
		a.issuers[0].ring.began = time.Now()
		a.issuers[0].mu.Unlock()
		v, err := a.Verify(t.Context(), s, server)
		if err == nil && !slices.Contains(made, s) {
			t.Errorf("%q counts as of %v", s, v.Identity)
		}
		if r, ok := err.(*Refusal); err != nil && (!ok || r.Status != 401 && r.Status != 503 || len(s) > 40 && strings.Contains(r.Error(), s)) {
			t.Errorf("%q: %v", s, err)
		}
		if tok, r := readToken(s); r == nil && (algorithms[tok.alg] == "" || tok.header == nil || tok.claims == nil || len(tok.kid) > maxKeyID) {
			t.Errorf("%q is read as %+v", s, tok)
		}
		_ = isSigned(s)
	})
}

// FuzzKeySet reads any key set: each key has a kind, is public, and large enough.
func FuzzKeySet(f *testing.F) {
	for _, s := range []string{keySetOf("a", "b", "rsa", "ed", "p384", "p521", "rsa1024"), `{"keys":[]}`, `{"keys":[{"kty":"oct","k":"AAAA"}]}`, encoded(map[string]any{"keys": []any{pairs()["a"].jwk("d", "AA")}}), "{", "null"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		keys, err := readKeys(data)
		if err != nil && keys != nil {
			t.Errorf("%v and %v", keys, err)
		}
		for _, k := range keys {
			if p, ok := k.public.(*rsa.PublicKey); k.kind == "" || ok && p.N.BitLen() < minRSA {
				t.Errorf("%+v", k)
			}
			if k.alg == "" && len((&keySet{keys: keys}).findKeys(k.kid, map[keyKind]string{kindRSA: "RS256", kindP256: "ES256", kindP384: "ES384", kindP521: "ES512", kindEd25519: "EdDSA"}[k.kind])) == 0 {
				t.Errorf("%q is not found", k.kid)
			}
		}
	})
}

// FuzzMetadata reads any metadata: the keys of an issuer with TLS come with TLS.
func FuzzMetadata(f *testing.F) {
	for _, s := range []string{encoded(members{"issuer": issuerURL, "jwks_uri": keysURL}), encoded(members{"issuer": issuerURL, "jwks_uri": "http://127.0.0.1"}), encoded(members{"issuer": issuerURL + "/"}), "{}", "[", "<html>"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if keys, err := readMetadata(data, issuerURL); err == nil && !strings.HasPrefix(strings.ToLower(keys), "https://") {
			t.Errorf("%s: %q", data, keys)
		}
	})
}

// FuzzIntrospection reads any answer: it is a verdict, a refusal of the token, or no answer.
func FuzzIntrospection(f *testing.F) {
	long := goodClaims().with(members{"exp": 4102444800, "active": true})
	for _, s := range []string{encoded(long), encoded(long.with(members{"active": false})), encoded(long.with(members{"aud": nil})), encoded(long.with(members{"cnf": members{}})), `{"active":false}`, "{}", "null"} {
		f.Add([]byte(s))
	}
	a := newAuthority(f, newStub("a"), asking)
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := readObject(data)
		if err != nil {
			return
		}
		now := time.Now()
		v, r := a.issuers[0].judgeAnswer(c, server, now)
		switch {
		case (v == nil) == (r == nil):
			t.Errorf("%v and %v", v, r)
		case r != nil && r.Status != http.StatusServiceUnavailable, v != nil && v.ends.After(now.Add(maxOpaque)):
			t.Errorf("%v and %v", v, r)
		case v != nil && v.refused == nil && (string(c["active"]) != "true" || v.Subject == "" || v.Issuer != issuerURL || v.Expires.Before(now.Add(-Leeway))):
			t.Errorf("%s: %+v", data, v)
		}
	})
}

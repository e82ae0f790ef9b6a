// Package issuer is an authorization server of access tokens for tests, on a real listener. It gives tokens to whoever asks the test, and none over the wire.
package issuer

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// Claims are those of a token, or members of its header. A nil value leaves one out.
type Claims map[string]any

// Issuer signs with EdDSA.
type Issuer struct {
	URL     string
	private ed25519.PrivateKey
	hs      *httptest.Server
	down    atomic.Bool
	asked   atomic.Int64
}

// New starts an issuer, which ends with the test.
func New(t testing.TB) *Issuer {
	i := Start()
	t.Cleanup(i.Close)
	return i
}

// Start starts an issuer for an example.
func Start() *Issuer {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	i := &Issuer{private: private}
	i.hs = httptest.NewServer(i)
	i.URL = i.hs.URL
	return i
}

// Close ends the issuer.
func (i *Issuer) Close() { i.hs.Close() }

// SetDown has every request answered with 503, or not any more.
func (i *Issuer) SetDown(down bool) { i.down.Store(down) }

// Asked is how many requests have come.
func (i *Issuer) Asked() int64 { return i.asked.Load() }

// Metadata is the document of RFC 8414.
func (i *Issuer) Metadata() string {
	return encoded(map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token", "response_types_supported": []string{"code"}})
}

func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.asked.Add(1)
	switch {
	case i.down.Load():
		http.Error(w, "down", http.StatusServiceUnavailable)
	case r.URL.Path == "/.well-known/oauth-authorization-server":
		_, _ = w.Write([]byte(i.Metadata()))
	case r.URL.Path == "/keys":
		_, _ = w.Write([]byte(encoded(map[string]any{"keys": []any{map[string]any{"kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": "1", "x": base64.RawURLEncoding.EncodeToString(i.private.Public().(ed25519.PublicKey))}}})))
	default:
		http.NotFound(w, r)
	}
}

// Token returns a token of a user by way of the client "editor" for an audience, with the scope files:read, for five minutes. The claims are more of them, or others.
func (i *Issuer) Token(subject, audience string, more Claims) string {
	return i.Signed(Claims{"alg": "EdDSA", "kid": "1", "typ": "at+jwt"}, i.Claims(subject, audience, more))
}

// Claims are those of Token.
func (i *Issuer) Claims(subject, audience string, more Claims) Claims {
	now := time.Now()
	c := Claims{"iss": i.URL, "sub": subject, "client_id": "editor", "aud": audience, "scope": "files:read", "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(), "jti": rand.Text()}
	maps.Copy(c, more)
	return c
}

// Signed returns a token with this header and these claims.
func (i *Issuer) Signed(header, claims Claims) string {
	for _, m := range []Claims{header, claims} {
		maps.DeleteFunc(m, func(_ string, v any) bool { return v == nil })
	}
	text := part(header) + "." + part(claims)
	return text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(i.private, []byte(text)))
}

func part(v any) string { return base64.RawURLEncoding.EncodeToString([]byte(encoded(v))) }

func encoded(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

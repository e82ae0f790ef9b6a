// Package issuer is an authorization server of access tokens for tests: on a real listener, or in memory for virtual time. It gives tokens to whoever asks the test, and none
// over the wire.
package issuer

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Claims are those of a token, or members of its header. A nil value leaves one out.
type Claims map[string]any

// Issuer signs with EdDSA. Its first key has the id "1".
type Issuer struct {
	URL     string
	hs      *httptest.Server // nil in memory
	down    atomic.Bool
	asked   atomic.Int64
	fetched atomic.Int64

	mu        sync.Mutex // guards the rest
	private   map[string]ed25519.PrivateKey
	published []any // as JWKs
}

// New starts an issuer, which ends with the test.
func New(t testing.TB) *Issuer {
	i := Start()
	t.Cleanup(i.Close)
	return i
}

// Start starts an issuer for an example.
func Start() *Issuer {
	i := At("")
	i.hs = httptest.NewServer(i)
	i.URL = i.hs.URL
	return i
}

// At returns an issuer in memory, which has a URL: it is the http.RoundTripper of those who ask it.
func At(url string) *Issuer {
	i := &Issuer{URL: url, private: make(map[string]ed25519.PrivateKey)}
	i.Publish(i.Key("1"))
	return i
}

// Close ends the issuer.
func (i *Issuer) Close() {
	if i.hs != nil {
		i.hs.Close()
	}
}

// SetDown has every request answered with 503, or not any more.
func (i *Issuer) SetDown(down bool) { i.down.Store(down) }

// Asked is how many requests have come.
func (i *Issuer) Asked() int64 { return i.asked.Load() }

// Fetched is how many of them were for the keys.
func (i *Issuer) Fetched() int64 { return i.fetched.Load() }

// Key returns the public key with an id, as a JWK. It is made when it is first asked for.
func (i *Issuer) Key(kid string) any {
	public := i.signer(kid).Public().(ed25519.PublicKey)
	return map[string]any{"kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": kid, "x": base64.RawURLEncoding.EncodeToString(public)}
}

// Publish replaces the keys of the issuer.
func (i *Issuer) Publish(keys ...any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.published = keys
}

func (i *Issuer) signer(kid string) ed25519.PrivateKey {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.private[kid] == nil {
		_, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			panic(err)
		}
		i.private[kid] = private
	}
	return i.private[kid]
}

// Metadata is the document of RFC 8414.
func (i *Issuer) Metadata() string {
	return encoded(map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token", "response_types_supported": []string{"code"}})
}

func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.asked.Add(1)
	if r.URL.Path == "/keys" {
		i.fetched.Add(1)
	}
	switch {
	case i.down.Load():
		http.Error(w, "down", http.StatusServiceUnavailable)
	case r.URL.Path == "/.well-known/oauth-authorization-server":
		_, _ = w.Write([]byte(i.Metadata()))
	case r.URL.Path == "/keys":
		i.mu.Lock()
		defer i.mu.Unlock()
		_, _ = w.Write([]byte(encoded(map[string]any{"keys": i.published})))
	default:
		http.NotFound(w, r)
	}
}

// RoundTrip answers without a network.
func (i *Issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	i.ServeHTTP(w, r)
	return w.Result(), nil
}

// Token returns a token of a user by way of the client "editor" for an audience, with the scope files:read, for five minutes. The claims are more of them, or others.
func (i *Issuer) Token(subject, audience string, more Claims) string {
	return i.Signed(Header(nil), i.Claims(subject, audience, more))
}

// Header is that of Token, with more members, or others.
func Header(more Claims) Claims {
	h := Claims{"alg": "EdDSA", "kid": "1", "typ": "at+jwt"}
	maps.Copy(h, more)
	return h
}

// Claims are those of Token.
func (i *Issuer) Claims(subject, audience string, more Claims) Claims {
	now := time.Now()
	c := Claims{"iss": i.URL, "sub": subject, "client_id": "editor", "aud": audience, "scope": "files:read", "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(), "jti": rand.Text()}
	maps.Copy(c, more)
	return c
}

// Signed returns a token with this header and these claims, signed by the key that the header names, or else by the first.
func (i *Issuer) Signed(header, claims Claims) string {
	for _, m := range []Claims{header, claims} {
		maps.DeleteFunc(m, func(_ string, v any) bool { return v == nil })
	}
	kid, ok := header["kid"].(string)
	if !ok {
		kid = "1"
	}
	private := i.signer(kid)
	return Compact(encoded(header), encoded(claims), func(text []byte) []byte { return ed25519.Sign(private, text) })
}

// SignedText is Signed with claims as they are, by the first key.
func (i *Issuer) SignedText(claims string) string {
	private := i.signer("1")
	return Compact(encoded(Header(nil)), claims, func(text []byte) []byte { return ed25519.Sign(private, text) })
}

// Compact returns a JWS in its compact form (RFC 7515, 7.1), with the signature that sign makes.
func Compact(header, claims string, sign func(text []byte) []byte) string {
	text := part(header) + "." + part(claims)
	return text + "." + part(string(sign([]byte(text))))
}

func part(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

func encoded(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

package auth

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/big"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	issuerURL = "https://id.example.com"
	public    = "https://mcp.example.com"
	server    = public + "/mcp"
	keysURL   = issuerURL + "/keys"
	oauthURL  = issuerURL + "/.well-known/oauth-authorization-server"
	openIDURL = issuerURL + "/.well-known/openid-configuration"
)

// pair is a private key of an issuer.
type pair struct {
	kid, alg string
	private  crypto.Signer
}

// The keys that tests sign with. Those of one name are the same in all tests.
var pairs = sync.OnceValue(func() map[string]*pair {
	all := map[string]*pair{}
	add := func(kid, alg string, private crypto.Signer, err error) {
		if err != nil {
			panic(err)
		}
		all[kid] = &pair{kid, alg, private}
	}
	rsaKey := func(kid, alg string, bits int) {
		k, err := rsa.GenerateKey(rand.Reader, bits)
		add(kid, alg, k, err)
	}
	ecKey := func(kid, alg string, c elliptic.Curve) {
		k, err := ecdsa.GenerateKey(c, rand.Reader)
		add(kid, alg, k, err)
	}
	rsaKey("rsa", "RS256", 2048)
	rsaKey("rsa1024", "RS256", 1024)
	ecKey("a", "ES256", elliptic.P256())
	ecKey("b", "ES256", elliptic.P256())
	ecKey("c", "ES256", elliptic.P256())
	ecKey("p384", "ES384", elliptic.P384())
	ecKey("p521", "ES512", elliptic.P521())
	add("ed", "EdDSA", ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), nil)
	return all
})

// jwk is the public key as an issuer publishes it, with more members.
func (p *pair) jwk(more ...string) map[string]any {
	o := map[string]any{"kid": p.kid, "use": "sig"}
	b64 := base64.RawURLEncoding.EncodeToString
	switch k := p.private.Public().(type) {
	case *rsa.PublicKey:
		o["kty"], o["n"], o["e"] = "RSA", b64(k.N.Bytes()), b64(big.NewInt(int64(k.E)).Bytes())
	case *ecdsa.PublicKey:
		raw, err := k.Bytes()
		if err != nil {
			panic(err)
		}
		half := (len(raw) - 1) / 2
		o["kty"], o["crv"], o["x"], o["y"] = "EC", k.Curve.Params().Name, b64(raw[1:1+half]), b64(raw[1+half:])
	case ed25519.PublicKey:
		o["kty"], o["crv"], o["x"] = "OKP", "Ed25519", b64(k)
	}
	for i := 0; i < len(more); i += 2 {
		o[more[i]] = more[i+1]
	}
	return o
}

// keySetOf is the JWK set of keys by their names.
func keySetOf(names ...string) string {
	keys := []any{}
	for _, n := range names {
		keys = append(keys, pairs()[n].jwk())
	}
	return encoded(map[string]any{"keys": keys})
}

func encoded(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// sign returns the bytes of a signature, by the standard library alone.
func (p *pair) sign(alg, text string) []byte {
	var sum []byte
	var hash crypto.Hash
	switch strings.TrimLeft(alg, "RSPEH") {
	case "384":
		h := sha512.Sum384([]byte(text))
		sum, hash = h[:], crypto.SHA384
	case "512":
		h := sha512.Sum512([]byte(text))
		sum, hash = h[:], crypto.SHA512
	default:
		h := sha256.Sum256([]byte(text))
		sum, hash = h[:], crypto.SHA256
	}
	var signature []byte
	var err error
	switch k := p.private.(type) {
	case *ecdsa.PrivateKey:
		r, s, e := ecdsa.Sign(rand.Reader, k, sum)
		size := (k.Curve.Params().BitSize + 7) / 8
		signature, err = append(r.FillBytes(make([]byte, size)), s.FillBytes(make([]byte, size))...), e
	case ed25519.PrivateKey:
		signature = ed25519.Sign(k, []byte(text))
	case *rsa.PrivateKey:
		var opts crypto.SignerOpts = hash
		if strings.HasPrefix(alg, "PS") {
			opts = &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: hash}
		}
		signature, err = k.Sign(rand.Reader, sum, opts)
	}
	if err != nil {
		panic(err)
	}
	return signature
}

// members are those of a header or of claims. A json.RawMessage stands as it is.
type members map[string]any

// fromNow is a NumericDate so long from the moment when the token is made.
type fromNow time.Duration

// with returns a copy with other values; nil removes one.
func (m members) with(more members) members {
	m = maps.Clone(m)
	for name, v := range more {
		switch v := v.(type) {
		case nil:
			delete(m, name)
		case fromNow:
			m[name] = time.Now().Add(time.Duration(v)).Unix()
		default:
			m[name] = v
		}
	}
	return m
}

func (p *pair) header() members { return members{"alg": p.alg, "kid": p.kid, "typ": "at+jwt"} }

// goodClaims are those of a token that counts, for five minutes from now.
func goodClaims() members {
	now := time.Now().Unix()
	return members{"iss": issuerURL, "sub": "alice", "client_id": "editor", "aud": server, "scope": "files:read files:write", "iat": now, "exp": now + 300}
}

// token returns a token that a key has signed, with other members in its header and its claims.
func token(name string, header, claims members) string {
	p := pairs()[name]
	h := p.header().with(header)
	alg, _ := h["alg"].(string)
	return rawToken(encoded(h), encoded(goodClaims().with(claims)), func(text string) []byte { return p.sign(alg, text) })
}

func rawToken(header, claims string, sign func(string) []byte) string {
	b64 := base64.RawURLEncoding.EncodeToString
	text := b64([]byte(header)) + "." + b64([]byte(claims))
	return text + "." + b64(sign(text))
}

// page is a response of a stub.
type page struct {
	status int
	header http.Header
	body   string
	delay  time.Duration
	err    error
	do     func(*http.Request) page // instead of the rest
}

// stub is an issuer in memory.
type stub struct {
	mu    sync.Mutex
	pages map[string]page // by URL
	down  error           // of every request, if it is set
	asked []string        // URLs in their order
	at    []time.Time     // when keysURL was asked for
}

// newStub returns an issuer with these keys.
func newStub(names ...string) *stub {
	s := &stub{pages: map[string]page{}}
	s.set(oauthURL, page{body: encoded(members{"issuer": issuerURL, "jwks_uri": keysURL})})
	s.set(keysURL, page{body: keySetOf(names...)})
	return s
}

func (s *stub) set(address string, p page) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages[address] = p
}

func (s *stub) setDown(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = err
}

func (s *stub) count(address string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.asked {
		if a == address {
			n++
		}
	}
	return n
}

func (s *stub) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	address := r.URL.String()
	s.asked = append(s.asked, address)
	if address == keysURL {
		s.at = append(s.at, time.Now())
	}
	p, ok := s.pages[address]
	down := s.down
	s.mu.Unlock()
	if p.do != nil {
		p = p.do(r)
	}
	if r.Body != nil {
		r.Body.Close()
	}
	if p.delay > 0 {
		select {
		case <-time.After(p.delay):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	switch {
	case down != nil:
		return nil, down
	case p.err != nil:
		return nil, p.err
	case !ok:
		p.status = http.StatusNotFound
	case p.status == 0:
		p.status = http.StatusOK
	}
	header := p.header
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{StatusCode: p.status, Status: fmt.Sprint(p.status), Header: header, Body: io.NopCloser(strings.NewReader(p.body)), Request: r}, nil
}

var errDown = errors.New("connection refused")

// memoryCache is a KeyCache.
type memoryCache struct {
	mu      sync.Mutex
	records map[string][]byte
	stored  int
	err     error
}

func (c *memoryCache) Load(_ context.Context, issuer string) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.records[issuer], c.err
}

func (c *memoryCache) Store(_ context.Context, issuer string, data []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.records == nil {
		c.records = map[string][]byte{}
	}
	c.records[issuer] = data
	c.stored++
	return c.err
}

// logged is what an Authority of a test has logged.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newAuthority returns an Authority of one issuer, that of the stub. change makes another configuration of it.
func newAuthority(t testing.TB, s *stub, change ...func(*Config)) *Authority {
	t.Helper()
	c := Config{Issuers: []Issuer{{URL: issuerURL}}, PublicURL: public, Transport: s, Log: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&c)
	}
	a, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

// outcome is what Verify says, as tests compare it: "200", or the status and the reason.
func outcome(err error) string {
	if err == nil {
		return "200"
	}
	r, ok := errors.AsType[*Refusal](err)
	if !ok {
		return err.Error()
	}
	return fmt.Sprintf("%d %s", r.Status, r.Reason)
}

// expect verifies a token at the server.
func expect(t testing.TB, a *Authority, token, want string) *Verdict {
	t.Helper()
	v, err := a.Verify(t.Context(), token, server)
	if got := outcome(err); got != want {
		t.Errorf("%s: got %s, want %s", time.Now().UTC().Format(time.TimeOnly), got, want)
		t.Log(err)
	}
	return v
}

func contextFor(t testing.TB, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

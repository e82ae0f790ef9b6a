package main

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/troupe-run/troupe/bench/soak/greed"
)

// tokenKey signs the tokens of a quiet client.
type tokenKey struct {
	private  ed25519.PrivateKey
	resource string

	mu   sync.Mutex // guards the rest
	last string
	sent int
}

// configure writes the settings of a server that takes the tokens.
func (k *tokenKey) configure(dir string) (config string, err error) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return "", err
	}
	k.private = private
	keys := filepath.Join(dir, "keys.json")
	config = filepath.Join(dir, "auth.yaml")
	set := fmt.Sprintf(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"1","x":%q}]}`, base64.RawURLEncoding.EncodeToString(public))
	section := fmt.Sprintf("public-url: %s\nauth:\n  issuers:\n    - url: %s\n      keys: %s\n", strings.TrimSuffix(k.resource, "/mcp"), greed.TokenIssuer, keys)
	return config, errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(keys, []byte(set), 0o600), os.WriteFile(config, []byte(section), 0o600))
}

// freshEvery is how often a request has a token that the server has not seen, which it has to
// verify.
const freshEvery = 20

// token returns the token of the next request.
func (k *tokenKey) token() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.sent%freshEvery == 0 {
		text := greed.TokenText(greed.TokenIssuer, k.resource)
		k.last = text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(k.private, []byte(text)))
	}
	k.sent++
	return k.last
}

// tokened sends a token with each request.
type tokened struct {
	to  http.RoundTripper
	key *tokenKey
}

func (t *tokened) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+t.key.token())
	return t.to.RoundTrip(r)
}

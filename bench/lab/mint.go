package main

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"time"

	"github.com/troupe-run/troupe/auth"
)

// The scopes: what every caller needs, and what the demo's tool guarded needs beside it.
const (
	readScope  = "demo:read"
	writeScope = "demo:write"
)

// mintURL is the issuer that nobody can reach, as its key lies in a file.
const mintURL = "http://127.0.0.1/mint"

// mint is an issuer in this process.
type mint struct {
	private ed25519.PrivateKey
	keys    string // the file
}

func newMint() (*mint, error) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	set, err := json.Marshal(map[string]any{"keys": []map[string]string{
		{"kty": "OKP", "crv": "Ed25519", "kid": "1", "x": base64.RawURLEncoding.EncodeToString(public)},
	}})
	if err != nil {
		return nil, err
	}
	file, err := os.CreateTemp("", "guarded-*.json")
	if err != nil {
		return nil, err
	}
	if _, err = file.Write(set); err == nil {
		err = file.Close()
	}
	return &mint{private, file.Name()}, err
}

func (m *mint) close() { _ = os.Remove(m.keys) }

func (m *mint) issuer() auth.Issuer { return auth.Issuer{URL: mintURL, Keys: m.keys} }

// token returns a token that is valid for an hour.
func (m *mint) token(resource string) string {
	encode := base64.RawURLEncoding.EncodeToString
	claims, _ := json.Marshal(map[string]any{ // strings and numbers have no error
		"iss": mintURL, "sub": "alice", "client_id": "proxy", "aud": resource, "scope": readScope + " " + writeScope, "exp": time.Now().Add(time.Hour).Unix(),
	})
	text := encode([]byte(`{"alg":"EdDSA","typ":"at+jwt","kid":"1"}`)) + "." + encode(claims)
	return text + "." + encode(ed25519.Sign(m.private, []byte(text)))
}

// proxy passes requests on to an address. Those that have no credentials get a token for the
// resource, a new one each time, as identity does not depend on a token's bytes.
func (m *mint) proxy(to, resource string) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: to})
			r.Out.Host = r.In.Host
			if r.Out.Header.Get("Authorization") == "" {
				r.Out.Header.Set("Authorization", "Bearer "+m.token(resource))
			}
		},
		Transport:     &http.Transport{MaxIdleConnsPerHost: 256},
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
}

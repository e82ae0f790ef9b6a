package main

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// issuer gives a token for Ada to whoever asks.
type issuer struct {
	url string
	key ed25519.PrivateKey
}

func newIssuer(url string) *issuer {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		panic(err) // a system without randomness
	}
	return &issuer{url, key}
}

// routes adds what the server and clients look for: the metadata (RFC 8414), the keys, and tokens.
func (i *issuer) routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /.well-known/oauth-authorization-server/id", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"issuer": i.url, "jwks_uri": i.url + "/keys", "token_endpoint": i.url + "/token", "response_types_supported": []string{"code"}})
	})
	mux.HandleFunc("GET /id/keys", func(w http.ResponseWriter, _ *http.Request) {
		public := i.key.Public().(ed25519.PublicKey)
		answer(w, map[string]any{"keys": []map[string]string{{"kty": "OKP", "crv": "Ed25519", "kid": "1", "x": encode(public)}}})
	})
	mux.HandleFunc("POST /id/token", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, i.token("http://"+r.Host+"/mcp", r.FormValue("scope")))
	})
}

// token is an access token as RFC 9068 has it, for a minute.
func (i *issuer) token(resource, scope string) string {
	claims, _ := json.Marshal(map[string]any{ // texts and numbers have no error
		"iss": i.url, "sub": "ada", "client_id": "curl", "aud": resource, "scope": scope, "exp": time.Now().Add(time.Minute).Unix(),
	})
	signed := encode([]byte(`{"alg":"EdDSA","typ":"at+jwt","kid":"1"}`)) + "." + encode(claims)
	return signed + "." + encode(ed25519.Sign(i.key, []byte(signed)))
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func answer(w http.ResponseWriter, v any) {
	var b strings.Builder
	_ = json.NewEncoder(&b).Encode(v) // it is plain data
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, b.String())
}

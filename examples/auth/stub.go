package main

import (
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// stub stands in for an authorization server: everybody is Ada there, and she agrees to everything, so that it has no pages. It forgets no client before it ends.
type stub struct {
	url, resource string
	key           ed25519.PrivateKey

	mu      sync.Mutex            // guards the rest
	clients map[string][]string   // where users of a client go back to, by its id
	codes   map[string]url.Values // what was asked for, by the code that stands for it
}

// newStub returns the one of a host. Tokens are for the resource unless a client asks for another one.
func newStub(host, resource string) *stub {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		panic(err) // a system without randomness
	}
	return &stub{url: host + "/id", resource: resource, key: key, clients: make(map[string][]string), codes: make(map[string]url.Values)}
}

// routes adds what the server and clients look for: the metadata (RFC 8414), the keys, registration (RFC 7591), and the authorization code flow with PKCE.
func (s *stub) routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /.well-known/oauth-authorization-server/id", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]any{
			"issuer": s.url, "jwks_uri": s.url + "/keys", "registration_endpoint": s.url + "/register", "authorization_endpoint": s.url + "/authorize", "token_endpoint": s.url + "/token",
			"response_types_supported": []string{"code"}, "grant_types_supported": []string{"authorization_code"}, "code_challenge_methods_supported": []string{"S256"},
			"token_endpoint_auth_methods_supported": []string{"none"}, "authorization_response_iss_parameter_supported": true,
		})
	})
	mux.HandleFunc("GET /id/keys", func(w http.ResponseWriter, _ *http.Request) {
		public := s.key.Public().(ed25519.PublicKey)
		answer(w, http.StatusOK, map[string]any{"keys": []map[string]string{{"kty": "OKP", "crv": "Ed25519", "kid": "1", "x": encode(public)}}})
	})
	mux.HandleFunc("POST /id/register", s.register)
	mux.HandleFunc("GET /id/authorize", s.authorize)
	mux.HandleFunc("POST /id/token", s.exchange)
	// A shell has it easier: a real issuer gives no token to who only asks.
	mux.HandleFunc("POST /id/ada", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, s.token("curl", s.resource, r.FormValue("scope")))
	})
}

// register makes a client known.
func (s *stub) register(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Name         string   `json:"client_name"`
		RedirectURIs []string `json:"redirect_uris"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&asked); err != nil || len(asked.RedirectURIs) == 0 {
		fail(w, "invalid_client_metadata")
		return
	}
	id := rand.Text()
	s.mu.Lock()
	s.clients[id] = asked.RedirectURIs
	s.mu.Unlock()
	answer(w, http.StatusCreated, map[string]any{
		"client_id": id, "client_name": asked.Name, "redirect_uris": asked.RedirectURIs,
		"token_endpoint_auth_method": "none", "grant_types": []string{"authorization_code"}, "response_types": []string{"code"},
	})
}

// authorize is where a browser comes to. It goes back to the client at once, with a code.
func (s *stub) authorize(w http.ResponseWriter, r *http.Request) {
	asked, code := r.URL.Query(), rand.Text()
	back, err := url.Parse(asked.Get("redirect_uri"))
	s.mu.Lock()
	ok := err == nil && asked.Get("code_challenge_method") == "S256" && slices.Contains(s.clients[asked.Get("client_id")], asked.Get("redirect_uri"))
	if ok {
		s.codes[code] = asked
	}
	s.mu.Unlock()
	if !ok {
		fail(w, "invalid_request")
		return
	}
	q := back.Query()
	q.Set("code", code)
	q.Set("state", asked.Get("state"))
	q.Set("iss", s.url)
	back.RawQuery = q.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

// exchange gives a token for a code, once, to who has made the challenge.
func (s *stub) exchange(w http.ResponseWriter, r *http.Request) {
	code := r.PostFormValue("code")
	s.mu.Lock()
	asked, ok := s.codes[code]
	delete(s.codes, code)
	s.mu.Unlock()
	proof := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !ok || r.PostFormValue("client_id") != asked.Get("client_id") || encode(proof[:]) != asked.Get("code_challenge") {
		fail(w, "invalid_grant")
		return
	}
	scope := asked.Get("scope")
	answer(w, http.StatusOK, map[string]any{
		"access_token": s.token(asked.Get("client_id"), cmp.Or(asked.Get("resource"), s.resource), scope), "token_type": "Bearer", "expires_in": int(lifetime.Seconds()), "scope": scope,
	})
}

// lifetime is how long a token counts.
const lifetime = 10 * time.Minute

// token is an access token as RFC 9068 has it.
func (s *stub) token(client, resource, scope string) string {
	claims, _ := json.Marshal(map[string]any{ // texts and numbers have no error
		"iss": s.url, "sub": "ada", "client_id": client, "aud": resource, "scope": scope, "exp": time.Now().Add(lifetime).Unix(),
	})
	signed := encode([]byte(`{"alg":"EdDSA","typ":"at+jwt","kid":"1"}`)) + "." + encode(claims)
	return signed + "." + encode(ed25519.Sign(s.key, []byte(signed)))
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func fail(w http.ResponseWriter, code string) {
	answer(w, http.StatusBadRequest, map[string]any{"error": code})
}

func answer(w http.ResponseWriter, status int, v any) {
	var b strings.Builder
	_ = json.NewEncoder(&b).Encode(v) // it is plain data
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	fmt.Fprint(w, b.String())
}

package auth_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/troupe-run/troupe/auth"
)

// A handler verifies the token of each request, and asks for a scope where it needs one.
func Example() {
	id := newIssuer("https://id.example.com")
	authority, err := auth.New(auth.Config{
		Issuers:   []auth.Issuer{{URL: "https://id.example.com"}},
		PublicURL: "https://mcp.example.com",
		Scopes:    []string{"files:read"},
		Transport: id,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer authority.Close()
	server := authority.Resource("/mcp", "Files", nil)

	handler := func(w http.ResponseWriter, r *http.Request) {
		v, err := authority.Authenticate(r.Context(), r.Header, server, nil)
		if err == nil && r.Method == http.MethodPost {
			if no := authority.Require(v.Scopes, []string{"files:write"}); no != nil {
				err = no
			}
		}
		if no, ok := errors.AsType[*auth.Refusal](err); ok {
			w.Header().Set("WWW-Authenticate", server.Challenge(no))
			http.Error(w, no.Text, no.Status)
			return
		}
		fmt.Fprintf(w, "hello, %s by way of %s\n", v.Subject, v.Client)
	}

	call := func(method, token string) {
		r, w := httptest.NewRequest(method, "/mcp", nil), httptest.NewRecorder()
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		handler(w, r)
		fmt.Println(w.Code, strings.TrimSpace(w.Body.String()))
		if challenge := w.Header().Get("WWW-Authenticate"); challenge != "" {
			fmt.Println(strings.ReplaceAll(challenge, ", ", ",\n  "))
		}
	}
	token := id.token("alice", "editor", server.URL(), "files:read")
	call("GET", "")
	call("GET", token)
	call("POST", token)
	// Output:
	// 401 an access token is required
	// Bearer resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp",
	//   scope="files:read"
	// 200 hello, alice by way of editor
	// 403 the access token lacks a scope
	// Bearer error="insufficient_scope",
	//   error_description="the access token lacks a scope",
	//   resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp",
	//   scope="files:read files:write"
}

// issuer is an authorization server in memory.
type issuer struct {
	url     string
	private ed25519.PrivateKey
}

func newIssuer(url string) *issuer {
	return &issuer{url, ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))}
}

func (i *issuer) token(subject, client, audience, scope string) string {
	encode := base64.RawURLEncoding.EncodeToString
	header := `{"alg":"EdDSA","typ":"at+jwt","kid":"1"}`
	claims := fmt.Sprintf(`{"iss":%q,"sub":%q,"client_id":%q,"aud":%q,"scope":%q,"exp":%d}`, i.url, subject, client, audience, scope, time.Now().Add(time.Minute).Unix())
	text := encode([]byte(header)) + "." + encode([]byte(claims))
	return text + "." + encode(ed25519.Sign(i.private, []byte(text)))
}

// RoundTrip answers the requests for the issuer's metadata and keys.
func (i *issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	public := i.private.Public().(ed25519.PublicKey)
	pages := map[string]string{
		i.url + "/.well-known/oauth-authorization-server": fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q}`, i.url, i.url+"/keys"),
		i.url + "/keys": fmt.Sprintf(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"1","x":%q}]}`, base64.RawURLEncoding.EncodeToString(public)),
	}
	page, ok := pages[r.URL.String()]
	if !ok {
		return nil, context.Canceled
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(page)), Request: r}, nil
}

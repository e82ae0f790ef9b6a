package main

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/examples/everything"
)

// Opaque tokens that the official conformance suite has servers know (its scenario sep-2350-server-scope-challenge): one has too few scopes, the other all.
const (
	tokenLow  = "mcp-conformance-scope-low"
	tokenFull = "mcp-conformance-scope-full"
)

// fixtureAuth says whose tokens count where the tools of the conformance suite are served and nothing else says so. Who has no token may do what it may do without it.
func fixtureAuth(publicURL string) *auth.Config {
	return &auth.Config{
		PublicURL: publicURL, AllowAnonymous: true, Transport: answers{http.DefaultTransport},
		Issuers: []auth.Issuer{
			// The suite has no authorization server for these tokens: this process answers in its place, and there are no keys.
			{URL: everything.ConformanceIssuer, Audiences: []string{everything.ConformanceIssuer}, Keys: everything.ConformanceIssuer + "/keys",
				Introspection: &auth.Introspection{URL: everything.ConformanceIssuer + "/introspect", ClientID: "troupe"}},
			// The authorization server of auth-token-audience-validation, which need not be there.
			{URL: "http://127.0.0.1:" + cmp.Or(os.Getenv("MCP_CONFORMANCE_AUTH_SERVER_PORT"), "9797")},
		},
	}
}

// answers answers what goes to the fixture's own issuer.
type answers struct{ others http.RoundTripper }

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasPrefix(r.URL.String(), everything.ConformanceIssuer+"/") {
		return a.others.RoundTrip(r)
	}
	said := map[string]any{"keys": []any{}}
	if r.Body != nil {
		_ = r.ParseForm() // what is not there is no token
		_ = r.Body.Close()
		said = map[string]any{"active": false}
		scopes := map[string][]string{tokenLow: {"mcp:conformance:baseline"}, tokenFull: append(everything.ConformanceScopes(), "mcp:conformance:baseline")}[r.PostForm.Get("token")]
		if scopes != nil {
			said = map[string]any{"active": true, "iss": everything.ConformanceIssuer, "sub": "conformance", "client_id": "suite", "aud": everything.ConformanceIssuer,
				"scope": strings.Join(scopes, " "), "exp": time.Now().Add(time.Hour).Unix()}
		}
	}
	data, err := json.Marshal(said)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r, ContentLength: int64(len(data)),
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(string(data)))}, nil
}

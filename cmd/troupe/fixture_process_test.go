package main

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/test/kit/issuer"
)

// stateless posts a request of 2026-07-28, and returns the status, the challenge and the body.
func (p *process) stateless(t *testing.T, method, name, params, token string) (int, string, string) {
	t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, method, params)
	header := []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name}
	if token != "" {
		header = append(header, "Authorization", "Bearer "+token)
	}
	x, err := p.post(t.Context(), body, header...)
	if err != nil {
		t.Fatal(err)
	}
	defer x.close()
	text, _ := io.ReadAll(x.rd)
	return x.StatusCode, x.Header.Get("WWW-Authenticate"), string(text)
}

// TestScopesOfTheSuite has the contract of the conformance suite's scenario sep-2350-server-scope-challenge, which is not released: a token that lacks the scopes of an
// operation gets one challenge with all of them, a token that has them the result, and no token what it got before.
func TestScopesOfTheSuite(t *testing.T) {
	t.Parallel()
	p := start(t, "--memory", "--public-url", "http://127.0.0.1:8080")
	for _, row := range []struct{ method, name, params, scopes, result string }{
		{"tools/call", "test_simple_text", `"name":"test_simple_text"`, "mcp:conformance:tools:call mcp:conformance:tools:test_simple_text", "This is a simple text response"},
		{"resources/read", "test://static-text", `"uri":"test://static-text"`, "mcp:conformance:resources:read mcp:conformance:resources:static", "static text resource"},
		{"resources/read", "test://template/123/data", `"uri":"test://template/123/data"`, "mcp:conformance:resources:read mcp:conformance:resources:template:123", "Data for ID: 123"},
		{"prompts/get", "test_simple_prompt", `"name":"test_simple_prompt"`, "mcp:conformance:prompts:get mcp:conformance:prompts:test_simple_prompt", "simple prompt for testing"},
	} {
		status, challenge, _ := p.stateless(t, row.method, row.name, row.params, tokenLow)
		if status != http.StatusForbidden || strings.Count(challenge, "Bearer ") != 1 || !strings.Contains(challenge, `error="insufficient_scope"`) ||
			!strings.Contains(challenge, `resource_metadata="http://127.0.0.1:8080/.well-known/oauth-protected-resource/mcp"`) {
			t.Errorf("%s with few scopes: %d %s", row.name, status, challenge)
		}
		_, scope, _ := strings.Cut(challenge, ` scope="`)
		scope, _, _ = strings.Cut(scope, `"`)
		for want := range strings.FieldsSeq(row.scopes) {
			if !slices.Contains(strings.Fields(scope), want) {
				t.Errorf("%s: the challenge asks for %q, which lacks %s", row.name, scope, want)
			}
		}
		for _, token := range []string{tokenFull, ""} {
			if status, _, body := p.stateless(t, row.method, row.name, row.params, token); status != http.StatusOK || !strings.Contains(body, row.result) {
				t.Errorf("%s with the token %q: %d %s", row.name, token, status, body)
			}
		}
	}
	if status, challenge, _ := p.stateless(t, "tools/call", "test_simple_text", `"name":"test_simple_text"`, "another-token"); status != http.StatusUnauthorized || !strings.Contains(challenge, "invalid_token") {
		t.Errorf("a token that nobody has made: %d %s", status, challenge)
	}
}

// TestAudienceOfTheSuite has the contract of the suite's issue 78 (auth-token-audience-validation), in the order of the scenario: an issuer that is asked only when a token comes, tokens for
// this URL alone, and one of another key that has the name of the issuer's own. The scenario skips a server that answers without a token, as the fixture does for all others, so that it has one
// of its own, which takes the tokens by --auth-issuer.
func TestAudienceOfTheSuite(t *testing.T) {
	const url = "http://127.0.0.1:8080/mcp"
	for name, withoutToken := range map[string]int{"the fixture": http.StatusOK, "a server of its own": http.StatusUnauthorized} {
		t.Run(name, func(t *testing.T) {
			id := issuer.New(t)
			t.Setenv("MCP_CONFORMANCE_AUTH_SERVER_PORT", id.URL[strings.LastIndexByte(id.URL, ':')+1:])
			args := []string{"--memory", "--public-url", "http://127.0.0.1:8080"}
			if withoutToken != http.StatusOK {
				args = append(args, "--auth-issuer", id.URL)
			}
			p := start(t, args...)
			if n := id.Asked(); n != 0 {
				t.Errorf("the issuer was asked %d times before a token came", n)
			}
			past := time.Now().Add(-10 * time.Minute).Unix()
			for _, row := range []struct {
				name, token string
				status      int
			}{
				{"no token", "", withoutToken},
				{"right", id.Token("suite", url, issuer.Claims{"scope": nil}), http.StatusOK},
				{"another audience", id.Token("suite", "https://another-resource.example.com/mcp", nil), http.StatusUnauthorized},
				{"another path", id.Token("suite", "http://127.0.0.1:8080/other", nil), http.StatusUnauthorized},
				{"a prefix", id.Token("suite", "http://127.0.0.1:8080", nil), http.StatusUnauthorized},
				{"no audience", id.Token("suite", url, issuer.Claims{"aud": nil}), http.StatusUnauthorized},
				{"expired", id.Token("suite", url, issuer.Claims{"exp": past, "iat": past - 3600}), http.StatusUnauthorized},
				{"of another key", issuer.At(id.URL).Token("suite", url, nil), http.StatusUnauthorized},
			} {
				if status, challenge, body := p.stateless(t, "server/discover", "", `"a":1`, row.token); status != row.status || (status == http.StatusUnauthorized) != (challenge != "") {
					t.Errorf("%s: server/discover: %d %q %s, want %d", row.name, status, challenge, body, row.status)
				}
				header := []string{}
				if row.token != "" {
					header = []string{"Authorization", "Bearer " + row.token}
				}
				x, err := p.post(t.Context(), `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"suite","version":"1"}}}`, header...)
				if err != nil {
					t.Fatal(err)
				}
				if x.StatusCode != row.status {
					t.Errorf("%s: initialize: %d, want %d", row.name, x.StatusCode, row.status)
				}
				x.close()
			}
		})
	}
}

// TestFixtureIsForThisMachine has the tokens of the suite count nowhere but on the loopback interface, and not beside an issuer.
func TestFixtureIsForThisMachine(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]bool{
		"--set conformance=true": true, "--set conformance=true --listen 127.0.0.1:0 --public-url http://127.0.0.1:1": true, "--set conformance=true --listen 127.0.0.1:0": false, "": false,
		"--set conformance=true --listen 0.0.0.0:80 --public-url http://127.0.0.1:1 --allow-anonymous": false, "--set conformance=true --auth-issuer http://127.0.0.1:9": false,
	} {
		s, err := parsed(t, "", append(strings.Fields(args), "--memory")...)
		if err != nil {
			t.Fatal(err)
		}
		c := s.options().Auth
		if got := c != nil && c.Transport != nil; got != want {
			t.Errorf("%s: the fixture is on: %v, want %v", args, got, want)
		}
	}
}

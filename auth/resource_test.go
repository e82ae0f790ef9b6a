package auth

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestResource has a row for each place of a server (RFC 9728, 3.1).
func TestResource(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ public, path, url, wellKnown, document string }{
		{"https://mcp.example.com", "/mcp", "https://mcp.example.com/mcp", "/.well-known/oauth-protected-resource/mcp", "https://mcp.example.com/.well-known/oauth-protected-resource/mcp"},
		{"https://mcp.example.com/", "/mcp/", "https://mcp.example.com/mcp", "/.well-known/oauth-protected-resource/mcp", "https://mcp.example.com/.well-known/oauth-protected-resource/mcp"},
		{"https://mcp.example.com", "/mcp/sse", "https://mcp.example.com/mcp/sse", "/.well-known/oauth-protected-resource/mcp/sse", "https://mcp.example.com/.well-known/oauth-protected-resource/mcp/sse"},
		{"https://mcp.example.com", "/", "https://mcp.example.com", "/.well-known/oauth-protected-resource", "https://mcp.example.com/.well-known/oauth-protected-resource"},
		{"https://mcp.example.com", "", "https://mcp.example.com", "/.well-known/oauth-protected-resource", "https://mcp.example.com/.well-known/oauth-protected-resource"},
		{"https://example.com/tools", "/mcp", "https://example.com/tools/mcp", "/.well-known/oauth-protected-resource/tools/mcp", "https://example.com/.well-known/oauth-protected-resource/tools/mcp"},
		{"https://example.com/tools/", "/", "https://example.com/tools", "/.well-known/oauth-protected-resource/tools", "https://example.com/.well-known/oauth-protected-resource/tools"},
		{"http://127.0.0.1:8080", "/mcp", "http://127.0.0.1:8080/mcp", "/.well-known/oauth-protected-resource/mcp", "http://127.0.0.1:8080/.well-known/oauth-protected-resource/mcp"},
	} {
		a := newAuthority(t, newStub("a"), func(c *Config) { c.PublicURL = tt.public })
		s := a.Resource(tt.path, "", nil)
		if s.URL() != tt.url || s.WellKnown() != tt.wellKnown {
			t.Errorf("%s and %s: %s at %s", tt.public, tt.path, s.URL(), s.WellKnown())
		}
		if got, want := s.Challenge(a.Missing(nil)), `Bearer resource_metadata="`+tt.document+`"`; got != want {
			t.Errorf("%s and %s: %s, want %s", tt.public, tt.path, got, want)
		}
	}
}

// TestResourceMetadata compares the document with RFC 9728, 2.
func TestResourceMetadata(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, newStub("a"), func(c *Config) {
		c.Issuers = append(c.Issuers, Issuer{URL: "https://two.example.com/t"})
		c.Scopes = []string{"files:read"}
	})
	for _, tt := range []struct {
		name   string
		scopes []string
		want   map[string]any
	}{
		{"A & B", nil, map[string]any{"resource_name": "A & B", "scopes_supported": []any{"files:read"}}},
		{"", []string{"a", "offline_access", "b"}, map[string]any{"scopes_supported": []any{"a", "b"}}},
		{"", []string{}, map[string]any{}},
	} {
		tt.want["resource"] = server
		tt.want["authorization_servers"] = []any{issuerURL, "https://two.example.com/t"}
		tt.want["bearer_methods_supported"] = []any{"header"}
		var got map[string]any
		if err := json.Unmarshal(a.Resource("/mcp", tt.name, tt.scopes).Metadata(), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(got, tt.want); diff != "" {
			t.Error(diff)
		}
	}
}

// TestChallenge has a row for each kind of refusal (RFC 6750, 3; RFC 9728, 5.1).
func TestChallenge(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, newStub("a"), func(c *Config) { c.Scopes = []string{"files:read", "x"} })
	s := a.Resource("/mcp", "", nil)
	const where = `resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"`
	for name, tt := range map[string]struct {
		refusal *Refusal
		want    string
	}{
		"no credentials": {a.Missing(nil), "Bearer " + where + `, scope="files:read x"`},
		"a bad request":  {invalidRequest(), `Bearer error="invalid_request", error_description="the Authorization header must be one credential", ` + where + `, scope="files:read x"`},
		"a bad token":    {invalidToken(ReasonExpired), `Bearer error="invalid_token", error_description="the access token is not valid for this server", ` + where + `, scope="files:read x"`},
		"a scope":        {a.Require([]string{"a", "offline_access"}, []string{"b"}), `Bearer error="insufficient_scope", error_description="the access token lacks a scope", ` + where + `, scope="a b"`},
		"an outage":      {refuseUnavailable(ReasonUnavailable, 0, nil), ""},
	} {
		if got := s.Challenge(tt.refusal); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
	if got, want := quotedParameter("a", `b"c\d`), `a="b\"c\\d"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if refuseUnavailable(ReasonUnavailable, 0, nil).RetryAfter.Seconds() != 1 || a.Missing(nil).Status != http.StatusUnauthorized {
		t.Error("an outage is over at once, or a request without credentials is none")
	}
}

package bearer

import (
	"context"
	"testing"

	"github.com/troupe-run/troupe/auth"
)

// TestRequire has one authority say that a scope lacks, and what to ask for: between two questions it may have been replaced by one that says otherwise.
func TestRequire(t *testing.T) {
	t.Parallel()
	authority := func(implies map[string][]string) *auth.Authority {
		a, err := auth.New(auth.Config{Issuers: []auth.Issuer{{URL: "https://id.example.com"}}, PublicURL: "https://mcp.example.com", Implies: implies})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	c := New(Config{Authority: authority(nil), Replaced: func(context.Context) {}})
	defer c.Close()
	granted, needed := []string{"wide", `no"scope`}, []string{"narrow"}
	no, challenge := c.Require("/mcp", false, granted, needed)
	want := `Bearer error="insufficient_scope", error_description="the access token lacks a scope", ` +
		`resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp", scope="wide narrow"`
	if no == nil || challenge != want {
		t.Errorf("%v, %s; want %s", no, challenge, want)
	}
	no, challenge = c.Require("/mcp", true, nil, needed)
	want = `Bearer resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp", scope="narrow"`
	if no == nil || no.Status != 401 || challenge != want {
		t.Errorf("without a token: %v, %s; want %s", no, challenge, want)
	}
	c.ReplaceAuthority(authority(map[string][]string{"wide": {"narrow"}}))
	if no, challenge := c.Require("/mcp", false, granted, needed); no != nil || challenge != "" {
		t.Errorf("%v, %s", no, challenge)
	}
}

package auth_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit/issuer"
)

// TestOneResourceAServer refuses a server whose path differs from that of another one, or of its HTTP+SSE, in slashes alone: a token for one would be let in at both.
func TestOneResourceAServer(t *testing.T) {
	t.Parallel()
	id := issuer.New(t)
	rt, err := troupe.New(troupe.Options{Auth: &auth.Config{Issuers: []auth.Issuer{{URL: id.URL}}, PublicURL: public}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close(context.Background()) })
	mount := func(path string) error {
		return rt.TryMount(path, troupe.NewServer(mcp.Implementation{Name: "test", Version: "1"}, nil))
	}
	for _, path := range []string{"/mcp", "/a/mcp", "/b/sse/"} {
		if err := mount(path); err != nil {
			t.Fatal(err)
		}
	}
	for path, other := range map[string]string{"/mcp/": "/mcp", "//mcp": "/mcp", "/a/sse/": "/a/mcp", "/b/mcp": "/b/sse/"} {
		if err := mount(path); err == nil || !strings.Contains(err.Error(), "would count at "+other+",") {
			t.Errorf("%s beside %s: %v", path, other, err)
		}
	}
}

// TestPathsThatAreNotThere has servers at the paths that HTTP+SSE of another one would have: each takes its own tokens and keys.
func TestPathsThatAreNotThere(t *testing.T) {
	t.Parallel()
	id := issuer.New(t)
	for range 8 { // the order in which servers are looked at is random
		pathsThatAreNotThere(t, id)
	}
}

func pathsThatAreNotThere(t *testing.T, id *issuer.Issuer) {
	t.Helper()
	rt, err := troupe.New(troupe.Options{HTTP: troupe.HTTPOptions{NoSSE: true}, Auth: &auth.Config{Issuers: []auth.Issuer{{URL: id.URL}}, APIKeys: auth.StoredKeys, PublicURL: public}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close(context.Background()) })
	paths := []string{"/mcp", "/sse", "/messages"}
	credentials := make(map[string][]string)
	for _, path := range paths {
		rt.Mount(path, troupe.NewServer(mcp.Implementation{Name: "test", Version: "1"}, nil))
		_, secret, err := rt.APIKeys().Create(t.Context(), auth.APIKey{Name: path, Servers: []string{path}})
		if err != nil {
			t.Fatal(err)
		}
		credentials[path] = []string{id.Token("alice", public+path, nil), secret}
	}
	for of, all := range credentials {
		for kind, credential := range all {
			for _, at := range paths {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, at, strings.NewReader(listTools))
				r.Header = http.Header{"Authorization": {"Bearer " + credential}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {"2025-11-25"}}
				w := httptest.NewRecorder()
				rt.ServeHTTP(w, r)
				if got, want := w.Code == http.StatusUnauthorized, of != at; got != want {
					t.Errorf("the %s of %s at %s: %d", [2]string{"token", "key"}[kind], of, at, w.Code)
				}
			}
		}
	}
}

package auth_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/issuer"
)

// TestKeysLieInTheStore starts a process while the issuer is down: it verifies like the one before.
func TestKeysLieInTheStore(t *testing.T) {
	t.Parallel()
	id, dir := issuer.New(t), t.TempDir()
	status := func(token string) int {
		rt, err := troupe.New(troupe.Options{Dir: dir, Auth: &auth.Config{Issuers: []auth.Issuer{{URL: id.URL}}, PublicURL: public}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := rt.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		rt.Mount("/mcp", troupe.NewServer(mcp.Implementation{Name: "test", Version: "1"}, nil))
		hs := httptest.NewServer(rt)
		defer hs.Close()
		c := &kit.Client{T: t, HTTP: hs.Client(), URL: hs.URL + "/mcp", Header: http.Header{"Authorization": {"Bearer " + token}}}
		return c.Post(initialize).StatusCode
	}
	for asked := int64(-1); asked != id.Asked(); { // until one asks nobody: the disk may have been too slow to keep the keys
		asked = id.Asked()
		if got := status(id.Token("alice", resource, nil)); got != 200 {
			t.Fatalf("a process beside the issuer: %d", got)
		}
	}
	id.SetDown(true)
	if got := status(id.Token("bob", resource, nil)); got != 200 {
		t.Errorf("a process that starts while the issuer is down: %d", got)
	}
}

// TestHTTP2 has the tokens of two users on one connection of HTTP/2, which are taken apart, and metadata for a mux of the program.
func TestHTTP2(t *testing.T) {
	t.Parallel()
	id := issuer.New(t)
	rt, err := troupe.New(troupe.Options{
		Auth:   &auth.Config{Issuers: []auth.Issuer{{URL: id.URL}}, PublicURL: public},
		Limits: troupe.Limits{StatelessGrace: time.Hour}, // a busy machine makes no streams of short calls
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close(context.Background()) })
	srv := troupe.NewServer(mcp.Implementation{Name: "test", Version: "1"}, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "whoami"}, func(_ context.Context, call *troupe.Call, _ struct{}) (string, error) {
		p := call.Principal()
		if p.Token.Reveal() != "" || call.Header().Get("Authorization") == "" {
			return "", errors.New("the principal has a token, or the header has none")
		}
		return p.Subject + "|" + p.Client + "|" + strings.Join(p.Scopes, " "), nil
	})
	rt.Mount("/mcp", srv)
	mux := http.NewServeMux()
	mux.Handle("/mcp", rt)
	mux.Handle("/.well-known/", rt.WellKnown())
	hs := httptest.NewUnstartedServer(mux)
	hs.EnableHTTP2 = true
	hs.StartTLS()
	t.Cleanup(hs.Close)
	tokens := map[string]string{"alice": id.Token("alice", resource, nil), "bob": id.Token("bob", resource, nil)}
	for range 3 {
		for name, token := range tokens {
			c := &kit.Client{T: t, HTTP: hs.Client(), URL: hs.URL + "/mcp", Header: http.Header{"Authorization": {"Bearer " + token}}}
			a := c.Post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"whoami","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
				"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "whoami")
			if a.ProtoMajor != 2 || a.StatusCode != 200 || !strings.Contains(a.Body, name+"|editor|files:read") {
				t.Errorf("%s: %s %s %s", name, a.Proto, a.Status, a.Body)
			}
		}
	}
	for path, want := range map[string]int{"/.well-known/oauth-protected-resource/mcp": 200, "/.well-known/oauth-protected-resource/x": 404} {
		a, err := hs.Client().Get(hs.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, a.Body)
		a.Body.Close()
		if a.StatusCode != want {
			t.Errorf("%s: %s", path, a.Status)
		}
	}
}

// TestOneWay has options that exclude each other, and a configuration with a fault: New makes nothing.
func TestOneWay(t *testing.T) {
	t.Parallel()
	both := troupe.Options{Auth: &auth.Config{}, Authenticate: func(*http.Request) (troupe.Principal, error) { return troupe.Principal{}, nil }}
	if _, err := troupe.New(both); err == nil || !strings.Contains(err.Error(), "Options.Auth and Options.Authenticate") {
		t.Errorf("both: %v", err)
	}
	if _, err := troupe.New(troupe.Options{Auth: &auth.Config{}}); err == nil || !strings.Contains(err.Error(), "Auth.Issuers is empty") {
		t.Errorf("an empty configuration: %v", err)
	}
	if _, err := troupe.New(troupe.Options{Auth: &auth.Config{Issuers: []auth.Issuer{{URL: "http://id.example.com"}}, PublicURL: public}}); err == nil {
		t.Error("an issuer without TLS is taken")
	}
}

package auth_test

import (
	"context"
	"fmt"
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

// TestAPIKeys calls with keys of a store in memory: whose the principal is, which servers and scopes it has, that its session outlives a rotation and is nobody else's, and that it
// ends when the key is revoked. An issuer's token counts beside it.
func TestAPIKeys(t *testing.T) {
	t.Parallel()
	id := issuer.New(t)
	rt, err := troupe.New(troupe.Options{
		Auth:   &auth.Config{Issuers: []auth.Issuer{{URL: id.URL}}, PublicURL: public, APIKeys: auth.StoredKeys},
		Limits: troupe.Limits{Grace: time.Hour}, // a busy machine makes no streams of short calls
		Shared: troupe.SharedLimits{AuthFailures: 0.001},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	for _, path := range []string{"/mcp", "/other"} {
		srv := troupe.NewServer(mcp.Implementation{Name: "test", Version: "1"}, nil)
		who := func(_ context.Context, c *troupe.Call, _ struct{}) (string, error) {
			p := c.Principal()
			return fmt.Sprint(p.Issuer, " ", p.Client == p.Subject, " ", p.Machine, " ", p.Scopes, " ", p.Token), nil
		}
		troupe.AddTool(srv, troupe.Tool{Name: "who"}, who)
		troupe.AddTool(srv, troupe.Tool{Name: "write", Scopes: []string{"files:write"}}, who)
		rt.Mount(path, srv)
	}
	hs := httptest.NewServer(rt)
	t.Cleanup(hs.Close)
	as := func(path, key string) *kit.Client {
		return &kit.Client{T: t, HTTP: hs.Client(), URL: hs.URL + path, Header: http.Header{"Authorization": {"Bearer " + key}}}
	}
	keys := rt.APIKeys()
	make := func(name string, servers ...string) string {
		t.Helper()
		_, secret, err := keys.Create(t.Context(), auth.APIKey{Name: name, Scopes: []string{"files:read"}, Servers: servers})
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"who","arguments":{}}}`
	ci, other := as("/mcp", make("CI", "main")).Initialize(`{}`), as("/mcp", make("other", "/mcp")).Initialize(`{}`)
	if a := ci.Post(call); a.StatusCode != 200 || !strings.Contains(string(a.Body), "troupe:keys true true [files:read] ") {
		t.Errorf("the call of a key: %s %s", a.Status, a.Body)
	}
	if a := ci.Post(strings.Replace(call, "who", "write", 1)); a.StatusCode != 403 {
		t.Errorf("a call without its scope: %s", a.Status)
	}
	if a := as("/mcp", id.Token("alice", resource, nil)).Initialize(`{}`).Post(call); a.StatusCode != 200 {
		t.Errorf("the call of a user: %s", a.Status)
	}
	mine := ci.Session
	other.Session = mine
	if a := other.Post(call); a.StatusCode != 404 {
		t.Errorf("the session of another key: %s", a.Status)
	}
	_, second, err := keys.Rotate(t.Context(), "CI", time.Hour, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	rotated := as("/mcp", second)
	rotated.Session = mine
	if a := rotated.Post(call); a.StatusCode != 200 {
		t.Errorf("the session after a rotation: %s %s", a.Status, a.Body)
	}
	if a := as("/other", second).Post(call); a.StatusCode != 401 || !strings.Contains(a.Header.Get("WWW-Authenticate"), `error="invalid_token"`) {
		t.Errorf("a key at another server: %s %v", a.Status, a.Header)
	}
	if a := as("/mcp", second[:len(second)-1]).Post(call); a.StatusCode != 429 {
		t.Errorf("another bad key of the address: %s", a.Status)
	}
	if a := ci.Post(call); a.StatusCode != 200 {
		t.Errorf("a key that is known, of that address: %s", a.Status)
	}
	stream := ci.Get("")
	defer stream.Close()
	if k, err := keys.Revoke(t.Context(), "CI"); err != nil || k.Revoked.IsZero() {
		t.Fatal(k, err)
	}
	stream.All() // it ends
	for end := time.Now().Add(10 * time.Minute); ci.Post(call).StatusCode == 200 || rotated.Post(call).StatusCode == 200; {
		if time.Now().After(end) {
			t.Fatal("a revoked key counts")
		}
	}
}

// TestAPIKeysAlone: without an issuer there is no metadata, and the challenge names none.
func TestAPIKeysAlone(t *testing.T) {
	t.Parallel()
	d := newDoor(t, func(o *troupe.Options) { o.Auth = &auth.Config{APIKeys: auth.StoredKeys} })
	c := d.Unchecked()
	a := c.Post(listTools)
	if got := challenge(t, a.Header); a.StatusCode != 401 || len(got) != 1 || got["realm"] != "mcp" {
		t.Errorf("without a key: %s %v", a.Status, a.Header)
	}
	if !strings.Contains(a.Body, "an API key is required: send Authorization: Bearer KEY") {
		t.Errorf("without a key the text is %s", a.Body)
	}
	k, secret, err := d.Runtime.APIKeys().Create(t.Context(), auth.APIKey{Name: "CI", Servers: []string{"elsewhere"}})
	if err != nil {
		t.Fatal(err)
	}
	if a := d.as(secret).Post(listTools); a.StatusCode != 401 || !strings.Contains(d.log.String(), `"key":{"id":"`+k.ID+`","name":"CI",`) {
		t.Errorf("with a key of another server: %s, and the log has not which: %s", a.Status, d.log)
	}
	origin := strings.TrimSuffix(c.URL, "/mcp")
	for _, path := range []string{"/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource/sse", "/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server"} {
		c.URL = origin + path
		if a := c.Do("GET", ""); a.StatusCode != 404 {
			t.Errorf("%s: %s", path, a.Status)
		}
	}
}

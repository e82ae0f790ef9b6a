package auth_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/issuer"
	"github.com/troupe-run/troupe/test/spec/host"
)

var update = flag.Bool("update", false, "write testdata/challenges")

// challenges are those that tests got, each once: a line has the status, the reason that is counted, the scopes that are asked for, and the challenge. They lie in
// testdata/challenges, where the parsers of SDKs read them, too.
type challenges []string

func (c *challenges) add(a *kit.Answer, reason, scopes string) {
	line := strings.Join([]string{fmt.Sprint(a.StatusCode), reason, scopes, a.Header.Get("WWW-Authenticate")}, "\t") + "\n"
	if !slices.Contains(*c, line) {
		*c = append(*c, line)
	}
}

// compare fails the test if the challenges are not those of a file.
func (c *challenges) compare(t *testing.T, name string) {
	t.Helper()
	file, text := filepath.Join("testdata", "challenges", name+".txt"), strings.Join(*c, "")
	was, err := os.ReadFile(file)
	if string(was) == text {
		return
	}
	if !*update {
		t.Fatalf("%s differs from what is answered (%v): go test ./test/spec/auth -update writes it", file, err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// isRefusal checks the body of a refusal.
func isRefusal(t *testing.T, at string, a *kit.Answer) {
	t.Helper()
	var body struct {
		Error struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(a.Body), &body); err != nil || body.Error.Code != -32600 || !strings.Contains(body.Error.Message, "token") && !strings.Contains(body.Error.Message, "credential") {
		t.Errorf("%s: the body is %s", at, a.Body)
	}
}

// TestStepUp calls what needs a scope that the token lacks: the challenge has the scopes granted and needed together, and names the resource of the request, for which the client
// has to get a token.
func TestStepUp(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	troupe.AddTool(d.Server, troupe.Tool{Name: "write", Scopes: []string{"files:write"}}, nothing)
	troupe.AddTool(d.Server, troupe.Tool{Name: "require"}, func(_ context.Context, call *troupe.Call, _ struct{}) (string, error) {
		return "", call.Require("files:write")
	})
	scopes := issuer.Claims{"scope": "openid offline_access files:read"}
	c := d.as(d.id.Token("alice", resource, scopes)).Initialize(`{}`)
	s := &host.Stateless{T: t, Client: d.as(d.id.Token("alice", resource, scopes)), Capabilities: `{}`}
	sse := d.as(d.id.Token("alice", older, scopes)).OpenSSE("/sse")
	defer sse.Stream.Close()
	sse.Handshake("2024-11-05", `{}`)
	modern := func(tool string) *kit.Answer {
		a, _ := s.Tool(tool, `{}`)
		return a
	}
	var said challenges
	for _, row := range []struct {
		name string
		a    func() *kit.Answer
		at   string
	}{
		{"scope of a tool, session", func() *kit.Answer { return c.Post(host.Call("1", "write", `{}`)) }, where},
		{"scope of a call, session", func() *kit.Answer { return c.Post(host.Call("2", "require", `{}`)) }, where},
		{"scope of a tool, stateless", func() *kit.Answer { return modern("write") }, where},
		{"scope of a call, stateless", func() *kit.Answer { return modern("require") }, where},
		{"scope of a tool, a message of HTTP+SSE", func() *kit.Answer { return sse.Post(host.Call("3", "write", `{}`), "Accept", "") }, public + "/.well-known/oauth-protected-resource/sse"},
	} {
		before := d.Refused("scope")
		a := row.a()
		want := map[string]string{"error": "insufficient_scope", "error_description": "the access token lacks a scope", "resource_metadata": row.at, "scope": "openid files:read files:write"}
		if got := challenge(t, a.Header); a.StatusCode != 403 || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %s %v, want %v", row.name, a.Status, got, want)
		}
		if d.Refused("scope") != before+1 {
			t.Errorf("%s is not counted", row.name)
		}
		isRefusal(t, row.name, a)
		said.add(a, "scope", want["scope"])
	}
	said.compare(t, "scopes")
	for _, want := range []string{`"path":"/mcp","address":`, `"reason":"scope","status":403,"issuer":"` + d.id.URL + `","subject":"alice","client":"editor","lacks":["files:write"],"has":["openid","offline_access","files:read"]`} {
		if !strings.Contains(d.log.String(), want) {
			t.Errorf("the log has no %s: %s", want, d.log)
		}
	}
}

// TestRequiredScopes has a server without scopes of its own demand those of the configuration, of tokens and of keys, also of known ones once the configuration has changed. What lacks
// one is no token that failed.
func TestRequiredScopes(t *testing.T) {
	t.Parallel()
	var with func(scopes ...string) *auth.Config
	d := newDoor(t, func(o *troupe.Options) {
		issuers := o.Auth.Issuers
		with = func(scopes ...string) *auth.Config {
			return &auth.Config{Issuers: issuers, PublicURL: public, APIKeys: auth.StoredKeys, Scopes: scopes, RequireScopes: true, Implies: map[string][]string{"files:write": {"files:read"}}}
		}
		o.Auth, o.Shared.AuthFailures = with("files:read"), 0.001 // one at once
	})
	key := func(name string, scopes ...string) string {
		_, secret, err := d.Runtime.APIKeys().Create(t.Context(), auth.APIKey{Name: name, Scopes: scopes})
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	lacks := func(at, token, scopes string) {
		t.Helper()
		before := d.Refused("scope")
		a := d.as(token).Post(listTools)
		want := map[string]string{"error": "insufficient_scope", "error_description": "the access token lacks a scope", "resource_metadata": where, "scope": scopes}
		if got := challenge(t, a.Header); a.StatusCode != 403 || fmt.Sprint(got) != fmt.Sprint(want) || d.Refused("scope") != before+1 {
			t.Errorf("%s: %s %v, want %v", at, a.Status, got, want)
		}
		data, _ := json.Marshal(strings.Fields(scopes))
		if isRefusal(t, at, a); !strings.Contains(a.Body, `"data":{"scopes":`+string(data)+`}`) {
			t.Errorf("%s: the body is %s", at, a.Body)
		}
	}
	alice := d.user("alice")
	for _, token := range []string{d.id.Token("bob", resource, issuer.Claims{"scope": "files:write"}), key("reader", "files:read")} {
		if a := d.as(token).Initialize(`{}`).Post(listTools); a.StatusCode != 200 {
			t.Errorf("with the scope, or one that implies it: %s %s", a.Status, a.Body)
		}
	}
	for range 2 {
		lacks("a token", d.id.Token("carol", resource, issuer.Claims{"scope": "other"}), "other files:read")
		lacks("a token without scopes", d.id.Token("carol", resource, issuer.Claims{"scope": nil}), "files:read")
		lacks("a key", key("none"+fmt.Sprint(d.Refused("scope"))), "files:read")
	}
	for _, want := range []string{`"subject":"carol","client":"editor","lacks":["files:read"],"has":["other"]`, `"name":"none2"},"lacks":["files:read"]`} {
		if !strings.Contains(d.log.String(), want) {
			t.Errorf("the log has no %s: %s", want, d.log)
		}
	}
	stream := alice.Get("")
	defer stream.Close()
	if err := d.Runtime.SetAuth(with("files:delete")); err != nil {
		t.Fatal(err)
	}
	stream.All() // it ends
	if a := alice.Post(listTools); a.StatusCode != 403 {
		t.Errorf("a session without a scope that is needed now: %s", a.Status)
	}
}

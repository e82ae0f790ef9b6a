package auth_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/issuer"
	"github.com/troupe-run/troupe/test/spec/host"
)

const (
	public   = "https://mcp.example.com"
	resource = public + "/mcp"
	older    = public + "/sse"
	where    = public + "/.well-known/oauth-protected-resource/mcp"
)

// door is a server that takes the tokens of an issuer.
type door struct {
	*host.Host
	id  *issuer.Issuer
	log *lines
}

// lines is what was logged.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newDoor(t *testing.T, change ...func(*troupe.Options)) *door {
	t.Helper()
	d := &door{id: issuer.New(t), log: new(lines)}
	o := troupe.Options{
		Auth:   &auth.Config{Issuers: []auth.Issuer{{URL: d.id.URL}}, PublicURL: public, Scopes: []string{"files:read"}},
		Shared: troupe.SharedLimits{AuthFailures: -1},
		Log:    slog.New(slog.NewJSONHandler(d.log, nil)),
	}
	for _, f := range change {
		f(&o)
	}
	d.Host = host.NewLoopback(t, o, nil, nil)
	return d
}

// Refused is how many requests were refused for a reason.
func (d *door) Refused(reason string) int64 { return d.Gauge("troupe.http.refused", reason) }

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"kit","version":"1"}}}`

// payload is an answer of any form, "" for a stream that was cut before it.
func payload(a *kit.Answer) string {
	if !a.Stream() {
		return a.Body
	}
	all := host.Payloads(a.All())
	return strings.Join(all[max(0, len(all)-1):], "")
}

// as returns a client with a token.
func (d *door) as(token string) *kit.Client {
	c := d.Unchecked()
	c.Header = http.Header{"Authorization": {"Bearer " + token}}
	return c
}

// user returns a client with a session of a user.
func (d *door) user(name string) *kit.Client {
	d.T.Helper()
	return d.as(d.id.Token(name, resource, nil)).Initialize(`{}`)
}

var challengeForm = regexp.MustCompile(`^Bearer ([a-z_]+="[^"\\]*")(, [a-z_]+="[^"\\]*")*$`)

// challenge parses a challenge of one scheme (RFC 9110, 11.6.1), strictly.
func challenge(t *testing.T, h http.Header) map[string]string {
	t.Helper()
	values := h["Www-Authenticate"]
	if len(values) == 0 {
		return nil
	}
	if len(values) > 1 || !challengeForm.MatchString(values[0]) {
		t.Errorf("the challenge is %q", values)
		return nil
	}
	all := map[string]string{}
	for _, p := range strings.Split(strings.TrimPrefix(values[0], "Bearer "), ", ") {
		name, value, _ := strings.Cut(p, "=")
		if _, twice := all[name]; twice {
			t.Errorf("%s comes twice", name)
		}
		all[name] = strings.Trim(value, `"`)
	}
	return all
}

const listTools = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`

// TestMetadata is public, for each path, and by the public URL alone.
func TestMetadata(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	base := strings.TrimSuffix(d.URL, "/mcp")
	get := func(method, path string, header ...string) *kit.Answer {
		t.Helper()
		c := d.Unchecked()
		c.URL = base + path
		return c.Do(method, "", header...)
	}
	forged := []string{"Origin", "https://page.example.com", "X-Forwarded-Host", "evil.example.com", "X-Forwarded-Proto", "gopher", "Forwarded", "host=evil.example.com"}
	for path, want := range map[string]string{
		"/.well-known/oauth-protected-resource/mcp": resource, "/.well-known/oauth-protected-resource/sse": older, "/.well-known/oauth-protected-resource": resource,
	} {
		a := get("GET", path, forged...)
		var doc struct {
			Resource string   `json:"resource"`
			Issuers  []string `json:"authorization_servers"`
			Scopes   []string `json:"scopes_supported"`
		}
		if err := json.Unmarshal([]byte(a.Body), &doc); err != nil || a.StatusCode != 200 || doc.Resource != want || fmt.Sprint(doc.Issuers, doc.Scopes) != fmt.Sprint([]string{d.id.URL}, []string{"files:read"}) {
			t.Errorf("%s: %s %s", path, a.Status, a.Body)
		}
		if h := a.Header; h.Get("Access-Control-Allow-Origin") != "*" || h.Get("Cache-Control") != "public, max-age=300" || h.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %v", path, h)
		}
		if h := get("HEAD", path); h.StatusCode != 200 || h.ContentLength != int64(len(a.Body)) || h.Body != "" {
			t.Errorf("HEAD %s: %s %d %q", path, h.Status, h.ContentLength, h.Body)
		}
		o := get("OPTIONS", path, "Origin", "https://page.example.com", "Access-Control-Request-Method", "GET")
		if o.StatusCode != 204 || o.Header.Get("Access-Control-Allow-Methods") != "GET, HEAD, OPTIONS" || !strings.Contains(o.Header.Get("Access-Control-Allow-Headers"), "Authorization") {
			t.Errorf("OPTIONS %s: %s %v", path, o.Status, o.Header)
		}
		if p := get("POST", path); p.StatusCode != 405 {
			t.Errorf("POST %s: %s", path, p.Status)
		}
	}
	if a := get("GET", "/.well-known/oauth-authorization-server"); a.StatusCode != 200 || a.Body != d.id.Metadata() {
		t.Errorf("the issuer's: %s %s", a.Status, a.Body)
	}
	for _, path := range []string{"/.well-known/oauth-protected-resource/other", "/.well-known/oauth-authorization-server/mcp", "/.well-known/openid-configuration"} {
		if a := get("GET", path); a.StatusCode != 404 {
			t.Errorf("%s: %s", path, a.Status)
		}
	}
	second := troupe.NewServer(mcp.Implementation{Name: "second", Version: "1"}, nil)
	d.Runtime.Mount("/second/mcp", second)
	if a := get("GET", "/.well-known/oauth-protected-resource"); a.StatusCode != 404 {
		t.Errorf("with two servers the root has a document: %s", a.Body)
	}
	if a := get("GET", "/.well-known/oauth-protected-resource/second/sse"); a.StatusCode != 200 {
		t.Errorf("the second server: %s", a.Status)
	}
	d.Runtime.Unmount("/second/mcp")
	if a := get("GET", "/.well-known/oauth-protected-resource/second/mcp"); a.StatusCode != 404 {
		t.Errorf("a server that is unmounted: %s", a.Status)
	}
	if a := d.Unchecked().Do("OPTIONS", "", "Origin", base, "Access-Control-Request-Method", "POST"); a.StatusCode != 204 || !strings.Contains(a.Header.Get("Access-Control-Allow-Headers"), "Authorization") {
		t.Errorf("a preflight: %s %v", a.Status, a.Header)
	}
	if a := d.Unchecked().Post(listTools, "Origin", base); a.StatusCode != 401 || a.Header.Get("Access-Control-Allow-Origin") != base || !strings.Contains(a.Header.Get("Access-Control-Expose-Headers"), "WWW-Authenticate") || !strings.Contains(a.Header.Get("Access-Control-Expose-Headers"), "Mcp-Session-Id") {
		t.Errorf("a page: %s %v", a.Status, a.Header)
	}
}

// TestOutage has an issuer that cannot be reached: 503 with Retry-After, never 401. What was verified before still counts.
func TestOutage(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.id.SetDown(true)
	if a := d.as(d.id.Token("alice", resource, nil)).Post(listTools); a.StatusCode != 503 || a.Header.Get("Retry-After") == "" || a.Header.Get("Www-Authenticate") != "" || d.Refused("auth-unavailable") != 1 {
		t.Errorf("%s %v %s", a.Status, a.Header, a.Body)
	}
	up := newDoor(t)
	alice := up.user("alice")
	up.id.SetDown(true)
	if a := alice.Post(listTools); a.StatusCode != 200 {
		t.Errorf("a token that is known: %s", a.Status)
	}
	if a := up.as(up.id.Token("bob", resource, nil)).Initialize(`{}`); a.Session == "" {
		t.Error("the keys are not kept")
	}
}

// TestOthersThings has a caller with a valid token, who reaches nothing of another: CVE-2026-52869 (messages of HTTP+SSE) and CVE-2026-52870 (sessions).
func TestOthersThings(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	alice := d.user("alice")
	for name, token := range map[string]string{
		"bob":                          d.id.Token("bob", resource, nil),
		"the machine that is so named": d.id.Token("alice", resource, issuer.Claims{"client_id": "alice"}),
		"the client of that id":        d.id.Token("", resource, issuer.Claims{"sub": nil, "client_id": "alice"}),
	} {
		c := d.as(token)
		c.Session = alice.Session
		if a := c.Post(host.Call("1", "echo", `{"text":"x"}`)); a.StatusCode != 404 {
			t.Errorf("a call of %s in the session: %s %s", name, a.Status, a.Body)
		}
		if a := c.Get(""); a.StatusCode != 404 {
			t.Errorf("a stream of %s: %s", name, a.Status)
		}
		if a := c.Do("DELETE", ""); a.StatusCode != 404 {
			t.Errorf("DELETE by %s: %s", name, a.Status)
		}
	}
	refreshed := d.as(d.id.Token("alice", resource, issuer.Claims{"client_id": "another"}))
	refreshed.Session = alice.Session
	if a := refreshed.Post(host.Call("1", "echo", `{"text":"x"}`)); a.StatusCode != 200 {
		t.Errorf("another token of the same user: %s %s", a.Status, a.Body)
	}
	sse := d.as(d.id.Token("alice", older, nil)).OpenSSE("/sse")
	defer sse.Stream.Close()
	for name, tt := range map[string]struct {
		token string
		want  int
	}{
		"bob": {d.id.Token("bob", older, nil), 404}, "nobody": {"", 401}, "a token of the other path": {d.id.Token("alice", resource, nil), 401}, "alice": {d.id.Token("alice", older, nil), 202},
	} {
		c := d.as(tt.token)
		if tt.token == "" {
			c = d.Unchecked()
		}
		c.URL = sse.Messages
		if a := c.Post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); a.StatusCode != tt.want {
			t.Errorf("a message of %s: %s, want %d", name, a.Status, tt.want)
		}
	}
}

// TestManyFailures has an address whose tokens fail: 429, but for a token that is known.
func TestManyFailures(t *testing.T) {
	t.Parallel()
	d := newDoor(t, func(o *troupe.Options) { o.Shared.AuthFailures = 0.001 }) // one at once
	alice := d.user("alice")
	bad := d.as("abc")
	if a := bad.Post(listTools); a.StatusCode != 401 {
		t.Errorf("the first: %s", a.Status)
	}
	for range 3 {
		if a := bad.Post(listTools); a.StatusCode != 429 || a.Header.Get("Retry-After") == "" {
			t.Errorf("the next: %s %v", a.Status, a.Header)
		}
	}
	if n := d.Refused("auth-failures"); n != 3 {
		t.Errorf("%d are counted", n)
	}
	if a := alice.Post(listTools); a.StatusCode != 200 {
		t.Errorf("a token that is known: %s", a.Status)
	}
	if a := d.as(d.id.Token("bob", resource, nil)).Post(listTools); a.StatusCode != 429 {
		t.Errorf("a token that is not: %s", a.Status)
	}
	if a := d.Unchecked().Post(listTools); a.StatusCode != 401 {
		t.Errorf("no token: %s", a.Status)
	}
}

// TestAnonymous lets requests without a token pass beside an issuer. A bad token is refused nevertheless, and anonymous clients list no tasks.
func TestAnonymous(t *testing.T) {
	t.Parallel()
	d := newDoor(t, func(o *troupe.Options) { o.Auth.AllowAnonymous = true })
	troupe.AddTool(d.Server, troupe.Tool{Name: "work", Task: troupe.TaskOptional}, func(context.Context, *troupe.Call, struct{}) (string, error) { return "done", nil })
	nobody := d.Unchecked().Initialize(`{}`)
	if a := nobody.Post(host.Method("1", "tasks/list", `{}`)); !strings.Contains(a.Body, "-32601") {
		t.Errorf("tasks/list of nobody: %s", a.Body)
	}
	if a := d.as("abc").Post(listTools); a.StatusCode != 401 {
		t.Errorf("a bad token: %s", a.Status)
	}
	// What needs a scope has them sign in, as clients do after a 401 without an error.
	troupe.AddTool(d.Server, troupe.Tool{Name: "scoped", Scopes: []string{"demo:write"}}, func(context.Context, *troupe.Call, struct{}) (string, error) { return "done", nil })
	troupe.AddTool(d.Server, troupe.Tool{Name: "requires"}, func(_ context.Context, call *troupe.Call, _ struct{}) (string, error) {
		return "done", call.Require("demo:write")
	})
	for i, tool := range []string{"scoped", "requires"} {
		call := host.Method("2", "tools/call", `{"name":"`+tool+`","arguments":{}}`)
		a := nobody.Post(call)
		got := challenge(t, a.Header)
		if a.StatusCode != 401 || got["error"] != "" || got["scope"] != "demo:write" || got["resource_metadata"] != where || !strings.Contains(a.Body, `"an access token is required"`) {
			t.Errorf("%s of nobody: %s %v %s", tool, a.Status, got, a.Body)
		}
		if n := d.Refused("auth-missing"); n != int64(i)+1 {
			t.Errorf("%s: %d requests without a token were counted", tool, n)
		}
		if a := d.user("alice").Post(call); a.StatusCode != 403 || challenge(t, a.Header)["error"] != "insufficient_scope" {
			t.Errorf("%s of alice: %s", tool, a.Status)
		}
	}
	c := d.as(d.id.Token("alice", resource, nil))
	c.Session = nobody.Session
	if a := c.Post(listTools); a.StatusCode != 404 {
		t.Errorf("a user in the session of nobody: %s", a.Status)
	}
}

// TestForgedHost has a name that stands for this server's address: it is refused, also where metadata is.
func TestForgedHost(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	for _, path := range []string{"/mcp", "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(d.URL, "/mcp")+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "evil.example.com"
		a, err := d.HTTP.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s", path, a.Status)
		}
	}
}

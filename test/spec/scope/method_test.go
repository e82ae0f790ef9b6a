package scope_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

var sessions = []string{host.R20241105, host.R20250326, host.R20250618, host.R20251125}

// TestMethodsOfASession refuses each method in each revision with sessions, to a caller that lacks the scope, before the handler runs.
func TestMethodsOfASession(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, ran := guarded(t, troupe.Options{}, troupe.ServerOptions{})
		for _, revision := range sessions {
			c := as(h.Unchecked(), "base other").InitializeAs(revision, `{}`)
			for _, r := range guardedRequests {
				what := revision + " " + r.method + " " + r.params
				before := ran.Load()
				denied(t, what, as(c, "base other").Post(host.Method("1", r.method, r.params)), "1", "base other "+r.needs)
				denied(t, what+" without base", as(c, r.needs).Post(host.Method("1", r.method, r.params)), "1", r.needs+" base")
				if n := ran.Load() - before; n != 0 {
					t.Errorf("%s: %d handlers have run", what, n)
				}
				if a := as(c, "base "+r.needs).Post(host.Method("1", r.method, r.params)); a.StatusCode != http.StatusOK || strings.Contains(a.Body, `"error"`) {
					t.Errorf("%s: %s %s", what, a.Status, a.Body)
				}
			}
			tools, _, _ := host.ToolsOf(t, as(c, "base"))
			if list := strings.Join(tools, " "); !strings.Contains(list, "tool") || !strings.Contains(list, "require") {
				t.Errorf("%s: the tools are %s: what only lacks a scope is listed", revision, list)
			}
		}
	})
}

// TestMethodsOfTheServer refuses whatever a client does with a server that needs a scope.
func TestMethodsOfTheServer(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, _ := guarded(t, troupe.Options{}, troupe.ServerOptions{})
		c := as(h.Unchecked(), "base").InitializeAs(host.R20251125, `{}`)
		as(c, "other")
		denied(t, "initialize", as(h.Unchecked(), "other").Post(host.Initialize("1", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`)), "1", "other base")
		denied(t, "ping", c.Post(host.Method("1", "ping", "")), "1", "other base")
		denied(t, "notification", c.Post(host.Note("notifications/cancelled", `{"requestId":1}`)), "", "other base")
		denied(t, "answer", c.Post(`{"jsonrpc":"2.0","id":1,"result":{}}`), "", "other base")
		denied(t, "GET", c.Do(http.MethodGet, ""), "", "other base")
		denied(t, "DELETE", c.Do(http.MethodDelete, ""), "", "other base")
		anonymous := h.Unchecked()
		denied(t, "anonymous", anonymous.Post(host.Method("1", "ping", "")), "1", "base")
		sse := as(h.Unchecked(), "other")
		sse.URL = strings.Replace(sse.URL, "/mcp", "/sse", 1)
		denied(t, "GET /sse", sse.Do(http.MethodGet, ""), "", "other base")
		if n := h.Gauge("troupe.http.refused", "scope"); n == 0 {
			t.Error("no refusal was counted")
		}
	})
}

// TestMethodsOverSSE refuses the POST of a message, in each revision.
func TestMethodsOverSSE(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, ran := guarded(t, troupe.Options{}, troupe.ServerOptions{})
		for _, revision := range sessions {
			s := as(h.Unchecked(), "base").OpenSSE("/sse")
			defer s.Stream.Close()
			s.Handshake(revision, `{}`)
			for _, r := range guardedRequests {
				what := revision + " " + r.method + " " + r.params
				before := ran.Load()
				denied(t, what, as(s.Client, "base").Post(host.Method("1", r.method, r.params), "Accept", ""), "1", "base "+r.needs)
				if n := ran.Load() - before; n != 0 {
					t.Errorf("%s: %d handlers have run", what, n)
				}
				as(s.Client, "base "+r.needs)
				if m := s.Ask(host.Method("2", r.method, r.params)); strings.Contains(m, `"error"`) {
					t.Errorf("%s: %s", what, m)
				}
			}
		}
	})
}

// TestStatelessMethods refuses the requests of 2026-07-28.
func TestStatelessMethods(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, ran := guarded(t, troupe.Options{}, troupe.ServerOptions{})
		c := h.Stateless(`{}`)
		requests := append([]guardedRequest{
			{"subscriptions/listen", `{"notifications":{"resourceSubscriptions":["open://1","test://resource"]}}`, "resources"},
			{"subscriptions/listen", `{"notifications":{"resourceSubscriptions":["guarded://1"]}}`, "templates"},
		}, guardedRequests...)
		for _, r := range requests {
			if r.method == "resources/subscribe" {
				continue
			}
			what, before := r.method+" "+r.params, ran.Load()
			as(c.Client, "base other")
			a, id := c.Do(r.method, r.params)
			denied(t, what, a, id, "base other "+r.needs)
			if n := ran.Load() - before; n != 0 {
				t.Errorf("%s: %d handlers have run", what, n)
			}
			as(c.Client, "base "+r.needs)
			if a, _ := c.Do(r.method, r.params); a.StatusCode != http.StatusOK {
				t.Errorf("%s: %s %s", what, a.Status, a.Body)
			} else if a.Stream() {
				a.Close()
			}
		}
		as(c.Client, "other")
		a, id := c.Do("server/discover", `{}`)
		denied(t, "server/discover", a, id, "other base")
	})
}

// TestBatchIsRefusedWhole sends a batch of which one request lacks a scope.
func TestBatchIsRefusedWhole(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, ran := guarded(t, troupe.Options{}, troupe.ServerOptions{})
		c := as(h.Unchecked(), "base").InitializeAs(host.R20250326, `{}`)
		batch := host.Batch(host.Method("1", "resources/read", `{"uri":"open://1"}`), host.Call("2", "tool", `{}`), host.Method("3", "prompts/get", `{"name":"prompt"}`))
		denied(t, "batch", as(c, "base tools").Post(batch), "", "base tools prompts")
		denied(t, "batch", as(c, "base prompts").Post(batch), "", "base prompts tools")
		if n := ran.Load(); n != 0 {
			t.Errorf("%d handlers have run", n)
		}
		if a := as(c, "base tools prompts").Post(batch); a.StatusCode != http.StatusOK || ran.Load() != 3 {
			t.Errorf("%s %s, %d handlers have run", a.Status, a.Body, ran.Load())
		}
	})
}

// TestHiddenItemAsksForNoScope checks that a challenge does not give away what Visible hides.
func TestHiddenItemAsksForNoScope(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, _ := guarded(t, troupe.Options{}, troupe.ServerOptions{Visible: func(troupe.Principal, troupe.Item) bool { return false }})
		c := as(h.Unchecked(), "base").InitializeAs(host.R20251125, `{}`)
		for _, r := range guardedRequests {
			if a := c.Post(host.Method("1", r.method, r.params)); a.StatusCode != http.StatusOK || !strings.Contains(a.Body, `"error"`) || strings.Contains(a.Body, "scope") {
				t.Errorf("%s %s: %s %s, want that it does not exist", r.method, r.params, a.Status, a.Body)
			}
		}
	})
}

// TestScopesOfAPipe calls everything over stdio, where everything is allowed.
func TestScopesOfAPipe(t *testing.T) {
	p := host.NewPipe(t, troupe.Options{})
	addGuarded(p.Server, new(counter))
	p.Initialize(host.R20251125)
	for _, r := range guardedRequests {
		if r.method == "completion/complete" {
			continue
		}
		if m := p.Ask(host.Method("1", r.method, r.params)); strings.Contains(m, `"error"`) {
			t.Errorf("%s: %s", r.method, m)
		}
	}
	if m := p.Ask(host.Call("2", "require", `{}`)); !strings.Contains(m, `"ran"`) {
		t.Errorf("require: %s", m)
	}
}

// TestScopesThatAreNone adds items whose scopes are none.
func TestScopesThatAreNone(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "a b", `a"b`, `a\b`, "ü", "a\n", "offline_access"} {
		of := []string{"good", bad}
		s := troupe.NewServer(mcp.Implementation{Name: "test", Version: "1"}, nil)
		_, err := troupe.TryNewServer(mcp.Implementation{Name: "test", Version: "1"}, &troupe.ServerOptions{Scopes: of})
		for what, err := range map[string]error{
			"server":   err,
			"tool":     troupe.TryAddRawTool(s, troupe.Tool{Name: "x", InputSchema: []byte(`{"type":"object"}`), Scopes: of}, noTool),
			"prompt":   troupe.TryAddPrompt(s, troupe.Prompt{Name: "x", Scopes: of}, noPrompt),
			"resource": troupe.TryAddResource(s, mcp.Resource{URI: "x:y", Name: "x", Scopes: of}, noResource),
			"template": troupe.TryAddResourceTemplate(s, mcp.ResourceTemplate{URITemplate: "x:{y}", Name: "x", Scopes: of}, noResource),
		} {
			if err == nil || !strings.Contains(err.Error(), "scope") {
				t.Errorf("%s with the scope %q: %v", what, bad, err)
			}
		}
	}
}

package scope_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

func TestMain(m *testing.M) { kit.Main(m) }

// user is an Options.Authenticate by the headers X-User and X-Scopes.
func user(r *http.Request) (troupe.Principal, error) {
	p, err := host.User(r)
	if p.Subject != "" {
		p.Scopes = strings.Fields(r.Header.Get("X-Scopes"))
	}
	return p, err
}

// as makes all later requests of c come from ann with scopes.
func as(c *kit.Client, scopes string) *kit.Client {
	c.Header = http.Header{"X-User": {"ann"}, "X-Scopes": {scopes}}
	return c
}

// guarded starts a host with an item of each kind that needs the scope that its name begins with, beside base, which the server needs. ran counts what has
// reached a handler.
func guarded(t *testing.T, o troupe.Options, so troupe.ServerOptions) (h *host.Host, ran *atomic.Int64) {
	t.Helper()
	ran = new(atomic.Int64)
	o.Authenticate = user
	so.Scopes = []string{"base"}
	so.Complete = func(context.Context, *troupe.Call, mcp.CompleteParams) (mcp.Completion, error) {
		ran.Add(1)
		return mcp.Completion{Values: []string{"v"}}, nil
	}
	h = host.New(t, o, &so)
	addGuarded(h.Server, ran)
	return h, ran
}

func addGuarded(s *troupe.Server, ran *atomic.Int64) {
	troupe.AddTool(s, troupe.Tool{Name: "tool", Scopes: []string{"tools"}, Task: troupe.TaskOptional, Rerun: troupe.Safe}, func(ctx context.Context, call *troupe.Call, in struct {
		Wait bool `json:"wait,omitempty"`
	}) (string, error) {
		ran.Add(1)
		if in.Wait {
			_ = call.Progress(ctx, 1, 0, "")
			<-ctx.Done()
		}
		return "ran", nil
	})
	troupe.AddPrompt(s, troupe.Prompt{Name: "prompt", Scopes: []string{"prompts"}}, func(context.Context, *troupe.Call, map[string]string) (*mcp.GetPromptResult, error) {
		ran.Add(1)
		return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Role: mcp.RoleUser, Content: mcp.Text("x")}}}, nil
	})
	read := func(_ context.Context, _ *troupe.Call, uri string, _ map[string]string) ([]mcp.ResourceContents, error) {
		ran.Add(1)
		return []mcp.ResourceContents{mcp.TextResource(uri, "text/plain", "x")}, nil
	}
	troupe.AddResource(s, mcp.Resource{URI: "test://resource", Name: "r", Scopes: []string{"resources"}}, read)
	troupe.AddResourceTemplate(s, mcp.ResourceTemplate{URITemplate: "guarded://{id}", Name: "t", Scopes: []string{"templates"}}, read)
	troupe.AddResourceTemplate(s, mcp.ResourceTemplate{URITemplate: "open://{id}{?form}", Name: "o"}, read)
	troupe.AddResource(s, mcp.Resource{URI: "open://secret", Name: "s", Scopes: []string{"resources"}}, read)
	troupe.AddTool(s, troupe.Tool{Name: "require", Scopes: []string{"tools"}}, func(ctx context.Context, call *troupe.Call, in struct {
		First bool `json:"first,omitempty"` // something is sent
	}) (string, error) {
		if in.First {
			_ = call.Progress(ctx, 1, 0, "")
		}
		if err := call.Require("delete"); err != nil {
			return "", err
		}
		ran.Add(1)
		return "ran", nil
	})
}

// guardedRequest is a request that needs a scope beside base.
type guardedRequest struct{ method, params, needs string }

var guardedRequests = []guardedRequest{
	{"tools/call", `{"name":"tool","arguments":{}}`, "tools"},
	{"prompts/get", `{"name":"prompt"}`, "prompts"},
	{"resources/read", `{"uri":"test://resource"}`, "resources"},
	{"resources/read", `{"uri":"TEST://resource"}`, "resources"},
	{"resources/read", `{"uri":"guarded://1"}`, "templates"},
	{"resources/read", `{"uri":"open://secret"}`, "resources"},
	{"resources/read", `{"uri":"open://secret?form=1"}`, "resources"},
	{"completion/complete", `{"ref":{"type":"ref/prompt","name":"prompt"},"argument":{"name":"a","value":""}}`, "prompts"},
	{"completion/complete", `{"ref":{"type":"ref/resource","uri":"guarded://{id}"},"argument":{"name":"id","value":""}}`, "templates"},
	{"completion/complete", `{"ref":{"type":"ref/resource","uri":"test://resource"},"argument":{"name":"id","value":""}}`, "resources"},
	{"resources/subscribe", `{"uri":"test://resource"}`, "resources"},
	{"resources/subscribe", `{"uri":"guarded://1"}`, "templates"},
}

// denied checks that an answer asks for scopes.
func denied(t *testing.T, what string, a *kit.Answer, id, wanted string) {
	t.Helper()
	if a.StatusCode != http.StatusForbidden || a.Stream() {
		t.Errorf("%s: %s %s, want 403", what, a.Status, a.Body)
		return
	}
	host.Equal(t, what+": challenge", a.Header.Get("Www-Authenticate"), `Bearer error="insufficient_scope", error_description="the access token lacks a scope", scope="`+wanted+`"`)
	isDenial(t, what, a.Body, id, wanted)
}

// isDenial checks that a message is the error that names scopes; id "" is none.
func isDenial(t *testing.T, what, message, id, wanted string) {
	t.Helper()
	var got struct {
		ID    json.RawMessage
		Error struct {
			Code    int
			Message string
			Data    struct{ Scopes []string }
		}
	}
	if err := json.Unmarshal([]byte(message), &got); err != nil {
		t.Errorf("%s: %v: %s", what, err, message)
		return
	}
	if e := got.Error; e.Code != host.Invalid || e.Message != "the access token lacks a scope" || !slices.Equal(e.Data.Scopes, strings.Fields(wanted)) || string(got.ID) != id {
		t.Errorf("%s: %s, want the scopes %s with the id %s", what, message, wanted, id)
	}
}

type counter = atomic.Int64

func noTool(context.Context, *troupe.Call, json.RawMessage) (*mcp.CallToolResult, error) {
	return nil, nil
}

func noPrompt(context.Context, *troupe.Call, map[string]string) (*mcp.GetPromptResult, error) {
	return nil, nil
}

func noResource(context.Context, *troupe.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
	return nil, nil
}

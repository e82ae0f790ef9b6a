package stateless_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestOtherRequestsDoNotAsk checks that only the requests that the specification names
// get questions as a response (2026-07-28, basic/patterns/mrtr, supported requests).
func TestOtherRequestsDoNotAsk(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		asked := make(chan error, 1)
		ask := func(ctx context.Context, call *troupe.Call) error {
			_, err := call.Elicit(ctx, "?", host.Form)
			asked <- err
			return err
		}
		h := host.New(t, troupe.Options{}, &troupe.ServerOptions{
			Complete: func(ctx context.Context, call *troupe.Call, _ mcp.CompleteParams) (mcp.Completion, error) {
				return mcp.Completion{}, ask(ctx, call)
			},
			Subscribe: func(ctx context.Context, call *troupe.Call, _ string) error { return ask(ctx, call) },
		})
		m := h.Stateless(host.EveryCapability)
		_, response := m.Send("completion/complete", `{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":""}}`, "")
		host.Contains(t, "completion", response, `"error":{"code":-32603,`)
		if err := <-asked; !errors.Is(err, mcp.ErrInexpressible) {
			t.Errorf("completion asked: %v", err)
		}
		_, filter := m.Listen("1", `{"resourceSubscriptions":["test://one"]}`)
		host.Equal(t, "filter", filter, `{}`)
		if err := <-asked; !errors.Is(err, mcp.ErrInexpressible) {
			t.Errorf("a listener asked: %v", err)
		}
		// Lists and discovery have no handlers; they ignore the members of a retry.
		for _, method := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list", "server/discover"} {
			_, response := m.Send(method, `{"requestState":"x","inputResponses":{"elicit":{}}}`, "")
			host.Contains(t, method, response, `"resultType":"complete"`)
		}
	})
}

// TestPromptsAndResourcesAsk has the other two requests get questions as a response, and
// checks that a resource read with answers must not be cached.
func TestPromptsAndResourcesAsk(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		public := troupe.Cache{TTL: time.Hour, Scope: mcp.CachePublic}
		h := host.New(t, troupe.Options{}, &troupe.ServerOptions{ReadCache: public})
		ask := func(ctx context.Context, call *troupe.Call) (string, error) {
			r, err := call.Elicit(ctx, "?", host.Form)
			return string(r.Action), err
		}
		troupe.AddResource(h.Server, mcp.Resource{URI: "test://ask", Name: "ask"}, func(ctx context.Context, call *troupe.Call, uri string, _ map[string]string) ([]mcp.ResourceContents, error) {
			call.SetCache(public)
			text, err := ask(ctx, call)
			return []mcp.ResourceContents{mcp.TextResource(uri, "", text)}, err
		})
		troupe.AddPrompt(h.Server, troupe.Prompt{Name: "ask", Needs: mcp.CapClientElicitationForm}, func(ctx context.Context, call *troupe.Call, _ map[string]string) (*mcp.GetPromptResult, error) {
			text, err := ask(ctx, call)
			return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Role: mcp.RoleUser, Content: mcp.Text(text)}}}, err
		})
		troupe.AddTool(h.Server, troupe.Tool{Name: "ask", Needs: mcp.CapClientElicitationForm}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) { return ask(ctx, call) })
		m := h.Stateless(host.EveryCapability)
		const (
			read   = `{"resultType":"complete","ttlMs":0,"cacheScope":"private",` + host.StatelessMeta + `,"contents":[{"uri":"test://ask","text":"accept"}]}`
			prompt = host.Complete + `,"messages":[{"role":"user","content":{"type":"text","text":"accept"}}]}`
		)
		for _, tt := range []struct{ method, params, want string }{
			{"resources/read", `"uri":"test://ask"`, read},
			{"prompts/get", `"name":"ask"`, prompt},
		} {
			a, id := m.Do(tt.method, "{"+tt.params+"}")
			if strings.Contains(a.Body, "ttlMs") {
				t.Errorf("%s: a question is to be kept: %s", tt.method, a.Body)
			}
			state := m.Parked(a, id, "elicit")
			// The same name in a request of another method is another request.
			a, id = m.Tool("ask", `{}`, state, host.Given("elicit", "x"))
			host.Equal(t, tt.method+": a tool", m.Done(a, id), "error -32602: the requestState is not valid for this request")
			_, response := m.Send(tt.method, "{"+tt.params+","+state+","+host.Given("elicit", "x")+"}", "")
			host.Contains(t, tt.method, response, `"result":`+tt.want)
			// The keys find the answers that come with the first request.
			_, response = m.Send(tt.method, "{"+tt.params+","+host.Given("elicit", "x")+"}", "")
			host.Contains(t, tt.method+" at once", response, `"result":`+tt.want)
			m.Capabilities = `{}`
			_, response = m.Send(tt.method, "{"+tt.params+"}", "")
			host.Contains(t, tt.method+" undeclared", response, `"error":{"code":-32021,`)
			m.Capabilities = host.EveryCapability
		}
		_, response := m.Send("resources/read", `{"uri":"test://one"}`, "")
		host.Contains(t, "what asks nothing", response, `"ttlMs":3600000,"cacheScope":"public"`)
	})
}

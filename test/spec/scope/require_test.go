package scope_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestRequire refuses what depends on arguments: with status 403 as long as nothing was sent, and then with the error alone.
func TestRequire(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, ran := guarded(t, troupe.Options{}, troupe.ServerOptions{})
		const scopes, wanted = "other base tools", "other base tools delete"
		plain, begins := host.Call("1", "require", `{}`), host.CallWith("2", "require", `{"first":true}`, `"p"`)
		last := func(what string, a *kit.Answer, id string) {
			t.Helper()
			if !a.Stream() {
				t.Errorf("%s: %s %s, want a stream", what, a.Status, a.Body)
				return
			}
			all := host.Payloads(a.All())
			isDenial(t, what, all[len(all)-1], id, wanted)
		}
		for _, revision := range sessions {
			c := as(h.Unchecked(), scopes).InitializeAs(revision, `{}`)
			denied(t, revision, c.Post(plain), "1", wanted)
			last(revision+", something was sent", c.Post(begins), "2")
			if a := as(c, wanted).Post(plain); !strings.Contains(a.Body, `"ran"`) {
				t.Errorf("%s: %s %s", revision, a.Status, a.Body)
			}
		}
		c := h.Stateless(`{}`)
		as(c.Client, scopes)
		a, id := c.Tool("require", `{}`)
		denied(t, "stateless", a, id, wanted)
		a, id = c.Tool("require", `{"first":true}`, `"_meta":{"progressToken":"p"}`)
		if a.Stream() {
			last("stateless, something was sent", a, id)
		}
		s := as(h.Unchecked(), scopes).OpenSSE("/sse")
		defer s.Stream.Close()
		s.Handshake(host.R20241105, `{}`)
		isDenial(t, "HTTP+SSE", s.Ask(plain), "1", wanted)
		b := as(h.Unchecked(), scopes).InitializeAs(host.R20250326, `{}`)
		if a := b.Post(host.Batch(plain, host.Method("3", "ping", ""))); a.StatusCode != 200 {
			t.Errorf("batch: %s %s", a.Status, a.Body)
		} else {
			isDenial(t, "batch", host.Elements(t, a.Body)[slices.IndexFunc(host.Elements(t, a.Body), func(e string) bool { return strings.Contains(e, `"error"`) })], "1", wanted)
		}
		if n := ran.Load(); n != int64(len(sessions)) {
			t.Errorf("%d handlers got through, want %d", n, len(sessions))
		}
	})
}

// TestRequireOfWhatIsNoScope is a mistake of the program, and no denial.
func TestRequireOfWhatIsNoScope(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Authenticate: user}, nil)
		h.AddTool("bad", 0, func(_ context.Context, call *troupe.Call) (string, error) { return "", call.Require("a b") })
		h.AddTool("none", 0, func(_ context.Context, call *troupe.Call) (string, error) { return "none", call.Require() })
		h.AddTool("dropped", 0, func(_ context.Context, call *troupe.Call) (string, error) {
			_ = call.Require("x")
			return "went on", nil
		})
		h.AddTool("wrapped", 0, func(_ context.Context, call *troupe.Call) (string, error) {
			first := call.Require("x")
			_ = call.Require("y")
			return "", fmt.Errorf("wrapped: %w", first)
		})
		c := as(h.Unchecked(), "s").InitializeAs(host.R20251125, `{}`)
		if a := c.Post(host.Call("1", "bad", `{}`)); a.StatusCode != 200 || !strings.Contains(a.Body, `"isError":true`) {
			t.Errorf("%s %s", a.Status, a.Body)
		}
		host.Equal(t, "none", c.Post(host.Call("1", "none", `{}`)).Body, host.TextResult("1", "none"))
		host.Equal(t, "an error that the handler does not return", c.Post(host.Call("1", "dropped", `{}`)).Body, host.TextResult("1", "went on"))
		denied(t, "wrapped, the first of two", c.Post(host.Call("1", "wrapped", `{}`)), "1", "s x")
	})
}

// TestMiddlewareAsksForMore passes on other params than came, which need a scope.
func TestMiddlewareAsksForMore(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		to := ""
		change := func(next troupe.MethodHandler) troupe.MethodHandler {
			return func(ctx context.Context, call *troupe.Call, method string, params json.RawMessage) (json.RawMessage, error) {
				if to != "" {
					params = json.RawMessage(to)
				}
				return next(ctx, call, method, params)
			}
		}
		h, ran := guarded(t, troupe.Options{}, troupe.ServerOptions{MethodMiddleware: []troupe.MethodMiddleware{change}})
		troupe.AddPrompt(h.Server, troupe.Prompt{Name: "open"}, func(context.Context, *troupe.Call, map[string]string) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{}, nil
		})
		c := as(h.Unchecked(), "base").InitializeAs(host.R20251125, `{}`)
		as(c, "base")
		open := map[string]string{
			"prompts/get": `{"name":"open"}`, "resources/read": `{"uri":"open://1"}`, "resources/subscribe": `{"uri":"open://1"}`,
			"completion/complete": `{"ref":{"type":"ref/prompt","name":"open"},"argument":{"name":"a","value":""}}`,
		}
		for _, r := range guardedRequests {
			if from := open[r.method]; from != "" {
				to = r.params
				denied(t, r.method+" "+r.params, c.Post(host.Method("1", r.method, from)), "1", "base "+r.needs)
			}
		}
		to = ""
		denied(t, "require", as(c, "base tools").Post(host.Call("1", "require", `{}`)), "1", "base tools delete")
		if n := ran.Load(); n != 0 {
			t.Errorf("%d handlers have run", n)
		}
	})
}

// TestRandomScopes calls tools with random scopes as principals that have random ones: a call runs exactly if its caller has all that it needs.
func TestRandomScopes(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		all := []string{"a", "b", "c", "d"}
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 1))
		some := func() (s []string) {
			for _, x := range all {
				if random.IntN(2) == 0 {
					s = append(s, x)
				}
			}
			random.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
			return s
		}
		for range 20 {
			least := some()
			h := host.New(t, troupe.Options{Authenticate: user}, &troupe.ServerOptions{Scopes: least})
			needs := make([][]string, 5)
			for i := range needs {
				needs[i] = some()
				troupe.AddTool(h.Server, troupe.Tool{Name: fmt.Sprint("t", i), Scopes: needs[i]}, func(context.Context, *troupe.Call, struct{}) (string, error) { return "ran", nil })
			}
			c := h.Stateless(`{}`)
			for range 20 {
				i, has := random.IntN(len(needs)), some()
				as(c.Client, strings.Join(has, " "))
				a, id := c.Tool(fmt.Sprint("t", i), `{}`)
				var wanted []string
				lacks := false
				for _, s := range slices.Concat(has, least, needs[i]) {
					lacks = lacks || !slices.Contains(has, s)
					if !slices.Contains(wanted, s) {
						wanted = append(wanted, s)
					}
				}
				what := fmt.Sprintf("seed %d: server %v, tool %v, caller %v", seed, least, needs[i], has)
				if lacks {
					denied(t, what, a, id, strings.Join(wanted, " "))
				} else if a.StatusCode != 200 {
					t.Errorf("%s: %s %s", what, a.Status, a.Body)
				}
			}
		}
	})
}

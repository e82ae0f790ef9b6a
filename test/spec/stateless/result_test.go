package stateless_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

func TestStatelessToolResults(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		p := host.NewStatelessPipe(t, troupe.Options{}, nil)
		raw := func(name string, outputSchema string, result *mcp.CallToolResult, err error) {
			tool := troupe.Tool{Name: name, Description: "d", InputSchema: json.RawMessage(`{"type":"object"}`)}
			if outputSchema != "" {
				tool.OutputSchema = json.RawMessage(outputSchema)
			}
			troupe.AddRawTool(p.Server, tool, func(context.Context, *troupe.Call, json.RawMessage) (*mcp.CallToolResult, error) { return result, err })
		}
		raw("meta", "", &mcp.CallToolResult{ResultType: "x", Content: mcp.Contents{mcp.Text("x")}, Meta: mcp.Meta{"a": json.RawMessage(`1.0`), "b": json.RawMessage("{}")}}, nil)
		raw("empty meta", "", &mcp.CallToolResult{Content: mcp.Contents{mcp.Text("x")}, Meta: mcp.Meta{}}, nil)
		raw("own server", "", &mcp.CallToolResult{Content: mcp.Contents{}, Meta: mcp.Meta{"io.modelcontextprotocol/serverInfo": json.RawMessage(`{"name":"behind","version":"2"}`)}}, nil)
		raw("bad meta", "", &mcp.CallToolResult{Content: mcp.Contents{}, Meta: mcp.Meta{"a": json.RawMessage(`{`)}}, nil)
		raw("list", `{"type":"array","items":{"type":"integer"}}`, &mcp.CallToolResult{StructuredContent: json.RawMessage(`[1,2]`)}, nil)
		raw("null", `{"type":"null"}`, &mcp.CallToolResult{StructuredContent: json.RawMessage(`null`)}, nil)
		raw("number", "", &mcp.CallToolResult{StructuredContent: json.RawMessage(`1.50`)}, nil)
		raw("wrong list", `{"type":"array","items":{"type":"integer"}}`, &mcp.CallToolResult{StructuredContent: json.RawMessage(`["x"]`)}, nil)
		raw("fails", "", nil, errors.New("it broke"))
		raw("lost", "", nil, mcp.NewError(mcp.CodeResourceNotFound, "gone"))
		troupe.AddTool(p.Server, troupe.Tool{Name: "slice", Description: "d"}, func(context.Context, *troupe.Call, struct{}) ([]int, error) { return []int{1, 2}, nil })
		troupe.AddTool(p.Server, troupe.Tool{Name: "truth", Description: "d"}, func(context.Context, *troupe.Call, struct{}) (bool, error) { return false, nil })

		const complete = host.Complete
		for name, want := range map[string]string{
			"echo":       complete + `,"content":[{"type":"text","text":""}]}`,
			"meta":       `{"resultType":"complete","_meta":{"a":1.0,"b":{},"io.modelcontextprotocol/serverInfo":{"name":"test","version":"1"}},"content":[{"type":"text","text":"x"}]}`,
			"empty meta": complete + `,"content":[{"type":"text","text":"x"}]}`,
			"own server": `{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"behind","version":"2"}},"content":[]}`,
			"bad meta":   `{"code":-32603,"message":"internal error"}`,
			"list":       complete + `,"content":[{"type":"text","text":"[1,2]"}],"structuredContent":[1,2]}`,
			"null":       complete + `,"content":[{"type":"text","text":"null"}],"structuredContent":null}`,
			"number":     complete + `,"content":[{"type":"text","text":"1.50"}],"structuredContent":1.50}`,
			"wrong list": `{"code":-32603,"message":"internal error"}`,
			"fails":      complete + `,"content":[{"type":"text","text":"it broke"}],"isError":true}`,
			"lost":       `{"code":-32602,"message":"gone"}`,
			"slice":      complete + `,"content":[{"type":"text","text":"[1,2]"}],"structuredContent":[1,2]}`,
			"truth":      complete + `,"content":[{"type":"text","text":"false"}],"structuredContent":false}`,
			"nothing":    `{"code":-32602,"message":"Unknown tool: nothing"}`,
		} {
			args := `{}`
			if name == "echo" {
				args = `{"text":""}`
			}
			host.Equal(t, name, p.Result("tools/call", host.ToolParams(name, args), ""), want)
		}
		host.Equal(t, "arguments that do not fit", p.Result("tools/call", host.ToolParams("echo", `{"text":1}`), ""),
			complete+`,"content":[{"type":"text","text":"invalid arguments: at '/text': got number, want string"}],"isError":true}`)

		// A client with a session calls the same tools.
		p.Initialize(host.R20251125)
		for name, want := range map[string]string{
			"list":  `{"content":[{"type":"text","text":"[1,2]"}]}`,
			"slice": `{"content":[{"type":"text","text":"[1,2]"}]}`,
			"meta":  `{"content":[{"type":"text","text":"x"}],"_meta":{"a":1.0,"b":{}}}`,
		} {
			host.Equal(t, name, p.Ask(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+name+`"}}`), `{"jsonrpc":"2.0","id":1,"result":`+want+`}`)
		}
		listed := p.Ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		if strings.Contains(listed, `"array"`) || !strings.Contains(listed, `"name":"slice"`) {
			t.Errorf("a schema of lists is sent to a client of %s: %s", host.R20251125, listed)
		}
		host.Contains(t, "lists have schemas", p.Result("tools/list", `{}`, ""), `"outputSchema":{"type":"array","items":{"type":"integer"}}`)
	})
}

const (
	statelessPublic  = `{"resultType":"complete","ttlMs":0,"cacheScope":"public",` + host.StatelessMeta
	statelessPrivate = `{"resultType":"complete","ttlMs":0,"cacheScope":"private",` + host.StatelessMeta
)

func TestStatelessResults(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		p := host.NewStatelessPipe(t, troupe.Options{}, &troupe.ServerOptions{Limits: troupe.Limits{PageSize: 1}, Instructions: "Read on.",
			Complete: func(context.Context, *troupe.Call, mcp.CompleteParams) (mcp.Completion, error) {
				return mcp.Completion{Values: []string{"a"}}, nil
			}})
		troupe.AddPrompt(p.Server, troupe.Prompt{Name: "meta"}, func(context.Context, *troupe.Call, map[string]string) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{ResultType: "x", Messages: []mcp.PromptMessage{}, Meta: mcp.Meta{"a": mcp.Raw(1)}}, nil
		})
		const capabilities = `{"logging":{},"completions":{},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"tools":{"listChanged":true},` +
			`"extensions":{"io.modelcontextprotocol/tasks":{}}}` // echo is safe to run again, so that a long call becomes a task
		for _, tt := range []struct{ method, params, want string }{
			{"server/discover", `{}`, statelessPublic + `,"supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"capabilities":` +
				capabilities + `,"instructions":"Read on."}`},
			{"resources/templates/list", `{}`, statelessPublic + `,"resourceTemplates":[{"uriTemplate":"test://items/{id}","name":"item"}]}`},
			{"resources/list", `{}`, statelessPublic + `,"resources":[{"uri":"test://one","name":"one"}]}`},
			{"resources/read", `{"uri":"test://one"}`, statelessPrivate + `,"contents":[{"uri":"test://one","mimeType":"text/plain","text":"one"}]}`},
			{"resources/read", `{"uri":"test://items/none"}`, `{"code":-32602,"message":"resource not found","data":{"uri":"test://items/none"}}`},
			{"resources/read", `{"uri":"test://nowhere"}`, `{"code":-32602,"message":"resource not found","data":{"uri":"test://nowhere"}}`},
			{"prompts/get", `{"name":"greet","arguments":{"who":"you"}}`, host.Complete + `,"messages":[{"role":"user","content":{"type":"text","text":"Hello you"}}]}`},
			{"prompts/get", `{"name":"meta"}`, `{"resultType":"complete","_meta":{"a":1,"io.modelcontextprotocol/serverInfo":{"name":"test","version":"1"}},"messages":[]}`},
			{"prompts/get", `{"name":"none"}`, `{"code":-32602,"message":"Unknown prompt: none"}`},
			{"completion/complete", `{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":""}}`, host.Complete + `,"completion":{"values":["a"]}}`},
			{"ping", `{}`, `{"code":-32601,"message":"method not found: ping"}`},
			{"logging/setLevel", `{"level":"info"}`, `{"code":-32601,"message":"method not found: logging/setLevel"}`},
			{"resources/subscribe", `{"uri":"test://one"}`, `{"code":-32601,"message":"method not found: resources/subscribe"}`},
			{"initialize", `{}`, `{"code":-32601,"message":"method not found: initialize"}`},
			{"tools/list", `{"cursor":"x"}`, `{"code":-32602,"message":"invalid cursor"}`},
		} {
			host.Equal(t, tt.method+" "+tt.params, p.Result(tt.method, tt.params, ""), tt.want)
		}
		// Each page says how long it may be cached.
		var page struct {
			Prompts    []struct{ Name string }
			NextCursor string
		}
		for i, want := range []string{"greet", "meta"} {
			params := `{}`
			if i > 0 {
				params = `{"cursor":"` + page.NextCursor + `"}`
				page.NextCursor = ""
			}
			got := p.Result("prompts/list", params, "")
			if err := json.Unmarshal([]byte(got), &page); err != nil || page.Prompts[0].Name != want || (page.NextCursor == "") != (i == 1) {
				t.Errorf("page %d: %v %s", i, err, got)
			}
			host.Contains(t, "a page", got, statelessPublic+`,"prompts":[`)
		}
	})
}

// TestStatelessCaching checks who may cache a result, and for how long.
func TestStatelessCaching(t *testing.T) {
	someone := func(*http.Request) (troupe.Principal, error) { return troupe.Principal{}, nil }
	public := func(ttl time.Duration) troupe.Cache { return troupe.Cache{TTL: ttl, Scope: mcp.CachePublic} }
	for _, tt := range []struct {
		name        string
		o           troupe.Options
		so          troupe.ServerOptions
		lists, read string
	}{
		{"by default", troupe.Options{}, troupe.ServerOptions{}, `"ttlMs":0,"cacheScope":"public"`, `"ttlMs":0,"cacheScope":"private"`},
		{"with authentication", troupe.Options{Authenticate: someone}, troupe.ServerOptions{}, `"ttlMs":0,"cacheScope":"private"`, `"ttlMs":0,"cacheScope":"private"`},
		{"by caller", troupe.Options{}, troupe.ServerOptions{Visible: func(troupe.Principal, troupe.Item) bool { return true }}, `"ttlMs":0,"cacheScope":"private"`, `"ttlMs":0,"cacheScope":"private"`},
		{"for a time", troupe.Options{Authenticate: someone}, troupe.ServerOptions{ListCache: troupe.Cache{TTL: time.Minute}, ReadCache: troupe.Cache{TTL: time.Second + time.Microsecond}},
			`"ttlMs":60000,"cacheScope":"private"`, `"ttlMs":1000,"cacheScope":"private"`},
		{"as it is said", troupe.Options{Authenticate: someone}, troupe.ServerOptions{ListCache: public(-time.Hour), ReadCache: public(24 * time.Hour)},
			`"ttlMs":0,"cacheScope":"public"`, `"ttlMs":86400000,"cacheScope":"public"`},
		{"privately", troupe.Options{}, troupe.ServerOptions{ListCache: troupe.Cache{Scope: mcp.CachePrivate}}, `"ttlMs":0,"cacheScope":"private"`, `"ttlMs":0,"cacheScope":"private"`},
	} {
		kit.Bubble(t, func(t *testing.T) {
			p := host.NewStatelessPipe(t, tt.o, &tt.so)
			troupe.AddResource(p.Server, mcp.Resource{URI: "test://kept", Name: "kept"}, func(_ context.Context, call *troupe.Call, uri string, _ map[string]string) ([]mcp.ResourceContents, error) {
				call.SetCache(troupe.Cache{TTL: time.Hour})
				call.SetCache(troupe.Cache{TTL: 2 * time.Hour, Scope: mcp.CachePublic})
				return []mcp.ResourceContents{mcp.TextResource(uri, "", "x")}, nil
			})
			for _, method := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list", "server/discover"} {
				host.Contains(t, tt.name+": "+method, p.Result(method, `{}`, ""), tt.lists)
			}
			host.Contains(t, tt.name+": read", p.Result("resources/read", `{"uri":"test://one"}`, ""), tt.read)
			host.Contains(t, tt.name+": read what says so itself", p.Result("resources/read", `{"uri":"test://kept"}`, ""), `"ttlMs":7200000,"cacheScope":"public"`)
			// A resource read with answers of the client is not the same for another client.
			host.Contains(t, tt.name+": read with answers", p.Result("resources/read", `{"uri":"test://kept","inputResponses":{}}`, ""), `"ttlMs":0,"cacheScope":"private"`)
		})
	}
}

// TestStatelessNeeds checks the error for a client that lacks a capability that a tool needs.
func TestStatelessNeeds(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		p := host.NewStatelessPipe(t, troupe.Options{}, nil)
		for name, needs := range map[string]mcp.Capability{
			"form": mcp.CapClientElicitationForm, "url": mcp.CapClientElicitationURL, "sample": mcp.CapClientSampling, "tools": mcp.CapClientSamplingTools, "roots": mcp.CapClientRoots,
			"all": mcp.CapClientElicitationForm | mcp.CapClientElicitationURL | mcp.CapClientSamplingTools | mcp.CapClientRoots,
		} {
			troupe.AddTool(p.Server, troupe.Tool{Name: name, Description: "d", Needs: needs}, func(context.Context, *troupe.Call, struct{}) (string, error) { return "ran", nil })
			troupe.AddPrompt(p.Server, troupe.Prompt{Name: name, Needs: needs}, func(context.Context, *troupe.Call, map[string]string) (*mcp.GetPromptResult, error) {
				return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{}}, nil
			})
		}
		for _, tt := range []struct{ caps, name, lacks, message string }{
			{`{}`, "form", `{"elicitation":{"form":{}}}`, "elicitation.form"},
			{`{"elicitation":{}}`, "form", "", ""},
			{`{"elicitation":{"url":{}}}`, "form", `{"elicitation":{"form":{}}}`, "elicitation.form"},
			{`{"elicitation":{}}`, "url", `{"elicitation":{"url":{}}}`, "elicitation.url"},
			{`{}`, "sample", `{"sampling":{}}`, "sampling"},
			{`{"sampling":{}}`, "sample", "", ""},
			{`{"sampling":{}}`, "tools", `{"sampling":{"tools":{}}}`, "sampling.tools"},
			{`{}`, "roots", `{"roots":{}}`, "roots"},
			{`{"elicitation":{},"roots":{}}`, "all", `{"sampling":{"tools":{}},"elicitation":{"url":{}}}`, "elicitation.url, sampling.tools"},
			{host.EveryCapability, "all", "", ""},
		} {
			p.M.Capabilities = tt.caps
			for method, params := range map[string]string{"tools/call": host.ToolParams(tt.name, `{}`), "prompts/get": `{"name":"` + tt.name + `"}`} {
				got := p.Result(method, params, "")
				if tt.lacks == "" {
					host.Contains(t, method+" "+tt.name+" with "+tt.caps, got, `"resultType":"complete"`)
					continue
				}
				host.Equal(t, method+" "+tt.name+" with "+tt.caps, got,
					`{"code":-32021,"message":"the client must declare: `+tt.message+`","data":{"requiredCapabilities":`+tt.lacks+`}}`)
			}
		}
	})
}

// TestStatelessUndeclared checks the error for a client when a handler asks for a capability
// that its Needs did not name.
func TestStatelessUndeclared(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		p := host.NewStatelessPipe(t, troupe.Options{}, nil)
		p.M.Capabilities = `{"roots":{}}`
		ask := func(ctx context.Context, call *troupe.Call) error {
			_, err := call.Ask(ctx, troupe.Roots("r"), troupe.Sample("s", mcp.CreateMessageParams{MaxTokens: 1}))
			if !errors.Is(err, troupe.ErrUndeclared) {
				t.Errorf("asked: %v", err)
			}
			return fmt.Errorf("wrapped: %w", err)
		}
		troupe.AddTool(p.Server, troupe.Tool{Name: "rash", Description: "d"}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) { return "", ask(ctx, call) })
		troupe.AddPrompt(p.Server, troupe.Prompt{Name: "rash"}, func(ctx context.Context, call *troupe.Call, _ map[string]string) (*mcp.GetPromptResult, error) {
			return nil, ask(ctx, call)
		})
		troupe.AddResource(p.Server, mcp.Resource{URI: "test://rash", Name: "rash"}, func(ctx context.Context, call *troupe.Call, _ string, _ map[string]string) ([]mcp.ResourceContents, error) {
			return nil, ask(ctx, call)
		})
		troupe.AddTool(p.Server, troupe.Tool{Name: "rasher", Description: "d"}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			_, err := call.ElicitURL(ctx, "m", "i", "x:")
			return "", err
		})
		for method, params := range map[string]string{"tools/call": `{"name":"rash"}`, "prompts/get": `{"name":"rash"}`, "resources/read": `{"uri":"test://rash"}`} {
			host.Equal(t, method, p.Result(method, params, ""), `{"code":-32021,"message":"the client must declare: sampling","data":{"requiredCapabilities":{"sampling":{}}}}`)
		}
		// In a session the handler fails, and a model may read why.
		p.Initialize(host.R20251125)
		host.Equal(t, "in a session", p.Ask(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rasher"}}`),
			`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"troupe: question \"elicit-url\": troupe: the client does not declare this capability: elicitation.url"}],"isError":true}}`)
	})
}

// TestStatelessURLsFirst checks that a handler that has its user open URLs first asks for
// that, and runs again when the client is back.
func TestStatelessURLsFirst(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		p := host.NewStatelessPipe(t, troupe.Options{}, nil)
		var visited atomic.Bool
		visit := func() error {
			if visited.Load() {
				return nil
			}
			return fmt.Errorf("not yet: %w", troupe.URLRequired(mcp.ElicitURL{Message: "Sign in.", ElicitationID: "sign-in", URL: "https://x.example/?a&b"},
				mcp.ElicitURL{Message: "Pay.", ElicitationID: "sign-in", URL: "https://x.example/pay"}, mcp.ElicitURL{Message: "m", URL: "x:"}))
		}
		troupe.AddTool(p.Server, troupe.Tool{Name: "gate", Description: "d"}, func(context.Context, *troupe.Call, struct{}) (string, error) { return "in", visit() })
		troupe.AddPrompt(p.Server, troupe.Prompt{Name: "gate"}, func(context.Context, *troupe.Call, map[string]string) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{}}, visit()
		})
		troupe.AddResource(p.Server, mcp.Resource{URI: "test://gate", Name: "gate"}, func(context.Context, *troupe.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
			return []mcp.ResourceContents{}, visit()
		})
		requests := map[string]string{"tools/call": `{"name":"gate"}`, "prompts/get": `{"name":"gate"}`, "resources/read": `{"uri":"test://gate"}`}
		for method, params := range requests {
			host.Equal(t, method, p.Result(method, params, ""), `{"resultType":"input_required","inputRequests":{`+
				`"sign-in":{"method":"elicitation/create","params":{"mode":"url","message":"Sign in.","url":"https://x.example/?a&b"}},`+
				`"url-2":{"method":"elicitation/create","params":{"mode":"url","message":"Pay.","url":"https://x.example/pay"}},`+
				`"url-3":{"method":"elicitation/create","params":{"mode":"url","message":"m","url":"x:"}}},`+host.StatelessMeta+`}`)
		}
		p.M.Capabilities = `{"elicitation":{}}`
		for method, params := range requests {
			host.Equal(t, method+" of a client that cannot", p.Result(method, params, ""), `{"code":-32021,"message":"the user must open a URL first, but the client must declare: elicitation.url",`+
				`"data":{"requiredCapabilities":{"elicitation":{"url":{}}}}}`)
		}
		visited.Store(true)
		p.M.Capabilities = host.EveryCapability
		for method, params := range requests {
			host.Contains(t, method+" afterwards", p.Result(method, params[:len(params)-1]+`,"inputResponses":{"sign-in":{"action":"accept"}}}`, ""), `"resultType":"complete"`)
		}
	})
}

// TestStatelessRequestsOfTheServer checks that the server sends nothing that a stateless
// client cannot know: pings, messages outside a call, the end of an elicitation by URL.
func TestStatelessRequestsOfTheServer(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		p := host.NewStatelessPipe(t, troupe.Options{}, nil)
		troupe.AddTool(p.Server, troupe.Tool{Name: "talk", Description: "d"}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			var said []string
			for _, err := range []error{call.Ping(ctx), call.Peer().Ping(ctx)} {
				said = append(said, fmt.Sprint(errors.Is(err, mcp.ErrInexpressible)))
			}
			said = append(said, fmt.Sprint(call.Peer().Log(ctx, mcp.LevelError, "", "x") == troupe.ErrNoStream), fmt.Sprint(call.ElicitationComplete(ctx, "e")))
			_, err := call.Peer().Roots(ctx)
			return strings.Join(append(said, fmt.Sprint(err != nil)), " "), nil
		})
		host.Equal(t, "talk", p.Result("tools/call", host.ToolParams("talk", `{}`), `"io.modelcontextprotocol/logLevel":"debug"`),
			host.Complete+`,"content":[{"type":"text","text":"true true true <nil> true"}]}`)
	})
}

// TestStatelessLogLevel checks that a request without a level gets no log messages, and that
// one with a level gets those of that level on.
func TestStatelessLogLevel(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		p := host.NewStatelessPipe(t, troupe.Options{}, nil)
		done := host.StatelessText("1", "logged")
		for level, want := range map[string][]string{"": nil, "debug": {"debug", "info", "warning", "error"}, "notice": {"warning", "error"}, "error": {"error"}, "emergency": nil} {
			meta := ""
			if level != "" {
				meta = `"io.modelcontextprotocol/logLevel":"` + level + `"`
			}
			p.Send(p.M.Body("1", "tools/call", host.ToolParams("log", `{}`), meta))
			for _, l := range want {
				line := p.Next()
				host.Legal(t, line, "")
				host.Equal(t, "with level "+level, line, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"`+l+`","logger":"test","data":"`+l+`"}}`)
			}
			host.Equal(t, "the answer with level "+level, p.Next(), done)
		}
		for _, level := range []string{`"loud"`, `7`, `null`, `""`} {
			got := p.Result("tools/call", host.ToolParams("log", `{}`), `"io.modelcontextprotocol/logLevel":`+level)
			host.Contains(t, "level "+level, got, `{"code":-32602,"message":"_meta`)
		}
	})
}

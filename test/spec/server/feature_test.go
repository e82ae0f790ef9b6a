package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

type weather struct {
	City    string   `json:"city" jsonschema:"where"`
	Celsius float64  `json:"celsius"`
	Tags    []string `json:"tags"`
	Note    string   `json:"note,omitempty"`
}

func TestStructuredOutput(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		troupe.AddTool(h.Server, troupe.Tool{Name: "weather"}, func(_ context.Context, _ *troupe.Call, in host.EchoIn) (weather, error) {
			if in.Text == "fail" {
				return weather{}, errors.New("no weather today")
			}
			return weather{City: in.Text, Celsius: 0}, nil
		})
		troupe.AddTool(h.Server, troupe.Tool{Name: "map", OutputSchema: json.RawMessage(`{"type":"object","required":["n"],"properties":{"n":{"type":"integer","minimum":2}}}`)},
			func(_ context.Context, _ *troupe.Call, in host.CountIn) (map[string]any, error) {
				return map[string]any{"n": in.To}, nil
			})
		troupe.AddTool(h.Server, troupe.Tool{Name: "own", OutputSchema: json.RawMessage(`{"type":"object"}`)},
			func(_ context.Context, _ *troupe.Call, in host.EchoIn) (*mcp.CallToolResult, error) {
				switch in.Text {
				case "nothing":
					return &mcp.CallToolResult{Content: mcp.Contents{mcp.Text("x")}}, nil
				case "broken":
					return &mcp.CallToolResult{StructuredContent: json.RawMessage(`{"a":`)}, nil
				case "error":
					return &mcp.CallToolResult{Content: mcp.Contents{mcp.Text("bad")}, IsError: true}, nil
				}
				return &mcp.CallToolResult{StructuredContent: json.RawMessage(" {\n\"z\": 1.0,\n\"a\": 9007199254740993 }")}, nil
			})
		c := h.Session()
		_, tools, _ := host.ToolsOf(t, c)
		host.Equal(t, "inferred", tools["weather"], `{"name":"weather","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false},`+
			`"outputSchema":{"type":"object","properties":{"city":{"type":"string","description":"where"},"celsius":{"type":"number"},"tags":{"type":"array","items":{"type":"string"}},"note":{"type":"string"}},"required":["city","celsius","tags"],"additionalProperties":false}}`)
		for _, row := range []struct{ tool, args, want string }{
			{"weather", `{"text":"Ulm \"☃\""}`, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"city\":\"Ulm \\\"☃\\\"\",\"celsius\":0,\"tags\":[]}"}],"structuredContent":{"city":"Ulm \"☃\"","celsius":0,"tags":[]}}}`},
			{"weather", `{"text":"fail"}`, host.ToolFault("1", "no weather today")},
			{"map", `{"to":2}`, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"n\":2}"}],"structuredContent":{"n":2}}}`},
			{"map", `{"to":1}`, host.Fault("1", host.Internal, "internal error", "")},
			{"own", `{"text":"nothing"}`, host.Fault("1", host.Internal, "internal error", "")},
			{"own", `{"text":"broken"}`, host.Fault("1", host.Internal, "internal error", "")},
			{"own", `{"text":"error"}`, host.ToolFault("1", "bad")},
			{"own", `{"text":""}`, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":" {\n\"z\": 1.0,\n\"a\": 9007199254740993 }"}],"structuredContent":{"z":1.0,"a":9007199254740993}}}`},
		} {
			host.Equal(t, row.tool+" "+row.args, c.Post(host.Call("1", row.tool, row.args)).Body, row.want)
		}
	})
}

func TestRawToolsAndTheirSchemas(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		const schema = `{"id":"urn:jsonschema:x","$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","required":["b"],"x-unknown":{"z":1,"a":[1.0,1e2,null]},"properties":{"b":{"const":1.0},"a":{}},"description":"☃ \u00e9 <&>"}`
		troupe.AddRawTool(h.Server, troupe.Tool{Name: "raw", Title: "Raw", InputSchema: json.RawMessage(schema), Meta: mcp.Meta{"k": json.RawMessage(`[1.0]`)}},
			func(_ context.Context, call *troupe.Call, args json.RawMessage) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{Content: mcp.Contents{mcp.Text(string(args) + string(call.Meta()["x"]))}, Meta: mcp.Meta{"io.test/x": json.RawMessage(`1.50`)}}, nil
			})
		c := h.Session()
		_, tools, _ := host.ToolsOf(t, c)
		host.Equal(t, "tool", tools["raw"], `{"name":"raw","title":"Raw","inputSchema":`+schema+`,"_meta":{"k":[1.0]}}`)
		host.Equal(t, "result", c.Post(host.Method("1", "tools/call", `{"name":"raw","arguments":{"b":1,"a": [1e400,-0.0]},"_meta":{"x":1.10}}`)).Body,
			`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"b\":1,\"a\": [1e400,-0.0]}1.10"}],"_meta":{"io.test/x":1.50}}}`)
		host.Equal(t, "refused", c.Post(host.Call("1", "raw", `{"b":2}`)).Body, host.ToolFault("1", "invalid arguments: at '/b': value must be 1.0"))
		host.Equal(t, "without arguments", c.Post(host.Method("1", "tools/call", `{"name":"raw"}`)).Body, host.ToolFault("1", "invalid arguments: at '': missing property 'b'"))
	})
}

func TestPagesWhileToolsChange(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		names, _, _ := host.ToolsOf(t, h.Session())
		h.Server.RemoveTools(names...)
		add := func(name string) {
			h.AddTool(name, 0, func(context.Context, *troupe.Call) (string, error) { return "", nil })
		}
		var all []string
		for i := range 250 {
			all = append(all, fmt.Sprintf("tool-%03d", i))
			add(all[i])
		}
		c := h.Session()
		got, _, pages := host.ToolsOf(t, c)
		if diff := cmp.Diff(all, got); diff != "" || pages != 3 {
			t.Errorf("%d pages, want 3:\n%s", pages, diff)
		}
		first := c.Post(host.Method("1", "tools/list", ""))
		second := `{"cursor":"` + host.Cursor(t, first) + `"}`
		h.Server.RemoveTools("tool-000", "tool-099", "tool-100", "tool-150") // the item of the cursor is among them
		add("a-before")
		add("tool-0995")
		add("tool-120-x")
		add("z-after")
		var page struct {
			Result struct {
				Tools      []struct{ Name string }
				NextCursor string
			}
		}
		rest := []string{}
		for params := second; params != ""; {
			page.Result.Tools, page.Result.NextCursor = nil, ""
			if err := json.Unmarshal([]byte(c.Post(host.Method("1", "tools/list", params)).Body), &page); err != nil {
				t.Fatal(err)
			}
			for _, tool := range page.Result.Tools {
				rest = append(rest, tool.Name)
			}
			if params = ""; page.Result.NextCursor != "" {
				params = `{"cursor":"` + page.Result.NextCursor + `"}`
			}
		}
		want := append(slices.Clone(all[101:250]), "tool-0995", "tool-120-x", "z-after")
		want = slices.DeleteFunc(want, func(n string) bool { return n == "tool-150" })
		slices.Sort(want)
		if diff := cmp.Diff(want, rest); diff != "" {
			t.Errorf("behind the cursor (-want +got):\n%s", diff)
		}
	})
}

func TestPromptsAndResources(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		troupe.AddPrompt(h.Server, troupe.Prompt{Name: "rich", Title: "Rich", Icons: []mcp.Icon{{Src: "https://x.example.com/i.png"}}},
			func(context.Context, *troupe.Call, map[string]string) (*mcp.GetPromptResult, error) {
				return &mcp.GetPromptResult{Description: "d", Messages: []mcp.PromptMessage{
					{Role: mcp.RoleAssistant, Content: mcp.Image([]byte{0, 255}, "image/png")},
					{Role: mcp.RoleUser, Content: mcp.Embed(mcp.TextResource("test://one", "", ""))},
				}}, nil
			})
		troupe.AddPrompt(h.Server, troupe.Prompt{Name: "empty"}, func(context.Context, *troupe.Call, map[string]string) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{}, nil
		})
		troupe.AddResource(h.Server, mcp.Resource{URI: "test://blob", Name: "blob", Size: new(int64), MIMEType: "x/y"},
			func(_ context.Context, _ *troupe.Call, uri string, _ map[string]string) ([]mcp.ResourceContents, error) {
				return []mcp.ResourceContents{mcp.BlobResource(uri, "x/y", nil), mcp.TextResource(uri+"/2", "", "")}, nil
			})
		troupe.AddResource(h.Server, mcp.Resource{URI: "test://none", Name: "none"},
			func(context.Context, *troupe.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
				return nil, nil
			})
		c := h.Session()
		for _, row := range []struct{ name, params, want string }{
			{"prompts/list", "", `{"prompts":[{"name":"empty"},{"name":"greet","description":"Greets.","arguments":[{"name":"who","required":true}]},{"name":"rich","title":"Rich","icons":[{"src":"https://x.example.com/i.png"}]}]}`},
			{"prompts/get", `{"name":"greet","arguments":{"who":"A\"nn"}}`, `{"messages":[{"role":"user","content":{"type":"text","text":"Hello A\"nn"}}]}`},
			{"prompts/get", `{"name":"rich"}`, `{"description":"d","messages":[{"role":"assistant","content":{"type":"image","data":"AP8=","mimeType":"image/png"}},{"role":"user","content":{"type":"resource","resource":{"uri":"test://one","text":""}}}]}`},
			{"prompts/get", `{"name":"empty"}`, `{"messages":[]}`},
			{"resources/list", `{}`, `{"resources":[{"uri":"test://blob","name":"blob","mimeType":"x/y","size":0},{"uri":"test://none","name":"none"},{"uri":"test://one","name":"one"}]}`},
			{"resources/templates/list", "", `{"resourceTemplates":[{"uriTemplate":"test://items/{id}","name":"item"}]}`},
			{"resources/read", `{"uri":"test://one"}`, `{"contents":[{"uri":"test://one","mimeType":"text/plain","text":"one"}]}`},
			{"resources/read", `{"uri":"test://blob"}`, `{"contents":[{"uri":"test://blob","mimeType":"x/y","blob":""},{"uri":"test://blob/2","text":""}]}`},
			{"resources/read", `{"uri":"test://none"}`, `{"contents":[]}`},
			{"resources/read", `{"uri":"test://items/a%20b"}`, `{"contents":[{"uri":"test://items/a%20b","mimeType":"text/plain","text":"a b"}]}`},
			{"resources/subscribe", `{"uri":"test://never/listed"}`, `{}`},
			{"resources/unsubscribe", `{"uri":"test://never/listed"}`, `{}`},
		} {
			host.Equal(t, row.name+" "+row.params, c.Post(host.Method("1", row.name, row.params)).Body, `{"jsonrpc":"2.0","id":1,"result":`+row.want+`}`)
		}
		bare := troupe.NewServer(mcp.Implementation{Name: "bare", Version: "1"}, &troupe.ServerOptions{ID: "bare"})
		h.Runtime.Mount("/bare", bare)
		b := h.Client()
		b.URL = "http://127.0.0.1/bare"
		b.Initialize(`{}`)
		for name, member := range map[string]string{"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources", "resources/templates/list": "resourceTemplates"} {
			host.Equal(t, "empty "+name, b.Post(host.Method("1", name, "")).Body, `{"jsonrpc":"2.0","id":1,"result":{"`+member+`":[]}}`)
		}
	})
}

func TestCompletions(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, &troupe.ServerOptions{Complete: func(_ context.Context, _ *troupe.Call, p mcp.CompleteParams) (mcp.Completion, error) {
			var n int
			_, _ = fmt.Sscan(p.Argument.Value, &n) // 0 if it is not a number
			values := make([]string, n)
			for i := range values {
				values[i] = fmt.Sprint(i)
			}
			if p.Context != nil && p.Context.Arguments["total"] != "" {
				return mcp.Completion{Values: values, Total: new(int64(5000))}, nil
			}
			return mcp.Completion{Values: values}, nil
		}})
		c := h.Session()
		values := func(n int) string {
			v := make([]string, n)
			for i := range v {
				v[i] = fmt.Sprintf(`"%d"`, i)
			}
			return "[" + strings.Join(v, ",") + "]"
		}
		for _, row := range []struct{ value, context, want string }{
			{"0", "", `{"values":[]}`},
			{"100", "", `{"values":` + values(100) + `}`},
			{"101", "", `{"values":` + values(100) + `,"total":101,"hasMore":true}`},
			{"250", `,"context":{"arguments":{"total":"x"}}`, `{"values":` + values(100) + `,"total":5000,"hasMore":true}`},
		} {
			a := c.Post(host.Method("1", "completion/complete", `{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":"`+row.value+`"}`+row.context+`}`))
			host.Equal(t, row.value, a.Body, `{"jsonrpc":"2.0","id":1,"result":{"completion":`+row.want+`}}`)
		}
	})
}

func TestLogLevels(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		levels := func(c *kit.Client) string {
			a := c.Post(host.Call("1", "log", `{}`))
			if !a.Stream() {
				return ""
			}
			var got []string
			for _, p := range host.Payloads(a.All()) {
				if _, rest, ok := strings.Cut(p, `"level":"`); ok {
					level, _, _ := strings.Cut(rest, `"`)
					got = append(got, level)
				}
			}
			return strings.Join(got, " ")
		}
		set := func(c *kit.Client, level string) {
			host.Equal(t, "set", c.Post(host.Method("1", "logging/setLevel", `{"level":"`+level+`"}`)).Body, `{"jsonrpc":"2.0","id":1,"result":{}}`)
		}
		c, other := h.Session(), h.Session()
		host.Equal(t, "never set", levels(c), "info warning error")
		set(c, "debug")
		host.Equal(t, "debug", levels(c), "debug info warning error")
		host.Equal(t, "the other's", levels(other), "info warning error")
		set(c, "notice")
		host.Equal(t, "notice", levels(c), "warning error")
		set(other, "emergency")
		host.Equal(t, "emergency", levels(other), "")
		time.Sleep(3 * time.Minute)
		if n := h.Actors("session"); n != 0 {
			t.Errorf("%d sessions in memory after 3 minutes without a request", n)
		}
		host.Equal(t, "notice, read again", levels(c), "warning error")
		host.Equal(t, "emergency, read again", levels(other), "")
	})
}

func TestProgressTokens(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		h.AddTool("floats", 0, func(ctx context.Context, call *troupe.Call) (string, error) {
			for _, v := range []float64{-1.5, -1.5, -2, 0, 0.1, math.NaN(), math.Inf(1), 1e21} {
				if err := call.Progress(ctx, v, 0, ""); err != nil {
					return "", err
				}
			}
			return "done", call.Progress(ctx, 1e21+1e6, 1e22, "almost \"there\"")
		})
		c := h.Session()
		for _, token := range []string{`0`, `""`, `-1`, `"0"`, `9007199254740993`, `"☃\u2603\n"`} {
			a := c.Post(host.CallWith("1", "floats", `{}`, token))
			var want []string
			for _, v := range []string{"-1.5", "0", "0.1", "1000000000000000000000", `1000000000000001000000,"total":10000000000000000000000,"message":"almost \"there\""`} {
				want = append(want, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`+token+`,"progress":`+v+`}}`)
			}
			if diff := cmp.Diff(append(want, host.TextResult("1", "done")), host.Payloads(a.All())); diff != "" {
				t.Errorf("token %s:\n%s", token, diff)
			}
		}
		host.Equal(t, "no token", c.Post(host.Call("1", "count", `{"to":5}`)).Body, host.TextResult("1", "counted to 5"))
	})
}

// TestProgressIsCoalesced checks that of 10,000 values at once 100 are sent, and the
// last one, and that values rise whatever the handler does.
func TestProgressIsCoalesced(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		h.AddTool("fall", 0, func(ctx context.Context, call *troupe.Call) (string, error) {
			for i := 1; i <= 100; i++ {
				_ = call.Progress(ctx, float64(i), 0, "")
			}
			_ = call.Progress(ctx, 500, 0, "")
			_ = call.Progress(ctx, 400, 0, "") // falls
			if err := host.Sleep(ctx, 1500); err != nil {
				return "", err
			}
			_ = call.Progress(ctx, 450, 0, "") // still below
			return "done", call.Progress(ctx, 501, 0, "")
		})
		c := h.Session()
		values := func(a *kit.Answer) (got []float64) {
			for _, p := range host.Payloads(a.All()) {
				var m struct {
					Params struct{ Progress *float64 }
				}
				if err := json.Unmarshal([]byte(p), &m); err == nil && m.Params.Progress != nil {
					got = append(got, *m.Params.Progress)
				}
			}
			return got
		}
		var first []float64
		for i := 1; i <= 100; i++ {
			first = append(first, float64(i))
		}
		if diff := cmp.Diff(append(slices.Clone(first), 10000), values(c.Post(host.CallWith("1", "count", `{"to":10000}`, "1")))); diff != "" {
			t.Errorf("at once:\n%s", diff)
		}
		if diff := cmp.Diff(append(slices.Clone(first), 500, 501), values(c.Post(host.CallWith("1", "fall", `{}`, "1")))); diff != "" {
			t.Errorf("falling:\n%s", diff)
		}
		got := values(c.Post(host.CallWith("1", "count", `{"to":2000,"delay_ms":1}`, "1"))) // 1,000 a second
		if len(got) < 200 || len(got) > 204 || got[len(got)-1] != 2000 || !slices.IsSorted(got) {
			t.Errorf("over 2 s: %d values up to %v", len(got), got[len(got)-1])
		}
	})
}

func TestPanicAndDeadline(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Limits: troupe.Limits{MaxCall: time.Minute}}, nil)
		h.AddTool("late panic", 0, func(ctx context.Context, call *troupe.Call) (string, error) {
			_ = call.Log(ctx, mcp.LevelError, "", "about to")
			panic(fmt.Errorf("secret %d", 42))
		})
		h.AddTool("stubborn", 0, func(ctx context.Context, call *troupe.Call) (string, error) {
			<-ctx.Done()
			cause := context.Cause(ctx)
			time.Sleep(10 * time.Second)
			return cause.Error(), nil
		})
		c := h.Session()
		for range 5 { // more panics than an actor would survive
			host.Equal(t, "panic", c.Post(host.Call("1", "panic", `{}`)).Body, host.Fault("1", host.Internal, "internal error", ""))
			host.Equal(t, "late panic", host.Last(t, c.Post(host.Call("1", "late panic", `{}`))), host.Fault("1", host.Internal, "internal error", ""))
			host.Equal(t, "the next", c.Post(host.Call("1", "echo", `{"text":"x"}`)).Body, host.TextResult("1", "x"))
		}
		begin := time.Now()
		host.Equal(t, "deadline", host.Last(t, c.Post(host.Call("1", "sleep", `{"ms":3600000}`))), host.ToolFault("1", "the call ran for too long"))
		if d := time.Since(begin); d != time.Minute+250*time.Millisecond {
			t.Errorf("ended after %v", d)
		}
		host.Equal(t, "stubborn", host.Last(t, c.Post(host.Call("1", "stubborn", `{}`))), host.TextResult("1", "the call ran for too long"))
	})
}

func TestPrincipals(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Authenticate: host.User}, &troupe.ServerOptions{Limits: troupe.Limits{PageSize: 2}})
		h.AddTool("who", 0, func(_ context.Context, call *troupe.Call) (string, error) {
			p := call.Principal()
			return p.Issuer + "/" + p.Subject, nil
		})
		ann, bob := host.As(h.Client(), "ann").Initialize(`{}`), host.As(h.Client(), "bob").Initialize(`{}`)
		host.Equal(t, "ann", ann.Post(host.Call("1", "who", `{}`)).Body, host.TextResult("1", "test/ann"))
		host.Equal(t, "bob", bob.Post(host.Call("1", "who", `{}`)).Body, host.TextResult("1", "test/bob"))
		host.Equal(t, "nobody", h.Session().Post(host.Call("1", "who", `{}`)).Body, host.TextResult("1", "/"))
		events := ann.Post(host.CallWith("1", "count", `{"to":2}`, "1")).All()
		host.BadEvent(t, bob.Get(events[0].ID))
		host.BadEvent(t, bob.Get(events[1].ID))
		page := `{"cursor":"` + host.Cursor(t, ann.Post(host.Method("1", "tools/list", ""))) + `"}`
		host.Equal(t, "ann's cursor", bob.Post(host.Method("1", "tools/list", page)).Body, host.Fault("1", host.BadParam, "invalid cursor", ""))
		thief := host.As(h.Client(), "bob")
		thief.Session = ann.Session
		for _, a := range []*kit.Answer{thief.Post(host.Method("1", "ping", "")), thief.Get(""), thief.Get(events[0].ID), thief.Do("DELETE", ""),
			thief.Post(host.Note("notifications/cancelled", `{"requestId":1}`))} {
			if a.StatusCode != 404 {
				t.Errorf("%s %s in ann's session: %s", a.Request.Method, a.Request.Header.Get("Last-Event-ID"), a.Status)
			}
		}
		a := host.As(h.Client(), "eve").Post(host.Method("1", "ping", ""))
		if a.StatusCode != 401 || a.Header.Get("WWW-Authenticate") != "Bearer" || strings.Contains(a.Body, "12345") {
			t.Errorf("eve: %s, challenge %q, %s", a.Status, a.Header.Get("WWW-Authenticate"), a.Body)
		}
		host.Equal(t, "ann still", ann.Post(host.Call("1", "who", `{}`)).Body, host.TextResult("1", "test/ann"))
	})
}

// TestIDIsFreeOnceAnswered checks that a client that has a response may use its id
// again, though it should not.
func TestIDIsFreeOnceAnswered(t *testing.T) {
	when.Long(t, "thousands of calls")
	h := host.NewLoopback(t, host.Unhurried, nil, nil)
	c := h.Unchecked().Initialize(`{}`)
	for range 2000 {
		host.Equal(t, "plain", c.Post(host.Call("1", "echo", `{"text":"x"}`)).Body, host.TextResult("1", "x"))
	}
	for range 200 {
		a := c.Post(host.CallWith("1", "count", `{"to":1}`, "1"))
		if !a.Stream() {
			t.Fatalf("%s %s", a.Status, a.Body)
		}
		for e, ok := a.Next(); ok && !strings.Contains(e.Data, `"result"`); e, ok = a.Next() {
		}
	}
}

package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// since returns text for peers of a revision from first on, "" for older ones.
func since(revision, first, text string) string {
	if revision < first {
		return ""
	}
	return text
}

// before returns text for peers of the revisions before first.
func before(revision, first, text string) string {
	if revision >= first {
		return ""
	}
	return text
}

// everyResult is a result with a block of each kind, shared by all calls.
var everyResult = &mcp.CallToolResult{StructuredContent: json.RawMessage(`{"n":1.0}`), Meta: mcp.Meta{"r": mcp.Raw(1)}, Content: mcp.Contents{
	&mcp.TextContent{Text: "x", Annotations: &mcp.Annotations{Priority: new(1.0), LastModified: "2025-01-12T15:00:58Z"}, Meta: mcp.Meta{"b": mcp.Raw(1)}},
	mcp.Audio([]byte("abc"), "audio/wav"),
	mcp.Link(mcp.Resource{URI: "x:1", Name: "one", Title: "One", Icons: []mcp.Icon{{Src: "https://x.example/i.png"}}}),
}}

// newFullHost serves a server that sets every member of its list items, at /full.
func newFullHost(t *testing.T) *host.Host {
	h := host.New(t, troupe.Options{}, nil)
	icons, meta := []mcp.Icon{{Src: "https://x.example/i.png"}}, mcp.Meta{"m": mcp.Raw(1)}
	h.Server = troupe.NewServer(mcp.Implementation{Name: "full", Version: "1", Title: "Full", Description: "All of it.", WebsiteURL: "https://x.example/", Icons: icons},
		&troupe.ServerOptions{ID: "full", Instructions: "Read on.",
			Complete: func(context.Context, *troupe.Call, mcp.CompleteParams) (mcp.Completion, error) {
				return mcp.Completion{Values: []string{"a"}}, nil
			}})
	h.URL = strings.Replace(h.URL, "/mcp", "/full", 1)
	troupe.AddRawTool(h.Server, troupe.Tool{Name: "every", Title: "Every", Description: "Returns every kind of content.", InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`),
		OutputSchema: json.RawMessage(`{"type":"object"}`), Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}, Icons: icons, Meta: meta},
		func(context.Context, *troupe.Call, json.RawMessage) (*mcp.CallToolResult, error) {
			return everyResult, nil
		})
	troupe.AddPrompt(h.Server, troupe.Prompt{Name: "p", Title: "P", Arguments: []mcp.PromptArgument{{Name: "a", Title: "A"}}, Icons: icons, Meta: meta},
		func(context.Context, *troupe.Call, map[string]string) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Role: mcp.RoleUser, Content: everyResult.Content[1]}}}, nil
		})
	troupe.AddResource(h.Server, mcp.Resource{URI: "x:1", Name: "one", Title: "One", Size: new(int64(3)), Annotations: &mcp.Annotations{LastModified: "2025-01-12T15:00:58Z"}, Icons: icons, Meta: meta},
		func(_ context.Context, _ *troupe.Call, uri string, _ map[string]string) ([]mcp.ResourceContents, error) {
			c := mcp.TextResource(uri, "text/plain", "one")
			c.Meta = meta
			return []mcp.ResourceContents{c}, nil
		})
	troupe.AddResourceTemplate(h.Server, mcp.ResourceTemplate{URITemplate: "x:{a}", Name: "any", Title: "Any", Icons: icons, Meta: meta},
		func(context.Context, *troupe.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
			return nil, troupe.ErrNotFound
		})
	h.Runtime.Mount("/full", h.Server)
	return h
}

func TestHandshakes(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := newFullHost(t)
		for _, r := range []string{host.R20241105, host.R20250326, host.R20250618, host.R20251125} {
			c := h.Client()
			a := c.Post(host.Initialize("1", `{"protocolVersion":"`+r+`","capabilities":{},"clientInfo":{"name":"x","version":"1"}}`))
			host.Equal(t, r, a.Body, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"`+r+`","capabilities":{"logging":{}`+since(r, host.R20250326, `,"completions":{}`)+
				`,"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"tools":{"listChanged":true}},"serverInfo":{"name":"full"`+
				since(r, host.R20250618, `,"title":"Full"`)+`,"version":"1"`+since(r, host.R20251125, `,"description":"All of it.","websiteUrl":"https://x.example/","icons":[{"src":"https://x.example/i.png"}]`)+
				`},"instructions":"Read on."}}`)
			c.Session = a.Header.Get("Mcp-Session-Id")
			// A client names the revision from 2025-06-18 on; if it names one, it must name its own.
			const pong = `{"jsonrpc":"2.0","id":2,"result":{}}`
			ping := host.Method("2", "ping", "")
			host.Equal(t, r+" ping without the header", c.Post(ping).Body, pong)
			for _, named := range []string{host.R20241105, host.R20250326, host.R20250618, host.R20251125} {
				a, want, status := c.Post(ping, "MCP-Protocol-Version", named), pong, 200
				if named != r {
					want, status = host.Fault("2", host.Invalid, "MCP-Protocol-Version is not the session's, "+r, ""), 400
				}
				host.Equal(t, r+" ping with "+named, fmt.Sprint(a.StatusCode, a.Body), fmt.Sprint(status, want))
			}
		}
	})
}

// TestListsOfEachRevision asks for each list in many sessions of all revisions at once,
// before and after a change.
func TestListsOfEachRevision(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := newFullHost(t)
		const icons, meta = `,"icons":[{"src":"https://x.example/i.png"}]`, `,"_meta":{"m":1}`
		title := func(r, text string) string { return since(r, host.R20250618, `,"title":"`+text+`"`) }
		lists := func(r, more string) map[string]string {
			return map[string]string{
				"tools/list": `{"tools":[` + more + `{"name":"every"` + title(r, "Every") + `,"description":"Returns every kind of content.","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}}}` +
					since(r, host.R20250618, `,"outputSchema":{"type":"object"}`) + since(r, host.R20250326, `,"annotations":{`+before(r, host.R20250618, `"title":"Every",`)+`"readOnlyHint":true}`) +
					since(r, host.R20251125, icons) + since(r, host.R20250618, meta) + `}]}`,
				"prompts/list": `{"prompts":[{"name":"p"` + title(r, "P") + `,"arguments":[{"name":"a"` + title(r, "A") + `}]` + since(r, host.R20251125, icons) + since(r, host.R20250618, meta) + `}]}`,
				"resources/list": `{"resources":[{"uri":"x:1","name":"one"` + title(r, "One") + `,"size":3` + since(r, host.R20250618, `,"annotations":{"lastModified":"2025-01-12T15:00:58Z"}`) +
					since(r, host.R20251125, icons) + since(r, host.R20250618, meta) + `}]}`,
				"resources/templates/list": `{"resourceTemplates":[{"uriTemplate":"x:{a}","name":"any"` + title(r, "Any") + since(r, host.R20251125, icons) + since(r, host.R20250618, meta) + `}]}`,
			}
		}
		more := ""
		check := func() {
			var all sync.WaitGroup
			for i := range 3 {
				for _, r := range []string{host.R20241105, host.R20250326, host.R20250618, host.R20251125} {
					all.Go(func() {
						c := h.Client().InitializeAs(r, `{}`)
						for list, want := range lists(r, more) {
							a, err := c.Try("POST", host.Method(fmt.Sprint(i), list, ""))
							if err != nil {
								t.Error(err)
								return
							}
							host.Equal(t, r+" "+list, a.Body, `{"jsonrpc":"2.0","id":`+fmt.Sprint(i)+`,"result":`+want+`}`)
						}
					})
				}
			}
			all.Wait()
		}
		check()
		troupe.AddRawTool(h.Server, troupe.Tool{Name: "added", InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(context.Context, *troupe.Call, json.RawMessage) (*mcp.CallToolResult, error) { return nil, nil })
		more = `{"name":"added","inputSchema":{"type":"object"}},`
		check()
	})
}

// TestResultsOfEachRevision has handlers share results between calls of clients of all
// revisions at once.
func TestResultsOfEachRevision(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := newFullHost(t)
		was, err := codec.Marshal(everyResult)
		if err != nil {
			t.Fatal(err)
		}
		audio := func(r string) string {
			if r < host.R20250326 {
				return `{"type":"resource","resource":{"uri":"ni:///sha-256;ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0","mimeType":"audio/wav","blob":"YWJj"}}`
			}
			return `{"type":"audio","data":"YWJj","mimeType":"audio/wav"}`
		}
		var all sync.WaitGroup
		for range 3 {
			for _, r := range []string{host.R20241105, host.R20250326, host.R20250618, host.R20251125} {
				all.Go(func() {
					c := h.Client().InitializeAs(r, `{}`)
					link := `{"type":"text","text":"One: x:1"},{"type":"text","text":"{\"n\":1.0}"}`
					if r >= host.R20250618 {
						link = `{"type":"resource_link","uri":"x:1","name":"one","title":"One"` + since(r, host.R20251125, `,"icons":[{"src":"https://x.example/i.png"}]`) + `}`
					}
					for _, row := range [][2]string{
						{host.Call("1", "every", `{}`), `{"content":[{"type":"text","text":"x","annotations":{"priority":1` + since(r, host.R20250618, `,"lastModified":"2025-01-12T15:00:58Z"`) + `}` + since(r, host.R20250618, `,"_meta":{"b":1}`) + `},` +
							audio(r) + `,` + link + `]` + since(r, host.R20250618, `,"structuredContent":{"n":1.0}`) + `,"_meta":{"r":1}}`},
						{host.Method("1", "prompts/get", `{"name":"p"}`), `{"messages":[{"role":"user","content":` + audio(r) + `}]}`},
						{host.Method("1", "resources/read", `{"uri":"x:1"}`), `{"contents":[{"uri":"x:1","mimeType":"text/plain","text":"one"` + since(r, host.R20250618, `,"_meta":{"m":1}`) + `}]}`},
						// The client may use a feature for which its revision has no
						// capability.
						{host.Method("1", "completion/complete", `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}}`), `{"completion":{"values":["a"]}}`},
					} {
						a, err := c.Try("POST", row[0])
						if err != nil {
							t.Error(err)
							return
						}
						host.Equal(t, r+" "+row[0], a.Body, `{"jsonrpc":"2.0","id":1,"result":`+row[1]+`}`)
					}
				})
			}
		}
		all.Wait()
		is, err := codec.Marshal(everyResult)
		if err != nil {
			t.Fatal(err)
		}
		host.Equal(t, "the shared result", string(is), string(was))
	})
}

func TestBadRequestsOfEachRevision(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		h.AddTool("fail", 0, func(context.Context, *troupe.Call) (string, error) { return "", errors.New("no luck") })
		for _, r := range []string{host.R20241105, host.R20250326, host.R20250618, host.R20251125} {
			c := h.Client().InitializeAs(r, `{}`)
			unfit := func(id, text string) string {
				if r < host.R20251125 {
					return host.Fault(id, host.BadParam, text, "")
				}
				return host.ToolFault(id, text)
			}
			for _, row := range [][3]string{
				{"wrong type", host.Call("1", "echo", `{"text":1}`), unfit("1", "invalid arguments: at '/text': got number, want string")},
				{"missing", host.Call("2", "echo", `{}`), unfit("2", "invalid arguments: at '': missing property 'text'")},
				{"decoded", host.Call("3", "count", `{"to":1e30}`), unfit("3", "invalid arguments: number at offset 6 does not fit int64")},
				{"no object", host.Call("4", "echo", `[1]`), host.Fault("4", host.BadParam, "arguments must be an object", "")},
				{"unknown tool", host.Call("5", "none", `{}`), host.Fault("5", host.BadParam, "Unknown tool: none", "")},
				{"the tool's own failure", host.Call("6", "fail", `{}`), host.ToolFault("6", "no luck")},
				{"a task", host.Method("7", "tools/call", `{"name":"echo","arguments":{"text":"x"},"task":{"ttl":1}}`), host.TextResult("7", "x")},
				{"tasks", host.Method("8", "tasks/get", `{"taskId":"x"}`), host.Fault("8", -32601, "method not found: tasks/get", "")},
				{"of a later revision", host.Method("9", "server/discover", ""), host.Fault("9", -32601, "method not found: server/discover", "")},
			} {
				host.Equal(t, r+" "+row[0], c.Post(row[1]).Body, row[2])
			}
			if a := c.Post(host.Note("notifications/tasks/status", `{"taskId":"x"}`)); a.StatusCode != 202 || a.Body != "" {
				t.Errorf("%s: a notification it does not have: %s %s", r, a.Status, a.Body)
			}
		}
	})
}

// TestStreamsOfEachRevision checks that only clients that can resume on request get a
// retry, and are left by Disconnect; the others resume by event ids all the same.
func TestStreamsOfEachRevision(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		h.AddTool("report", 0, func(ctx context.Context, call *troupe.Call) (string, error) {
			if err := call.Progress(ctx, 1, 2, "half"); err != nil {
				return "", err
			}
			return "done", nil
		})
		for _, r := range []string{host.R20241105, host.R20250326, host.R20250618, host.R20251125} {
			c := h.Client().InitializeAs(r, `{}`)
			events := c.Post(host.CallWith("1", "report", `{}`, `"t"`)).All()
			if primed := events[0].Data == "" && events[0].Retry != ""; primed != (r >= host.R20251125) {
				t.Errorf("%s: the stream begins with %+v", r, events[0])
			}
			want := []string{`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1,"total":2` + since(r, host.R20250326, `,"message":"half"`) + `}}`,
				host.TextResult("1", "done")}
			if diff := cmp.Diff(want, host.Payloads(events)); diff != "" {
				t.Errorf("%s: %s", r, diff)
			}
			if diff := cmp.Diff(want[1:], host.Payloads(c.Get(events[len(events)-2].ID).All())); diff != "" {
				t.Errorf("%s: resumed: %s", r, diff)
			}

			begin := time.Now()
			a := c.Post(host.Call("2", "away", `{"ms":5000}`))
			left := host.Payloads(a.All())
			if stayed := len(left) == 1 && left[0] == host.TextResult("2", "back") && time.Since(begin) >= 5*time.Second; stayed == (r >= host.R20251125) {
				t.Errorf("%s: Disconnect left the client with %q after %v", r, left, time.Since(begin))
			}
			for _, e := range events {
				if e.Retry != "" && r < host.R20251125 {
					t.Errorf("%s: got %+v, which has a retry", r, e)
				}
			}
		}
	})
}

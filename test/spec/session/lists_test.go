package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

func noResource(context.Context, *troupe.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
	return nil, troupe.ErrNotFound
}

func noPrompt(context.Context, *troupe.Call, map[string]string) (*mcp.GetPromptResult, error) {
	return &mcp.GetPromptResult{}, nil
}

// TestEveryListTellsItsChanges checks that each change of a list is announced once to each
// session that listens, and to the others when they listen.
func TestEveryListTellsItsChanges(t *testing.T) {
	tools, prompts, resources := host.Note("notifications/tools/list_changed", ""), host.PromptsChanged, host.Note("notifications/resources/list_changed", "")
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		var listening []*host.Listening
		for range 3 {
			l := host.Listen(h.Session().Get(""))
			defer l.Close()
			listening = append(listening, l)
		}
		late := h.Session() // listens only at the end
		tool := func(description string) {
			troupe.AddTool(h.Server, troupe.Tool{Name: "new", Description: description}, func(context.Context, *troupe.Call, struct{}) (string, error) { return "", nil })
		}
		seen := 0
		for _, step := range []struct {
			what string
			do   func()
			want []string
		}{
			{"a tool added", func() { tool("one") }, []string{tools}},
			{"a tool replaced by itself", func() { tool("one") }, nil},
			{"a tool replaced by another", func() { tool("two") }, []string{tools}},
			{"a tool removed", func() { h.Server.RemoveTools("new") }, []string{tools}},
			{"a tool removed that is not there", func() { h.Server.RemoveTools("new", "never") }, nil},
			{"a prompt added", func() { troupe.AddPrompt(h.Server, troupe.Prompt{Name: "new"}, noPrompt) }, []string{prompts}},
			{"a prompt removed", func() { h.Server.RemovePrompts("new") }, []string{prompts}},
			{"a resource added", func() { troupe.AddResource(h.Server, mcp.Resource{URI: "new:1", Name: "new"}, noResource) }, []string{resources}},
			{"a resource removed", func() { h.Server.RemoveResources("new:1") }, []string{resources}},
			{"a template added", func() {
				troupe.AddResourceTemplate(h.Server, mcp.ResourceTemplate{URITemplate: "new:{x}", Name: "new"}, noResource)
			}, []string{resources}},
			{"a template removed", func() { h.Server.RemoveResourceTemplates("new:{x}") }, []string{resources}},
			{"many changes at once", func() {
				for i := range 100 {
					tool(fmt.Sprint(i))
					h.Server.RemoveTools("echo")
					troupe.AddPrompt(h.Server, troupe.Prompt{Name: fmt.Sprint(i)}, noPrompt)
				}
			}, []string{tools, prompts}},
			{"there and back", func() {
				h.Server.RemoveTools("new")
				tool("99")
			}, nil},
		} {
			step.do()
			time.Sleep(time.Second)
			for i, l := range listening {
				if diff := cmp.Diff(step.want, append([]string(nil), l.Since(seen)...)); diff != "" {
					t.Errorf("%s, session %d (-want +got):\n%s", step.what, i, diff)
				}
			}
			seen += len(step.want)
		}
		// A session that begins now knows everything; one that has not listened gets the changes.
		begun := host.Listen(h.Session().Get(""))
		defer begun.Close()
		last := host.Listen(late.Get(""))
		defer last.Close()
		time.Sleep(time.Second)
		if got := begun.Since(0); len(got) != 0 {
			t.Errorf("a new session is told %v", got)
		}
		if diff := cmp.Diff([]string{tools, prompts}, last.Since(0)); diff != "" {
			t.Errorf("a session that had no stream (-want +got):\n%s", diff)
		}
	})
}

// TestNamesAndURIs checks that names and URIs of the shapes that servers use are listed, called
// and read unchanged.
func TestNamesAndURIs(t *testing.T) {
	names := []string{"get_weather", "get-alerts", "getAlerts", "admin.users.list", "DATA_EXPORT_v2", "x", strings.Repeat("n", 128), "weiter/über 天气"}
	uris := []string{"file:///home/user/a.txt", "https://example.com/a?b=c#d", "git://repo/x", "postgres://db/table", "screen://localhost/display1",
		"logs://recent?timeframe=1h", "urn:isbn:0451450523", "custom+scheme.v2-x://%E2%98%83", "resource://天气"}
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		listed, _, _ := host.ToolsOf(t, h.Session())
		h.Server.RemoveTools(listed...)
		for _, name := range names {
			h.AddTool(name, 0, func(context.Context, *troupe.Call) (string, error) { return "called", nil })
		}
		for _, uri := range uris {
			troupe.AddResource(h.Server, mcp.Resource{URI: uri, Name: uri}, func(_ context.Context, _ *troupe.Call, uri string, _ map[string]string) ([]mcp.ResourceContents, error) {
				return []mcp.ResourceContents{mcp.TextResource(uri, "", "read")}, nil
			})
		}
		c := h.Session()
		_, raw, _ := host.ToolsOf(t, c)
		for _, name := range names {
			quoted, _ := json.Marshal(name)
			host.Contains(t, "list", raw[name], `{"name":`+string(quoted))
			host.Equal(t, name, c.Post(host.Method("1", "tools/call", `{"name":`+string(quoted)+`}`)).Body, host.TextResult("1", "called"))
		}
		list := c.Post(host.Method("1", "resources/list", "")).Body
		for _, uri := range uris {
			host.Contains(t, "list", list, `{"uri":"`+uri+`"`)
			host.Equal(t, uri, c.Post(host.Method("1", "resources/read", `{"uri":"`+uri+`"}`)).Body, `{"jsonrpc":"2.0","id":1,"result":{"contents":[{"uri":"`+uri+`","text":"read"}]}}`)
			host.Equal(t, uri, c.Post(host.Method("1", "resources/subscribe", `{"uri":"`+uri+`"}`)).Body, `{"jsonrpc":"2.0","id":1,"result":{}}`)
		}
	})
}

// TestResourceThatNoListHas has a resource that only a template covers, and that the result of a
// tool links to, but that no list has. A client can read it and subscribe to it, and the
// subscription outlives a crash.
func TestResourceThatNoListHas(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		link := func(h *host.Host) {
			troupe.AddTool(h.Server, troupe.Tool{Name: "find"}, func(context.Context, *troupe.Call, struct{}) (mcp.Contents, error) {
				return mcp.Contents{
					mcp.Link(mcp.Resource{URI: "test://items/7", Name: "seven"}),
					mcp.Embed(mcp.TextResource("test://items/8", "text/plain", "8")),
				}, nil
			})
		}
		h := host.New(t, troupe.Options{Dir: dir}, nil)
		link(h)
		c := h.Session()
		host.Equal(t, "found", c.Post(host.Call("1", "find", `{}`)).Body, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"resource_link","uri":"test://items/7","name":"seven"},`+
			`{"type":"resource","resource":{"uri":"test://items/8","mimeType":"text/plain","text":"8"}}]}}`)
		if list := c.Post(host.Method("1", "resources/list", "")).Body; strings.Contains(list, "items") {
			t.Errorf("listed: %s", list)
		}
		for _, n := range []string{"7", "8"} {
			uri := "test://items/" + n
			host.Equal(t, "read", c.Post(host.Method("1", "resources/read", `{"uri":"`+uri+`"}`)).Body,
				`{"jsonrpc":"2.0","id":1,"result":{"contents":[{"uri":"`+uri+`","mimeType":"text/plain","text":"`+n+`"}]}}`)
			c.Post(host.Method("1", "resources/subscribe", `{"uri":"`+uri+`"}`))
		}
		c.Post(host.Method("1", "resources/unsubscribe", `{"uri":"test://items/8"}`))
		l := host.Listen(c.Get(""))
		synctest.Wait()
		h.Server.ResourceUpdated("test://items/7")
		h.Server.ResourceUpdated("test://items/8")
		update := host.UpdateNote("test://items/7")
		if diff := cmp.Diff([]string{update, update}, l.Since(0)); diff != "" { // the first one is for the changes before
			t.Errorf("updates (-want +got):\n%s", diff)
		}
		l.Close()

		h2, c2 := host.Crashed(t, dir, troupe.Options{}, c)
		link(h2)
		l = host.Listen(c2.Get(""))
		defer l.Close()
		time.Sleep(time.Second)
		n := len(l.Since(0))
		h2.Server.ResourceUpdated("test://items/8")
		h2.Server.ResourceUpdated("test://items/7")
		if diff := cmp.Diff([]string{update}, l.Since(n)); diff != "" {
			t.Errorf("after a crash (-want +got):\n%s", diff)
		}
	})
}

package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// forAnn hides items with "secret" in their names from all callers except ann, once hidden is set.
func forAnn(hidden *atomic.Bool) func(troupe.Principal, troupe.Item) bool {
	return func(p troupe.Principal, i troupe.Item) bool {
		return p.Subject == "ann" || !hidden.Load() || !strings.Contains(i.Name, "secret")
	}
}

// filtered returns a host with secrets of every kind, whose pages have two items.
func filtered(t *testing.T, o troupe.Options) (h *host.Host, hidden *atomic.Bool) {
	t.Helper()
	hidden = new(atomic.Bool)
	hidden.Store(true)
	o.Authenticate = host.User
	h = host.New(t, o, &troupe.ServerOptions{Limits: troupe.Limits{PageSize: 2}, Visible: forAnn(hidden),
		Complete: func(context.Context, *troupe.Call, mcp.CompleteParams) (mcp.Completion, error) {
			return mcp.Completion{Values: []string{"v"}}, nil
		}})
	for _, name := range []string{"a-secret", "b-secret", "c-secret", "z-secret"} {
		addSecret(h.Server, name)
	}
	troupe.AddPrompt(h.Server, troupe.Prompt{Name: "secret"}, func(context.Context, *troupe.Call, map[string]string) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Role: mcp.RoleUser, Content: mcp.Text("x")}}}, nil
	})
	read := func(_ context.Context, _ *troupe.Call, uri string, _ map[string]string) ([]mcp.ResourceContents, error) {
		return []mcp.ResourceContents{mcp.TextResource(uri, "text/plain", "x")}, nil
	}
	troupe.AddResource(h.Server, mcp.Resource{URI: "test://secret", Name: "s"}, read)
	troupe.AddResourceTemplate(h.Server, mcp.ResourceTemplate{URITemplate: "secret://{id}", Name: "t"}, read)
	troupe.AddResource(h.Server, mcp.Resource{URI: "open:///secret", Name: "s"}, read)
	troupe.AddResourceTemplate(h.Server, mcp.ResourceTemplate{URITemplate: "open:///{id}", Name: "o"}, read)
	return h, hidden
}

func addSecret(s *troupe.Server, name string) {
	troupe.AddRawTool(s, troupe.Tool{Name: name, InputSchema: []byte(`{"type":"object","properties":{"at":{"type":"string","x-mcp-header":"At"}}}`)},
		func(context.Context, *troupe.Call, json.RawMessage) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: mcp.Contents{mcp.Text("secret")}}, nil
		})
}

// TestHidden checks that a caller gets the same response for a hidden item as for an absent one, and that other callers
// have the item.
func TestHidden(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, _ := filtered(t, troupe.Options{})
		ann, bob := host.As(h.Client(), "ann").Initialize(`{}`), host.As(h.Client(), "bob").Initialize(`{}`)
		for _, tt := range []struct{ method, params, unknown string }{
			{"tools/call", `{"name":"a-secret"}`, host.Fault("1", host.BadParam, "Unknown tool: a-secret", "")},
			{"prompts/get", `{"name":"secret"}`, host.Fault("1", host.BadParam, "Unknown prompt: secret", "")},
			{"resources/read", `{"uri":"test://secret"}`, host.Fault("1", -32002, "resource not found", `{"uri":"test://secret"}`)},
			{"resources/read", `{"uri":"secret://7"}`, host.Fault("1", -32002, "resource not found", `{"uri":"secret://7"}`)},
			{"resources/read", `{"uri":"open:///secret"}`, host.Fault("1", -32002, "resource not found", `{"uri":"open:///secret"}`)},
			{"resources/subscribe", `{"uri":"test://secret"}`, host.Fault("1", -32002, "resource not found", `{"uri":"test://secret"}`)},
			{"resources/subscribe", `{"uri":"test://nowhere"}`, host.Fault("1", -32002, "resource not found", `{"uri":"test://nowhere"}`)},
			{"completion/complete", `{"ref":{"type":"ref/prompt","name":"secret"},"argument":{"name":"a","value":""}}`, host.Fault("1", host.BadParam, "Unknown prompt: secret", "")},
			{"completion/complete", `{"ref":{"type":"ref/resource","uri":"secret://{id}"},"argument":{"name":"id","value":""}}`, host.Fault("1", host.BadParam, "Unknown resource: secret://{id}", "")},
		} {
			r := host.Method("1", tt.method, tt.params)
			host.Equal(t, "bob: "+r, bob.Post(r).Body, tt.unknown)
			if a := ann.Post(r); strings.Contains(a.Body, `"error"`) != strings.Contains(r, "nowhere") {
				t.Errorf("ann: %s: %s", r, a.Body)
			}
		}
		host.Equal(t, "what bob may see", bob.Post(host.Method("1", "resources/subscribe", `{"uri":"test://one"}`)).Body, `{"jsonrpc":"2.0","id":1,"result":{}}`)

		m := h.Stateless(`{}`)
		host.As(m.Client, "bob")
		a, id := m.Tool("a-secret", `{"at":"x"}`)
		host.Equal(t, "stateless, without its header", a.Body, host.Fault(id, host.BadParam, "Unknown tool: a-secret", ""))
		if a, _ := m.Do("tools/list", `{}`); !strings.Contains(a.Body, `"cacheScope":"private"`) || strings.Contains(a.Body, "secret") {
			t.Errorf("stateless: %s", a.Body)
		}
	})
}

// TestHiddenPages reads lists page by page: pages are full, none is empty, and a cursor of one caller shows nothing to
// another.
func TestHiddenPages(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, _ := filtered(t, troupe.Options{})
		ann, bob := host.As(h.Client(), "ann").Initialize(`{}`), host.As(h.Client(), "bob").Initialize(`{}`)
		all, _, _ := host.ToolsOf(t, ann)
		got, _, pages := host.ToolsOf(t, bob)
		var want []string
		for _, name := range all {
			if !strings.Contains(name, "secret") {
				want = append(want, name)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || len(all) != len(want)+4 {
			t.Errorf("bob's tools (-want +got):\n%s", diff)
		}
		if pages != (len(want)+1)/2 {
			t.Errorf("%d tools on %d pages", len(want), pages)
		}
		for _, list := range []string{"prompts/list", "resources/list", "resources/templates/list"} {
			if a := bob.Post(host.Method("1", list, "")); strings.Contains(a.Body, "secret") || strings.Contains(a.Body, "nextCursor") {
				t.Errorf("%s: %s", list, a.Body)
			}
		}
	})
}

// TestHiddenChanges adds and removes items that only some callers may see: no other caller learns of it, in a session
// or stateless.
func TestHiddenChanges(t *testing.T) {
	const toolsChanged = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	kit.Bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		h, hidden := filtered(t, troupe.Options{Dir: dir})
		heard := map[string]*host.Listening{}
		counts := map[string]int{}
		for _, user := range []string{"ann", "bob"} {
			heard[user] = host.Listen(host.As(h.Client(), user).Initialize(`{}`).Get(""))
			m := h.Stateless(`{}`)
			host.As(m.Client, user)
			l, _ := m.Listen("1", `{"toolsListChanged":true,"resourceSubscriptions":["test://secret","test://one"]}`)
			heard[user+" without a session"] = host.Listen(l)
			s := host.As(h.Unchecked(), user).OpenSSE("/sse")
			s.Handshake("2024-11-05", `{}`)
			heard[user+" over HTTP+SSE"] = host.Listen(s.Stream)
		}
		told := func(what string, annHears, bobHears bool) {
			t.Helper()
			time.Sleep(time.Second)
			for who, l := range heard {
				want := 0
				if strings.HasPrefix(who, "ann") && annHears || strings.HasPrefix(who, "bob") && bobHears {
					want = 1
				}
				if got := l.Since(counts[who]); len(got) != want || want == 1 && !strings.Contains(got[0], "tools/list_changed") {
					t.Errorf("%s: %s hears %v, want %d", what, who, got, want)
				}
				counts[who] += len(l.Since(counts[who]))
			}
		}
		synctest.Wait()
		for who, l := range heard {
			got, _ := l.Now()
			counts[who] = len(got)
			if strings.Contains(fmt.Sprint(got), toolsChanged) {
				t.Errorf("%s hears at once %v", who, got)
			}
		}
		addSecret(h.Server, "d-secret")
		told("a secret comes", true, false)
		h.AddTool("open", 0, func(context.Context, *troupe.Call) (string, error) { return "", nil })
		told("a tool for all comes", true, true)
		h.Server.RemoveTools("a-secret")
		told("a secret goes", true, false)
		hidden.Store(false)
		told("without a word", false, false)
		h.Server.FilterChanged()
		time.Sleep(time.Second)
		for who, l := range heard {
			if got := strings.Contains(fmt.Sprint(l.Since(counts[who])), "tools/list_changed"); got != strings.HasPrefix(who, "bob") {
				t.Errorf("when the filter changes %s hears %t", who, got)
			}
		}
	})
}

// TestHiddenUpdates checks that a caller gets no update of a resource that it may not see.
func TestHiddenUpdates(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, _ := filtered(t, troupe.Options{})
		for user, want := range map[string]string{"ann": `["test://secret","test://one"]`, "bob": `["test://one"]`} {
			m := h.Stateless(`{}`)
			host.As(m.Client, user)
			_, accepted := m.Listen("1", `{"resourceSubscriptions":["test://secret","test://one"]}`)
			host.Equal(t, user, accepted, `{"resourceSubscriptions":`+want+`}`)
		}
	})
}

// TestUpdatesOfHidden changes resources that a subscriber may not see: one below the URI that it subscribed to, and one
// that was hidden later. Only callers that may see them get the updates.
func TestUpdatesOfHidden(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var closed atomic.Bool
		h := host.New(t, troupe.Options{Authenticate: host.User}, &troupe.ServerOptions{SubResources: true,
			Visible: func(p troupe.Principal, i troupe.Item) bool {
				return p.Subject == "ann" || !strings.Contains(i.Name, "secret") && !closed.Load()
			}})
		read := func(context.Context, *troupe.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
			return nil, nil
		}
		for _, uri := range []string{"test://a", "test://a/open", "test://a/secret"} {
			troupe.AddResource(h.Server, mcp.Resource{URI: uri, Name: "r"}, read)
		}
		subscribe := host.Method("1", "resources/subscribe", `{"uri":"test://a"}`)
		heard := map[string]*host.Listening{}
		for _, user := range []string{"ann", "bob"} {
			c := host.As(h.Client(), user).Initialize(`{}`)
			heard[user] = host.Listen(c.Get(""))
			c.Post(subscribe)
			m := h.Stateless(`{}`)
			host.As(m.Client, user)
			l, _ := m.Listen("1", `{"resourceSubscriptions":["test://a"]}`)
			heard[user+" without a session"] = host.Listen(l)
			s := host.As(h.Unchecked(), user).OpenSSE("/sse")
			s.Handshake("2024-11-05", `{}`)
			s.Ask(subscribe)
			heard[user+" over HTTP+SSE"] = host.Listen(s.Stream)
		}
		told := func(uri string, bobHears bool) {
			t.Helper()
			synctest.Wait()
			counts := map[string]int{}
			for who, l := range heard {
				all, _ := l.Now()
				counts[who] = len(all)
			}
			h.Server.ResourceUpdated(uri)
			time.Sleep(time.Second)
			for who, l := range heard {
				got := strings.Contains(fmt.Sprint(l.Since(counts[who])), `"`+uri+`"`)
				if want := bobHears || strings.HasPrefix(who, "ann"); got != want {
					t.Errorf("%s hears of %s: %t", who, uri, got)
				}
			}
		}
		told("test://a", true)
		told("test://a/open", true)
		told("test://a/secret", false)
		closed.Store(true)
		h.Server.FilterChanged()
		time.Sleep(time.Second)
		told("test://a", false)
		told("test://a/open", false)
	})
}

// TestVisibleHasNoTokenAfterTheRequest announces changes to all listeners: the runtime calls Visible for each, with the
// caller's token only within the request.
func TestVisibleHasNoTokenAfterTheRequest(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var later atomic.Bool
		var within, after, withToken atomic.Int64
		h := host.New(t, troupe.Options{Authenticate: func(r *http.Request) (troupe.Principal, error) {
			p, err := host.User(r)
			p.Token = troupe.NewSecret("the token")
			return p, err
		}}, &troupe.ServerOptions{SubResources: true, Visible: func(p troupe.Principal, _ troupe.Item) bool {
			switch token := p.Token.Reveal() != ""; {
			case !later.Load() && token:
				within.Add(1)
			case later.Load() && token:
				withToken.Add(1)
			case later.Load():
				after.Add(1)
			}
			return true
		}})
		read := func(context.Context, *troupe.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
			return nil, nil
		}
		troupe.AddResource(h.Server, mcp.Resource{URI: "test://a", Name: "r"}, read)
		subscribe := host.Method("1", "resources/subscribe", `{"uri":"test://a"}`)
		c := host.As(h.Client(), "ann").Initialize(`{}`)
		host.Listen(c.Get(""))
		c.Post(subscribe)
		m := h.Stateless(`{}`)
		host.As(m.Client, "ann")
		l, _ := m.Listen("1", `{"resourceSubscriptions":["test://a"],"toolsListChanged":true}`)
		host.Listen(l)
		s := host.As(h.Unchecked(), "ann").OpenSSE("/sse")
		s.Handshake("2024-11-05", `{}`)
		s.Ask(subscribe)
		host.Listen(s.Stream)
		synctest.Wait()
		later.Store(true)
		addSecret(h.Server, "new")
		h.Server.ResourceUpdated("test://a")
		h.Server.FilterChanged()
		time.Sleep(time.Second)
		if within.Load() == 0 || after.Load() == 0 || withToken.Load() > 0 {
			t.Errorf("Visible got the token %d times within requests, and afterwards %d times and none %d times", within.Load(), withToken.Load(), after.Load())
		}
	})
}

// TestVisiblePanics has Visible panic in and outside of requests: the item is hidden, and everything goes on.
func TestVisiblePanics(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var broken atomic.Bool
		var log bytes.Buffer
		h := host.New(t, troupe.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}, &troupe.ServerOptions{Visible: func(_ troupe.Principal, i troupe.Item) bool {
			if broken.Load() && i.Name == "echo" {
				panic("no claims")
			}
			return true
		}})
		c := h.Session()
		l := host.Listen(c.Get(""))
		synctest.Wait()
		broken.Store(true)
		h.Server.FilterChanged()
		time.Sleep(time.Second)
		if got, _ := l.Now(); !strings.Contains(fmt.Sprint(got), "tools/list_changed") {
			t.Errorf("the client hears %v", got)
		}
		before := h.Gauge("troupe.panics", "")
		if before == 0 {
			t.Error("the panic is not counted")
		}
		host.Equal(t, "in a call", c.Post(host.Call("1", "echo", `{"text":"x"}`)).Body, host.Fault("1", host.BadParam, "Unknown tool: echo", ""))
		if h.Gauge("troupe.panics", "") == before {
			t.Error("the panic in a call is not counted")
		}
		time.Sleep(time.Minute)
		c.Post(host.Method("1", "tools/list", `{}`))
		synctest.Wait()
		if n := strings.Count(log.String(), "no claims"); n != 2 || !strings.Contains(log.String(), "unlogged=") {
			t.Errorf("it is logged %d times within a minute and after it:\n%s", n, log.String())
		}
		broken.Store(false)
		host.Equal(t, "afterwards", c.Post(host.Call("2", "echo", `{"text":"x"}`)).Body, host.TextResult("2", "x"))
	})
}

// TestHiddenInOtherSpellings reads a hidden resource that a template matches, with escapes that the template removes.
func TestHiddenInOtherSpellings(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, &troupe.ServerOptions{Visible: func(_ troupe.Principal, i troupe.Item) bool { return !strings.Contains(i.Name, "secret") }})
		troupe.AddResource(h.Server, mcp.Resource{URI: "open:///secret", Name: "s"}, func(_ context.Context, _ *troupe.Call, uri string, _ map[string]string) ([]mcp.ResourceContents, error) {
			return []mcp.ResourceContents{mcp.TextResource(uri, "text/plain", "TOP")}, nil
		})
		troupe.AddResourceTemplate(h.Server, mcp.ResourceTemplate{URITemplate: "open:///{id}", Name: "o"}, func(_ context.Context, _ *troupe.Call, uri string, v map[string]string) ([]mcp.ResourceContents, error) {
			return []mcp.ResourceContents{mcp.TextResource(uri, "text/plain", "id="+v["id"])}, nil
		})
		c := h.Session()
		for uri, shown := range map[string]bool{"open:///secret": false, "open:///%73ecret": false, "OPEN:///secret": false, "open:///s%65cret": false, "open:///other": true} {
			if a := c.Post(host.Method("1", "resources/read", `{"uri":"`+uri+`"}`)); strings.Contains(a.Body, `"result"`) != shown {
				t.Errorf("%s: shown %v is wrong: %s", uri, !shown, a.Body)
			}
			if a := c.Post(host.Method("2", "resources/subscribe", `{"uri":"`+uri+`"}`)); strings.Contains(a.Body, `"result"`) != shown {
				t.Errorf("subscribe to %s: %s", uri, a.Body)
			}
		}
	})
}

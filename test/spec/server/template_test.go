package server_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// readVars is a handler that returns its URI, and its variables as JSON.
func readVars(_ context.Context, _ *troupe.Call, uri string, vars map[string]string) ([]mcp.ResourceContents, error) {
	text, err := json.Marshal(vars)
	return []mcp.ResourceContents{mcp.TextResource(uri, "", string(text))}, err
}

// TestTemplateVariables reads URIs by templates: the handler gets the variables that RFC 6570 has for the URI, or there is no
// such resource.
func TestTemplateVariables(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		c := h.Session()
		for _, x := range []struct{ template, uri, want string }{
			{"a://{id}{?format,lang}", "a://7?format=x&lang=de", `{"format":"x","id":"7","lang":"de"}`},
			{"a://{id}{?format,lang}", "a://7?lang=de&format=x", `{"format":"x","id":"7","lang":"de"}`},
			{"a://{id}{?format,lang}", "a://7?other=1", `{"id":"7"}`},
			{"a://{id}{?format,lang}", "a://7?lang=de&lang=en", ""},
			{"a://{id}", "a://52.1,4.3", `{"id":"52.1,4.3"}`},
			{"a://{id}", "a://2026-01-02T03:04", ""},
			{"a://{+id}", "a://2026-01-02T03:04", `{"id":"2026-01-02T03:04"}`},
			{"a://x{?list*}", "a://x?list=a&list=b", `{"list":"a,b"}`},
			{"a://x/{v:3}", "a://x/abc", `{"v":"abc"}`},
			{"a://x/{v:3}", "a://x/abcd", ""},
			{"a://x/café/{v}", "a://x/caf%C3%A9/1", `{"v":"1"}`},
			{"a://x/café/{v}", "A://x/café/%31", `{"v":"1"}`},
		} {
			troupe.AddResourceTemplate(h.Server, mcp.ResourceTemplate{URITemplate: x.template, Name: "t"}, readVars)
			uri := `"` + x.uri + `"`
			want := host.Fault("1", mcp.CodeResourceNotFound, "resource not found", `{"uri":`+uri+`}`)
			if x.want != "" {
				text, _ := json.Marshal(x.want)
				want = `{"jsonrpc":"2.0","id":1,"result":{"contents":[{"uri":` + uri + `,"text":` + string(text) + `}]}}`
			}
			host.Equal(t, x.template+" of "+x.uri, c.Post(host.Method("1", "resources/read", `{"uri":`+uri+`}`)).Body, want)
			h.Server.RemoveResourceTemplates(x.template)
		}
	})
}

// TestRefusedTemplate adds a template whose variables cannot be told apart.
func TestRefusedTemplate(t *testing.T) {
	t.Parallel()
	srv := troupe.NewServer(mcp.Implementation{Name: "s", Version: "1"}, nil)
	err := troupe.TryAddResourceTemplate(srv, mcp.ResourceTemplate{URITemplate: "a://{a}{b}", Name: "t"}, readVars)
	if err == nil || !strings.Contains(err.Error(), "write a text between them") {
		t.Errorf("got %v", err)
	}
}

// TestResourceInOtherSpellings reads a listed resource, and subscribes to it, as clients spell its URI that keep URIs as
// objects. Handlers and updates have the URI as it is listed.
func TestResourceInOtherSpellings(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		for listed, sent := range map[string]string{
			"file:///café.txt":         "file:///caf%C3%A9.txt",
			"file:///a b":              "FILE:///a%20b",
			"file:///caf%c3%a9/%7Eann": "file:///caf%C3%A9/~ann",
			"https://Example.com":      "https://example.com/",
		} {
			troupe.AddResource(h.Server, mcp.Resource{URI: listed, Name: "r"}, readVars)
			c := h.Session()
			l := host.Listen(c.Get(""))
			host.Contains(t, sent, c.Post(host.Method("1", "resources/read", `{"uri":"`+sent+`"}`)).Body, `"uri":"`+listed+`"`)
			host.Equal(t, "subscribe to "+sent, c.Post(host.Method("2", "resources/subscribe", `{"uri":"`+sent+`"}`)).Body, `{"jsonrpc":"2.0","id":2,"result":{}}`)
			s := h.Stateless(`{}`)
			a, _ := s.Listen("1", `{"resourceSubscriptions":["`+sent+`"]}`)
			stateless := host.Listen(a)
			synctest.Wait()
			update := func(want bool) {
				t.Helper()
				n, m := len(l.Since(0)), len(stateless.Since(0))
				h.Server.ResourceUpdated(listed)
				time.Sleep(time.Second)
				if got := slices.Contains(l.Since(n), host.UpdateNote(listed)); got != want {
					t.Errorf("%s: the session hears of the update: %v", listed, got)
				}
				if !strings.Contains(strings.Join(stateless.Since(m), ""), `"`+listed+`"`) {
					t.Errorf("%s: the listener does not hear of the update", listed)
				}
			}
			update(true)
			c.Post(host.Method("3", "resources/unsubscribe", `{"uri":"`+sent+`"}`))
			update(false)
		}
		c := h.Session()
		for _, other := range []string{"file:///CAF%C3%89.txt", "file:///a%2520b", "https://example.com/x"} {
			host.Contains(t, other, c.Post(host.Method("1", "resources/read", `{"uri":"`+other+`"}`)).Body, "not found")
		}
	})
}

// TestHiddenWithParameters reads a hidden resource with parameters that its template ignores, or takes beside the resource.
func TestHiddenWithParameters(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, &troupe.ServerOptions{Visible: func(_ troupe.Principal, i troupe.Item) bool { return !strings.Contains(i.Name, "secret") }})
		troupe.AddResource(h.Server, mcp.Resource{URI: "open:///secret", Name: "s"}, readVars)
		troupe.AddResourceTemplate(h.Server, mcp.ResourceTemplate{URITemplate: "open:///{id}{?as}", Name: "o"}, readVars)
		c := h.Session()
		for uri, shown := range map[string]bool{"open:///other?as=x": true, "open:///secret?x=1": false, "open:///s%65cret?": false, "open:///secret?as=x": false} {
			if a := c.Post(host.Method("1", "resources/read", `{"uri":"`+uri+`"}`)); strings.Contains(a.Body, `"result"`) != shown {
				t.Errorf("%s: shown %v is wrong: %s", uri, !shown, a.Body)
			}
		}
	})
}

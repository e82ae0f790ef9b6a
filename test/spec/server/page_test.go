package server_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

const clockPage = "<!DOCTYPE html><title>Clock</title>"

func clock(context.Context, *troupe.Call, struct{}) (string, error) { return "12:00", nil }

// TestPages reads a page, and the tools that are tied to it, in each revision that has the `_meta` of tools.
func TestPages(t *testing.T) {
	for _, revision := range mcp.Revisions() {
		t.Run(revision.String(), func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				h := host.New(t, troupe.Options{}, nil)
				ask := asking(h, revision)
				troupe.AddResource(h.Server, mcp.Resource{URI: "ui://taken", Name: "x"}, noResource)
				if err := troupe.TryAddPage(h.Server, troupe.Page{URI: "ui://taken", Name: "x", HTML: clockPage}); err == nil {
					t.Error("a resource is in the way")
				}
				if body := ask("", ""); strings.Contains(body, mcp.ExtensionUI) {
					t.Errorf("without a page: %s", body)
				}
				troupe.AddPage(h.Server, troupe.Page{
					URI: "ui://clock/face", Name: "face", HTML: clockPage, Meta: mcp.Meta{"x": mcp.Raw(1)},
					CSP:         mcp.UICSP{ConnectDomains: []string{"wss://time.example.com:8443", "https://*.example.com"}},
					Permissions: mcp.UIPermissions{Geolocation: mcp.Declared()}, Border: new(false), Domain: "clock.example.com",
				})
				troupe.AddPage(h.Server, troupe.Page{URI: "ui://clock/plain", Name: "plain", HTML: clockPage})
				troupe.AddTool(h.Server, troupe.Tool{Name: "zz_clock", Meta: mcp.Meta{"y": mcp.Raw(2)}, UI: troupe.UI{Page: "ui://clock/face"}}, clock)
				troupe.AddTool(h.Server, troupe.Tool{Name: "zz_tick", UI: troupe.UI{Page: "ui://clock/face", For: []mcp.UIAudience{mcp.UIApp}}}, clock)
				ask = asking(h, revision)                 // a client that comes now
				known := revision >= mcp.Revision20250618 // since when tools have `_meta`
				if !known {
					if body := ask("", ""); strings.Contains(body, mcp.ExtensionUI) {
						t.Errorf("capabilities: %s", body)
					}
					host.Contains(t, "the page", ask("resources/read", `{"uri":"ui://clock/face"}`), clockPage)
					if tools := ask("tools/list", ""); strings.Contains(tools, "_meta") || !strings.Contains(tools, "zz_tick") {
						t.Errorf("tools/list: %s", tools)
					}
					return
				}
				host.Contains(t, "capabilities", ask("", ""), `"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}`)

				const meta = `"_meta":{"ui":{"csp":{"connectDomains":["wss://time.example.com:8443","https://*.example.com"]},"permissions":{"geolocation":{}},"domain":"clock.example.com","prefersBorder":false}}`
				host.Contains(t, "the page", ask("resources/read", `{"uri":"ui://clock/face"}`), `"contents":[{"uri":"ui://clock/face","mimeType":"text/html;profile=mcp-app","text":"`+clockPage+`",`+meta+`}]`)
				host.Contains(t, "a page without needs", ask("resources/read", `{"uri":"ui://clock/plain"}`), `"text":"`+clockPage+`"}]`)
				listed, tools := ask("resources/list", ""), ask("tools/list", "")
				host.Contains(t, "resources/list", listed, `"prefersBorder":false},"x":1}`)
				host.Contains(t, "a tool", tools, `"_meta":{"ui":{"resourceUri":"ui://clock/face"},"y":2}`)
				host.Contains(t, "a tool of it", tools, `"_meta":{"ui":{"resourceUri":"ui://clock/face","visibility":["app"]}}`)
				host.Contains(t, "the type", listed, `"mimeType":"text/html;profile=mcp-app"`)
			})
		})
	}
}

// TestPagesThatChange adds a page again: AddPage replaces it, and TryAddPage refuses to.
func TestPagesThatChange(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		ask := asking(h, mcp.Latest)
		page := troupe.Page{URI: "ui://clock/face", Name: "face", HTML: clockPage}
		troupe.AddPage(h.Server, page)
		page.HTML = "<p>Later</p>"
		troupe.AddPage(h.Server, page)
		host.Contains(t, "replaced", ask("resources/read", `{"uri":"ui://clock/face"}`), page.HTML)
		page.HTML = "<p>Never</p>"
		if err := troupe.TryAddPage(h.Server, page); err == nil || !strings.Contains(err.Error(), `"ui://clock/face": there is one of this name already`) {
			t.Errorf("TryAddPage of a page that is there: %v", err)
		}
		host.Contains(t, "refused", ask("resources/read", `{"uri":"ui://clock/face"}`), "<p>Later</p>")
	})
}

// TestClientsThatShowPages has a handler learn whether its client shows pages.
func TestClientsThatShowPages(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		var shows []bool
		h.AddTool("shows", 0, func(_ context.Context, call *troupe.Call) (string, error) {
			caps := call.Peer().Capabilities()
			shows = append(shows, caps.Has(mcp.CapClientUI))
			return "", nil
		})
		const app = `{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}`
		for _, declared := range []string{`{}`, app} {
			h.Unchecked().Initialize(declared).Post(host.Call("1", "shows", `{}`))
			m := &host.Stateless{T: t, Client: h.Unchecked(), Capabilities: declared}
			m.Tool("shows", `{}`)
		}
		if diff := cmp.Diff([]bool{false, false, true, true}, shows); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestPagesThatCannotBeAdded registers pages and tools that no host could show, or whose policy would say something else.
func TestPagesThatCannotBeAdded(t *testing.T) {
	t.Parallel()
	s := troupe.NewServer(mcp.Implementation{Name: "test", Version: "1"}, nil)
	page := func(change func(*troupe.Page)) troupe.Page {
		p := troupe.Page{URI: "ui://a/b", Name: "x", HTML: clockPage}
		change(&p)
		return p
	}
	for want, p := range map[string]troupe.Page{
		"must begin with ui://":     page(func(p *troupe.Page) { p.URI = "https://a/b" }),
		`page "ui://"`:              page(func(p *troupe.Page) { p.URI = "ui://" }),
		"has no HTML":               page(func(p *troupe.Page) { p.HTML = " " }),
		"may have 16777216":         page(func(p *troupe.Page) { p.HTML = strings.Repeat("x", 16<<20+1) }),
		"needs a URI and a name":    page(func(p *troupe.Page) { p.Name = "" }),
		`a member "ui" already`:     page(func(p *troupe.Page) { p.Domain, p.Meta = "x", mcp.Meta{"ui": []byte("{}")} }),
		"_meta":                     page(func(p *troupe.Page) { p.Meta = mcp.Meta{"a": []byte("{")} }),
		`"*" is no origin`:          page(func(p *troupe.Page) { p.CSP.ConnectDomains = []string{"*"} }),
		`"example.com" is no`:       page(func(p *troupe.Page) { p.CSP.ResourceDomains = []string{"example.com"} }),
		`"https://" is no`:          page(func(p *troupe.Page) { p.CSP.FrameDomains = []string{"https://"} }),
		`; script-src *" is no`:     page(func(p *troupe.Page) { p.CSP.BaseURIDomains = []string{"https://a; script-src *"} }),
		`'unsafe-eval'" is no`:      page(func(p *troupe.Page) { p.CSP.ConnectDomains = []string{"https://a 'unsafe-eval'"} }),
		`\n" is no`:                 page(func(p *troupe.Page) { p.CSP.ConnectDomains = []string{"https://a\n"} }),
		`"https://é.example" is no`: page(func(p *troupe.Page) { p.CSP.ConnectDomains = []string{"https://é.example"} }),
	} {
		if err := troupe.TryAddPage(s, p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	for _, origin := range []string{
		"https://*", "*://a", "https://*.*", "https://*.com", "https://a.*.example.com", "javascript://x", "data://x", "https://user@a", "https://a/b", "https://a?c", "https://a#b",
		"https://a:99999", "https://a:", "http:///x", "https://{a}", "https://a|b", "https://a..b", "https://[::1]", "https://a/",
	} {
		if err := troupe.TryAddPage(s, page(func(p *troupe.Page) { p.URI, p.CSP.ConnectDomains = "ui://a/"+origin, []string{origin} })); err == nil {
			t.Errorf("%s is taken for an origin", origin)
		}
	}
	for _, origin := range []string{"https://example.com", "http://127.0.0.1:8080", "ws://localhost:65535", "wss://*.a-b.Example.com"} {
		if err := troupe.TryAddPage(s, page(func(p *troupe.Page) { p.URI, p.CSP.ConnectDomains = "ui://a/"+origin, []string{origin} })); err != nil {
			t.Error(err)
		}
	}
	for _, uri := range []string{"ui://a b", "ui://a\n"} {
		if err := troupe.TryAddPage(s, page(func(p *troupe.Page) { p.URI = uri })); err == nil {
			t.Errorf("%q is taken for a URI", uri)
		}
	}
	if err := troupe.TryAddPage(nil, page(func(*troupe.Page) {})); err == nil || !strings.HasPrefix(err.Error(), `troupe: page "ui://a/b": `) {
		t.Errorf("without a server: %v", err)
	}
	for want, tool := range map[string]troupe.Tool{
		"does not begin with ui://": {UI: troupe.UI{Page: "https://a"}},
		"neither model nor app":     {UI: troupe.UI{For: []mcp.UIAudience{"nobody"}}},
		`a member "ui" already`:     {UI: troupe.UI{Page: "ui://a/b"}, Meta: mcp.Meta{"ui": []byte("{}")}},
	} {
		tool.Name = "x"
		if err := troupe.TryAddTool(s, tool, clock); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	troupe.AddTool(s, troupe.Tool{Name: "again", UI: troupe.UI{Page: "ui://a/b", For: []mcp.UIAudience{mcp.UIApp}}, Meta: mcp.Meta{"z": mcp.Raw(1)}}, clock)
	troupe.AddTool(s, s.Tools()[0], clock) // what Tools returns can be added again
	if again := s.Tools()[0]; string(mcp.Raw(again.Meta)) != `{"z":1}` || again.UI.Page != "ui://a/b" {
		t.Errorf("got %v", again)
	}
}

// TestToolsWithoutTheirPage mounts a server whose tool names a page that nobody has added.
func TestToolsWithoutTheirPage(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	rt, err := troupe.New(troupe.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close(t.Context())
	s := troupe.NewServer(mcp.Implementation{Name: "test", Version: "1"}, nil)
	troupe.AddPage(s, troupe.Page{URI: "ui://there", Name: "x", HTML: clockPage})
	troupe.AddTool(s, troupe.Tool{Name: "one", UI: troupe.UI{Page: "ui://there"}}, clock)
	troupe.AddTool(s, troupe.Tool{Name: "two", UI: troupe.UI{Page: "ui://elsewhere"}}, clock)
	rt.Mount("/mcp", s)
	if got := log.String(); !strings.Contains(got, "tool=two page=ui://elsewhere") || strings.Contains(got, "tool=one") {
		t.Errorf("the log has %s", got)
	}
}

package scope_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestListenersEndWithNothingLeft has resources come to need scopes, and others be hidden. A listener that follows such ones alone ends, and is told whether a wider token would help.
// One that has anything else goes on, and hears nothing of them.
func TestListenersEndWithNothingLeft(t *testing.T) {
	const first, second, third = "test://first", "test://second", "test://third"
	template := mcp.ResourceTemplate{URITemplate: "made://{id}", Name: "m"}
	kit.Bubble(t, func(t *testing.T) {
		var hidden atomic.Bool
		h, _ := guarded(t, troupe.Options{}, troupe.ServerOptions{Visible: func(_ troupe.Principal, i troupe.Item) bool { return i.Name != third || !hidden.Load() }})
		for _, uri := range []string{first, second, third} {
			troupe.AddResource(h.Server, mcp.Resource{URI: uri, Name: "r"}, noResource)
		}
		troupe.AddResourceTemplate(h.Server, template, noResource)
		listeners := map[string]*host.Listening{}
		for name, filter := range map[string]string{
			"first": `"resourceSubscriptions":["` + first + `"]`, "first, wide": `"resourceSubscriptions":["` + first + `"]`,
			"first and the template": `"resourceSubscriptions":["` + first + `","made://1"]`, "first and third": `"resourceSubscriptions":["` + first + `","` + third + `"]`,
			"first and the tools": `"resourceSubscriptions":["` + first + `"],"toolsListChanged":true`, "second": `"resourceSubscriptions":["` + second + `"]`, "third": `"resourceSubscriptions":["` + third + `"]`,
		} {
			m := h.Stateless(`{}`)
			m.Client = with(m.Client, "base")
			if strings.HasSuffix(name, "wide") {
				m.Client = with(m.Client, "base wide")
			}
			a, _ := m.Listen("7", "{"+filter+"}")
			listeners[name] = host.Listen(a)
		}
		over := map[string]string{} // why they have ended
		expect := func(what string) {
			t.Helper()
			time.Sleep(time.Second)
			synctest.Wait()
			for name, l := range listeners {
				got, ended := l.Now()
				reason := over[name]
				if all := strings.Join(got, "\n"); ended != (reason != "") || ended && !strings.Contains(all, `"requestId":7,"reason":"`+reason+`"`) {
					t.Errorf("%s: the listener of %s has ended: %v, want for %q; it got\n%s", what, name, ended, reason, all)
				}
			}
		}
		expect("at first")
		troupe.AddResource(h.Server, mcp.Resource{URI: first, Name: "r", Scopes: []string{"wide"}}, noResource)
		over["first"] = "insufficient_authorization"
		expect("the first needs a scope")
		h.Server.ResourceUpdated(first)
		expect("an update of what is withheld")
		for name, l := range listeners {
			got, _ := l.Now()
			if hears := strings.Contains(strings.Join(got, " "), `"uri":"`+first); hears != (name == "first, wide") {
				t.Errorf("the listener of %s hears of the first: %v", name, hears)
			}
		}
		guardedTemplate := template
		guardedTemplate.Scopes = []string{"wide"}
		troupe.AddResourceTemplate(h.Server, guardedTemplate, noResource)
		over["first and the template"] = "insufficient_authorization"
		expect("the template needs a scope")
		h.Server.RemoveResources(second)
		expect("the second is removed")
		hidden.Store(true)
		h.Server.FilterChanged()
		over["third"], over["first and third"] = "revoked", "insufficient_authorization"
		expect("the third is hidden")
		for _, l := range listeners {
			l.Close()
		}
	})
}

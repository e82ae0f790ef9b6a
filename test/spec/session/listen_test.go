package session_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

func TestListeners(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{DrainDelay: -1, DrainWait: time.Second}, &troupe.ServerOptions{
			Subscribe: func(_ context.Context, _ *troupe.Call, uri string) error {
				if strings.Contains(uri, "secret") {
					return fmt.Errorf("not for you")
				}
				return nil
			}})
		m := h.Stateless(`{}`)
		tools, filter := m.Listen(`"a"`, `{"toolsListChanged":true,"resourceSubscriptions":["test://one","test://secret","nonsense","test://one"]}`)
		host.Equal(t, "filter", filter, `{"toolsListChanged":true,"resourceSubscriptions":["test://one"]}`)
		prompts, filter := m.Listen(`2`, `{"promptsListChanged":true,"resourcesListChanged":true}`)
		host.Equal(t, "filter", filter, `{"promptsListChanged":true,"resourcesListChanged":true}`)
		h.Server.RemoveTools("echo")
		host.NextEvent(t, "tools", tools, host.ListenNote(`"a"`, "tools/list_changed", ""))
		h.Server.ResourceUpdated("test://two")
		h.Server.ResourceUpdated("test://one")
		host.NextEvent(t, "updated", tools, host.ListenNote(`"a"`, "resources/updated", `,"uri":"test://one"`))
		h.Server.RemovePrompts("greet")
		host.NextEvent(t, "prompts", prompts, host.ListenNote(`2`, "prompts/list_changed", ""))
		h.Server.RemoveResources("test://one")
		host.NextEvent(t, "resources", prompts, host.ListenNote(`2`, "resources/list_changed", ""))
		// A change that is reverted at once has happened nevertheless.
		troupe.AddTool(h.Server, troupe.Tool{Name: "brief"}, func(context.Context, *troupe.Call, struct{}) (string, error) { return "", nil })
		h.Server.RemoveTools("brief")
		host.NextEvent(t, "a brief change", tools, host.ListenNote(`"a"`, "tools/list_changed", ""))
		// An idle listener gets comments.
		before := prompts.Comments
		tools.Close() // otherwise the test would have to read its comments
		go func() {
			time.Sleep(time.Minute)
			h.Server.RemoveResourceTemplates("test://items/{id}")
		}()
		host.NextEvent(t, "after silence", prompts, host.ListenNote(`2`, "resources/list_changed", ""))
		if n := prompts.Comments - before; n < 3 || n > 5 {
			t.Errorf("%d comments in a minute", n)
		}
		// Closing ends it.
		tools, _ = m.Listen(`"a"`, `{"resourceSubscriptions":["test://one"]}`)
		synctest.Wait()
		if n := h.Actors("subscription"); n != 3 { // two listeners, one resource
			t.Errorf("%d actors", n)
		}
		prompts.Close()
		time.Sleep(16 * time.Second)
		synctest.Wait()
		if n := h.Actors("subscription"); n != 2 {
			t.Errorf("%d actors after one was closed", n)
		}
		for _, bad := range []string{`{}`, `{"notifications":null}`, `{"notifications":[]}`, `{"notifications":{"toolsListChanged":1}}`} {
			a, id := m.Do("subscriptions/listen", bad)
			if a.Stream() || !strings.Contains(a.Body, `"id":`+id+`,"error":{"code":-32602`) {
				t.Errorf("%s: %s %s", bad, a.Status, a.Body)
			}
		}
		// The server ends a listener: by a cancel, and with the response.
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- h.Runtime.ServeOn(ctx, kit.NewListener()) }()
		stop()
		host.NextEvent(t, "cancelled", tools, host.ListenNote(`"a"`, "cancelled", `,"requestId":"a","reason":"the server is shutting down"`))
		host.NextEvent(t, "response", tools, `{"jsonrpc":"2.0","id":"a","result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"a","io.modelcontextprotocol/serverInfo":{"name":"test","version":"1"}}}}`)
		if rest := tools.All(); len(rest) != 0 {
			t.Errorf("after the response: %v", rest)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

func TestListenersAreBounded(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Shared: troupe.SharedLimits{StreamsPerPrincipal: 3}, Limits: troupe.Limits{SubscriptionsPerSession: 2}}, nil)
		m := h.Stateless(`{}`)
		first, filter := m.Listen(`1`, `{"resourceSubscriptions":["test://1","test://2","test://3"]}`)
		host.Equal(t, "filter", filter, `{"resourceSubscriptions":["test://1","test://2"]}`)
		m.Listen(`2`, `{}`)
		m.Listen(`3`, `{}`)
		a, _ := m.Do("subscriptions/listen", `{"notifications":{}}`)
		if a.StatusCode != 429 || a.Header.Get("Retry-After") == "" {
			t.Errorf("one too many: %s %s", a.Status, a.Body)
		}
		first.Close()
		time.Sleep(time.Minute)
		m.Listen(`4`, `{}`)
	})
}

// TestSubscribeThatSends checks that a Subscribe that sends by its call gets an error,
// and that the listener begins.
func TestSubscribeThatSends(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var errs []error
		o := &troupe.ServerOptions{Subscribe: func(ctx context.Context, call *troupe.Call, _ string) error {
			errs = append(errs, call.Notify(ctx, "x/y", struct{}{}))
			return nil
		}}
		p := host.NewStatelessPipe(t, troupe.Options{}, o)
		if got := p.Ask(p.M.Body(`"a"`, "subscriptions/listen", `{"notifications":{"resourceSubscriptions":["test://one"]}}`, "")); !strings.Contains(string(got), "acknowledged") {
			t.Errorf("on a pipe: %s", got)
		}
		a, filter := host.New(t, troupe.Options{}, o).Stateless(`{}`).Listen(`"a"`, `{"resourceSubscriptions":["test://one"]}`)
		defer a.Close()
		host.Equal(t, "filter", filter, `{"resourceSubscriptions":["test://one"]}`)
		if len(errs) != 2 || errs[0] == nil || errs[1] == nil {
			t.Errorf("it got %v", errs)
		}
	})
}

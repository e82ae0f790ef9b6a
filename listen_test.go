package troupe_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/testkit"
)

// listen opens a listener and returns it after its acknowledgement, whose filter is returned, too.
func (m *modern) listen(id, filter string) (*testkit.Answer, string) {
	m.t.Helper()
	body := m.body(id, "subscriptions/listen", `{"notifications":`+filter+`}`, "")
	a := m.c.Post(body, m.header("subscriptions/listen", body)...)
	if !a.Stream() {
		m.t.Fatalf("listen: %s %s", a.Status, a.Body)
	}
	m.t.Cleanup(a.Close)
	e, ok := a.Next()
	if !ok || e.ID != "" || e.Retry != "" {
		m.t.Fatalf("first event %+v", e)
	}
	prefix := `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `},"notifications":`
	rest, ok := strings.CutPrefix(e.Data, prefix)
	if !ok {
		m.t.Fatalf("acknowledgement: %s", e.Data)
	}
	return a, strings.TrimSuffix(rest, "}}")
}

func told(id, method, rest string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/%s","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s}%s}}`, method, id, rest)
}

func next(t *testing.T, what string, a *testkit.Answer, want string) {
	t.Helper()
	e, _ := a.Next()
	equal(t, what, e.Data, want)
}

func TestListeners(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{DrainDelay: -1, DrainWait: time.Second}, &troupe.ServerOptions{
			Subscribe: func(_ context.Context, _ *troupe.Call, uri string) error {
				if strings.Contains(uri, "secret") {
					return fmt.Errorf("not for you")
				}
				return nil
			}})
		m := h.modern(`{}`)
		tools, filter := m.listen(`"a"`, `{"toolsListChanged":true,"resourceSubscriptions":["test://one","test://secret","nonsense","test://one"]}`)
		equal(t, "filter", filter, `{"toolsListChanged":true,"resourceSubscriptions":["test://one"]}`)
		prompts, filter := m.listen(`2`, `{"promptsListChanged":true,"resourcesListChanged":true}`)
		equal(t, "filter", filter, `{"promptsListChanged":true,"resourcesListChanged":true}`)
		h.srv.RemoveTools("echo")
		next(t, "tools", tools, told(`"a"`, "tools/list_changed", ""))
		h.srv.ResourceUpdated("test://two")
		h.srv.ResourceUpdated("test://one")
		next(t, "updated", tools, told(`"a"`, "resources/updated", `,"uri":"test://one"`))
		h.srv.RemovePrompts("greet")
		next(t, "prompts", prompts, told(`2`, "prompts/list_changed", ""))
		h.srv.RemoveResources("test://one")
		next(t, "resources", prompts, told(`2`, "resources/list_changed", ""))
		// A change that is taken back at once has happened nevertheless.
		troupe.AddTool(h.srv, troupe.Tool{Name: "brief"}, func(context.Context, *troupe.Call, struct{}) (string, error) { return "", nil })
		h.srv.RemoveTools("brief")
		next(t, "a brief change", tools, told(`"a"`, "tools/list_changed", ""))
		// Silence is kept alive.
		before := prompts.Comments
		tools.Close() // or else somebody would have to read its comments
		go func() {
			time.Sleep(time.Minute)
			h.srv.RemoveResourceTemplates("test://items/{id}")
		}()
		next(t, "after silence", prompts, told(`2`, "resources/list_changed", ""))
		if n := prompts.Comments - before; n < 3 || n > 5 {
			t.Errorf("%d comments in a minute", n)
		}
		// Closing ends it.
		tools, _ = m.listen(`"a"`, `{"resourceSubscriptions":["test://one"]}`)
		synctest.Wait()
		if n := h.actors("subscription"); n != 3 { // two listeners, one resource
			t.Errorf("%d actors", n)
		}
		prompts.Close()
		time.Sleep(16 * time.Second)
		synctest.Wait()
		if n := h.actors("subscription"); n != 2 {
			t.Errorf("%d actors after one was closed", n)
		}
		for _, bad := range []string{`{}`, `{"notifications":null}`, `{"notifications":[]}`, `{"notifications":{"toolsListChanged":1}}`} {
			a, id := m.do("subscriptions/listen", bad)
			if a.Stream() || !strings.Contains(a.Body, `"id":`+id+`,"error":{"code":-32602`) {
				t.Errorf("%s: %s %s", bad, a.Status, a.Body)
			}
		}
		// The server's end: a cancel, and the response.
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- h.rt.ServeOn(ctx, testkit.NewListener()) }()
		stop()
		next(t, "cancelled", tools, told(`"a"`, "cancelled", `,"requestId":"a","reason":"the server is shutting down"`))
		next(t, "response", tools, `{"jsonrpc":"2.0","id":"a","result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"a","io.modelcontextprotocol/serverInfo":{"name":"test","version":"1"}}}}`)
		if rest := tools.All(); len(rest) != 0 {
			t.Errorf("after the response: %v", rest)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

func TestListenersAreBounded(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{StreamsPerPrincipal: 3, SubscriptionsPerSession: 2}, nil)
		m := h.modern(`{}`)
		first, filter := m.listen(`1`, `{"resourceSubscriptions":["test://1","test://2","test://3"]}`)
		equal(t, "filter", filter, `{"resourceSubscriptions":["test://1","test://2"]}`)
		m.listen(`2`, `{}`)
		m.listen(`3`, `{}`)
		a, _ := m.do("subscriptions/listen", `{"notifications":{}}`)
		if a.StatusCode != 429 || a.Header.Get("Retry-After") == "" {
			t.Errorf("one too many: %s %s", a.Status, a.Body)
		}
		first.Close()
		time.Sleep(time.Minute)
		m.listen(`4`, `{}`)
	})
}

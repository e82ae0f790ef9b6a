package scope_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// following reads the standalone stream of a session in the background.
type following struct {
	*kit.Answer

	mu   sync.Mutex // guards the rest
	uris []string   // of updates
	last string     // id
	over bool
}

// follow opens the standalone stream with scopes, or resumes it after an event.
func follow(t *testing.T, c *kit.Client, scopes, after string) *following {
	t.Helper()
	f := &following{Answer: with(c, scopes).Get(after), last: after}
	if !f.Stream() {
		t.Fatalf("no stream: %s %s", f.Status, f.Body)
	}
	go func() {
		for e, ok := f.Next(); ok; e, ok = f.Next() {
			f.mu.Lock()
			if e.ID != "" {
				f.last = e.ID
			}
			if _, rest, ok := strings.Cut(e.Data, `"notifications/resources/updated","params":{"uri":"`); ok {
				uri, _, _ := strings.Cut(rest, `"`)
				f.uris = append(f.uris, uri)
			}
			f.mu.Unlock()
		}
		f.mu.Lock()
		f.over = true
		f.mu.Unlock()
	}()
	return f
}

// expect fails the test unless the stream has carried the updates of uris, and is over or not.
func (f *following) expect(t *testing.T, what string, over bool, uris ...string) {
	t.Helper()
	time.Sleep(time.Second) // updates of a resource are gathered
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Equal(f.uris, uris) || f.over != over {
		t.Errorf("%s: the updates %v came, want %v; over: %v, want %v", what, f.uris, uris, f.over, over)
	}
}

// with returns c with scopes of its own.
func with(c *kit.Client, scopes string) *kit.Client {
	own := *c
	own.Header = http.Header{"X-User": {"ann"}, "X-Scopes": {scopes}}
	return &own
}

// TestNarrowerTokenHearsOfNoUpdates has a client subscribe to a resource with a wider token than that of its standalone stream. Nothing of the resource comes there: the
// client is sent back for it once. With the wider token it gets the update, with the narrower one the stream goes on without.
func TestNarrowerTokenHearsOfNoUpdates(t *testing.T) {
	const open, guardedURI = "open://1", "test://resource"
	for _, revision := range []string{host.R20250326, host.R20251125} {
		t.Run(revision, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				h, _ := guarded(t, troupe.Options{}, troupe.ServerOptions{})
				c := with(h.Unchecked(), "base").InitializeAs(revision, `{}`)
				subscribe := func(scopes, uri string) {
					if a := with(c, scopes).Post(host.Method("1", "resources/subscribe", `{"uri":"`+uri+`"}`)); !strings.Contains(a.Body, `"result":{}`) {
						t.Fatalf("subscribe: %s %s", a.Status, a.Body)
					}
				}
				subscribe("base", open)
				f := follow(t, c, "base", "")
				f.expect(t, "at first", false, open)
				subscribe("base resources", guardedURI)
				h.Server.ResourceUpdated(guardedURI)
				f.expect(t, "the narrower token, open when the client subscribed", true, open)
				before := f.last

				f = follow(t, c, "base", before)
				h.Server.ResourceUpdated(guardedURI)
				h.Server.ResourceUpdated(open)
				f.expect(t, "the narrower token, resumed", false, open)
				h.Server.ResourceUpdated(guardedURI)
				f.expect(t, "the narrower token, still", false, open)

				f = follow(t, c, "base resources", before)
				h.Server.ResourceUpdated(guardedURI)
				f.expect(t, "the wider token", false, guardedURI, guardedURI, open, guardedURI, guardedURI)

				f = follow(t, c, "base", "")
				h.Server.ResourceUpdated(guardedURI)
				f.expect(t, "the narrower token, anew", false, open)
			})
		})
	}
}

// TestUpdatesBesideASubscription has a client subscribe with a wider token to a resource whose URI begins like that of one to which it has subscribed before, and does not lie below that.
func TestUpdatesBesideASubscription(t *testing.T) {
	const first, second = "open://dir", "open://directory"
	kit.Bubble(t, func(t *testing.T) {
		h, _ := guarded(t, troupe.Options{}, troupe.ServerOptions{})
		troupe.AddResource(h.Server, mcp.Resource{URI: second, Name: "d", Scopes: []string{"resources"}}, noResource)
		c := with(h.Unchecked(), "base").InitializeAs(host.R20251125, `{}`)
		c.Post(host.Method("1", "resources/subscribe", `{"uri":"`+first+`"}`))
		f := follow(t, c, "base", "")
		f.expect(t, "at first", false, first)
		with(c, "base resources").Post(host.Method("2", "resources/subscribe", `{"uri":"`+second+`"}`))
		h.Server.ResourceUpdated(second)
		f.expect(t, "the narrower token", true, first)
		before := f.last
		f = follow(t, c, "base resources", before)
		f.expect(t, "the wider token", false, second)
		f.Close()
	})
}

// TestUpdatesBelowNeedScopes updates a resource that needs a scope and lies below one that needs none. Who subscribes to that one, in a session or as a listener, hears of the
// other only with the scope.
func TestUpdatesBelowNeedScopes(t *testing.T) {
	const above, below = "open://dir", "open://dir/secret"
	kit.Bubble(t, func(t *testing.T) {
		h, _ := guarded(t, troupe.Options{}, troupe.ServerOptions{SubResources: true})
		troupe.AddResource(h.Server, mcp.Resource{URI: below, Name: "b", Scopes: []string{"resources"}}, noResource)
		streams := map[string]*host.Listening{}
		for scopes, who := range map[string]string{"base": "without", "base resources": "with"} {
			c := with(h.Unchecked(), scopes).InitializeAs(host.R20251125, `{}`)
			c.Post(host.Method("1", "resources/subscribe", `{"uri":"`+above+`"}`))
			streams["a session "+who] = host.Listen(c.Get(""))
			m := h.Stateless(`{}`)
			m.Client = with(m.Client, scopes)
			a, _ := m.Listen("7", `{"resourceSubscriptions":["`+above+`"]}`)
			streams["a listener "+who] = host.Listen(a)
		}
		time.Sleep(time.Second)
		h.Server.ResourceUpdated(below)
		time.Sleep(time.Second)
		for name, l := range streams {
			got, over := l.Now()
			hears, want := strings.Contains(strings.Join(got, " "), below), strings.HasSuffix(name, "with")
			if hears != want || over {
				t.Errorf("%s: it got %v, over: %v", name, got, over)
			}
			l.Close()
		}
	})
}

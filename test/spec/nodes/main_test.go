package nodes_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

func TestMain(m *testing.M) { kit.Main(m) }

// resource is there on all nodes.
const resource = "x:1"

// nodes runs f with runtimes that share a server, in virtual time.
func nodes(t *testing.T, n int, so *troupe.ServerOptions, f func(t *testing.T, v *kit.VirtualNATS, all ...*host.Host)) {
	t.Helper()
	kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
		var all []*host.Host
		for i := range n {
			name := string(rune('a' + i))
			o := host.Unhurried
			o.Store.NATS.URL, o.Store.Node, o.Store.Lease = v.Line(name).URL(), name, 5*time.Second // with -short, too: what is lost is found by its lease
			h := host.New(t, o, so)
			troupe.AddResource(h.Server, mcp.Resource{URI: resource, Name: "one"}, func(context.Context, *troupe.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
				return nil, nil
			})
			all = append(all, h)
		}
		time.Sleep(time.Second)
		f(t, v, all...)
	})
}

// by returns a client of the same session that sends its requests to another node.
func by(h *host.Host, c *kit.Client) *kit.Client {
	other := *c
	other.HTTP, other.URL = h.HTTP, h.URL
	return &other
}

// count is how many messages have a part.
func count(messages []string, part string) (n int) {
	for _, m := range messages {
		if strings.Contains(m, part) {
			n++
		}
	}
	return n
}

// listener is a client that listens at a node.
type listener struct {
	*host.Listening
	name string
	seen int
}

// fresh counts the messages with a part since the last call.
func (l *listener) fresh(part string) int {
	got := l.Since(l.seen)
	l.seen += len(got)
	return count(got, part)
}

// listeners are a session and a stateless client that listen to the resource, at each node. The session begins, and
// subscribes, at another node.
func listeners(t *testing.T, all []*host.Host) (out []*listener) {
	t.Helper()
	for i, h := range all {
		name := " at " + h.Runtime.Node()
		other := all[(i+1)%len(all)]
		c := other.Session()
		stream := by(h, c).Get("")
		if a := c.Post(host.Method("1", "resources/subscribe", `{"uri":"`+resource+`"}`)); a.StatusCode != 200 || strings.Contains(a.Body, "error") {
			t.Fatalf("subscribe: %s", a.Body)
		}
		out = append(out, &listener{host.Listen(stream), "a session" + name, 0})
		a, _ := h.Stateless("{}").Listen(`"L"`, `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["`+resource+`"]}`)
		out = append(out, &listener{host.Listen(a), "a listener" + name, 0})
	}
	t.Cleanup(func() {
		for _, l := range out {
			l.Close()
		}
	})
	for _, l := range out {
		l.fresh("")
	}
	return out
}

// want fails the test unless each listener has had n new messages with a part.
func want(t *testing.T, what string, all []*listener, part string, n int) {
	t.Helper()
	for _, l := range all {
		if got := l.fresh(part); got != n {
			t.Errorf("%s: %s heard of it %d times, want %d", what, l.name, got, n)
		}
	}
}

package nodes_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

const (
	updated = "notifications/resources/updated"
	tools   = "notifications/tools/list_changed"
	changed = "list_changed"
)

// add adds a tool at one node.
func add(h *host.Host, name string) {
	h.AddTool(name, 0, func(context.Context, *troupe.Call) (string, error) { return name, nil })
}

// TestUpdatesElsewhere has a resource change at each node in turn: every client that listens anywhere hears of it once.
func TestUpdatesElsewhere(t *testing.T) {
	nodes(t, 3, nil, func(t *testing.T, v *kit.VirtualNATS, all ...*host.Host) {
		ls := listeners(t, all)
		for _, h := range all {
			h.Server.ResourceUpdated(resource)
			h.Server.ResourceUpdated("x:2")
			time.Sleep(time.Second)
			want(t, "a change at "+h.Runtime.Node(), ls, updated, 1)
		}
	})
}

// TestListsElsewhere changes lists at one node after the other, as programs do that learn of the same at different times.
func TestListsElsewhere(t *testing.T) {
	nodes(t, 3, nil, func(t *testing.T, v *kit.VirtualNATS, all ...*host.Host) {
		ls := listeners(t, all)
		turn := func(what string, n int, change func(h *host.Host), of ...*host.Host) {
			t.Helper()
			for _, h := range of {
				change(h)
			}
			time.Sleep(time.Second)
			want(t, what, ls, tools, n)
		}
		one := func(h *host.Host) { add(h, "one") }
		turn("at one node", 1, one, all[0])
		turn("the same at another", 0, one, all[1])
		turn("and at the third", 0, one, all[2])
		turn("at all at once", 1, func(h *host.Host) { add(h, "two") }, all...)

		// Whoever gets the list from a node that has not changed it yet is told again when that does.
		three := func(h *host.Host) { add(h, "three") }
		turn("at the second", 1, three, all[1])
		for _, h := range all {
			if a := h.Session().Post(host.Method("1", "tools/list", "{}")); strings.Contains(a.Body, "three") != (h == all[1]) {
				t.Errorf("at %s: %s", h.Runtime.Node(), a.Body)
			}
		}
		turn("at the third, whose list somebody has", 1, three, all[2])
		turn("at the first, whose list nobody has got since", 0, three, all[0])
		turn("taken away at one node", 1, func(h *host.Host) { h.Server.RemoveTools("three") }, all[2])
		turn("and back", 1, three, all[2])
		want(t, "other lists", ls, changed, 0)
	})
}

// TestListsOfWhoComesLater opens streams after another node has changed its list: they begin with that, as long as the nodes differ.
func TestListsOfWhoComesLater(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	nodes(t, 2, nil, func(t *testing.T, v *kit.VirtualNATS, all ...*host.Host) {
		a, b := all[0], all[1]
		c := b.Session()
		opens := func(what string, n int) {
			t.Helper()
			stream := host.Listen(c.Get(""))
			time.Sleep(2 * time.Minute) // until it is certain that the client knows
			if got, _ := stream.Now(); count(got, changed) != n {
				t.Errorf("%s: got %q", what, got)
			}
			stream.Close()
			time.Sleep(time.Minute) // until the node has noticed
		}
		opens("before", 0)
		add(a, "one")
		time.Sleep(time.Second)
		opens("the client was not there", 1)
		opens("the client knows the list of the one, or of the other", 1)
		add(b, "one")
		time.Sleep(time.Second)
		opens("they are the same", 0)
	})
}

// TestHiddenListsElsewhere changes what callers may see: at a node that cannot say who sees it, all are told.
func TestHiddenListsElsewhere(t *testing.T) {
	hidden := true
	so := &troupe.ServerOptions{Visible: func(_ troupe.Principal, i troupe.Item) bool { return i.Name != "secret" || !hidden }}
	nodes(t, 2, so, func(t *testing.T, v *kit.VirtualNATS, all ...*host.Host) {
		ls := listeners(t, all)
		for _, h := range all {
			add(h, "secret")
		}
		time.Sleep(time.Second)
		for _, l := range ls {
			l.fresh("")
		}
		hidden = false
		all[0].Server.FilterChanged()
		time.Sleep(time.Second)
		want(t, "it is hidden no more", ls, tools, 1)
		all[1].Server.FilterChanged()
		time.Sleep(time.Second)
		want(t, "which the other node knows as well", ls, changed, 0)
	})
}

// TestNewsThatWereLost cuts a node off from the server while things change: when it is back, the clients that listen there are told.
func TestNewsThatWereLost(t *testing.T) {
	nodes(t, 2, nil, func(t *testing.T, v *kit.VirtualNATS, all ...*host.Host) {
		a := all[0]
		ls := listeners(t, all)
		line := v.Line("b")
		line.Break()
		time.Sleep(500 * time.Millisecond)
		a.Server.ResourceUpdated(resource)
		add(a, "one")
		time.Sleep(500 * time.Millisecond)
		line.Heal()
		time.Sleep(10 * time.Second)
		for _, l := range ls {
			got := l.Since(l.seen)
			if u, c := count(got, updated), count(got, tools); u == 0 || c == 0 {
				t.Errorf("%s got %d updates and %d changes of the list", l.name, u, c)
			}
		}
	})
}

// TestSessionElsewhere cancels a call, changes a session, and ends it, at another node than that of its call.
func TestSessionElsewhere(t *testing.T) {
	nodes(t, 2, nil, func(t *testing.T, v *kit.VirtualNATS, all ...*host.Host) {
		a, b := all[0], all[1]
		ended := make(chan error, 2)
		b.AddTool("wait", 0, func(ctx context.Context, call *troupe.Call) (string, error) {
			if err := call.Log(ctx, mcp.LevelError, "", "begun"); err != nil {
				return "", err
			}
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return "", ctx.Err()
		})
		c := a.Session()
		over := func(what string, call *kit.Answer, cause error) {
			t.Helper()
			select {
			case got := <-ended:
				if got == nil || !strings.Contains(got.Error(), cause.Error()) {
					t.Errorf("%s: the context ended because of %v, want %v", what, got, cause)
				}
			case <-time.After(2 * time.Second):
				t.Fatalf("%s: the call runs on", what)
			}
			l := host.Listen(call)
			synctest.Wait()
			if got, done := l.Now(); !done || count(got, `"result":`)+count(got, `"error":`) != 0 {
				t.Errorf("%s: over %v, got %q", what, done, got)
			}
		}
		call := by(b, c).Post(host.Call("7", "wait", "{}"))
		if r := c.Post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"enough"}}`); r.StatusCode != 202 {
			t.Errorf("the cancel was answered %s", r.Status)
		}
		over("a cancel", call, troupe.ErrCancelled)
		call, stream := by(b, c).Post(host.Call("8", "wait", "{}")), host.Listen(by(b, c).Get(""))
		if r := c.Do("DELETE", ""); r.StatusCode != 200 {
			t.Errorf("DELETE was answered %s", r.Status)
		}
		over("a DELETE", call, troupe.ErrSessionEnded)
		if _, done := stream.Now(); !done {
			t.Error("the standalone stream is open")
		}
		if r := by(b, c).Post(host.Method("9", "ping", "{}")); r.StatusCode != 404 {
			t.Errorf("a request after the end was answered %s", r.Status)
		}
	})
}

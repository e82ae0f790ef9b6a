package session_test

import (
	"context"
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

// rootsHost returns a host whose tools ask for roots.
func rootsHost(t *testing.T) *host.Host {
	h := host.New(t, troupe.Options{Store: troupe.StoreOptions{SessionIdle: time.Hour}}, nil)
	uris := func(ctx context.Context, call *troupe.Call) (string, error) {
		roots, err := call.Roots(ctx)
		var uris []string
		for _, r := range roots {
			uris = append(uris, r.URI)
		}
		return strings.Join(uris, " "), err
	}
	h.AddTool("roots", mcp.CapClientRoots, uris)
	h.AddTool("peer", 0, func(ctx context.Context, call *troupe.Call) (string, error) {
		roots, err := call.Peer().Roots(ctx)
		return fmt.Sprint(len(roots)), err
	})
	h.AddTool("both", mcp.CapClientRoots|mcp.CapClientElicitationForm, func(ctx context.Context, call *troupe.Call) (string, error) {
		a, err := call.Ask(ctx, troupe.Elicit("form", "?", host.Form), troupe.Roots("roots"), troupe.Roots("again"))
		if err != nil {
			return "", err
		}
		roots, err := a.Roots("roots")
		if err != nil {
			return "", err
		}
		again, err := a.Roots("again")
		form, _ := a.Elicited("form")
		return fmt.Sprint(form.Action, roots[0].URI, again[0].URI), err
	})
	return h
}

const telling = `{"roots":{"listChanged":true},"elicitation":{}}`

func rootsResult(uris ...string) string {
	for i, u := range uris {
		uris[i] = `{"uri":"` + u + `"}`
	}
	return `{"roots":[` + strings.Join(uris, ",") + `]}`
}

func TestRootsAreAskedOnce(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := rootsHost(t)
		c := h.Client().Initialize(telling)
		ask := func(id, answer, want string) {
			t.Helper()
			a := c.Post(host.Call(id, "roots", `{}`))
			q := host.NextQuestion(t, a)
			host.Equal(t, "question", q.Method+string(q.Params), "roots/list")
			if strings.HasPrefix(answer, `{"code"`) {
				host.Reply(c, q.ID, "error", answer)
			} else {
				host.Reply(c, q.ID, "result", answer)
			}
			host.Contains(t, "answer", host.Last(t, a), want)
		}
		ask("1", rootsResult("file:///a"), "file:///a")
		host.NotAsked(t, "the next call", c.Post(host.Call("2", "roots", `{}`)), host.ToolText("2", "file:///a"))
		host.NotAsked(t, "another tool", c.Post(host.Call("3", "peer", `{}`)), host.ToolText("3", "1"))
		a := c.Post(host.Call("4", "both", `{}`))
		q := host.NextQuestion(t, a)
		host.Equal(t, "only the form is asked", q.Method, "elicitation/create")
		host.Reply(c, q.ID, "result", `{"action":"decline"}`)
		host.Contains(t, "with a form", host.Last(t, a), "declinefile:///afile:///a")

		other := h.Client().Initialize(telling)
		a = other.Post(host.Call("1", "roots", `{}`))
		host.Reply(other, host.NextQuestion(t, a).ID, "result", rootsResult("file:///other"))
		host.Contains(t, "another session asks itself", host.Last(t, a), "file:///other")

		c.Post(host.Note("notifications/roots/list_changed", ""))
		ask("5", rootsResult("file:///b"), "file:///b")
		host.NotAsked(t, "after the change", c.Post(host.Call("6", "roots", `{}`)), host.ToolText("6", "file:///b"))
		host.NotAsked(t, "the other session", other.Post(host.Call("2", "roots", `{}`)), host.ToolText("2", "file:///other"))

		// The cache keeps neither an invalid answer nor a very large one.
		c.Post(host.Note("notifications/roots/list_changed", ""))
		ask("7", `{"code":-32601,"message":"no roots here"}`, "no roots here")
		ask("8", `{}`, "the roots are missing")
		big := "file:///" + strings.Repeat("x", 64<<10)
		ask("9", rootsResult(big), big)
		ask("10", rootsResult("file:///c"), "file:///c")

		time.Sleep(2 * time.Minute) // the session leaves memory
		if n := h.Actors("session"); n != 0 {
			t.Errorf("%d sessions in memory", n)
		}
		ask("11", rootsResult("file:///d"), "file:///d")

		// A client that does not announce changes is asked each time.
		c = h.Client().Initialize(`{"roots":{}}`)
		ask("1", rootsResult("file:///x"), "file:///x")
		ask("2", rootsResult("file:///y"), "file:///y")
	})
}

func TestRootsQuestionIsShared(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := rootsHost(t)
		c := h.Client().Initialize(telling)
		begin := func(id, tool string) *host.Listening { return host.Listen(c.Post(host.Call(id, tool, `{}`))) }
		texts := func(streams ...*host.Listening) (got []string) {
			for _, s := range streams {
				all, ended := s.Now()
				if !ended || len(all) == 0 {
					got = append(got, "open")
					continue
				}
				_, text, _ := strings.Cut(all[len(all)-1], `"text":"`)
				text, _, _ = strings.Cut(text, `"`)
				got = append(got, fmt.Sprint(len(all)-1, " ", text))
			}
			return got
		}
		questions := func(l *host.Listening) (all []host.Asked) {
			t.Helper()
			got, _ := l.Now()
			for _, m := range got {
				if strings.Contains(m, `"method":"roots/list"`) {
					all = append(all, host.ParseAsked(t, m))
				}
			}
			return all
		}
		want := func(what string, got []string, want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}

		one, two, three := begin("1", "roots"), begin("2", "roots"), begin("3", "roots")
		want("while the question is open", texts(one, two, three), "open", "open", "open")
		host.Reply(c, questions(one)[0].ID, "result", rootsResult("file:///a"))
		want("one question for all", texts(one, two, three), "1 file:///a", "0 file:///a", "0 file:///a")

		// The roots change while the question is open: later calls ask anew.
		c.Post(host.Note("notifications/roots/list_changed", ""))
		one, two = begin("1", "roots"), begin("2", "roots")
		c.Post(host.Note("notifications/roots/list_changed", ""))
		three = begin("3", "roots")
		host.Reply(c, questions(one)[0].ID, "result", rootsResult("file:///old"))
		want("asked before the change", texts(one, two, three), "1 file:///old", "0 file:///old", "open")
		host.Reply(c, questions(three)[0].ID, "result", rootsResult("file:///new"))
		host.NotAsked(t, "what is kept", c.Post(host.Call("4", "roots", `{}`)), host.ToolText("4", "file:///new"))

		// The asking call is cancelled: another call asks.
		c.Post(host.Note("notifications/roots/list_changed", ""))
		begin("1", "roots")
		two, three = begin("2", "roots"), begin("3", "roots")
		synctest.Wait()
		c.Post(host.Note("notifications/cancelled", `{"requestId":1}`))
		synctest.Wait()
		second := append(questions(two), questions(three)...)
		if len(second) != 1 {
			t.Fatalf("%d questions of those who waited, want 1", len(second))
		}
		host.Reply(c, second[0].ID, "result", rootsResult("file:///b"))
		got := texts(two, three)
		if strings.Join(got, ",") != "1 file:///b,0 file:///b" && strings.Join(got, ",") != "0 file:///b,1 file:///b" {
			t.Errorf("after a cancel: %v", got)
		}

		// The client does not answer the asking call: the others ask themselves after a
		// while.
		c.Post(host.Note("notifications/roots/list_changed", ""))
		deaf := c.Post(host.Call("1", "roots", `{}`))
		deaf.Close()
		two = begin("2", "roots")
		time.Sleep(9 * time.Second)
		if n := len(questions(two)); n != 0 {
			t.Errorf("%d questions after 9 seconds", n)
		}
		time.Sleep(2 * time.Second)
		host.Reply(c, questions(two)[0].ID, "result", rootsResult("file:///c"))
		want("after ten seconds", texts(two), "1 file:///c")
		host.NotAsked(t, "what is kept", c.Post(host.Call("3", "roots", `{}`)), host.ToolText("3", "file:///c"))
		c.Post(host.Note("notifications/cancelled", `{"requestId":1}`))
	})
}

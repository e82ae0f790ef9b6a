package nodes_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// sessionTools are tools that use what a session has.
func sessionTools(h *host.Host) {
	h.AddTool("visit", 0, func(ctx context.Context, call *troupe.Call) (string, error) {
		var n int
		if _, err := call.Session().Get(ctx, "n", &n); err != nil {
			return "", err
		}
		return fmt.Sprint(n + 1), call.Session().Set(ctx, "n", n+1)
	})
	h.AddTool("count", 0, func(ctx context.Context, call *troupe.Call) (string, error) {
		n, err := troupe.UpdateValue(ctx, call.Session(), "n", func(n int) (int, error) { return n + 1, nil })
		return fmt.Sprint(n), err
	})
	h.AddTool("talk", 0, func(ctx context.Context, call *troupe.Call) (string, error) {
		return "", call.Log(ctx, mcp.LevelInfo, "", "said")
	})
	h.AddTool("where", mcp.CapClientRoots, func(ctx context.Context, call *troupe.Call) (string, error) {
		roots, err := call.Roots(ctx)
		if err != nil || len(roots) == 0 {
			return "", err
		}
		return roots[0].URI, nil
	})
}

// TestAnyNodeKnowsTheSession has a client send each request to the next node, as behind round robin: what the one before it has stored,
// it finds.
func TestAnyNodeKnowsTheSession(t *testing.T) {
	nodes(t, 3, nil, func(t *testing.T, _ *kit.VirtualNATS, all ...*host.Host) {
		for _, h := range all {
			sessionTools(h)
		}
		c, turn := all[0].Client().Initialize(`{"roots":{"listChanged":true}}`), 0
		next := func() *kit.Client {
			turn++
			return by(all[turn%len(all)], c)
		}
		for range all {
			next().Post(host.Call("1", "talk", `{}`)).All() // the node has the session in its memory
		}
		for i := range 60 {
			want := fmt.Sprint(i + 1)
			host.Equal(t, "a value", next().Post(host.Call("1", []string{"visit", "count"}[i/2%2], `{}`)).Body, host.TextResult("1", want))
		}
		for range 3 {
			for _, level := range []string{"error", "debug"} {
				next().Post(host.Method("1", "logging/setLevel", `{"level":"`+level+`"}`))
				a := next().Post(host.Call("2", "talk", `{}`))
				if a.Stream() != (level == "debug") { // a message, and then the result
					t.Errorf("level %s: %s %s", level, a.Status, a.Body)
				}
				a.Close()
			}
		}
		for i := range 4 {
			uri := fmt.Sprintf("file:///%d", i)
			for j := range all {
				c := next()
				a := c.Post(host.Call("1", "where", `{}`))
				q := host.NextQuestion(t, a) // of each node, once
				host.Reply(c, q.ID, "result", `{"roots":[{"uri":"`+uri+`"}]}`)
				host.Equal(t, fmt.Sprint("the roots, node ", j), host.Last(t, a), host.TextResult("1", uri))
				host.NotAsked(t, "again", c.Post(host.Call("2", "where", `{}`)), host.TextResult("2", uri))
			}
			next().Post(host.Note("notifications/roots/list_changed", ""))
		}
		next().Do("DELETE", "")
		for range all {
			if a := next().Post(host.Call("1", "talk", `{}`)); a.StatusCode != 404 {
				t.Errorf("after DELETE: %s %s", a.Status, a.Body)
			}
		}
	})
}

// TestCallsOfOneSessionAtOnce counts a value up with calls at all nodes at the same time. With Get and Set a call may fail, as another one was
// between the two; what it has stored, none overwrites.
func TestCallsOfOneSessionAtOnce(t *testing.T) {
	nodes(t, 2, nil, func(t *testing.T, _ *kit.VirtualNATS, all ...*host.Host) {
		for _, h := range all {
			sessionTools(h)
		}
		c := all[0].Session()
		stored := 0
		var mu sync.Mutex // guards stored
		var calls sync.WaitGroup
		for i := range 40 {
			calls.Go(func() {
				body := by(all[i%2], c).Post(host.Call(fmt.Sprint(i+1), []string{"visit", "count"}[i/2%2], `{}`)).Body
				if mu.Lock(); body != host.ToolFault(fmt.Sprint(i+1), troupe.ErrValueChanged.Error()) {
					stored++
				}
				mu.Unlock()
			})
		}
		calls.Wait()
		host.Equal(t, "the next one", c.Post(host.Call("1", "count", `{}`)).Body, host.TextResult("1", fmt.Sprint(stored+1)))
		if stored < 20 {
			t.Errorf("%d of 40 calls have counted, 20 of which could not fail", stored)
		}
	})
}

// TestValueThatAnotherCallHasSet has a call set what it read before another one set it.
func TestValueThatAnotherCallHasSet(t *testing.T) {
	nodes(t, 2, nil, func(t *testing.T, _ *kit.VirtualNATS, all ...*host.Host) {
		var mine, other troupe.SessionValues
		all[0].AddTool("mine", 0, func(_ context.Context, call *troupe.Call) (string, error) { mine = call.Session(); return "", nil })
		all[1].AddTool("other", 0, func(_ context.Context, call *troupe.Call) (string, error) { other = call.Session(); return "", nil })
		c := all[0].Session()
		c.Post(host.Call("1", "mine", `{}`))
		by(all[1], c).Post(host.Call("1", "other", `{}`))
		ctx := t.Context()
		get := func(v troupe.SessionValues, want int) {
			t.Helper()
			var n int
			if _, err := v.Get(ctx, "n", &n); err != nil || n != want {
				t.Errorf("got %d, %v, want %d", n, err, want)
			}
		}
		did := func(what string, got, want error) {
			t.Helper()
			if !errors.Is(got, want) {
				t.Errorf("%s: %v, want %v", what, got, want)
			}
		}
		did("without a Get", mine.Set(ctx, "n", 1), nil)
		did("the later one counts", other.Set(ctx, "n", 2), nil)
		did("after its own Set", mine.Set(ctx, "n", 3), troupe.ErrValueChanged)
		get(mine, 2)
		did("after a Get", mine.Set(ctx, "n", 3), nil)
		did("of another key", mine.Set(ctx, "m", 1), nil)
		did("the value that is there by now", other.Set(ctx, "n", 3), troupe.ErrValueChanged)
		get(other, 3)
		did("as it is", other.Set(ctx, "n", 3), nil)
		did("another Delete", other.Delete(ctx, "n"), nil)
		did("a Delete of what is gone", mine.Delete(ctx, "n"), troupe.ErrValueChanged)
		get(mine, 0)
		did("of none", other.Set(ctx, "n", 5), nil)
		did("where there was none", mine.Set(ctx, "n", 6), troupe.ErrValueChanged)
		no := errors.New("no")
		n, err := troupe.UpdateValue(ctx, mine, "n", func(n int) (int, error) { return n + 1, nil })
		did("an update", err, nil)
		host.Equal(t, "an update", fmt.Sprint(n), "6")
		_, err = troupe.UpdateValue(ctx, mine, "n", func(n int) (int, error) { return 9, no })
		did("an update that fails", err, no)
		_, err = troupe.UpdateValue(ctx, mine, "n", func(s string) (string, error) { return "x", nil })
		if err == nil {
			t.Error("a number was decoded into a string")
		}
		get(other, 6)
	})
}

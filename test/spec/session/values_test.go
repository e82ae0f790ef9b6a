package session_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// addKeep adds a tool that returns the value of a key, and then sets it, or deletes it if the value is empty.
func addKeep(s *troupe.Server) {
	troupe.AddTool(s, troupe.Tool{Name: "keep"}, func(ctx context.Context, call *troupe.Call, in struct {
		Key   string `json:"key"`
		Value string `json:"value,omitempty"`
	}) (string, error) {
		var old string
		found, err := call.Session().Get(ctx, in.Key, &old)
		if err != nil {
			return "", err
		}
		if in.Value == "" {
			return fmt.Sprint(old, found), call.Session().Delete(ctx, in.Key)
		}
		return fmt.Sprint(old, found), call.Session().Set(ctx, in.Key, in.Value)
	})
}

func keep(key, value string) string {
	return host.Call("1", "keep", `{"key":"`+key+`","value":"`+value+`"}`)
}

// TestSessionValues keeps values in sessions of each kind; no session sees those of another.
func TestSessionValues(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		addKeep(h.Server)
		c, other := h.Session(), h.Session()
		sse := h.SSE()
		sse.Handshake("2024-11-05", `{}`)
		for who, ask := range map[string]func(string) string{
			"a session":     func(m string) string { return c.Post(m).Body },
			"a second one":  func(m string) string { return other.Post(m).Body },
			"over HTTP+SSE": func(m string) string { return sse.Ask(m) },
		} {
			host.Equal(t, who+": nothing", ask(keep("k", who)), host.TextResult("1", "false"))
			host.Equal(t, who+": its own", ask(keep("k", "")), host.TextResult("1", who+"true"))
			host.Equal(t, who+": deleted", ask(keep("k", "")), host.TextResult("1", "false"))
		}
		c.Post(keep("k", "later"))
		time.Sleep(10 * time.Minute) // it leaves memory after a minute
		host.Equal(t, "back from its record", c.Post(keep("k", "")).Body, host.TextResult("1", "latertrue"))

		m := h.Stateless(`{}`)
		a, id := m.Tool("keep", `{"key":"k"}`)
		host.Equal(t, "stateless", m.Done(a, id), troupe.ErrNoSession.Error())
	})
}

// TestSessionValuesAreUpdated updates a value in sessions of each kind: calls at the same time count each other.
func TestSessionValuesAreUpdated(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		h.AddTool("count", 0, func(ctx context.Context, call *troupe.Call) (string, error) {
			n, err := troupe.UpdateValue(ctx, call.Session(), "n", func(n int) (int, error) { return n + 1, nil })
			return fmt.Sprint(n), err
		})
		c, sse := h.Session(), h.SSE()
		sse.Handshake("2024-11-05", `{}`)
		var calls sync.WaitGroup
		for i := range 20 {
			calls.Go(func() { c.Post(host.Call(fmt.Sprint("1", i), "count", `{}`)) })
		}
		calls.Wait()
		host.Equal(t, "a session", c.Post(host.Call("1", "count", `{}`)).Body, host.TextResult("1", "21"))
		for want := range 2 {
			host.Equal(t, "over HTTP+SSE", sse.Ask(host.Call("1", "count", `{}`)), host.TextResult("1", fmt.Sprint(want+1)))
		}
		m := h.Stateless(`{}`)
		a, id := m.Tool("count", `{}`)
		host.Equal(t, "stateless", m.Done(a, id), troupe.ErrNoSession.Error())
	})
}

// TestSessionValuesOverACrash checks that a value that was set is there in the next process.
func TestSessionValuesOverACrash(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		h := host.New(t, troupe.Options{Dir: dir}, nil)
		addKeep(h.Server)
		c := h.Session()
		c.Post(keep("k", "before"))
		next, moved := host.Crashed(t, dir, troupe.Options{}, c)
		addKeep(next.Server)
		host.Equal(t, "in the next process", moved.Post(keep("k", "after")).Body, host.TextResult("1", "beforetrue"))
		host.Equal(t, "and goes on", moved.Post(keep("k", "")).Body, host.TextResult("1", "aftertrue"))
	})
}

// TestSessionValuesAreBounded checks the bounds on number and bytes, and that a session that has ended returns no
// values.
func TestSessionValuesAreBounded(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		addKeep(h.Server)
		var peer *troupe.Peer
		h.AddTool("peer", 0, func(_ context.Context, call *troupe.Call) (string, error) { peer = call.Peer(); return "", nil })
		c := h.Session()
		for i := range 65 {
			want := host.TextResult("1", "false")
			if i == 64 {
				want = host.ToolFault("1", troupe.ErrSessionFull.Error())
			}
			host.Equal(t, "one more", c.Post(keep(fmt.Sprint("k", i), "x")).Body, want)
		}
		host.Equal(t, "too large", c.Post(keep("k1", strings.Repeat("x", 32<<10))).Body, host.ToolFault("1", troupe.ErrSessionFull.Error()))
		host.Equal(t, "what there was", c.Post(keep("k1", "")).Body, host.TextResult("1", "xtrue"))
		c.Post(host.Call("1", "peer", `{}`))
		if found, err := peer.Values().Get(t.Context(), "k2", new(string)); !found || err != nil {
			t.Errorf("outside of a call: %t, %v", found, err)
		}
		c.Do("DELETE", "")
		if _, err := peer.Values().Get(t.Context(), "k2", new(string)); !errors.Is(err, troupe.ErrSessionEnded) {
			t.Errorf("get after DELETE: %v", err)
		}
		if err := peer.Values().Set(t.Context(), "k2", 1); !errors.Is(err, troupe.ErrSessionEnded) {
			t.Errorf("set after DELETE: %v", err)
		}
	})
}

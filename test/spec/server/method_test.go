package server_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

type (
	searchIn struct {
		Query string `json:"query"`
		MS    int    `json:"ms"`
	}
	searchOut struct {
		Hits []string `json:"hits"`
	}
)

func addSearch(s *troupe.Server) {
	troupe.AddMethod(s, troupe.Method{Name: "acme/search"}, func(ctx context.Context, call *troupe.Call, in searchIn) (searchOut, error) {
		if err := host.Sleep(ctx, in.MS); err != nil {
			return searchOut{}, err
		}
		switch in.Query {
		case "wire":
			return searchOut{}, mcp.NewError(-32050, "no")
		case "fail":
			return searchOut{}, errors.New("the database is away")
		case "tell":
			return searchOut{[]string{"told"}}, call.Notify(ctx, "notifications/acme", map[string]int{"n": 1})
		}
		return searchOut{[]string{in.Query}}, nil
	})
	troupe.AddMethod(s, troupe.Method{Name: "acme/list"}, func(context.Context, *troupe.Call, struct{}) ([]string, error) { return nil, nil })
}

// TestOwnMethod calls methods that the specification does not have, in a session and
// stateless.
func TestOwnMethod(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, &troupe.ServerOptions{Experimental: map[string]mcp.Object{"acme/search": mcp.Object(`{"v":1}`)}})
		addSearch(h.Server)
		c := h.Unchecked()
		a := c.Post(host.InitializeRequest)
		if !strings.Contains(a.Body, `"experimental":{"acme/search":{"v":1}}`) {
			t.Errorf("it is not declared: %s", a.Body)
		}
		c.Session = a.Header.Get("Mcp-Session-Id")
		for params, want := range map[string]string{
			`{"query":"x"}`:    `{"jsonrpc":"2.0","id":1,"result":{"hits":["x"]}}`,
			"":                 `{"jsonrpc":"2.0","id":1,"result":{"hits":[""]}}`,
			`{"query":5}`:      `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"invalid params: number at offset 9 does not fit a string"}}`,
			`{"query":"wire"}`: host.Fault("1", -32050, "no", ""),
			`{"query":"fail"}`: host.Fault("1", host.Internal, "internal error", ""),
		} {
			host.Equal(t, params, c.Post(host.Method("1", "acme/search", params)).Body, want)
		}
		twice := `{"jsonrpc":"2.0","id":1,"result":{"hits":["y"]}}`
		if troupe.Codec() == "json/v2" {
			twice = `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"invalid params: a member comes twice"}}`
		}
		host.Equal(t, "a member that comes twice", c.Post(host.Method("1", "acme/search", `{"query":"x","query":"y"}`)).Body, twice)
		host.Equal(t, "no object", c.Post(host.Method("1", "acme/list", "")).Body, host.Fault("1", host.Internal, "internal error", ""))
		host.Equal(t, "unknown", c.Post(host.Method("1", "acme/find", "")).Body, host.Fault("1", host.NoMethod, "method not found: acme/find", ""))
		host.Equal(t, "a stream", host.Last(t, c.Post(host.Method("1", "acme/search", `{"query":"x","ms":1000}`))), `{"jsonrpc":"2.0","id":1,"result":{"hits":["x"]}}`)
		told := host.Payloads(c.Post(host.Method("1", "acme/search", `{"query":"tell"}`)).All())
		host.Equal(t, "a notification", told[0], host.Note("notifications/acme", `{"n":1}`))

		m := &host.Stateless{T: t, Client: h.Unchecked(), Capabilities: `{}`}
		s, id := m.Do("acme/search", `{"query":"x"}`)
		host.Equal(t, "stateless", s.Body, `{"jsonrpc":"2.0","id":`+id+`,"result":`+host.Complete+`,"hits":["x"]}}`)
	})
}

// TestOwnMethodOverACrash checks that a request that is not declared safe does not run
// again.
func TestOwnMethodOverACrash(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		h := host.New(t, troupe.Options{Dir: dir}, nil)
		addSearch(h.Server)
		c := h.Unchecked().Initialize(`{}`)
		a := c.Post(host.Method("1", "acme/search", `{"query":"x","ms":60000}`))
		first, _ := a.Next()
		host.Listen(a)
		next, moved := host.Crashed(t, dir, troupe.Options{}, c)
		addSearch(next.Server)
		if got := host.Last(t, moved.Get(first.ID)); !strings.Contains(got, "-32010") {
			t.Errorf("after a crash: %s", got)
		}
	})
}

// TestOwnMethodIsLimited checks that requests of such methods count as calls.
func TestOwnMethodIsLimited(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Limits: troupe.Limits{CallRate: 1, CallBurst: 2}}, nil)
		addSearch(h.Server)
		c := h.Unchecked().Initialize(`{}`)
		for i := range 3 {
			if a := c.Post(host.Method("1", "acme/search", "")); host.TurnedAway(a) != (i == 2) {
				t.Errorf("request %d: %s", i, a.Body)
			}
		}
	})
}

// TestOwnNotification sends notifications of the program's own both ways.
func TestOwnNotification(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		got := make(chan int, 10)
		troupe.AddNotification(h.Server, "notifications/acme/moved", func(p *troupe.Peer, in struct {
			To int `json:"to"`
		}) {
			if in.To == 13 {
				panic("on purpose")
			}
			got <- in.To
			if err := p.Notify(t.Context(), "notifications/acme/seen", in); err != nil {
				t.Errorf("notify: %v", err)
			}
		})
		h.AddTool("alone", 0, func(ctx context.Context, call *troupe.Call) (string, error) {
			return "", errors.Join(call.Peer().Notify(ctx, "notifications/acme/seen", struct{}{}))
		})
		c := h.Unchecked().Initialize(`{}`)
		l := host.Listen(c.Get(""))
		for _, params := range []string{`{"to":1}`, `{"to":"x"}`, `{"to":13}`, `{"to":2}`} {
			if a := c.Post(host.Note("notifications/acme/moved", params)); a.StatusCode != 202 && !strings.Contains(params, "13") {
				t.Errorf("%s: %s", params, a.Status)
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if a, b := <-got, <-got; a != 1 || b != 2 || len(got) > 0 {
			t.Errorf("got %d, %d and %d more", a, b, len(got))
		}
		if told, _ := l.Now(); len(told) != 2 || told[0] != host.Note("notifications/acme/seen", `{"to":1}`) {
			t.Errorf("the client is told %v", told)
		}
		m := &host.Stateless{T: t, Client: h.Unchecked(), Capabilities: `{}`}
		a, id := m.Tool("alone", `{}`)
		host.Equal(t, "stateless", m.Done(a, id), troupe.ErrNoStream.Error())
	})
}

// TestOwnNames checks that names that the specification has, in any revision, are
// refused.
func TestOwnNames(t *testing.T) {
	s := troupe.NewServer(mcp.Implementation{Name: "x"}, nil)
	for _, name := range []string{"", "tools/call", "initialize", "server/discover", "notifications/message", "rpc.x"} {
		for what, add := range map[string]func(){
			"method": func() {
				troupe.AddMethod(s, troupe.Method{Name: name}, func(context.Context, *troupe.Call, struct{}) (struct{}, error) { return struct{}{}, nil })
			},
			"notification": func() { troupe.AddNotification(s, name, func(*troupe.Peer, struct{}) {}) },
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s %q is taken", what, name)
					}
				}()
				add()
			}()
		}
	}
}

package stateless_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestStatelessLimits checks the limits on stateless requests: each response has the
// request's id and says when to come back, and no other principal is affected.
func TestStatelessLimits(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Authenticate: host.User, Shared: troupe.SharedLimits{PrincipalRate: 1, PrincipalBurst: 5, CallsPerPrincipal: 8}}, &troupe.ServerOptions{
			Complete: func(context.Context, *troupe.Call, mcp.CompleteParams) (mcp.Completion, error) {
				return mcp.Completion{}, nil
			}})
		greedy, modest := h.Stateless(host.EveryCapability), h.Stateless(host.EveryCapability)
		host.As(greedy.Client, "greedy")
		host.As(modest.Client, "modest")
		const (
			echo     = `{"name":"echo","arguments":{"text":"x"}}`
			complete = `{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":""}}`
		)
		refused := func(what string, a *kit.Answer, id string) {
			t.Helper()
			if a.StatusCode != 429 || a.Header.Get("Retry-After") != "1" || !strings.HasPrefix(a.Body, `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":-32600,`) {
				t.Errorf("%s: %s %v %s", what, a.Status, a.Header["Retry-After"], a.Body)
			}
		}
		for range 2 {
			for range 2 {
				host.Equal(t, "echo", greedy.Done(greedy.Do("tools/call", echo)), "x")
			}
			a, id := greedy.Tool("ask", `{"question":"?"}`)
			state := greedy.Parked(a, id, "elicit")
			host.Equal(t, "a retry", greedy.Done(greedy.Tool("ask", `{"question":"?"}`, state, host.Given("elicit", "x"))), `accept {"answer":"x"}`)
			a, _ = greedy.Do("completion/complete", complete)
			host.Contains(t, "complete", a.Body, `"values":[]`)
			a, id = greedy.Do("tools/call", echo)
			refused("a call", a, id)
			host.Contains(t, "a call", a.Body, `"data":{"retryAfterMs":1000}`)
			a, id = greedy.Do("completion/complete", complete)
			refused("a completion", a, id)
			a, id = greedy.Tool("ask", `{"question":"?"}`, state, host.Given("elicit", "x"))
			refused("a retry", a, id)
			a, id = greedy.Do("tools/list", `{}`)
			refused("a list", a, id)
			a, id = greedy.Do("subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`)
			refused("a listener", a, id)
			host.Equal(t, "another principal", modest.Done(modest.Do("tools/call", echo)), "x")
			time.Sleep(10 * time.Second)
		}
		// Requests in flight.
		var running []<-chan *kit.Answer
		for range 8 {
			a, _ := greedy.Later("tools/call", `{"name":"sleep","arguments":{"ms":20000}}`)
			running = append(running, a)
			time.Sleep(time.Second)
		}
		a, id := greedy.Do("tools/list", `{}`)
		refused("one too many in flight", a, id)
		a, _ = modest.Do("tools/list", `{}`)
		host.Contains(t, "another principal", a.Body, `"tools":[`)
		for _, a := range running {
			a := <-a
			if a.Stream() {
				a.All()
			}
		}
		synctest.Wait()
		a, _ = greedy.Do("tools/list", `{}`)
		host.Contains(t, "when they have ended", a.Body, `"tools":[`)
	})
}

// TestStatelessLogRate checks that the log messages of a request are bounded, and that
// its client gets the count of dropped messages before the response.
func TestStatelessLogRate(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Limits: troupe.Limits{LogRate: 10}}, nil)
		m := h.Stateless(`{}`)
		before, response := m.Send("tools/call", host.ToolParams("chatter", `{"to":100}`), `"io.modelcontextprotocol/logLevel":"info"`)
		if n := len(before); n < 21 || n > 22 || !strings.Contains(before[n-1], "log messages were dropped") {
			t.Errorf("%d messages, the last %s", n, before[n-1])
		}
		host.Equal(t, "response", response, host.StatelessText("1", "done"))
	})
}

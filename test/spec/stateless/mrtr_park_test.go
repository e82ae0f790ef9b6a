package stateless_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

func TestCallThatAsksIsSentAgain(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, begun, _ := host.NewParking(t, troupe.Options{})
		m := h.Stateless(host.EveryCapability)
		for _, tool := range []string{"safe", "never", "undeclared"} {
			a, id := m.Tool(tool, `{"x":1}`)
			state := m.Parked(a, id, "name")
			if tool == "undeclared" && !a.Response.Close {
				t.Error("the connection of a call that did not say that it may ask is kept")
			}
			host.Equal(t, tool, m.Done(m.Tool(tool, `{ "x" : 1 }`, state, host.Given("name", "Ada"))), "hello Ada")
		}
		if n := begun.Load(); n != 3 {
			t.Errorf("%d runs of 3 calls", n)
		}
	})
}

func TestSeveralQuestionsAndRounds(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, begun, _ := host.NewParking(t, troupe.Options{})
		m := h.Stateless(host.EveryCapability)
		a, id := m.Tool("twice", `{}`)
		state := m.Parked(a, id, "elicit")
		a, id = m.Tool("twice", `{}`, state, host.Given("elicit", "one"))
		second := m.Parked(a, id, "elicit-2")
		if second == state {
			t.Error("both rounds have the same state")
		}
		host.Equal(t, "twice", m.Done(m.Tool("twice", `{}`, second, host.Given("elicit-2", "two"))), `{"answer":"one"}{"answer":"two"}`)

		a, id = m.Tool("three", `{}`)
		state = m.Parked(a, id, "a", "b", "roots")
		// One good answer, one bad one, and one without a question: the missing answers are asked
		// for again.
		a, id = m.Tool("three", `{}`, state, `"inputResponses":{"a":{"action":"accept","content":{"answer":"A"}},"b":12345,"c":{}}`)
		state = m.Parked(a, id, "b", "roots")
		a, id = m.Tool("three", `{}`, state, `"inputResponses":{"a":{"action":"accept","content":{"answer":"changed"}},"roots":{"roots":[{"uri":"file:///x"}]}}`)
		state = m.Parked(a, id, "b")
		a, id = m.Tool("three", `{}`, state)
		state = m.Parked(a, id, "b")
		host.Equal(t, "three", m.Done(m.Tool("three", `{}`, state, host.Given("b", "B"))), "A B 1")
		if n := begun.Load(); n != 2 {
			t.Errorf("%d runs of 2 calls", n)
		}
		for _, bad := range []string{"[]", `"x"`, "7"} {
			a, id := m.Tool("three", `{}`, `"inputResponses":`+bad)
			host.Equal(t, bad, m.Done(a, id), "error -32602: inputResponses must be an object")
		}
		// Answers without a state belong to a new call.
		host.Equal(t, "without a state", m.Done(m.Tool("safe", `{}`, host.Given("name", "Eve", "other", "x"))), "hello Eve")
		a, id = m.Tool("safe", `{}`, host.Given("other", "x"))
		m.Parked(a, id, "name")
	})
}

func TestSameStateAgainHasTheSameOutcome(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, begun, _ := host.NewParking(t, troupe.Options{})
		m := h.Stateless(host.EveryCapability)
		for _, tool := range []string{"safe", "never"} {
			begun.Store(0)
			a, id := m.Tool(tool, `{}`)
			state := m.Parked(a, id, "name")
			params := host.ToolParams(tool, `{}`, state, host.Given("name", "Ada"))
			first, id1 := m.Later("tools/call", params)
			synctest.Wait()
			second, id2 := m.Later("tools/call", params)
			synctest.Wait()
			// Other answers are too late.
			host.Equal(t, "other answers", m.Done(m.Tool(tool, `{}`, state, host.Given("name", "Eve"))), "error -32602: the requestState is not valid for this request")
			host.Equal(t, "first", m.Done(<-first, id1), "hello Ada")
			host.Equal(t, "second", m.Done(<-second, id2), "hello Ada")
			host.Equal(t, "after the end", m.Done(m.Do("tools/call", params)), "hello Ada")
			host.Equal(t, "other answers after the end", m.Done(m.Tool(tool, `{}`, state, host.Given("name", "Eve"))), "error -32602: the requestState is not valid for this request")
			if n := begun.Load(); n != 1 {
				t.Errorf("%s: %d runs", tool, n)
			}
		}
		// The state of a round trip that led to the next one has been used, too.
		a, id := m.Tool("twice", `{}`)
		params := host.ToolParams("twice", `{}`, m.Parked(a, id, "elicit"), host.Given("elicit", "one"))
		a, id = m.Do("tools/call", params)
		b, id2 := m.Do("tools/call", params)
		if m.Parked(a, id, "elicit-2") != m.Parked(b, id2, "elicit-2") {
			t.Error("a round was asked twice")
		}
	})
}

func TestClosingTheConnectionCancelsTheCallAndNotTheParking(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, begun, ended := host.NewParking(t, troupe.Options{})
		causes := make(chan error, 1)
		troupe.AddTool(h.Server, troupe.Tool{Name: "wait", Needs: mcp.CapClientElicitationForm}, func(ctx context.Context, call *troupe.Call, in host.SleepIn) (string, error) {
			if in.MS > 0 {
				_ = call.Progress(ctx, 1, 2, "")
			}
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return "", nil
		})
		m := h.Stateless(host.EveryCapability)
		for _, ms := range []int{0, 1} { // before the first byte, and in mid-stream
			ctx, cancel := context.WithCancel(t.Context())
			body := m.Body(m.NextID(), "tools/call", host.ToolParams("wait", fmt.Sprintf(`{"ms":%d}`, ms)), `"progressToken":"p"`)
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			for i, hd := 0, m.Header("tools/call", body); i < len(hd); i += 2 {
				r.Header.Set(hd[i], hd[i+1])
			}
			go func() {
				if resp, err := h.HTTP.Do(r); err == nil {
					defer resp.Body.Close()
					<-ctx.Done()
				}
			}()
			time.Sleep(time.Second)
			closed := time.Now()
			cancel()
			if err := <-causes; !errors.Is(err, troupe.ErrCancelled) || time.Since(closed) > 100*time.Millisecond {
				t.Errorf("cause %v after %v", err, time.Since(closed))
			}
		}
		// A call is cancelled after it got its answers: it runs again if it may.
		for tool, want := range map[string]string{"safe": "hello Ada", "never": "error -32010: the node running this call was lost; whether it took effect is unknown"} {
			begun.Store(0)
			a, id := m.Tool(tool, `{}`)
			params := host.ToolParams(tool, `{}`, m.Parked(a, id, "name"), host.Given("name", "Ada"))
			c := *m.Client
			tr := h.HTTP.Transport.(*http.Transport).Clone()
			c.HTTP = &http.Client{Transport: tr}
			broken := *m
			broken.Client = &c
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			body := m.Body(m.NextID(), "tools/call", params, "")
			r, _ := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			for i, hd := 0, m.Header("tools/call", body); i < len(hd); i += 2 {
				r.Header.Set(hd[i], hd[i+1])
			}
			if resp, err := c.HTTP.Do(r); err == nil {
				t.Errorf("%s was answered: %s", tool, resp.Status)
			}
			cancel()
			synctest.Wait()
			host.Equal(t, tool, m.Done(m.Do("tools/call", params)), want)
			tr.CloseIdleConnections()
		}
		synctest.Wait()
		_ = ended
	})
}

func TestParkedCallOverACrash(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		h, _, _ := host.NewParking(t, troupe.Options{Dir: dir})
		m := h.Stateless(host.EveryCapability)
		states := map[string]string{}
		for _, tool := range []string{"safe", "never"} {
			a, id := m.Tool(tool, `{}`)
			states[tool] = m.Parked(a, id, "name")
		}
		a, id := m.Tool("twice", `{}`)
		a, id = m.Tool("twice", `{}`, m.Parked(a, id, "elicit"), host.Given("elicit", "one"))
		states["twice"] = m.Parked(a, id, "elicit-2")
		a, id = m.Tool("three", `{}`)
		a, id = m.Tool("three", `{}`, m.Parked(a, id, "a", "b", "roots"), host.Given("a", "A"))
		states["three"] = m.Parked(a, id, "b", "roots")

		h2, begun, _ := host.NewParking(t, troupe.Options{Dir: host.CopyDir(t, dir)})
		m2 := h2.Stateless(host.EveryCapability)
		params := host.ToolParams("safe", `{}`, states["safe"], host.Given("name", "Ada"))
		first, id1 := m2.Later("tools/call", params)
		second, id2 := m2.Later("tools/call", params)
		host.Equal(t, "safe", m2.Done(<-first, id1), "hello Ada")
		host.Equal(t, "safe, twice at once", m2.Done(<-second, id2), "hello Ada")
		if n := begun.Load(); n != 1 {
			t.Errorf("%d runs", n)
		}
		host.Equal(t, "twice", m2.Done(m2.Tool("twice", `{}`, states["twice"], host.Given("elicit-2", "two"))), `{"answer":"one"}{"answer":"two"}`)
		a, id = m2.Tool("three", `{}`, states["three"], host.Given("a", "changed", "b", "B"))
		host.Equal(t, "three", m2.Done(m2.Tool("three", `{}`, m2.Parked(a, id, "roots"), `"inputResponses":{"roots":{"roots":[]}}`)), "A B 0")
		host.Equal(t, "never", m2.Done(m2.Tool("never", `{}`, states["never"], host.Given("name", "Ada"))),
			"error -32010: the node running this call was lost; whether it took effect is unknown")
	})
}

func TestStatesOfOthersAreRefused(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		who := func(r *http.Request) (troupe.Principal, error) {
			return troupe.Principal{Subject: r.Header.Get("Who")}, nil
		}
		h, begun, _ := host.NewParking(t, troupe.Options{Authenticate: who})
		m := h.Stateless(host.EveryCapability)
		m.Client.Header = http.Header{"Who": {"alice"}}
		other := troupe.NewServer(mcp.Implementation{Name: "other", Version: "1"}, &troupe.ServerOptions{ID: "other"})
		host.AddTestTools(other)
		h.Runtime.Mount("/other/mcp", other)
		a, id := m.Tool("safe", `{"x":[1,2]}`)
		state := m.Parked(a, id, "name")
		begun.Store(0)
		const no = "error -32602: the requestState is not valid for this request"
		refused := func(what string, m *host.Stateless, params string) {
			t.Helper()
			host.Equal(t, what, m.Done(m.Do("tools/call", params)), no)
		}
		ada := host.Given("name", "Ada")
		text := strings.TrimSuffix(strings.TrimPrefix(state, `"requestState":"`), `"`)
		for i := range text {
			flipped := []byte(text)
			if flipped[i] == 'A' {
				flipped[i] = 'B'
			} else {
				flipped[i] = 'A'
			}
			refused(fmt.Sprintf("byte %d", i), m, host.ToolParams("safe", `{"x":[1,2]}`, `"requestState":"`+string(flipped)+`"`, ada))
		}
		for what, bad := range map[string]string{"longer": `"` + text + `A"`, "shorter": `"` + text[:len(text)-1] + `"`, "line break": `"` + text[:9] + `\n` + text[9:] + `"`,
			"empty": `""`, "number": `1`, "object": `{}`} {
			refused(what, m, host.ToolParams("safe", `{"x":[1,2]}`, `"requestState":`+bad, ada))
		}
		refused("the arguments twice", m, host.ToolParams("safe", `{"x":[1,2],"x":[1,2]}`, state, ada))
		refused("other arguments first", m, host.ToolParams("safe", `{"x":[2,1],"x":[1,2]}`, state, ada))
		refused("other arguments", m, host.ToolParams("safe", `{"x":[2,1]}`, state, ada))
		refused("another tool", m, host.ToolParams("never", `{"x":[1,2]}`, state, ada))
		bob := *m
		c := *m.Client
		bob.Client = &c
		bob.Client.Header = http.Header{"Who": {"bob"}}
		refused("another principal", &bob, host.ToolParams("safe", `{"x":[1,2]}`, state, ada))
		elsewhere := *m
		c2 := *m.Client
		elsewhere.Client = &c2
		elsewhere.Client.URL = strings.Replace(h.URL, "/mcp", "/other/mcp", 1)
		refused("another server", &elsewhere, host.ToolParams("safe", `{"x":[1,2]}`, state, ada))
		if n := begun.Load(); n != 0 {
			t.Errorf("%d runs for states that are not good", n)
		}
		// A null state is an absent one: the call is a new one, which finds the answer by its key.
		host.Equal(t, "null", m.Done(m.Do("tools/call", host.ToolParams("safe", `{"x":[1,2]}`, `"requestState":null`, ada))), m.Done(m.Do("tools/call", host.ToolParams("safe", `{"x":[1,2]}`, ada))))
		// The state was good all the time, and is until it expires.
		host.Equal(t, "the owner", m.Done(m.Do("tools/call", host.ToolParams("safe", `{ "x": [1, 2] }`, state, ada))), "hello Ada")
		a, id = m.Tool("safe", `{}`)
		state = m.Parked(a, id, "name")
		time.Sleep(10*time.Minute + time.Second)
		refused("an expired one", m, host.ToolParams("safe", `{}`, state, ada))
	})
}

func TestParkedCallsAreBoundedAndExpire(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, _, ended := host.NewParking(t, troupe.Options{Shared: troupe.SharedLimits{PendingPerPrincipal: 20, CallsPerPrincipal: 10}})
		m := h.Stateless(host.EveryCapability)
		for range 20 {
			a, id := m.Tool("never", `{}`)
			m.Parked(a, id, "name")
		}
		a, id := m.Tool("never", `{}`)
		host.Contains(t, "one too many", m.Done(a, id), "too many calls wait for the client")
		host.Equal(t, "another call", m.Done(m.Tool("echo", `{"text":"x"}`)), "x")
		time.Sleep(11 * time.Minute)
		if n := ended.Load(); n != 21 {
			t.Errorf("%d of 21 handlers have ended", n)
		}
		if n := h.Actors("request"); n != 0 {
			t.Errorf("%d request actors are left", n)
		}
		a, id = m.Tool("never", `{}`)
		m.Parked(a, id, "name")
	})
}

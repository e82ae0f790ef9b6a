package troupe_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/testkit"
	"github.com/troupe-run/troupe/mcp"
)

// parkHost serves tools that ask: runs counts how often handlers have begun and ended.
func parkHost(t *testing.T, o troupe.Options) (h *host, begun, ended *atomic.Int64) {
	t.Helper()
	begun, ended = new(atomic.Int64), new(atomic.Int64)
	h = newHost(t, o, nil)
	add := func(name string, needs troupe.Needs, rerun troupe.Rerun, f func(ctx context.Context, call *troupe.Call) (string, error)) {
		troupe.AddTool(h.srv, troupe.Tool{Name: name, Needs: needs, Rerun: rerun},
			func(ctx context.Context, call *troupe.Call, _ map[string]any) (string, error) {
				begun.Add(1)
				defer ended.Add(1)
				return f(ctx, call)
			})
	}
	answer := func(a troupe.Answers, key string) string {
		r, err := a.Elicited(key)
		if err != nil {
			return err.Error()
		}
		var c struct{ Answer string }
		_ = json.Unmarshal(r.Content, &c)
		return c.Answer
	}
	one := func(ctx context.Context, call *troupe.Call) (string, error) {
		a, err := call.Ask(ctx, troupe.Elicit("name", "Who?", form))
		if err != nil {
			return "", err
		}
		return "hello " + answer(a, "name"), sleep(ctx, 500)
	}
	add("safe", troupe.NeedsElicitation, troupe.Safe, one)
	add("never", troupe.NeedsElicitation, troupe.Never, one)
	add("undeclared", 0, troupe.Never, one)
	add("twice", troupe.NeedsElicitation, troupe.Safe, func(ctx context.Context, call *troupe.Call) (string, error) {
		first, err := call.Elicit(ctx, "First?", form)
		if err != nil {
			return "", err
		}
		second, err := call.Elicit(ctx, "Second?", form)
		if err != nil {
			return "", err
		}
		return string(first.Content) + string(second.Content), nil
	})
	add("three", troupe.NeedsElicitation|troupe.NeedsRoots, troupe.Safe, func(ctx context.Context, call *troupe.Call) (string, error) {
		a, err := call.Ask(ctx, troupe.Elicit("a", "A?", form), troupe.Elicit("b", "B?", form), troupe.Roots("roots"))
		if err != nil {
			return "", err
		}
		roots, err := a.Roots("roots")
		return fmt.Sprintf("%s %s %d", answer(a, "a"), answer(a, "b"), len(roots)), err
	})
	return h, begun, ended
}

func TestCallThatAsksIsSentAgain(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h, begun, _ := parkHost(t, troupe.Options{})
		m := h.modern(everyCapability)
		for _, tool := range []string{"safe", "never", "undeclared"} {
			a, id := m.tool(tool, `{"x":1}`)
			state := m.parked(a, id, "name")
			if tool == "undeclared" && !a.Response.Close {
				t.Error("the connection of a call that did not say that it may ask is kept")
			}
			equal(t, tool, m.done(m.tool(tool, `{ "x" : 1 }`, state, given("name", "Ada"))), "hello Ada")
		}
		if n := begun.Load(); n != 3 {
			t.Errorf("%d runs of 3 calls", n)
		}
	})
}

func TestSeveralQuestionsAndRounds(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h, begun, _ := parkHost(t, troupe.Options{})
		m := h.modern(everyCapability)
		a, id := m.tool("twice", `{}`)
		state := m.parked(a, id, "elicit")
		a, id = m.tool("twice", `{}`, state, given("elicit", "one"))
		second := m.parked(a, id, "elicit-2")
		if second == state {
			t.Error("both rounds have the same state")
		}
		equal(t, "twice", m.done(m.tool("twice", `{}`, second, given("elicit-2", "two"))), `{"answer":"one"}{"answer":"two"}`)

		a, id = m.tool("three", `{}`)
		state = m.parked(a, id, "a", "b", "roots")
		// One answer, one that is none, one that nobody asked for: what is missing is asked again.
		a, id = m.tool("three", `{}`, state, `"inputResponses":{"a":{"action":"accept","content":{"answer":"A"}},"b":12345,"c":{}}`)
		state = m.parked(a, id, "b", "roots")
		a, id = m.tool("three", `{}`, state, `"inputResponses":{"a":{"action":"accept","content":{"answer":"changed"}},"roots":{"roots":[{"uri":"file:///x"}]}}`)
		state = m.parked(a, id, "b")
		a, id = m.tool("three", `{}`, state)
		state = m.parked(a, id, "b")
		equal(t, "three", m.done(m.tool("three", `{}`, state, given("b", "B"))), "A B 1")
		if n := begun.Load(); n != 2 {
			t.Errorf("%d runs of 2 calls", n)
		}
		for _, bad := range []string{"[]", `"x"`, "7"} {
			a, id := m.tool("three", `{}`, `"inputResponses":`+bad)
			equal(t, bad, m.done(a, id), "error -32602: inputResponses must be an object")
		}
		// Answers without a state are those of a new call.
		equal(t, "without a state", m.done(m.tool("safe", `{}`, given("name", "Eve", "other", "x"))), "hello Eve")
		a, id = m.tool("safe", `{}`, given("other", "x"))
		m.parked(a, id, "name")
	})
}

func TestSameStateAgainHasTheSameOutcome(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h, begun, _ := parkHost(t, troupe.Options{})
		m := h.modern(everyCapability)
		for _, tool := range []string{"safe", "never"} {
			begun.Store(0)
			a, id := m.tool(tool, `{}`)
			state := m.parked(a, id, "name")
			params := toolParams(tool, `{}`, state, given("name", "Ada"))
			first, id1 := m.later("tools/call", params)
			synctest.Wait()
			second, id2 := m.later("tools/call", params)
			synctest.Wait()
			// Other answers are too late.
			equal(t, "other answers", m.done(m.tool(tool, `{}`, state, given("name", "Eve"))), "error -32602: the requestState is not valid for this request")
			equal(t, "first", m.done(<-first, id1), "hello Ada")
			equal(t, "second", m.done(<-second, id2), "hello Ada")
			equal(t, "after the end", m.done(m.do("tools/call", params)), "hello Ada")
			equal(t, "other answers after the end", m.done(m.tool(tool, `{}`, state, given("name", "Eve"))), "error -32602: the requestState is not valid for this request")
			if n := begun.Load(); n != 1 {
				t.Errorf("%s: %d runs", tool, n)
			}
		}
		// So has the one of a round that led to the next.
		a, id := m.tool("twice", `{}`)
		params := toolParams("twice", `{}`, m.parked(a, id, "elicit"), given("elicit", "one"))
		a, id = m.do("tools/call", params)
		b, id2 := m.do("tools/call", params)
		if m.parked(a, id, "elicit-2") != m.parked(b, id2, "elicit-2") {
			t.Error("a round was asked twice")
		}
	})
}

func TestClosingTheConnectionCancelsTheCallAndNotTheParking(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h, begun, ended := parkHost(t, troupe.Options{})
		causes := make(chan error, 1)
		troupe.AddTool(h.srv, troupe.Tool{Name: "wait", Needs: troupe.NeedsElicitation}, func(ctx context.Context, call *troupe.Call, in sleepIn) (string, error) {
			if in.MS > 0 {
				_ = call.Progress(ctx, 1, 2, "")
			}
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return "", nil
		})
		m := h.modern(everyCapability)
		for _, ms := range []int{0, 1} { // before the first byte, and in mid-stream
			ctx, cancel := context.WithCancel(t.Context())
			body := m.body(m.id(), "tools/call", toolParams("wait", fmt.Sprintf(`{"ms":%d}`, ms)), `"progressToken":"p"`)
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			for i, hd := 0, m.header("tools/call", body); i < len(hd); i += 2 {
				r.Header.Set(hd[i], hd[i+1])
			}
			go func() {
				if resp, err := h.web.Do(r); err == nil {
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
		// A call that was cancelled after it had its answers: what may run again does.
		for tool, want := range map[string]string{"safe": "hello Ada", "never": "error -32010: the node running this call was lost; whether it took effect is unknown"} {
			begun.Store(0)
			a, id := m.tool(tool, `{}`)
			params := toolParams(tool, `{}`, m.parked(a, id, "name"), given("name", "Ada"))
			c := *m.c
			tr := h.web.Transport.(*http.Transport).Clone()
			c.HTTP = &http.Client{Transport: tr}
			broken := *m
			broken.c = &c
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			body := m.body(m.id(), "tools/call", params, "")
			r, _ := http.NewRequestWithContext(ctx, http.MethodPost, h.url, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			for i, hd := 0, m.header("tools/call", body); i < len(hd); i += 2 {
				r.Header.Set(hd[i], hd[i+1])
			}
			if resp, err := c.HTTP.Do(r); err == nil {
				t.Errorf("%s was answered: %s", tool, resp.Status)
			}
			cancel()
			synctest.Wait()
			equal(t, tool, m.done(m.do("tools/call", params)), want)
			tr.CloseIdleConnections()
		}
		synctest.Wait()
		_ = ended
	})
}

func TestParkedCallOverACrash(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		h, _, _ := parkHost(t, troupe.Options{Dir: dir})
		m := h.modern(everyCapability)
		states := map[string]string{}
		for _, tool := range []string{"safe", "never"} {
			a, id := m.tool(tool, `{}`)
			states[tool] = m.parked(a, id, "name")
		}
		a, id := m.tool("twice", `{}`)
		a, id = m.tool("twice", `{}`, m.parked(a, id, "elicit"), given("elicit", "one"))
		states["twice"] = m.parked(a, id, "elicit-2")
		a, id = m.tool("three", `{}`)
		a, id = m.tool("three", `{}`, m.parked(a, id, "a", "b", "roots"), given("a", "A"))
		states["three"] = m.parked(a, id, "b", "roots")

		h2, begun, _ := parkHost(t, troupe.Options{Dir: copyDir(t, dir)})
		m2 := h2.modern(everyCapability)
		params := toolParams("safe", `{}`, states["safe"], given("name", "Ada"))
		first, id1 := m2.later("tools/call", params)
		second, id2 := m2.later("tools/call", params)
		equal(t, "safe", m2.done(<-first, id1), "hello Ada")
		equal(t, "safe, twice at once", m2.done(<-second, id2), "hello Ada")
		if n := begun.Load(); n != 1 {
			t.Errorf("%d runs", n)
		}
		equal(t, "twice", m2.done(m2.tool("twice", `{}`, states["twice"], given("elicit-2", "two"))), `{"answer":"one"}{"answer":"two"}`)
		a, id = m2.tool("three", `{}`, states["three"], given("a", "changed", "b", "B"))
		equal(t, "three", m2.done(m2.tool("three", `{}`, m2.parked(a, id, "roots"), `"inputResponses":{"roots":{"roots":[]}}`)), "A B 0")
		equal(t, "never", m2.done(m2.tool("never", `{}`, states["never"], given("name", "Ada"))),
			"error -32010: the node running this call was lost; whether it took effect is unknown")
	})
}

func TestStatesOfOthersAreRefused(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		who := func(r *http.Request) (troupe.Principal, error) {
			return troupe.Principal{Subject: r.Header.Get("Who")}, nil
		}
		h, begun, _ := parkHost(t, troupe.Options{Authenticate: who})
		m := h.modern(everyCapability)
		m.c.Header = http.Header{"Who": {"alice"}}
		other := troupe.NewServer(mcp.Implementation{Name: "other", Version: "1"}, &troupe.ServerOptions{ID: "other"})
		addTestTools(other)
		h.rt.Mount("/other/mcp", other)
		a, id := m.tool("safe", `{"x":[1,2]}`)
		state := m.parked(a, id, "name")
		begun.Store(0)
		const no = "error -32602: the requestState is not valid for this request"
		refused := func(what string, m *modern, params string) {
			t.Helper()
			equal(t, what, m.done(m.do("tools/call", params)), no)
		}
		ada := given("name", "Ada")
		text := strings.TrimSuffix(strings.TrimPrefix(state, `"requestState":"`), `"`)
		for i := range text {
			flipped := []byte(text)
			if flipped[i] == 'A' {
				flipped[i] = 'B'
			} else {
				flipped[i] = 'A'
			}
			refused(fmt.Sprintf("byte %d", i), m, toolParams("safe", `{"x":[1,2]}`, `"requestState":"`+string(flipped)+`"`, ada))
		}
		for what, bad := range map[string]string{"longer": `"` + text + `A"`, "shorter": `"` + text[:len(text)-1] + `"`, "line break": `"` + text[:9] + `\n` + text[9:] + `"`,
			"empty": `""`, "number": `1`, "object": `{}`} {
			refused(what, m, toolParams("safe", `{"x":[1,2]}`, `"requestState":`+bad, ada))
		}
		refused("other arguments", m, toolParams("safe", `{"x":[2,1]}`, state, ada))
		refused("another tool", m, toolParams("never", `{"x":[1,2]}`, state, ada))
		bob := *m
		c := *m.c
		bob.c = &c
		bob.c.Header = http.Header{"Who": {"bob"}}
		refused("another principal", &bob, toolParams("safe", `{"x":[1,2]}`, state, ada))
		elsewhere := *m
		c2 := *m.c
		elsewhere.c = &c2
		elsewhere.c.URL = strings.Replace(h.url, "/mcp", "/other/mcp", 1)
		refused("another server", &elsewhere, toolParams("safe", `{"x":[1,2]}`, state, ada))
		if n := begun.Load(); n != 0 {
			t.Errorf("%d runs for states that are not good", n)
		}
		// null is absent: that call is a new one, which finds the answer by its key.
		equal(t, "null", m.done(m.do("tools/call", toolParams("safe", `{"x":[1,2]}`, `"requestState":null`, ada))), m.done(m.do("tools/call", toolParams("safe", `{"x":[1,2]}`, ada))))
		// It was good all the time, and is until it expires.
		equal(t, "the owner", m.done(m.do("tools/call", toolParams("safe", `{ "x": [1, 2] }`, state, ada))), "hello Ada")
		a, id = m.tool("safe", `{}`)
		state = m.parked(a, id, "name")
		time.Sleep(10*time.Minute + time.Second)
		refused("an expired one", m, toolParams("safe", `{}`, state, ada))
	})
}

func TestParkedCallsAreBoundedAndExpire(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h, _, ended := parkHost(t, troupe.Options{ParkedPerPrincipal: 20, CallsPerPrincipal: 10})
		m := h.modern(everyCapability)
		for range 20 {
			a, id := m.tool("never", `{}`)
			m.parked(a, id, "name")
		}
		a, id := m.tool("never", `{}`)
		contains(t, "one too many", m.done(a, id), "too many calls wait for the client")
		equal(t, "another call", m.done(m.tool("echo", `{"text":"x"}`)), "x")
		time.Sleep(11 * time.Minute)
		if n := ended.Load(); n != 21 {
			t.Errorf("%d of 21 handlers have ended", n)
		}
		if n := h.actors("request"); n != 0 {
			t.Errorf("%d request actors are left", n)
		}
		a, id = m.tool("never", `{}`)
		m.parked(a, id, "name")
	})
}

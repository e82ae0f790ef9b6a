package hosting_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	theirs "github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
	"github.com/troupe-run/troupe/troupetest"
)

// TestLooksLikeItsBackend has a server without items of its own be its one backend, for clients of both eras.
func TestLooksLikeItsBackend(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		for _, modern := range []bool{false, true} {
			s := &stranger{modern: modern, lists: map[string]string{"tools": `{"name":"echo","inputSchema":{"type":"object","x":1.0},"odd":[1],"execution":{"taskSupport":"optional"}},{"name":"plain","inputSchema":{"type":"object"},"execution":{"taskSupport":"forbidden"}}`}}
			h := alone(t, s)
			a := h.Unchecked().Post(host.Initialize("1", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"kit","version":"1"}}`))
			for _, want := range []string{`"serverInfo":` + strangerInfo, `"instructions":"be kind"`, `"tools":{"listChanged":true}`, `"subscribe":true`} {
				host.Contains(t, "initialize", a.Body, want)
			}
			_, raw, _ := host.ToolsOf(t, h.Session())
			optional, forbidden := `,"execution":{"taskSupport":"optional"}`, `,"execution":{"taskSupport":"forbidden"}` // which the newer revision does not have
			if modern {
				optional, forbidden = "", ""
			}
			host.Equal(t, "the tool", raw["echo"], `{"name":"echo","inputSchema":{"type":"object","x":1.0},"odd":[1]`+optional+`}`)
			host.Equal(t, "one that makes no tasks", raw["plain"], `{"name":"plain","inputSchema":{"type":"object"}`+forbidden+`}`)
			d, _ := h.Stateless(`{}`).Do("server/discover", `{}`)
			for _, want := range []string{`"name":"stranger"`, `"instructions":"be kind"`} {
				host.Contains(t, "server/discover", d.Body, want)
			}
		}
	})
}

// TestNames offers the items of several backends beside those of the server, and calls each by its own name.
func TestNames(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		says := func(who string) *stranger {
			return &stranger{
				lists: map[string]string{"tools": `{"name":"echo","inputSchema":{"type":"object"}},{"name":"secret","inputSchema":{"type":"object"}}`, "prompts": `{"name":"greet"}`, "resources": `{"uri":"x://both","name":"both"},{"uri":"x://` + who + `","name":"one"}`, "resourceTemplates": `{"uriTemplate":"` + who + `://{id}","name":"more"}`},
				call: func(t *talk, m message) {
					switch m.Method {
					case "prompts/get":
						t.result(m, `{"messages":[{"role":"user","content":{"type":"text","text":"`+who+" "+m.Params.Name+`"}}]}`)
					case "resources/read":
						t.result(m, `{"contents":[{"uri":"`+m.Params.URI+`","text":"`+who+`"}]}`)
					case "completion/complete":
						t.result(m, `{"completion":{"values":["`+who+`"]}}`)
					default:
						t.text(m, who+" "+m.Params.Name)
					}
				},
			}
		}
		h := hosting(t, troupe.Options{Limits: troupe.Limits{PageSize: 2}}, nil, backend{"a", says("a"), theirs.Options{Tools: theirs.Tools{Deny: []string{"sec*"}}}}, backend{"b", says("b"), theirs.Options{}})
		h.AddTool("own", 0, nil)
		c := h.Session()
		names, _, pages := host.ToolsOf(t, c)
		if want := []string{"own", "a__echo", "b__echo", "b__secret"}; !slices.Equal(names, want) || pages != 2 {
			t.Errorf("tools %q in %d pages, want %q", names, pages, want)
		}
		for call, want := range map[string]string{
			host.Call("1", "a__echo", `{}`):                          `"text":"a echo"`,
			host.Call("1", "b__secret", `{}`):                        `"text":"b secret"`,
			host.Call("1", "a__secret", `{}`):                        `"message":"Unknown tool: a__secret"`,
			host.Call("1", "c__echo", `{}`):                          `"message":"Unknown tool: c__echo"`,
			host.Method("1", "prompts/get", `{"name":"b__greet"}`):   `"text":"b greet"`,
			host.Method("1", "prompts/get", `{"name":"greet"}`):      `Unknown prompt`,
			host.Method("1", "resources/read", `{"uri":"x://both"}`): `"text":"a"`,
			host.Method("1", "resources/read", `{"uri":"x://b"}`):    `"text":"b"`,
			host.Method("1", "resources/read", `{"uri":"b://7"}`):    `"text":"b"`,
			host.Method("1", "resources/read", `{"uri":"y://7"}`):    `resource not found`,
			host.Method("1", "completion/complete", `{"ref":{"type":"ref/prompt","name":"b__greet"},"argument":{"name":"x","value":""}}`):   `"values":["b"]`,
			host.Method("1", "completion/complete", `{"ref":{"type":"ref/resource","uri":"a://{id}"},"argument":{"name":"id","value":""}}`): `"values":["a"]`,
		} {
			host.Contains(t, call, c.Post(call).Body, want)
		}
		m := h.Stateless(`{}`)
		lists, _ := m.Do("tools/list", `{}`)
		host.Contains(t, "lists of backends may differ by client", lists.Body, `"cacheScope":"private"`)
		a, id := m.Tool("b__echo", `{}`)
		host.Equal(t, "the result for a stateless client", m.Done(a, id), "b echo")
		host.Contains(t, "the result for a stateless client", a.Body, `"io.modelcontextprotocol/serverInfo":{"name":"endpoint","version":"9"}`)
	})
}

// TestVisible hides items of backends as those of the server.
func TestVisible(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := &stranger{lists: map[string]string{"tools": `{"name":"seen","inputSchema":{"type":"object"}},{"name":"hidden","inputSchema":{"type":"object"},"_meta":{"level":9},"annotations":{"readOnlyHint":true}}`, "resources": `{"uri":"x://seen","name":"s"},{"uri":"x://hidden","name":"h"}`},
			call: func(t *talk, m message) { t.text(m, m.Params.Name) }}
		h := hosting(t, troupe.Options{}, &troupe.ServerOptions{Visible: func(_ troupe.Principal, i troupe.Item) bool {
			if i.Name == "one__hidden" && (i.Annotations == nil || !i.Annotations.ReadOnlyHint || string(i.Meta["level"]) != "9") {
				t.Errorf("Visible got %+v", i)
			}
			return !strings.Contains(i.Name, "hidden")
		}}, backend{"one", s, theirs.Options{}})
		c := h.Session()
		if names, _, _ := host.ToolsOf(t, c); !slices.Equal(names, []string{"one__seen"}) {
			t.Errorf("tools: %q", names)
		}
		host.Contains(t, "a hidden tool", c.Post(host.Call("1", "one__hidden", `{}`)).Body, "Unknown tool")
		host.Contains(t, "a hidden resource", c.Post(host.Method("1", "resources/read", `{"uri":"x://hidden"}`)).Body, "resource not found")
		host.Contains(t, "a resource that nobody lists", c.Post(host.Method("1", "resources/read", `{"uri":"x://other"}`)).Body, "resource not found")
	})
}

// withScopes has callers be ann, with the scopes of a header.
var withScopes = troupe.Options{Authenticate: func(r *http.Request) (troupe.Principal, error) {
	return troupe.Principal{Subject: "ann", Issuer: "here", Scopes: strings.Fields(r.Header.Get("X-Scopes"))}, nil
}}

// TestScopes refuses callers who lack a scope of a backend, or of a tool of it, in each form of request, and nobody else.
func TestScopes(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := &stranger{lists: map[string]string{
			"tools":             `{"name":"read","inputSchema":{"type":"object"}},{"name":"delete_all","inputSchema":{"type":"object"}}`,
			"prompts":           `{"name":"plan"}`,
			"resources":         `{"uri":"x://note","name":"n"}`,
			"resourceTemplates": `{"uriTemplate":"x://of/{name}","name":"o"}`,
		}, call: func(t *talk, m message) { t.text(m, m.Params.Name) }}
		open := &stranger{lists: map[string]string{"tools": `{"name":"read","inputSchema":{"type":"object"}}`}, call: func(t *talk, m message) { t.text(m, m.Params.Name) }}
		h := hosting(t, withScopes, &troupe.ServerOptions{Scopes: []string{"use"}, Visible: func(_ troupe.Principal, i troupe.Item) bool { return i.Name != "one__delete_none" }},
			backend{"one", s, theirs.Options{Scopes: []string{"one"}, ToolScopes: map[string][]string{"delete_*": {"one:write"}}}}, backend{"two", open, theirs.Options{}})
		c := h.Client()
		c.Header = http.Header{"X-Scopes": {"use"}}
		c.InitializeAs("2025-11-25", `{}`)
		if names, _, _ := host.ToolsOf(t, c); !slices.Equal(names, []string{"one__read", "one__delete_all", "two__read"}) {
			t.Errorf("a list has %q", names)
		}
		for _, row := range []struct{ request, needs string }{
			{host.Call("1", "one__read", `{}`), "use one"},
			{host.Call("1", "one__delete_all", `{}`), "use one one:write"},
			{host.Call("1", "one__not_listed", `{}`), "use one"},
			{host.Call("1", "one__delete_none", `{}`), "use one one:write"},
			{host.Call("1", "two__read", `{}`), "use"},
			{host.Method("1", "prompts/get", `{"name":"one__plan"}`), "use one"},
			{host.Method("1", "resources/read", `{"uri":"x://note"}`), "use one"},
			{host.Method("1", "resources/read", `{"uri":"x://of/it"}`), "use one"},
			{host.Method("1", "resources/subscribe", `{"uri":"x://note"}`), "use one"},
			{host.Method("1", "completion/complete", `{"ref":{"type":"ref/prompt","name":"one__plan"},"argument":{"name":"a","value":"b"}}`), "use one"},
			{host.Method("1", "completion/complete", `{"ref":{"type":"ref/resource","uri":"x://of/{name}"},"argument":{"name":"name","value":"b"}}`), "use one"},
			{host.Method("1", "ping", `{}`), "use"},
		} {
			all := strings.Fields(row.needs)
			for i := range all {
				less := strings.Join(slices.Delete(slices.Clone(all), i, i+1), " ")
				c.Header.Set("X-Scopes", less)
				a := c.Post(row.request)
				if a.StatusCode != http.StatusForbidden || !strings.Contains(a.Header.Get("WWW-Authenticate"), "insufficient_scope") {
					t.Errorf("%s with %q: %s %s", row.request, less, a.Status, a.Body)
				}
			}
			c.Header.Set("X-Scopes", row.needs)
			if a := c.Post(row.request); a.StatusCode != http.StatusOK {
				t.Errorf("%s with %q: %s %s", row.request, row.needs, a.Status, a.Body)
			}
		}
		troupe.AddBackend(h.Server, "one", theirs.Serve(t.Name()+"one", s.serve), theirs.Options{})
		c.Header.Set("X-Scopes", "use")
		if a := c.Post(host.Call("1", "one__read", `{}`)); a.StatusCode != http.StatusOK {
			t.Errorf("without scopes any more: %s %s", a.Status, a.Body)
		}
	})
}

// TestScopesOfALateBackend holds a caller to the scopes of the backend that serves it, where one that lists the tool for others alone was all
// that was known when the request was let in.
func TestScopesOfALateBackend(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var there atomic.Bool
		late := &stranger{
			lists: map[string]string{"tools": `{"name":"read","inputSchema":{"type":"object"}}`},
			wanted: func(t *talk, m message) bool {
				if m.Method != mcp.MethodInitialize || there.Load() {
					return false
				}
				t.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"not yet"}}`, m.ID)
				return true
			},
			call: func(t *talk, m message) { t.text(m, "late") },
		}
		open := &stranger{call: func(t *talk, m message) {
			more := `{"name":"echo","inputSchema":{"type":"object"}},{"name":"read","inputSchema":{"type":"object"}}`
			t.s.tools.Store(&more)
			t.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			t.text(m, "open")
		}}
		h := hosting(t, withScopes, nil, backend{"late", late, theirs.Options{Prefix: theirs.NoPrefix, Scopes: []string{"late"}}},
			backend{"open", open, theirs.Options{Prefix: theirs.NoPrefix}})
		first := h.Session()
		host.Contains(t, "echo", first.Post(host.Call("1", "echo", `{}`)).Body, `"open"`)
		time.Sleep(time.Second) // what has changed is read beside the answer
		if names, _, _ := host.ToolsOf(t, first); !slices.Equal(names, []string{"echo", "read"}) {
			t.Errorf("the first session has %q", names)
		}
		second := h.Session()
		there.Store(true)
		time.Sleep(time.Minute) // after so long what could not say what it lists is asked again
		if a := second.Post(host.Call("2", "read", `{}`)); a.StatusCode != http.StatusForbidden || !strings.Contains(a.Header.Get("WWW-Authenticate"), `scope="late"`) {
			t.Errorf("without the scope of the backend that serves: %s %q %s", a.Status, a.Header.Get("WWW-Authenticate"), a.Body)
		}
		second.Header = http.Header{"X-Scopes": {"late"}}
		host.Contains(t, "with it", second.Post(host.Call("3", "read", `{}`)).Body, `"late"`)
	})
}

// TestSaidInACall has what a backend says during a call come on the stream of that, before the answer.
func TestSaidInACall(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := &stranger{call: func(t *talk, m message) {
			t.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"total":2,"message":"half"}}`, m.Params.Meta.Token)
			t.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":{"x":1.0}}}`)
			t.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"debug","data":"not wanted"}}`)
			t.text(m, "done")
		}}
		h := alone(t, s)
		got := host.Payloads(h.Session().Post(host.CallWith("7", "echo", `{}`, `"mine"`)).All())
		want := []string{
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"mine","progress":1,"total":2,"message":"half"}}`,
			`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":{"x":1.0}}}`,
			`{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"done"}]}}`,
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		before, _ := h.Stateless(`{}`).Send("tools/call", `{"name":"echo","arguments":{}}`, `"progressToken":"mine","io.modelcontextprotocol/logLevel":"info"`)
		if !slices.Equal(before, want[:2]) {
			t.Errorf("stateless: %s", strings.Join(before, "\n"))
		}
	})
}

// TestRedact has log messages of backends pass through Options.Redact.
func TestRedact(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := &stranger{call: func(t *talk, m message) {
			t.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"l","data":"secret"}}`)
			t.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","data":"drop"}}`)
			t.text(m, "done")
		}}
		h := hosting(t, troupe.Options{Redact: func(m *troupe.LogMessage) bool {
			m.Data = "***"
			return m.Level != "warning"
		}}, nil, backend{"one", s, theirs.Options{Prefix: theirs.NoPrefix}})
		got := host.Payloads(h.Session().Post(host.Call("1", "echo", `{}`)).All())
		if len(got) != 2 || got[0] != `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"l","data":"***"}}` {
			t.Errorf("%s", strings.Join(got, "\n"))
		}
	})
}

// TestQuestions asks clients of both eras what a backend of the older one asks.
func TestQuestions(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := &stranger{call: func(t *talk, m message) {
			var wait sync.WaitGroup
			answers := make([]string, 2)
			for i := range answers {
				wait.Go(func() { answers[i] = t.elicits(fmt.Sprintf("question %d", i)) })
			}
			wait.Wait()
			t.text(m, strings.Join(answers, " "))
		}}
		h := alone(t, s)
		c := h.Session()
		a := c.Post(host.Call("1", "echo", `{}`))
		for range 2 {
			q := host.NextQuestion(t, a)
			host.Equal(t, "method", q.Method, "elicitation/create")
			var asked struct{ Message string }
			if err := json.Unmarshal(q.Params, &asked); err != nil {
				t.Fatal(err)
			}
			host.Reply(c, q.ID, "result", fmt.Sprintf(`{"action":"accept","content":{"answer":%q}}`, asked.Message))
		}
		want := `{"action":"accept","content":{"answer":"question 0"}} {"action":"accept","content":{"answer":"question 1"}}`
		host.Equal(t, "the answers of a session", host.Last(t, a), host.ToolText("1", want))

		m := h.Stateless(host.EveryCapability)
		first, id := m.Tool("echo", `{}`)
		var r host.Required
		if err := json.Unmarshal([]byte(first.Body), &r); err != nil || len(r.Result.InputRequests) != 2 {
			t.Fatalf("the round of %s: %v %s", id, err, first.Body)
		}
		var given []string
		for key, q := range r.Result.InputRequests {
			var asked struct{ Message string }
			if err := json.Unmarshal(q.Params, &asked); err != nil {
				t.Fatal(err)
			}
			given = append(given, key, asked.Message)
		}
		second, id := m.Tool("echo", `{}`, host.Given(given...), fmt.Sprintf(`"requestState":%q`, r.Result.RequestState))
		host.Equal(t, "the answers of a stateless client", m.Done(second, id), want)
	})
}

// TestQuestionsOfTheNewerEra asks clients of both eras what a backend of the newer one needs.
func TestQuestionsOfTheNewerEra(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := &stranger{modern: true, call: func(t *talk, m message) {
			if m.Params.State != "mine" {
				t.result(m, `{"resultType":"input_required","requestState":"mine","inputRequests":{"user_name":{"method":"elicitation/create","params":{"mode":"form","message":"who?","requestedSchema":{"type":"object","properties":{"answer":{"type":"string"}}}}}}}`)
				return
			}
			t.result(m, fmt.Sprintf(`{"resultType":"complete","content":[{"type":"text","text":%q}]}`, m.Params.Responses))
		}}
		h := alone(t, s)
		c := h.Session()
		a := c.Post(host.Call("1", "echo", `{}`))
		host.Reply(c, host.NextQuestion(t, a).ID, "result", `{"action":"accept","content":{"answer":"me"}}`)
		want := `{"user_name":{"action":"accept","content":{"answer":"me"}}}`
		host.Equal(t, "a session", host.Last(t, a), host.ToolText("1", want))

		m := h.Stateless(host.EveryCapability)
		first, id := m.Tool("echo", `{}`)
		state := m.Parked(first, id, "user_name")
		if strings.Contains(state, "mine") {
			t.Error("the client carries the state of the backend")
		}
		second, id := m.Tool("echo", `{}`, host.Given("user_name", "me"), state)
		host.Equal(t, "a stateless client", m.Done(second, id), want)
	})
}

// rooted is a stranger that asks for roots when its session has begun and when it hears that they have changed, and answers each call with what it was told, once
// it was.
func rooted() *stranger {
	var mu sync.Mutex
	told := make(map[*talk]chan string)
	s := new(stranger)
	s.heard = func(t *talk, method string) {
		if method == "notifications/initialized" || method == "notifications/roots/list_changed" {
			answer := make(chan string, 1)
			mu.Lock()
			defer mu.Unlock()
			told[t] = answer
			go func() { answer <- t.asks("roots/list", `{}`) }()
		}
	}
	s.call = func(t *talk, m message) {
		mu.Lock()
		answer := told[t]
		mu.Unlock()
		roots := <-answer
		answer <- roots
		t.text(m, roots)
	}
	return s
}

// TestRootsAreForwarded has a backend ask for roots outside of any call. The client of the next one is asked before the backend gets that.
func TestRootsAreForwarded(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		forward := theirs.Options{Prefix: theirs.NoPrefix, Roots: theirs.Roots{Forward: true}}
		h := hosting(t, troupe.Options{}, nil, backend{"one", rooted(), forward})
		const first, second = `{"roots":[{"uri":"file:///a","name":"a"}]}`, `{"roots":[{"uri":"file:///b"}]}`
		c := h.Session()
		for i, roots := range []string{first, second} {
			if i > 0 {
				c.Post(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
				synctest.Wait()
			}
			a := c.Post(host.Call("1", "echo", `{}`))
			q := host.NextQuestion(t, a)
			host.Equal(t, "what a session is asked", q.Method, "roots/list")
			host.Reply(c, q.ID, "result", roots)
			host.Equal(t, "the roots of a session", host.Last(t, a), host.ToolText("1", roots))
			host.Contains(t, "the next call", c.Post(host.Call("2", "echo", `{}`)).Body, host.ToolText("2", roots))
		}

		m := h.Stateless(host.EveryCapability)
		asked, id := m.Tool("echo", `{}`)
		var r host.Required
		if err := json.Unmarshal([]byte(asked.Body), &r); err != nil || len(r.Result.InputRequests) != 1 {
			t.Fatalf("a stateless client gets for %s %s", id, asked.Body)
		}
		for key, q := range r.Result.InputRequests {
			host.Equal(t, "what a stateless client is asked", q.Method, "roots/list")
			again, id := m.Tool("echo", `{}`, fmt.Sprintf(`"inputResponses":{%q:%s}`, key, first), fmt.Sprintf(`"requestState":%q`, r.Result.RequestState))
			host.Equal(t, "the roots of a stateless client", m.Done(again, id), first)
		}
		next, id := m.Tool("echo", `{}`)
		host.Equal(t, "its next call", m.Done(next, id), first)

		none := h.Stateless(`{"elicitation":{}}`)
		refused, id := none.Tool("echo", `{}`)
		host.Contains(t, "a client without roots", none.Done(refused, id), `{"code":-326`)
	})
}

// TestCancelled has the backend hear that its call is given up.
func TestCancelled(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		heard := make(chan string, 1)
		began := make(chan struct{}, 1)
		s := &stranger{
			call: func(t *talk, _ message) { began <- struct{}{}; <-t.ctx.Done() },
			heard: func(_ *talk, method string) {
				if method == "notifications/cancelled" {
					heard <- method
				}
			},
		}
		c := alone(t, s).Session()
		answer := c.PostLater(host.Call("1", "echo", `{}`))
		<-began
		c.Post(host.Cancel("1"))
		<-heard
		(<-answer).Close()
	})
}

// TestErrorsOfBackends reach clients with their code, message and data, and why a backend has not answered at all does, too.
func TestErrorsOfBackends(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := &stranger{call: func(t *talk, m message) {
			t.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32099,"message":"no","data":{"x":[1.0]}}}`, m.ID)
		}}
		host.Equal(t, "an error", alone(t, s).Session().Post(host.Call("1", "echo", `{}`)).Body, host.Fault("1", -32099, "no", `{"x":[1.0]}`))
	})
}

// TestSkills passes requests of the skills extension on to the one backend that a server looks like. Where there are several, nobody declares it.
func TestSkills(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := &stranger{wanted: func(t *talk, m message) bool {
			switch m.Method {
			case "initialize":
				t.result(m, `{"protocolVersion":"2025-11-25","capabilities":{"resources":{},"extensions":{"io.modelcontextprotocol/skills":{"x":1.0}}},"serverInfo":`+strangerInfo+`}`)
			case "skills/list":
				t.result(m, `{"skills":[{"name":"odd","x":1.0}]}`)
			default:
				return false
			}
			return true
		}}
		for _, one := range []bool{true, false} {
			h := alone(t, s)
			if !one {
				h = hosting(t, troupe.Options{}, nil, backend{"one", s, theirs.Options{}}, backend{"two", s, theirs.Options{}})
			}
			c := h.Unchecked()
			shows := c.Post(host.Initialize("1", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"kit","version":"1"}}`)).Body
			if strings.Contains(shows, "/skills") != one {
				t.Errorf("alone %v: initialize shows %s", one, shows)
			}
			got := h.Session().Post(host.Method("2", "skills/list", `{}`)).Body
			if strings.Contains(got, `"result":{"skills":[{"name":"odd","x":1.0}]}`) != one || !one && !strings.Contains(got, "-32601") {
				t.Errorf("alone %v: skills/list says %s", one, got)
			}
			if a, _ := h.Stateless(`{}`).Do("skills/list", `{}`); one && !(strings.Contains(a.Body, `"ttlMs":`) && strings.Contains(a.Body, `"cacheScope":`)) {
				t.Errorf("without a session skills/list says %s", a.Body)
			}
		}
	})
}

// TestHeadersOfArguments compares the headers of a call with the arguments that they repeat, as the backend would over HTTP.
func TestHeadersOfArguments(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		tool := `{"name":"echo","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}`
		for _, modern := range []bool{false, true} {
			s := &stranger{modern: modern, lists: map[string]string{"tools": tool}, call: func(t *talk, m message) {
				if modern {
					t.result(m, `{"resultType":"complete","content":[]}`)
					return
				}
				t.text(m, "done")
			}}
			h := alone(t, s)
			c := h.Stateless(`{}`)
			for header, status := range map[string]string{"x": "200 OK", "y": "400 Bad Request", "": "400 Bad Request"} {
				var sent []string
				if header != "" {
					sent = []string{"Mcp-Param-Region", header}
				}
				a := c.Post("tools/call", `{"name":"echo","arguments":{"region":"x"}}`, sent...)
				if a.Status != status || (status[0] == '4') != strings.Contains(a.Body, "-32020") {
					t.Errorf("modern backend %v, header %q: %s %s", modern, header, a.Status, a.Body)
				}
			}
		}
	})
}

// TestHeadersOfArgumentsOverAPipe calls a tool whose arguments headers repeat, where there are no headers.
func TestHeadersOfArgumentsOverAPipe(t *testing.T) {
	troupetest.Test(t, func(t *testing.T) {
		s := &stranger{lists: map[string]string{"tools": `{"name":"echo","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}`},
			call: func(t *talk, m message) { t.text(m, "done") }}
		srv := troupe.NewServer(mcp.Implementation{Name: "gateway", Version: "1.0.0"}, nil)
		troupe.AddBackend(srv, "stranger", theirs.Serve("stranger", s.serve), theirs.Options{Prefix: theirs.NoPrefix})
		c := troupetest.Connect(t, srv, troupetest.Options{})
		if _, err := c.Tools(t.Context()); err != nil { // the backend has to be known
			t.Fatal(err)
		}
		got, err := c.CallTool(t.Context(), "echo", map[string]string{"region": "x"})
		if err != nil || troupetest.Text(got) != "done" {
			t.Errorf("echo says %v, %v", got, err)
		}
	})
}

// TestListsChange tells clients once when the list of a backend changes.
func TestListsChange(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var last *talk
		var mu sync.Mutex
		s := &stranger{call: func(t *talk, m message) {
			mu.Lock()
			last = t
			mu.Unlock()
			t.text(m, "done")
		}}
		h := alone(t, s)
		c := h.Session()
		c.Post(host.Call("1", "echo", `{}`))
		stream := c.Get("")
		events := host.Reading(stream)
		time.Sleep(10 * time.Second)
		list := `{"name":"other","inputSchema":{"type":"object"}}`
		s.tools.Store(&list)
		mu.Lock()
		last.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		mu.Unlock()
		time.Sleep(10 * time.Second)
		if names, _, _ := host.ToolsOf(t, c); !slices.Equal(names, []string{"other"}) {
			t.Errorf("tools: %q", names)
		}
		stream.Close()
		told := 0
		for _, e := range events() {
			if strings.Contains(e, "tools/list_changed") {
				told++
			}
		}
		if told != 1 {
			t.Errorf("the client was told %d times", told)
		}
	})
}

// TestSubscriptions passes subscriptions on, and updates to the session whose instance says them.
func TestSubscriptions(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		subscribed := make(chan *talk, 2)
		s := &stranger{lists: map[string]string{"resources": `{"uri":"x://1","name":"one"}`}}
		s.wanted = func(t *talk, m message) bool {
			if m.Method == "resources/subscribe" {
				subscribed <- t
			}
			return false
		}
		h := alone(t, s)
		one, other := h.Session(), h.Session()
		streams := []func() []string{}
		var open []*kit.Answer
		var talks []*talk
		for _, c := range []*kit.Client{one, other} {
			a := c.Get("")
			open, streams = append(open, a), append(streams, host.Reading(a))
			if got := c.Post(host.Method("1", "resources/subscribe", `{"uri":"x://1"}`)).Body; !strings.Contains(got, `"result":{}`) {
				t.Fatal(got)
			}
			talks = append(talks, <-subscribed)
		}
		if talks[0] == talks[1] {
			t.Fatal("two sessions share an instance")
		}
		talks[0].say(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x://1"}}`)
		time.Sleep(time.Second)
		for i, want := range []int{1, 0} {
			open[i].Close()
			got := 0
			for _, e := range streams[i]() {
				if e == host.UpdateNote("x://1") {
					got++
				}
			}
			if got != want {
				t.Errorf("session %d got %d updates, want %d", i, got, want)
			}
		}
	})
}

// TestFirstStart holds initialize for five seconds at most until the backend has said what it is.
func TestFirstStart(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		for _, tt := range []struct{ start, want time.Duration }{{3 * time.Second, 3 * time.Second}, {time.Minute, 5 * time.Second}} {
			s := &stranger{}
			s.wanted = func(t *talk, m message) bool {
				if m.Method == "server/discover" {
					select {
					case <-time.After(tt.start):
					case <-t.ctx.Done():
					}
				}
				return false
			}
			h := alone(t, s)
			began := time.Now()
			h.Session()
			if took := time.Since(began); took < tt.want || took > tt.want+time.Second {
				t.Errorf("a backend that starts in %v holds initialize for %v", tt.start, took)
			}
		}
	})
}

// TestSessionEnds ends the instance of a session with it.
func TestSessionEnds(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		ended := make(chan struct{}, 8)
		s := &stranger{call: func(t *talk, m message) {
			go func() { <-t.ctx.Done(); ended <- struct{}{} }()
			t.text(m, "done")
		}}
		c := alone(t, s).Session()
		c.Post(host.Call("1", "echo", `{}`))
		c.Do("DELETE", "")
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Error("the instance goes on")
		}
	})
}

// TestLost tells a session once that its instance is gone, and begins another one for the next call; or ends the session.
func TestLost(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		for _, on := range []theirs.OnLoss{theirs.Restart, theirs.End} {
			s := &stranger{call: func(t *talk, m message) {
				t.text(m, "done")
				if strings.Contains(string(m.Params.Arguments), "end") {
					time.Sleep(time.Second)
					t.end()
				}
			}}
			h := hosting(t, troupe.Options{}, nil, backend{"one", s, theirs.Options{Prefix: theirs.NoPrefix, OnLoss: on}})
			c := h.Session()
			stream := c.Get("")
			told := host.Reading(stream)
			c.Post(host.Call("1", "echo", `{"end":true}`))
			time.Sleep(5 * time.Second)
			a := c.Post(host.Call("2", "echo", `{}`))
			stream.Close()
			warnings := 0
			for _, e := range told() {
				if strings.Contains(e, "the server one has ended") {
					warnings++
				}
			}
			switch {
			case on == theirs.Restart && (warnings != 1 || !strings.Contains(a.Body, "done")):
				t.Errorf("restart: told %d times, and then %s %s", warnings, a.Status, a.Body)
			case on == theirs.End && (a.StatusCode != 404 || warnings != 0):
				t.Errorf("end: told %d times, and then %s %s", warnings, a.Status, a.Body)
			}
		}
	})
}

// TestLevel tells the instance of a session its log level, and what it logs outside of calls goes to the standalone stream.
func TestLevel(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		levels := make(chan string, 4)
		s := &stranger{call: func(t *talk, m message) { t.text(m, "done") }}
		s.wanted = func(t *talk, m message) bool {
			if m.Method == "logging/setLevel" {
				levels <- m.Params.Level
				time.AfterFunc(time.Second, func() {
					t.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":%q,"data":"outside"}}`, m.Params.Level)
					t.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"debug","data":"not wanted"}}`)
				})
			}
			return false
		}
		c := alone(t, s).Session()
		stream := c.Get("")
		told := host.Reading(stream)
		c.Post(host.Method("1", "logging/setLevel", `{"level":"warning"}`))
		time.Sleep(time.Minute)
		if s.began.Load() > 1 || len(levels) != 0 {
			t.Error("a level began an instance")
		}
		c.Post(host.Call("2", "echo", `{}`))
		if got := <-levels; got != "warning" {
			t.Errorf("the instance has the level %s", got)
		}
		time.Sleep(time.Minute)
		c.Post(host.Method("3", "logging/setLevel", `{"level":"error"}`))
		if got := <-levels; got != "error" {
			t.Errorf("the instance has the level %s", got)
		}
		time.Sleep(time.Minute)
		stream.Close()
		var logs []string
		for _, e := range told() {
			if strings.Contains(e, "notifications/message") {
				logs = append(logs, e)
			}
		}
		want := []string{`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","data":"outside"}}`, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"outside"}}`}
		if !slices.Equal(logs, want) {
			t.Errorf("%s\nwant\n%s", strings.Join(logs, "\n"), strings.Join(want, "\n"))
		}
	})
}

// TestChangingBackends adds, replaces and removes backends of a server that is mounted.
func TestChangingBackends(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		says := func(who string) *stranger { return &stranger{call: func(t *talk, m message) { t.text(m, who) }} }
		h := hosting(t, troupe.Options{}, nil)
		c := h.Session()
		tools := func(want ...string) {
			t.Helper()
			if names, _, _ := host.ToolsOf(t, c); !slices.Equal(names, want) {
				t.Errorf("tools %q, want %q", names, want)
			}
		}
		tools()
		troupe.AddBackend(h.Server, "a", theirs.Serve("a", says("a").serve), theirs.Options{})
		tools("a__echo")
		host.Contains(t, "a call", c.Post(host.Call("1", "a__echo", `{}`)).Body, `"text":"a"`)
		if err := troupe.TryAddBackend(h.Server, "a", theirs.Serve("b", says("b").serve), theirs.Options{}); err == nil {
			t.Error("a name was taken twice")
		}
		if err := h.Server.SetBackends([]troupe.Backend{{Name: "b", Target: theirs.Serve("b", says("b").serve)}, {Name: "a", Target: theirs.Serve("a", says("a").serve), Options: theirs.Options{Prefix: "x."}}}); err != nil {
			t.Fatal(err)
		}
		tools("b__echo", "x.echo")
		h.Server.RemoveBackends("a", "c")
		tools("b__echo")
		for _, wrong := range [][]troupe.Backend{
			{{Name: "no name", Target: theirs.Command("x")}}, {{Name: "a"}}, {{Name: "a", Target: theirs.Command("x")}, {Name: "a", Target: theirs.Command("x")}},
			{{Name: "a", Target: theirs.Command("x"), Options: theirs.Options{Prefix: "p"}}, {Name: "b", Target: theirs.Command("x"), Options: theirs.Options{Prefix: "pp"}}},
			{{Name: "a", Target: theirs.Command("x"), Options: theirs.Options{EnvFile: "/does/not/exist"}}},
		} {
			if h.Server.SetBackends(wrong) == nil {
				t.Errorf("%v passed", wrong)
			}
		}
		tools("b__echo")
		silent := &stranger{wanted: func(t *talk, _ message) bool {
			select {
			case <-time.After(time.Minute):
			case <-t.ctx.Done():
			}
			return true
		}}
		if err := h.Server.SetBackends([]troupe.Backend{{Name: "silent", Target: theirs.Serve("silent", silent.serve)}}); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(100*time.Millisecond, func() { h.Server.RemoveBackends("silent") })
		host.Contains(t, "a list that waits for a backend which is taken away", c.Post(host.Method("1", "tools/list", "")).Body, `"tools":[]`)
	})
}

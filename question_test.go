package troupe_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/testkit"
	"github.com/troupe-run/troupe/mcp"
)

// tool adds a tool without arguments.
func (h *host) tool(name string, needs troupe.Needs, f func(ctx context.Context, call *troupe.Call) (string, error)) {
	troupe.AddTool(h.srv, troupe.Tool{Name: name, Needs: needs},
		func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) { return f(ctx, call) })
}

// asked is a question as the client gets it.
type asked struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
}

func parseAsked(t *testing.T, message string) (q asked) {
	t.Helper()
	if err := json.Unmarshal([]byte(message), &q); err != nil {
		t.Fatalf("%s: %v", message, err)
	}
	return q
}

// nextQuestion reads events up to the next question.
func nextQuestion(t *testing.T, a *testkit.Answer) asked {
	t.Helper()
	for {
		if !a.Stream() {
			t.Fatalf("no stream: %s %s", a.Status, a.Body)
		}
		e, ok := a.Next()
		if !ok {
			t.Fatal("the stream ended before a question")
		}
		if e.Data == "" {
			continue
		}
		q := parseAsked(t, e.Data)
		if q.ID != nil && q.Method != "" {
			return q
		}
		if q.ID != nil {
			t.Fatalf("an answer before a question: %s", e.Data)
		}
	}
}

// reply answers a question; what is the member that does.
func reply(c *testkit.Client, id json.RawMessage, what, value string) {
	c.T.Helper()
	if a := c.Post(`{"jsonrpc":"2.0","id":` + string(id) + `,"` + what + `":` + value + `}`); a.StatusCode != 202 || a.Body != "" {
		c.T.Errorf("answer: %s %q, want 202 and nothing", a.Status, a.Body)
	}
}

// last is the last event's data, which is the answer.
func last(t *testing.T, a *testkit.Answer) string {
	t.Helper()
	all := payloads(a.All())
	if len(all) == 0 {
		t.Fatal("no answer")
	}
	return all[len(all)-1]
}

func TestElicitedAnswers(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		c := h.session()
		for i, row := range []struct{ name, what, value, want string }{
			{"accepted", "result", `{"action":"accept","content":{"answer":"yes, \"really\" ☃"}}`, `accept {"answer":"yes, \"really\" ☃"}`},
			{"accepted, nothing in it", "result", `{"action":"accept","content":{}}`, `accept {}`},
			{"declined", "result", `{"action":"decline"}`, "decline "},
			{"cancelled", "result", `{"action":"cancel","_meta":{"x":1}}`, "cancel "},
			{"unknown action", "result", `{"action":"maybe"}`, `!troupe: answer to "elicit": the action is none of accept, decline and cancel`},
			{"no action", "result", `{}`, `!troupe: answer to "elicit": the action is none of accept, decline and cancel`},
			{"action a number", "result", `{"action":1}`, `!troupe: answer to "elicit": number at offset 10 does not fit a string`},
			{"no object", "result", `[1]`, `!troupe: answer to "elicit": array at offset 0 does not fit an object`},
			{"null", "result", `null`, `!troupe: answer to "elicit": the action is none of accept, decline and cancel`},
			{"content a list", "result", `{"action":"accept","content":[1]}`, `!troupe: answer to "elicit": the content is no object`},
		} {
			id := fmt.Sprint(i)
			a := c.Post(call(id, "ask", `{"question":"Sure?"}`))
			q := nextQuestion(t, a)
			equal(t, "method", q.Method, "elicitation/create")
			equal(t, "params", string(q.Params), `{"mode":"form","message":"Sure?","requestedSchema":{"type":"object","properties":{"answer":{"type":"string"}},"required":["answer"]}}`)
			reply(c, q.ID, row.what, row.value)
			want := toolText(id, row.want)
			if failure, failed := strings.CutPrefix(row.want, "!"); failed {
				want = toolFault(id, failure)
			}
			equal(t, row.name, last(t, a), want)
		}
		// An error is the handler's to judge; one that hands it on hands it to the
		// client.
		a := c.Post(call("1", "ask", `{"question":"Sure?"}`))
		reply(c, nextQuestion(t, a).ID, "error", `{"code":12345678901,"message":"☃","data":[1]}`)
		equal(t, "refused", last(t, a), fault("1", 12345678901, "☃", "[1]"))
	})
}

// reading reads a stream on, since a client that does not is cut off. The
// returned function waits for its end.
func reading(a *testkit.Answer) (wait func() []string) {
	all := make(chan []string, 1)
	go func() { all <- payloads(a.All()) }()
	return func() []string { return <-all }
}

// toolText is textResult for text that must be quoted.
func toolText(id, text string) string {
	return strings.Replace(toolFault(id, text), `,"isError":true`, "", 1)
}

func TestElicitURL(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		h.tool("pay", troupe.NeedsElicitationURL, func(ctx context.Context, call *troupe.Call) (string, error) {
			r, err := call.ElicitURL(ctx, "Pay first", "pay-1", "https://pay.example.com/1?a=b&c=d")
			if err != nil {
				return "", err
			}
			if err := call.ElicitationComplete(ctx, "pay-1"); err != nil {
				return "", err
			}
			return string(r.Action), nil
		})
		h.tool("locked", 0, func(context.Context, *troupe.Call) (string, error) {
			return "", fmt.Errorf("locked: %w", troupe.URLRequired(mcp.ElicitURL{Message: "Sign in", ElicitationID: "in-1", URL: "https://in.example.com/"}))
		})
		c := h.session()
		a := c.Post(call("1", "pay", `{}`))
		q := nextQuestion(t, a)
		equal(t, "params", string(q.Params), `{"mode":"url","message":"Pay first","elicitationId":"pay-1","url":"https://pay.example.com/1?a=b&c=d"}`)
		reply(c, q.ID, "result", `{"action":"accept"}`)
		want := []string{`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"pay-1"}}`, textResult("1", "accept")}
		if diff := cmp.Diff(want, payloads(a.All())); diff != "" {
			t.Error(diff)
		}
		equal(t, "required", c.Post(call("2", "locked", `{}`)).Body, fault("2", -32042, "the user must open a URL first",
			`{"elicitations":[{"mode":"url","message":"Sign in","elicitationId":"in-1","url":"https://in.example.com/"}]}`))
	})
}

func TestSampling(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		schema := json.RawMessage(`{"type":"object","x-order":[2,1],"properties":{"city":{"type":"string"}}}`)
		half := 0.5
		h.tool("plain", troupe.NeedsSampling, func(ctx context.Context, call *troupe.Call) (string, error) {
			r, err := call.Sample(ctx, mcp.CreateMessageParams{MaxTokens: 10, SystemPrompt: "Be brief.", Temperature: new(float64),
				ModelPreferences: &mcp.ModelPreferences{Hints: []mcp.ModelHint{{Name: "small"}}, CostPriority: &half},
				Messages:         []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Blocks(mcp.Text("Hi"))}}})
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%s %s %s %d %v", r.Role, r.Model, r.StopReason, len(r.Content.Blocks), r.Content.List), nil
		})
		h.tool("tools", troupe.NeedsSampling|troupe.NeedsSamplingTools, func(ctx context.Context, call *troupe.Call) (string, error) {
			r, err := call.Sample(ctx, mcp.CreateMessageParams{MaxTokens: 10, ToolChoice: &mcp.ToolChoice{Mode: "required"},
				Tools: []mcp.Tool{{Name: "weather", InputSchema: schema}},
				Messages: []mcp.SamplingMessage{
					{Role: mcp.RoleAssistant, Content: mcp.Blocks(mcp.ToolUse("u1", "weather", nil))},
					{Role: mcp.RoleUser, Content: mcp.Blocks(mcp.ToolResult("u1", mcp.Text("rain")), &mcp.ToolResultContent{ToolUseID: "u2"})},
				}})
			if err != nil {
				return "", err
			}
			var kinds []string
			for _, b := range r.Content.Blocks {
				kinds = append(kinds, mcp.ContentType(b))
			}
			return fmt.Sprint(r.StopReason, kinds), nil
		})
		c := h.session()
		a := c.Post(call("1", "plain", `{}`))
		q := nextQuestion(t, a)
		equal(t, "params", string(q.Params), `{"messages":[{"role":"user","content":{"type":"text","text":"Hi"}}],"modelPreferences":{"hints":[{"name":"small"}],"costPriority":0.5},"systemPrompt":"Be brief.","temperature":0,"maxTokens":10}`)
		reply(c, q.ID, "result", `{"role":"assistant","content":{"type":"text","text":"Hello"},"model":"m-1","stopReason":"because"}`)
		equal(t, "plain", last(t, a), textResult("1", "assistant m-1 because 1 false"))

		a = c.Post(call("2", "tools", `{}`))
		q = nextQuestion(t, a)
		equal(t, "params", string(q.Params), `{"messages":[{"role":"assistant","content":{"type":"tool_use","id":"u1","name":"weather","input":{}}},`+
			`{"role":"user","content":[{"type":"tool_result","toolUseId":"u1","content":[{"type":"text","text":"rain"}]},{"type":"tool_result","toolUseId":"u2","content":[]}]}],`+
			`"maxTokens":10,"tools":[{"name":"weather","inputSchema":`+string(schema)+`}],"toolChoice":{"mode":"required"}}`)
		reply(c, q.ID, "result", `{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"tool_use","id":"u3","name":"weather","input":{"city":"Ulm"}},{"type":"hologram"}],"model":"m-1","stopReason":"toolUse"}`)
		equal(t, "array", last(t, a), textResult("2", "toolUse[text tool_use hologram]"))

		for i, bad := range []string{`{}`, `null`, `"x"`, `{"role":"assistant","model":"m"}`, `{"role":"robot","content":{"type":"text","text":"x"},"model":"m"}`,
			`{"role":"assistant","content":5,"model":"m"}`} {
			id := fmt.Sprint(10 + i)
			a := c.Post(call(id, "plain", `{}`))
			reply(c, nextQuestion(t, a).ID, "result", bad)
			if got := last(t, a); !strings.Contains(got, `"isError":true`) || !strings.Contains(got, `troupe: answer to \"sample\": `) {
				t.Errorf("malformed message %s: %s", bad, got)
			}
		}
	})
}

func TestRootsAndTheirChange(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		changed := make(chan string, 1)
		h := newHost(t, troupe.Options{}, &troupe.ServerOptions{RootsChanged: func(p *troupe.Peer) { changed <- p.Session() }})
		h.tool("roots", troupe.NeedsRoots, func(ctx context.Context, call *troupe.Call) (string, error) {
			roots, err := call.Roots(ctx)
			names := ""
			for _, r := range roots {
				names += r.URI + " " + r.Name + ";"
			}
			return names, err
		})
		c := h.session()
		for i, row := range [][2]string{
			{`{"roots":[{"uri":"file:///a","name":"A"},{"uri":"https://b"}]}`, toolText("0", "file:///a A;https://b ;")},
			{`{"roots":[]}`, toolText("1", "")},
			{`{}`, toolFault("2", `troupe: answer to "roots": the roots are missing`)},
			{`{"roots":{}}`, toolFault("3", `troupe: answer to "roots": object at offset 9 does not fit an array`)},
		} {
			a := c.Post(call(fmt.Sprint(i), "roots", `{}`))
			q := nextQuestion(t, a)
			if q.Method != "roots/list" || q.Params != nil {
				t.Errorf("question %s %s", q.Method, q.Params)
			}
			reply(c, q.ID, "result", row[0])
			equal(t, row[0], last(t, a), row[1])
		}
		c.Post(note("notifications/roots/list_changed", ""))
		equal(t, "told", <-changed, c.Session)
	})
}

func TestSeveralQuestionsAtOnce(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		h.tool("several", troupe.NeedsElicitation|troupe.NeedsSampling|troupe.NeedsRoots, func(ctx context.Context, call *troupe.Call) (string, error) {
			a, err := call.Ask(ctx, troupe.Elicit("name", "Who?", form), troupe.Roots("where"),
				troupe.Sample("poem", mcp.CreateMessageParams{MaxTokens: 1}), troupe.Elicit("age", "How old?", form))
			if err != nil {
				return "", err
			}
			name, err1 := a.Elicited("name")
			roots, err2 := a.Roots("where")
			poem, err3 := a.Sampled("poem")
			_, err4 := a.Elicited("age")
			_, err5 := a.Elicited("nothing")
			return fmt.Sprintf("%s %d %s %v %v", name.Content, len(roots), poem.Model, err4, err5), errors.Join(err1, err2, err3)
		})
		c := h.session()
		a := c.Post(call("1", "several", `{}`))
		var qs []asked
		ids := map[string]bool{}
		for range 4 {
			q := nextQuestion(t, a)
			qs = append(qs, q)
			ids[string(q.ID)] = true
		}
		if len(ids) != 4 {
			t.Errorf("ids %v are not unique", ids)
		}
		equal(t, "the call's own pace", c.Post(method("2", "ping", "")).Body, `{"jsonrpc":"2.0","id":2,"result":{}}`)
		rest := reading(a)
		reply(c, qs[3].ID, "error", `{"code":-1,"message":"no"}`)
		reply(c, qs[2].ID, "result", `{"role":"assistant","content":[{"type":"text","text":"x"}],"model":"m"}`)
		time.Sleep(5 * time.Minute)
		reply(c, qs[1].ID, "result", `{"roots":[]}`)
		reply(c, qs[0].ID, "result", `{"action":"accept","content":{"answer":"Ann"}}`)
		want := []string{toolText("1", `{"answer":"Ann"} 0 m no (-1) troupe: no question "nothing" was asked`)}
		if diff := cmp.Diff(want, rest()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestPings(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		h.tool("ping", 0, func(ctx context.Context, call *troupe.Call) (string, error) { return "pong", call.Ping(ctx) })
		h.tool("peer", 0, func(ctx context.Context, call *troupe.Call) (string, error) { return "pong", call.Peer().Ping(ctx) })
		c := h.client().Initialize(`{}`)
		a := c.Post(call("1", "ping", `{}`))
		q := nextQuestion(t, a)
		equal(t, "method", q.Method, "ping")
		reply(c, q.ID, "result", `{}`)
		equal(t, "pinged", last(t, a), textResult("1", "pong"))
		a = c.Post(call("2", "ping", `{}`))
		reply(c, nextQuestion(t, a).ID, "error", `{"code":-32601,"message":"what?"}`)
		equal(t, "refused", last(t, a), fault("2", noMethod, "what?", ""))

		equal(t, "no stream", c.Post(call("3", "peer", `{}`)).Body, toolFault("3", "the client listens to no stream"))
		s := c.Get("")
		a = c.Post(call("4", "peer", `{}`))
		q = nextQuestion(t, s)
		equal(t, "method", q.Method, "ping")
		reply(c, q.ID, "result", `{}`)
		equal(t, "pinged", last(t, a), textResult("4", "pong"))

		// A client that is silent is told that its answer is not needed any more.
		a = c.Post(call("5", "peer", `{}`))
		q = nextQuestion(t, s)
		rest := reading(s)
		equal(t, "silent", last(t, a), toolFault("5", "the client did not answer in time"))
		synctest.Wait()
		s.Close()
		if diff := cmp.Diff([]string{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + string(q.ID) + `,"reason":"timed out"}}`}, rest()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestAnswersFromElsewhere: only the session that was asked can answer, and only
// once.
func TestAnswersFromElsewhere(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{Authenticate: user}, nil)
		ann := func() *testkit.Client {
			return as(h.client(), "ann").Initialize(`{"elicitation":{}}`)
		}
		c := ann()
		a := c.Post(call("1", "ask", `{"question":"?"}`))
		q := nextQuestion(t, a)
		const forged, right = `{"action":"accept","content":{"answer":"forged"}}`, `{"action":"accept","content":{"answer":"right"}}`
		reply(ann(), q.ID, "result", forged)                                  // another session of the same principal
		reply(as(h.client(), "bob").Initialize(`{}`), q.ID, "result", forged) // another principal
		theft := as(h.client(), "bob")
		theft.Session = c.Session
		if b := theft.Post(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":` + forged + `}`); b.StatusCode != 404 {
			t.Errorf("another principal in the session: %s %s", b.Status, b.Body)
		}
		reply(c, json.RawMessage(strings.Trim(string(q.ID), `"`)[:0]+`7`), "result", forged)
		id := strings.Trim(string(q.ID), `"`)
		reply(c, json.RawMessage(`"`+id+`x"`), "result", forged)
		reply(c, json.RawMessage(`"`+id[:len(id)-1]+`9"`), "result", forged)
		synctest.Wait()
		reply(c, q.ID, "result", right)
		reply(c, q.ID, "result", forged) // a duplicate
		equal(t, "answer", last(t, a), toolText("1", `accept {"answer":"right"}`))
		reply(c, q.ID, "result", forged) // a late one
		equal(t, "afterwards", c.Post(call("2", "echo", `{"text":"x"}`)).Body, textResult("2", "x"))
	})
}

// Two answers cannot be told apart by one key, so that neither question is asked.
func TestQuestionsWithOneKey(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		h.tool("same", 0, func(ctx context.Context, call *troupe.Call) (string, error) {
			_, err := call.Ask(ctx, troupe.Elicit("k", "A?", form), troupe.Roots("r"), troupe.Elicit("k", "B?", form))
			return "", err
		})
		equal(t, "one key", h.client().Initialize(everyCapability).Post(call("1", "same", `{}`)).Body, toolFault("1", `troupe: two questions have the key "k"`))
	})
}

func TestUndeclaredCapabilities(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		var ran atomic.Int32
		add := func(name string, needs troupe.Needs) {
			h.tool(name, needs, func(context.Context, *troupe.Call) (string, error) { ran.Add(1); return "ran", nil })
		}
		add("form", troupe.NeedsElicitation)
		add("url", troupe.NeedsElicitationURL)
		add("sample", troupe.NeedsSampling)
		add("tools", troupe.NeedsSampling|troupe.NeedsSamplingTools)
		add("roots", troupe.NeedsRoots)
		add("all", troupe.NeedsElicitation|troupe.NeedsElicitationURL|troupe.NeedsSampling|troupe.NeedsSamplingTools|troupe.NeedsRoots)
		var undeclared error
		h.tool("sneaky", 0, func(ctx context.Context, call *troupe.Call) (string, error) {
			_, undeclared = call.Roots(ctx)
			return "", undeclared
		})
		troupe.AddPrompt(h.srv, troupe.Prompt{Name: "form", Needs: troupe.NeedsElicitation},
			func(context.Context, *troupe.Call, map[string]string) (*mcp.GetPromptResult, error) {
				ran.Add(1)
				return &mcp.GetPromptResult{}, nil
			})
		for _, row := range []struct{ caps, tool, lacking, data string }{
			{`{}`, "form", "elicitation.form", `{"elicitation":{"form":{}}}`},
			{`{"elicitation":{"url":{}}}`, "form", "elicitation.form", `{"elicitation":{"form":{}}}`},
			{`{"elicitation":{}}`, "form", "", ""}, // means forms
			{`{"elicitation":{}}`, "url", "elicitation.url", `{"elicitation":{"url":{}}}`},
			{`{"elicitation":{"form":{},"url":{}}}`, "url", "", ""},
			{`{"roots":{}}`, "sample", "sampling", `{"sampling":{}}`},
			{`{"sampling":{}}`, "sample", "", ""},
			{`{"sampling":{}}`, "tools", "sampling.tools", `{"sampling":{"tools":{}}}`},
			{`{"sampling":{}}`, "roots", "roots", `{"roots":{}}`},
			{`{"roots":{}}`, "roots", "", ""},
			{`{}`, "all", "elicitation.form, elicitation.url, sampling, sampling.tools, roots", `{"roots":{},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}}}`},
		} {
			before := ran.Load()
			got := h.client().Initialize(row.caps).Post(call("1", row.tool, `{}`)).Body
			want := textResult("1", "ran")
			if row.lacking != "" {
				want = fault("1", invalid, "the client must declare: "+row.lacking, `{"requiredCapabilities":`+row.data+`}`)
			}
			equal(t, row.tool+" with "+row.caps, got, want)
			if did := ran.Load() != before; did != (row.lacking == "") {
				t.Errorf("%s with %s: handler ran %v", row.tool, row.caps, did)
			}
		}
		c := h.client().Initialize(`{}`)
		contains(t, "prompt", c.Post(method("1", "prompts/get", `{"name":"form"}`)).Body, `"code":-32600`)
		equal(t, "not declared as needed", c.Post(call("1", "sneaky", `{}`)).Body,
			toolFault("1", `troupe: question "roots": troupe: the client does not declare this capability: roots`))
		if !errors.Is(undeclared, troupe.ErrUndeclared) {
			t.Errorf("got %v, want ErrUndeclared", undeclared)
		}
	})
}

func TestNoAnswerInTime(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{MaxAsk: 3 * time.Minute}, nil)
		var got error
		h.tool("two", troupe.NeedsElicitation|troupe.NeedsRoots, func(ctx context.Context, call *troupe.Call) (string, error) {
			_, got = call.Ask(ctx, troupe.Elicit("a", "A?", form), troupe.Roots("b"))
			return "gave up", nil
		})
		c := h.session()
		begin := time.Now()
		a := c.Post(call("1", "two", `{}`))
		first, second := nextQuestion(t, a), nextQuestion(t, a)
		rest := reading(a)
		time.Sleep(time.Minute)
		reply(c, first.ID, "result", `{"action":"decline"}`)
		want := []string{
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + string(second.ID) + `,"reason":"timed out"}}`,
			textResult("1", "gave up"),
		}
		if diff := cmp.Diff(want, rest()); diff != "" {
			t.Error(diff)
		}
		if d := time.Since(begin); !errors.Is(got, troupe.ErrNoAnswer) || d != 3*time.Minute {
			t.Errorf("after %v: %v; want ErrNoAnswer after 3m", d, got)
		}
		reply(c, second.ID, "result", `{"roots":[]}`) // late
	})
}

func TestParkedCallEnds(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{MaxCall: 5 * time.Minute}, nil)
		causes := make(chan error, 1)
		h.tool("park", troupe.NeedsElicitation, func(ctx context.Context, call *troupe.Call) (string, error) {
			_, err := call.Elicit(ctx, "?", form)
			causes <- err
			return "", err
		})
		c := h.session()
		a := c.Post(call("1", "park", `{}`))
		q := nextQuestion(t, a)
		c.Post(note("notifications/cancelled", `{"requestId":1,"reason":"enough"}`))
		if rest := payloads(a.All()); len(rest) != 0 {
			t.Errorf("after the cancel: %v", rest)
		}
		if err := <-causes; !errors.Is(err, troupe.ErrCancelled) {
			t.Errorf("cancelled: %v", err)
		}
		reply(c, q.ID, "result", `{"action":"accept"}`)

		a = c.Post(call("2", "park", `{}`))
		nextQuestion(t, a)
		contains(t, "deadline", last(t, a), "the call ran for too long")
		if err := <-causes; !errors.Is(err, troupe.ErrDeadline) {
			t.Errorf("deadline: %v", err)
		}

		a = c.Post(call("3", "park", `{}`))
		nextQuestion(t, a)
		if d := c.Do("DELETE", ""); d.StatusCode != 200 {
			t.Errorf("delete: %s", d.Status)
		}
		a.All()
		if err := <-causes; !errors.Is(err, troupe.ErrSessionEnded) {
			t.Errorf("deleted: %v", err)
		}
	})
}

func TestParkedLimit(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{ParkedPerSession: 3}, nil)
		var got error
		h.tool("two", troupe.NeedsElicitation, func(ctx context.Context, call *troupe.Call) (string, error) {
			_, got = call.Ask(ctx, troupe.Elicit("a", "A?", form), troupe.Elicit("b", "B?", form))
			return "", got
		})
		c := h.session()
		a := c.Post(call("1", "two", `{}`))
		first := nextQuestion(t, a)
		second := nextQuestion(t, a)
		b := c.Post(call("2", "two", `{}`)) // one more fits, and the next does not
		third := nextQuestion(t, b)
		want := []string{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + string(third.ID) + `,"reason":"no longer needed"}}`,
			toolFault("2", "too many calls wait for the client")}
		if diff := cmp.Diff(want, payloads(b.All())); diff != "" {
			t.Error(diff)
		}
		if !errors.Is(got, troupe.ErrParked) {
			t.Errorf("got %v, want ErrParked", got)
		}
		other := h.session()
		o := other.Post(call("1", "ask", `{"question":"?"}`))
		reply(other, nextQuestion(t, o).ID, "result", `{"action":"cancel"}`)
		equal(t, "another session", last(t, o), textResult("1", "cancel "))
		reply(c, first.ID, "result", `{"action":"cancel"}`)
		reply(c, second.ID, "result", `{"action":"cancel"}`)
		contains(t, "the first call", last(t, a), `"id":1`)
		o = c.Post(call("3", "ask", `{"question":"?"}`))
		reply(c, nextQuestion(t, o).ID, "result", `{"action":"cancel"}`)
		equal(t, "room again", last(t, o), textResult("3", "cancel "))
	})
}

// TestAskedWhileAway: the question waits in the log for a client whose connection
// is away, and is answered once it is back.
func TestAskedWhileAway(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		h.tool("later", troupe.NeedsElicitation, func(ctx context.Context, call *troupe.Call) (string, error) {
			if err := sleep(ctx, 10_000); err != nil {
				return "", err
			}
			r, err := call.Elicit(ctx, "?", form)
			return string(r.Action), err
		})
		c := h.session()
		a := c.Post(call("1", "later", `{}`))
		prime, _ := a.Next()
		a.Close()
		time.Sleep(5 * time.Minute)
		b := c.Get(prime.ID)
		q := nextQuestion(t, b)
		b.Close() // and away again
		reply(c, q.ID, "result", `{"action":"accept"}`)
		time.Sleep(time.Minute)
		rest := payloads(c.Get(prime.ID).All())
		if len(rest) != 2 || !strings.Contains(rest[0], string(q.ID)) || rest[1] != textResult("1", "accept") {
			t.Errorf("after the second return: %v", rest)
		}
	})
}

package session_test

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
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

func TestElicitedAnswers(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		c := h.Session()
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
			a := c.Post(host.Call(id, "ask", `{"question":"Sure?"}`))
			q := host.NextQuestion(t, a)
			host.Equal(t, "method", q.Method, "elicitation/create")
			host.Equal(t, "params", string(q.Params), `{"mode":"form","message":"Sure?","requestedSchema":{"type":"object","properties":{"answer":{"type":"string"}},"required":["answer"]}}`)
			host.Reply(c, q.ID, row.what, row.value)
			want := host.ToolText(id, row.want)
			if failure, failed := strings.CutPrefix(row.want, "!"); failed {
				want = host.ToolFault(id, failure)
			}
			host.Equal(t, row.name, host.Last(t, a), want)
		}
		// The handler decides on an error of the client; a handler that returns the
		// error passes it to the client.
		a := c.Post(host.Call("1", "ask", `{"question":"Sure?"}`))
		host.Reply(c, host.NextQuestion(t, a).ID, "error", `{"code":12345678901,"message":"☃","data":[1]}`)
		host.Equal(t, "refused", host.Last(t, a), host.Fault("1", 12345678901, "☃", "[1]"))
	})
}

func TestElicitURL(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		h.AddTool("pay", mcp.CapClientElicitationURL, func(ctx context.Context, call *troupe.Call) (string, error) {
			r, err := call.ElicitURL(ctx, "Pay first", "pay-1", "https://pay.example.com/1?a=b&c=d")
			if err != nil {
				return "", err
			}
			if err := call.ElicitationComplete(ctx, "pay-1"); err != nil {
				return "", err
			}
			return string(r.Action), nil
		})
		h.AddTool("locked", 0, func(context.Context, *troupe.Call) (string, error) {
			return "", fmt.Errorf("locked: %w", troupe.URLRequired(mcp.ElicitURL{Message: "Sign in", ElicitationID: "in-1", URL: "https://in.example.com/"}))
		})
		c := h.Session()
		a := c.Post(host.Call("1", "pay", `{}`))
		q := host.NextQuestion(t, a)
		host.Equal(t, "params", string(q.Params), `{"mode":"url","message":"Pay first","elicitationId":"pay-1","url":"https://pay.example.com/1?a=b&c=d"}`)
		host.Reply(c, q.ID, "result", `{"action":"accept"}`)
		want := []string{`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"pay-1"}}`, host.TextResult("1", "accept")}
		if diff := cmp.Diff(want, host.Payloads(a.All())); diff != "" {
			t.Error(diff)
		}
		host.Equal(t, "required", c.Post(host.Call("2", "locked", `{}`)).Body, host.Fault("2", -32042, "the user must open a URL first",
			`{"elicitations":[{"mode":"url","message":"Sign in","elicitationId":"in-1","url":"https://in.example.com/"}]}`))
	})
}

func TestSampling(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		schema := json.RawMessage(`{"type":"object","x-order":[2,1],"properties":{"city":{"type":"string"}}}`)
		half := 0.5
		h.AddTool("plain", mcp.CapClientSampling, func(ctx context.Context, call *troupe.Call) (string, error) {
			r, err := call.Sample(ctx, mcp.CreateMessageParams{MaxTokens: 10, SystemPrompt: "Be brief.", Temperature: new(float64),
				ModelPreferences: &mcp.ModelPreferences{Hints: []mcp.ModelHint{{Name: "small"}}, CostPriority: &half},
				Messages:         []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Blocks(mcp.Text("Hi"))}}})
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%s %s %s %d %v", r.Role, r.Model, r.StopReason, len(r.Content.Blocks), r.Content.List), nil
		})
		h.AddTool("tools", mcp.CapClientSampling|mcp.CapClientSamplingTools, func(ctx context.Context, call *troupe.Call) (string, error) {
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
		c := h.Session()
		a := c.Post(host.Call("1", "plain", `{}`))
		q := host.NextQuestion(t, a)
		host.Equal(t, "params", string(q.Params), `{"messages":[{"role":"user","content":{"type":"text","text":"Hi"}}],"modelPreferences":{"hints":[{"name":"small"}],"costPriority":0.5},"systemPrompt":"Be brief.","temperature":0,"maxTokens":10}`)
		host.Reply(c, q.ID, "result", `{"role":"assistant","content":{"type":"text","text":"Hello"},"model":"m-1","stopReason":"because"}`)
		host.Equal(t, "plain", host.Last(t, a), host.TextResult("1", "assistant m-1 because 1 false"))

		a = c.Post(host.Call("2", "tools", `{}`))
		q = host.NextQuestion(t, a)
		host.Equal(t, "params", string(q.Params), `{"messages":[{"role":"assistant","content":{"type":"tool_use","id":"u1","name":"weather","input":{}}},`+
			`{"role":"user","content":[{"type":"tool_result","toolUseId":"u1","content":[{"type":"text","text":"rain"}]},{"type":"tool_result","toolUseId":"u2","content":[]}]}],`+
			`"maxTokens":10,"tools":[{"name":"weather","inputSchema":`+string(schema)+`}],"toolChoice":{"mode":"required"}}`)
		host.Reply(c, q.ID, "result", `{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"tool_use","id":"u3","name":"weather","input":{"city":"Ulm"}},{"type":"hologram"}],"model":"m-1","stopReason":"toolUse"}`)
		host.Equal(t, "array", host.Last(t, a), host.TextResult("2", "toolUse[text tool_use hologram]"))

		for i, bad := range []string{`{}`, `null`, `"x"`, `{"role":"assistant","model":"m"}`, `{"role":"robot","content":{"type":"text","text":"x"},"model":"m"}`,
			`{"role":"assistant","content":5,"model":"m"}`} {
			id := fmt.Sprint(10 + i)
			a := c.Post(host.Call(id, "plain", `{}`))
			host.Reply(c, host.NextQuestion(t, a).ID, "result", bad)
			if got := host.Last(t, a); !strings.Contains(got, `"isError":true`) || !strings.Contains(got, `troupe: answer to \"sample\": `) {
				t.Errorf("malformed message %s: %s", bad, got)
			}
		}
	})
}

func TestRootsAndTheirChange(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		changed := make(chan string, 1)
		h := host.New(t, troupe.Options{}, &troupe.ServerOptions{RootsChanged: func(p *troupe.Peer) { changed <- p.Session() }})
		h.AddTool("roots", mcp.CapClientRoots, func(ctx context.Context, call *troupe.Call) (string, error) {
			roots, err := call.Roots(ctx)
			names := ""
			for _, r := range roots {
				names += r.URI + " " + r.Name + ";"
			}
			return names, err
		})
		c := h.Session()
		for i, row := range [][2]string{
			{`{"roots":[{"uri":"file:///a","name":"A"},{"uri":"https://b"}]}`, host.ToolText("0", "file:///a A;https://b ;")},
			{`{"roots":[]}`, host.ToolText("1", "")},
			{`{}`, host.ToolFault("2", `troupe: answer to "roots": the roots are missing`)},
			{`{"roots":{}}`, host.ToolFault("3", `troupe: answer to "roots": object at offset 9 does not fit an array`)},
		} {
			a := c.Post(host.Call(fmt.Sprint(i), "roots", `{}`))
			q := host.NextQuestion(t, a)
			if q.Method != "roots/list" || q.Params != nil {
				t.Errorf("question %s %s", q.Method, q.Params)
			}
			host.Reply(c, q.ID, "result", row[0])
			host.Equal(t, row[0], host.Last(t, a), row[1])
		}
		c.Post(host.Note("notifications/roots/list_changed", ""))
		host.Equal(t, "told", <-changed, c.Session)
	})
}

func TestSeveralQuestionsAtOnce(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		h.AddTool("several", mcp.CapClientElicitationForm|mcp.CapClientSampling|mcp.CapClientRoots, func(ctx context.Context, call *troupe.Call) (string, error) {
			a, err := call.Ask(ctx, troupe.Elicit("name", "Who?", host.Form), troupe.Roots("where"),
				troupe.Sample("poem", mcp.CreateMessageParams{MaxTokens: 1}), troupe.Elicit("age", "How old?", host.Form))
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
		c := h.Session()
		a := c.Post(host.Call("1", "several", `{}`))
		var qs []host.Asked
		ids := map[string]bool{}
		for range 4 {
			q := host.NextQuestion(t, a)
			qs = append(qs, q)
			ids[string(q.ID)] = true
		}
		if len(ids) != 4 {
			t.Errorf("ids %v are not unique", ids)
		}
		host.Equal(t, "the call's own pace", c.Post(host.Method("2", "ping", "")).Body, `{"jsonrpc":"2.0","id":2,"result":{}}`)
		rest := host.Reading(a)
		host.Reply(c, qs[3].ID, "error", `{"code":-1,"message":"no"}`)
		host.Reply(c, qs[2].ID, "result", `{"role":"assistant","content":[{"type":"text","text":"x"}],"model":"m"}`)
		time.Sleep(5 * time.Minute)
		host.Reply(c, qs[1].ID, "result", `{"roots":[]}`)
		host.Reply(c, qs[0].ID, "result", `{"action":"accept","content":{"answer":"Ann"}}`)
		want := []string{host.ToolText("1", `{"answer":"Ann"} 0 m no (-1) troupe: no question "nothing" was asked`)}
		if diff := cmp.Diff(want, rest()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestPings(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		h.AddTool("ping", 0, func(ctx context.Context, call *troupe.Call) (string, error) { return "pong", call.Ping(ctx) })
		h.AddTool("peer", 0, func(ctx context.Context, call *troupe.Call) (string, error) { return "pong", call.Peer().Ping(ctx) })
		c := h.Client().Initialize(`{}`)
		a := c.Post(host.Call("1", "ping", `{}`))
		q := host.NextQuestion(t, a)
		host.Equal(t, "method", q.Method, "ping")
		host.Reply(c, q.ID, "result", `{}`)
		host.Equal(t, "pinged", host.Last(t, a), host.TextResult("1", "pong"))
		a = c.Post(host.Call("2", "ping", `{}`))
		host.Reply(c, host.NextQuestion(t, a).ID, "error", `{"code":-32601,"message":"what?"}`)
		host.Equal(t, "refused", host.Last(t, a), host.Fault("2", host.NoMethod, "what?", ""))

		host.Equal(t, "no stream", c.Post(host.Call("3", "peer", `{}`)).Body, host.ToolFault("3", "the client listens to no stream"))
		s := c.Get("")
		a = c.Post(host.Call("4", "peer", `{}`))
		q = host.NextQuestion(t, s)
		host.Equal(t, "method", q.Method, "ping")
		host.Reply(c, q.ID, "result", `{}`)
		host.Equal(t, "pinged", host.Last(t, a), host.TextResult("4", "pong"))

		// A silent client gets a notice that its answer is not needed any more.
		a = c.Post(host.Call("5", "peer", `{}`))
		q = host.NextQuestion(t, s)
		rest := host.Reading(s)
		host.Equal(t, "silent", host.Last(t, a), host.ToolFault("5", "the client did not answer in time"))
		synctest.Wait()
		s.Close()
		if diff := cmp.Diff([]string{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + string(q.ID) + `,"reason":"timed out"}}`}, rest()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestAnswersFromElsewhere checks that only the session that got a question can answer
// it, and only once.
func TestAnswersFromElsewhere(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Authenticate: host.User}, nil)
		ann := func() *kit.Client {
			return host.As(h.Client(), "ann").Initialize(`{"elicitation":{}}`)
		}
		c := ann()
		a := c.Post(host.Call("1", "ask", `{"question":"?"}`))
		q := host.NextQuestion(t, a)
		const forged, right = `{"action":"accept","content":{"answer":"forged"}}`, `{"action":"accept","content":{"answer":"right"}}`
		host.Reply(ann(), q.ID, "result", forged)                                       // another session of the same principal
		host.Reply(host.As(h.Client(), "bob").Initialize(`{}`), q.ID, "result", forged) // another principal
		theft := host.As(h.Client(), "bob")
		theft.Session = c.Session
		if b := theft.Post(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":` + forged + `}`); b.StatusCode != 404 {
			t.Errorf("another principal in the session: %s %s", b.Status, b.Body)
		}
		host.Reply(c, json.RawMessage(strings.Trim(string(q.ID), `"`)[:0]+`7`), "result", forged)
		id := strings.Trim(string(q.ID), `"`)
		host.Reply(c, json.RawMessage(`"`+id+`x"`), "result", forged)
		host.Reply(c, json.RawMessage(`"`+id[:len(id)-1]+`9"`), "result", forged)
		synctest.Wait()
		host.Reply(c, q.ID, "result", right)
		host.Reply(c, q.ID, "result", forged) // a duplicate
		host.Equal(t, "answer", host.Last(t, a), host.ToolText("1", `accept {"answer":"right"}`))
		host.Reply(c, q.ID, "result", forged) // a late one
		host.Equal(t, "afterwards", c.Post(host.Call("2", "echo", `{"text":"x"}`)).Body, host.TextResult("2", "x"))
	})
}

// TestQuestionsWithOneKey asks two questions with one key: neither is sent, because
// their answers could not be told apart.
func TestQuestionsWithOneKey(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		h.AddTool("same", 0, func(ctx context.Context, call *troupe.Call) (string, error) {
			_, err := call.Ask(ctx, troupe.Elicit("k", "A?", host.Form), troupe.Roots("r"), troupe.Elicit("k", "B?", host.Form))
			return "", err
		})
		host.Equal(t, "one key", h.Client().Initialize(host.EveryCapability).Post(host.Call("1", "same", `{}`)).Body, host.ToolFault("1", `troupe: two questions have the key "k"`))
	})
}

func TestUndeclaredCapabilities(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		var ran atomic.Int32
		add := func(name string, needs mcp.Capability) {
			h.AddTool(name, needs, func(context.Context, *troupe.Call) (string, error) { ran.Add(1); return "ran", nil })
		}
		add("form", mcp.CapClientElicitationForm)
		add("url", mcp.CapClientElicitationURL)
		add("sample", mcp.CapClientSampling)
		add("tools", mcp.CapClientSampling|mcp.CapClientSamplingTools)
		add("roots", mcp.CapClientRoots)
		add("all", mcp.CapClientElicitationForm|mcp.CapClientElicitationURL|mcp.CapClientSampling|mcp.CapClientSamplingTools|mcp.CapClientRoots)
		var undeclared error
		h.AddTool("sneaky", 0, func(ctx context.Context, call *troupe.Call) (string, error) {
			_, undeclared = call.Roots(ctx)
			return "", undeclared
		})
		troupe.AddPrompt(h.Server, troupe.Prompt{Name: "form", Needs: mcp.CapClientElicitationForm},
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
			got := h.Client().Initialize(row.caps).Post(host.Call("1", row.tool, `{}`)).Body
			want := host.TextResult("1", "ran")
			if row.lacking != "" {
				want = host.Fault("1", host.Invalid, "the client must declare: "+row.lacking, `{"requiredCapabilities":`+row.data+`}`)
			}
			host.Equal(t, row.tool+" with "+row.caps, got, want)
			if did := ran.Load() != before; did != (row.lacking == "") {
				t.Errorf("%s with %s: handler ran %v", row.tool, row.caps, did)
			}
		}
		c := h.Client().Initialize(`{}`)
		host.Contains(t, "prompt", c.Post(host.Method("1", "prompts/get", `{"name":"form"}`)).Body, `"code":-32600`)
		host.Equal(t, "not declared as needed", c.Post(host.Call("1", "sneaky", `{}`)).Body,
			host.ToolFault("1", `troupe: question "roots": troupe: the client does not declare this capability: roots`))
		if !errors.Is(undeclared, troupe.ErrUndeclared) {
			t.Errorf("got %v, want ErrUndeclared", undeclared)
		}
	})
}

func TestNoAnswerInTime(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Limits: troupe.Limits{MaxAsk: 3 * time.Minute}}, nil)
		var got error
		h.AddTool("two", mcp.CapClientElicitationForm|mcp.CapClientRoots, func(ctx context.Context, call *troupe.Call) (string, error) {
			_, got = call.Ask(ctx, troupe.Elicit("a", "A?", host.Form), troupe.Roots("b"))
			return "gave up", nil
		})
		c := h.Session()
		begin := time.Now()
		a := c.Post(host.Call("1", "two", `{}`))
		first, second := host.NextQuestion(t, a), host.NextQuestion(t, a)
		rest := host.Reading(a)
		time.Sleep(time.Minute)
		host.Reply(c, first.ID, "result", `{"action":"decline"}`)
		want := []string{
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + string(second.ID) + `,"reason":"timed out"}}`,
			host.TextResult("1", "gave up"),
		}
		if diff := cmp.Diff(want, rest()); diff != "" {
			t.Error(diff)
		}
		if d := time.Since(begin); !errors.Is(got, troupe.ErrNoAnswer) || d != 3*time.Minute {
			t.Errorf("after %v: %v; want ErrNoAnswer after 3m", d, got)
		}
		host.Reply(c, second.ID, "result", `{"roots":[]}`) // late
	})
}

func TestParkedCallEnds(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Limits: troupe.Limits{MaxCall: 5 * time.Minute}}, nil)
		causes := make(chan error, 1)
		h.AddTool("park", mcp.CapClientElicitationForm, func(ctx context.Context, call *troupe.Call) (string, error) {
			_, err := call.Elicit(ctx, "?", host.Form)
			causes <- err
			return "", err
		})
		c := h.Session()
		a := c.Post(host.Call("1", "park", `{}`))
		q := host.NextQuestion(t, a)
		c.Post(host.Note("notifications/cancelled", `{"requestId":1,"reason":"enough"}`))
		if rest := host.Payloads(a.All()); len(rest) != 0 {
			t.Errorf("after the cancel: %v", rest)
		}
		if err := <-causes; !errors.Is(err, troupe.ErrCancelled) {
			t.Errorf("cancelled: %v", err)
		}
		host.Reply(c, q.ID, "result", `{"action":"accept"}`)

		a = c.Post(host.Call("2", "park", `{}`))
		host.NextQuestion(t, a)
		host.Contains(t, "deadline", host.Last(t, a), "the call ran for too long")
		if err := <-causes; !errors.Is(err, troupe.ErrDeadline) {
			t.Errorf("deadline: %v", err)
		}

		a = c.Post(host.Call("3", "park", `{}`))
		host.NextQuestion(t, a)
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
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Limits: troupe.Limits{PendingPerSession: 3}}, nil)
		var got error
		h.AddTool("two", mcp.CapClientElicitationForm, func(ctx context.Context, call *troupe.Call) (string, error) {
			_, got = call.Ask(ctx, troupe.Elicit("a", "A?", host.Form), troupe.Elicit("b", "B?", host.Form))
			return "", got
		})
		c := h.Session()
		a := c.Post(host.Call("1", "two", `{}`))
		first := host.NextQuestion(t, a)
		second := host.NextQuestion(t, a)
		b := c.Post(host.Call("2", "two", `{}`)) // one more fits, and the next one does not
		third := host.NextQuestion(t, b)
		want := []string{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + string(third.ID) + `,"reason":"no longer needed"}}`,
			host.ToolFault("2", "too many calls wait for the client")}
		if diff := cmp.Diff(want, host.Payloads(b.All())); diff != "" {
			t.Error(diff)
		}
		if !errors.Is(got, troupe.ErrTooManyPending) {
			t.Errorf("got %v, want ErrTooManyPending", got)
		}
		other := h.Session()
		o := other.Post(host.Call("1", "ask", `{"question":"?"}`))
		host.Reply(other, host.NextQuestion(t, o).ID, "result", `{"action":"cancel"}`)
		host.Equal(t, "another session", host.Last(t, o), host.TextResult("1", "cancel "))
		host.Reply(c, first.ID, "result", `{"action":"cancel"}`)
		host.Reply(c, second.ID, "result", `{"action":"cancel"}`)
		host.Contains(t, "the first call", host.Last(t, a), `"id":1`)
		o = c.Post(host.Call("3", "ask", `{"question":"?"}`))
		host.Reply(c, host.NextQuestion(t, o).ID, "result", `{"action":"cancel"}`)
		host.Equal(t, "room again", host.Last(t, o), host.TextResult("3", "cancel "))
	})
}

// TestAskedWhileAway checks that a question waits in the log for a client whose
// connection is broken, and is answered after the resume.
func TestAskedWhileAway(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		h.AddTool("later", mcp.CapClientElicitationForm, func(ctx context.Context, call *troupe.Call) (string, error) {
			if err := host.Sleep(ctx, 10_000); err != nil {
				return "", err
			}
			r, err := call.Elicit(ctx, "?", host.Form)
			return string(r.Action), err
		})
		c := h.Session()
		a := c.Post(host.Call("1", "later", `{}`))
		prime, _ := a.Next()
		a.Close()
		time.Sleep(5 * time.Minute)
		b := c.Get(prime.ID)
		q := host.NextQuestion(t, b)
		b.Close() // and away again
		host.Reply(c, q.ID, "result", `{"action":"accept"}`)
		time.Sleep(time.Minute)
		rest := host.Payloads(c.Get(prime.ID).All())
		if len(rest) != 2 || !strings.Contains(rest[0], string(q.ID)) || rest[1] != host.TextResult("1", "accept") {
			t.Errorf("after the second return: %v", rest)
		}
	})
}

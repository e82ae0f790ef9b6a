package stateless_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestStatelessQuestionsAndAnswers checks how each kind of question looks inside a
// result, and which answers are accepted: for any other answer the question comes again
// (2026-07-28, basic/patterns/mrtr, error handling; client/elicitation, sampling,
// roots).
func TestStatelessQuestionsAndAnswers(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		troupe.AddTool(h.Server, troupe.Tool{Name: "any", Needs: mcp.CapClientElicitationForm | mcp.CapClientElicitationURL | mcp.CapClientSampling | mcp.CapClientRoots},
			func(ctx context.Context, call *troupe.Call, in struct {
				Kind string `json:"kind"`
			}) (string, error) {
				q := map[string]troupe.Question{
					"form": troupe.Elicit("q", "Who?", host.Form),
					"url":  troupe.ElicitURL("q", "Sign in.", "id-1", "https://x.example/sign-in"),
					"sample": troupe.Sample("q", mcp.CreateMessageParams{MaxTokens: 9, SystemPrompt: "Be brief.",
						Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Blocks(mcp.Text("Hi"))}}}),
					"roots": troupe.Roots("q"),
				}[in.Kind]
				a, err := call.Ask(ctx, q)
				if err != nil {
					return "", err
				}
				switch in.Kind {
				case "sample":
					r, err := a.Sampled("q")
					return r.Model, err
				case "roots":
					r, err := a.Roots("q")
					return fmt.Sprint(len(r)), err
				}
				r, err := a.Elicited("q")
				return string(r.Action) + string(r.Content), err
			})
		m := h.Stateless(host.EveryCapability)
		for _, tt := range []struct {
			kind, question string
			again          []string
			taken          map[string]string
		}{
			{"form", `{"method":"elicitation/create","params":{"mode":"form","message":"Who?","requestedSchema":{"type":"object","properties":{"answer":{"type":"string"}},"required":["answer"]}}}`,
				[]string{`null`, `7`, `"x"`, `[]`, `{}`, `{"action":"perhaps"}`, `{"action":1}`, `{"action":"accept","content":[]}`, `{"action":"accept","content":"x"}`},
				map[string]string{`{"action":"decline"}`: "decline", `{"action":"cancel","extra":1}`: "cancel", `{"action":"accept","content":{"answer":"x"}}`: `accept{"answer":"x"}`}},
			{"url", `{"method":"elicitation/create","params":{"mode":"url","message":"Sign in.","url":"https://x.example/sign-in"}}`,
				[]string{`{}`}, map[string]string{`{"action":"accept"}`: "accept"}},
			{"sample", `{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"Hi"}}],"systemPrompt":"Be brief.","maxTokens":9}}`,
				[]string{`{}`, `{"role":"assistant","content":{"type":"text","text":"x"}}`, `{"role":"system","model":"m","content":{"type":"text","text":"x"}}`, `{"role":"assistant","model":"m"}`, `{"role":"assistant","model":"m","content":"x"}`},
				map[string]string{`{"role":"assistant","model":"m","content":{"type":"text","text":"x"},"stopReason":"own"}`: "m", `{"role":"assistant","model":"n","content":[]}`: "n"}},
			{"roots", `{"method":"roots/list","params":{}}`,
				[]string{`{}`, `[]`, `{"roots":null}`, `{"roots":{}}`, `{"roots":[1]}`},
				map[string]string{`{"roots":[]}`: "0", `{"roots":[{"uri":"file:///a","name":"a"},{"uri":"file:///b"}]}`: "2"}},
		} {
			args := `{"kind":"` + tt.kind + `"}`
			for answer, want := range tt.taken {
				a, id := m.Tool("any", args)
				host.Contains(t, tt.kind, a.Body, `"inputRequests":{"q":`+tt.question+`}`)
				state := m.Parked(a, id, "q")
				for _, bad := range tt.again {
					a, id = m.Tool("any", args, state, `"inputResponses":{"q":`+bad+`}`)
					state = m.Parked(a, id, "q")
				}
				host.Equal(t, tt.kind+" "+answer, m.Done(m.Tool("any", args, state, `"inputResponses":{"q":`+answer+`,"unasked":{}}`)), want)
			}
		}
		// A client gets no question that it cannot answer, whatever the handler wants.
		for kind, caps := range map[string]string{"form": `{"elicitation":{"url":{}},"sampling":{},"roots":{}}`, "url": `{"elicitation":{},"sampling":{},"roots":{}}`,
			"sample": `{"elicitation":{"form":{},"url":{}},"roots":{}}`, "roots": `{"elicitation":{"form":{},"url":{}},"sampling":{}}`} {
			m.Capabilities = caps
			a, _ := m.Tool("any", `{"kind":"`+kind+`"}`)
			if a.StatusCode != 400 || !strings.Contains(a.Body, `"code":-32021,`) || strings.Contains(a.Body, "inputRequests") {
				t.Errorf("%s of a client with %s: %s %s", kind, caps, a.Status, a.Body)
			}
		}
	})
}

// TestKeysOfQuestionsAreUnique checks that no question is mistaken for another,
// whatever keys a handler gives them.
func TestKeysOfQuestionsAreUnique(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		troupe.AddTool(h.Server, troupe.Tool{Name: "keys", Needs: mcp.CapClientElicitationForm}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			var all []string
			for _, key := range []string{"a-2", "a", "a", "a", "a-2", ""} {
				r, err := call.Ask(ctx, troupe.Elicit(key, "?", host.Form))
				if err != nil {
					return "", err
				}
				x, err := r.Elicited(key)
				if err != nil {
					return "", err
				}
				all = append(all, string(x.Content))
			}
			return strings.Join(all, ""), nil
		})
		m := h.Stateless(host.EveryCapability)
		a, id := m.Tool("keys", `{}`)
		want := ""
		for i, key := range []string{"a-2", "a", "a-3", "a-4", "a-2-2", ""} {
			state := m.Parked(a, id, key)
			a, id = m.Tool("keys", `{}`, state, host.Given(key, fmt.Sprint(i)))
			want += fmt.Sprintf(`{"answer":"%d"}`, i)
		}
		host.Equal(t, "answers", m.Done(a, id), want)
	})
}

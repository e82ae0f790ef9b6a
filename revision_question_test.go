package troupe_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/testkit"
	"github.com/troupe-run/troupe/mcp"
)

// everything is what a client of any revision may declare, whether it has it or not.
const everything = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{},"context":{}},"roots":{"listChanged":true},"tasks":{"list":{}}}`

// TestQuestionsOfEachRevision has the same handlers ask clients of each revision.
func TestQuestionsOfEachRevision(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		choice := mcp.FormSchema{Properties: []mcp.Property{
			{Name: "name", Schema: &mcp.StringSchema{Default: new("Ann")}},
			{Name: "color", Schema: &mcp.TitledEnumSchema{OneOf: []mcp.EnumOption{{Const: "r", Title: "Red"}}, Default: new("r")}},
		}}
		several := mcp.FormSchema{Properties: []mcp.Property{{Name: "colors", Schema: &mcp.MultiEnumSchema{Items: mcp.EnumItems{Enum: []string{"r"}}}}}}
		messages := func(blocks ...mcp.Content) mcp.CreateMessageParams {
			return mcp.CreateMessageParams{MaxTokens: 1, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Blocks(blocks...)}}}
		}
		// Handlers may share what they ask between calls.
		spoken := messages(&mcp.TextContent{Text: "Hear:"}, mcp.Audio([]byte("abc"), "audio/wav"))
		written := messages(mcp.Text("a"), mcp.Text("b"))
		elicit := func(form mcp.FormSchema) func(context.Context, *troupe.Call) error {
			return func(ctx context.Context, call *troupe.Call) error {
				_, err := call.Elicit(ctx, "Which?", form)
				return err
			}
		}
		sample := func(p mcp.CreateMessageParams) func(context.Context, *troupe.Call) error {
			return func(ctx context.Context, call *troupe.Call) error { _, err := call.Sample(ctx, p); return err }
		}
		const accepted, said = `{"action":"decline"}`, `{"role":"assistant","content":{"type":"text","text":"x"},"model":"m"}`
		const undeclared, inexpressible = "troupe: the client does not declare this capability: ", ": the client's revision cannot express this"
		for _, row := range []struct {
			name   string
			ask    func(context.Context, *troupe.Call) error
			answer string
			want   map[string]string // by revision: the params, or what the handler is told after "!"
		}{
			{"form", elicit(choice), accepted, map[string]string{
				r24: "!" + undeclared + "elicitation.form (revision 2024-11-05 has no elicitation.form)",
				r03: "!" + undeclared + "elicitation.form (revision 2025-03-26 has no elicitation.form)",
				r06: `{"message":"Which?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"},"color":{"type":"string","enum":["r"],"enumNames":["Red"]}}}}`,
				r11: `{"mode":"form","message":"Which?","requestedSchema":{"type":"object","properties":{"name":{"type":"string","default":"Ann"},"color":{"type":"string","oneOf":[{"const":"r","title":"Red"}],"default":"r"}}}}`,
			}},
			{"choice of several", elicit(several), accepted, map[string]string{
				r06: "!" + `mcp: a choice of several values (field "colors") to a client of 2025-06-18` + inexpressible,
				r11: `{"mode":"form","message":"Which?","requestedSchema":{"type":"object","properties":{"colors":{"type":"array","items":{"type":"string","enum":["r"]}}}}}`,
			}},
			{"url", func(ctx context.Context, call *troupe.Call) error {
				_, err := call.ElicitURL(ctx, "Pay", "1", "https://x.example/")
				return err
			}, accepted, map[string]string{
				r03: "!" + undeclared + "elicitation.url (revision 2025-03-26 has no elicitation.url)",
				r06: "!" + undeclared + "elicitation.url (revision 2025-06-18 has no elicitation.url)",
				r11: `{"mode":"url","message":"Pay","elicitationId":"1","url":"https://x.example/"}`,
			}},
			{"several blocks", sample(written), said, map[string]string{
				r24: `{"messages":[{"role":"user","content":{"type":"text","text":"a"}},{"role":"user","content":{"type":"text","text":"b"}}],"maxTokens":1}`,
				r06: `{"messages":[{"role":"user","content":{"type":"text","text":"a"}},{"role":"user","content":{"type":"text","text":"b"}}],"maxTokens":1}`,
				r11: `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}],"maxTokens":1}`,
			}},
			{"audio", sample(spoken), said, map[string]string{
				r24: "!mcp: audio content in sampling to a client of 2024-11-05" + inexpressible,
				r03: `{"messages":[{"role":"user","content":{"type":"text","text":"Hear:"}},{"role":"user","content":{"type":"audio","data":"YWJj","mimeType":"audio/wav"}}],"maxTokens":1}`,
				r11: `{"messages":[{"role":"user","content":[{"type":"text","text":"Hear:"},{"type":"audio","data":"YWJj","mimeType":"audio/wav"}]}],"maxTokens":1}`,
			}},
			{"tools", sample(mcp.CreateMessageParams{Tools: []mcp.Tool{{Name: "t"}}}), said, map[string]string{
				r06: "!" + undeclared + "sampling.tools (revision 2025-06-18 has no sampling.tools)",
			}},
		} {
			var told error
			h.tool("asker", 0, func(ctx context.Context, call *troupe.Call) (string, error) {
				told = row.ask(ctx, call)
				return "asked", nil
			})
			for r, want := range row.want {
				c := h.client().InitializeAs(r, everything)
				a := c.Post(call("1", "asker", `{}`))
				if failure, failed := strings.CutPrefix(want, "!"); failed {
					equal(t, r+" "+row.name, a.Body, textResult("1", "asked"))
					if told == nil || !strings.HasSuffix(told.Error(), failure) {
						t.Errorf("%s %s: the handler is told %v, want %s", r, row.name, told, failure)
					}
					if undeclared := strings.Contains(failure, "declare"); errors.Is(told, troupe.ErrUndeclared) != undeclared || errors.Is(told, mcp.ErrInexpressible) == undeclared {
						t.Errorf("%s %s: %v is not the error it should be", r, row.name, told)
					}
					continue
				}
				q := nextQuestion(t, a)
				equal(t, r+" "+row.name, string(q.Params), want)
				reply(c, q.ID, "result", row.answer)
				equal(t, r+" "+row.name, last(t, a), textResult("1", "asked"))
				if told != nil {
					t.Errorf("%s %s: %v", r, row.name, told)
				}
			}
		}
		if b := spoken.Messages[0].Content.Blocks[0].(*mcp.TextContent); b.Type != "" {
			t.Error("what a handler asks has changed")
		}
	})
}

// TestCapabilitiesOfEachRevision holds that a capability counts only where the
// revision has it, whatever the client declares.
func TestCapabilitiesOfEachRevision(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		h.tool("which", 0, func(_ context.Context, call *troupe.Call) (string, error) {
			caps := call.Peer().Capabilities()
			var have []string
			for c := mcp.CapClientRoots; c <= mcp.CapClientTasksExtension; c++ {
				if caps.Has(c) {
					have = append(have, c.String())
				}
			}
			return fmt.Sprint(call.Peer().Revision(), have), nil
		})
		h.tool("form", troupe.NeedsElicitation, func(context.Context, *troupe.Call) (string, error) { return "ran", nil })
		for r, want := range map[string]string{
			r24: "[roots roots.listChanged sampling]",
			r03: "[roots roots.listChanged sampling]",
			r06: "[roots roots.listChanged sampling elicitation elicitation.form]",
			r11: "[roots roots.listChanged sampling sampling.context sampling.tools elicitation elicitation.form elicitation.url tasks tasks.list]",
		} {
			c := h.client().InitializeAs(r, everything)
			equal(t, r, c.Post(call("1", "which", `{}`)).Body, textResult("1", r+want))
			form := textResult("2", "ran")
			if r < r06 {
				form = fault("2", invalid, "the client must declare: elicitation.form (revision "+r+" has no elicitation.form)", `{"requiredCapabilities":{"elicitation":{"form":{}}}}`)
			}
			equal(t, r+" form", c.Post(call("2", "form", `{}`)).Body, form)
		}
	})
}

// TestURLsThatCannotBeOpened holds that clients without elicitation by URL get an
// error they know, and no notification of its end.
func TestURLsThatCannotBeOpened(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		locked := func() error {
			return troupe.URLRequired(mcp.ElicitURL{Message: "Sign in", ElicitationID: "1", URL: "https://in.example.com/"})
		}
		h.tool("locked", 0, func(context.Context, *troupe.Call) (string, error) { return "", locked() })
		h.tool("complete", 0, func(ctx context.Context, call *troupe.Call) (string, error) {
			return "told", call.ElicitationComplete(ctx, "1")
		})
		troupe.AddPrompt(h.srv, troupe.Prompt{Name: "locked"}, func(context.Context, *troupe.Call, map[string]string) (*mcp.GetPromptResult, error) {
			return nil, locked()
		})
		troupe.AddResource(h.srv, mcp.Resource{URI: "test://locked", Name: "locked"},
			func(context.Context, *troupe.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
				return nil, locked()
			})
		for _, row := range []struct{ revision, caps, why string }{
			{r24, everything, "elicitation.url (revision 2024-11-05 has no elicitation.url)"},
			{r06, everything, "elicitation.url (revision 2025-06-18 has no elicitation.url)"},
			{r11, `{"elicitation":{}}`, "elicitation.url"},
			{r11, everything, ""},
		} {
			want := fault("1", invalid, "the user must open a URL first, but the client must declare: "+row.why, `{"requiredCapabilities":{"elicitation":{"url":{}}}}`)
			if row.why == "" {
				want = fault("1", -32042, "the user must open a URL first", `{"elicitations":[{"mode":"url","message":"Sign in","elicitationId":"1","url":"https://in.example.com/"}]}`)
			}
			c := h.client().InitializeAs(row.revision, row.caps)
			for _, request := range []string{call("1", "locked", `{}`), method("1", "prompts/get", `{"name":"locked"}`), method("1", "resources/read", `{"uri":"test://locked"}`)} {
				equal(t, row.revision+" "+row.caps, c.Post(request).Body, want)
			}
			if a := c.Post(call("1", "complete", `{}`)); row.revision < r11 {
				equal(t, row.revision+" complete", a.Body, textResult("1", "told"))
			} else if a.Stream() {
				contains(t, row.revision+" complete", strings.Join(payloads(a.All()), ""), "notifications/elicitation/complete")
			}
		}
	})
}

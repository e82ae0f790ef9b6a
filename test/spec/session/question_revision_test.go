package session_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// everything declares all capabilities that a client of any revision may have.
const everything = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{},"context":{}},"roots":{"listChanged":true},"tasks":{"list":{}}}`

// TestQuestionsOfEachRevision has the same handlers ask clients of each revision.
func TestQuestionsOfEachRevision(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
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
			want   map[string]string // by revision: the params, or after "!" the error of the handler
		}{
			{"form", elicit(choice), accepted, map[string]string{
				host.R20241105: "!" + undeclared + "elicitation.form (revision 2024-11-05 has no elicitation.form)",
				host.R20250326: "!" + undeclared + "elicitation.form (revision 2025-03-26 has no elicitation.form)",
				host.R20250618: `{"message":"Which?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"},"color":{"type":"string","enum":["r"],"enumNames":["Red"]}}}}`,
				host.R20251125: `{"mode":"form","message":"Which?","requestedSchema":{"type":"object","properties":{"name":{"type":"string","default":"Ann"},"color":{"type":"string","oneOf":[{"const":"r","title":"Red"}],"default":"r"}}}}`,
			}},
			{"choice of several", elicit(several), accepted, map[string]string{
				host.R20250618: "!" + `mcp: a choice of several values (field "colors") to a client of 2025-06-18` + inexpressible,
				host.R20251125: `{"mode":"form","message":"Which?","requestedSchema":{"type":"object","properties":{"colors":{"type":"array","items":{"type":"string","enum":["r"]}}}}}`,
			}},
			{"url", func(ctx context.Context, call *troupe.Call) error {
				_, err := call.ElicitURL(ctx, "Pay", "1", "https://x.example/")
				return err
			}, accepted, map[string]string{
				host.R20250326: "!" + undeclared + "elicitation.url (revision 2025-03-26 has no elicitation.url)",
				host.R20250618: "!" + undeclared + "elicitation.url (revision 2025-06-18 has no elicitation.url)",
				host.R20251125: `{"mode":"url","message":"Pay","elicitationId":"1","url":"https://x.example/"}`,
			}},
			{"several blocks", sample(written), said, map[string]string{
				host.R20241105: `{"messages":[{"role":"user","content":{"type":"text","text":"a"}},{"role":"user","content":{"type":"text","text":"b"}}],"maxTokens":1}`,
				host.R20250618: `{"messages":[{"role":"user","content":{"type":"text","text":"a"}},{"role":"user","content":{"type":"text","text":"b"}}],"maxTokens":1}`,
				host.R20251125: `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}],"maxTokens":1}`,
			}},
			{"audio", sample(spoken), said, map[string]string{
				host.R20241105: "!mcp: audio content in sampling to a client of 2024-11-05" + inexpressible,
				host.R20250326: `{"messages":[{"role":"user","content":{"type":"text","text":"Hear:"}},{"role":"user","content":{"type":"audio","data":"YWJj","mimeType":"audio/wav"}}],"maxTokens":1}`,
				host.R20251125: `{"messages":[{"role":"user","content":[{"type":"text","text":"Hear:"},{"type":"audio","data":"YWJj","mimeType":"audio/wav"}]}],"maxTokens":1}`,
			}},
			{"tools", sample(mcp.CreateMessageParams{Tools: []mcp.Tool{{Name: "t"}}}), said, map[string]string{
				host.R20250618: "!" + undeclared + "sampling.tools (revision 2025-06-18 has no sampling.tools)",
			}},
		} {
			var told error
			h.AddTool("asker", 0, func(ctx context.Context, call *troupe.Call) (string, error) {
				told = row.ask(ctx, call)
				return "asked", nil
			})
			for r, want := range row.want {
				c := h.Client().InitializeAs(r, everything)
				a := c.Post(host.Call("1", "asker", `{}`))
				if failure, failed := strings.CutPrefix(want, "!"); failed {
					host.Equal(t, r+" "+row.name, a.Body, host.TextResult("1", "asked"))
					if told == nil || !strings.HasSuffix(told.Error(), failure) {
						t.Errorf("%s %s: the handler is told %v, want %s", r, row.name, told, failure)
					}
					if undeclared := strings.Contains(failure, "declare"); errors.Is(told, troupe.ErrUndeclared) != undeclared || errors.Is(told, mcp.ErrInexpressible) == undeclared {
						t.Errorf("%s %s: %v is not the error it should be", r, row.name, told)
					}
					continue
				}
				q := host.NextQuestion(t, a)
				host.Equal(t, r+" "+row.name, string(q.Params), want)
				host.Reply(c, q.ID, "result", row.answer)
				host.Equal(t, r+" "+row.name, host.Last(t, a), host.TextResult("1", "asked"))
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

// TestCapabilitiesOfEachRevision checks that a capability counts only where the
// revision has it, whatever the client declares.
func TestCapabilitiesOfEachRevision(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		h.AddTool("which", 0, func(_ context.Context, call *troupe.Call) (string, error) {
			caps := call.Peer().Capabilities()
			var have []string
			for c := mcp.CapClientRoots; c <= mcp.CapClientTasksExtension; c <<= 1 {
				if caps.Has(c) {
					have = append(have, c.String())
				}
			}
			return fmt.Sprint(call.Peer().Revision(), have), nil
		})
		h.AddTool("form", mcp.CapClientElicitationForm, func(context.Context, *troupe.Call) (string, error) { return "ran", nil })
		for r, want := range map[string]string{
			host.R20241105: "[roots roots.listChanged sampling]",
			host.R20250326: "[roots roots.listChanged sampling]",
			host.R20250618: "[roots roots.listChanged sampling elicitation elicitation.form]",
			host.R20251125: "[roots roots.listChanged sampling sampling.context sampling.tools elicitation elicitation.form elicitation.url tasks tasks.list]",
		} {
			c := h.Client().InitializeAs(r, everything)
			host.Equal(t, r, c.Post(host.Call("1", "which", `{}`)).Body, host.TextResult("1", r+want))
			form := host.TextResult("2", "ran")
			if r < host.R20250618 {
				form = host.Fault("2", host.Invalid, "the client must declare: elicitation.form (revision "+r+" has no elicitation.form)", `{"requiredCapabilities":{"elicitation":{"form":{}}}}`)
			}
			host.Equal(t, r+" form", c.Post(host.Call("2", "form", `{}`)).Body, form)
		}
	})
}

// TestURLsThatCannotBeOpened checks that clients without elicitation by URL get an
// error that they know, and no notification of its end.
func TestURLsThatCannotBeOpened(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		locked := func() error {
			return troupe.URLRequired(mcp.ElicitURL{Message: "Sign in", ElicitationID: "1", URL: "https://in.example.com/"})
		}
		h.AddTool("locked", 0, func(context.Context, *troupe.Call) (string, error) { return "", locked() })
		h.AddTool("complete", 0, func(ctx context.Context, call *troupe.Call) (string, error) {
			return "told", call.ElicitationComplete(ctx, "1")
		})
		troupe.AddPrompt(h.Server, troupe.Prompt{Name: "locked"}, func(context.Context, *troupe.Call, map[string]string) (*mcp.GetPromptResult, error) {
			return nil, locked()
		})
		troupe.AddResource(h.Server, mcp.Resource{URI: "test://locked", Name: "locked"},
			func(context.Context, *troupe.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
				return nil, locked()
			})
		for _, row := range []struct{ revision, caps, why string }{
			{host.R20241105, everything, "elicitation.url (revision 2024-11-05 has no elicitation.url)"},
			{host.R20250618, everything, "elicitation.url (revision 2025-06-18 has no elicitation.url)"},
			{host.R20251125, `{"elicitation":{}}`, "elicitation.url"},
			{host.R20251125, everything, ""},
		} {
			want := host.Fault("1", host.Invalid, "the user must open a URL first, but the client must declare: "+row.why, `{"requiredCapabilities":{"elicitation":{"url":{}}}}`)
			if row.why == "" {
				want = host.Fault("1", -32042, "the user must open a URL first", `{"elicitations":[{"mode":"url","message":"Sign in","elicitationId":"1","url":"https://in.example.com/"}]}`)
			}
			c := h.Client().InitializeAs(row.revision, row.caps)
			for _, request := range []string{host.Call("1", "locked", `{}`), host.Method("1", "prompts/get", `{"name":"locked"}`), host.Method("1", "resources/read", `{"uri":"test://locked"}`)} {
				host.Equal(t, row.revision+" "+row.caps, c.Post(request).Body, want)
			}
			if a := c.Post(host.Call("1", "complete", `{}`)); row.revision < host.R20251125 {
				host.Equal(t, row.revision+" complete", a.Body, host.TextResult("1", "told"))
			} else if a.Stream() {
				host.Contains(t, row.revision+" complete", strings.Join(host.Payloads(a.All()), ""), "notifications/elicitation/complete")
			}
		}
	})
}

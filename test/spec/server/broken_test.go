package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/troupetest"
)

// brokenBlocks are content that no client could read, by what is said of it.
var brokenBlocks = map[string]mcp.Content{
	"it is nil":                              nil,
	"it is nil: *mcp.ImageContent":           (*mcp.ImageContent)(nil),
	"neither text nor a blob":                mcp.Embed(mcp.ResourceContents{URI: "a://b"}),
	"its _meta has a value that is no JSON":  &mcp.TextContent{Text: "x", Meta: mcp.Meta{"a": json.RawMessage(`{`)}},
	"its _meta has a value that is no JSON ": mcp.Embed(mcp.ResourceContents{URI: "a://b", Text: new("x"), Meta: mcp.Meta{"a": json.RawMessage(`{`)}}),
	"it is no object with a type":            &mcp.UnknownContent{Type: "x", Raw: json.RawMessage(`{"type":`)},
	"it is no object with a type ":           &mcp.UnknownContent{Type: "x", Raw: json.RawMessage(`"x"`)},
	"it is no object with a type  ":          &mcp.UnknownContent{},
	"its input is no object":                 mcp.ToolUse("1", "t", mcp.Object(`[`)),
	"content 1: it is nil":                   mcp.ToolResult("1", mcp.Text("x"), nil),
	"its structured content is no JSON":      &mcp.ToolResultContent{ToolUseID: "1", StructuredContent: json.RawMessage{}},
}

// TestBrokenContentOfAHandler checks that what a handler returns and no client could read becomes an internal error in every revision,
// and that the log names the fault.
func TestBrokenContentOfAHandler(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var log strings.Builder
		srv := troupe.NewServer(mcp.Implementation{Name: "t", Version: "1"}, nil)
		var result *mcp.CallToolResult
		var message mcp.PromptMessage
		var contents mcp.ResourceContents
		var block mcp.Content
		troupe.AddTool(srv, troupe.Tool{Name: "result"}, func(context.Context, *troupe.Call, struct{}) (*mcp.CallToolResult, error) { return result, nil })
		troupe.AddTool(srv, troupe.Tool{Name: "content"}, func(context.Context, *troupe.Call, struct{}) (mcp.Content, error) { return block, nil })
		troupe.AddTool(srv, troupe.Tool{Name: "typed"}, func(context.Context, *troupe.Call, struct{}) (troupe.Result[boxed[int]], error) {
			return troupe.Result[boxed[int]]{Content: mcp.Contents{block}}, nil
		})
		troupe.AddPrompt(srv, troupe.Prompt{Name: "p"}, func(context.Context, *troupe.Call, map[string]string) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Role: mcp.RoleUser, Content: mcp.Text("x")}, message}}, nil
		})
		troupe.AddResource(srv, mcp.Resource{URI: "a://b", Name: "b"}, func(context.Context, *troupe.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
			return []mcp.ResourceContents{mcp.TextResource("a://b", "", ""), contents}, nil
		})
		for _, r := range mcp.Revisions() {
			c := troupetest.Connect(t, srv, troupetest.Options{Revision: r, Runtime: troupe.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}})
			refused := func(what, method string, params any) {
				t.Helper()
				log.Reset()
				var got json.RawMessage
				err := c.Do(t.Context(), method, params, &got)
				if wire, ok := errors.AsType[*mcp.Error](err); !ok || wire.Code != mcp.CodeInternalError {
					t.Errorf("%v, %s: %s: got %s, %v, want an internal error", r, method, what, got, err)
				}
				if line := log.String(); !strings.Contains(line, "level=ERROR") || !strings.Contains(line, strings.TrimSpace(what)) || !strings.Contains(line, method) {
					t.Errorf("%v, %s: %s: the log has %s", r, method, what, line)
				}
			}
			tool := func(name string) any { return map[string]any{"name": name} }
			for what, broken := range brokenBlocks {
				block, message = broken, mcp.PromptMessage{Role: mcp.RoleUser, Content: broken}
				result = &mcp.CallToolResult{Content: mcp.Contents{mcp.Text("x"), broken}}
				refused(what, "tools/call", tool("result"))
				refused(what, "tools/call", tool("content"))
				refused(what, "tools/call", tool("typed"))
				refused(what, "prompts/get", tool("p"))
			}
			for what, broken := range map[string]*mcp.CallToolResult{
				"the structured content is not JSON":    {StructuredContent: json.RawMessage(`{bad`)},
				"the structured content is not JSON ":   {StructuredContent: json.RawMessage{}, IsError: true},
				"its _meta has a value that is no JSON": {Meta: mcp.Meta{"a": json.RawMessage(`{`)}},
				"the handler returned no result":        nil,
			} {
				result = broken
				refused(what, "tools/call", tool("result"))
			}
			message = mcp.PromptMessage{Content: mcp.Text("x")}
			refused(`message 1: its role is neither user nor assistant`, "prompts/get", tool("p"))
			for what, broken := range map[string]mcp.ResourceContents{"contents 1: it has neither text nor a blob": {URI: "a://b"}, "contents 1: its _meta has a value that is no JSON": {Text: new(""), Meta: mcp.Meta{"a": json.RawMessage(`{`)}}} {
				contents = broken
				refused(what, "resources/read", map[string]any{"uri": "a://b"})
			}
			// What is whole passes, an empty text among it.
			result = &mcp.CallToolResult{Content: mcp.Contents{mcp.Text(""), mcp.Embed(mcp.TextResource("a://b", "", "")), &mcp.UnknownContent{Type: "new"}, &mcp.UnknownContent{Raw: json.RawMessage(` {"type":"x"} `)}}, Meta: mcp.Meta{}}
			message = mcp.PromptMessage{Role: mcp.RoleAssistant, Content: &mcp.ImageContent{MIMEType: "image/png"}}
			contents = mcp.BlobResource("a://b", "", nil)
			for method, params := range map[string]any{"tools/call": tool("result"), "prompts/get": tool("p"), "resources/read": map[string]any{"uri": "a://b"}} {
				var got json.RawMessage
				if err := c.Do(t.Context(), method, params, &got); err != nil {
					t.Errorf("%v, %s: %v", r, method, err)
				}
				if method == "prompts/get" && !strings.Contains(string(got), `"content":{"type":"image"`) {
					t.Errorf("%v: a literal block of a prompt became %s", r, got)
				}
			}
			c.Close()
		}
	})
}

// TestBrokenQuestion checks that a handler hears that its question to the model has content that no client could read.
func TestBrokenQuestion(t *testing.T) {
	t.Parallel()
	for what, block := range brokenBlocks {
		for _, r := range mcp.Revisions() {
			_, err := protocol.SamplingFor(mcp.CreateMessageParams{Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Blocks(block)}}}, r)
			if err == nil || !strings.Contains(err.Error(), "message 0: content 0: ") || !strings.Contains(err.Error(), strings.TrimSpace(what)) {
				t.Errorf("%v: %s: %v", r, what, err)
			}
		}
	}
}

// TestNullForARequiredArgument checks that a prompt's arguments that are null count as absent.
func TestNullForARequiredArgument(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		srv := troupe.NewServer(mcp.Implementation{Name: "t", Version: "1"}, nil)
		var got map[string]string
		troupe.AddPrompt(srv, troupe.Prompt{Name: "p", Arguments: []mcp.PromptArgument{{Name: "a", Required: true}, {Name: "b"}}},
			func(_ context.Context, _ *troupe.Call, args map[string]string) (*mcp.GetPromptResult, error) {
				got = args
				return &mcp.GetPromptResult{}, nil
			})
		for _, r := range mcp.Revisions() {
			c := troupetest.Connect(t, srv, troupetest.Options{Revision: r})
			for args, want := range map[string]string{`{"a":null}`: "missing argument: a", `{"a":"x","a":null}`: "missing argument: a", `{"b":"x"}`: "missing argument: a", `null`: "missing argument: a", `{"a":1}`: "string"} {
				err := c.Do(t.Context(), "prompts/get", map[string]any{"name": "p", "arguments": json.RawMessage(args)}, nil)
				if wire, ok := errors.AsType[*mcp.Error](err); !ok || wire.Code != mcp.CodeInvalidParams || !strings.Contains(wire.Message, want) {
					t.Errorf("%v: %s: got %v, %v, want %q", r, args, got, err, want)
				}
			}
			for _, args := range []string{`{"a":"","b":null}`, `{"a":null,"a":"","b":null}`} {
				if err := c.Do(t.Context(), "prompts/get", map[string]any{"name": "p", "arguments": json.RawMessage(args)}, nil); err != nil || len(got) != 1 || got["a"] != "" {
					t.Errorf("%v: %s: got %v, %v, want an empty text alone", r, args, got, err)
				}
			}
			c.Close()
		}
	})
}

// TestPointersInResults checks that a handler's pointer has the schema of what it points to in every revision that lists one, and that
// it must not be nil.
func TestPointersInResults(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		srv := troupe.NewServer(mcp.Implementation{Name: "t", Version: "1"}, nil)
		var out *boxed[int]
		troupe.AddTool(srv, troupe.Tool{Name: "a"}, func(context.Context, *troupe.Call, struct{}) (*boxed[int], error) { return out, nil })
		troupe.AddTool(srv, troupe.Tool{Name: "b"}, func(context.Context, *troupe.Call, struct{}) (troupe.Result[*boxed[int]], error) {
			return troupe.Result[*boxed[int]]{Structured: out, Content: mcp.Contents{mcp.Text("x")}}, nil
		})
		troupe.AddTool(srv, troupe.Tool{Name: "own", OutputSchema: json.RawMessage(`{"type":["object","null"]}`)}, func(context.Context, *troupe.Call, struct{}) (*boxed[int], error) { return out, nil })
		for _, r := range mcp.Revisions() {
			c := troupetest.Connect(t, srv, troupetest.Options{Revision: r})
			tools, err := c.Tools(t.Context())
			if err != nil || len(tools) != 3 {
				t.Fatal(r, tools, err)
			}
			want := ""
			if protocol.Has(r, protocol.FeatureStructuredOutput) {
				want = `{"type":"object","properties":{"v":{"type":"integer"}},"required":["v"],"additionalProperties":false}`
			}
			for _, tool := range tools[:2] {
				if string(tool.OutputSchema) != want {
					t.Errorf("%v: the output schema of %s is %s", r, tool.Name, tool.OutputSchema)
				}
				out = &boxed[int]{7}
				got, err := c.CallTool(t.Context(), tool.Name, struct{}{})
				if err != nil || want != "" && string(got.StructuredContent) != `{"v":7}` {
					t.Errorf("%v: %s returned %+v, %v", r, tool.Name, got, err)
				}
				out = nil
				got, err = c.CallTool(t.Context(), tool.Name, struct{}{})
				if wire, ok := errors.AsType[*mcp.Error](err); !ok || wire.Code != mcp.CodeInternalError {
					t.Errorf("%v: nil of %s became %+v, %v", r, tool.Name, got, err)
				}
			}
			if got, err := c.CallTool(t.Context(), "own", struct{}{}); err != nil || got.IsError {
				t.Errorf("%v: nil, which the tool's own schema allows, became %+v, %v", r, got, err)
			}
			c.Close()
		}
	})
}

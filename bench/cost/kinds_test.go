//go:build full

package cost

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// kind is a kind of message.
type kind struct {
	name   string
	small  string // the message that others grow from
	header func(body []byte) http.Header
	asks   bool // the body lacks a requestState, which the same request without answers brings

	// heap and allocs bound what a byte may cost; 0 is the bound of most kinds.
	heap, allocs float64
}

// bounds are those of docs/limits.md on the heap that each byte of a message may take, in bytes and in allocations,
// beyond a small one of its kind.
func (k *kind) bounds() (heap, allocs float64) { return cmp.Or(k.heap, 450), cmp.Or(k.allocs, 7) }

const (
	stateless = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"a","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}`
	call      = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":`
)

// kinds are those that a server decodes or validates.
func kinds() []kind {
	now := func(method, name string) func([]byte) http.Header {
		return func([]byte) http.Header {
			h := http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {method}}
			if name != "" {
				h["Mcp-Name"] = []string{name}
			}
			return h
		}
	}
	repeated := func(body []byte) http.Header { // the argument that a header repeats
		h := now("tools/call", "routed")(body)
		text, _ := codec.Str(codec.Field(codec.Field(codec.Field(body, "params"), "arguments"), "text"))
		h["Mcp-Param-Text"] = []string{"=?base64?" + base64.StdEncoding.EncodeToString([]byte(text)) + "?="}
		return h
	}
	return []kind{
		{name: "initialize", small: `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"experimental":{"a":{}},"extensions":{"b/c":{}},"sampling":{"context":{}},"elicitation":{"form":{}},"z":{}},"clientInfo":{"name":"a","version":"1","title":"t"}}}`},
		{name: "raw-tool", heap: 800, allocs: 16, small: call + `"raw","arguments":{"items":[1,"a"],"map":{"x1":1},"kids":[{"kids":[]}],"note":"a","any":{"kind":"a"}}}}`},
		{name: "wide-tool", heap: 2200, allocs: 36, small: call + `"wide","arguments":{"rows":[{"kind":"k1"}]}}}`},
		{name: "typed-tool", small: call + `"typed","arguments":{"items":[{"a":1}],"map":{"a":["b"]},"text":"x","any":[1]}}}`},
		{name: "stateless-tool", small: call + `"typed","arguments":{"items":[{"a":1}],"map":{"a":["b"]},"text":"x","any":[1]},` + stateless + `}}`, header: now("tools/call", "typed")},
		{name: "header", small: call + `"routed","arguments":{"text":"x"},` + stateless + `}}`, header: repeated},
		{name: "completion", small: `{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":"a"},"context":{"arguments":{"a":"b"}}}}`},
		{name: "prompt", small: `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"greet","arguments":{"who":"a","b":"c"}}}`},
		{name: "listen", small: `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["test://a/1","x:y"]},` + stateless + `}}`, header: now("subscriptions/listen", "")},
		{name: "answers", small: call + `"asks","arguments":{"text":"x"},"inputResponses":{"elicit":{"action":"accept","content":{"a":"b"}},"b":{"action":"decline"}},` + stateless + `}}`, header: now("tools/call", "asks")},
		{name: "retry", small: call + `"asks","arguments":{"text":"x"},"inputResponses":{"elicit":{"action":"accept","content":{"a":"b"}}},` + stateless + `}}`, header: now("tools/call", "asks"), asks: true},
		{name: "batch", small: `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x","params":{"a":[1]}},{"jsonrpc":"2.0","id":2` + call[len(`{"jsonrpc":"2.0","id":1`):] + `"typed","arguments":{"items":[{"a":1}],"map":{},"text":"x"}}}]`},
		{name: "notification", small: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"a"}}`},
		{name: "answer", small: `{"jsonrpc":"2.0","id":"n.b.1","result":{"action":"accept","content":{"a":[1]}}}`},
	}
}

// schema has what is dear to validate: alternatives, references, patterns, and what needs the whole value.
const schema = `{"type":"object","additionalProperties":false,"properties":{
	"items":{"type":"array","uniqueItems":true,"items":{"oneOf":[{"type":"string","pattern":"^(a|b|ab)*!?$"},{"type":"integer","multipleOf":0.01},{"$ref":"#/$defs/node"}]}},
	"map":{"type":"object","patternProperties":{"^x[0-9]":{"type":"number"},"^(y|z)+":{"type":["string","null"]}},"additionalProperties":{"$ref":"#/$defs/any"}},
	"kids":{"type":"array","items":{"$ref":"#/$defs/node"},"contains":{"type":"object"}},
	"note":{"anyOf":[{"type":"string","maxLength":10},{"type":"string","pattern":"(a+)+$"},{"enum":[{"a":1},[1,2,3]]}]},
	"any":{"$ref":"#/$defs/any"}},
	"$defs":{
	"node":{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#/$defs/node"}},"kind":{"const":"a"}},"unevaluatedProperties":false,"allOf":[{"properties":{"title":{"type":"string"}}}]},
	"any":{"anyOf":[{"type":"object","required":["kind"],"properties":{"kind":{"enum":["a","b"]}},"additionalProperties":{"$ref":"#/$defs/any"}},{"type":"array","items":{"$ref":"#/$defs/any"}},{"type":["string","number","boolean","null"]}]}}}`

// arguments are those of a typed tool.
type arguments struct {
	Items []struct {
		A int `json:"a"`
	} `json:"items"`
	Map  map[string][]string `json:"map,omitempty"`
	Text string              `json:"text,omitempty"`
	Any  any                 `json:"any,omitempty"`
}

// server returns a server with handlers that do nothing.
func server() *troupe.Server {
	s := troupe.NewServer(mcp.Implementation{Name: "cost", Version: "1"}, &troupe.ServerOptions{
		Complete: func(context.Context, *troupe.Call, mcp.CompleteParams) (mcp.Completion, error) {
			return mcp.Completion{}, nil
		},
	})
	troupe.AddRawTool(s, troupe.Tool{Name: "raw", InputSchema: json.RawMessage(schema)},
		func(context.Context, *troupe.Call, json.RawMessage) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{}, nil
		})
	var alternatives []string
	for i := range 60 {
		alternatives = append(alternatives, fmt.Sprintf(`{"type":"object","required":["kind"],"properties":{"kind":{"const":"k%d"}}}`, i))
	}
	troupe.AddRawTool(s, troupe.Tool{Name: "wide", InputSchema: json.RawMessage(`{"type":"object","properties":{"rows":{"type":"array","items":{"oneOf":[` + strings.Join(alternatives, ",") + `]}}}}`)},
		func(context.Context, *troupe.Call, json.RawMessage) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{}, nil
		})
	troupe.AddTool(s, troupe.Tool{Name: "typed"}, func(context.Context, *troupe.Call, arguments) (string, error) { return "", nil })
	troupe.AddRawTool(s, troupe.Tool{Name: "routed", InputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string","x-mcp-header":"Text"}}}`)},
		func(context.Context, *troupe.Call, json.RawMessage) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{}, nil
		})
	troupe.AddTool(s, troupe.Tool{Name: "asks", Needs: mcp.CapClientElicitationForm},
		func(ctx context.Context, call *troupe.Call, _ map[string]any) (string, error) {
			form := mcp.FormSchema{Properties: []mcp.Property{{Name: "a", Schema: &mcp.StringSchema{}}}}
			_, err := call.Elicit(ctx, "?", form)
			return "", err
		})
	troupe.AddPrompt(s, troupe.Prompt{Name: "greet", Arguments: []mcp.PromptArgument{{Name: "who"}}},
		func(context.Context, *troupe.Call, map[string]string) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{}, nil
		})
	troupe.AddResourceTemplate(s, mcp.ResourceTemplate{URITemplate: "test://{a}/{b}", Name: "any"},
		func(context.Context, *troupe.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
			return nil, nil
		})
	return s
}

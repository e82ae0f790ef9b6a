package interop

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// codeResourceNotFound is the code in the tested revision; the SDK's constant is that of a later one.
const codeResourceNotFound = -32002

const (
	redPixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
	silence  = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
)

// demoTools are the tools of the demo. Each has a test with its name in this module.
var demoTools = func() (names []string) {
	text, err := os.ReadFile("../../examples/everything/tools.txt")
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(text)) {
		if name := strings.Fields(line); len(name) > 0 && name[0] != "#" {
			names = append(names, name[0])
		}
	}
	return names
}()

func TestListTools(t *testing.T) {
	inBothEras(t, func(t *testing.T, dial dialer) {
		t.Parallel()
		c := dial(t, shared, mcp.ClientOptions{})
		byName := map[string]*mcp.Tool{}
		var names []string
		for tool, err := range c.Tools(within(t), nil) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, tool.Name)
			byName[tool.Name] = tool
		}
		if n, want := len(c.wire.find(calls("tools/list"))), (len(demoTools)+pageSize-1)/pageSize; n != want {
			t.Errorf("the list has %d pages, want %d", n, want)
		}
		slices.Sort(names)
		if diff := cmp.Diff(names, demoTools); diff != "" {
			t.Errorf("tools (-got +want):\n%s", diff)
		}
		for name, want := range map[string]string{
			"measure": `{"_meta":{"ui":{"resourceUri":"ui://everything/measure"}},"name":"measure","title":"Measure a text","description":"Counts the bytes, characters and words of a text.",
			"annotations":{"readOnlyHint":true,"openWorldHint":false,"idempotentHint":false},
			"icons":[{"src":"data:image/png;base64,` + redPixel + `","mimeType":"image/png","sizes":["1x1"]}],
			"inputSchema":{"type":"object","properties":{"text":{"type":"string","description":"what to measure"}},"required":["text"],"additionalProperties":false},
			"outputSchema":{"type":"object","properties":{"bytes":{"type":"integer","description":"its length in UTF-8"},
				"characters":{"type":"integer","description":"its code points"},"words":{"type":"integer","description":"its parts between white space"}},
				"required":["bytes","characters","words"],"additionalProperties":false}}`,
			"echo": `{"name":"echo","description":"Returns the text as it is.","inputSchema":{"type":"object","properties":{
			"text":{"type":"string","description":"what to return"}},"required":["text"],"additionalProperties":false}}`,
			"sleep": `{"name":"sleep","description":"Takes its time. Cancel it to see it end early.","inputSchema":{"type":"object","properties":{
			"ms":{"type":"integer","minimum":0,"maximum":3600000,"description":"milliseconds"}},"required":["ms"],"additionalProperties":false}}`,
			"json_schema_2020_12_tool": `{"name":"json_schema_2020_12_tool","description":"Takes arguments by a schema with references, conditions and combinations.","inputSchema":{
			"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
			"$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},
			"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},"contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},
			"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],
			"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},"then":{"required":["phone"]},"else":{"required":["email"]},
			"additionalProperties":false}}`,
		} {
			sameJSON(t, "tool "+name, byName[name], want)
		}
		_, err := c.ListTools(within(t), &mcp.ListToolsParams{Cursor: "nowhere"})
		refused(t, "a list from an unknown cursor", err, jsonrpc.CodeInvalidParams, "invalid cursor")
	})
}

func TestCallTools(t *testing.T) {
	inBothEras(t, func(t *testing.T, dial dialer) {
		t.Parallel()
		c := dial(t, shared, mcp.ClientOptions{})
		for _, err := range c.Tools(within(t), nil) { // tools say since 2026-07-28 which arguments go into headers
			if err != nil {
				t.Fatal(err)
			}
		}
		long := string(slices.Repeat([]byte("æ"), 100_000))
		for _, tt := range []struct {
			name, tool string
			args       any
			want       string
		}{
			{"", "echo", map[string]any{"text": "Grüße, \u2028 \"世界\" 🎭\x00\n"}, text("Grüße, \u2028 \"世界\" 🎭\x00\n")},
			{"nothing", "echo", map[string]any{"text": ""}, text("")},
			{"much", "echo", map[string]any{"text": long}, text(long)},
			{"", "count", map[string]any{"to": 3}, text("counted to 3")},
			{"to zero", "count", map[string]any{"to": 0}, text("counted to 0")},
			{"", "sleep", map[string]any{"ms": 1}, text("slept 1 ms")},
			{"longer than a plain answer takes", "sleep", map[string]any{"ms": 400}, text("slept 400 ms")},
			{"", "test_simple_text", nil, text("This is a simple text response for testing.")},
			{"", "test_image_content", nil, `{"content":[{"type":"image","data":"` + redPixel + `","mimeType":"image/png"}]}`},
			{"", "test_audio_content", nil, `{"content":[{"type":"audio","data":"` + silence + `","mimeType":"audio/wav"}]}`},
			{"", "link", nil, `{"content":[{"type":"resource_link","uri":"test://static-text","name":"static-text","title":"Static text",
			"description":"A text that never changes.","mimeType":"text/plain"}]}`},
			{"", "measure", map[string]any{"text": "ab 世界🎭\n"}, `{"structuredContent":{"bytes":14,"characters":7,"words":2},
			"content":[{"type":"text","text":"{\"bytes\":14,\"characters\":7,\"words\":2}"}]}`},
			{"", "enter", map[string]any{"url": "https://example.com/", "visited": true}, text("come in")},
			{"", "test_embedded_resource", nil, `{"content":[{"type":"resource","resource":{"uri":"test://embedded-resource","mimeType":"text/plain","text":"This is an embedded resource content."}}]}`},
			{"", "test_multiple_content_types", nil, `{"content":[
			{"type":"text","text":"Multiple content types test:"},
			{"type":"image","data":"` + redPixel + `","mimeType":"image/png"},
			{"type":"resource","resource":{"uri":"test://mixed-content-resource","mimeType":"application/json","text":"{\"test\":\"data\",\"value\":123}"}}]}`},
			{"", "test_error_handling", nil, failed("This tool intentionally returns an error for testing")},
			{"", "test_tool_with_progress", nil, text("Tool with progress completed")},
			{"", "test_tool_with_logging", nil, text("Tool with logging executed successfully")},
			{"", "test_logging_tool", nil, text("logged")},
			{"", "test_streaming_elicitation", nil, text("streamed")},
			{"", "test_x_mcp_header", map[string]any{"region": "us-west1"}, text("region: us-west1")},
			{"", "json_schema_2020_12_tool", json.RawMessage(`{"name":"Ada","contactMethod":"email","email":"a@example.com"}`),
				text(`JSON Schema 2020-12 tool called with: {"name":"Ada","contactMethod":"email","email":"a@example.com"}`)},
		} {
			t.Run(tt.tool+" "+tt.name, func(t *testing.T) {
				t.Parallel()
				sameJSON(t, "result", c.call(t, tt.tool, tt.args), tt.want)
			})
		}
	})
}

// TestInvalidArguments checks that the error goes to the model, which can do better, and not to the client, which
// cannot.
func TestInvalidArguments(t *testing.T) {
	inBothEras(t, func(t *testing.T, dial dialer) {
		t.Parallel()
		c := dial(t, shared, mcp.ClientOptions{})
		for _, tt := range []struct{ name, tool, args string }{
			{"missing", "echo", `{}`},
			{"of another type", "echo", `{"text":1}`},
			{"unknown", "echo", `{"text":"a","more":true}`},
			{"too large", "count", `{"to":1000001}`},
			{"not whole", "sleep", `{"ms":0.5}`},
			{"without what another requires", "json_schema_2020_12_tool", `{"contactMethod":"phone","email":"a@example.com"}`},
		} {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				r := c.call(t, tt.tool, json.RawMessage(tt.args))
				if !r.IsError || len(r.Content) != 1 || r.StructuredContent != nil {
					data, _ := json.Marshal(r)
					t.Errorf("the result is %s, want an error with one text", data)
				}
			})
		}
	})
}

func TestProtocolErrors(t *testing.T) {
	t.Parallel()
	c := dial(t, shared, mcp.ClientOptions{})
	ctx := within(t)
	_, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "nothing"})
	refused(t, "an unknown tool", err, jsonrpc.CodeInvalidParams, "Unknown tool: nothing")
	_, err = c.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: []int{1}})
	refused(t, "arguments that are a list", err, jsonrpc.CodeInvalidParams, "arguments must be an object")
	_, err = c.GetPrompt(ctx, &mcp.GetPromptParams{Name: "nothing"})
	refused(t, "an unknown prompt", err, jsonrpc.CodeInvalidParams, "Unknown prompt: nothing")
	_, err = c.GetPrompt(ctx, &mcp.GetPromptParams{Name: "test_prompt_with_arguments", Arguments: map[string]string{"arg1": "a"}})
	refused(t, "a prompt without an argument", err, jsonrpc.CodeInvalidParams, "missing argument: arg2")
	_, err = c.ReadResource(ctx, &mcp.ReadResourceParams{URI: "test://nothing"})
	refused(t, "an unknown resource", err, codeResourceNotFound, "resource not found")
	_, err = c.ReadResource(ctx, &mcp.ReadResourceParams{URI: "nothing"})
	refused(t, "a relative URI", err, jsonrpc.CodeInvalidParams, "uri must be an absolute URI")
	err = c.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: "loud"})
	refused(t, "an unknown level", err, jsonrpc.CodeInvalidParams, "level must be one of debug, info, notice, warning, error, critical, alert, emergency")
	// None of this has harmed the session.
	sameJSON(t, "echo", c.call(t, "echo", map[string]any{"text": "still here"}), text("still here"))
}

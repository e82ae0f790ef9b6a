package main_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/examples/everything"
)

// contactSchema is the schema of json_schema_2020_12_tool. Clients get it byte for byte.
const contactSchema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",` +
	`"$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},` +
	`"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},"contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},` +
	`"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],` +
	`"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},"then":{"required":["phone"]},"else":{"required":["email"]},` +
	`"additionalProperties":false}`

// listed returns the tools of tools.txt: those of the demo, and all.
func listed(t *testing.T) (demo, all []string) {
	text, err := os.ReadFile("../../examples/everything/tools.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		name, only, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" || name == "#" {
			continue
		}
		if all = append(all, name); only == "" {
			demo = append(demo, name)
		}
	}
	return demo, all
}

func TestToolList(t *testing.T) {
	t.Parallel()
	demo, all := listed(t)
	for _, tt := range []struct {
		server *troupe.Server
		want   []string
	}{{everything.New(), demo}, {everything.NewConformance(troupe.ServerOptions{}), all}} {
		c := connectTo(t, tt.server, `{}`)
		var list struct {
			Tools []struct {
				Name        string
				Description string
				InputSchema json.RawMessage
			}
		}
		c.call("tools/list", `{}`, &list)
		var names []string
		for _, tool := range list.Tools {
			names = append(names, tool.Name)
			if tool.Description == "" {
				t.Errorf("%s has no description", tool.Name)
			}
			if tool.Name == "json_schema_2020_12_tool" && string(tool.InputSchema) != contactSchema {
				t.Errorf("its schema is listed as %s, want %s", tool.InputSchema, contactSchema)
			}
		}
		slices.Sort(names)
		if diff := cmp.Diff(names, tt.want); diff != "" {
			t.Errorf("tools differ (-got +want):\n%s", diff)
		}
	}
}

func TestPlainTools(t *testing.T) {
	t.Parallel()
	c := connect(t, `{}`)
	const (
		png = `{"type":"image","data":"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==","mimeType":"image/png"}`
		wav = `{"type":"audio","data":"UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=","mimeType":"audio/wav"}`
	)
	for _, tt := range []struct {
		tool, arguments string
		isError         bool
		want            []string
	}{
		{"echo", `{"text":"a \u00e9\n\"b\""}`, false, []string{`{"type":"text","text":"a é\n\"b\""}`}},
		{"echo", `{"text":""}`, false, []string{`{"type":"text","text":""}`}},
		{"link", `{}`, false, []string{
			`{"type":"resource_link","uri":"test://static-text","name":"static-text","title":"Static text","description":"A text that never changes.","mimeType":"text/plain"}`}},
		{"enter", `{"url":"https://example.com/","visited":true}`, false, []string{`{"type":"text","text":"come in"}`}},
		{"sleep", `{"ms":0}`, false, []string{`{"type":"text","text":"slept 0 ms"}`}},
		{"count", `{"to":0}`, false, []string{`{"type":"text","text":"counted to 0"}`}},
		{"test_simple_text", ``, false, []string{`{"type":"text","text":"This is a simple text response for testing."}`}},
		{"test_image_content", `{}`, false, []string{png}},
		{"test_audio_content", `{}`, false, []string{wav}},
		{"test_embedded_resource", `{}`, false, []string{
			`{"type":"resource","resource":{"uri":"test://embedded-resource","mimeType":"text/plain","text":"This is an embedded resource content."}}`}},
		{"test_multiple_content_types", `{}`, false, []string{
			`{"type":"text","text":"Multiple content types test:"}`, png,
			`{"type":"resource","resource":{"uri":"test://mixed-content-resource","mimeType":"application/json","text":"{\"test\":\"data\",\"value\":123}"}}`}},
		{"test_error_handling", `{}`, true, []string{`{"type":"text","text":"This tool intentionally returns an error for testing"}`}},
		{"json_schema_2020_12_tool", `{"contactMethod":"phone","phone":"1"}`, false, []string{
			`{"type":"text","text":"JSON Schema 2020-12 tool called with: {\"contactMethod\":\"phone\",\"phone\":\"1\"}"}`}},
	} {
		got := c.tool(tt.tool, tt.arguments)
		if got.IsError != tt.isError || len(got.Content) != len(tt.want) {
			t.Errorf("%s %s gives %s, error %t; want %s, error %t", tt.tool, tt.arguments, got.Content, got.IsError, tt.want, tt.isError)
			continue
		}
		for i, block := range got.Content {
			var got, want any
			if json.Unmarshal(block, &got) != nil || json.Unmarshal([]byte(tt.want[i]), &want) != nil || !cmp.Equal(got, want) {
				t.Errorf("%s %s: block %d is %s, want %s", tt.tool, tt.arguments, i, block, tt.want[i])
			}
		}
	}
}

func TestMeasure(t *testing.T) {
	t.Parallel()
	c := connect(t, `{}`)
	const want = `{"bytes":14,"characters":7,"words":2}`
	if r := c.tool("measure", `{"text":"ab \u4e16\u754c\ud83c\udfad\n"}`); string(r.Structured) != want || r.text(t) != want {
		t.Errorf("it gives %s and %s, want %s as both", r.Structured, r.Content, want)
	}
}

func TestArgumentsThatDoNotFit(t *testing.T) {
	t.Parallel()
	c := connect(t, `{}`)
	for _, tt := range []struct{ tool, arguments string }{
		{"echo", `{}`}, {"echo", `{"text":1}`}, {"echo", `{"text":"","more":1}`},
		{"count", `{}`}, {"count", `{"to":-1}`}, {"count", `{"to":1e9}`}, {"count", `{"to":1,"delay_ms":-1}`}, {"count", `{"to":1.5}`},
		{"sleep", `{"ms":-1}`}, {"sleep", `{"ms":1e12}`}, {"tick", `{"n":-1}`},
		{"json_schema_2020_12_tool", `{}`}, {"json_schema_2020_12_tool", `{"contactMethod":"phone","email":"a"}`},
		{"test_simple_text", `{"more":1}`},
	} {
		if r := c.tool(tt.tool, tt.arguments); !r.IsError {
			t.Errorf("%s %s gives %s, want an error in the result", tt.tool, tt.arguments, r.Content)
		}
	}
}

func TestNotifyingTools(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		tool, arguments, text string
		progress, logs        []string
	}{
		{"count", `{"to":3,"delay_ms":20}`, "counted to 3",
			[]string{`{"progressToken":"token","progress":1,"total":3}`, `{"progressToken":"token","progress":2,"total":3}`, `{"progressToken":"token","progress":3,"total":3}`},
			[]string{`{"level":"info","logger":"count","data":"1 of 3"}`, `{"level":"info","logger":"count","data":"2 of 3"}`, `{"level":"info","logger":"count","data":"3 of 3"}`}},
		{"test_tool_with_progress", `{}`, "Tool with progress completed",
			[]string{`{"progressToken":"token","progress":0,"total":100}`, `{"progressToken":"token","progress":50,"total":100}`, `{"progressToken":"token","progress":100,"total":100}`}, nil},
		{"test_tool_with_logging", ``, "Tool with logging executed successfully", nil,
			[]string{`{"level":"info","data":"Tool execution started"}`, `{"level":"info","data":"Tool processing data"}`, `{"level":"info","data":"Tool execution completed"}`}},
	} {
		t.Run(tt.tool, func(t *testing.T) {
			t.Parallel()
			c := connect(t, `{}`)
			if got := c.tool(tt.tool, tt.arguments).text(t); got != tt.text {
				t.Errorf("text is %q, want %q", got, tt.text)
			}
			if diff := cmp.Diff(c.notified("notifications/progress"), tt.progress); diff != "" {
				t.Errorf("progress differs (-got +want):\n%s", diff)
			}
			if diff := cmp.Diff(c.notified("notifications/message"), tt.logs); diff != "" {
				t.Errorf("logs differ (-got +want):\n%s", diff)
			}
		})
	}
}

package protocol_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/mcp"
)

var (
	r24, r03, r06, r11, r28 = mcp.Revision20241105, mcp.Revision20250326, mcp.Revision20250618, mcp.Revision20251125, mcp.Revision20260728

	someMeta  = mcp.Meta{"a": mcp.Raw(1)}
	someIcons = []mcp.Icon{{Src: "https://x.example/i.png"}}
	dated     = &mcp.Annotations{Audience: []mcp.Role{mcp.RoleUser}, Priority: new(0.5), LastModified: "2025-01-12T15:00:58Z"}

	fullImplementation = mcp.Implementation{Name: "n", Version: "1", Title: "t", Description: "d", WebsiteURL: "https://x.example/", Icons: someIcons}
	fullTool           = mcp.Tool{Name: "n", Title: "t", Description: "d", InputSchema: []byte(`{"type":"object"}`), OutputSchema: []byte(`{"type":"object"}`),
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}, Execution: &mcp.ToolExecution{TaskSupport: mcp.TaskOptional}, Icons: someIcons, Meta: someMeta}
	fullPrompt = mcp.Prompt{Name: "n", Title: "t", Description: "d", Arguments: []mcp.PromptArgument{{Name: "a", Description: "d", Required: true}, {Name: "b", Title: "t"}},
		Icons: someIcons, Meta: someMeta}
	fullResource = mcp.Resource{URI: "x:1", Name: "n", Title: "t", Description: "d", MIMEType: "text/plain", Size: new(int64(0)), Annotations: dated, Icons: someIcons, Meta: someMeta}
	fullTemplate = mcp.ResourceTemplate{URITemplate: "x:{a}", Name: "n", Title: "t", Description: "d", MIMEType: "text/plain", Annotations: dated, Icons: someIcons, Meta: someMeta}
	fullServer   = mcp.ServerCapabilities{Logging: mcp.Declared(), Completions: mcp.Declared(), Prompts: &mcp.ListChanged{ListChanged: true}, Tools: &mcp.ListChanged{},
		Resources: &mcp.ResourcesCapability{Subscribe: true, ListChanged: true}, Tasks: &mcp.ServerTasksCapability{List: mcp.Declared()},
		Experimental: map[string]mcp.Object{"e": nil}, Extensions: map[string]mcp.Object{"x/y": nil, mcp.ExtensionTasks: nil}, Extra: map[string]json.RawMessage{"own": []byte("1")}}
	fullClient = mcp.ClientCapabilities{Roots: &mcp.ListChanged{ListChanged: true}, Sampling: &mcp.SamplingCapability{Context: mcp.Declared(), Tools: mcp.Declared()},
		Elicitation: &mcp.ElicitationCapability{Form: mcp.Declared(), URL: mcp.Declared()}, Tasks: &mcp.ClientTasksCapability{List: mcp.Declared()},
		Experimental: map[string]mcp.Object{"e": nil}, Extensions: map[string]mcp.Object{"x/y": nil, mcp.ExtensionTasks: nil}, Extra: map[string]json.RawMessage{"own": []byte("1")}}
	fullForm = mcp.FormSchema{Schema: "https://json-schema.org/draft/2020-12/schema", Required: []string{"text"}, Properties: []mcp.Property{
		{Name: "text", Schema: &mcp.StringSchema{Title: "t", Description: "d", MinLength: new(int64(1)), MaxLength: new(int64(9)), Format: "email", Default: new("x")}},
		{Name: "number", Schema: &mcp.NumberSchema{Title: "t", Minimum: new(0.5), Maximum: new(9.0), Default: new(1.0)}},
		{Name: "bool", Schema: &mcp.BooleanSchema{Title: "t", Default: new(true)}},
		{Name: "enum", Schema: &mcp.EnumSchema{Title: "t", Enum: []string{"a"}, Default: new("a")}},
		{Name: "titled", Schema: &mcp.TitledEnumSchema{Title: "t", Description: "d", OneOf: []mcp.EnumOption{{Const: "a", Title: "A"}, {Const: "b", Title: "B"}}, Default: new("a")}},
		{Name: "legacy", Schema: &mcp.LegacyEnumSchema{Enum: []string{"a"}, EnumNames: []string{"A"}, Default: new("a")}},
		{Name: "own", Schema: &mcp.UnknownSchema{Raw: []byte(`{"type":"x","default":1}`)}},
	}}
)

// fullContents has one block of each kind a result may have, with all its members.
func fullContents() mcp.Contents {
	return mcp.Contents{
		&mcp.TextContent{Type: "text", Text: "x", Annotations: dated, Meta: someMeta},
		&mcp.ImageContent{Type: "image", Data: "eA==", MIMEType: "image/png", Annotations: dated, Meta: someMeta},
		&mcp.AudioContent{Type: "audio", Data: "eA==", MIMEType: "audio/wav", Annotations: dated, Meta: someMeta},
		&mcp.ResourceLink{Type: "resource_link", Resource: fullResource},
		&mcp.EmbeddedResource{Type: "resource", Annotations: dated, Meta: someMeta,
			Resource: mcp.ResourceContents{URI: "x:1", MIMEType: "text/plain", Text: new("x"), Meta: someMeta}},
	}
}

func fullPromptResult() *mcp.GetPromptResult {
	x := &mcp.GetPromptResult{Description: "d", Meta: someMeta}
	for _, b := range fullContents() {
		x.Messages = append(x.Messages, mcp.PromptMessage{Role: mcp.RoleUser, Content: b})
	}
	return x
}

func contents(r mcp.Revision) any { return protocol.ContentsFor(fullContents(), r) }
func prompt(r mcp.Revision) any   { return protocol.PromptResultFor(fullPromptResult(), r) }
func form(r mcp.Revision) any {
	raw, err := fullForm.Raw()
	if err != nil {
		return err
	}
	e, err := protocol.FormQuestionFor(mcp.ElicitForm{Mode: mcp.ElicitModeForm, Message: "m", RequestedSchema: raw, Task: &mcp.TaskMetadata{}, Meta: someMeta}, r)
	if err != nil {
		return err
	}
	return e
}

// gone names the members of 2025-11-25 that 2026-07-28 does not have.
var gone = map[string][]string{
	"tool":       {"execution"},
	"server":     {"tasks"},
	"client":     {"tasks", "roots.listChanged"},
	"initialize": {"capabilities.tasks"},
	"sampling":   {"task", "_meta"},
	"form":       {"task", "_meta"},
	"url":        {"task", "_meta", "elicitationId"},
}

// TestProjectedMembers has a row for each member that a revision added: peers of that
// revision and later ones get it, older ones do not.
func TestProjectedMembers(t *testing.T) {
	t.Parallel()
	implementation := func(r mcp.Revision) any { return protocol.ImplementationFor(fullImplementation, r) }
	tool := func(r mcp.Revision) any { return protocol.ToolFor(fullTool, r) }
	listed := func(r mcp.Revision) any { return protocol.PromptFor(fullPrompt, r) }
	resource := func(r mcp.Revision) any { return protocol.ResourceFor(fullResource, r) }
	template := func(r mcp.Revision) any { return protocol.TemplateFor(fullTemplate, r) }
	server := func(r mcp.Revision) any { return protocol.ServerCapabilitiesFor(fullServer, r) }
	client := func(r mcp.Revision) any { return protocol.ClientCapabilitiesFor(fullClient, r) }
	read := func(r mcp.Revision) any {
		return protocol.ReadResultFor(mcp.ReadResourceResult{Meta: someMeta, Contents: []mcp.ResourceContents{{URI: "x:1", Text: new("x"), Meta: someMeta}}}, r)
	}
	called := func(r mcp.Revision) any {
		return protocol.CallResultFor((&mcp.CallToolResult{Content: mcp.Contents{mcp.Text("x")}, StructuredContent: []byte(`{"a":1}`), IsError: true, Meta: someMeta}), r)
	}
	initialized := func(r mcp.Revision) any {
		return protocol.InitializeResultFor(mcp.InitializeResult{ProtocolVersion: "v", Capabilities: fullServer, ServerInfo: fullImplementation, Instructions: "i", Meta: someMeta}, r)
	}
	link := func(r mcp.Revision) any {
		e, err := protocol.URLQuestionFor(mcp.ElicitURL{Message: "m", ElicitationID: "e", URL: "https://x.example/", Task: &mcp.TaskMetadata{}, Meta: someMeta}, r)
		if err != nil {
			return err
		}
		return e
	}
	sampled := func(r mcp.Revision) any {
		p, err := protocol.SamplingFor(mcp.CreateMessageParams{Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Blocks(&mcp.TextContent{Type: "text", Text: "x", Annotations: dated, Meta: someMeta}), Meta: someMeta}},
			ModelPreferences: &mcp.ModelPreferences{CostPriority: new(0.0)}, SystemPrompt: "s", IncludeContext: mcp.IncludeNone, Temperature: new(0.0), StopSequences: []string{"x"},
			Metadata: mcp.Declared(), Task: &mcp.TaskMetadata{}, Meta: someMeta}, r)
		if err != nil {
			return err
		}
		return p
	}
	for _, row := range []struct {
		of    string
		get   func(mcp.Revision) any
		since map[string]mcp.Revision
	}{
		{"implementation", implementation, map[string]mcp.Revision{"name": r24, "version": r24, "title": r06, "description": r11, "websiteUrl": r11, "icons": r11}},
		{"tool", tool, map[string]mcp.Revision{"name": r24, "description": r24, "inputSchema": r24, "annotations": r03, "annotations.readOnlyHint": r03, "title": r06,
			"outputSchema": r06, "_meta": r06, "icons": r11, "execution": r11}},
		{"prompt", listed, map[string]mcp.Revision{"name": r24, "description": r24, "arguments.0.name": r24, "arguments.0.description": r24, "arguments.0.required": r24,
			"title": r06, "_meta": r06, "arguments.1.title": r06, "icons": r11}},
		{"resource", resource, map[string]mcp.Revision{"uri": r24, "name": r24, "description": r24, "mimeType": r24, "size": r24, "annotations.audience": r24,
			"annotations.priority": r24, "annotations.lastModified": r06, "title": r06, "_meta": r06, "icons": r11}},
		{"template", template, map[string]mcp.Revision{"uriTemplate": r24, "name": r24, "description": r24, "mimeType": r24, "annotations.audience": r24,
			"annotations.lastModified": r06, "title": r06, "_meta": r06, "icons": r11}},
		{"server", server, map[string]mcp.Revision{"logging": r24, "prompts.listChanged": r24, "tools": r24, "resources.subscribe": r24, "experimental.e": r24,
			"extensions.x/y": r24, "own": r24, "completions": r03, "tasks": r11}},
		{"client", client, map[string]mcp.Revision{"roots.listChanged": r24, "sampling": r24, "experimental.e": r24, "extensions.x/y": r24, "own": r24,
			"elicitation": r06, "elicitation.form": r11, "elicitation.url": r11, "sampling.context": r11, "sampling.tools": r11, "tasks": r11}},
		{"initialize", initialized, map[string]mcp.Revision{"protocolVersion": r24, "instructions": r24, "_meta": r24, "capabilities.tools": r24, "capabilities.completions": r03,
			"serverInfo.title": r06, "serverInfo.icons": r11, "capabilities.tasks": r11}},
		{"result", called, map[string]mcp.Revision{"content.0.text": r24, "isError": r24, "_meta": r24, "structuredContent": r06}},
		{"read", read, map[string]mcp.Revision{"contents.0.uri": r24, "contents.0.text": r24, "_meta": r24, "contents.0._meta": r06}},
		{"contents", contents, map[string]mcp.Revision{"0.text": r24, "0.annotations.priority": r24, "0.annotations.lastModified": r06, "0._meta": r06,
			"1.data": r24, "1.annotations.audience": r24, "1.annotations.lastModified": r06, "1._meta": r06,
			"2.annotations.audience": r24, "2.data": r03, "2.annotations.lastModified": r06, "2._meta": r06,
			"3.annotations.priority": r24, "3.uri": r06, "3.name": r06, "3.title": r06, "3.size": r06, "3._meta": r06, "3.annotations.lastModified": r06, "3.icons": r11,
			"4.resource.text": r24, "4.annotations.audience": r24, "4._meta": r06, "4.annotations.lastModified": r06, "4.resource._meta": r06}},
		{"prompt messages", prompt, map[string]mcp.Revision{"description": r24, "_meta": r24, "messages.0.content.text": r24, "messages.0.content._meta": r06,
			"messages.2.content.data": r03, "messages.3.content.uri": r06, "messages.3.content.icons": r11, "messages.4.content.resource._meta": r06}},
		{"sampling", sampled, map[string]mcp.Revision{"messages.0.content.text": r24, "messages.0.content.annotations.priority": r24, "messages.0.content.annotations.lastModified": r06,
			"messages.0.content._meta": r06, "messages.0._meta": r11, "modelPreferences.costPriority": r24, "systemPrompt": r24, "includeContext": r24, "temperature": r24, "maxTokens": r24,
			"stopSequences": r24, "metadata": r24, "_meta": r24, "task": r11}},
		{"form", form, map[string]mcp.Revision{"message": r06, "requestedSchema.required": r06, "_meta": r06, "mode": r11, "task": r11, "requestedSchema.$schema": r11,
			"requestedSchema.properties.text.minLength": r06, "requestedSchema.properties.text.maxLength": r06, "requestedSchema.properties.text.format": r06,
			"requestedSchema.properties.text.default": r11, "requestedSchema.properties.number.minimum": r06, "requestedSchema.properties.number.default": r11,
			"requestedSchema.properties.bool.default": r06, "requestedSchema.properties.enum.enum": r06, "requestedSchema.properties.enum.default": r11,
			"requestedSchema.properties.titled.title": r06, "requestedSchema.properties.titled.description": r06,
			"requestedSchema.properties.titled.oneOf": r11, "requestedSchema.properties.titled.default": r11, "requestedSchema.properties.legacy.enumNames": r06,
			"requestedSchema.properties.legacy.default": r11, "requestedSchema.properties.own.default": r06}},
		{"url", link, map[string]mcp.Revision{"mode": r11, "message": r11, "url": r11, "elicitationId": r11, "task": r11, "_meta": r11}},
	} {
		for _, r := range mcp.Revisions() {
			v := row.get(r)
			data, err := codec.Marshal(v)
			if _, failed := v.(error); failed {
				data = []byte("null")
			} else if err != nil {
				t.Fatal(err)
			}
			var decoded any
			if err := json.Unmarshal(data, &decoded); err != nil {
				t.Fatal(err)
			}
			for path, since := range row.since {
				want := r >= since && (!r.Stateless() || !slices.Contains(gone[row.of], path))
				if got := there(decoded, path); got != want {
					t.Errorf("%s for %s: %s is there %v, want %v: %s", row.of, r, path, got, want, data)
				}
			}
		}
	}
}

// there reports whether a path of members and indices leads to a value.
func there(v any, path string) bool {
	for path != "" {
		var key string
		key, path, _ = strings.Cut(path, ".")
		switch x := v.(type) {
		case map[string]any:
			var ok bool
			if v, ok = x[key]; !ok {
				return false
			}
		case []any:
			i := int(key[0] - '0')
			if i >= len(x) {
				return false
			}
			v = x[i]
		default:
			return false
		}
	}
	return true
}

// TestConversions checks what older peers get in place of what they do not know.
func TestConversions(t *testing.T) {
	t.Parallel()
	const structured = `{"a":1.50,"b":[1,2]}`
	result := func(r mcp.Revision, blocks ...mcp.Content) any {
		return protocol.CallResultFor((&mcp.CallToolResult{Content: blocks, StructuredContent: []byte(structured)}), r)
	}
	list := func(r mcp.Revision, blocks ...mcp.Content) any {
		return protocol.CallResultFor((&mcp.CallToolResult{Content: blocks, StructuredContent: []byte("[1,2]")}), r)
	}
	toolResult := mcp.ToolResult("1")
	toolResult.Content, toolResult.StructuredContent = mcp.Contents{}, []byte("[1,2]")
	withTool := func(r mcp.Revision) any {
		p, err := protocol.SamplingFor(mcp.CreateMessageParams{Tools: []mcp.Tool{{Name: "n", InputSchema: []byte("{}"), Execution: &mcp.ToolExecution{}}}}, r)
		if err != nil {
			return err
		}
		return p
	}
	const mirror = `{"type":"text","text":"{\"a\":1.50,\"b\":[1,2]}"}`
	link := mcp.Resource{URI: "x:1", Name: "n"}
	titled, described := link, link
	titled.Title = "A title"
	described.Description, described.Annotations = "What it is.", &mcp.Annotations{LastModified: "2025-01-12T15:00:58Z"}
	sample := func(r mcp.Revision, messages ...mcp.SamplingMessage) any {
		p, err := protocol.SamplingFor(mcp.CreateMessageParams{Messages: messages, MaxTokens: 1}, r)
		if err != nil {
			return err
		}
		return p
	}
	several := mcp.SamplingMessage{Role: mcp.RoleAssistant, Content: mcp.Blocks(mcp.Text("a"), mcp.Image([]byte("x"), "image/png"))}
	one := mcp.SamplingMessage{Role: mcp.RoleUser, Content: mcp.MessageContent{Blocks: mcp.Contents{mcp.Text("c")}, List: true}}
	none := mcp.SamplingMessage{Role: mcp.RoleUser}
	choice := func(s mcp.PrimitiveSchema) any {
		f, err := protocol.FormSchemaFor(mcp.FormSchema{Properties: []mcp.Property{{Name: "f", Schema: s}}}, r06)
		if err != nil {
			return err
		}
		return f
	}
	for name, row := range map[string]struct {
		got  any
		want string
	}{
		"audio": {protocol.ContentsFor(mcp.Contents{mcp.Audio([]byte("abc"), "audio/wav")}, r24),
			`[{"type":"resource","resource":{"uri":"ni:///sha-256;ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0","mimeType":"audio/wav","blob":"YWJj"}}]`},
		"audio that is no base64": {protocol.ContentsFor(mcp.Contents{&mcp.AudioContent{Type: "audio", Data: "abc", MIMEType: "audio/wav"}}, r24),
			`[{"type":"resource","resource":{"uri":"ni:///sha-256;ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0","mimeType":"audio/wav","blob":"abc"}}]`},
		"link":                            {protocol.ContentsFor(mcp.Contents{mcp.Link(link)}, r03), `[{"type":"text","text":"n: x:1"}]`},
		"link with a title":               {protocol.ContentsFor(mcp.Contents{mcp.Link(titled)}, r24), `[{"type":"text","text":"A title: x:1"}]`},
		"link with all":                   {protocol.ContentsFor(mcp.Contents{mcp.Link(described)}, r24), `[{"type":"text","text":"n: x:1\nWhat it is."}]`},
		"link without a name":             {protocol.ContentsFor(mcp.Contents{mcp.Link(mcp.Resource{URI: "x:1"})}, r24), `[{"type":"text","text":"x:1"}]`},
		"structured":                      {result(r03), `{"content":[` + mirror + `]}`},
		"structured, with other text":     {result(r24, mcp.Text("b"), mcp.Text("{")), `{"content":[{"type":"text","text":"b"},{"type":"text","text":"{"},` + mirror + `]}`},
		"structured, and mirrored":        {result(r24, mcp.Text(structured)), `{"content":[` + mirror + `]}`},
		"structured, and mirrored pretty": {result(r24, mcp.Text("{ \"b\":[1,2],\n\"a\":1.50 }")), `{"content":[{"type":"text","text":"{ \"b\":[1,2],\n\"a\":1.50 }"}]}`},
		"structured, and mirrored almost": {result(r24, mcp.Text(`{"a":1.5,"b":[2,1]}`)), `{"content":[{"type":"text","text":"{\"a\":1.5,\"b\":[2,1]}"},` + mirror + `]}`},
		"structured, and more":            {result(r24, mcp.Text(structured+structured)), `{"content":[{"type":"text","text":"` + strings.Repeat(`{\"a\":1.50,\"b\":[1,2]}`, 2) + `"},` + mirror + `]}`},
		"structured null":                 {protocol.CallResultFor((&mcp.CallToolResult{StructuredContent: []byte("null")}), r24), `{"content":[]}`},
		"tool's title":                    {protocol.ToolFor(mcp.Tool{Name: "n", Title: "t", InputSchema: []byte("{}")}, r03), `{"name":"n","inputSchema":{},"annotations":{"title":"t"}}`},
		"tool's two titles": {protocol.ToolFor(mcp.Tool{Name: "n", Title: "t", InputSchema: []byte("{}"), Annotations: &mcp.ToolAnnotations{Title: "own"}}, r03),
			`{"name":"n","inputSchema":{},"annotations":{"title":"own"}}`},
		"structured list":               {list(r11), `{"content":[{"type":"text","text":"[1,2]"}]}`},
		"structured list, mirrored":     {list(r06, mcp.Text("[1, 2]")), `{"content":[{"type":"text","text":"[1, 2]"}]}`},
		"structured list in 2026-07-28": {list(r28), `{"content":[],"structuredContent":[1,2]}`},
		"output schema of a list":       {protocol.ToolFor(mcp.Tool{Name: "n", InputSchema: []byte("{}"), OutputSchema: []byte(`{"type":"array"}`)}, r11), `{"name":"n","inputSchema":{}}`},
		"output schema of a choice":     {protocol.ToolFor(mcp.Tool{Name: "n", InputSchema: []byte("{}"), OutputSchema: []byte(`{"oneOf":[]}`)}, r06), `{"name":"n","inputSchema":{}}`},
		"output schema of a list in 2026-07-28": {protocol.ToolFor(mcp.Tool{Name: "n", InputSchema: []byte("{}"), OutputSchema: []byte(`{"type":"array"}`)}, r28),
			`{"name":"n","inputSchema":{},"outputSchema":{"type":"array"}}`},
		"tool result that is a list": {sample(r11, mcp.SamplingMessage{Role: mcp.RoleUser, Content: mcp.Blocks(toolResult)}),
			`{"messages":[{"role":"user","content":{"type":"tool_result","toolUseId":"1","content":[{"type":"text","text":"[1,2]"}]}}],"maxTokens":1}`},
		"tool result that is a list in 2026-07-28": {sample(r28, mcp.SamplingMessage{Role: mcp.RoleUser, Content: mcp.Blocks(toolResult)}),
			`{"messages":[{"role":"user","content":{"type":"tool_result","toolUseId":"1","content":[],"structuredContent":[1,2]}}],"maxTokens":1}`},
		"tool of sampling":                      {withTool(r28), `{"messages":[],"maxTokens":0,"tools":[{"name":"n","inputSchema":{}}]}`},
		"tool of sampling in 2025-11-25":        {withTool(r11), `{"messages":[],"maxTokens":0,"tools":[{"name":"n","inputSchema":{},"execution":{}}]}`},
		"result with the members of 2026-07-28": {protocol.CallResultFor((&mcp.CallToolResult{ResultType: mcp.ResultComplete}), r11), `{"content":[]}`},
		"prompt with the members of 2026-07-28": {protocol.PromptResultFor((&mcp.GetPromptResult{ResultType: mcp.ResultComplete}), r11), `{"messages":[]}`},
		"read with the members of 2026-07-28": {protocol.ReadResultFor(mcp.ReadResourceResult{ResultType: mcp.ResultComplete, Cacheable: mcp.Cacheable{TTL: new(int64(1)), CacheScope: mcp.CachePublic}}, r11),
			`{"contents":[]}`},
		"tool's execution after tasks left the core": {protocol.ToolFor(mcp.Tool{Name: "n", InputSchema: []byte("{}"), Execution: &mcp.ToolExecution{}, Icons: someIcons}, mcp.Revision20260728),
			`{"name":"n","inputSchema":{},"icons":[{"src":"https://x.example/i.png"}]}`},
		"capabilities after tasks left the core": {protocol.ServerCapabilitiesFor(mcp.ServerCapabilities{Tasks: &mcp.ServerTasksCapability{}, Extensions: map[string]mcp.Object{mcp.ExtensionTasks: nil}}, mcp.Revision20260728),
			`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`},
		"tasks extension before there is one": {protocol.ClientCapabilitiesFor(mcp.ClientCapabilities{Extensions: map[string]mcp.Object{mcp.ExtensionTasks: nil}}, r11), `{}`},
		"elicitation by URL alone":            {protocol.ClientCapabilitiesFor(mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{URL: mcp.Declared()}}, r06), `{"elicitation":{}}`},
		"messages of several blocks": {sample(r06, several, none, one),
			`{"messages":[{"role":"assistant","content":{"type":"text","text":"a"}},{"role":"assistant","content":{"type":"image","data":"eA==","mimeType":"image/png"}},` +
				`{"role":"user","content":{"type":"text","text":"c"}}],"maxTokens":1}`},
		"choice with titles": {choice(&mcp.TitledEnumSchema{Title: "t", OneOf: []mcp.EnumOption{{Const: "a", Title: "A"}, {Const: "b", Title: "B"}}}),
			`{"type":"object","properties":{"f":{"type":"string","title":"t","enum":["a","b"],"enumNames":["A","B"]}}}`},
		"choice of none": {choice(&mcp.TitledEnumSchema{}), `{"type":"object","properties":{"f":{"type":"string","enum":[]}}}`},
	} {
		data, err := codec.Marshal(row.got)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(row.want, string(data)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestInexpressible checks which questions an older client cannot get.
func TestInexpressible(t *testing.T) {
	t.Parallel()
	message := func(blocks ...mcp.Content) mcp.CreateMessageParams {
		return mcp.CreateMessageParams{Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Blocks(blocks...)}}}
	}
	sample := func(p mcp.CreateMessageParams) func(mcp.Revision) error {
		return func(r mcp.Revision) error { _, err := protocol.SamplingFor(p, r); return err }
	}
	ask := func(properties ...mcp.PrimitiveSchema) func(mcp.Revision) error {
		return func(r mcp.Revision) error {
			var f mcp.FormSchema
			for _, s := range properties {
				f.Properties = append(f.Properties, mcp.Property{Name: "f", Schema: s})
			}
			raw, err := f.Raw()
			if err != nil {
				return err
			}
			_, err = protocol.FormQuestionFor(mcp.ElicitForm{Message: "m", RequestedSchema: raw}, r)
			_, direct := protocol.FormSchemaFor(f, r)
			if (err == nil) != (direct == nil) {
				t.Errorf("%s: the form alone gives %v, in its question %v", r, direct, err)
			}
			return err
		}
	}
	for name, row := range map[string]struct {
		f     func(mcp.Revision) error
		since mcp.Revision
	}{
		"text":         {sample(message(mcp.Text("x"))), r24},
		"audio":        {sample(message(mcp.Text("x"), mcp.Audio(nil, "audio/wav"))), r03},
		"tool use":     {sample(message(mcp.ToolUse("1", "n", nil))), r11},
		"tool result":  {sample(message(mcp.ToolResult("1"))), r11},
		"tools":        {sample(mcp.CreateMessageParams{Tools: []mcp.Tool{{Name: "n"}}}), r11},
		"tool choice":  {sample(mcp.CreateMessageParams{ToolChoice: &mcp.ToolChoice{}}), r11},
		"form":         {ask(&mcp.StringSchema{}), r06},
		"several":      {ask(&mcp.StringSchema{}, &mcp.MultiEnumSchema{}), r11},
		"several more": {ask(&mcp.TitledMultiEnumSchema{}), r11},
		"url":          {func(r mcp.Revision) error { _, err := protocol.URLQuestionFor(mcp.ElicitURL{}, r); return err }, r11},
	} {
		for _, r := range []mcp.Revision{r24, r03, r06, r11} {
			err := row.f(r)
			if r >= row.since && err != nil || r < row.since && !errors.Is(err, mcp.ErrInexpressible) {
				t.Errorf("%s to a client of %s: got %v, want it to work since %s", name, r, err, row.since)
			}
			if err != nil && !strings.Contains(err.Error(), r.String()) {
				t.Errorf("%s to a client of %s: %q does not name the revision", name, r, err)
			}
		}
	}
	if _, err := protocol.FormQuestionFor((mcp.ElicitForm{RequestedSchema: []byte(`{`)}), r06); !errors.Is(err, mcp.ErrMalformed) {
		t.Errorf("a form that is none: got %v, want %v", err, mcp.ErrMalformed)
	}
}

// TestProjectionSharesWhatItCan checks that values of the peer's own revision are not
// copied, and that a projection to an older one copies only what changes.
func TestProjectionSharesWhatItCan(t *testing.T) {
	t.Parallel()
	result := &mcp.CallToolResult{Content: fullContents(), StructuredContent: []byte(`{}`), Meta: someMeta}
	if got := protocol.CallResultFor(result, r11); got != result {
		t.Error("a result for 2025-11-25 is not the same one")
	}
	if got := protocol.CallResultFor(result, r06); got == result || got.Content[0] != result.Content[0] || got.Content[3] == result.Content[3] {
		t.Error("of a result for 2025-06-18 not just the link changed")
	}
	plain := &mcp.CallToolResult{Content: mcp.Contents{mcp.Text("x"), &mcp.UnknownContent{Type: "x"}, (*mcp.TextContent)(nil), (*mcp.AudioContent)(nil),
		(*mcp.ResourceLink)(nil), (*mcp.EmbeddedResource)(nil), (*mcp.ImageContent)(nil), nil, mcp.ToolUse("1", "n", nil)}}
	if got := protocol.CallResultFor(plain, r24); got != plain {
		t.Errorf("a result of what all know is not the same one: %v", got)
	}
	prompt := &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Content: mcp.Text("x")}, {Content: mcp.Audio(nil, "audio/wav")}}}
	if got := protocol.PromptResultFor(prompt, r03); got != prompt {
		t.Error("a prompt of what 2025-03-26 knows is not the same one")
	}
	if got := protocol.PromptResultFor(prompt, r24); got == prompt || got.Messages[0] != prompt.Messages[0] || prompt.Messages[1].Content.(*mcp.AudioContent) == nil {
		t.Error("of a prompt for 2024-11-05 not just the audio changed")
	}
	if protocol.CallResultFor((*mcp.CallToolResult)(nil), r24) != nil || protocol.PromptResultFor((*mcp.GetPromptResult)(nil), r24) != nil {
		t.Error("nothing became something")
	}
	read := mcp.ReadResourceResult{Contents: []mcp.ResourceContents{{URI: "x:1", Text: new("x")}}}
	if got := protocol.ReadResultFor(read, r24); &got.Contents[0] != &read.Contents[0] {
		t.Error("contents of what all know are not the same ones")
	}
	protocol.ServerCapabilitiesFor(fullServer, r11)
	protocol.ClientCapabilitiesFor(fullClient, r11)
	if len(fullServer.Extensions) != 2 || len(fullClient.Extensions) != 2 {
		t.Error("the extensions of the input changed")
	}
	shared := make(mcp.Contents, 1, 2)
	shared[0] = mcp.Text("x")
	protocol.CallResultFor((&mcp.CallToolResult{Content: shared, StructuredContent: []byte(`{}`)}), r24)
	if beyond := shared[:2][1]; beyond != nil {
		t.Errorf("got %v written behind the blocks of a result", beyond)
	}
}

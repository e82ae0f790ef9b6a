package protocol_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/mcp"
)

// schema is the part of JSON Schema that the official schemas use.
type schema struct {
	Ref        string             `json:"$ref"`
	AnyOf      []*schema          `json:"anyOf"`
	AllOf      []*schema          `json:"allOf"`
	Type       any                `json:"type"`
	Const      any                `json:"const"`
	Enum       []any              `json:"enum"`
	Format     string             `json:"format"`
	Minimum    *float64           `json:"minimum"`
	Maximum    *float64           `json:"maximum"`
	Items      *schema            `json:"items"`
	Properties map[string]*schema `json:"properties"`
	Required   []string           `json:"required"`
	Additional json.RawMessage    `json:"additionalProperties"`
}

func (s *schema) ref() string { return s.Ref[strings.LastIndexByte(s.Ref, '/')+1:] }

// specDir returns the directory of the official schemas. It skips the test if nobody has named one. A skip ends its goroutine, so that
// specDir may not be called where another test waits for what is made: in a sync.Once, for example.
func specDir(t testing.TB) string {
	dir := os.Getenv("TROUPE_SPEC_DIR")
	if dir == "" {
		t.Skip("TROUPE_SPEC_DIR names no directory of the official schemas; .ci/schemas brings them")
	}
	return dir
}

// loadSchema returns the definitions of a revision, decoded and raw.
func loadSchema(t testing.TB, revision string) (map[string]*schema, map[string]json.RawMessage) {
	t.Helper()
	raw, err := readDefinitions(specDir(t), revision)
	if err != nil {
		t.Fatal(err)
	}
	defs := make(map[string]*schema, len(raw))
	for name, r := range raw {
		defs[name] = new(schema)
		if err := json.Unmarshal(r, defs[name]); err != nil {
			t.Fatalf("%s %s: %v", revision, name, err)
		}
	}
	return defs, raw
}

// readDefinitions returns the definitions of a revision's schema in a directory.
func readDefinitions(dir, revision string) (map[string]json.RawMessage, error) {
	data, err := os.ReadFile(filepath.Join(dir, revision, "schema.json"))
	if err != nil {
		return nil, err
	}
	var doc struct {
		Defs        map[string]json.RawMessage `json:"$defs"`
		Definitions map[string]json.RawMessage `json:"definitions"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	if doc.Defs == nil {
		return doc.Definitions, nil
	}
	return doc.Defs, nil
}

// validator checks values against the definitions of one schema. It holds a schema with
// a property for each definition, so that resolving once is enough for all of them.
type validator struct{ resolved *jsonschema.Resolved }

// validators has the validator of each revision: to make one costs more than most tests do with it.
var validators sync.Map // revision → func() (*validator, error)

// officialValidator returns the validator of a revision as it is published, one for all tests.
func officialValidator(t testing.TB, revision string) *validator {
	t.Helper()
	dir := specDir(t)
	f, _ := validators.LoadOrStore(revision, sync.OnceValues(func() (*validator, error) {
		raw, err := readDefinitions(dir, revision)
		if err != nil {
			return nil, err
		}
		return newValidator(raw)
	}))
	v, err := f.(func() (*validator, error))()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func newValidator(raw map[string]json.RawMessage) (*validator, error) {
	props := map[string]any{}
	for name := range raw {
		props[name] = map[string]string{"$ref": "#/$defs/" + name}
	}
	doc, err := json.Marshal(map[string]any{"$defs": raw, "type": "object", "properties": props})
	if err != nil {
		return nil, err
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(doc, &s); err != nil {
		return nil, err
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, err
	}
	return &validator{resolved}, nil
}

func (v *validator) check(def string, data []byte) error {
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return err
	}
	return v.resolved.Validate(map[string]any{def: value})
}

// request and notification are envelopes with typed params, so that the tests reach
// the params through the definition of the whole message.
type request[P any] struct {
	JSONRPC string        `json:"jsonrpc"`
	ID      mcp.RequestID `json:"id"`
	Method  string        `json:"method"`
	Params  *P            `json:"params,omitempty"`
}

type notification[P any] struct {
	JSONRPC string `json:"jsonrpc"`
	Method  string `json:"method"`
	Params  *P     `json:"params,omitempty"`
}

// block and field stand for one content block and one form field.
type block struct{ mcp.Content }

func (b *block) UnmarshalJSON(data []byte) error {
	var one mcp.Contents
	err := one.UnmarshalJSON(slices.Concat([]byte("["), data, []byte("]")))
	if err == nil {
		b.Content = one[0]
	}
	return err
}

func (b block) MarshalJSON() ([]byte, error) { return codec.Marshal(b.Content) }

type field struct{ form mcp.FormSchema }

func (f *field) UnmarshalJSON(data []byte) error {
	return f.form.UnmarshalJSON([]byte(`{"type":"object","properties":{"f":` + string(data) + `}}`))
}

func (f field) MarshalJSON() ([]byte, error) {
	data, err := f.form.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return data[len(`{"type":"object","properties":{"f":`) : len(data)-len(`}}`)], nil
}

// union marks a definition that only joins others; each of those has its entry.
type union struct{}

// inPlace marks a message that has no type: the server reads and writes its bytes.
type inPlace struct{}

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

// goTypes has the type of each definition of 2025-11-25.
var goTypes = map[string]reflect.Type{
	"Annotations":                      typeOf[mcp.Annotations](),
	"AudioContent":                     typeOf[mcp.AudioContent](),
	"BaseMetadata":                     typeOf[mcp.PromptArgument](),
	"BlobResourceContents":             typeOf[mcp.ResourceContents](),
	"BooleanSchema":                    typeOf[mcp.BooleanSchema](),
	"CallToolRequest":                  typeOf[request[mcp.CallToolParams]](),
	"CallToolRequestParams":            typeOf[mcp.CallToolParams](),
	"CallToolResult":                   typeOf[mcp.CallToolResult](),
	"CancelTaskRequest":                typeOf[inPlace](),
	"CancelTaskResult":                 typeOf[protocol.CancelTaskResult](),
	"CancelledNotification":            typeOf[notification[mcp.CancelledParams]](),
	"CancelledNotificationParams":      typeOf[mcp.CancelledParams](),
	"ClientCapabilities":               typeOf[mcp.ClientCapabilities](),
	"ClientNotification":               typeOf[union](),
	"ClientRequest":                    typeOf[union](),
	"ClientResult":                     typeOf[union](),
	"CompleteRequest":                  typeOf[request[mcp.CompleteParams]](),
	"CompleteRequestParams":            typeOf[mcp.CompleteParams](),
	"CompleteResult":                   typeOf[protocol.CompleteResult](),
	"ContentBlock":                     typeOf[block](),
	"CreateMessageRequest":             typeOf[request[mcp.CreateMessageParams]](),
	"CreateMessageRequestParams":       typeOf[mcp.CreateMessageParams](),
	"CreateMessageResult":              typeOf[mcp.CreateMessageResult](),
	"CreateTaskResult":                 typeOf[protocol.CreateTaskResult](),
	"Cursor":                           typeOf[string](),
	"ElicitRequest":                    typeOf[request[mcp.ElicitParams]](),
	"ElicitRequestFormParams":          typeOf[mcp.ElicitForm](),
	"ElicitRequestParams":              typeOf[mcp.ElicitParams](),
	"ElicitRequestURLParams":           typeOf[mcp.ElicitURL](),
	"ElicitResult":                     typeOf[mcp.ElicitResult](),
	"ElicitationCompleteNotification":  typeOf[notification[protocol.ElicitCompleteParams]](),
	"EmbeddedResource":                 typeOf[mcp.EmbeddedResource](),
	"EmptyResult":                      typeOf[inPlace](),
	"EnumSchema":                       typeOf[field](),
	"Error":                            typeOf[mcp.Error](),
	"GetPromptRequest":                 typeOf[request[mcp.GetPromptParams]](),
	"GetPromptRequestParams":           typeOf[mcp.GetPromptParams](),
	"GetPromptResult":                  typeOf[mcp.GetPromptResult](),
	"GetTaskPayloadRequest":            typeOf[inPlace](),
	"GetTaskPayloadResult":             typeOf[inPlace](),
	"GetTaskRequest":                   typeOf[inPlace](),
	"GetTaskResult":                    typeOf[mcp.GetTaskResult](),
	"Icon":                             typeOf[mcp.Icon](),
	"Icons":                            typeOf[mcp.Prompt](),
	"ImageContent":                     typeOf[mcp.ImageContent](),
	"Implementation":                   typeOf[mcp.Implementation](),
	"InitializeRequest":                typeOf[request[mcp.InitializeParams]](),
	"InitializeRequestParams":          typeOf[mcp.InitializeParams](),
	"InitializeResult":                 typeOf[mcp.InitializeResult](),
	"InitializedNotification":          typeOf[inPlace](),
	"JSONRPCErrorResponse":             typeOf[inPlace](),
	"JSONRPCMessage":                   typeOf[union](),
	"JSONRPCNotification":              typeOf[inPlace](),
	"JSONRPCRequest":                   typeOf[inPlace](),
	"JSONRPCResponse":                  typeOf[union](),
	"JSONRPCResultResponse":            typeOf[inPlace](),
	"LegacyTitledEnumSchema":           typeOf[mcp.LegacyEnumSchema](),
	"ListPromptsRequest":               typeOf[inPlace](),
	"ListPromptsResult":                typeOf[inPlace](),
	"ListResourceTemplatesRequest":     typeOf[inPlace](),
	"ListResourceTemplatesResult":      typeOf[inPlace](),
	"ListResourcesRequest":             typeOf[inPlace](),
	"ListResourcesResult":              typeOf[inPlace](),
	"ListRootsRequest":                 typeOf[inPlace](),
	"ListRootsResult":                  typeOf[mcp.ListRootsResult](),
	"ListTasksRequest":                 typeOf[inPlace](),
	"ListTasksResult":                  typeOf[protocol.ListTasksResult](),
	"ListToolsRequest":                 typeOf[inPlace](),
	"ListToolsResult":                  typeOf[mcp.ListToolsResult](),
	"LoggingLevel":                     typeOf[mcp.LoggingLevel](),
	"LoggingMessageNotification":       typeOf[notification[mcp.LogParams]](),
	"LoggingMessageNotificationParams": typeOf[mcp.LogParams](),
	"ModelHint":                        typeOf[mcp.ModelHint](),
	"ModelPreferences":                 typeOf[mcp.ModelPreferences](),
	"MultiSelectEnumSchema":            typeOf[field](),
	"Notification":                     typeOf[inPlace](),
	"NotificationParams":               typeOf[inPlace](),
	"NumberSchema":                     typeOf[mcp.NumberSchema](),

	"PaginatedRequest":                  typeOf[inPlace](),
	"PaginatedRequestParams":            typeOf[inPlace](),
	"PaginatedResult":                   typeOf[protocol.ListTasksResult](),
	"PingRequest":                       typeOf[inPlace](),
	"PrimitiveSchemaDefinition":         typeOf[field](),
	"ProgressNotification":              typeOf[notification[mcp.ProgressParams]](),
	"ProgressNotificationParams":        typeOf[mcp.ProgressParams](),
	"ProgressToken":                     typeOf[mcp.ProgressToken](),
	"Prompt":                            typeOf[mcp.Prompt](),
	"PromptArgument":                    typeOf[mcp.PromptArgument](),
	"PromptListChangedNotification":     typeOf[inPlace](),
	"PromptMessage":                     typeOf[mcp.PromptMessage](),
	"PromptReference":                   typeOf[mcp.Reference](),
	"ReadResourceRequest":               typeOf[request[mcp.ReadResourceParams]](),
	"ReadResourceRequestParams":         typeOf[mcp.ReadResourceParams](),
	"ReadResourceResult":                typeOf[mcp.ReadResourceResult](),
	"RelatedTaskMetadata":               typeOf[protocol.RelatedTask](),
	"Request":                           typeOf[inPlace](),
	"RequestId":                         typeOf[mcp.RequestID](),
	"RequestParams":                     typeOf[inPlace](),
	"Resource":                          typeOf[mcp.Resource](),
	"ResourceContents":                  typeOf[mcp.ResourceContents](),
	"ResourceLink":                      typeOf[mcp.ResourceLink](),
	"ResourceListChangedNotification":   typeOf[inPlace](),
	"ResourceRequestParams":             typeOf[inPlace](),
	"ResourceTemplate":                  typeOf[mcp.ResourceTemplate](),
	"ResourceTemplateReference":         typeOf[mcp.Reference](),
	"ResourceUpdatedNotification":       typeOf[inPlace](),
	"ResourceUpdatedNotificationParams": typeOf[inPlace](),
	"Result":                            typeOf[inPlace](),
	"Role":                              typeOf[mcp.Role](),
	"Root":                              typeOf[mcp.Root](),
	"RootsListChangedNotification":      typeOf[inPlace](),
	"SamplingMessage":                   typeOf[mcp.SamplingMessage](),
	"SamplingMessageContentBlock":       typeOf[block](),
	"ServerCapabilities":                typeOf[mcp.ServerCapabilities](),
	"ServerNotification":                typeOf[union](),
	"ServerRequest":                     typeOf[union](),
	"ServerResult":                      typeOf[union](),
	"SetLevelRequest":                   typeOf[request[protocol.SetLevelParams]](),
	"SetLevelRequestParams":             typeOf[protocol.SetLevelParams](),
	"SingleSelectEnumSchema":            typeOf[field](),
	"StringSchema":                      typeOf[mcp.StringSchema](),
	"SubscribeRequest":                  typeOf[inPlace](),
	"SubscribeRequestParams":            typeOf[inPlace](),
	"Task":                              typeOf[mcp.Task](),
	"TaskAugmentedRequestParams":        typeOf[mcp.CallToolParams](),
	"TaskMetadata":                      typeOf[mcp.TaskMetadata](),
	"TaskStatus":                        typeOf[mcp.TaskStatus](),
	"TaskStatusNotification":            typeOf[notification[protocol.TaskStatusParams]](),
	"TaskStatusNotificationParams":      typeOf[protocol.TaskStatusParams](),
	"TextContent":                       typeOf[mcp.TextContent](),
	"TextResourceContents":              typeOf[mcp.ResourceContents](),
	"TitledMultiSelectEnumSchema":       typeOf[mcp.TitledMultiEnumSchema](),
	"TitledSingleSelectEnumSchema":      typeOf[mcp.TitledEnumSchema](),
	"Tool":                              typeOf[mcp.Tool](),
	"ToolAnnotations":                   typeOf[mcp.ToolAnnotations](),
	"ToolChoice":                        typeOf[mcp.ToolChoice](),
	"ToolExecution":                     typeOf[mcp.ToolExecution](),
	"ToolListChangedNotification":       typeOf[inPlace](),
	"ToolResultContent":                 typeOf[mcp.ToolResultContent](),
	"ToolUseContent":                    typeOf[mcp.ToolUseContent](),
	"URLElicitationRequiredError":       typeOf[inPlace](),
	"UnsubscribeRequest":                typeOf[inPlace](),
	"UnsubscribeRequestParams":          typeOf[inPlace](),
	"UntitledMultiSelectEnumSchema":     typeOf[mcp.MultiEnumSchema](),
	"UntitledSingleSelectEnumSchema":    typeOf[mcp.EnumSchema](),
}

// bases are definitions that others extend: their type is one that extends them, so it
// has more members than they do.
var bases = []string{"BaseMetadata", "Icons", "PaginatedResult", "TaskAugmentedRequestParams", "ResourceContents",
	"TextResourceContents", "BlobResourceContents", "PromptReference", "ResourceTemplateReference", "Request", "Notification",
	"CacheableResult", "InputResponseRequestParams"}

// choices are required members of a struct that has one of several; the constructors
// set the right one.
var choices = []string{"TextResourceContents.text", "BlobResourceContents.blob", "PromptReference.name",
	"ResourceTemplateReference.uri"}

// rawMembers are objects kept as their bytes.
var rawMembers = []string{"_meta", "inputSchema", "outputSchema", "requestedSchema", "data", "GetTaskPayloadResult",
	"RequestMetaObject", "NotificationMetaObject", "ResultMetaObject", "SubscriptionsListenResultMetaObject"}

// extra are members that a params or result has in the base definition of its kind but
// not in its own, and those of extensions.
var extra = []string{"_meta", "taskIds"}

func TestEveryDefinitionHasAType(t *testing.T) {
	t.Parallel()
	for i, o := range officials {
		other, _ := loadSchema(t, officials[1-i].revision.String())
		o.checkTypes(t, other)
	}
}

func (o official) checkTypes(t *testing.T, other map[string]*schema) {
	defs, _ := loadSchema(t, o.revision.String())
	c := memberCheck{t, o, defs, other}
	for name, def := range defs {
		typ, ok := o.types[name]
		if !ok {
			t.Errorf("%v: no type for definition %s", o.revision, name)
			continue
		}
		if typ == typeOf[union]() {
			for _, member := range def.AnyOf {
				if _, ok := o.types[member.ref()]; !ok {
					t.Errorf("%v: no type for %s, a member of %s", o.revision, member.ref(), name)
				}
			}
			continue
		}
		if typ == typeOf[inPlace]() {
			continue
		}
		c.check(name, def, other[name], typ)
	}
	for name := range o.types {
		if defs[name] == nil {
			t.Errorf("%v: got a type for %s, which the schema does not define", o.revision, name)
		}
	}
}

// A memberCheck compares types with the definitions of one revision. The structs are
// the union of both: the other one explains members that this one lacks, and required
// ones that are left out when they are zero.
type memberCheck struct {
	*testing.T
	official
	defs, other map[string]*schema
}

// check compares the members of a definition, or of an object inside it, with the json
// members of the type. The other schema is that of the same place, if there is one.
func (t memberCheck) check(path string, def, other *schema, typ reflect.Type) {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if def.Items != nil && typ.Kind() == reflect.Slice {
		var items *schema
		if other != nil {
			items = other.Items
		}
		t.check(path+"[]", def.Items, items, typ.Elem())
		return
	}
	props, required := gather(t.defs, def)
	var elsewhere map[string]*schema
	var alsoRequired map[string]bool
	if other != nil {
		elsewhere, alsoRequired = gather(t.other, other)
	}
	if typ.Kind() != reflect.Struct && len(props) > 0 && !slices.Contains(rawMembers, path[strings.LastIndexByte(path, '.')+1:]) {
		t.Errorf("%s: %v is no struct, though the schema has members", path, typ)
	}
	if typ.Kind() != reflect.Struct || len(props) == 0 || def.Ref != "" || typ == typeOf[block]() || typ == typeOf[field]() {
		return // a scalar, raw bytes, a union, or checked under its own name
	}
	members := jsonMembers(typ)
	for name, prop := range props {
		f, ok := members[name]
		if !ok {
			t.Errorf("%s: %v lacks the member %q", path, typ, name)
			continue
		}
		_, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		optional := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
		ofBoth := other == nil || alsoRequired[name]
		if required[name] && optional && ofBoth && !slices.Contains(bases, path) && f.Name != "Params" && !slices.Contains(choices, path+"."+name) {
			t.Errorf("%s: %v drops the required member %q when it is zero", path, typ, name)
		}
		if !required[name] && !optional && !slices.Contains(bases, path) {
			t.Errorf("%s: %v always writes the optional member %q", path, typ, name)
		}
		t.check(path+"."+name, prop, elsewhere[name], f.Type)
	}
	if slices.Contains(bases, path) {
		return
	}
	for name := range members {
		if props[name] == nil && elsewhere[name] == nil && !slices.Contains(extra, name) {
			t.Errorf("%s: %v has a member %q the schema lacks", path, typ, name)
		}
	}
}

// gather returns the members of a definition, with those of its parts.
func gather(defs map[string]*schema, def *schema) (map[string]*schema, map[string]bool) {
	props, required := map[string]*schema{}, map[string]bool{}
	for _, part := range def.AllOf {
		if part.Ref != "" {
			part = defs[part.ref()]
		}
		p, r := gather(defs, part)
		for name, s := range p {
			props[name] = s
		}
		for name := range r {
			required[name] = true
		}
	}
	for name, s := range def.Properties {
		props[name] = s
	}
	for _, name := range def.Required {
		required[name] = true
	}
	return props, required
}

func jsonMembers(typ reflect.Type) map[string]reflect.StructField {
	members := map[string]reflect.StructField{}
	for _, f := range reflect.VisibleFields(typ) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			members[name] = f
		}
	}
	return members
}

// TestZeroValuesKeepRequiredMembers encodes zero values: they have the required
// members, and required lists are [].
func TestZeroValuesKeepRequiredMembers(t *testing.T) {
	t.Parallel()
	legacy, _ := loadSchema(t, "2025-11-25")
	stateless, _ := loadSchema(t, "2026-07-28")
	legacyOfficial.checkZeroValues(t, legacy, stateless)
	statelessOfficial.checkZeroValues(t, stateless, legacy)
}

func (o official) checkZeroValues(t *testing.T, defs, other map[string]*schema) {
	special := map[string]any{
		"TextResourceContents":       mcp.TextResource("", "", ""),
		"BlobResourceContents":       mcp.BlobResource("", "", nil),
		"PromptReference":            mcp.Reference{Type: mcp.RefPrompt},
		"ResourceTemplateReference":  mcp.Reference{Type: mcp.RefResource},
		"ProgressNotificationParams": mcp.ProgressParams{ProgressToken: mcp.ProgressToken("0")},
	}
	for name, def := range defs {
		typ := o.types[name]
		props, required := gather(defs, def)
		if other[name] != nil {
			_, both := gather(other, other[name])
			maps.DeleteFunc(required, func(member string, _ bool) bool { return !both[member] })
		}
		if typ == nil || typ == typeOf[inPlace]() || typ.Kind() != reflect.Struct || len(props) == 0 || props["params"] != nil || slices.Contains(abstract, name) {
			continue
		}
		v, ok := special[name]
		if typ == typeOf[inPlace]() {
			v = special["JSONRPCResultResponse"]
		} else if !ok {
			v = reflect.New(typ).Interface()
		}
		data, err := codec.Marshal(v)
		if err != nil {
			t.Errorf("%s: encode the zero value: %v", name, err)
			continue
		}
		var got map[string]json.RawMessage
		if err := json.Unmarshal(data, &got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for member := range required {
			raw, ok := got[member]
			if !ok {
				t.Errorf("%s: got %s, want the required member %q", name, data, member)
			}
			if props[member].Type == "array" && string(raw) != "[]" {
				t.Errorf("%s: got %q = %s, want []", name, member, raw)
			}
		}
	}
}

// TestValidatorRefuses checks that the validator of the tests above does not accept
// everything.
func TestValidatorRefuses(t *testing.T) {
	t.Parallel()
	v := officialValidator(t, "2025-11-25")
	for def, text := range map[string]string{
		"CallToolResult": `{"content":null}`, "Task": `{"taskId":"t"}`, "Tool": `{"name":"x","inputSchema":null}`,
		"RequestId": `null`, "ContentBlock": `{"type":"x"}`, "Annotations": `{"priority":2}`,
	} {
		if v.check(def, []byte(text)) == nil {
			t.Errorf("%s: got %s accepted", def, text)
		}
	}
}

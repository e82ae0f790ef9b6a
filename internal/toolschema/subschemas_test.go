package toolschema

import (
	"strconv"
	"strings"
	"testing"
)

// TestSubschemasAreCounted checks the bound on the number of schemas from below,
// without the time to compile them.
func TestSubschemasAreCounted(t *testing.T) {
	t.Parallel()
	doc := map[string]any{"allOf": []any{map[string]any{}, true}, "x": map[string]any{}, "const": map[string]any{}}
	properties := map[string]any{}
	for i := range maxSubschemas - 3 {
		properties[strconv.Itoa(i)] = map[string]any{}
	}
	doc["properties"] = properties
	visit := func(map[string]any, []string) error { return nil }
	if w := (schemaWalk{visit: visit}); w.walkDocument(doc) != nil || w.count != maxSubschemas {
		t.Errorf("got %d schemas, want %d", w.count, maxSubschemas)
	}
	properties["one"] = map[string]any{}
	if (&schemaWalk{visit: visit}).walkDocument(doc) == nil {
		t.Error("one more is accepted")
	}
}

// TestSchemaBounds checks for which schemas the registration of a tool fails.
func TestSchemaBounds(t *testing.T) {
	t.Parallel()
	depth := func(n int) string {
		return `{"type":"object","properties":{"a":` + nested(n-2, `{"not":`, `{}`, `}`) + `}}`
	}
	many := func(n int) string {
		return `{"type":"object","$defs":{"a":{"enum":[{},{},{}]}},"allOf":[` + strings.Repeat(`{},`, n-3) + `{}]}`
	}
	for name, row := range map[string]struct{ schema, fault string }{
		"deep":                          {depth(maxSchemaDepth), ""},
		"too deep":                      {depth(maxSchemaDepth + 1), "nested more than 64 deep"},
		"too deep in an unknown member": {`{"type":"object","x":` + nested(100, `[`, ``, `]`) + `}`, "nested more than 64 deep"},
		"data may be deep":              {`{"type":"object","default":` + nested(100, `[`, ``, `]`) + `}`, ""},
		"too many":                      {many(maxSubschemas + 1), "more than 10000 schemas"},
		"a cycle":                       {`{"type":"object","$ref":"#"}`, "leads back to its own schema"},
		"a longer cycle":                {`{"type":"object","$defs":{"a":{"anyOf":[{},{"$ref":"#/$defs/b"}]},"b":{"if":{"$ref":"#/$defs/a"}}},"properties":{"a":{"$ref":"#/$defs/a"}}}`, "leads back to its own schema"},
		"recursion":                     {`{"type":"object","properties":{"a":{"$ref":"#"},"b":{"items":{"$ref":"#"}}},"additionalProperties":{"$ref":"#"}}`, ""},
		"a large exponent":              {`{"type":"object","properties":{"a":{"enum":[1,[-1e-1000]]}}}`, "a number is too long or its exponent too large"},
		"a long number":                 {`{"type":"object","properties":{"a":{"minimum":1` + strings.Repeat("0", maxNumber) + `}}}`, "a number is too long or its exponent too large"},
		"a usable exponent":             {`{"type":"object","properties":{"a":{"maximum":1.7976931348623157e308,"const":1e999}}}`, ""},
		"another document":              {`{"type":"object","properties":{"a":{"$ref":"https://x.example/schema"}}}`, "references to other documents are not followed"},
		"an unknown dialect":            {`{"$schema":"https://x.example/dialect","type":"object"}`, "references to other documents are not followed"},
		"no object":                     {`{"type":"array"}`, `its type must be "object"`},
		"true":                          {`true`, `its type must be "object"`},
		"draft 7":                       {`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","definitions":{"a":{}},"properties":{"a":{"$ref":"#/definitions/a"}}}`, ""},
		"a keyword that does not fit":   {`{"type":"object","properties":{"a":{"minimum":"x"}}}`, "minimum"},
	} {
		_, refused := headersOf(row.schema)
		if row.fault == "" && refused != "" || !strings.Contains(refused, row.fault) {
			t.Errorf("%s: got %q, want %q", name, refused, row.fault)
		}
	}
}

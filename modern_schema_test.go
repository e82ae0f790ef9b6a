package troupe

import (
	"strings"
	"testing"
)

// TestDialects holds which dialects of JSON Schema are understood, by a keyword that
// means something else in the next (2026-07-28, basic/index, schema dialect).
func TestDialects(t *testing.T) {
	t.Parallel()
	const pair = `{"type":"object","properties":{"a":{"items":[{"type":"string"}]}}}`
	for _, tt := range []struct{ dialect, schema, good, bad string }{
		{"http://json-schema.org/draft-04/schema#", `{"type":"object","properties":{"a":{"minimum":1,"exclusiveMinimum":true}}}`, `{"a":2}`, `{"a":1}`},
		{"http://json-schema.org/draft-06/schema#", `{"type":"object","properties":{"a":{"exclusiveMinimum":1}}}`, `{"a":2}`, `{"a":1}`},
		{"http://json-schema.org/draft-07/schema#", `{"type":"object","if":{"required":["a"]},"then":{"required":["b"]}}`, `{}`, `{"a":1}`},
		{"http://json-schema.org/draft-07/schema#", pair, `{"a":["x"]}`, `{"a":[1]}`},
		{"https://json-schema.org/draft/2019-09/schema", pair, `{"a":["x"]}`, `{"a":[1]}`},
		{"https://json-schema.org/draft/2020-12/schema", `{"type":"object","properties":{"a":{"prefixItems":[{"type":"string"}]}}}`, `{"a":["x",1]}`, `{"a":[1]}`},
		{"", `{"type":"object","properties":{"a":{"prefixItems":[{"type":"string"}]}},"unevaluatedProperties":false}`, `{"a":["x",1]}`, `{"b":1}`},
		{"", `{"type":"object","$defs":{"s":{"$anchor":"s","type":"string"}},"properties":{"a":{"$ref":"#s"}}}`, `{"a":"x"}`, `{"a":1}`},
	} {
		schema := tt.schema
		if tt.dialect != "" {
			schema = strings.Replace(schema, "{", `{"$schema":"`+tt.dialect+`",`, 1)
		}
		compiled, _ := inputSchema("t", []byte(schema))
		if err := compiled.validate([]byte(tt.good)); err != nil {
			t.Errorf("%s: %s: %v", schema, tt.good, err)
		}
		if err := compiled.validate([]byte(tt.bad)); err == nil {
			t.Errorf("%s: %s is taken", schema, tt.bad)
		}
	}
	for _, schema := range []string{`{"$schema":"http://json-schema.org/draft-03/schema#","type":"object"}`, `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"a":{"items":[{}]}}}`} {
		if _, refused := registered(schema); refused == "" {
			t.Errorf("%s is taken", schema)
		}
	}
}

package toolschema

import (
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/codec"
)

// TestCompiledFormsAreShared checks that schemas with one text share a compiled form,
// and that the form is forgotten when no schema uses it.
func TestCompiledFormsAreShared(t *testing.T) {
	const text = `{"type":"object","properties":{"a text that no other test has":{}}}`
	var schemas []*Schema
	for range 10 {
		s, err := Result(json.RawMessage(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate([]byte(`{}`)); err != nil {
			t.Fatal(err)
		}
		schemas = append(schemas, s)
	}
	for _, s := range schemas {
		if s.compiled.Load() != schemas[0].compiled.Load() {
			t.Error("two schemas with one text were compiled twice")
		}
	}
	before := InUse()
	runtime.KeepAlive(schemas)
	schemas = nil
	for i := 0; InUse() >= before; i++ {
		if i == 100 {
			t.Fatalf("%d schemas are in use, want fewer than the %d before", InUse(), before)
		}
		runtime.GC()
	}
}

// TestFormatsOfForms checks that a format counts in a form, and not in the schema of a tool.
func TestFormatsOfForms(t *testing.T) {
	schema := json.RawMessage(`{"type":"string","format":"date"}`)
	form, err := Form(schema)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := Result(schema)
	if err != nil {
		t.Fatal(err)
	}
	if err := plain.Validate([]byte(`"today"`)); err != nil {
		t.Errorf("a format is a remark in the schema of a tool: %v", err)
	}
	if form.Validate([]byte(`"today"`)) == nil || form.Validate([]byte(`"2026-01-02"`)) != nil {
		t.Error("a form does not hold dates to their format")
	}
	if _, err := Form(json.RawMessage(`{"type":"date"}`)); err == nil {
		t.Error("there is no type date")
	}
}

// TestDialects checks which dialects of JSON Schema are understood, by a keyword that has another
// meaning in the next dialect (2026-07-28, basic/index, schema dialect).
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
		compiled, _, err := Arguments([]byte(schema))
		if err != nil {
			t.Errorf("%s: %v", schema, err)
			continue
		}
		if err := compiled.Validate([]byte(tt.good)); err != nil {
			t.Errorf("%s: %s: %v", schema, tt.good, err)
		}
		if err := compiled.Validate([]byte(tt.bad)); err == nil {
			t.Errorf("%s: %s is taken", schema, tt.bad)
		}
	}
	for _, schema := range []string{`{"$schema":"http://json-schema.org/draft-03/schema#","type":"object"}`, `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"a":{"items":[{}]}}}`} {
		if _, refused := headersOf(schema); refused == "" {
			t.Errorf("%s is taken", schema)
		}
	}
}

// TestErrorsNameNoURLOfOurs checks the errors of refused schemas: none names the URL
// that a schema has only while it is compiled.
func TestErrorsNameNoURLOfOurs(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`{"type":"object","properties":{"a":{"minimum":"x"}}}`:                         "the schema is not valid against metaschema: ",
		`{"type":"object","properties":{"a":{"$ref":"#/nowhere"}}}`:                    `json-pointer in "#/nowhere" not found`,
		`{"type":"object","properties":{"a":{"$ref":"#nowhere"}}}`:                     `anchor in "#nowhere" not found in the schema`,
		`{"type":"object","properties":{"a":{"$ref":"other.json"}}}`:                   `failing loading "other.json": references to other documents are not followed: other.json`,
		`{"type":"object","properties":{"a":{"$ref":"https://x.example/other.json"}}}`: `failing loading "https://x.example/other.json": references to other documents are not followed: https://x.example/other.json`,
		`{"type":"object","$anchor":"a","$defs":{"a":{"$anchor":"a"}}}`:                `duplicate anchor "a" in the schema at `,
	} {
		_, _, err := Arguments(json.RawMessage(schema))
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "tool.invalid") {
			t.Errorf("%s: got %v, want %s", schema, err, want)
		}
		if _, err := Result(json.RawMessage(schema)); err == nil || strings.Contains(err.Error(), "tool.invalid") {
			t.Errorf("%s as a result's: got %v", schema, err)
		}
	}
}

// TestFaultsAreBounded checks how many faults an error names when arguments do not fit,
// and that the text of a single fault is complete.
func TestFaultsAreBounded(t *testing.T) {
	t.Parallel()
	s, _, _ := Arguments(json.RawMessage(`{"type":"object","properties":{"l":{"items":{"type":"integer"}},"s":{"pattern":"^a$"}},"required":["s"]}`))
	for args, want := range map[string]string{
		`{}`:                      `at '': missing property 's'`,
		`{"l":["x"]}`:             `at '': missing property 's'; at '/l/0': got string, want integer`,
		`{"l":["x","y"],"s":"a"}`: `at '/l/0': got string, want integer; at '/l/1': got string, want integer`,
	} {
		if err := s.Validate([]byte(args)); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", args, err, want)
		}
	}
	err := s.Validate([]byte(`{"s":"a","l":[` + strings.Repeat(`"x",`, 1000) + `"x"]}`))
	if got := strings.Count(err.Error(), "want integer"); got != maxFaults || !strings.HasSuffix(err.Error(), "; and more") {
		t.Errorf("got %d faults in %s, want %d and more", got, err, maxFaults)
	}
	err = s.Validate([]byte(`{"s":"` + strings.Repeat("é", 10000) + `"}`))
	if len(err.Error()) > maxFaultText+len("…") || !strings.HasSuffix(err.Error(), "é…") {
		t.Errorf("got %d bytes: …%s", len(err.Error()), err.Error()[len(err.Error())-20:])
	}
}

func BenchmarkValidate(b *testing.B) {
	for name, row := range map[string][2]string{
		"small":   {`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`, `{"text":"hello, world"}`},
		"list":    {twice, `{"l":[` + strings.Repeat("1,", 1000) + `1]}`},
		"refused": {twice, `{"a":` + nested(60, `{"n":`, `{}`, `}`) + `}`},
	} {
		b.Run(name, func(b *testing.B) {
			s, _, _ := Arguments(json.RawMessage(row[0]))
			b.ReportAllocs()
			for b.Loop() {
				_ = s.Validate([]byte(row[1]))
			}
		})
	}
}

// FuzzValidate checks that no schema and no value make the package panic, and that a
// value within the budget gets the same verdict as without one.
func FuzzValidate(f *testing.F) {
	for schema, args := range map[string]string{
		`{"type":"object"}`: `{}`,
		twice:               `{"a":` + nested(4, `{"n":`, `{"x":1}`, `}`) + `,"l":[1,2.0,1e2]}`,
		wide(6):             `{}`,
		`{"type":"object","properties":{"a":{"type":["string","null"],"minLength":1},"b":{"items":{"type":"integer","maximum":3},"maxItems":2}},"required":["a"],"additionalProperties":false}`: `{"a":"é","b":[1,-2]}`,
		`{"type":"object","additionalProperties":{"enum":["a",""]}}`: `{"b":"a","c":""}`,
		headerBenchSchema: `{"region":"r","count":42,"at":{"zone":"a"}}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","if":{"required":["a"]},"then":{"required":["b"]}}`:               `{"a":1}`,
		`{"type":"object","properties":{"a":{"prefixItems":[{"type":"string","format":"date","pattern":"^a"}]}},"unevaluatedProperties":false}`: `{"a":["x",1]}`,
		`{"type":"object","$defs":{"s":{"$anchor":"s","enum":[1,1.0,null]}},"additionalProperties":{"$ref":"#s"},"$dynamicRef":"#"}`:            `{"a":1}`,
	} {
		f.Add(schema, args)
	}
	f.Fuzz(func(t *testing.T, schema, args string) {
		if len(schema) > 1<<10 || len(args) > 1<<10 || !codec.Valid([]byte(schema)) || !codec.Valid([]byte(args)) {
			return
		}
		s, headers, err := Arguments([]byte(schema))
		if err != nil {
			return
		}
		_ = headers.Check(nil, []byte(args))
		got := s.Validate([]byte(args))
		if errors.Is(got, errMuchWork) || errors.Is(got, errBadNumber) {
			return
		}
		plain, err := compileText([]byte(schema), false)
		if err != nil {
			t.Fatal(err)
		}
		v, err := codec.UniqueTree([]byte(args))
		if err != nil {
			if got == nil {
				t.Errorf("%s against %s: it fits, although %v", args, schema, err)
			}
			return
		}
		if want := plain.schema.Validate(v); (got == nil) != (want == nil) {
			t.Errorf("%s against %s: got %v, without a budget %v", args, schema, got, want)
		}
		if err := plain.whether.Validate(v); (got == nil) == (err == nil) {
			t.Errorf("%s against %s: got %v, and for whether it fits not %v", args, schema, got, err)
		}
		if again := s.Validate([]byte(args)); (again == nil) != (got == nil) {
			t.Errorf("%s against %s: got %v, then %v", args, schema, got, again)
		}
	})
}

// TestWhereASchemaIsNotJSON checks that the refusal of a schema that is not JSON names the place.
func TestWhereASchemaIsNotJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                   "it is not JSON: line 1, column 1: unexpected end of JSON input",
		`{"type":"object"`:                   "it is not JSON: line 1, column 17: unexpected end of JSON input",
		"{\n\t\"type\": \"object\",\n\t}":    "it is not JSON: line 3, column 2: invalid character '}' looking for beginning of object key string",
		`{"type":"object","properties":{x}}`: "it is not JSON: line 1, column 32: invalid character 'x' looking for beginning of object key string",
		`{"type":"object"} {}`:               "it is not JSON: line 1, column 19: invalid character '{' after top-level value",
	} {
		if _, _, err := Arguments(json.RawMessage(text)); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

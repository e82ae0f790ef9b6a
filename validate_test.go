package troupe

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"
)

func nested(n int, open, inner, shut string) string {
	return strings.Repeat(open, n) + inner + strings.Repeat(shut, n)
}

// TestSubschemasAreCounted holds the bound on their number from below, without the
// time to compile them.
func TestSubschemasAreCounted(t *testing.T) {
	t.Parallel()
	doc := map[string]any{"allOf": []any{map[string]any{}, true}, "x": map[string]any{}, "const": map[string]any{}}
	properties := map[string]any{}
	for i := range maxSubschemas - 3 {
		properties[strconv.Itoa(i)] = map[string]any{}
	}
	doc["properties"] = properties
	visit := func(map[string]any, []string) error { return nil }
	if w := (schemaWalk{visit: visit}); w.walk(doc) != nil || w.count != maxSubschemas {
		t.Errorf("got %d schemas, want %d", w.count, maxSubschemas)
	}
	properties["one"] = map[string]any{}
	if (&schemaWalk{visit: visit}).walk(doc) == nil {
		t.Error("one more is accepted")
	}
}

// TestSchemaBounds holds what a tool is refused for when it is registered.
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
		"another document":              {`{"type":"object","properties":{"a":{"$ref":"https://x.example/schema"}}}`, "references to other documents are not followed"},
		"an unknown dialect":            {`{"$schema":"https://x.example/dialect","type":"object"}`, "references to other documents are not followed"},
		"no object":                     {`{"type":"array"}`, `its type must be "object"`},
		"true":                          {`true`, `its type must be "object"`},
		"draft 7":                       {`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","definitions":{"a":{}},"properties":{"a":{"$ref":"#/definitions/a"}}}`, ""},
		"a keyword that does not fit":   {`{"type":"object","properties":{"a":{"minimum":"x"}}}`, "minimum"},
	} {
		_, refused := registered(row.schema)
		if row.fault == "" && refused != "" || !strings.Contains(refused, row.fault) {
			t.Errorf("%s: got %q, want %q", name, refused, row.fault)
		}
	}
}

func TestSpreads(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]float64{
		`{"type":"object"}`: 1,
		`{"type":"object","properties":{"a":{},"b":{},"c":{"allOf":[{},{}]}}}`:                                                                 4,
		`{"type":"object","properties":{"a":{}},"additionalProperties":{},"patternProperties":{"a":{},"b":{}}}`:                                5,
		`{"type":"object","properties":{"a":{"items":{"prefixItems":[{},{}]}}}}`:                                                               4,
		`{"type":"object","$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"},{"$ref":"#/$defs/b"}]},"b":{}},"properties":{"a":{"$ref":"#/$defs/a"}}}`: 7,
		`{"type":"object","properties":{"a":{"$ref":"#"}}}`:                                                                                    math.Inf(1),
		`{"type":"object","properties":{"a":{"$dynamicRef":"#"}}}`:                                                                             math.Inf(1),
	} {
		c, err := newChecker(json.RawMessage(schema))
		if err != nil {
			t.Errorf("%s: %v", schema, err)
		} else if c.spread != want {
			t.Errorf("%s: got %v, want %v", schema, c.spread, want)
		}
	}
}

const (
	// twice holds each member against itself two times, so that the work doubles with
	// each level of the arguments.
	twice = `{"type":"object","$defs":{"a":{"oneOf":[{"properties":{"n":{"$ref":"#/$defs/a"}},"required":["x"]},
		{"properties":{"n":{"$ref":"#/$defs/a"}},"required":["y"]}]}},"properties":{"a":{"$ref":"#/$defs/a"},"l":{"type":"array","items":{"type":"integer"}}}}`
	// wide does so without any recursion: twenty levels of schemas for one value.
	wideInner = `"d%d":{"allOf":[{"$ref":"#/$defs/d%e"},{"$ref":"#/$defs/d%e"}]},`
)

func wide(levels int) string {
	var defs strings.Builder
	for i := range levels {
		defs.WriteString(strings.NewReplacer("%d", string(rune('a'+i)), "%e", string(rune('a'+i+1))).Replace(wideInner))
	}
	return `{"type":"object","$defs":{` + defs.String() + `"d` + string(rune('a'+levels)) + `":{"minProperties":0}},"$ref":"#/$defs/da"}`
}

// TestWorkIsBounded holds that arguments which are made to take long are refused
// before they do, and that nothing else is.
func TestWorkIsBounded(t *testing.T) {
	t.Parallel()
	deep := func(n int, inner string) string { return `{"a":` + nested(n, `{"n":`, inner, `}`) + `}` }
	for name, row := range map[string]struct {
		schema, args string
		want         error // nil is that they fit
		fault        bool  // they do not fit for another reason
	}{
		"combinations":                    {twice, deep(60, `{}`), errMuchWork, false},
		"fewer":                           {twice, deep(4, `{}`), nil, true},
		"few that fit":                    {twice, deep(0, `{"x":1}`), nil, false},
		"many values":                     {twice, `{"l":[` + strings.Repeat("1,", 20000) + `1]}`, nil, false},
		"doubled twenty times":            {wide(20), `{}`, errMuchWork, false},
		"doubled four times":              {wide(4), `{}`, nil, false},
		"a large exponent":                {twice, `{"l":[1e1000]}`, errBadNumber, false},
		"a small exponent":                {twice, `{"l":[1E-99999999999999999999]}`, errBadNumber, false},
		"an exponent that is not checked": {`{"type":"object"}`, `{"l":{"n":1e+999999}}`, errBadNumber, false},
		"a usable exponent":               {twice, `{"l":[1e999,1E+2,10e-1]}`, nil, false},
		"a long number":                   {twice, `{"l":[` + strings.Repeat("1", maxNumber+1) + `]}`, errBadNumber, false},
		"a usable number":                 {twice, `{"l":[` + strings.Repeat("1", maxNumber) + `]}`, nil, false},
	} {
		s, _ := inputSchema("t", json.RawMessage(row.schema))
		for range 2 { // the second time with what the first one left
			err := s.validate([]byte(row.args))
			if row.fault != (err != nil && row.want == nil) || row.want != nil && !errors.Is(err, row.want) {
				t.Errorf("%s: got %v, want %v", name, err, row.want)
			}
		}
	}
}

// TestFaultsAreBounded holds how much is told of arguments that do not fit, and that
// a fault alone is told as ever.
func TestFaultsAreBounded(t *testing.T) {
	t.Parallel()
	s, _ := inputSchema("t", json.RawMessage(`{"type":"object","properties":{"l":{"items":{"type":"integer"}},"s":{"pattern":"^a$"}},"required":["s"]}`))
	for args, want := range map[string]string{
		`{}`:                      `at '': missing property 's'`,
		`{"l":["x"]}`:             `at '': missing property 's'; at '/l/0': got string, want integer`,
		`{"l":["x","y"],"s":"a"}`: `at '/l/0': got string, want integer; at '/l/1': got string, want integer`,
	} {
		if err := s.validate([]byte(args)); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", args, err, want)
		}
	}
	err := s.validate([]byte(`{"s":"a","l":[` + strings.Repeat(`"x",`, 1000) + `"x"]}`))
	if got := strings.Count(err.Error(), "want integer"); got != maxFaults || !strings.HasSuffix(err.Error(), "; and more") {
		t.Errorf("got %d faults in %s, want %d and more", got, err, maxFaults)
	}
	err = s.validate([]byte(`{"s":"` + strings.Repeat("é", 10000) + `"}`))
	if len(err.Error()) > maxFaultText+len("…") || !strings.HasSuffix(err.Error(), "é…") {
		t.Errorf("got %d bytes: …%s", len(err.Error()), err.Error()[len(err.Error())-20:])
	}
}

// TestCountedSchemasAreNotShared has goroutines validate at once with schemas whose
// work is counted: each must have its own count.
func TestCountedSchemasAreNotShared(t *testing.T) {
	t.Parallel()
	s, _ := inputSchema("t", json.RawMessage(twice))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			args, want := `{"a":`+nested(60, `{"n":`, `{}`, `}`)+`}`, errMuchWork
			if i%2 == 0 {
				args, want = `{"a":{"x":1}}`, nil
			}
			for range 3 {
				if err := s.validate([]byte(args)); !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkValidate(b *testing.B) {
	for name, row := range map[string][2]string{
		"small":   {`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`, `{"text":"hello, world"}`},
		"list":    {twice, `{"l":[` + strings.Repeat("1,", 1000) + `1]}`},
		"refused": {twice, `{"a":` + nested(60, `{"n":`, `{}`, `}`) + `}`},
	} {
		b.Run(name, func(b *testing.B) {
			s, _ := inputSchema("t", json.RawMessage(row[0]))
			b.ReportAllocs()
			for b.Loop() {
				_ = s.validate([]byte(row[1]))
			}
		})
	}
}

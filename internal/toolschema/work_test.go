package toolschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
)

func nested(n int, open, inner, shut string) string {
	return strings.Repeat(open, n) + inner + strings.Repeat(shut, n)
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
		c, err := newChecker(json.RawMessage(schema), false)
		if err != nil {
			t.Errorf("%s: %v", schema, err)
		} else if c.spread != want {
			t.Errorf("%s: got %v, want %v", schema, c.spread, want)
		}
	}
}

const (
	// twice checks each member against itself two times, so that the work doubles with
	// each level of the arguments.
	twice = `{"type":"object","$defs":{"a":{"oneOf":[{"properties":{"n":{"$ref":"#/$defs/a"}},"required":["x"]},
		{"properties":{"n":{"$ref":"#/$defs/a"}},"required":["y"]}]}},"properties":{"a":{"$ref":"#/$defs/a"},"l":{"type":"array","items":{"type":"integer"}}}}`
	// wide doubles the work without any recursion: twenty levels of schemas for one
	// value.
	wideInner = `"d%d":{"allOf":[{"$ref":"#/$defs/d%e"},{"$ref":"#/$defs/d%e"}]},`
)

// many checks one value against a hundred schemas that look at none of its members.
var many = `{"type":"object","properties":{"l":{"allOf":[` + strings.Repeat(`{"minItems":1},`, 99) + `{"minProperties":1}]}}}`

// members returns n members of an object.
func members(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"m%d":1,`, i)
	}
	return strings.TrimSuffix(b.String(), ",")
}

func wide(levels int) string {
	var defs strings.Builder
	for i := range levels {
		defs.WriteString(strings.NewReplacer("%d", string(rune('a'+i)), "%e", string(rune('a'+i+1))).Replace(wideInner))
	}
	return `{"type":"object","$defs":{` + defs.String() + `"d` + string(rune('a'+levels)) + `":{"minProperties":0}},"$ref":"#/$defs/da"}`
}

// TestWorkIsBounded checks that arguments made to take long are refused before they do,
// and that others are not.
func TestWorkIsBounded(t *testing.T) {
	t.Parallel()
	deep := func(n int, inner string) string { return `{"a":` + nested(n, `{"n":`, inner, `}`) + `}` }
	for name, row := range map[string]struct {
		schema, args string
		want         error // nil means that they fit
		fault        bool  // they do not fit for another reason
	}{
		"combinations":                    {twice, deep(60, `{}`), errMuchWork, false},
		"fewer":                           {twice, deep(4, `{}`), nil, true},
		"few that fit":                    {twice, deep(0, `{"x":1}`), nil, false},
		"many values":                     {twice, `{"l":[` + strings.Repeat("1,", 20000) + `1]}`, nil, false},
		"one list for many schemas":       {many, `{"l":[` + strings.Repeat("1,", 2000) + `1]}`, errMuchWork, false},
		"a short list for many schemas":   {many, `{"l":[` + strings.Repeat("1,", 20) + `1]}`, nil, false},
		"one object for many schemas":     {many, `{"l":{` + members(2000) + `}}`, errMuchWork, false},
		"doubled twenty times":            {wide(20), `{}`, errMuchWork, false},
		"doubled four times":              {wide(4), `{}`, nil, false},
		"a large exponent":                {twice, `{"l":[1e1000]}`, errBadNumber, false},
		"a small exponent":                {twice, `{"l":[1E-99999999999999999999]}`, errBadNumber, false},
		"an exponent that is not checked": {`{"type":"object"}`, `{"l":{"n":1e+999999}}`, errBadNumber, false},
		"a usable exponent":               {twice, `{"l":[1e999,1E+2,10e-1]}`, nil, false},
		"a long number":                   {twice, `{"l":[` + strings.Repeat("1", maxNumber+1) + `]}`, errBadNumber, false},
		"a usable number":                 {twice, `{"l":[` + strings.Repeat("1", maxNumber) + `]}`, nil, false},
	} {
		s, _, _ := Arguments(json.RawMessage(row.schema))
		for range 2 { // the second time with what the first one cached
			err := s.Validate([]byte(row.args))
			if row.fault != (err != nil && row.want == nil) || row.want != nil && !errors.Is(err, row.want) {
				t.Errorf("%s: got %v, want %v", name, err, row.want)
			}
		}
	}
}

// TestWideSchemas checks arguments against 60 alternatives for each of their values. Rows of the usual size pass, however
// many there are; as many values as fit the bytes do not, since each byte would cost kilobytes.
func TestWideSchemas(t *testing.T) {
	var alternatives []string
	for i := range 60 {
		alternatives = append(alternatives, fmt.Sprintf(`{"type":"object","required":["kind"],"properties":{"kind":{"const":"k%d"},"value":{"type":"number"}}}`, i))
	}
	schema, _, err := Arguments(json.RawMessage(`{"type":"object","properties":{"rows":{"type":"array","items":{"oneOf":[` + strings.Join(alternatives, ",") + `]}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	rows := `{"rows":[` + strings.Repeat(`{"kind":"k7","value":1234567.5,"note":"as long as rows usually are, and some"},`, 300) + `{"kind":"k59"}]}`
	if err := schema.Validate([]byte(rows)); err != nil {
		t.Errorf("rows of %d bytes: %v", len(rows), err)
	}
	if err := schema.Validate([]byte(strings.Replace(rows, "1234567.5", `"x"`, 1))); err != errUnnamed {
		t.Errorf("a fault in one of many rows with many alternatives: %.200v", err)
	}
	narrow, _, err := Arguments(json.RawMessage(`{"type":"object","properties":{"rows":{"type":"array","items":{"type":"object","properties":{"value":{"type":"number"},"kind":{"type":"string"}}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := narrow.Validate([]byte(strings.Replace(rows, `"k59"`, `59`, 1))); err == nil || err.Error() != "at '/rows/300/kind': got number, want string" {
		t.Errorf("a fault in the last of many rows: %.200v", err)
	}
	for _, values := range []string{
		`{"rows":[` + strings.Repeat(`{"kind":"k59"},`, 1_000) + `{"kind":"k59"}]}`, // they fit, too many for their bytes
		`{"rows":[` + strings.Repeat(`{},`, 3_000) + `1]}`, `{"rows":[` + strings.Repeat(`1,`, 8_000) + `1]}`,
	} {
		most := int64(400 * (minSteps + stepsPerByte*len(values)))
		if got := allocated(func() { err = schema.Validate([]byte(values)) }); got > most || err == nil {
			t.Errorf("%.30s takes %d bytes of heap and ends with %.100v, want at most %d and an error", values, got, err, most)
		}
	}
}

// allocated is how many bytes of heap f takes.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// TestCountedSchemasAreNotShared has goroutines validate at once with schemas whose
// work is counted: each must have its own count.
func TestCountedSchemasAreNotShared(t *testing.T) {
	t.Parallel()
	s, _, _ := Arguments(json.RawMessage(twice))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			args, want := `{"a":`+nested(60, `{"n":`, `{}`, `}`)+`}`, errMuchWork
			if i%2 == 0 {
				args, want = `{"a":{"x":1}}`, nil
			}
			for range 3 {
				if err := s.Validate([]byte(args)); !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
			}
		})
	}
	wg.Wait()
}

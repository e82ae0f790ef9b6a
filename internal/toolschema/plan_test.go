package toolschema

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/test/kit/when"
)

// TestPlans checks which values a plan says fit, and that it leaves the others to the validator.
func TestPlans(t *testing.T) {
	const person = `{"type":"object","properties":{"name":{"type":"string","minLength":1,"maxLength":3},"age":{"type":"integer","minimum":0,"maximum":150},"kind":{"enum":["a","b"]},
		"tags":{"type":"array","items":{"type":"string"},"maxItems":2},"at":{"type":["object","null"],"properties":{"x":{"type":"number"}},"additionalProperties":false}},"required":["name","extra"]}`
	for _, tt := range []struct {
		schema, value string
		fits          bool
	}{
		{person, ` { "name" : "é\n" } `, false},
		{person, `{"name":"éö","extra":{"any":[1,{}, "\"",-0.5]}}`, true},
		{person, `{"name":"","extra":1}`, false},
		{person, `{"name":"abcd","extra":1}`, false},
		{person, `{"name":"a"}`, false},
		{person, `{"name":"a","extra":1e3}`, false}, // fits, but exponents are left to the validator
		{person, `{"name":"a","extra":1,"age":150,"kind":"b","tags":[ "x" , "y" ],"at":{ "x" : 1.5 }}`, true},
		{person, `{"name":"a","extra":1,"age":151}`, false},
		{person, `{"name":"a","extra":1,"age":1.0}`, false}, // fits, as above
		{person, `{"name":"a","extra":1,"kind":"c"}`, false},
		{person, `{"name":"a","extra":1,"kind":1}`, false},
		{person, `{"name":"a","extra":1,"tags":["x","y","z"]}`, false},
		{person, `{"name":"a","extra":1,"tags":["x",1]}`, false},
		{person, `{"name":"a","extra":1,"at":null}`, true},
		{person, `{"name":"a","extra":1,"at":{"y":1}}`, false},
		{person, `{"name":"a","extra":1,"name":1}`, false},
		{`{"type":"object","additionalProperties":{"type":"boolean"}}`, `{"a":true,"b":false}`, true},
		{`{"type":"object","additionalProperties":{"type":"boolean"}}`, `{"a":null}`, false},
		{person, `{"name":"a","extra":1,"name":"b"}`, false}, // a member that comes twice
		{person, `{"name":"a","extra":1,"extra":1}`, false},
		{person, `{"name":"a","extra":{"a":1,"b":{"a":1},"c":[{"a":1},{"a":1}]},"a":1}`, true},
		{person, `{"name":"a","extra":{"a":1,"b":{"a":1,"a":1}}}`, false},
		{person, `{"name":"a","extra":[{"\u0061":1}]}`, false}, // names with escapes are left to the validator
		{`{"type":"object","additionalProperties":{"type":"boolean"}}`, `{"a":true,"b":false,"a":true}`, false},
		{`{"type":"object"}`, `{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1}`, true},
		{`{"type":"object"}`, `{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"d":1}`, false},
		{`{"type":"object"}`, `{"a":1234567890123456}`, false}, // long numbers are left to the validator, everywhere
		{`{"type":["null","string"],"enum":["a",null]}`, `null`, true},
		{`{"type":["null","string"],"enum":["a",null]}`, `"a"`, true},
		{`{"type":["null","string"],"enum":["a",null]}`, `"b"`, false},
		{`{"type":["null","string"],"enum":["a"]}`, `null`, false},
		{`{"enum":[null]}`, `true`, false},
		{`{"type":"object","not":{}}`, `{}`, false},
		{`{"type":"object","$schema":"http://json-schema.org/draft-07/schema#"}`, `{}`, false},
	} {
		c, err := newChecker(json.RawMessage(tt.schema), false)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.simple && c.plan.fitsValue([]byte(tt.value)); got != tt.fits {
			t.Errorf("%s under %s: got %t", tt.value, tt.schema, got)
		}
		if err := c.validateWith([]byte(tt.value)); tt.fits && err != nil {
			t.Errorf("%s under %s: the validator says %v", tt.value, tt.schema, err)
		}
	}
}

// TestPlansAgainstTheValidator draws schemas and values. What fits by a plan must fit.
func TestPlansAgainstTheValidator(t *testing.T) {
	when.Unraced(t, "one goroutine does all of it")
	r := rand.New(rand.NewPCG(1, 2))
	simple, fit, valid := 0, 0, 0
	for range 4000 {
		schema, value := anySchema(r, 3), anyValue(r, 3)
		c, err := newChecker(json.RawMessage(schema), false)
		if err != nil {
			t.Fatalf("%s: %v", schema, err)
		}
		err = c.validateWith([]byte(value))
		if err == nil {
			valid++
		}
		if !c.simple {
			continue
		}
		simple++
		if !c.plan.fitsValue([]byte(value)) {
			continue
		}
		if fit++; err != nil {
			t.Fatalf("%s fits under %s, but: %v", value, schema, err)
		}
	}
	if simple < 1000 || fit < valid/6 {
		t.Errorf("%d schemas have a plan, and %d values fit by one, of %d that do", simple, fit, valid)
	}
}

func pick(r *rand.Rand, from ...string) string { return from[r.IntN(len(from))] }

func anySchema(r *rand.Rand, depth int) string {
	if depth == 0 || r.IntN(6) == 0 {
		return pick(r, `true`, `{}`, `{"type":"string"}`, `{"type":"integer"}`, `{"type":["null","number"]}`, `{"enum":["a","b",""]}`, `{"type":"boolean"}`)
	}
	var all []string
	for _, name := range []string{"a", "b", "é"} {
		if r.IntN(3) > 0 {
			all = append(all, fmt.Sprintf("%q:%s", name, anySchema(r, depth-1)))
		}
	}
	keywords := []string{`"properties":{` + strings.Join(all, ",") + `}`}
	for _, k := range []string{`"type":"object"`, `"type":"array"`, `"required":["a"]`, `"additionalProperties":false`, `"additionalProperties":` + anySchema(r, depth-1),
		`"items":` + anySchema(r, depth-1), `"minItems":1`, `"maxItems":2`, `"minLength":1`, `"maxLength":1`, `"minimum":-1`, `"maximum":2`, `"title":"t"`, `"minProperties":1`} {
		key, _, _ := strings.Cut(k, ":")
		if r.IntN(5) == 0 && !strings.Contains(strings.Join(keywords, ","), key+":") {
			keywords = append(keywords, k)
		}
	}
	return "{" + strings.Join(keywords, ",") + "}"
}

func anyValue(r *rand.Rand, depth int) string {
	gap := pick(r, "", "", " ", "\n\t")
	kind := r.IntN(4)
	if depth == 0 {
		kind = 3
	}
	switch kind {
	case 0, 1:
		var all []string
		for range r.IntN(4) {
			all = append(all, gap+pick(r, `"a"`, `"b"`, `"é"`, `"\u0061"`, `"c"`)+gap+":"+gap+anyValue(r, depth-1))
		}
		return "{" + strings.Join(all, ",") + gap + "}"
	case 2:
		var all []string
		for range r.IntN(4) {
			all = append(all, gap+anyValue(r, depth-1))
		}
		return "[" + strings.Join(all, gap+",") + gap + "]"
	}
	return pick(r, `"a"`, `""`, `"\""`, `"é"`, `"\ud83d\ude00"`, `0`, `-1`, `3`, `1.0`, `-0.5`, `1e1`, `123456789012345678901234567890`, `true`, `false`, `null`)
}

// TestPlanAllocates checks that a value that fits costs no memory.
func TestPlanAllocates(t *testing.T) {
	s, _, err := Arguments(json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"},"n":{"type":"integer","minimum":1}},"required":["text"],"additionalProperties":false}`))
	if err != nil {
		t.Fatal(err)
	}
	raw := []byte(`{"text":"hello, world","n":7}`)
	if n := testing.AllocsPerRun(100, func() {
		if err := s.Validate(raw); err != nil {
			t.Error(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

package toolschema

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// headersOf returns the headers that a schema of arguments declares, or the error of
// its refusal.
func headersOf(schema string) (hs Headers, refused string) {
	_, hs, err := Arguments(json.RawMessage(schema))
	if err != nil {
		return nil, err.Error()
	}
	return hs, ""
}

func TestHeaderAnnotations(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]Headers{
		`{"type":"object"}`: nil,
		`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"region"}}}`: {{"Mcp-Param-Region", []string{"region"}}},
		`{"type":"object","properties":{"z":{"type":"integer","x-mcp-header":"Zone-id"},"a":{"type":"object","properties":{
			"b":{"type":"object","properties":{"c":{"type":"boolean","x-mcp-header":"X!#$%&'*+-.^_|~1"}}}}}}}`: {
			{"Mcp-Param-X!#$%&'*+-.^_|~1", []string{"a", "b", "c"}}, {"Mcp-Param-Zone-Id", []string{"z"}}},
		// A property of that name, and data that looks like an annotation.
		`{"type":"object","properties":{"x-mcp-header":{"type":"string"},"a":{"type":"object","default":{"x-mcp-header":1},"const":{"x-mcp-header":1},
			"enum":[{"x-mcp-header":1}],"examples":[{"x-mcp-header":1}]}},"$defs":{"x-mcp-header":{"type":"string"}}}`: nil,
	} {
		ps, refused := headersOf(schema)
		if refused != "" {
			t.Errorf("%s: %s", schema, refused)
		}
		if diff := cmp.Diff(want, ps, cmp.AllowUnexported(header{}), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", schema, diff)
		}
	}

	const annotated = `{"type":"string","x-mcp-header":"Region"}`
	in := func(property string) string { return `{"type":"object","properties":{"p":` + property + `}}` }
	for name, row := range map[string]struct{ schema, fault string }{
		"empty":             {in(`{"type":"string","x-mcp-header":""}`), "want the name of a header"},
		"no string":         {in(`{"type":"string","x-mcp-header":1}`), "want the name of a header"},
		"null":              {in(`{"type":"string","x-mcp-header":null}`), "want the name of a header"},
		"space":             {in(`{"type":"string","x-mcp-header":"My Region"}`), "want the name of a header"},
		"colon":             {in(`{"type":"string","x-mcp-header":"Region:Primary"}`), "want the name of a header"},
		"not ASCII":         {in(`{"type":"string","x-mcp-header":"Région"}`), "want the name of a header"},
		"control character": {in(`{"type":"string","x-mcp-header":"Region\r\n"}`), "want the name of a header"},
		"number":            {in(`{"type":"number","x-mcp-header":"N"}`), "p must be a string, an integer or a boolean"},
		"object":            {in(`{"type":"object","x-mcp-header":"N"}`), "p must be a string, an integer or a boolean"},
		"array":             {in(`{"type":"array","x-mcp-header":"N"}`), "p must be a string, an integer or a boolean"},
		"null type":         {in(`{"type":"null","x-mcp-header":"N"}`), "p must be a string, an integer or a boolean"},
		"no type":           {in(`{"x-mcp-header":"N"}`), "p must be a string, an integer or a boolean"},
		"several types":     {in(`{"type":["string","null"],"x-mcp-header":"N"}`), "p must be a string, an integer or a boolean"},
		"twice":             {`{"type":"object","properties":{"a":` + annotated + `,"b":` + annotated + `}}`, "two properties have it"},
		"twice, in another case": {`{"type":"object","properties":{"a":` + annotated + `,"b":{"type":"object","properties":{"c":{"type":"string","x-mcp-header":"rEGION"}}}}}`,
			"two properties have it"},
		"the root":           {`{"type":"object","x-mcp-header":"N"}`, "only in properties"},
		"items":              {in(`{"type":"array","items":` + annotated + `}`), "only in properties"},
		"prefixItems":        {in(`{"type":"array","prefixItems":[` + annotated + `]}`), "only in properties"},
		"below items":        {in(`{"type":"array","items":{"type":"object","properties":{"a":` + annotated + `}}}`), "only in properties"},
		"allOf":              {`{"type":"object","allOf":[{"properties":{"a":` + annotated + `}}]}`, "only in properties"},
		"anyOf":              {in(`{"anyOf":[` + annotated + `]}`), "only in properties"},
		"oneOf":              {in(`{"oneOf":[` + annotated + `]}`), "only in properties"},
		"not":                {in(`{"not":` + annotated + `}`), "only in properties"},
		"if":                 {`{"type":"object","if":{"properties":{"a":` + annotated + `}}}`, "only in properties"},
		"then":               {`{"type":"object","then":{"properties":{"a":` + annotated + `}}}`, "only in properties"},
		"else":               {`{"type":"object","else":{"properties":{"a":` + annotated + `}}}`, "only in properties"},
		"$defs":              {`{"type":"object","$defs":{"a":` + annotated + `},"properties":{"a":{"$ref":"#/$defs/a"}}}`, "only in properties"},
		"patternProperties":  {`{"type":"object","patternProperties":{"a":` + annotated + `}}`, "only in properties"},
		"additional":         {`{"type":"object","additionalProperties":` + annotated + `}`, "only in properties"},
		"dependentSchemas":   {`{"type":"object","dependentSchemas":{"a":{"properties":{"a":` + annotated + `}}}}`, "only in properties"},
		"an unknown keyword": {`{"type":"object","x-own":{"a":[` + annotated + `]}}`, "only in properties"},
	} {
		if _, refused := headersOf(row.schema); !strings.Contains(refused, row.fault) {
			t.Errorf("%s: got %q, want it refused for %q", name, refused, row.fault)
		}
	}
}

func TestHeaderParams(t *testing.T) {
	t.Parallel()
	ps, refused := headersOf(`{"type":"object","properties":{
		"region":{"type":"string","x-mcp-header":"Region"},
		"count":{"type":"integer","x-mcp-header":"Count"},
		"dry":{"type":"boolean","x-mcp-header":"Dry-Run"},
		"at":{"type":"object","properties":{"zone":{"type":"string","x-mcp-header":"Zone"}}}}}`)
	if refused != "" {
		t.Fatal(refused)
	}
	for _, tt := range []struct {
		args  string
		sent  string // header: value, in lines
		fault string
	}{
		{`{}`, ``, ""},
		{``, ``, ""},
		{`{"region":"us-west1"}`, "Mcp-Param-Region: us-west1", ""},
		{`{"region":"us-west1"}`, "Mcp-Param-Region:  us-west1\t", ""},
		{`{"region":"us-west1"}`, ``, "Region is missing"},
		{`{"region":"us-west1"}`, "Mcp-Param-Other: us-west1", "Region is missing"},
		{`{"region":"us-west1"}`, "Mcp-Param-Region: us-west2", "Region does not match"},
		{`{"region":"us-west1"}`, "Mcp-Param-Region: US-WEST1", "Region does not match"},
		{`{"region":"us-west1"}`, "Mcp-Param-Region: us-west1\nMcp-Param-Region: us-west1", "Region is there more than once"},
		{`{"region":"us-west1"}`, "Mcp-Param-Region: us\x01west1", "Region has characters that no header may have, or"},
		{`{"region":"us-west1"}`, "Mcp-Param-Region: us-wést1", "Region has characters that no header may have, or"},
		{`{"region":"us-west1"}`, "Mcp-Param-Region: us-west1\x7f", "Region has characters that no header may have, or"},
		{`{"region":"a b"}`, "Mcp-Param-Region: a b", ""},
		{`{"region":"a\tb"}`, "Mcp-Param-Region: a\tb", ""},
		{`{"region":""}`, "Mcp-Param-Region: ", ""},
		{`{"region":"\u0061\/b"}`, "Mcp-Param-Region: a/b", ""},
		{`{"region":"x","region":"y"}`, "Mcp-Param-Region: y", "Region cannot be compared"},
		{`{"region":"x","r\u0065gion":"x"}`, "Mcp-Param-Region: x", "Region cannot be compared"},
		{`{"region":null,"region":null,"region":null}`, "", "Region cannot be compared"},
		{`{"at":{"zone":"a","zone":"a"}}`, "Mcp-Param-Zone: a", "Zone cannot be compared"},
		{`{"at":{"zone":"a"},"at":{}}`, "", "Zone cannot be compared"},
		{`{"at":{"x":1,"x":2},"y":1,"y":2}`, "", ""}, // no header repeats these: validation refuses them
		{`{"re\u0067ion":"x"}`, "Mcp-Param-Region: x", ""},
		{`{"region":null}`, ``, ""},
		{`{"region":null}`, "Mcp-Param-Region: null", "Region is there, although"},
		{`{}`, "Mcp-Param-Region: x", "Region is there, although"},
		{`{"region":"Hello, 世界"}`, "Mcp-Param-Region: =?base64?SGVsbG8sIOS4lueVjA==?=", ""},
		{`{"region":" padded "}`, "Mcp-Param-Region: =?base64?IHBhZGRlZCA=?=", ""},
		{`{"region":"line1\nline2"}`, "Mcp-Param-Region: =?base64?bGluZTEKbGluZTI=?=", ""},
		{`{"region":"=?base64?literal?="}`, "Mcp-Param-Region: =?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=", ""},
		{`{"region":"=?base64?literal?="}`, "Mcp-Param-Region: =?base64?literal?=", "Region has characters that no header may have, or"},
		{`{"region":""}`, "Mcp-Param-Region: =?base64??=", ""},
		{`{"region":"Hello"}`, "Mcp-Param-Region: =?base64?SGVsbG8=?=", ""},
		{`{"region":"Hello"}`, "Mcp-Param-Region: =?base64?SGVsbG8?=", "Region has characters that no header may have, or"},
		{`{"region":"Hello"}`, "Mcp-Param-Region: =?base64?SGVs!!!bG8=?=", "Region has characters that no header may have, or"},
		{`{"region":"Hello"}`, "Mcp-Param-Region: =?base64?SGVsbG9=?=", "Region has characters that no header may have, or"},
		{`{"region":"Hello"}`, "Mcp-Param-Region: =?base64?SGVsbG8y?=", "Region does not match"},
		{`{"region":"SGVsbG8="}`, "Mcp-Param-Region: SGVsbG8=", ""},
		{`{"region":"=?base64?SGVsbG8="}`, "Mcp-Param-Region: =?base64?SGVsbG8=", ""},
		{`{"region":"SGVsbG8=?="}`, "Mcp-Param-Region: SGVsbG8=?=", ""},
		{`{"region":"=?BASE64?SGVsbG8=?="}`, "Mcp-Param-Region: =?BASE64?SGVsbG8=?=", ""},
		{`{"region":"=?base64?="}`, "Mcp-Param-Region: =?base64?=", ""},
		// The type of the argument decides how it is compared; the schema refuses it
		// later.
		{`{"region":42}`, "Mcp-Param-Region: 42", ""},
		{`{"region":["x"]}`, ``, ""},
		{`{"region":{"a":1}}`, "Mcp-Param-Region: x", "Region is there, although"},

		{`{"count":42}`, "Mcp-Param-Count: 42", ""},
		{`{"count":42.0}`, "Mcp-Param-Count: 42", ""},
		{`{"count":42}`, "Mcp-Param-Count: 42.0", ""},
		{`{"count":42}`, "Mcp-Param-Count: 4.2e1", ""},
		{`{"count":-7}`, "Mcp-Param-Count: -7", ""},
		{`{"count":-0}`, "Mcp-Param-Count: 0", ""},
		{`{"count":42}`, "Mcp-Param-Count: =?base64?NDI=?=", ""},
		{`{"count":42}`, "Mcp-Param-Count: 43", "Count does not match"},
		{`{"count":42}`, "Mcp-Param-Count: -42", "Count does not match"},
		{`{"count":42}`, "Mcp-Param-Count: 042", "Count does not match"},
		{`{"count":42}`, "Mcp-Param-Count: +42", "Count does not match"},
		{`{"count":42}`, "Mcp-Param-Count: 42.", "Count does not match"},
		{`{"count":42}`, "Mcp-Param-Count: 0x2a", "Count does not match"},
		{`{"count":42}`, "Mcp-Param-Count: ", "Count does not match"},
		{`{"count":42}`, "Mcp-Param-Count: fortytwo", "Count does not match"},
		{`{"count":"42"}`, "Mcp-Param-Count: 42", ""},
		{`{"count":9007199254740991}`, "Mcp-Param-Count: 9007199254740991", ""},
		{`{"count":9007199254740992}`, "Mcp-Param-Count: 9007199254740992", "Count cannot carry"},
		{`{"count":-9007199254740993}`, "Mcp-Param-Count: -9007199254740993", "Count cannot carry"},
		{`{"count":1e16}`, "Mcp-Param-Count: 1e16", "Count cannot carry"},
		{`{"count":1e99999}`, "Mcp-Param-Count: 1e99999", "Count does not match"},

		{`{"dry":true}`, "Mcp-Param-Dry-Run: true", ""},
		{`{"dry":false}`, "Mcp-Param-Dry-Run: false", ""},
		{`{"dry":true}`, "Mcp-Param-Dry-Run: True", "Dry-Run does not match"},
		{`{"dry":true}`, "Mcp-Param-Dry-Run: 1", "Dry-Run does not match"},

		{`{"at":{"zone":"a"}}`, "Mcp-Param-Zone: a", ""},
		{`{"at":{"zone":"a"},"zone":"b"}`, "Mcp-Param-Zone: b", "Zone does not match"},
		{`{"at":"a"}`, ``, ""},
		{`{"at":null}`, ``, ""},
		{`{"at":[{"zone":"a"}]}`, ``, ""},
		{`{"zone":"a"}`, "Mcp-Param-Zone: a", "Zone is there, although"},
		{`{"at":{"zone":"a"},"region":"r","count":1,"dry":true}`, "Mcp-Param-Zone: a\nMcp-Param-Region: r\nMcp-Param-Count: 1\nMcp-Param-Dry-Run: true", ""},
	} {
		header := map[string][]string{"Mcp-Method": {"tools/call"}}
		for line := range strings.SplitSeq(tt.sent, "\n") {
			if key, value, ok := strings.Cut(line, ":"); ok {
				header[key] = append(header[key], strings.TrimPrefix(value, " "))
			}
		}
		err := ps.Check(header, []byte(tt.args))
		switch {
		case tt.fault == "" && err != nil:
			t.Errorf("%s with %q: %v", tt.args, tt.sent, err)
		case tt.fault != "" && (err == nil || !strings.HasPrefix(err.Error(), "the header Mcp-Param-"+tt.fault)):
			t.Errorf("%s with %q: got %v, want %q", tt.args, tt.sent, err, tt.fault)
		}
	}
}

func TestHeaderParamsAllocateNothing(t *testing.T) {
	ps, _ := headersOf(headerBenchSchema)
	header, args := headerBenchCall()
	var none Headers
	if n := testing.AllocsPerRun(100, func() {
		if err := none.Check(header, args); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("without annotations: got %v allocations, want 0", n)
	}
	if n := testing.AllocsPerRun(100, func() {
		if err := ps.Check(header, args); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("with plain values: got %v allocations, want 0", n)
	}
}

const headerBenchSchema = `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"count":{"type":"integer","x-mcp-header":"Count"},
	"dry":{"type":"boolean","x-mcp-header":"Dry"},"at":{"type":"object","properties":{"zone":{"type":"string","x-mcp-header":"Zone"}}}}}`

func headerBenchCall() (header map[string][]string, args []byte) {
	return map[string][]string{"Mcp-Param-Region": {"us-west1"}, "Mcp-Param-Count": {"42"}, "Mcp-Param-Dry": {"true"}, "Mcp-Param-Zone": {"a"}},
		[]byte(`{"query":"SELECT * FROM users","region":"us-west1","count":42,"dry":true,"at":{"zone":"a"}}`)
}

func BenchmarkHeaderParams(b *testing.B) {
	ps, _ := headersOf(headerBenchSchema)
	header, args := headerBenchCall()
	for name, ps := range map[string]Headers{"params=0": nil, "params=4": ps} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := ps.Check(header, args); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

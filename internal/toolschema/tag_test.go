package toolschema

import (
	"encoding/json"
	"log/slog"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"
)

// bounded has each property of form tags for each type that has it.
type bounded struct {
	Name    string     `json:"name" jsonschema:"who" form:"title=Your name;min=2;max=4"`
	Size    *string    `json:"size" form:"enum=S|M"`
	Tags    []string   `json:"tags" form:"enum=a|b;min=1;max=2"`
	Free    []string   `json:"free,omitempty" form:"min=1"`
	Counts  []int      `json:"counts,omitempty" form:"max=2"`
	Age     uint8      `json:"age,omitempty" form:"max=150;min=-1"`
	Ratio   float64    `json:"ratio,omitempty" form:"min=0.5;max=1.5"`
	Mail    string     `json:"mail,omitempty" form:"format=email"`
	Code    string     `json:"code,omitempty" form:"pattern=^[a;b]{2}$"`
	Level   slog.Level `json:"level,omitempty" form:"title=How loud"`
	Address net.IP     `json:"address,omitempty" form:"max=15"`
	When    time.Time  `json:"when,omitzero" form:"title=When"`
	Region  *string    `json:"region" form:"header=Region"`
	Inner   []inmost   `json:"inner,omitempty"`
}

type inmost struct {
	N     int      `json:"n" form:"default=3;min=1"`
	Limit *int     `json:"limit" form:"default=10"`
	Dry   bool     `json:"dry" form:"default=true"`
	Word  string   `json:"word" form:"default=a \"word\""`
	List  []string `json:"list" form:"default=x|y;min=2"`
}

const boundedSchema = `{"type":"object","properties":{` +
	`"name":{"type":"string","title":"Your name","description":"who","minLength":2,"maxLength":4},` +
	`"size":{"type":"string","enum":["S","M"]},` +
	`"tags":{"type":"array","items":{"type":"string","enum":["a","b"]},"minItems":1,"maxItems":2},` +
	`"free":{"type":"array","items":{"type":"string"},"minItems":1},` +
	`"counts":{"type":"array","items":{"type":"integer"},"maxItems":2},` +
	`"age":{"type":"integer","minimum":0,"maximum":150},` +
	`"ratio":{"type":"number","minimum":0.5,"maximum":1.5},` +
	`"mail":{"type":"string","format":"email"},` +
	`"code":{"type":"string","pattern":"^[a;b]{2}$"},` +
	`"level":{"type":"string","title":"How loud"},` +
	`"address":{"type":"string","maxLength":15},` +
	`"when":{"type":"string","title":"When","format":"date-time"},` +
	`"region":{"type":"string","x-mcp-header":"Region"},` +
	`"inner":{"type":"array","items":{"type":"object","properties":{` +
	`"n":{"type":"integer","default":3,"minimum":1},"limit":{"type":"integer","default":10},"dry":{"type":"boolean","default":true},` +
	`"word":{"type":"string","default":"a \"word\""},"list":{"type":"array","items":{"type":"string"},"default":["x","y"],"minItems":2}},"additionalProperties":false}}},` +
	`"required":["name","tags"],"additionalProperties":false}`

func TestTagsBoundArguments(t *testing.T) {
	t.Parallel()
	inferred, err := InferArguments(reflect.TypeFor[bounded]())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := sorted(t, inferred.Shown), sorted(t, []byte(boundedSchema)); got != want {
		t.Errorf("clients see\n%s, want\n%s", got, want)
	}
	schema, headers, err := inferred.Arguments()
	if err != nil {
		t.Fatal(err)
	}
	if len(headers) != 1 || headers[0].key != "Mcp-Param-Region" {
		t.Errorf("the headers are %v", headers)
	}
	for _, tt := range []struct{ members, fault string }{
		{``, ""},
		{`,"name":"x"`, "/name"}, {`,"name":"äöüßx"`, "/name"}, {`,"name":"äöüß"`, ""},
		{`,"size":"S"`, ""}, {`,"size":"L"`, "/size"}, {`,"size":null`, ""},
		{`,"tags":[]`, "/tags"}, {`,"tags":["c"]`, "/tags/0"}, {`,"tags":["a","b","a"]`, "/tags"}, {`,"tags":null`, "/tags"},
		{`,"free":[]`, "/free"}, {`,"free":null`, ""}, {`,"counts":[1,2,3]`, "/counts"},
		{`,"age":150`, ""}, {`,"age":151`, "/age"}, {`,"age":-1`, "/age"},
		{`,"ratio":0.4`, "/ratio"}, {`,"ratio":1.5`, ""},
		{`,"mail":"ada"`, "/mail"}, {`,"mail":"ada@example.com"`, ""},
		{`,"code":"a;"`, ""}, {`,"code":"a"`, "/code"},
		{`,"address":"2001:db8:1111:2222::1"`, "/address"}, {`,"region":"x"`, ""}, {`,"region":null`, "/region"},
		{`,"inner":[{"n":0}]`, "/inner/0/n"}, {`,"inner":[{"limit":null,"list":null}]`, ""},
	} {
		args := `{"name":"Ada","tags":["a"]` + tt.members + `}`
		if key, _, ok := strings.Cut(tt.members, ":"); ok { // it stands in for the one that is there
			for _, given := range []string{`"name":"Ada"`, `"tags":["a"]`} {
				if strings.HasPrefix(given, key[1:]) {
					args = strings.Replace(strings.Replace(args, given+",", "", 1), ","+given, "", 1)
				}
			}
		}
		err := schema.Validate([]byte(args))
		if tt.fault == "" && err != nil || tt.fault != "" && (err == nil || !strings.Contains(err.Error(), "'"+tt.fault+"'")) {
			t.Errorf("%s: got %v, want a fault at %q", args, err, tt.fault)
		}
	}
}

func TestDefaultsOfArguments(t *testing.T) {
	t.Parallel()
	inferred, err := InferArguments(reflect.TypeFor[struct {
		inmost
		In  inmost            `json:"in,omitzero"`
		Map map[string]inmost `json:"map,omitempty"`
		Any any               `json:"any,omitempty"`
	}]())
	if err != nil {
		t.Fatal(err)
	}
	const rest = `"limit":10,"dry":true,"word":"a \"word\"","list":["x","y"]`
	for args, want := range map[string]string{
		`{}`:                                    `{"n":3,` + rest + `}`,
		` { "n" : 4 , "any":[{}, {"n":null}] }`: `{"n":4,"any":[{}, {"n":null}],` + rest + `}`,
		`{"\u006e":4,"limit":null,"list":null}`: `{"\u006e":4,` + rest + `}`,
		`{"in":{},"map":{"a":{"n":5},"":{}}}`:   `{"in":{"n":3,` + rest + `},"map":{"a":{"n":5,` + rest + `},"":{"n":3,` + rest + `}},"n":3,` + rest + `}`,
	} {
		if got := string(inferred.Presets.Fill([]byte(args))); got != want {
			t.Errorf("%s is filled as\n%s, want\n%s", args, got, want)
		}
	}
	args := []byte(`{"a":1}`)
	if none, err := InferArguments(reflect.TypeFor[struct{ A int }]()); err != nil || none.Presets != nil || &none.Presets.Fill(args)[0] != &args[0] {
		t.Errorf("arguments without defaults are filled: %v", err)
	}
}

// TestWrongTags breaks each rule of a form tag.
func TestWrongTags(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		of   reflect.Type
		want string
	}{
		{reflect.TypeFor[struct {
			A string `form:"tilte=B"`
		}](), `A: its form tag "tilte=B" has "tilte=B", which is not a known KEY=VALUE or comes twice`},
		{reflect.TypeFor[struct {
			A string `form:"min=1;min=2"`
		}](), `has "min=2", which`},
		{reflect.TypeFor[struct {
			A []struct {
				B int `form:"enum=1|2"`
			}
		}](), `.B: a int has no enum (form:"enum=1|2")`},
		{reflect.TypeFor[struct {
			A string `form:"enum=a|b;max=3"`
		}](), "a string has no max"},
		{reflect.TypeFor[struct {
			A []byte `form:"max=3"`
		}](), "a []uint8 has no max"},
		{reflect.TypeFor[struct {
			A time.Time `form:"format=date"`
		}](), "a time.Time has no format"},
		{reflect.TypeFor[struct {
			A any `form:"default=1"`
		}](), "a interface {} has no default"},
		{reflect.TypeFor[struct {
			A map[string]int `form:"max=1"`
		}](), "has no max"},
		{reflect.TypeFor[struct {
			A []int `form:"default=1"`
		}](), "a []int has no default"},
		{reflect.TypeFor[struct {
			A string `form:"enum=a|b;titles=A|B"`
		}](), "titles are for forms"},
		{reflect.TypeFor[struct {
			A string `form:"pattern=["`
		}](), "its pattern is none: "},
		{reflect.TypeFor[struct {
			A string `form:"format=phone"`
		}](), "there is no format phone: want email, uri, date, date-time"},
		{reflect.TypeFor[struct {
			A int `json:",string" form:"min=1"`
		}](), "the option string"},
		{reflect.TypeFor[struct {
			A int8 `form:"default=200"`
		}](), `the default 200 does not fit: maximum: got 200, want 127 (form:"default=200")`},
		{reflect.TypeFor[struct {
			A string `form:"format=email;default=ada"`
		}](), `the default "ada" does not fit`},
		{reflect.TypeFor[struct {
			A []string `form:"default=a|b;max=1"`
		}](), "does not fit: maxItems"},
		{reflect.TypeFor[struct {
			A float64 `form:"min=Inf"`
		}](), "min=Inf is no number that fits"},
	} {
		if _, err := InferArguments(tt.of); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: got %v, want %s", tt.of, err, tt.want)
		}
	}
	if _, err := InferResult(reflect.TypeFor[struct {
		A int `form:"min=x"`
	}]()); err != nil {
		t.Errorf("a result: %v", err) // tags of results bound nothing
	}
}

// sorted returns JSON with the members of each object in the order of their names.
func sorted(t *testing.T, text []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

//lint:file-ignore SA5008 the tags are wrong so that the tests see what encoding/json makes of them

package toolschema

import (
	"encoding/json"
	"log/slog"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	infer "github.com/google/jsonschema-go/jsonschema"

	"github.com/troupe-run/troupe/codec"
)

type (
	plainInner struct {
		Tags []string          `json:"tags" jsonschema:"what it is about"`
		Map  map[string]*int32 `json:"map,omitempty"`
	}
	PlainOuter struct {
		plainInner
		A  int8 `json:"a"`
		B  *uint16
		C  [3]float32 `json:",omitzero"`
		D  any        `json:"d" jsonschema:"whatever, or nothing"`
		E  *plainInner
		F  []plainInner
		G  struct{}
		H  map[string]map[string]bool
		I  int    `json:"-"`
		J  uint   `json:"-,"`
		K  string `json:"ä,omitempty"`
		l  int
		M  error
		N  [][]uint32
		O  **int64
		P  time.Duration
		Q  uintptr
		RS rune
	}
)

type (
	textByte   byte
	pointerKey int
	hidden     struct{ Reached }
	Reached    struct{ A int }
	pointed    struct{ *hidden }
	open       struct{ *Reached }
	Looped     struct {
		*Looped
		X int
	}
)

func (textByte) MarshalText() ([]byte, error)         { return nil, nil }
func (*textByte) UnmarshalText(text []byte) error     { return nil }
func (*pointerKey) MarshalText() ([]byte, error)      { return nil, nil }
func (p *pointerKey) UnmarshalText(text []byte) error { return nil }

// TestInferOrdinaryTypes checks that types whose fields define their JSON have the same schema as from the inferring
// module, but for lists, which codec never writes as null, and for objects without members.
func TestInferOrdinaryTypes(t *testing.T) {
	t.Parallel()
	_ = PlainOuter{}.l
	for _, of := range []reflect.Type{reflect.TypeFor[PlainOuter](), reflect.TypeFor[[]PlainOuter](), reflect.TypeFor[map[string]PlainOuter](),
		reflect.TypeFor[bool](), reflect.TypeFor[string](), reflect.TypeFor[[2]int16](), reflect.TypeFor[uint64](), reflect.TypeFor[struct{ A, B struct{} }]()} {
		theirs, err := infer.ForType(of, nil)
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(theirs)
		if err != nil {
			t.Fatal(err)
		}
		want = []byte(strings.NewReplacer(`"type":["null","array"]`, `"type":"array"`,
			`{"type":"object","additionalProperties":false}`, `{"type":"object","properties":{},"additionalProperties":false}`).Replace(string(want)))
		for _, of := range []reflect.Type{of, reflect.PointerTo(of)} {
			if got, err := InferResult(of); err != nil || string(got) != string(want) {
				t.Errorf("%v: got %s, %v, want %s", of, got, err, want)
			}
		}
	}
}

// TestDirections checks in which of its two directions a type has a schema.
func TestDirections(t *testing.T) {
	t.Parallel()
	const anything = `{"description":"any JSON value"}`
	for _, tt := range []struct {
		of                          reflect.Type
		arguments, checked, results string // an object's member A, or a part of the error
	}{
		{reflect.TypeFor[struct{ A time.Time }](), `{"type":"string","format":"date-time"}`, ``, `{"type":"string","format":"date-time"}`},
		{reflect.TypeFor[struct{ A map[string]time.Time }](), `{"type":"object","properties":{},"additionalProperties":{"type":"string","format":"date-time"}}`,
			`{"type":["null","object"],"properties":{},"additionalProperties":{"type":"string","format":"date-time"}}`, `{"type":"object","additionalProperties":{"type":"string","format":"date-time"}}`},
		{reflect.TypeFor[struct{ A map[string]big.Int }](), `{"type":"object","properties":{},"additionalProperties":{"type":"integer"}}`,
			`{"type":["null","object"],"properties":{},"additionalProperties":{"type":"integer"}}`, "only by a pointer"},
		{reflect.TypeFor[struct{ A map[string][]big.Int }](), `{"type":"object","properties":{},"additionalProperties":{"type":"array","items":{"type":"integer"}}}`,
			`{"type":["null","object"],"properties":{},"additionalProperties":{"type":["null","array"],"items":{"type":"integer"}}}`, `{"type":"object","additionalProperties":{"type":"array","items":{"type":"integer"}}}`},
		{reflect.TypeFor[struct{ A [1]*int8 }](), `{"type":"array","items":{"type":"integer","minimum":-128,"maximum":127},"minItems":1,"maxItems":1}`,
			`{"type":"array","items":{"type":["null","integer"],"minimum":-128,"maximum":127},"minItems":1,"maxItems":1}`, `{"type":"array","items":{"type":["null","integer"],"minimum":-128,"maximum":127},"minItems":1,"maxItems":1}`},
		{reflect.TypeFor[struct{ A map[string][1]big.Int }](), `{"type":"object","properties":{},"additionalProperties":{"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":1}}`,
			`{"type":["null","object"],"properties":{},"additionalProperties":{"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":1}}`, "only by a pointer"},
		{reflect.TypeFor[struct{ A map[string]*big.Int }](), `{"type":"object","properties":{},"additionalProperties":{"type":"integer"}}`,
			`{"type":["null","object"],"properties":{},"additionalProperties":{"type":["null","integer"]}}`, `{"type":"object","additionalProperties":{"type":["null","integer"]}}`},
		{reflect.TypeFor[struct{ A []textByte }](), `{"type":"array","items":{"type":"string"}}`, `{"type":["null","array"],"items":{"type":"string"}}`, `{"type":"array","items":{"type":"string"}}`},
		{reflect.TypeFor[struct{ A []byte }](), `{"type":"string","description":"in base64"}`, `{"type":["null","string"],"description":"in base64"}`, `{"type":"string","contentEncoding":"base64"}`},
		{reflect.TypeFor[struct {
			A []byte `jsonschema:"a picture"`
		}](), `{"type":"string","description":"a picture (in base64)"}`, `{"type":["null","string"],"description":"a picture (in base64)"}`, `{"type":"string","description":"a picture","contentEncoding":"base64"}`},
		{reflect.TypeFor[struct{ A map[pointerKey]int }](), `{"type":"object","properties":{},"additionalProperties":{"type":"integer"}}`,
			`{"type":["null","object"],"properties":{},"additionalProperties":{"type":"integer"}}`, "neither strings nor texts"},
		{reflect.TypeFor[struct{ A map[string]pointerKey }](), `{"type":"object","properties":{},"additionalProperties":{"type":"string"}}`,
			`{"type":["null","object"],"properties":{},"additionalProperties":{"type":"string"}}`, "only by a pointer"},
		{reflect.TypeFor[pointed](), "it lies in an embedded pointer to an unexported type", ``, `{"type":"integer"}`},
		{reflect.TypeFor[struct{ A error }](), "has methods", ``, `true`},
		{reflect.TypeFor[struct{ A any }](), anything, ``, `true`},
		{reflect.TypeFor[struct{ A *json.RawMessage }](), anything, ``, `true`},
		{reflect.TypeFor[struct {
			A int `jsonschema:""`
		}](), "tag is empty", ``, "tag is empty"},
		{reflect.TypeFor[struct {
			A int `jsonschema:"minimum=1"`
		}](), "begins with WORD=", ``, "begins with WORD="},
		{reflect.TypeFor[struct {
			A bool `json:",string" jsonschema:"so it is"`
		}](), `{"type":"string","description":"so it is"}`, ``, `{"type":"string","description":"so it is"}`},
		{reflect.TypeFor[struct {
			A *bool `json:",string"`
		}](), `{"type":"string"}`, `{"type":["null","string"]}`, `{"type":["null","string"]}`},
		{reflect.TypeFor[struct {
			A *bool `json:",omitempty,string"`
		}](), `{"type":"string"}`, `{"type":["null","string"]}`, `{"type":"string"}`},
		{reflect.TypeFor[struct {
			A *bool `json:",omitzero"`
		}](), `{"type":"boolean"}`, `{"type":["null","boolean"]}`, `{"type":"boolean"}`},
		{reflect.TypeFor[struct {
			A **bool `json:",omitempty"`
		}](), `{"type":"boolean"}`, `{"type":["null","boolean"]}`, `{"type":["null","boolean"]}`},
		{reflect.TypeFor[struct {
			A []bool `json:",string"`
		}](), `{"type":"array","items":{"type":"boolean"}}`, `{"type":["null","array"],"items":{"type":"boolean"}}`, `{"type":"array","items":{"type":"boolean"}}`},
		{reflect.TypeFor[struct {
			A slog.Level `json:",string"`
		}](), `{"type":"string"}`, ``, `{"type":"string"}`},
	} {
		var shown, checked json.RawMessage
		inferred, err := InferArguments(tt.of)
		if err == nil {
			shown, checked = inferred.Shown, inferred.Checked
		}
		results, err2 := InferResult(tt.of)
		if tt.checked == "" { // the same
			tt.checked = tt.arguments
		}
		for _, row := range []struct {
			text json.RawMessage
			err  error
			want string
		}{{shown, err, tt.arguments}, {checked, err, tt.checked}, {results, err2, tt.results}} {
			if got := string(codec.Field(codec.Field(row.text, "properties"), "A")); row.err == nil && got != row.want || row.err != nil && !strings.Contains(row.err.Error(), row.want) {
				t.Errorf("%v: got %s, %v, want %s", tt.of, got, row.err, row.want)
			}
		}
	}
}

// TestFields compares the members of structs with their JSON.
func TestFields(t *testing.T) {
	t.Parallel()
	type (
		A struct {
			X, Y int
			a    int //lint:ignore U1000 it is there to be left out
		}
		B struct{ X, Z int }
		C struct {
			Tagged int `json:"X"`
		}
		D  struct{ A }
		ID string
		id string
		p  struct{ InP int }
	)
	for _, v := range []any{
		struct {
			A
			Y string
		}{},
		struct {
			A
			B
		}{},
		struct {
			A
			B
			C
		}{},
		struct {
			A
			D
		}{},
		struct {
			ID
			id
			B `json:"b"`
			p
			Odd int `json:"$-/ü 1"`
		}{},
		struct {
			*A `json:",omitempty"`
			*C
			error
			Z int `json:"Y"`
		}{A: &A{}, C: &C{}},
		struct{ D *D }{&D{}},
		struct {
			Bad int `json:"a\"b"`
		}{},
		Looped{},
	} {
		if _, malformed := reflect.TypeOf(v).FieldByName("Bad"); malformed && !codec.Native {
			continue // package codec documents what json/v2 makes of it
		}
		written, err := codec.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var members []string
		for key := range codec.Members(written) {
			members = append(members, string(key))
		}
		var got []string
		for _, f := range structFields(reflect.TypeOf(v)) {
			got = append(got, f.name)
		}
		if !slices.Equal(got, members) {
			t.Errorf("%T: got %q, written are %q", v, got, members)
		}
	}
}

func TestInfer(t *testing.T) {
	t.Parallel()
	type inner struct {
		Tags []string `json:"tags"`
	}
	for _, tt := range []struct {
		of   reflect.Type
		want string
	}{
		{reflect.TypeFor[struct{}](), `{"type":"object","properties":{},"additionalProperties":false}`},
		{reflect.TypeFor[int](), `{"type":"integer"}`},
		{reflect.TypeFor[any](), `true`},
		{reflect.TypeFor[map[string]bool](), `{"type":"object","additionalProperties":{"type":"boolean"}}`},
		{reflect.TypeFor[open](), `{"type":"object","properties":{"A":{"type":"integer"}},"additionalProperties":false}`},
		{reflect.TypeFor[inner](), `{"type":"object","properties":{"tags":{"type":"array","items":{"type":"string"}}},"required":["tags"],"additionalProperties":false}`},
	} {
		for range 2 { // the second time from the cache
			got, err := InferResult(tt.of)
			if err != nil || string(got) != tt.want {
				t.Errorf("%v: got %s, %v, want %s", tt.of, got, err, tt.want)
			}
		}
	}
	for _, none := range []reflect.Type{reflect.TypeFor[chan int](), reflect.TypeFor[func()](), reflect.TypeFor[complex128]()} {
		if got, err := InferResult(none); err == nil || !strings.Contains(err.Error(), "no schema can be inferred: ") {
			t.Errorf("%v: got %s, %v, want an error", none, got, err)
		}
	}
}

func TestInferArguments(t *testing.T) {
	t.Parallel()
	for _, good := range []reflect.Type{reflect.TypeFor[struct{}](), reflect.TypeFor[struct{ A int }](), reflect.TypeFor[map[string]any](), reflect.TypeFor[*struct{ A int }](), reflect.TypeFor[**struct{}]()} {
		inferred, err := InferArguments(good)
		if err == nil {
			_, _, err = Arguments(inferred.Shown)
		}
		if err == nil {
			_, _, err = inferred.Arguments()
		}
		if err != nil {
			t.Errorf("%v: %v", good, err)
		}
	}
	for _, bad := range []reflect.Type{reflect.TypeFor[string](), reflect.TypeFor[[]int](), reflect.TypeFor[any](), reflect.TypeFor[json.RawMessage]()} {
		if inferred, err := InferArguments(bad); err == nil || err.Error() != bad.String()+" is no object, as arguments must be" {
			t.Errorf("%v: got %v, %v, want an error", bad, inferred, err)
		}
	}
}

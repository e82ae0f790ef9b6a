package toolschema

import (
	"encoding/json"
	"math/big"
	"math/rand/v2"
	"net"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/troupe-run/troupe/codec"
)

// Interfaces of models take tools whose schemas use no other keywords than these, and refuse a whole request over one tool that does:
//
//   - OpenAI, function calling without "strict": any keyword, but an object must have properties, and an array items. The list is that of
//     "strict", so that a client may set it where all members are required (platform.openai.com/docs/guides/structured-outputs,
//     "Supported schemas", as of August 2026; the two refusals by issues in the trackers of clients, 2025 and 2026).
//   - Gemini: the list of parametersJsonSchema and responseJsonSchema (ai.google.dev/api/generate-content, GenerationConfig, as of
//     November 2026). A type must be one string, and a schema no boolean (issues in the trackers of gemini-cli, copilot-cli, opencode
//     and docker-agent, February to September 2026).
var modelKeywords = map[string]map[string]bool{
	"OpenAI": setOf("type", "title", "description", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$ref", "$defs",
		"pattern", "format", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems"),
	"Gemini": setOf("$id", "$defs", "$ref", "$anchor", "type", "format", "title", "description", "enum", "items", "prefixItems", "minItems", "maxItems",
		"minimum", "maximum", "anyOf", "oneOf", "properties", "additionalProperties", "required", "propertyOrdering"),
}

func setOf(names ...string) map[string]bool {
	set := map[string]bool{}
	for _, n := range names {
		set[n] = true
	}
	return set
}

// nilable has something that may be nil in every place that JSON has.
type nilable struct {
	P     *int             `json:"p"`
	PO    *int             `json:"po,omitempty"`
	PZ    *string          `json:"pz,omitzero"`
	PP    **bool           `json:"pp,omitempty"`
	PS    *plainInner      `json:"ps"`
	PL    *[]int           `json:"pl"`
	PLO   *[]int           `json:"plo,omitempty"`
	PM    *map[string]int  `json:"pm,omitempty"`
	PB    *[]byte          `json:"pb"`
	PT    *time.Time       `json:"pt,omitempty"`
	L     []int            `json:"l"`
	LO    []string         `json:"lo,omitempty"`
	LP    []*int8          `json:"lp"`
	LL    [][]*plainInner  `json:"ll"`
	M     map[string]int   `json:"m"`
	MP    map[string]*bool `json:"mp"`
	ML    map[string][]int `json:"ml,omitempty"`
	B     []byte           `json:"b"`
	BO    []byte           `json:"bo,omitempty"`
	MB    map[string][]byte
	F     [2]*float32
	Q     *int64 `json:",string"`
	QO    *int64 `json:",omitempty,string"`
	Any   any
	Raw   json.RawMessage
	RawP  *json.RawMessage
	Int   *big.Int
	IP    net.IP
	Empty struct{}
	*Reached
}

var shapes = []reflect.Type{reflect.TypeFor[struct{}](), reflect.TypeFor[nilable](), reflect.TypeFor[*nilable](), reflect.TypeFor[PlainOuter](), reflect.TypeFor[plainInner](),
	reflect.TypeFor[map[string]any](), reflect.TypeFor[map[string]*nilable](), reflect.TypeFor[map[string][]plainInner]()}

// TestValuesFitTheirSchemas draws values of Go types, nil wherever that can be, and holds what codec writes of them to the schemas
// that clients are shown of the types.
func TestValuesFitTheirSchemas(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for _, of := range append(slices.Clone(shapes), reflect.TypeFor[[]nilable](), reflect.TypeFor[[]*int](), reflect.TypeFor[*[]string](), reflect.TypeFor[[]byte](), reflect.TypeFor[*time.Time](), reflect.TypeFor[any]()) {
		text, err := InferResult(of)
		if err != nil {
			t.Fatal(err)
		}
		result, err := Result(text)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 200 {
			v := reflect.New(pointedType(of))
			if n > 0 { // the first is the zero value
				draw(r, v.Elem())
			}
			written, err := codec.Marshal(v.Interface())
			if err != nil {
				t.Fatalf("%v: %v", of, err)
			}
			if err := result.Validate(written); err != nil {
				t.Fatalf("%v: %s does not fit %s: %v", of, written, text, err)
			}
		}
	}
}

// TestArgumentsFitTheirSchemas does the same with arguments, which a client writes. What fits is decoded; null stands for whatever may be nil;
// and what has no null fits the schema that clients are shown.
func TestArgumentsFitTheirSchemas(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	for _, of := range []reflect.Type{reflect.TypeFor[nilable](), reflect.TypeFor[plainInner](), reflect.TypeFor[map[string]*nilable](), reflect.TypeFor[map[string][]plainInner]()} {
		inferred, err := InferArguments(of)
		if err != nil {
			t.Fatal(err)
		}
		shown, _, err := Arguments(inferred.Shown)
		if err != nil {
			t.Fatal(err)
		}
		checked, _, err := inferred.Arguments()
		if err != nil {
			t.Fatal(err)
		}
		for n := range 200 {
			v := reflect.New(of)
			if n > 0 {
				draw(r, v.Elem())
			}
			written, err := json.Marshal(v.Interface()) // unlike codec, it writes null for all that is nil
			if err != nil {
				t.Fatalf("%v: %v", of, err)
			}
			if string(written) == "null" {
				continue
			}
			if err := checked.Validate(written); err != nil {
				t.Fatalf("%v: %s does not fit: %v", of, written, err)
			}
			if err := codec.UnmarshalValid(written, reflect.New(of).Interface()); err != nil {
				t.Fatalf("%v: %s is not decoded: %v", of, written, err)
			}
			if plain, err := codec.Marshal(v.Interface()); err != nil || shown.Validate(withoutNull(t, plain)) != nil {
				t.Fatalf("%v: %s does not fit %s: %v, %v", of, withoutNull(t, plain), inferred.Shown, err, shown.Validate(withoutNull(t, plain)))
			}
		}
	}
}

// withoutNull returns data without the members and elements that are null. F is a list of two numbers.
func withoutNull(t *testing.T, data []byte) []byte {
	var strip func(key string, v any) any
	strip = func(key string, v any) any {
		switch v := v.(type) {
		case map[string]any:
			for key, e := range v {
				if e == nil && key != "Any" && key != "Raw" {
					delete(v, key)
				} else {
					v[key] = strip(key, e)
				}
			}
		case []any:
			kept := v[:0]
			for _, e := range v {
				if e == nil && key == "F" {
					e = 0
				}
				if e != nil {
					kept = append(kept, strip("", e))
				}
			}
			return kept
		}
		return v
	}
	var v any
	if err := codec.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(strip("", v))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// draw fills v with any value, or with nil.
func draw(r *rand.Rand, v reflect.Value) {
	nothing := r.IntN(3) == 0
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(r.Int64N(1<<32), 0)))
		return
	case big.Int:
		v.Set(reflect.ValueOf(*big.NewInt(r.Int64())))
		return
	case json.RawMessage:
		v.SetBytes([]byte(pick(r, `null`, `1.5`, `{"a":[null]}`)))
		return
	case net.IP:
		v.SetBytes(net.IPv4(1, 2, 3, 4))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(nothing)
	case reflect.String:
		v.SetString(pick(r, "", "a", "é"))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(r.Int64N(200) - 100)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		v.SetUint(r.Uint64N(200))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(r.IntN(9)) / 4)
	case reflect.Interface:
		if v.NumMethod() == 0 && !nothing {
			v.Set(reflect.ValueOf([]any{map[string]any{"a": []string(nil)}, "x", 1}[r.IntN(3)]))
		}
	case reflect.Pointer:
		if !nothing && v.CanSet() {
			v.Set(reflect.New(v.Type().Elem()))
			draw(r, v.Elem())
		}
	case reflect.Slice:
		if nothing {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(3), 3))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			draw(r, v.Index(i))
		}
	case reflect.Map:
		if nothing {
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		for range r.IntN(3) {
			e := reflect.New(v.Type().Elem()).Elem()
			draw(r, e)
			v.SetMapIndex(reflect.ValueOf(pick(r, "a", "b")), e)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				draw(r, v.Field(i))
			}
		}
	}
}

// TestInferredKeywords holds the schemas that clients are shown of arguments to what the interfaces of models take.
func TestInferredKeywords(t *testing.T) {
	t.Parallel()
	for _, of := range append(slices.Clone(shapes[:3]), reflect.TypeFor[plainInner](), reflect.TypeFor[map[string]any](), reflect.TypeFor[map[string][]plainInner](),
		reflect.TypeFor[struct {
			A []any `json:"a"`
			B map[string]json.RawMessage
			C int8 `jsonschema:"a number"`
			D []byte
			E [3]uint32
			F time.Time
		}]()) {
		inferred, err := InferArguments(of)
		if err != nil {
			t.Fatal(err)
		}
		var doc any
		if err := json.Unmarshal(inferred.Shown, &doc); err != nil {
			t.Fatal(err)
		}
		checkKeywords(t, of, doc)
	}
}

func checkKeywords(t *testing.T, of reflect.Type, doc any) {
	schema, ok := doc.(map[string]any)
	if !ok || len(schema) == 0 {
		t.Errorf("%v: a schema is %v", of, doc)
		return
	}
	for key := range schema {
		for model, known := range modelKeywords {
			if !known[key] {
				t.Errorf("%v: %s does not take %q", of, model, key)
			}
		}
	}
	kind, single := schema["type"].(string)
	if !single && schema["type"] != nil {
		t.Errorf("%v: the type is %v", of, schema["type"])
	}
	properties, _ := schema["properties"].(map[string]any)
	for _, p := range properties {
		checkKeywords(t, of, p)
	}
	if kind == "object" && properties == nil {
		t.Errorf("%v: an object has no properties", of)
	}
	if kind == "array" || schema["items"] != nil {
		checkKeywords(t, of, schema["items"])
	}
	if rest, has := schema["additionalProperties"]; has && rest != false {
		checkKeywords(t, of, rest)
	}
}

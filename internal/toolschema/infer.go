package toolschema

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/big"
	"reflect"
	"regexp"
	"sync"
	"time"

	infer "github.com/google/jsonschema-go/jsonschema"

	"github.com/troupe-run/troupe/codec"
)

// direction says whether values of a type are decoded or encoded. The schemas differ where a
// type has a method for only one of them.
type direction uint8

const (
	decoded direction = iota // arguments
	encoded                  // results
)

// inferred caches the schemas of Go types, as json.RawMessage.
var inferred [2]sync.Map // by direction, then by reflect.Type

// InferArguments returns the JSON schema of a tool's arguments of type t: of the JSON that
// codec.Unmarshal decodes into it. A pointer counts as the type it points to. It fails as
// [InferResult] does, and for types that are not JSON objects. Callers share the result and
// must not change it.
func InferArguments(t reflect.Type) (json.RawMessage, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	s, err := inferredFor(decoded, t)
	if err == nil && string(codec.Field(s, "type")) != `"object"` {
		return nil, fmt.Errorf("%v is no object, as arguments must be", t)
	}
	return s, err
}

// InferResult returns the JSON schema of a tool's structured content of type t: of the JSON
// that codec.Marshal writes for a pointer to such a value. Descriptions come from jsonschema
// tags. It fails for types without a form in JSON, for recursive ones, and for types with
// their own MarshalJSON method, whose form it cannot know. Callers share the result and must
// not change it.
func InferResult(t reflect.Type) (json.RawMessage, error) { return inferredFor(encoded, t) }

func inferredFor(d direction, t reflect.Type) (json.RawMessage, error) {
	if t == reflect.TypeFor[struct{}]() {
		return json.RawMessage(`{"type":"object","additionalProperties":false}`), nil
	}
	if known, ok := inferred[d].Load(t); ok {
		return known.(json.RawMessage), nil
	}
	i := inference{direction: d, open: map[reflect.Type]bool{}}
	s, err := i.of(t, true)
	if err != nil {
		return nil, fmt.Errorf("no schema can be inferred: %w; give the tool a written one", err)
	}
	data, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	inferred[d].Store(t, json.RawMessage(data))
	return data, nil
}

// inference works out one schema.
type inference struct {
	direction direction
	open      map[reflect.Type]bool // the named types that lead here
}

// of returns the schema of t. addressable says whether the encoder calls the methods of a
// pointer to such a value: it does not for values of a map.
func (i *inference) of(t reflect.Type, addressable bool) (*infer.Schema, error) {
	nullable := false
	for t.Kind() == reflect.Pointer {
		t, nullable, addressable = t.Elem(), true, true
	}
	if t.Name() != "" {
		if i.open[t] {
			return nil, fmt.Errorf("%v holds itself", t)
		}
		i.open[t] = true
		defer delete(i.open, t)
	}
	s, err := i.byMethod(t, addressable)
	if s == nil && err == nil {
		s, err = i.byKind(t, addressable)
	}
	if err != nil {
		return nil, err
	}
	if nullable && s.Type != "" {
		s.Types, s.Type = []string{"null", s.Type}, ""
	}
	return s, nil
}

// known are the types of the standard library that encode themselves, in a form that their
// documentation promises. Types with only text methods need no line.
var known = map[reflect.Type]infer.Schema{
	reflect.TypeFor[time.Time]():       {Type: "string", Format: "date-time"},
	reflect.TypeFor[json.RawMessage](): {},
	reflect.TypeFor[json.Number]():     {Type: "number"},
	reflect.TypeFor[big.Int]():         {Type: "integer"},
	reflect.TypeFor[slog.Level]():      {Type: "string"},
}

// The methods by which a type decides its form, by direction.
var (
	jsonMethods = [2]reflect.Type{reflect.TypeFor[json.Unmarshaler](), reflect.TypeFor[json.Marshaler]()}
	textMethods = [2]reflect.Type{reflect.TypeFor[encoding.TextUnmarshaler](), reflect.TypeFor[encoding.TextMarshaler]()}
	methodNames = [2]string{"UnmarshalJSON", "MarshalJSON"}
)

// byMethod returns the schema of a type that is known or has methods for its form. It
// returns nil for other types.
func (i *inference) byMethod(t reflect.Type, addressable bool) (*infer.Schema, error) {
	asJSON, asText := i.has(t, jsonMethods), i.has(t, textMethods)
	if i.direction == encoded && !addressable && (asJSON || asText) &&
		!t.Implements(jsonMethods[encoded]) && !t.Implements(textMethods[encoded]) {
		return nil, fmt.Errorf("%v encodes itself only by a pointer, and a map has no pointers to its values: use *%v", t, t)
	}
	if s, ok := known[t]; ok {
		return &s, nil
	}
	switch {
	case asJSON:
		return nil, fmt.Errorf("%v has a method %s, and what form that gives it is not known", t, methodNames[i.direction])
	case asText:
		return &infer.Schema{Type: "string"}, nil
	}
	return nil, nil
}

// has reports whether t, or a pointer to it, has the methods.
func (i *inference) has(t reflect.Type, methods [2]reflect.Type) bool {
	m := methods[i.direction]
	return t.Kind() != reflect.Interface && (t.Implements(m) || reflect.PointerTo(t).Implements(m))
}

// byKind returns the schema of a type without methods for its form.
func (i *inference) byKind(t reflect.Type, addressable bool) (*infer.Schema, error) {
	switch t.Kind() {
	case reflect.Bool:
		return &infer.Schema{Type: "boolean"}, nil
	case reflect.String:
		return &infer.Schema{Type: "string"}, nil
	case reflect.Float32, reflect.Float64:
		return &infer.Schema{Type: "number"}, nil
	case reflect.Interface:
		if i.direction == decoded && t.NumMethod() > 0 {
			return nil, fmt.Errorf("%v has methods, and nothing can be decoded into it", t)
		}
		return &infer.Schema{}, nil
	case reflect.Map:
		return i.ofMap(t)
	case reflect.Slice:
		return i.ofSlice(t)
	case reflect.Array:
		items, err := i.of(t.Elem(), addressable)
		return &infer.Schema{Type: "array", Items: items, MinItems: infer.Ptr(t.Len()), MaxItems: infer.Ptr(t.Len())}, err
	case reflect.Struct:
		return i.ofStruct(t, addressable)
	}
	if s := ofInteger(t.Kind()); s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("%v has no form in JSON", t)
}

// ofInteger returns the schema of a kind of integer. It omits the bounds of 64 bits: clients
// read them as floats, which cannot hold them.
func ofInteger(k reflect.Kind) *infer.Schema {
	within := func(least, most float64) *infer.Schema {
		return &infer.Schema{Type: "integer", Minimum: &least, Maximum: &most}
	}
	switch k {
	case reflect.Int, reflect.Int64:
		return &infer.Schema{Type: "integer"}
	case reflect.Uint, reflect.Uint64, reflect.Uintptr:
		return &infer.Schema{Type: "integer", Minimum: infer.Ptr(0.0)}
	case reflect.Int8:
		return within(math.MinInt8, math.MaxInt8)
	case reflect.Int16:
		return within(math.MinInt16, math.MaxInt16)
	case reflect.Int32:
		return within(math.MinInt32, math.MaxInt32)
	case reflect.Uint8:
		return within(0, math.MaxUint8)
	case reflect.Uint16:
		return within(0, math.MaxUint16)
	case reflect.Uint32:
		return within(0, math.MaxUint32)
	}
	return nil
}

func (i *inference) ofMap(t reflect.Type) (*infer.Schema, error) {
	if key := t.Key(); key.Kind() != reflect.String && !i.textKey(key) {
		return nil, fmt.Errorf("%v has keys that are neither strings nor texts", t)
	}
	values, err := i.of(t.Elem(), false)
	return &infer.Schema{Type: "object", AdditionalProperties: values}, err
}

// textKey reports whether the methods of a map's key type t read or write its keys.
func (i *inference) textKey(t reflect.Type) bool {
	if i.direction == encoded {
		return t.Implements(textMethods[encoded]) // keys have no pointers either
	}
	return reflect.PointerTo(t).Implements(textMethods[decoded])
}

func (i *inference) ofSlice(t reflect.Type) (*infer.Schema, error) {
	if e := t.Elem(); e.Kind() == reflect.Uint8 && !i.has(e, jsonMethods) && !i.has(e, textMethods) {
		return &infer.Schema{Type: "string", ContentEncoding: "base64"}, nil
	}
	items, err := i.of(t.Elem(), true)
	return &infer.Schema{Types: []string{"null", "array"}, Items: items}, err
}

// assignment matches how a jsonschema tag must not begin: other readers of such tags give it
// a meaning.
var assignment = regexp.MustCompile("^[^ \t\n]*=")

func (i *inference) ofStruct(t reflect.Type, addressable bool) (*infer.Schema, error) {
	s := &infer.Schema{Type: "object", AdditionalProperties: &infer.Schema{Not: &infer.Schema{}}}
	if t.NumField() > 0 {
		s.Properties = map[string]*infer.Schema{}
	}
	for _, f := range structFields(t) {
		property, err := i.ofField(f, addressable)
		if err != nil {
			return nil, fmt.Errorf("%v.%s: %w", t, f.Name, err)
		}
		s.Properties[f.name] = property
		s.PropertyOrder = append(s.PropertyOrder, f.name)
		if !f.optional {
			s.Required = append(s.Required, f.name)
		}
	}
	return s, nil
}

func (i *inference) ofField(f structField, addressable bool) (*infer.Schema, error) {
	if f.unreachable && i.direction == decoded {
		return nil, errors.New("it lies in an embedded pointer to an unexported type, which nothing can be decoded into")
	}
	s, err := i.of(f.Type, addressable || f.pointer)
	if err != nil {
		return nil, err
	}
	if f.quoted { // a type with text methods is a string anyway
		s = &infer.Schema{Type: "string"}
		if f.Type.Kind() == reflect.Pointer {
			s = &infer.Schema{Types: []string{"null", "string"}}
		}
	}
	if tag, ok := f.Tag.Lookup("jsonschema"); ok {
		if tag == "" {
			return nil, errors.New("its jsonschema tag is empty")
		}
		if assignment.MatchString(tag) {
			return nil, fmt.Errorf("its jsonschema tag %q begins with WORD=", tag)
		}
		s.Description = tag
	}
	return s, nil
}

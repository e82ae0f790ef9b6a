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

// inferred caches the schemas of Go types, as inferredSchema by inferredKey.
var inferred sync.Map

type inferredSchema struct {
	text    json.RawMessage
	formats bool // a form tag names the format of a string
	presets *Presets
}

type inferredKey struct {
	of reflect.Type
	direction
	nulls bool
}

// Inferred is the schema of a tool's arguments that was worked out from a Go type. Callers share it, and must not change it.
type Inferred struct {
	// Shown is what clients get.
	Shown json.RawMessage
	// Checked is what the arguments must fit.
	Checked json.RawMessage
	// Presets fill in what a client may leave out because its field has a default. nil has none.
	Presets *Presets
	formats bool
}

// Arguments returns the schema by which arguments are checked, and those that clients repeat in headers.
func (i *Inferred) Arguments() (*Schema, Headers, error) { return argumentSchema(i.Checked, i.formats) }

// InferArguments returns the JSON schema of a tool's arguments of type t: of the JSON that codec.Unmarshal decodes into it.
// The schema by which arguments are checked differs from the one that clients get in that null, too, stands for a pointer, a
// slice or a map: clients send it for what they leave out, but models' interfaces do not take lists of types. A member that
// is a pointer, or has a default, may be left out. The form tags of fields bound their values: see [ReadTag]. Strings must have the format that a
// tag names. t may be a pointer, which counts as the type it points to. InferArguments fails as [InferResult] does, for
// types that are not JSON objects, and for form tags that are wrong.
func InferArguments(t reflect.Type) (*Inferred, error) {
	shown, err := canInfer(t, decoded, false)
	if err != nil {
		return nil, err
	}
	if string(codec.Field(shown.text, "type")) != `"object"` {
		return nil, fmt.Errorf("%v is no object, as arguments must be", pointedType(t))
	}
	checked, err := canInfer(t, decoded, true)
	return &Inferred{shown.text, checked.text, shown.presets, checked.formats}, err
}

// InferResult returns the JSON schema of a tool's structured content of type t: of the JSON
// that codec.Marshal writes for such a value. Descriptions come from jsonschema tags. t may be
// a pointer, which counts as the type it points to. It fails for types without a form in JSON,
// for recursive ones, and for types with their own MarshalJSON method, whose form it cannot
// know. Callers share the result and must not change it.
func InferResult(t reflect.Type) (json.RawMessage, error) {
	s, err := canInfer(t, encoded, true)
	return s.text, err
}

// pointedType returns the type that t leads to.
func pointedType(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

func canInfer(t reflect.Type, d direction, nulls bool) (inferredSchema, error) {
	t = pointedType(t)
	key := inferredKey{t, d, nulls}
	if known, ok := inferred.Load(key); ok {
		return known.(inferredSchema), nil
	}
	i := inference{direction: d, nulls: nulls, open: map[reflect.Type]bool{}}
	s, err := i.schemaOf(t, true)
	if err != nil {
		return inferredSchema{}, fmt.Errorf("no schema can be inferred: %w; give the tool a written one", err)
	}
	if s.Types != nil { // the value as a whole is there
		s.Type, s.Types = s.Types[1], nil
	}
	data, err := json.Marshal(s)
	if err != nil {
		return inferredSchema{}, fmt.Errorf("schema: %w", err)
	}
	out := inferredSchema{text: data, formats: i.formats}
	if d == decoded {
		out.presets = presetsOf(s)
	}
	inferred.Store(key, out)
	return out, nil
}

// inference works out one schema.
type inference struct {
	direction direction
	nulls     bool                  // null is a value of what it may stand for
	formats   bool                  // a form tag names the format of a string
	open      map[reflect.Type]bool // the named types that lead here
}

// schemaOf returns the schema of t. addressable says whether the encoder calls the methods of a
// pointer to such a value: it does not for values of a map.
func (i *inference) schemaOf(t reflect.Type, addressable bool) (*infer.Schema, error) {
	pointer := t.Kind() == reflect.Pointer
	if pointer {
		t, addressable = pointedType(t), true
	}
	if t.Name() != "" {
		if i.open[t] {
			return nil, fmt.Errorf("%v holds itself", t)
		}
		i.open[t] = true
		defer delete(i.open, t)
	}
	s, err := i.byMethod(t, addressable)
	byKind := s == nil
	if s == nil && err == nil {
		s, err = i.byKind(t, addressable)
	}
	if err != nil {
		return nil, err
	}
	// The encoder writes a slice or map that is nil as an empty one.
	container := byKind && (t.Kind() == reflect.Slice || t.Kind() == reflect.Map)
	if pointer || container && i.direction == decoded {
		i.addNull(s)
	}
	return s, nil
}

// addNull lets null, too, stand for a value of s.
func (i *inference) addNull(s *infer.Schema) {
	if i.nulls && s.Type != "" {
		s.Types, s.Type = []string{"null", s.Type}, ""
	}
}

// anyValue returns the schema of any value. In arguments it has a member: some models' interfaces take no
// schema that is true.
func (i *inference) anyValue() *infer.Schema {
	if i.direction == decoded {
		return &infer.Schema{Description: "any JSON value"}
	}
	return &infer.Schema{}
}

// known are the types of the standard library that encode themselves, in a form that their
// documentation promises. Types with only text methods need no line.
var known = map[reflect.Type]infer.Schema{
	reflect.TypeFor[time.Time]():   {Type: "string", Format: "date-time"},
	reflect.TypeFor[json.Number](): {Type: "number"},
	reflect.TypeFor[big.Int]():     {Type: "integer"},
	reflect.TypeFor[slog.Level]():  {Type: "string"},
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
	asJSON, asText := i.hasMethods(t, jsonMethods), i.hasMethods(t, textMethods)
	if i.direction == encoded && !addressable && (asJSON || asText) &&
		!t.Implements(jsonMethods[encoded]) && !t.Implements(textMethods[encoded]) {
		return nil, fmt.Errorf("%v encodes itself only by a pointer, and a map has no pointers to its values: use *%v", t, t)
	}
	if t == reflect.TypeFor[json.RawMessage]() {
		return i.anyValue(), nil
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

// hasMethods reports whether t, or a pointer to it, has the methods.
func (i *inference) hasMethods(t reflect.Type, methods [2]reflect.Type) bool {
	return implementsInterface(t, methods[i.direction])
}

func implementsInterface(t, method reflect.Type) bool {
	return t.Kind() != reflect.Interface && (t.Implements(method) || reflect.PointerTo(t).Implements(method))
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
		return i.anyValue(), nil
	case reflect.Map:
		return i.ofMap(t)
	case reflect.Slice:
		return i.ofSlice(t)
	case reflect.Array:
		items, err := i.schemaOf(t.Elem(), addressable)
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
	values, err := i.schemaOf(t.Elem(), false)
	s := &infer.Schema{Type: "object", AdditionalProperties: values}
	if i.direction == decoded {
		s.Properties = map[string]*infer.Schema{} // see ofStruct
	}
	return s, err
}

// textKey reports whether the methods of a map's key type t read or write its keys.
func (i *inference) textKey(t reflect.Type) bool {
	if i.direction == encoded {
		return t.Implements(textMethods[encoded]) // keys have no pointers either
	}
	return reflect.PointerTo(t).Implements(textMethods[decoded])
}

func (i *inference) ofSlice(t reflect.Type) (*infer.Schema, error) {
	if e := t.Elem(); e.Kind() == reflect.Uint8 && !i.hasMethods(e, jsonMethods) && !i.hasMethods(e, textMethods) {
		if i.direction == decoded { // models' interfaces do not know contentEncoding
			return &infer.Schema{Type: "string", Description: "in base64"}, nil
		}
		return &infer.Schema{Type: "string", ContentEncoding: "base64"}, nil
	}
	items, err := i.schemaOf(t.Elem(), true)
	return &infer.Schema{Type: "array", Items: items}, err
}

// assignment matches how a jsonschema tag must not begin: other readers of such tags give it
// a meaning.
var assignment = regexp.MustCompile("^[^ \t\n]*=")

// ofStruct returns a schema with properties even if there are none: some models' interfaces take no object without.
func (i *inference) ofStruct(t reflect.Type, addressable bool) (*infer.Schema, error) {
	s := &infer.Schema{Type: "object", AdditionalProperties: &infer.Schema{Not: &infer.Schema{}}, Properties: map[string]*infer.Schema{}}
	for _, f := range structFields(t) {
		property, err := i.ofField(f, addressable)
		if err != nil {
			return nil, fmt.Errorf("%v.%s: %w", t, f.Name, err)
		}
		s.Properties[f.name] = property
		s.PropertyOrder = append(s.PropertyOrder, f.name)
		if !f.optional && property.Default == nil && !(i.direction == decoded && f.Type.Kind() == reflect.Pointer) {
			s.Required = append(s.Required, f.name)
		}
	}
	return s, nil
}

func (i *inference) ofField(f structField, addressable bool) (*infer.Schema, error) {
	if f.unreachable && i.direction == decoded {
		return nil, errors.New("it lies in an embedded pointer to an unexported type, which nothing can be decoded into")
	}
	of, addressable := f.Type, addressable || f.pointer
	if of.Kind() == reflect.Pointer && f.omitted && i.direction == encoded {
		of, addressable = of.Elem(), true // it is there only if it is not nil
	}
	s, err := i.schemaOf(of, addressable)
	if err != nil {
		return nil, err
	}
	if f.quoted { // a type with text methods is a string anyway
		s = &infer.Schema{Type: "string"}
		if of.Kind() == reflect.Pointer {
			i.addNull(s)
		}
	}
	if tag, ok := f.Tag.Lookup("jsonschema"); ok {
		if tag == "" {
			return nil, errors.New("its jsonschema tag is empty")
		}
		if assignment.MatchString(tag) {
			return nil, fmt.Errorf("its jsonschema tag %q begins with WORD=", tag)
		}
		if s.Description != "" {
			tag += " (" + s.Description + ")"
		}
		s.Description = tag
	}
	if i.direction == decoded {
		err = i.boundField(f, s)
	}
	return s, err
}

// boundField adds what the form tag of an argument's field says.
func (i *inference) boundField(f structField, s *infer.Schema) error {
	if f.Tag.Get("form") == "" {
		return nil
	}
	if f.quoted {
		return errors.New("its json tag has the option string, which form tags do not support")
	}
	tag, err := ReadTag(f.StructField)
	if err != nil {
		return err
	}
	i.formats = i.formats || tag.Format != ""
	if err = tag.bound(s, pointedType(f.Type), f.optional || tag.Default != nil); err != nil {
		return fmt.Errorf("%w (form:%q)", err, f.Tag.Get("form"))
	}
	return nil
}

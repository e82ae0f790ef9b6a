package troupe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/toolschema"
	"github.com/troupe-run/troupe/mcp"
)

// FormFor returns the form whose answer decodes into T, a struct, for [Elicit] and
// [Call.Elicit]; [ElicitAs] makes the form and asks. The form has a field for each exported
// field of T, in their order, under the name in its json tag. A field of T is a string, a
// number, a bool, a time.Time (date-time) or a []string, which is a choice of several (since
// 2025-11-25). It is required unless it is a pointer or its json tag has omitempty or
// omitzero.
//
// The tag jsonschema is the description, as for tools. The tag form has the other
// properties, separated by semicolons:
//
//	title=TEXT           what the client shows for the name
//	enum=A|B|C           the values to choose from; a []string must have them
//	titles=TEXT|TEXT|…   what the client shows for them
//	default=VALUE        of a []string, A|B
//	min=N, max=N         of a number, of the characters of a string, of the choices
//	format=NAME          email, uri, date or date-time
//
// FormFor fails for any other type of field, an unknown property in the tag form, the option
// string of a json tag, and a T that has no fields or two of the same name. It also fails for
// a min above the max, a value twice in an enum, and a default that the field does not take.
// Call it when the program starts to find such mistakes in T early.
func FormFor[T any]() (mcp.FormSchema, error) {
	f := formOf(reflect.TypeFor[T]())
	if f.err != nil {
		return mcp.FormSchema{}, f.err
	}
	own := new(form) // the caller may change what the schemas point to
	err := own.fields(reflect.TypeFor[T]())
	return own.schema, err
}

// ElicitAs asks the user to fill in the form of [FormFor] and decodes the answer. The value
// holds what the user has entered if the action is [mcp.ElicitAccept]; for other actions it
// is the zero value. An answer that does not fit the form, its formats included, is an error.
// The question has the key "elicit", as that of [Call.Elicit]: see [Call.Ask].
func ElicitAs[T any](ctx context.Context, call *Call, message string) (value T, action mcp.ElicitAction, err error) {
	f := formOf(reflect.TypeFor[T]())
	if f.err != nil {
		return value, "", f.err
	}
	r, err := call.Elicit(ctx, message, f.schema)
	if err != nil || r.Action != mcp.ElicitAccept {
		return value, r.Action, err
	}
	content := r.Content
	if len(content) == 0 {
		content = []byte("{}")
	}
	if err = f.check.Validate(content); err == nil {
		err = codec.Unmarshal(content, &value)
	}
	if err != nil {
		var none T
		return none, r.Action, &answerError{elicitKey, err}
	}
	return value, r.Action, nil
}

// form is a type read as a form.
type form struct {
	schema mcp.FormSchema
	check  *toolschema.Schema
	err    error
}

// forms caches the forms, as *form by reflect.Type.
var forms sync.Map

func formOf(t reflect.Type) *form {
	if known, ok := forms.Load(t); ok {
		return known.(*form)
	}
	f := new(form)
	if f.err = f.read(t); f.err != nil {
		f.err = fmt.Errorf("troupe: form of %v: %w", t, f.err)
	}
	known, _ := forms.LoadOrStore(t, f)
	return known.(*form)
}

func (f *form) read(t reflect.Type) error {
	if err := f.fields(t); err != nil {
		return err
	}
	raw, err := f.schema.Raw()
	if err != nil {
		return err
	}
	if f.check, err = toolschema.Form(raw); err != nil {
		return err
	}
	return f.checkDefaults(t, raw)
}

// fields makes the schema from the fields of t.
func (f *form) fields(t reflect.Type) error {
	if t.Kind() != reflect.Struct {
		return errors.New("it is no struct")
	}
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous:
			return fmt.Errorf("%s is embedded", field.Name)
		case !field.IsExported() || name == "-" && options == "":
			continue
		case name == "":
			name = field.Name
		}
		optional := strings.Split(options, ",")
		if slices.Contains(optional, "string") {
			return fmt.Errorf("%s: its json tag has the option string, which forms do not support", field.Name)
		}
		if slices.ContainsFunc(f.schema.Properties, func(p mcp.Property) bool { return p.Name == name }) {
			return fmt.Errorf("%s: another field is %q, too", field.Name, name)
		}
		schema, err := fieldSchema(field)
		if err != nil {
			return fmt.Errorf("%s: %w", field.Name, err)
		}
		f.schema.Properties = append(f.schema.Properties, mcp.Property{Name: name, Schema: schema})
		if field.Type.Kind() != reflect.Pointer && !slices.Contains(optional, "omitempty") && !slices.Contains(optional, "omitzero") {
			f.schema.Required = append(f.schema.Required, name)
		}
	}
	if len(f.schema.Properties) == 0 {
		return errors.New("it has no fields")
	}
	return nil
}

// checkDefaults refuses defaults that an answer could not have, under the schema or in t.
func (f *form) checkDefaults(t reflect.Type, raw json.RawMessage) error {
	var form struct {
		Properties map[string]struct {
			Default json.RawMessage `json:"default"`
		} `json:"properties"`
	}
	if err := codec.Unmarshal(raw, &form); err != nil {
		return err
	}
	presets := map[string]json.RawMessage{}
	for name, p := range form.Properties {
		if p.Default != nil {
			presets[name] = p.Default
		}
	}
	answer, err := codec.Marshal(presets)
	if err != nil {
		return err
	}
	every, err := mcp.FormSchema{Properties: f.schema.Properties}.Raw() // none is required
	if err != nil {
		return err
	}
	check, err := toolschema.Form(every)
	if err != nil {
		return err
	}
	if err = check.Validate(answer); err == nil {
		err = codec.Unmarshal(answer, reflect.New(t).Interface())
	}
	if err != nil {
		return fmt.Errorf("a default that no answer may have: %w", err)
	}
	return nil
}

// fieldTag holds the properties in the form tag of a field, by key.
type fieldTag map[string]string

var fieldKeys = []string{"title", "enum", "titles", "default", "min", "max", "format"}

func readFieldTag(text string) (fieldTag, error) {
	tag := fieldTag{}
	for part := range strings.SplitSeq(text, ";") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		key, value, ok := strings.Cut(part, "=")
		key = strings.TrimSpace(key)
		if _, twice := tag[key]; !ok || twice || !slices.Contains(fieldKeys, key) {
			return nil, fmt.Errorf("its form tag has %q, which is not a known KEY=VALUE or comes twice", part)
		}
		tag[key] = value
	}
	return tag, nil
}

// take returns the value of a key, and notes that it was used.
func (tag fieldTag) take(key string) (string, bool) {
	value, ok := tag[key]
	delete(tag, key)
	return value, ok
}

// choices returns the values of an enum, nil if there is none.
func (tag fieldTag) choices() ([]string, error) {
	values := tag.values("enum")
	for i, v := range values {
		if slices.Contains(values[:i], v) {
			return nil, fmt.Errorf("its enum has %q twice", v)
		}
	}
	return values, nil
}

// values returns the list of a key.
func (tag fieldTag) values(key string) []string {
	if value, ok := tag.take(key); ok {
		return strings.Split(value, "|")
	}
	return nil
}

// number returns the number of a key, nil if there is none.
func number[N int64 | float64](tag fieldTag, key string) (*N, error) {
	text, ok := tag.take(key)
	if !ok {
		return nil, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if n := N(v); err == nil && float64(n) == v {
		return &n, nil
	}
	return nil, fmt.Errorf("%s=%s is no number that fits", key, text)
}

// bounds returns the min and the max of a tag, nil where there is none. They must allow
// some value between least and most, which bound all possible values.
func bounds[N int64 | float64](tag fieldTag, least, most N) (low, high *N, err error) {
	low, err = number[N](tag, "min")
	high, err2 := number[N](tag, "max")
	if err = errors.Join(err, err2); err != nil {
		return nil, nil, err
	}
	switch {
	case low != nil && high != nil && *low > *high:
		err = fmt.Errorf("min=%v is above max=%v", *low, *high)
	case low != nil && *low > most:
		err = fmt.Errorf("min=%v is above the %v that is possible", *low, most)
	case high != nil && *high < least:
		err = fmt.Errorf("max=%v is below the %v that is possible", *high, least)
	}
	return low, high, err
}

// fieldSchema returns the schema of one field.
func fieldSchema(field reflect.StructField) (mcp.PrimitiveSchema, error) {
	tag, err := readFieldTag(field.Tag.Get("form"))
	if err != nil {
		return nil, err
	}
	t := field.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	title, _ := tag.take("title")
	about := field.Tag.Get("jsonschema")
	var schema mcp.PrimitiveSchema
	switch {
	case t == reflect.TypeFor[time.Time]():
		schema = &mcp.StringSchema{Title: title, Description: about, Format: "date-time"}
	case reflect.PointerTo(t).Implements(reflect.TypeFor[jsonReader]()) || reflect.PointerTo(t).Implements(reflect.TypeFor[textReader]()):
		return nil, fmt.Errorf("%v has JSON or text methods of its own, which forms do not support", t)
	case t.Kind() == reflect.String:
		schema, err = stringField(tag, title, about)
	case t.Kind() == reflect.Bool:
		schema, err = boolField(tag, title, about)
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String:
		schema, err = choicesField(tag, title, about)
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Float64 && t.Kind() != reflect.Uintptr:
		schema, err = numberField(tag, title, about, t)
	default:
		return nil, fmt.Errorf("no form has a %v: use a string, a number, a bool, a time.Time or a []string", t)
	}
	for key := range tag {
		if err == nil {
			err = fmt.Errorf("a %v has no %s", t, key)
		}
	}
	return schema, err
}

type (
	jsonReader interface{ UnmarshalJSON([]byte) error }
	textReader interface{ UnmarshalText([]byte) error }
)

func stringField(tag fieldTag, title, about string) (mcp.PrimitiveSchema, error) {
	var preset *string
	if text, ok := tag.take("default"); ok {
		preset = &text
	}
	values, err := tag.choices()
	if err != nil {
		return nil, err
	}
	if values != nil {
		if preset != nil && !slices.Contains(values, *preset) {
			return nil, fmt.Errorf("the default %q is none of the values", *preset)
		}
		options, err := titled(values, tag)
		if options != nil {
			return &mcp.TitledEnumSchema{Title: title, Description: about, OneOf: options, Default: preset}, nil
		}
		return &mcp.EnumSchema{Title: title, Description: about, Enum: values, Default: preset}, err
	}
	least, most, err := bounds[int64](tag, 0, math.MaxInt64)
	format, _ := tag.take("format")
	if format != "" && !slices.Contains([]string{"email", "uri", "date", "date-time"}, format) {
		return nil, fmt.Errorf("there is no format %s", format)
	}
	return &mcp.StringSchema{Title: title, Description: about, MinLength: least, MaxLength: most, Format: format, Default: preset}, err
}

// titled returns the values with the titles of the tag, nil if it has none.
func titled(values []string, tag fieldTag) ([]mcp.EnumOption, error) {
	titles := tag.values("titles")
	if titles == nil {
		return nil, nil
	}
	if len(titles) != len(values) {
		return nil, fmt.Errorf("%d titles for %d values", len(titles), len(values))
	}
	options := make([]mcp.EnumOption, len(values))
	for i, value := range values {
		options[i] = mcp.EnumOption{Const: value, Title: titles[i]}
	}
	return options, nil
}

func boolField(tag fieldTag, title, about string) (mcp.PrimitiveSchema, error) {
	s := &mcp.BooleanSchema{Title: title, Description: about}
	if text, ok := tag.take("default"); ok {
		preset, err := strconv.ParseBool(text)
		if err != nil {
			return nil, fmt.Errorf("default=%s is neither true nor false", text)
		}
		s.Default = &preset
	}
	return s, nil
}

func numberField(tag fieldTag, title, about string, t reflect.Type) (mcp.PrimitiveSchema, error) {
	s := &mcp.NumberSchema{Type: "integer", Title: title, Description: about}
	least, most := rangeOf(t)
	if t.Kind() >= reflect.Float32 {
		s.Type = "number"
	}
	var err, err2 error
	s.Minimum, s.Maximum, err = bounds(tag, least, most)
	s.Default, err2 = number[float64](tag, "default")
	if err = errors.Join(err, err2); err != nil {
		return nil, err
	}
	if least == 0 && (s.Minimum == nil || *s.Minimum < 0) {
		s.Minimum = new(float64)
	}
	if s.Type == "integer" && s.Minimum != nil && s.Maximum != nil && math.Ceil(*s.Minimum) > *s.Maximum {
		return nil, fmt.Errorf("no whole number is between min=%v and max=%v", *s.Minimum, *s.Maximum)
	}
	if s.Type == "integer" && s.Default != nil && *s.Default != math.Trunc(*s.Default) {
		return nil, fmt.Errorf("the default %v is no whole number", *s.Default)
	}
	return s, nil
}

// rangeOf returns the least and the greatest number of a type, as far as a float64 has them.
func rangeOf(t reflect.Type) (least, most float64) {
	switch kind := t.Kind(); {
	case kind == reflect.Float32:
		return -math.MaxFloat32, math.MaxFloat32
	case kind == reflect.Float64:
		return -math.MaxFloat64, math.MaxFloat64
	case kind >= reflect.Uint:
		return 0, math.Floor(math.Nextafter(math.Ldexp(1, t.Bits()), 0))
	}
	least = -math.Ldexp(1, t.Bits()-1)
	return least, math.Floor(math.Nextafter(-least, 0))
}

func choicesField(tag fieldTag, title, about string) (mcp.PrimitiveSchema, error) {
	values, err := tag.choices()
	if err != nil {
		return nil, err
	}
	preset := tag.values("default")
	if values == nil {
		return nil, errors.New("a choice of several needs enum=A|B|C in its form tag")
	}
	for _, v := range preset {
		if !slices.Contains(values, v) {
			return nil, fmt.Errorf("the default %q is none of the values", v)
		}
	}
	least, most, err := bounds[int64](tag, 0, int64(len(values)))
	options, err2 := titled(values, tag)
	if options != nil {
		return &mcp.TitledMultiEnumSchema{Title: title, Description: about, MinItems: least, MaxItems: most, Items: mcp.TitledEnumItems{AnyOf: options}, Default: preset}, err
	}
	return &mcp.MultiEnumSchema{Title: title, Description: about, MinItems: least, MaxItems: most, Items: mcp.EnumItems{Type: "string", Enum: values}, Default: preset}, errors.Join(err, err2)
}

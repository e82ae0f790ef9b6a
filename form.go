package troupe

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
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
// The tag jsonschema is the description, and the tag form has the other properties, separated
// by semicolons, both as for the arguments of tools ([AddTool]). A []string must have an enum,
// and min and max bound how many of its values are chosen. A default is what the client shows
// before the user has entered anything. One property is for forms alone:
//
//	titles=TEXT|TEXT|…   what the client shows for the values of an enum
//
// and pattern and header are for tools alone.
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
	err := own.readFields(reflect.TypeFor[T]())
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
	if f.err = f.readType(t); f.err != nil {
		f.err = fmt.Errorf("troupe: form of %v: %w", t, f.err)
	}
	known, _ := forms.LoadOrStore(t, f)
	return known.(*form)
}

func (f *form) readType(t reflect.Type) error {
	if err := f.readFields(t); err != nil {
		return err
	}
	raw, err := f.schema.Raw()
	if err != nil {
		return err
	}
	f.check, err = toolschema.Form(raw)
	return err
}

// readFields makes the schema from the fields of t.
func (f *form) readFields(t reflect.Type) error {
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

// fieldSchema returns the schema of one field.
func fieldSchema(field reflect.StructField) (mcp.PrimitiveSchema, error) {
	t := field.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	moment := t == reflect.TypeFor[time.Time]()
	if !moment && (reflect.PointerTo(t).Implements(reflect.TypeFor[jsonReader]()) || reflect.PointerTo(t).Implements(reflect.TypeFor[textReader]())) {
		return nil, fmt.Errorf("%v has JSON or text methods of its own, which forms do not support", t)
	}
	tag, err := toolschema.ReadTag(field)
	if err != nil {
		return nil, err
	}
	if tag.Pattern != "" || tag.Header != "" {
		return nil, errors.New("a form has no pattern and no header: they are for arguments of tools")
	}
	var schema mcp.PrimitiveSchema
	about := field.Tag.Get("jsonschema")
	switch {
	case moment:
		schema = &mcp.StringSchema{Title: tag.Title, Description: about, Format: "date-time"}
	case t.Kind() == reflect.String:
		schema = stringField(tag, about)
	case t.Kind() == reflect.Bool:
		s := &mcp.BooleanSchema{Type: "boolean", Title: tag.Title, Description: about}
		err, schema = decodePreset(tag, &s.Default), s
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String:
		schema, err = choicesField(tag, about)
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Float64 && t.Kind() != reflect.Uintptr:
		schema, err = numberField(tag, about, t)
	default:
		return nil, fmt.Errorf("no form has a %v: use a string, a number, a bool, a time.Time or a []string", t)
	}
	if err != nil || tag.Default == nil {
		return schema, err
	}
	raw, err := codec.Marshal(schema)
	if err != nil {
		return nil, err
	}
	return schema, toolschema.CheckDefault(raw, tag.Default, t)
}

type (
	jsonReader interface{ UnmarshalJSON([]byte) error }
	textReader interface{ UnmarshalText([]byte) error }
)

// decodePreset decodes the default of a tag, if it has one.
func decodePreset[T any](tag *toolschema.Tag, into *T) error {
	if tag.Default == nil {
		return nil
	}
	return codec.Unmarshal(tag.Default, into)
}

func stringField(tag *toolschema.Tag, about string) mcp.PrimitiveSchema {
	var initial *string
	_ = decodePreset(tag, &initial) // it is a string
	if options := titledOptions(tag); options != nil {
		return &mcp.TitledEnumSchema{Type: "string", Title: tag.Title, Description: about, OneOf: options, Default: initial}
	}
	if tag.Enum != nil {
		return &mcp.EnumSchema{Type: "string", Title: tag.Title, Description: about, Enum: tag.Enum, Default: initial}
	}
	return &mcp.StringSchema{Type: "string", Title: tag.Title, Description: about, MinLength: tag.Least, MaxLength: tag.Most, Format: tag.Format, Default: initial}
}

// titledOptions returns the values with the titles of the tag, nil if it has none.
func titledOptions(tag *toolschema.Tag) []mcp.EnumOption {
	if tag.Titles == nil {
		return nil
	}
	options := make([]mcp.EnumOption, len(tag.Enum))
	for i, value := range tag.Enum {
		options[i] = mcp.EnumOption{Const: value, Title: tag.Titles[i]}
	}
	return options
}

func numberField(tag *toolschema.Tag, about string, t reflect.Type) (mcp.PrimitiveSchema, error) {
	s := &mcp.NumberSchema{Type: "integer", Title: tag.Title, Description: about, Minimum: tag.Minimum, Maximum: tag.Maximum}
	if t.Kind() >= reflect.Float32 {
		s.Type = "number"
	}
	unsigned := t.Kind() >= reflect.Uint && t.Kind() < reflect.Float32
	if unsigned && (s.Minimum == nil || *s.Minimum < 0) {
		s.Minimum = new(float64)
	}
	return s, decodePreset(tag, &s.Default)
}

func choicesField(tag *toolschema.Tag, about string) (mcp.PrimitiveSchema, error) {
	if tag.Enum == nil {
		return nil, errors.New("a choice of several needs enum=A|B|C in its form tag")
	}
	if n := len(tag.Enum); tag.Least != nil && *tag.Least > int64(n) {
		return nil, fmt.Errorf("min=%d is above the %d that is possible", *tag.Least, n)
	}
	var initial []string
	err := decodePreset(tag, &initial)
	if options := titledOptions(tag); options != nil {
		return &mcp.TitledMultiEnumSchema{Type: "array", Title: tag.Title, Description: about, MinItems: tag.Least, MaxItems: tag.Most, Items: mcp.TitledEnumItems{AnyOf: options}, Default: initial}, err
	}
	return &mcp.MultiEnumSchema{Type: "array", Title: tag.Title, Description: about, MinItems: tag.Least, MaxItems: tag.Most, Items: mcp.EnumItems{Type: "string", Enum: tag.Enum}, Default: initial}, err
}

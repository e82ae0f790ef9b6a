package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// FormSchema is the schema of an elicitation form: a flat object whose properties
// are primitive. The order of the properties is the order a client shows.
type FormSchema struct {
	Schema     string // the $schema member, empty for none
	Properties []Property
	Required   []string
}

// Property is one field of a form.
type Property struct {
	Name   string
	Schema PrimitiveSchema
}

// PrimitiveSchema is the schema of one field: [*StringSchema], [*NumberSchema],
// [*BooleanSchema], [*EnumSchema], [*TitledEnumSchema], [*MultiEnumSchema],
// [*TitledMultiEnumSchema], [*LegacyEnumSchema] or [*UnknownSchema]. Encoding a form
// fills in an empty Type.
type PrimitiveSchema interface{ typed() PrimitiveSchema }

// StringSchema is a text field.
type StringSchema struct {
	Type        string  `json:"type"` // "string"
	Title       string  `json:"title,omitempty"`
	Description string  `json:"description,omitempty"`
	MinLength   *int64  `json:"minLength,omitempty"`
	MaxLength   *int64  `json:"maxLength,omitempty"`
	Format      string  `json:"format,omitempty"` // "uri", "email", "date" or "date-time"
	Default     *string `json:"default,omitempty"`
}

// NumberSchema is a number field.
type NumberSchema struct {
	Type        string   `json:"type"` // "number", the default, or "integer"
	Title       string   `json:"title,omitempty"`
	Description string   `json:"description,omitempty"`
	Minimum     *float64 `json:"minimum,omitempty"`
	Maximum     *float64 `json:"maximum,omitempty"`
	Default     *float64 `json:"default,omitempty"`
}

// BooleanSchema is a yes or no field.
type BooleanSchema struct {
	Type        string `json:"type"` // "boolean"
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Default     *bool  `json:"default,omitempty"`
}

// EnumSchema is a choice of one value.
type EnumSchema struct {
	Type        string   `json:"type"` // "string"
	Title       string   `json:"title,omitempty"`
	Description string   `json:"description,omitempty"`
	Enum        []string `json:"enum"`
	Default     *string  `json:"default,omitempty"`
}

// TitledEnumSchema is a choice of one value, each with a title.
type TitledEnumSchema struct {
	Type        string       `json:"type"` // "string"
	Title       string       `json:"title,omitempty"`
	Description string       `json:"description,omitempty"`
	OneOf       []EnumOption `json:"oneOf"`
	Default     *string      `json:"default,omitempty"`
}

// EnumOption is a value and the title a client shows for it.
type EnumOption struct {
	Const string `json:"const"`
	Title string `json:"title"`
}

// MultiEnumSchema is a choice of several values.
type MultiEnumSchema struct {
	Type        string    `json:"type"` // "array"
	Title       string    `json:"title,omitempty"`
	Description string    `json:"description,omitempty"`
	MinItems    *int64    `json:"minItems,omitempty"`
	MaxItems    *int64    `json:"maxItems,omitempty"`
	Items       EnumItems `json:"items"`
	Default     []string  `json:"default,omitempty"`
}

// EnumItems are the values of a [MultiEnumSchema].
type EnumItems struct {
	Type string   `json:"type"` // "string"
	Enum []string `json:"enum"`
}

// TitledMultiEnumSchema is a choice of several values, each with a title.
type TitledMultiEnumSchema struct {
	Type        string          `json:"type"` // "array"
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	MinItems    *int64          `json:"minItems,omitempty"`
	MaxItems    *int64          `json:"maxItems,omitempty"`
	Items       TitledEnumItems `json:"items"`
	Default     []string        `json:"default,omitempty"`
}

// TitledEnumItems are the values of a [TitledMultiEnumSchema].
type TitledEnumItems struct {
	AnyOf []EnumOption `json:"anyOf"`
}

// LegacyEnumSchema is a choice of one value in the form of 2025-06-18; use
// [TitledEnumSchema] for newer clients.
type LegacyEnumSchema struct {
	Type        string   `json:"type"` // "string"
	Title       string   `json:"title,omitempty"`
	Description string   `json:"description,omitempty"`
	Enum        []string `json:"enum"`
	EnumNames   []string `json:"enumNames,omitempty"`
	Default     *string  `json:"default,omitempty"`
}

// UnknownSchema is a schema of no known form. It is encoded with the bytes that were
// decoded.
type UnknownSchema struct{ Raw json.RawMessage }

// MarshalJSON returns the bytes that were decoded.
func (s *UnknownSchema) MarshalJSON() ([]byte, error) { return Object(s.Raw).MarshalJSON() }

func (s *StringSchema) typed() PrimitiveSchema {
	c := *s
	c.Type = "string"
	return &c
}

func (s *NumberSchema) typed() PrimitiveSchema {
	c := *s
	if c.Type == "" {
		c.Type = "number"
	}
	return &c
}

func (s *BooleanSchema) typed() PrimitiveSchema {
	c := *s
	c.Type = "boolean"
	return &c
}

func (s *EnumSchema) typed() PrimitiveSchema {
	c := *s
	c.Type, c.Enum = "string", list(c.Enum)
	return &c
}

func (s *TitledEnumSchema) typed() PrimitiveSchema {
	c := *s
	c.Type, c.OneOf = "string", list(c.OneOf)
	return &c
}

func (s *MultiEnumSchema) typed() PrimitiveSchema {
	c := *s
	c.Type, c.Items = "array", EnumItems{Type: "string", Enum: list(c.Items.Enum)}
	return &c
}

func (s *TitledMultiEnumSchema) typed() PrimitiveSchema {
	c := *s
	c.Type, c.Items.AnyOf = "array", list(c.Items.AnyOf)
	return &c
}

func (s *LegacyEnumSchema) typed() PrimitiveSchema {
	c := *s
	c.Type, c.Enum = "string", list(c.Enum)
	return &c
}

func (s *UnknownSchema) typed() PrimitiveSchema { return s }

// list returns s, or an empty slice for nil: forms are encoded with encoding/json, which
// would write null.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// Raw encodes the form. It fails only for a number that JSON cannot hold.
func (f FormSchema) Raw() (json.RawMessage, error) { return f.MarshalJSON() }

// MarshalJSON writes the schema with its properties in order.
func (f FormSchema) MarshalJSON() ([]byte, error) {
	var buf bytes.Buffer
	buf.WriteByte('{')
	if f.Schema != "" {
		buf.WriteString(`"$schema":`)
		buf.Write(quote(f.Schema))
		buf.WriteByte(',')
	}
	buf.WriteString(`"type":"object","properties":{`)
	for i, p := range f.Properties {
		if i > 0 {
			buf.WriteByte(',')
		}
		if p.Schema == nil {
			return nil, fmt.Errorf("mcp: encode form property %q: %w: no schema", p.Name, ErrMalformed)
		}
		data, err := encode(p.Schema.typed())
		if err != nil {
			return nil, fmt.Errorf("mcp: encode form property %q: %w", p.Name, err)
		}
		buf.Write(quote(p.Name))
		buf.WriteByte(':')
		buf.Write(data)
	}
	buf.WriteByte('}')
	if len(f.Required) > 0 {
		data, err := encode(f.Required)
		if err != nil {
			return nil, err
		}
		buf.WriteString(`,"required":`)
		buf.Write(data)
	}
	buf.WriteByte('}')
	return buf.Bytes(), nil
}

// ParseFormSchema reads a form. The error wraps [ErrMalformed].
func ParseFormSchema(data []byte) (FormSchema, error) {
	var f FormSchema
	err := f.UnmarshalJSON(data)
	return f, err
}

// UnmarshalJSON reads a form and keeps the order of its properties.
func (f *FormSchema) UnmarshalJSON(data []byte) error {
	if !json.Valid(data) {
		return fmt.Errorf("mcp: decode form: %w: not JSON", ErrMalformed)
	}
	var wire struct {
		Schema     string          `json:"$schema"`
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	if err := decodeStruct(data, &wire, nil); err != nil {
		return fmt.Errorf("mcp: decode form: %w", err)
	}
	out := FormSchema{Schema: wire.Schema, Required: wire.Required}
	it := newMembers(wire.Properties)
	for it.next() {
		schema, err := decodePrimitive(it.value)
		if err != nil {
			return fmt.Errorf("mcp: decode form property %q: %w", it.key(), err)
		}
		out.Properties = append(out.Properties, Property{Name: it.key(), Schema: schema})
	}
	if !it.ok {
		return fmt.Errorf("mcp: decode form: %w: no properties", ErrMalformed)
	}
	*f = out
	return nil
}

func decodePrimitive(data []byte) (PrimitiveSchema, error) {
	var kind string
	if raw, ok := member(data, "type"); ok && raw[0] == '"' {
		if err := json.Unmarshal(raw, &kind); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
	}
	has := func(key string) bool { _, ok := member(data, key); return ok }
	var s PrimitiveSchema
	switch kind {
	case "boolean":
		s = new(BooleanSchema)
	case "number", "integer":
		s = new(NumberSchema)
	case "array":
		items, _ := member(data, "items")
		if _, titled := member(items, "anyOf"); titled {
			s = new(TitledMultiEnumSchema)
		} else {
			s = new(MultiEnumSchema)
		}
	case "string":
		switch {
		case has("oneOf"):
			s = new(TitledEnumSchema)
		case has("enumNames"):
			s = new(LegacyEnumSchema)
		case has("enum"):
			s = new(EnumSchema)
		default:
			s = new(StringSchema)
		}
	default:
		if data[0] != '{' {
			return nil, fmt.Errorf("%w: not an object", ErrMalformed)
		}
		return &UnknownSchema{Raw: bytes.Clone(data)}, nil
	}
	return s, decodeStruct(data, s, nil)
}

package toolschema

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf8"
)

// plan is the compiled form of a simple schema. It reads JSON in place and without allocation, where the validator needs a
// tree of the value. It only ever says that a value fits: whatever it does not know, or does not like, is left to the
// validator, which is the authority and names the faults. FuzzValidate compares the two.
//
// A schema has a plan if all of its parts use no other keywords than those of planOf, in the dialect 2020-12.
type plan struct {
	kinds    kinds
	enum     []string // values that a string may have; nil for any
	orNull   bool     // null is among them
	minLen   int      // of a string in code points; -1 for none, like the three below
	maxLen   int
	minItems int
	maxItems int
	atLeast  *int64 // bounds of a number
	atMost   *int64
	items    *plan // of all elements; nil for anything
	fields   []planField
	required uint64 // the fields that an object must have, by their bits
	rest     *plan  // of members without a field; nil for anything
	closed   bool   // an object may not have such members
}

// planField is a member of an object that the schema names.
type planField struct {
	name     string
	plan     *plan // nil for anything
	declared bool  // in "properties"; otherwise only in "required"
}

// maxFields is how many members a plan can tell apart.
const maxFields = 64

// kinds is a set of types of JSON.
type kinds uint8

const (
	kindNull kinds = 1 << iota
	kindBoolean
	kindInteger
	kindNumber // integers, too
	kindString
	kindArray
	kindObject
	kindAny = 1<<iota - 1
)

var kindNames = map[string]kinds{"null": kindNull, "boolean": kindBoolean, "integer": kindInteger, "number": kindInteger | kindNumber, "string": kindString,
	"array": kindArray, "object": kindObject}

// planOf returns the plan of a schema, or false if that uses more than plans can check. The plan of the schema that allows
// everything is nil.
func planOf(doc any) (*plan, bool) {
	if doc == true {
		return nil, true
	}
	schema, ok := doc.(map[string]any)
	if !ok {
		return nil, false
	}
	p := &plan{kinds: kindAny, minLen: -1, maxLen: -1, minItems: -1, maxItems: -1}
	for key, v := range schema {
		ok := true
		switch key {
		case "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "format", "x-mcp-header":
		case "$schema":
			ok = v == "https://json-schema.org/draft/2020-12/schema"
		case "type":
			p.kinds, ok = kindsOf(v)
		case "enum":
			p.enum, p.orNull, ok = choicesOf(v)
		case "minLength":
			p.minLen, ok = sizeOf(v)
		case "maxLength":
			p.maxLen, ok = sizeOf(v)
		case "minItems":
			p.minItems, ok = sizeOf(v)
		case "maxItems":
			p.maxItems, ok = sizeOf(v)
		case "minimum":
			p.atLeast, ok = wholeOf(v)
		case "maximum":
			p.atMost, ok = wholeOf(v)
		case "items":
			p.items, ok = planOf(v)
		case "properties", "required", "additionalProperties": // below, in this order
		default:
			ok = false
		}
		if !ok {
			return nil, false
		}
	}
	return p, p.addMembers(schema)
}

// addMembers adds what the schema says of the members of an object.
func (p *plan) addMembers(schema map[string]any) bool {
	if v, has := schema["properties"]; has {
		properties, ok := v.(map[string]any)
		if !ok {
			return false
		}
		for name, v := range properties {
			of, ok := planOf(v)
			if !ok {
				return false
			}
			p.fields = append(p.fields, planField{name, of, true})
		}
	}
	if v, has := schema["required"]; has {
		names, ok := stringsOf(v)
		if !ok {
			return false
		}
		for _, name := range names {
			i := p.fieldIndex([]byte(name))
			if i < 0 {
				i = len(p.fields)
				p.fields = append(p.fields, planField{name: name})
			}
			if i >= maxFields {
				return false
			}
			p.required |= 1 << i
		}
	}
	switch v, has := schema["additionalProperties"]; {
	case !has:
	case v == false:
		p.closed = true
	default:
		var ok bool
		if p.rest, ok = planOf(v); !ok {
			return false
		}
	}
	return len(p.fields) <= maxFields
}

// fieldIndex returns the index of a field, or -1.
func (p *plan) fieldIndex(name []byte) int {
	for i := range p.fields {
		if f := &p.fields[i]; len(f.name) == len(name) && f.name == string(name) {
			return i
		}
	}
	return -1
}

func kindsOf(v any) (kinds, bool) {
	if name, ok := v.(string); ok {
		k, ok := kindNames[name]
		return k, ok
	}
	names, ok := stringsOf(v)
	var all kinds
	for _, name := range names {
		k, known := kindNames[name]
		all, ok = all|k, ok && known
	}
	return all, ok
}

func stringsOf(v any) ([]string, bool) {
	list, ok := v.([]any)
	if !ok {
		return nil, false
	}
	all := make([]string, 0, len(list))
	for _, v := range list {
		s, ok := v.(string)
		if !ok {
			return nil, false
		}
		all = append(all, s)
	}
	return all, true
}

// choicesOf returns the strings of an enum, and whether it has null, too.
func choicesOf(v any) (all []string, orNull, ok bool) {
	list, _ := v.([]any)
	n := slices.Index(list, nil)
	if n >= 0 {
		v = slices.Delete(slices.Clone(list), n, n+1)
	}
	all, ok = stringsOf(v)
	return all, n >= 0, ok
}

// number is a number of a schema, as the validator's package decodes it.
type number interface{ Int64() (int64, error) }

func wholeOf(v any) (*int64, bool) {
	n, ok := v.(number)
	if !ok {
		return nil, false
	}
	i, err := n.Int64()
	return &i, err == nil
}

func sizeOf(v any) (int, bool) {
	n, ok := wholeOf(v)
	if !ok || *n < 0 || *n > 1<<30 {
		return -1, false
	}
	return int(*n), true
}

// fitsValue reports whether raw, which must be valid JSON, fits for certain.
func (p *plan) fitsValue(raw []byte) bool {
	var names memberNames
	_, ok := p.checkValue(&names, raw, skipBlank(raw, 0))
	names.freeNames()
	return ok
}

// checkValue checks the value that begins at i, and returns where it ends.
func (p *plan) checkValue(names *memberNames, b []byte, i int) (end int, ok bool) {
	if i >= len(b) {
		return i, false
	}
	switch c := b[i]; c {
	case '{':
		return p.checkObject(names, b, i)
	case '[':
		return p.checkArray(names, b, i)
	case '"':
		return p.checkText(b, i)
	case 't':
		return i + len("true"), p.takesKind(kindBoolean)
	case 'f':
		return i + len("false"), p.takesKind(kindBoolean)
	case 'n':
		return i + len("null"), p.takesKind(kindNull)
	}
	return p.skipDigits(b, i)
}

// takesKind reports whether a value of that kind, of which nothing else is to be checked, fits.
func (p *plan) takesKind(k kinds) bool {
	return p == nil || p.kinds&k != 0 && (p.enum == nil || k == kindNull && p.orNull)
}

// plainDigits is how many characters of a number are looked at here: any such number is exact.
const plainDigits = 15

func (p *plan) skipDigits(b []byte, i int) (end int, ok bool) {
	end, kind := i, kindInteger
	for ; end < len(b); end++ {
		switch c := b[end]; {
		case '0' <= c && c <= '9', c == '-' && end == i:
			continue
		case c == '.':
			kind = kindNumber
			continue
		}
		break
	}
	if end < len(b) && (b[end] == 'e' || b[end] == 'E') {
		return end, false
	}
	if end == i || end-i > plainDigits || !p.takesKind(kind) {
		return end, false
	}
	if p == nil || p.atLeast == nil && p.atMost == nil {
		return end, true
	}
	if kind != kindInteger {
		return end, false
	}
	n, err := strconv.ParseInt(string(b[i:end]), 10, 64)
	return end, err == nil && (p.atLeast == nil || n >= *p.atLeast) && (p.atMost == nil || n <= *p.atMost)
}

// skipString returns the end of a string, and whether it is without escapes.
func skipString(b []byte, i int) (end int, plain bool) {
	plain = true
	for i++; i < len(b); {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			break
		}
		escape := bytes.IndexByte(b[i:i+n], '\\')
		if escape < 0 {
			return i + n + 1, plain
		}
		plain = false
		i += escape + 2
	}
	return len(b), false
}

func (p *plan) checkText(b []byte, i int) (end int, ok bool) {
	end, plain := skipString(b, i)
	if p == nil {
		return end, true
	}
	if p.kinds&kindString == 0 {
		return end, false
	}
	if p.enum == nil && p.minLen < 0 && p.maxLen < 0 {
		return end, true
	}
	if !plain {
		return end, false
	}
	text := b[i+1 : end-1]
	if p.minLen >= 0 || p.maxLen >= 0 {
		n := utf8.RuneCount(text)
		if n < p.minLen || p.maxLen >= 0 && n > p.maxLen {
			return end, false
		}
	}
	if p.enum == nil {
		return end, true
	}
	for _, s := range p.enum {
		if len(s) == len(text) && s == string(text) {
			return end, true
		}
	}
	return end, false
}

func (p *plan) checkArray(names *memberNames, b []byte, i int) (end int, ok bool) {
	var items *plan
	if p != nil {
		if !p.takesKind(kindArray) {
			return i, false
		}
		items = p.items
	}
	n := 0
	for i = skipBlank(b, i+1); i < len(b) && b[i] != ']'; n++ {
		if i, ok = items.checkValue(names, b, i); !ok {
			return i, false
		}
		i = skipComma(b, i)
	}
	return i + 1, p == nil || n >= p.minItems && (p.maxItems < 0 || n <= p.maxItems)
}

func (p *plan) checkObject(names *memberNames, b []byte, i int) (end int, ok bool) {
	if !p.takesKind(kindObject) {
		return i, false
	}
	var found uint64
	first := len(names.all)
	for i = skipBlank(b, i+1); i < len(b) && b[i] == '"'; i = skipComma(b, i) {
		var of *plan
		end, plain := skipString(b, i)
		if !plain {
			return end, false
		}
		f := -1
		if p != nil {
			f = p.fieldIndex(b[i+1 : end-1])
		}
		if f < 0 {
			names.addName(b[i+1 : end-1])
		} else {
			bit := uint64(1) << f
			if found&bit != 0 {
				return end, false
			}
			found |= bit
		}
		switch {
		case p == nil:
		case f >= 0 && p.fields[f].declared:
			of = p.fields[f].plan
		case p.closed:
			return end, false
		default:
			of = p.rest
		}
		i = skipBlank(b, end)
		if i, ok = of.checkValue(names, b, skipBlank(b, i+1)); !ok {
			return i, false
		}
	}
	return i + 1, names.takeDistinct(first) && (p == nil || found&p.required == p.required)
}

// skipBlank returns where the next character is that is no white space.
func skipBlank(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// skipComma returns where the next value begins, or the bracket that ends them.
func skipComma(b []byte, i int) int {
	if i = skipBlank(b, i); i < len(b) && b[i] == ',' {
		i = skipBlank(b, i+1)
	}
	return i
}

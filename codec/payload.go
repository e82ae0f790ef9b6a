package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// ErrSyntax is returned by Unmarshal for data that is not one valid JSON value. Nothing was decoded.
var ErrSyntax = errors.New("codec: invalid JSON")

// ErrDuplicate is returned by Unmarshal where payloads go through json/v2, see [Native], for a member that comes twice in
// an object that decodes into a struct or into a map of a type. The value may be partly filled. sonic, and in an any or
// a json.RawMessage json/v2, too, let it pass; in an any the last one counts.
var ErrDuplicate = errors.New("codec: a member comes twice")

// DecodeError is returned by Unmarshal for valid JSON that does not fit the Go value. The value may be partly filled.
type DecodeError struct {
	// Offset is where in the data the value that does not fit starts, or the byte after its quote; -1 if that is
	// unknown.
	Offset int

	// Value is the type of the JSON value: null, bool, number, string, array or object; empty if that is unknown.
	Value string

	// Type is the Go type that the value does not fit; nil if that is unknown.
	Type reflect.Type
}

// Error describes the mismatch in JSON's terms, without quoting the data.
func (e *DecodeError) Error() string {
	value, at := e.Value, ""
	if value == "" {
		value = "value"
	}
	if e.Offset >= 0 {
		at = " at offset " + strconv.Itoa(e.Offset)
	}
	return "codec: " + value + at + " does not fit " + describeType(e.Type)
}

// maybeInteger reports whether the value that does not fit may be an integer with a fraction or an exponent.
func (e *DecodeError) maybeInteger() bool {
	if e.Offset < 0 || e.Type == nil {
		return true
	}
	t := e.Type
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return reflect.Int <= t.Kind() && t.Kind() <= reflect.Uintptr
}

// describeType names JSON values that fit type t; integers by their Go kind with its size, which tells their range.
func describeType(t reflect.Type) string {
	if t == nil {
		return "its type"
	}
	if t == number {
		return "a number"
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.String, reflect.Bool:
		return "a " + t.Kind().String()
	case reflect.Pointer:
		return describeType(t.Elem())
	case reflect.Interface:
		return "its type"
	case reflect.Int, reflect.Uint: // of 64 bits wherever Troupe runs
		return t.Kind().String() + "64"
	}
	return t.Kind().String()
}

// holders carry a slice header to the encoder, which needs a pointer to one, without an allocation each time.
var holders = sync.Pool{New: func() any { return new([]byte) }}

// Marshal encodes v as compact JSON in UTF-8. The package comment says how it differs from encoding/json. JSON from a
// json.RawMessage or a MarshalJSON method must be valid by Valid, or Marshal fails. In strings that are not valid UTF-8
// the wrong bytes become U+FFFD. A nil []byte is written as "", like an empty one; but in an interface sonic writes it as
// [], like any nil slice.
func Marshal(v any) ([]byte, error) {
	buf := GetBuffer()
	defer buf.Free()
	var err error
	if buf.B, err = AppendMarshal(buf.B, v); err != nil {
		return nil, err
	}
	if cap(buf.B) > maxPooled {
		return buf.B, nil
	}
	return bytes.Clone(buf.B), nil
}

// AppendMarshal appends what Marshal returns to dst. After an error it returns dst as it was.
func AppendMarshal(dst []byte, v any) ([]byte, error) {
	p := planOf(reflect.TypeOf(v))
	if Native && p&holdsBytes != 0 {
		v = withBytes(v)
	}
	h := holders.Get().(*[]byte)
	*h = dst
	err := encodeInto(h, v)
	out := *h
	*h = nil
	holders.Put(h)
	if err == nil {
		out, err = finishUTF8(out, len(dst), p&holdsRaw != 0)
	}
	if err != nil {
		return dst, fmt.Errorf("codec: marshal %T: %w", v, err)
	}
	return out, nil
}

// finishUTF8 makes valid UTF-8 of the bytes of out from start on. With raw it also validates and compacts them, because
// they may hold JSON that others wrote.
func finishUTF8(out []byte, start int, raw bool) ([]byte, error) {
	if !raw {
		if !validUTF8(out[start:]) {
			out = append(out[:start], repairUTF8(out[start:])...)
		}
		return out, nil
	}
	l := lexer{data: out[start:], max: maxDepth}
	begin := skipSpace(l.data, 0)
	end := l.checkValue(begin, 0)
	if end < 0 && l.reason == reasonUTF8 {
		out = append(out[:start], repairUTF8(out[start:])...)
		l = lexer{data: out[start:], max: maxDepth}
		end = l.checkValue(begin, 0)
	}
	switch {
	case end < 0:
		return out, errors.New("raw JSON: " + l.reason)
	case skipSpace(l.data, end) != len(l.data):
		return out, errors.New("raw JSON: " + reasonTrailing)
	case l.spaced || begin > 0 || end < len(l.data):
		// The result is never longer than its source, so it can be written over it.
		out = AppendCompact(out[:start], l.data)
	}
	return out, nil
}

// validUTF8 is utf8.Valid with the lexer's short cut for three-byte characters.
func validUTF8(b []byte) bool {
	l := lexer{data: b}
	for i := 0; i < len(b); {
		if b[i] < utf8.RuneSelf {
			i = endOfASCII(b, i)
		} else if i = l.checkBeyondASCII(i); i < 0 {
			return false
		}
	}
	return true
}

// repairUTF8 returns a copy of b with each byte that belongs to no character replaced by U+FFFD.
func repairUTF8(b []byte) []byte {
	out := make([]byte, 0, len(b)+16)
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		out = utf8.AppendRune(out, r)
		b = b[n:]
	}
	return out
}

// Unmarshal decodes data into v, a non-nil pointer. It is strict: if Valid does not accept data, the error is
// ErrSyntax. A value that does not fit is a *DecodeError. Errors of UnmarshalJSON methods are returned as they are.
//
// A number without a fraction is an integer however it is written: 3.0 and 1e2 like 3 and 100 (JSON Schema 2020-12). If
// such a number stands for a Go integer or a big.Int, all of them in data are read in their plain form; a big.Int takes up
// to 309 digits in that way, unless data would more than double by that and grow by more than 64 KiB. A number too large for its type is a
// *DecodeError.
//
// Nothing in v refers to data afterwards. data is copied only if v can hold a json.Number, or an interface while data
// has numbers.
func Unmarshal(data []byte, v any) error {
	if !Valid(data) {
		return ErrSyntax
	}
	return UnmarshalValid(data, v)
}

// UnmarshalValid is Unmarshal for data that Scan or Valid accepted, such as the spans of a Message. It may decode other
// data wrongly or not at all.
func UnmarshalValid(data []byte, v any) error {
	if done, err := unmarshalTree(data, v); done {
		return err
	}
	err := decodeValue(data, v)
	if err == nil {
		return nil
	}
	if std, ok := errors.AsType[*json.UnmarshalTypeError](err); ok { // of a method of v; its text quotes the data
		err = &DecodeError{Offset: -1, Type: std.Type}
	}
	wrong, ok := err.(*DecodeError)
	wide := !ok && planOf(reflect.TypeOf(v))&holdsBig != 0 && strings.Contains(err.Error(), "math/big: ") // big.Int has no error of a type
	if wide || ok && wrong.maybeInteger() {
		if plain, ok := plainIntegers(data, wide); ok {
			err = UnmarshalValid(plain, v)
			if wrong, ok := err.(*DecodeError); ok && wrong.Offset >= 0 {
				wrong.Offset = originOf(data, wrong.Offset, wide)
			}
		}
	}
	return err
}

// unmarshalTree is UnmarshalValid for empty values of the two types that hold any JSON, which it decodes in less time
// and memory than sonic and json/v2. It is not done if v is something else.
func unmarshalTree(data []byte, v any) (done bool, err error) {
	switch v := v.(type) {
	case *any:
		if v == nil || *v != nil {
			return false, nil
		}
		tree, ok := decodeTree(data)
		if !ok {
			return true, ErrSyntax
		}
		*v = tree
		return true, nil
	case *map[string]any:
		if v == nil || *v != nil {
			return false, nil
		}
		if i := skipSpace(data, 0); i >= len(data) || data[i] != '{' {
			return false, nil
		}
		tree, ok := decodeTree(data)
		if !ok {
			return true, ErrSyntax
		}
		*v = tree.(map[string]any)
		return true, nil
	}
	return false, nil
}

// kindAt names the kind of the value at i.
func kindAt(data []byte, i int) string {
	if i < 0 || i >= len(data) {
		return ""
	}
	switch c := data[i]; c {
	case '"':
		return "string"
	case '{':
		return "object"
	case '[':
		return "array"
	case 't', 'f':
		return "bool"
	case 'n':
		return "null"
	default:
		if classes[c] == classNumber {
			return "number"
		}
		return ""
	}
}

// Pretouch compiles the encoder and decoder of t and of the types inside it, which otherwise happens at their first
// use and takes sonic about 2 ms each. Call it for the types of a tool when the tool is registered.
func Pretouch(t reflect.Type) error {
	if t == nil {
		return nil
	}
	planOf(t)
	planOf(reflect.PointerTo(t))
	if err := compile(t); err != nil {
		return fmt.Errorf("codec: compile %s: %w", t, err)
	}
	return nil
}

// Path names what payloads go through: "sonic native", or "json/v2" where [Native] is false.
func Path() string {
	if Native {
		return "sonic native"
	}
	return "json/v2"
}

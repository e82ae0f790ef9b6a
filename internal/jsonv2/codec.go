package jsonv2

import (
	"bytes"
	std "encoding/json"
	"errors"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	v1 "github.com/go-json-experiment/json/v1"
)

// Mismatch is returned by Decode for JSON that does not fit the Go value, which may be partly filled.
type Mismatch struct {
	// Offset is where the value that does not fit starts in the data; -1 if that is unknown.
	Offset int

	// Type is the Go type that it does not fit; nil if that is unknown.
	Type reflect.Type
}

// Error names the type.
func (m *Mismatch) Error() string {
	if m.Type == nil {
		return "a value does not fit its type"
	}
	return "a value does not fit " + m.Type.String()
}

// Codec is json/v2 with the options of Troupe's payloads. Make it with New.
type Codec struct {
	encoding, decoding json.Options

	unmarshalers *json.Unmarshalers // those of decoding
}

// New returns a Codec that decodes interfaces without methods by tree, which gets valid JSON and must not keep it. Tree
// returns false if it cannot decode it.
func New(tree func(data []byte) (any, bool)) *Codec {
	// The options of encoding/json come first, because json/v2 has other rules for omitempty, arrays of bytes, durations,
	// methods of pointers, and struct types that it refuses.
	unmarshalers := json.JoinUnmarshalers(json.UnmarshalFromFunc(decodeNumber), json.UnmarshalFromFunc(decodeAny(tree)))
	return &Codec{
		encoding: json.JoinOptions(v1.DefaultOptionsV1(), json.FormatNilSliceAsNull(false), json.FormatNilMapAsNull(false),
			jsontext.EscapeForHTML(false), jsontext.EscapeForJS(false), json.WithMarshalers(json.MarshalToFunc(encodeNumber))),
		decoding: json.JoinOptions(v1.DefaultOptionsV1(), json.MatchCaseInsensitiveNames(false), jsontext.AllowDuplicateNames(false),
			json.WithUnmarshalers(unmarshalers)),
		unmarshalers: unmarshalers,
	}
}

// Append appends the JSON of v to dst. JSON that v brings itself is checked, but it and strings may hold bytes that
// are not UTF-8. After an error what is appended to dst is undefined.
func (c *Codec) Append(dst []byte, v any) ([]byte, error) {
	b := bytes.NewBuffer(dst)
	err := json.MarshalWrite(b, v, c.encoding)
	if wrapped, ok := errors.AsType[*v1.MarshalerError](err); ok {
		err = wrapped.Err
	}
	return b.Bytes(), err
}

// Decode decodes data, which must be valid JSON, into v, a non-nil pointer. It returns a *Mismatch, ErrDuplicate, or
// the error of a method of v as it is.
func (c *Codec) Decode(data []byte, v any) error {
	err := json.Unmarshal(data, v, c.decoding)
	if _, ok := err.(*v1.SyntaxError); ok {
		if twice := duplicates(data); twice != nil { // nothing was decoded
			err = c.decodeDuplicates(data, v, twice)
		}
	}
	if wrong, ok := err.(*v1.UnmarshalTypeError); ok {
		return &Mismatch{Offset: startOf(data, int(wrong.Offset)), Type: wrong.Type}
	}
	return err
}

// startOf returns the offset of the value that json/v2 reports with offset at: the byte after a scalar or after an
// opening bracket, and for an interface with methods the value's first byte. It returns -1 if there is no such value.
func startOf(data []byte, at int) int {
	d := reader(data)
	for {
		end := int(d.InputOffset()) // of the token before
		start := startAfter(data, end)
		if _, err := d.ReadToken(); err != nil || end > at {
			return -1
		}
		if start == at || int(d.InputOffset()) == at {
			return start
		}
	}
}

// startAfter returns the offset of the token after the one that ends at end.
func startAfter(data []byte, end int) int {
	return len(data) - len(bytes.TrimLeft(data[end:], " \t\r\n,:"))
}

// reader reads the tokens of valid JSON.
func reader(data []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true))
}

// decodeAny decodes into an interface, unless it holds a pointer: then into what that points to, as encoding/json does.
func decodeAny(tree func([]byte) (any, bool)) func(*jsontext.Decoder, *any) error {
	return func(d *jsontext.Decoder, v *any) error {
		if held := reflect.ValueOf(*v); held.Kind() == reflect.Pointer && !held.IsNil() {
			return errors.ErrUnsupported // has json/v2 decode it
		}
		raw, err := d.ReadValue()
		if err != nil {
			return err
		}
		decoded, ok := tree(raw)
		if !ok {
			return mismatch(d, raw, reflect.TypeFor[any]())
		}
		*v = decoded
		return nil
	}
}

// encodeNumber writes the digits of a number as they are. The module has a type Number of its own, and does not know
// that of the standard library. As the name of a member it may be any text, as in encoding/json.
func encodeNumber(e *jsontext.Encoder, n std.Number) error {
	if isName(e.StackIndex(e.StackDepth())) {
		return e.WriteToken(jsontext.String(string(n)))
	}
	if n == "" {
		n = "0"
	}
	if !isNumber(jsontext.Value(n)) {
		return errors.New("a json.Number is no number")
	}
	if quoted, _ := json.GetOption(e.Options(), json.StringifyNumbers); quoted {
		return e.WriteToken(jsontext.String(string(n)))
	}
	return e.WriteValue(jsontext.Value(n))
}

// decodeNumber reads a number, or a string that holds one, with the digits that it has; a name may be any text.
func decodeNumber(d *jsontext.Decoder, n *std.Number) error {
	name := isName(d.StackIndex(d.StackDepth()))
	quoted, _ := json.GetOption(d.Options(), json.StringifyNumbers)
	raw, err := d.ReadValue()
	if err != nil {
		return err
	}
	kind, digits := raw.Kind(), raw
	switch {
	case kind == 'n':
		return nil
	case kind == '"':
		text, err := jsontext.AppendUnquote(nil, raw)
		if err != nil {
			return err
		}
		digits = text
	case quoted:
		return mismatch(d, raw, reflect.TypeFor[string]())
	}
	if name || isNumber(digits) {
		*n = std.Number(digits)
		return nil
	}
	return mismatch(d, raw, reflect.TypeFor[std.Number]())
}

func isNumber(digits jsontext.Value) bool { return digits.Kind() == '0' && digits.IsValid() }

// isName reports whether the next string is the name of a member, by what the stack of an encoder or decoder says.
func isName(in jsontext.Kind, n int64) bool { return in == '{' && n%2 == 0 }

// mismatch reports that raw, which d read last, does not fit t, with an offset for startOf.
func mismatch(d *jsontext.Decoder, raw jsontext.Value, t reflect.Type) error {
	at := d.InputOffset()
	if raw.Kind() == '{' || raw.Kind() == '[' {
		at -= int64(len(raw)) - 1
	}
	return &json.SemanticError{ByteOffset: at, JSONKind: raw.Kind(), GoType: t}
}

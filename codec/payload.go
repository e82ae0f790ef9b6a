package codec

import (
	"errors"
	"reflect"
	"unsafe"

	"github.com/bytedance/sonic"
	"github.com/bytedance/sonic/encoder"
)

var decoding = sonic.Config{
	CopyString:       true,
	CaseSensitive:    true,
	UseNumber:        true,
	UseUnicodeErrors: true,
}.Froze()

const encoding = encoder.SortMapKeys | encoder.CompactMarshaler | encoder.NoNullSliceOrMap | encoder.ValidateString | encoder.NoEncoderNewline

// ErrSyntax is what Unmarshal returns for data that is not one valid JSON value. Nothing was decoded.
var ErrSyntax = errors.New("codec: invalid JSON")

// Marshal encodes v.
func Marshal(v any) ([]byte, error) {
	return encoder.Encode(v, encoding)
}

// AppendMarshal appends the encoding of v to dst. After an error it returns dst as it was.
func AppendMarshal(dst []byte, v any) ([]byte, error) {
	out := dst
	if err := encoder.EncodeInto(&out, v, encoding); err != nil {
		return dst, err
	}
	return out, nil
}

// Unmarshal decodes data into v.
func Unmarshal(data []byte, v any) error {
	if !Valid(data) {
		return ErrSyntax
	}
	return UnmarshalValid(data, v)
}

// UnmarshalValid decodes data, a span that Scan accepted, into v.
func UnmarshalValid(data []byte, v any) error {
	return decoding.UnmarshalFromString(unsafe.String(unsafe.SliceData(data), len(data)), v)
}

// Pretouch compiles the encoder and decoder of t ahead of their first use.
func Pretouch(t reflect.Type) error {
	return sonic.Pretouch(t)
}

// Native reports whether sonic's native path is active.
func Native() bool {
	return sonic.APIKind == sonic.UseSonicJSON
}

//go:build !((amd64 || arm64) && !go1.28) || troupe_nosonic

package codec

import (
	"errors"
	"reflect"

	"github.com/troupe-run/troupe/internal/jsonv2"
)

// Native says whether payloads take sonic's native path. Here they go through json/v2.
const Native = false

// payloads is made in init because decodeTree, which it needs, decodes long strings through it.
var payloads *jsonv2.Codec

func init() { payloads = jsonv2.New(decodeTree) }

// encodeInto appends the JSON of v to *h. After an error what is appended is undefined.
func encodeInto(h *[]byte, v any) (err error) {
	*h, err = payloads.Append(*h, v)
	return err
}

// decodeValue decodes valid JSON into v. It returns a *DecodeError, ErrDuplicate, or the error of a method of v.
func decodeValue(data []byte, v any) error {
	err := payloads.Decode(data, v)
	if wrong, ok := err.(*jsonv2.Mismatch); ok {
		return &DecodeError{Offset: wrong.Offset, Value: kindAt(data, wrong.Offset), Type: wrong.Type}
	}
	if errors.Is(err, jsonv2.ErrDuplicate) {
		return ErrDuplicate
	}
	return err
}

// compile does nothing: json/v2 makes no code.
func compile(reflect.Type) error { return nil }

//go:build (amd64 || arm64) && !go1.28 && !troupe_nosonic

package codec

import (
	"errors"
	"reflect"
	"sync"
	"unsafe"

	"github.com/bytedance/sonic"
	"github.com/bytedance/sonic/decoder"
	"github.com/bytedance/sonic/encoder"
	"github.com/bytedance/sonic/option"
)

// Native says whether payloads take sonic's native path. It is false where sonic has none, on other processors and
// later Go releases than the build constraint of this file names, and with the build tag troupe_nosonic. There they go
// through json/v2.
const Native = true

// This does not compile where the build constraint above lets in what sonic has no native path for. Its other path is
// encoding/json, for which two names are one if they differ only in case.
var _ [sonic.UseSonicJSON]struct{} = [sonic.APIKind]struct{}{}

const decoding = decoder.OptionCopyString | decoder.OptionCaseSensitive | decoder.OptionUseNumber | decoder.OptionUseUnicodeErrors

// decoders carry the state of one decoding.
var decoders = sync.Pool{New: func() any {
	d := decoder.NewDecoder("")
	d.SetOptions(decoding)
	return d
}}

// encoding omits two of sonic's options, because finish does their work at less cost. CompactMarshaler runs every
// json.RawMessage through encoding/json. ValidateString checks the whole buffer, not only the appended part. sonic
// still checks that a MarshalJSON returns one value.
const encoding = encoder.SortMapKeys | encoder.NoNullSliceOrMap | encoder.NoEncoderNewline

// encodeInto appends the JSON of v to *h. After an error what is appended is undefined. The compiler puts it where it is
// called.
func encodeInto(h *[]byte, v any) error { return encoder.EncodeInto(h, v, encoding) }

// decodeValue decodes valid JSON into v. It returns a *DecodeError or the error of a method of v.
func decodeValue(data []byte, v any) error {
	text := unsafe.String(unsafe.SliceData(data), len(data))
	// sonic copies the strings it decodes but not the digits of every number.
	if p := planOf(reflect.TypeOf(v)); p&holdsNumber != 0 || p&holdsAny != 0 && hasNumber(data) {
		text = string(data)
	}
	d := decoders.Get().(*decoder.Decoder)
	d.Reset(text)
	err := d.Decode(v)
	d.Reset("")
	decoders.Put(d)
	if err == nil {
		return nil
	}
	// sonic's own errors quote and refer to the data.
	var wrong *decoder.MismatchTypeError
	var syntax decoder.SyntaxError
	switch {
	case errors.As(err, &wrong):
		return &DecodeError{Offset: wrong.Pos, Value: kindAt(data, wrong.Pos), Type: wrong.Type}
	case errors.As(err, &syntax):
		// The data is valid, and sonic has met something else than it wanted, such as an object in the place of a bool.
		return &DecodeError{Offset: -1}
	}
	return err
}

// hasNumber reports whether data, which is valid JSON, holds a number.
func hasNumber(data []byte) bool {
	for i := 0; i < len(data); {
		switch classes[data[i]] {
		case classString:
			i = skipString(data, i)
		case classNumber:
			return true
		default:
			i++
		}
	}
	return false
}

// compile makes the machine code that encodes values of type t and pointers to them, and that decodes into such pointers.
func compile(t reflect.Type) error {
	deep := option.WithCompileRecursiveDepth(8)
	err := errors.Join(encoder.Pretouch(t, deep), decoder.Pretouch(t, deep))
	if t.Kind() != reflect.Pointer {
		err = errors.Join(err, encoder.Pretouch(reflect.PointerTo(t), deep))
	}
	return err
}

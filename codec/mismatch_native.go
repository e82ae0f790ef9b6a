//go:build (amd64 || arm64) && !go1.28

package codec

import (
	"errors"
	"reflect"

	"github.com/bytedance/sonic/decoder"
)

// mismatch reads the place and the type out of sonic's own error for a value that does not fit.
func mismatch(err error) (offset int, t reflect.Type, ok bool) {
	var wrong *decoder.MismatchTypeError
	if errors.As(err, &wrong) {
		return wrong.Pos, wrong.Type, true
	}
	return 0, nil, false
}

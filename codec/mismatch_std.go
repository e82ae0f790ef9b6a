//go:build !((amd64 || arm64) && !go1.28)

package codec

import "reflect"

// mismatch finds nothing: without its native path sonic returns the errors of encoding/json.
func mismatch(error) (offset int, t reflect.Type, ok bool) { return 0, nil, false }

package mrtr

import (
	"bytes"
	"errors"
	"slices"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
)

// The faults of inputResponses.
var (
	ErrResponses     = errors.New("mrtr: inputResponses is not an object")
	ErrManyResponses = errors.New("mrtr: inputResponses has too many members")
)

// ParseResponses returns the answers that a request brings to the questions with the keys in asked,
// or all that it brings if asked is nil. They are copies. Of a member that occurs twice the last
// one counts. It returns nil if the request brings none, and one of the errors above.
func ParseResponses(m *codec.Message, asked []string) (given map[string][]byte, err error) {
	if m.Responses == nil {
		return nil, nil
	}
	if m.Responses[0] != '{' {
		return nil, ErrResponses
	}
	members := 0
	for range codec.Members(m.Responses) {
		if members++; members > limits.Responses.Value() {
			return nil, ErrManyResponses
		}
	}
	given = make(map[string][]byte, min(members, max(len(asked), 1)))
	for key, value := range codec.Members(m.Responses) {
		if name, ok := codec.Str(append(append([]byte{'"'}, key...), '"')); ok && (asked == nil || slices.Contains(asked, name)) {
			given[name] = bytes.Clone(value)
		}
	}
	return given, nil
}

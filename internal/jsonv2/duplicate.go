package jsonv2

import (
	std "encoding/json"
	"errors"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ErrDuplicate is returned by Decode for a member that comes twice in an object that it decodes into a struct or a map.
// The value may be partly filled.
var ErrDuplicate = errors.New("a member comes twice")

// decodeDuplicates is Decode for data with objects that have a member twice, which start at the offsets in twice. Such an
// object is refused only where it is decoded member by member. What is kept as it is, such as a json.RawMessage, and what
// is skipped may have it: json/v2 alone would refuse that, too, and so what Append has written.
func (c *Codec) decodeDuplicates(data []byte, v any, twice map[int]bool) error {
	refuse := func(d *jsontext.Decoder, v any) error {
		if twice[startAfter(data, int(d.InputOffset()))] && readsMembers(reflect.TypeOf(v)) {
			return ErrDuplicate
		}
		return errors.ErrUnsupported // has json/v2 decode it
	}
	return json.Unmarshal(data, v, c.decoding, jsontext.AllowDuplicateNames(true),
		json.WithUnmarshalers(json.JoinUnmarshalers(c.unmarshalers, json.UnmarshalFromFunc(refuse))))
}

// duplicates returns where in data those objects start that have a member twice.
func duplicates(data []byte) map[int]bool {
	type container struct {
		start int
		names map[string]bool
	}
	var found map[int]bool
	var open []container
	d := reader(data)
	for {
		start := startAfter(data, int(d.InputOffset()))
		name := isName(d.StackIndex(d.StackDepth()))
		token, err := d.ReadToken()
		if err != nil {
			return found
		}
		switch kind := token.Kind(); kind {
		case '{', '[':
			open = append(open, container{start: start})
		case '}', ']':
			open = open[:len(open)-1]
		case '"':
			if !name {
				continue
			}
			in := &open[len(open)-1]
			if text := token.String(); in.names[text] {
				if found == nil {
					found = make(map[int]bool)
				}
				found[in.start] = true
			} else {
				if in.names == nil {
					in.names = make(map[string]bool)
				}
				in.names[text] = true
			}
		}
	}
}

var (
	unmarshaler     = reflect.TypeFor[std.Unmarshaler]()
	unmarshalerFrom = reflect.TypeFor[json.UnmarshalerFrom]()
)

// readsMembers reports whether json/v2 reads the members of an object one by one into what t, a pointer, points to.
func readsMembers(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer {
		if t.Implements(unmarshaler) || t.Implements(unmarshalerFrom) {
			return false
		}
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct || t.Kind() == reflect.Map
}

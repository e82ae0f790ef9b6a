package hosting

import (
	"bytes"

	"github.com/troupe-run/troupe/codec"
)

// isKey reports whether a key, as [codec.Members] yields it, is one of names.
func isKey(key []byte, names ...string) bool {
	var quoted []byte
	if bytes.IndexByte(key, '\\') >= 0 {
		quoted = append(append([]byte{'"'}, key...), '"')
	}
	for _, name := range names {
		if quoted == nil && string(key) == name || quoted != nil && codec.SameString(quoted, name) {
			return true
		}
	}
	return false
}

// WithMember returns an object, which may be nil, with a member of a name; nil leaves the member out. All other members keep
// their bytes and their order.
func WithMember(object []byte, name string, value []byte) []byte {
	out, placed := beginObject(object, len(name)+len(value)), false
	for key, old := range codec.Members(object) {
		switch {
		case !isKey(key, name):
			out = appendMember(out, key, old)
		case value != nil && !placed:
			out, placed = appendMember(out, key, value), true
		}
	}
	if value != nil && !placed {
		out = appendMember(out, []byte(name), value)
	}
	return append(out, '}')
}

// Without returns an object without the members of some names: object itself if it has none of them.
func Without(object []byte, names ...string) []byte {
	found := false
	for key := range codec.Members(object) {
		found = found || isKey(key, names...)
	}
	if !found {
		return object
	}
	out := beginObject(object, 0)
	for key, value := range codec.Members(object) {
		if !isKey(key, names...) {
			out = appendMember(out, key, value)
		}
	}
	return append(out, '}')
}

// beginObject returns the beginning of an object that will be like another one, and so much longer.
func beginObject(like []byte, more int) []byte { return append(make([]byte, 0, len(like)+more+8), '{') }

func appendMember(object, key, value []byte) []byte {
	if len(object) > 1 {
		object = append(object, ',')
	}
	object = append(append(append(object, '"'), key...), '"', ':')
	return append(object, value...)
}

// quoted is a text as JSON.
func quoted(text string) []byte { return codec.AppendString(nil, text) }

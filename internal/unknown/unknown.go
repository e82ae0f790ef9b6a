// Package unknown keeps what a stored record has that this release does not know. A record is read by one release and written again by another,
// before or after it: in a rolling deploy, or when one is taken back. A release that dropped what it does not know would undo what a
// newer one has said, without a word.
//
// Only members of the record itself are kept, not those of objects within it: so releases add members there, or count up the
// record's version.
//
// All functions may be called from any goroutine.
package unknown

import (
	"bytes"
	"reflect"
	"strings"
	"sync"

	"github.com/troupe-run/troupe/codec"
)

// Members are members of a JSON object as they stand there, with commas between them; "" is none.
type Members string

// Of returns the members of an object that are no fields of T, a struct. The object must be valid JSON.
func Of[T any](object []byte) Members {
	known := fields(reflect.TypeFor[T]())
	var rest []byte
	for name, value := range codec.Members(object) {
		if known[string(name)] {
			continue
		}
		if len(rest) > 0 {
			rest = append(rest, ',')
		}
		rest = append(append(append(append(rest, '"'), name...), `":`...), value...)
	}
	return Members(rest)
}

// Append appends the members to an object that lacks them, and returns it. The object must end with its brace.
func (m Members) Append(object []byte) []byte {
	if m == "" {
		return object
	}
	object = object[:len(object)-1]
	if !bytes.HasSuffix(object, []byte("{")) {
		object = append(object, ',')
	}
	return append(append(object, m...), '}')
}

// known has the names of the members of each type that was asked for.
var known sync.Map // reflect.Type to map[string]bool

// fields returns the names of the members that a type has in JSON.
func fields(t reflect.Type) map[string]bool {
	if names, ok := known.Load(t); ok {
		return names.(map[string]bool)
	}
	names := make(map[string]bool)
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case !f.IsExported() || name == "-":
		case name == "":
			names[f.Name] = true
		default:
			names[name] = true
		}
	}
	known.Store(t, names)
	return names
}

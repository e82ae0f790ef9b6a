package session

import (
	"encoding/json"
	"errors"
	"maps"
)

// ErrFull reports that the session keeps as many values, or as many bytes, as it may. The
// new value was not stored.
var ErrFull = errors.New("session: too many values, or too large ones")

// Room bounds the values of a session: their number, and the bytes of keys and values
// together as JSON.
type Room struct{ Values, Bytes int }

// SetValue keeps a value, which is JSON, under a key; nil removes it. It reports whether
// that changed anything. Copies of the record keep the old values.
func (r *Record) SetValue(key string, value json.RawMessage, room Room) (changed bool, err error) {
	old, there := r.Values[key]
	if !there && value == nil || there && string(old) == string(value) {
		return false, nil
	}
	next := maps.Clone(r.Values)
	if value == nil {
		delete(next, key)
		r.Values = next
		return true, nil
	}
	if next == nil {
		next = make(map[string]json.RawMessage)
	}
	next[key] = value
	bytes := 0
	for k, v := range next {
		quoted, _ := json.Marshal(k) // a string
		bytes += len(quoted) + len(v) + len(`:,`)
	}
	if len(next) > room.Values || bytes > room.Bytes {
		return false, ErrFull
	}
	r.Values = next
	return true, nil
}

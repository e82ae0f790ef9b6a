package mrtr

import (
	"encoding/json"
	"slices"
	"strconv"
)

// Input is what a call has asked for so far, and the answers that it got. The zero value
// has asked for nothing. It is not safe for concurrent use: the caller guards it with a
// Mutex.
type Input struct {
	Round int               // how often the call has asked
	Given map[string][]byte // by key, raw
	taken []string          // the keys of Given that have answered a question
	used  []usedKey
}

// usedKey is how often a key was asked for.
type usedKey struct {
	key string
	n   int
}

// UniqueKey makes the key of a question unique within the call: the second question with the same
// key gets "key-2", unless that is in use too. Every run of the call gets the same keys.
func (in *Input) UniqueKey(key string) string {
	unique := key
	if i := in.usedIndex(key); i >= 0 {
		for in.usedIndex(unique) >= 0 {
			in.used[i].n++
			unique = key + "-" + strconv.Itoa(in.used[i].n)
		}
	}
	in.used = append(in.used, usedKey{unique, 1})
	return unique
}

// AskedKeys returns the keys of the questions so far. An Input that is given them, in this order, makes the same keys from then on.
func (in *Input) AskedKeys() (keys []string) {
	for _, u := range in.used {
		keys = append(keys, u.key)
	}
	return keys
}

// usedIndex returns the place of a key in used, -1 for none.
func (in *Input) usedIndex(key string) int {
	return slices.IndexFunc(in.used, func(u usedKey) bool { return u.key == key })
}

// HasAnswer reports whether the question with a unique key has its answer. It drops an invalid
// answer, so that the question is asked again; a nil valid accepts everything.
func (in *Input) HasAnswer(key string, valid func(raw []byte) bool) bool {
	raw, ok := in.Given[key]
	if ok && (valid == nil || valid(raw)) {
		if !slices.Contains(in.taken, key) {
			in.taken = append(in.taken, key)
		}
		return true
	}
	delete(in.Given, key)
	return false
}

// TakeAnswer keeps what a request brought under a key.
func (in *Input) TakeAnswer(key string, raw []byte) {
	if in.Given == nil {
		in.Given = make(map[string][]byte)
	}
	in.Given[key] = raw
}

// UsedAnswers returns the answers that answered a question so far, for the next State, and
// their size in bytes. Other values are not worth carrying.
func (in *Input) UsedAnswers() (given map[string]json.RawMessage, size int) {
	if len(in.taken) > 0 {
		given = make(map[string]json.RawMessage, len(in.taken))
		for _, k := range in.taken {
			v := in.Given[k]
			given[k] = v
			size += len(k) + len(v)
		}
	}
	return given, size
}

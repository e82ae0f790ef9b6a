package codec

import (
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"unsafe"
)

const (
	// sharedKeys is how many keys a tree remembers, a power of two, and sharedKey how long they are at most. The objects of
	// an array have the same keys, and so do the calls of a tool.
	sharedKeys = 64
	sharedKey  = 32
	// digitBytes is the size of the pieces of memory that the digits of numbers share.
	digitBytes = 256
	// keptStack is how many values the stack of a pooled tree has room for at most.
	keptStack = 16 << 10
	// maxScratch is the length of the longest string with escapes that the tree decodes itself.
	maxScratch = 1 << 10
)

// tree decodes valid JSON into values of type any: strings, bools, json.Number, []any and map[string]any. Of what it
// returns nothing refers to the data, and a number that is kept keeps at most digitBytes of others.
type tree struct {
	data    []byte
	i       int
	keys    [sharedKeys]string
	digits  []byte // what was used of a piece; its capacity is free
	stack   []any  // elements of arrays that are open
	scratch []byte // a string with escapes
	unique  bool   // refuse a member that comes twice in its object
	twice   string // the first one that did
}

var trees = sync.Pool{New: func() any { return new(tree) }}

// decodeTree decodes data, which should be valid JSON. ok is false if it found that it is not.
func decodeTree(data []byte) (v any, ok bool) {
	t := trees.Get().(*tree)
	t.unique = false
	return t.decode(data)
}

func (t *tree) decode(data []byte) (v any, ok bool) {
	t.data, t.i = data, 0
	v, ok = t.decodeValue(0)
	t.data = nil
	if ok && cap(t.stack) <= keptStack {
		trees.Put(t)
	}
	return v, ok
}

// UniqueTree decodes data, which Scan or Valid accepted, into what [Unmarshal] makes of it for an any. It refuses a member
// that comes twice in its object with a *RepeatedError: whoever reads such an object next, a struct's decoder among
// them, may make another value of it.
func UniqueTree(data []byte) (any, error) {
	t := trees.Get().(*tree)
	t.unique = true
	v, ok := t.decode(data)
	switch {
	case ok:
		return v, nil
	case t.twice != "":
		return nil, &RepeatedError{t.twice[1:]}
	}
	return nil, ErrSyntax
}

// RepeatedError reports an object in which a member comes twice.
type RepeatedError struct {
	Member string // its name, without escapes
}

// Error names the member, in at most 128 bytes of it.
func (e *RepeatedError) Error() string {
	name := e.Member
	if len(name) > 128 {
		name = strings.ToValidUTF8(name[:128], "") + "…"
	}
	return "the member " + strconv.Quote(name) + " comes twice"
}

// nextByte returns the next byte that is not white space, 0 at the end.
func (t *tree) nextByte() byte {
	if t.i = skipSpace(t.data, t.i); t.i < len(t.data) {
		return t.data[t.i]
	}
	return 0
}

// decodeValue decodes the next value, which lies inside depth containers.
func (t *tree) decodeValue(depth int) (any, bool) {
	switch c := t.nextByte(); {
	case c == '"':
		return t.str()
	case c == '{' && depth < maxDepth:
		return t.decodeObject(depth + 1)
	case c == '[' && depth < maxDepth:
		return t.decodeArray(depth + 1)
	case c == 't':
		t.i += len("true")
		return true, t.i <= len(t.data)
	case c == 'f':
		t.i += len("false")
		return false, t.i <= len(t.data)
	case c == 'n':
		t.i += len("null")
		return nil, t.i <= len(t.data)
	case classes[c] == classNumber:
		return t.readNumber(), true
	}
	return nil, false
}

func (t *tree) decodeObject(depth int) (any, bool) {
	m := make(map[string]any)
	members := 0
	t.i++
	if t.nextByte() == '}' {
		t.i++
		return m, true
	}
	for t.nextByte() == '"' {
		key, ok := t.internKey()
		if !ok || t.nextByte() != ':' {
			return nil, false
		}
		t.i++
		v, ok := t.decodeValue(depth)
		if !ok {
			return nil, false
		}
		m[key] = v
		if members++; t.unique && len(m) < members {
			t.twice = " " + key // the name may be empty
			return nil, false
		}
		switch t.nextByte() {
		case ',':
			t.i++
		case '}':
			t.i++
			return m, true
		default:
			return nil, false
		}
	}
	return nil, false
}

// decodeArray gathers its elements on the stack, so that they are copied once.
func (t *tree) decodeArray(depth int) (any, bool) {
	t.i++
	if t.nextByte() == ']' {
		t.i++
		return []any{}, true
	}
	first := len(t.stack)
	for {
		v, ok := t.decodeValue(depth)
		if !ok {
			return nil, false
		}
		t.stack = append(t.stack, v)
		switch t.nextByte() {
		case ',':
			t.i++
		case ']':
			t.i++
			a := make([]any, len(t.stack)-first)
			copy(a, t.stack[first:])
			clear(t.stack[first:])
			t.stack = t.stack[:first]
			return a, true
		default:
			return nil, false
		}
	}
}

// rawString returns the next string with its quotes.
func (t *tree) rawString() (b []byte, ok bool) {
	start := t.i
	end := skipString(t.data, start)
	if end < start+2 || end > len(t.data) || t.data[end-1] != '"' {
		return nil, false
	}
	t.i = end
	return t.data[start:end:end], true
}

// copyText returns a copy of the text of a string.
func (t *tree) copyText(raw []byte) (string, bool) {
	body := raw[1 : len(raw)-1]
	if !hasEscapes(body) {
		return string(body), true
	}
	if len(body) > maxScratch {
		return longText(raw)
	}
	t.scratch = appendUnescaped(t.scratch[:0], body)
	return string(t.scratch), true
}

// longText decodes a string by the path of payloads, which is faster with long ones. It is a function of its own because s is on the heap.
func longText(raw []byte) (s string, ok bool) {
	err := UnmarshalValid(raw, &s)
	return s, err == nil
}

func (t *tree) str() (any, bool) {
	raw, ok := t.rawString()
	if !ok {
		return nil, false
	}
	s, ok := t.copyText(raw)
	return s, ok
}

// internKey returns the key of a member. Keys that are the same share their memory, mostly.
func (t *tree) internKey() (string, bool) {
	raw, ok := t.rawString()
	if !ok {
		return "", false
	}
	body := raw[1 : len(raw)-1]
	n := len(body)
	if n == 0 || n > sharedKey {
		return t.copyText(raw)
	}
	known := &t.keys[(uint(body[0])*7+uint(body[n/2])*5+uint(body[n-1])*3+uint(n))%sharedKeys]
	if *known != string(body) {
		if hasEscapes(body) {
			return t.copyText(raw)
		}
		*known = string(body)
	}
	return *known, true
}

// readNumber returns the digits of a number.
func (t *tree) readNumber() json.Number {
	start := t.i
	for t.i < len(t.data) && (classes[t.data[t.i]] == classNumber || t.data[t.i] == '.' || t.data[t.i]|0x20 == 'e' || t.data[t.i] == '+') {
		t.i++
	}
	digits := t.data[start:t.i]
	if len(digits) > digitBytes/8 {
		return json.Number(digits)
	}
	if len(digits) > cap(t.digits)-len(t.digits) {
		t.digits = make([]byte, 0, digitBytes)
	}
	at := len(t.digits)
	t.digits = append(t.digits, digits...)
	return json.Number(unsafe.String(&t.digits[at], len(digits))) // nobody writes these bytes again
}

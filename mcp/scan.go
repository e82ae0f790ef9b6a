package mcp

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// members walks the members of a JSON object in place. On bytes that are not a
// valid object it ends early with ok false; it never reads out of bounds.
type members struct {
	data   []byte
	pos    int
	rawKey []byte // with quotes and escapes
	value  []byte // without surrounding white space, never empty
	ok     bool   // after next returned false: the object ended where it should
	first  bool
}

func newMembers(data []byte) members {
	m := members{data: data, first: true}
	m.space()
	if m.pos < len(data) && data[m.pos] == '{' {
		m.pos++
		return m
	}
	m.pos = len(data)
	return m
}

func (m *members) next() bool {
	m.space()
	if m.peek() == '}' {
		m.ok = true
		m.pos = len(m.data)
		return false
	}
	if !m.first {
		if m.peek() != ',' {
			return false
		}
		m.pos++
		m.space()
	}
	m.first = false
	if m.peek() != '"' {
		return false
	}
	start := m.pos
	m.pos = skipString(m.data, m.pos)
	m.rawKey = m.data[start:m.pos]
	m.space()
	if m.peek() != ':' {
		return false
	}
	m.pos++
	m.space()
	start = m.pos
	m.pos = skipValue(m.data, m.pos)
	m.value = m.data[start:m.pos]
	return len(m.value) > 0
}

// is reports whether the current key, unescaped, equals the name.
func (m *members) is(name string) bool {
	if key, ok := plainString(m.rawKey); ok {
		return string(key) == name
	}
	return m.key() == name
}

// key returns the current key, unescaped.
func (m *members) key() string {
	if key, ok := plainString(m.rawKey); ok {
		return string(key)
	}
	var s string
	if json.Unmarshal(m.rawKey, &s) != nil {
		return ""
	}
	return s
}

// plainString returns the text between the quotes of a string token if that needs no
// change: it has no escapes, and is valid UTF-8, which encoding/json would repair.
func plainString(token []byte) ([]byte, bool) {
	if len(token) < 2 || token[0] != '"' || token[len(token)-1] != '"' {
		return nil, false
	}
	token = token[1 : len(token)-1]
	return token, bytes.IndexByte(token, '\\') < 0 && utf8.Valid(token)
}

func (m *members) peek() byte {
	if m.pos < len(m.data) {
		return m.data[m.pos]
	}
	return 0
}

func (m *members) space() {
	m.pos = skipSpace(m.data, m.pos)
}

// member returns the raw value of a member. Of duplicates the last one counts, as in
// decoding.
func member(object []byte, key string) (value json.RawMessage, found bool) {
	it := newMembers(object)
	for it.next() {
		if it.is(key) {
			value, found = it.value, true
		}
	}
	return value, found
}

// elements splits a JSON array into its raw elements. It returns false for bytes that are
// not an array.
func elements(data []byte) ([][]byte, bool) {
	pos := skipSpace(data, 0)
	if pos == len(data) || data[pos] != '[' {
		return nil, false
	}
	var out [][]byte
	for pos++; ; pos++ {
		pos = skipSpace(data, pos)
		if pos < len(data) && data[pos] == ']' {
			return out, len(out) == 0
		}
		end := skipValue(data, pos)
		if end == pos {
			return nil, false
		}
		out = append(out, data[pos:end])
		pos = skipSpace(data, end)
		if pos == len(data) {
			return nil, false
		}
		if data[pos] == ']' {
			return out, true
		}
		if data[pos] != ',' {
			return nil, false
		}
	}
}

func skipSpace(data []byte, pos int) int {
	for pos < len(data) {
		switch data[pos] {
		case ' ', '\t', '\n', '\r':
			pos++
		default:
			return pos
		}
	}
	return pos
}

func skipString(data []byte, pos int) int {
	for pos++; pos < len(data); pos++ {
		switch data[pos] {
		case '\\':
			pos++
		case '"':
			return pos + 1
		}
	}
	return len(data)
}

// skipValue returns the end of the value that starts at pos, or pos if there is none. It
// relies on balanced brackets and checks nothing else.
func skipValue(data []byte, pos int) int {
	depth := 0
	for pos < len(data) {
		switch data[pos] {
		case '"':
			pos = skipString(data, pos)
		case '{', '[':
			depth++
			pos++
			continue
		case '}', ']':
			if depth == 0 {
				return pos
			}
			depth--
			pos++
		case ',', ':', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return pos
			}
			pos++
			continue
		default:
			for pos < len(data) && !delimiter(data[pos]) {
				pos++
			}
		}
		if depth == 0 {
			return pos
		}
	}
	return pos
}

func delimiter(c byte) bool {
	switch c {
	case ',', ':', '}', ']', '{', '[', '"', ' ', '\t', '\n', '\r':
		return true
	}
	return false
}

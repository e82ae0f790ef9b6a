package codec

import (
	"bytes"
	"encoding/binary"
	"iter"
	"math/bits"
	"unsafe"
)

// The functions in this file walk JSON that Scan, Valid or Marshal vouches for. On anything else they may return wrong
// spans, but they neither panic nor read outside of their argument.

// skipString returns the offset after the string whose opening quote is at i. Most strings are keys and short words:
// they end before the set-up of a vector search would pay off.
func skipString(b []byte, i int) int {
	i++
	for k := i; k+8 <= len(b) && k < i+48; k += 8 { // as long as the longest key of _meta
		x := binary.LittleEndian.Uint64(b[k:])
		quote, backslash := x^'"'*ones, x^'\\'*ones
		if m := ((quote - ones) &^ quote & highs) | ((backslash - ones) &^ backslash & highs); m != 0 {
			if k += bits.TrailingZeros64(m) >> 3; b[k] == '"' {
				return k + 1
			}
			break
		}
	}
	for {
		j := bytes.IndexByte(b[i:], '"')
		if j < 0 {
			return len(b)
		}
		end := i + j
		k := end
		for k > i && b[k-1] == '\\' {
			k--
		}
		if (end-k)&1 == 0 {
			return end + 1
		}
		i = end + 1
	}
}

// skipValue returns the offset after the value at i.
func skipValue(b []byte, i int) int {
	for depth := 0; i < len(b); {
		switch c := b[i]; c {
		case '"':
			i = skipString(b, i)
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			depth--
			i++
		default:
			i++
			if depth > 0 {
				continue
			}
			if classes[c] == classSpace || c == ',' || c == ':' {
				continue
			}
			for i < len(b) && !endsLiteral(b[i]) {
				i++
			}
		}
		if depth <= 0 {
			return i
		}
	}
	return len(b)
}

// endsLiteral reports whether c ends a number or literal.
func endsLiteral(c byte) bool {
	return c <= ' ' || c == ',' || c == ']' || c == '}' || c == ':'
}

// Field returns the raw value of the member called name, without white space around it. It returns nil if object has
// none or is no object. Keys are compared exactly, after unescaping; of duplicates the last one counts, as in
// Unmarshal. object must be valid JSON, as every span that Scan returned is. Field does not allocate.
func Field(object []byte, name string) []byte {
	value, _ := FieldOnce(object, name)
	return value
}

// FieldOnce is Field that also reports whether the member comes at most once.
func FieldOnce(object []byte, name string) (value []byte, once bool) {
	once = true
	walkContainer(object, '{', func(key, v []byte) bool {
		if string(key) == name || hasEscapes(key) && sameKey(key, name) {
			value, once = v, value == nil
		}
		return true
	})
	return value, once
}

// Fields is Field for several members at once: values, which has room for as many, gets the value of each of names in its
// place, nil where there is none.
func Fields(object []byte, names []string, values [][]byte) {
	clear(values)
	walkContainer(object, '{', func(key, v []byte) bool {
		for i, name := range names {
			if string(key) == name || hasEscapes(key) && sameKey(key, name) {
				values[i] = v
			}
		}
		return true
	})
}

// Optional is Field for an optional member: it returns nil for null.
func Optional(object []byte, name string) []byte {
	// Most objects have no such member, and a search tells so in less time than a walk.
	if !bytes.Contains(object, unsafe.Slice(unsafe.StringData(name), len(name))) && bytes.IndexByte(object, '\\') < 0 {
		return nil
	}
	if value := Field(object, name); !isNull(value) {
		return value
	}
	return nil
}

// sameKey reports whether the escaped key equals name.
func sameKey(key []byte, name string) bool {
	if len(key) > 6*len(name) {
		return false
	}
	var buf [128]byte
	return string(appendUnescaped(buf[:0], key)) == name
}

// Members iterates over an object's members in their order, duplicates included. It yields the key as it was written,
// without its quotes, and the raw value. If keys may have escapes, add the quotes and use Str. object must be valid
// JSON; any other value has no members. The spans alias object, and ranging over Members does not allocate.
func Members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) { walkContainer(object, '{', yield) }
}

// Elements iterates over the raw values of an array, such as the messages of a Batch that Scan accepted. The array must
// be valid JSON; any other value has no elements. The spans alias it, and ranging does not allocate.
func Elements(batch []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		walkContainer(batch, '[', func(_, value []byte) bool { return yield(value) })
	}
}

// walkContainer calls yield for the members or elements of the container in b that opens with open.
func walkContainer(b []byte, open byte, yield func(key, value []byte) bool) {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != open {
		return
	}
	i++
	for {
		for i < len(b) && (b[i] == ',' || classes[b[i]] == classSpace) {
			i++
		}
		if i >= len(b) || b[i] == open+2 {
			return
		}
		var key []byte
		if open == '{' {
			if b[i] != '"' {
				return
			}
			start := i + 1
			if i = skipString(b, i); i <= start {
				return
			}
			key = b[start : i-1 : i-1]
			for i < len(b) && (b[i] == ':' || classes[b[i]] == classSpace) {
				i++
			}
		}
		start := i
		if i = skipValue(b, i); i == start || !yield(key, b[start:i:i]) {
			return
		}
	}
}

package codec

import (
	"bytes"
	"slices"
)

// AppendCanonical appends the JSON value raw in one form, however it was written: no white space, members in the order
// of their names, strings with the fewest escapes. Numbers stay as they were written, and duplicate members are all
// kept. raw must be valid JSON. It is read once, however deep it is. Use the result to compare and hash, not to send.
func AppendCanonical(dst, raw []byte) []byte {
	if i := skipSpace(raw, 0); i < len(raw) {
		dst, _ = new(canonical).appendValue(dst, raw, i)
	}
	return dst
}

// canonical holds the memory in which objects are put in order, one after the other.
type canonical struct{ old []byte }

// appendValue appends the value at i, and returns the offset after it.
func (c *canonical) appendValue(dst, b []byte, i int) ([]byte, int) {
	switch b[i] {
	case '{':
		return c.appendObject(dst, b, i)
	case '[':
		dst = append(dst, '[')
		first := len(dst)
		for i = skipBetween(b, i+1); i < len(b) && b[i] != ']'; i = skipBetween(b, i) {
			if len(dst) > first {
				dst = append(dst, ',')
			}
			dst, i = c.appendValue(dst, b, i)
		}
		return append(dst, ']'), i + 1
	case '"':
		end := skipString(b, i)
		return appendCanonicalString(dst, b[i:end]), end
	}
	end := skipValue(b, i)
	return append(dst, b[i:end]...), end
}

// skipBetween returns the offset after white space, commas and colons.
func skipBetween(b []byte, i int) int {
	for i < len(b) && (b[i] == ',' || b[i] == ':' || classes[b[i]] == classSpace) {
		i++
	}
	return i
}

// appendCanonicalString appends a raw string, quotes included.
func appendCanonicalString(dst, raw []byte) []byte {
	s, ok := Str(raw)
	if !ok {
		return append(dst, raw...)
	}
	return AppendString(dst, s)
}

// canonicalMember is the place of a member in the output of its object: its key, with the quotes, and the whole.
type canonicalMember struct{ key, keyEnd, end int }

func (c *canonical) appendObject(dst, b []byte, i int) ([]byte, int) {
	dst = append(dst, '{')
	first := len(dst)
	var members []canonicalMember
	sorted := true
	for i = skipBetween(b, i+1); i < len(b) && b[i] == '"'; i = skipBetween(b, i) {
		if len(members) > 0 {
			dst = append(dst, ',')
		}
		m := canonicalMember{key: len(dst) - first}
		end := skipString(b, i)
		dst = appendCanonicalString(dst, b[i:end])
		m.keyEnd = len(dst) - first
		dst = append(dst, ':')
		if i = skipBetween(b, end); i < len(b) {
			dst, i = c.appendValue(dst, b, i)
		}
		m.end = len(dst) - first
		if n := len(members); n > 0 && bytes.Compare(dst[first+members[n-1].key:first+members[n-1].keyEnd], dst[first+m.key:first+m.keyEnd]) > 0 {
			sorted = false
		}
		members = append(members, m)
	}
	if !sorted {
		c.old = append(c.old[:0], dst[first:]...) // the inner objects are in order by now, and no longer need it
		old := c.old
		slices.SortStableFunc(members, func(x, y canonicalMember) int { return bytes.Compare(old[x.key:x.keyEnd], old[y.key:y.keyEnd]) })
		dst = dst[:first]
		for k, m := range members {
			if k > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, old[m.key:m.end]...)
		}
	}
	return append(dst, '}'), i + 1
}

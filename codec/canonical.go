package codec

import (
	"bytes"
	"slices"
)

// AppendCanonical appends the JSON value raw in one form for all ways to write it: no white space, members in the order
// of their names, strings with the fewest escapes. Numbers stay as they were written; of duplicate members all are kept.
// raw must be valid JSON. The result is for comparing and hashing, not for sending.
func AppendCanonical(dst, raw []byte) []byte {
	i := space(raw, 0)
	if i >= len(raw) {
		return dst
	}
	switch raw[i] {
	case '{':
		return appendCanonicalObject(dst, raw)
	case '[':
		dst = append(dst, '[')
		first := len(dst)
		for value := range Elements(raw) {
			if len(dst) > first {
				dst = append(dst, ',')
			}
			dst = AppendCanonical(dst, value)
		}
		return append(dst, ']')
	case '"':
		return appendCanonicalString(dst, bytes.TrimSpace(raw))
	}
	return append(dst, bytes.TrimSpace(raw)...)
}

// appendCanonicalString appends a raw string, quotes included.
func appendCanonicalString(dst, raw []byte) []byte {
	s, ok := Str(raw)
	if !ok {
		return append(dst, raw...)
	}
	return AppendString(dst, s)
}

type canonicalMember struct{ key, value []byte }

func appendCanonicalObject(dst, raw []byte) []byte {
	var members []canonicalMember
	for key, value := range Members(raw) {
		quoted := append(append([]byte{'"'}, key...), '"')
		members = append(members, canonicalMember{appendCanonicalString(nil, quoted), value})
	}
	slices.SortStableFunc(members, func(a, b canonicalMember) int { return bytes.Compare(a.key, b.key) })
	dst = append(dst, '{')
	for i, m := range members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, m.key...)
		dst = append(dst, ':')
		dst = AppendCanonical(dst, m.value)
	}
	return append(dst, '}')
}

package transport

import "bytes"

// verbatim are the members of a message whose values go out byte for byte: ids, tokens, cursors, schemas and metadata.
var verbatim = map[string]bool{
	"_meta": true, "id": true, "requestId": true, "taskId": true, "progressToken": true, "cursor": true, "nextCursor": true,
	"requestState": true, "inputSchema": true, "outputSchema": true, "requestedSchema": true,
}

// isSeparator reports whether b begins with U+2028 or U+2029. JSON allows both in strings, but many readers end a line there.
func isSeparator(b []byte) bool { return len(b) >= 3 && b[0] == 0xe2 && b[1] == 0x80 && b[2]|1 == 0xa9 }

// escapeSeparators returns a message with U+2028 and U+2029 escaped in all its strings but those in verbatim members. Without
// any, that is data itself.
func escapeSeparators(data []byte) []byte {
	for i := 0; ; i++ {
		next := bytes.IndexByte(data[i:], 0xe2)
		if next < 0 {
			return data
		}
		if i += next; isSeparator(data[i:]) {
			break
		}
	}
	out := make([]byte, 0, len(data)+16)
	for i := 0; i < len(data); {
		end := i + 1
		if data[i] == '"' {
			end = stringEnd(data, i)
			if value := afterColon(data, end); value > 0 && verbatim[string(data[i+1:end-1])] {
				end = valueEnd(data, value)
				out, i = append(out, data[i:end]...), end
				continue
			}
		}
		for ; i < end; i++ {
			if isSeparator(data[i:end]) {
				out = append(out, `\u2028`...)
				i += 2
				out[len(out)-1] += data[i] & 1
				continue
			}
			out = append(out, data[i])
		}
	}
	return out
}

// stringEnd returns where the string ends that begins at i.
func stringEnd(data []byte, i int) int {
	for i++; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(data)
}

// afterColon returns where the value of a member begins whose name ends at i. It is 0 if that is no name.
func afterColon(data []byte, i int) int {
	for ; i < len(data); i++ {
		switch data[i] {
		case ' ', '\t', '\r', '\n':
		case ':':
			return i + 1
		default:
			return 0
		}
	}
	return 0
}

// valueEnd returns where the value ends that begins at i, or behind white space there.
func valueEnd(data []byte, i int) int {
	for depth, begun := 0, false; i < len(data); {
		switch data[i] {
		case ' ', '\t', '\r', '\n':
			i++
			continue
		case '"':
			i = stringEnd(data, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			if depth--; depth < 0 {
				return i
			}
			i++
		case ',':
			if depth == 0 {
				return i
			}
			i++
		default: // of a number or a word, or a colon
			i++
			if depth == 0 {
				begun = true
			}
			continue
		}
		if depth == 0 && !begun {
			return i
		}
	}
	return len(data)
}

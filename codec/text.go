package codec

import (
	"bytes"
	"unicode/utf8"
	"unsafe"
)

// hasEscapes reports whether the string body has escapes.
func hasEscapes(body []byte) bool { return bytes.IndexByte(body, '\\') >= 0 }

// SameString reports whether raw, a span that [Scan] returned, is a JSON string equal to want. It allocates only if raw
// is long and has escapes.
func SameString(raw []byte, want string) bool {
	if len(raw) < 2 || raw[0] != '"' || len(raw) > 6*len(want)+2 {
		return false
	}
	body := raw[1 : len(raw)-1]
	if !hasEscapes(body) {
		return string(body) == want
	}
	var buf [64]byte
	return string(appendUnescaped(buf[:0], body)) == want
}

// appendUnescaped appends the text of a valid JSON string's body. On an invalid body it appends something and does not
// panic.
func appendUnescaped(dst, body []byte) []byte {
	for {
		i := bytes.IndexByte(body, '\\')
		if i < 0 || i+1 >= len(body) {
			return append(dst, body...)
		}
		dst = append(dst, body[:i]...)
		c := body[i+1]
		n := 2
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r := max(hex4(body, i+2), 0)
			n = min(6, len(body)-i)
			if r >= 0xd800 && r < 0xdc00 && len(body) >= i+12 {
				if low := hex4(body, i+8); low >= 0xdc00 && low <= 0xdfff {
					r = 0x10000 + (r-0xd800)<<10 + low - 0xdc00
					n = 12
				}
			}
			dst = utf8.AppendRune(dst, r)
			body = body[i+n:]
			continue
		}
		dst = append(dst, c)
		body = body[i+n:]
	}
}

// Str decodes a raw JSON string. The result is a copy, so it outlives raw. Str returns false if raw is no valid JSON
// string, such as nil or a number, so raw need not have been scanned before.
func Str(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	l := lexer{data: raw}
	if l.checkString(0) != len(raw) {
		return "", false
	}
	body := raw[1 : len(raw)-1]
	if !hasEscapes(body) {
		return string(body), true
	}
	var buf [256]byte
	if len(body) <= len(buf) {
		return string(appendUnescaped(buf[:0], body)), true
	}
	return string(appendUnescaped(make([]byte, 0, len(body)), body)), true
}

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string with its quotes. Bytes that are not valid UTF-8 become U+FFFD. It escapes
// only what JSON requires.
func AppendString(dst []byte, s string) []byte {
	b := unsafe.Slice(unsafe.StringData(s), len(s)) // only read
	dst = append(dst, '"')
	for i := 0; i < len(b); {
		end := endOfPlain(b, i)
		dst = append(dst, b[i:end]...)
		if i = end; i >= len(b) {
			break
		}
		switch c := b[i]; {
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRune(b[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
			continue
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
	}
	return append(dst, '"')
}

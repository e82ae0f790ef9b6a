package codec

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// Reasons of syntax errors, code -32700.
const (
	reasonEmpty     = "the message is empty"
	reasonEnd       = "unexpected end of the message"
	reasonTrailing  = "unexpected bytes after the message"
	reasonValue     = "a value was expected"
	reasonKey       = "an object key was expected"
	reasonColon     = "a colon was expected after the object key"
	reasonComma     = "a comma or the end of the object or array was expected"
	reasonLiteral   = "invalid literal"
	reasonNumber    = "invalid number"
	reasonControl   = "control character in a string"
	reasonEscape    = "invalid escape in a string"
	reasonSurrogate = "unpaired surrogate escape in a string"
	reasonUTF8      = "invalid UTF-8"
	reasonDepth     = "nested too deep"
)

// lexer validates JSON values in place. Its methods take the offset of a token's first byte and return the offset
// after the token, or -1 after they recorded reason and off.
type lexer struct {
	data   []byte
	max    int
	reason string
	off    int
	spaced bool // whether container met white space
	values int  // how many values value and container have met
}

func (l *lexer) failAt(reason string, off int) int {
	l.reason = reason
	l.off = min(off, len(l.data))
	return -1
}

// class sorts the bytes that can follow a value or start one.
const (
	classOther = iota
	classSpace
	classString
	classOpen
	classNumber
	classLiteral
)

var classes = [256]uint8{
	' ': classSpace, '\t': classSpace, '\n': classSpace, '\r': classSpace,
	'"': classString, '{': classOpen, '[': classOpen, '-': classNumber,
	'0': classNumber, '1': classNumber, '2': classNumber, '3': classNumber, '4': classNumber,
	'5': classNumber, '6': classNumber, '7': classNumber, '8': classNumber, '9': classNumber,
	't': classLiteral, 'f': classLiteral, 'n': classLiteral,
}

// skipSpace returns the offset of the first byte at or after i that is not white space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && classes[b[i]] == classSpace {
		i++
	}
	return i
}

// skipGap is skipSpace for places where white space is rare. It notes that there was some.
func (l *lexer) skipGap(i int) int {
	if i < len(l.data) && l.data[i] <= ' ' {
		end := skipSpace(l.data, i)
		l.spaced = l.spaced || end > i
		return end
	}
	return i
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// specialBytes marks, in the high bit of each byte of x, the bytes that end a run of plain string characters: the quote,
// the backslash, control characters and everything beyond ASCII. Only the lowest mark is exact.
func specialBytes(x uint64) uint64 {
	quote, backslash := x^'"'*ones, x^'\\'*ones
	return ((quote - ones) | (backslash - ones) | (x - ' '*ones) | x) & highs
}

// endOfPlain returns the offset of the first byte at or after i that is special, or len(b).
func endOfPlain(b []byte, i int) int {
	for i+8 <= len(b) {
		if m := specialBytes(binary.LittleEndian.Uint64(b[i:])); m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
		i += 8
	}
	for i < len(b) {
		if c := b[i]; c == '"' || c == '\\' || c < ' ' || c >= utf8.RuneSelf {
			return i
		}
		i++
	}
	return i
}

// endOfASCII returns the offset of the first byte at or after i that is beyond ASCII, or len(b).
func endOfASCII(b []byte, i int) int {
	for i+8 <= len(b) {
		if m := binary.LittleEndian.Uint64(b[i:]) & highs; m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
		i += 8
	}
	for i < len(b) && b[i] < utf8.RuneSelf {
		i++
	}
	return i
}

// simple are the characters that make an escape with a backslash before them, without \u.
var simple = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

// checkString validates the string whose opening quote is at i. It looks at the words of the string itself, because most strings
// are shorter than two, and text has an escape every few.
func (l *lexer) checkString(i int) int {
	b := l.data
	i++
	for {
		if i+8 <= len(b) {
			m := specialBytes(binary.LittleEndian.Uint64(b[i:]))
			if m == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(m) >> 3
		} else if i = endOfPlain(b, i); i >= len(b) {
			return l.failAt(reasonEnd, i)
		}
		c := b[i]
		if c == '"' {
			return i + 1
		}
		switch {
		case c == '\\' && i+1 < len(b) && simple[b[i+1]]:
			i += 2
		case c == '\\':
			i = l.checkEscape(i)
		case c < ' ':
			i = l.failAt(reasonControl, i)
		default:
			i = l.checkBeyondASCII(i)
		}
		if i < 0 {
			return -1
		}
	}
}

// checkEscape validates the escape sequence at i, a whole surrogate pair if it is one.
func (l *lexer) checkEscape(i int) int {
	b := l.data
	if i+1 >= len(b) {
		return l.failAt(reasonEnd, i+1)
	}
	switch b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
		r := hex4(b, i+2)
		if r < 0 {
			return l.failAt(reasonEscape, i)
		}
		if r < 0xd800 || r > 0xdfff {
			return i + 6
		}
		if r < 0xdc00 && i+7 < len(b) && b[i+6] == '\\' && b[i+7] == 'u' {
			if low := hex4(b, i+8); low >= 0xdc00 && low <= 0xdfff {
				return i + 12
			}
		}
		return l.failAt(reasonSurrogate, i)
	}
	return l.failAt(reasonEscape, i)
}

// hex4 reads four hexadecimal digits at i, or returns -1.
func hex4(b []byte, i int) rune {
	if i+4 > len(b) {
		return -1
	}
	var r rune
	for _, c := range b[i : i+4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// checkBeyondASCII validates the run of characters beyond ASCII that starts at i. Three-byte characters, the bulk of CJK text,
// have a short cut for all but the leads E0 and ED, whose second byte is restricted.
func (l *lexer) checkBeyondASCII(i int) int {
	b := l.data
	for i < len(b) && b[i] >= utf8.RuneSelf {
		if i+4 <= len(b) {
			x := binary.LittleEndian.Uint32(b[i:])
			if x&0xc0c0f0 == 0x8080e0 && x&0xff != 0xe0 && x&0xff != 0xed {
				i += 3
				continue
			}
		}
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return l.failAt(reasonUTF8, i)
		}
		i += n
	}
	return i
}

// checkNumber validates the number at i.
func (l *lexer) checkNumber(i int) int {
	b := l.data
	if b[i] == '-' {
		i++
	}
	switch {
	case i >= len(b):
		return l.failAt(reasonNumber, i)
	case b[i] == '0':
		i++
		if i < len(b) && isDigit(b[i]) {
			return l.failAt(reasonNumber, i)
		}
	case isDigit(b[i]):
		i = skipDigits(b, i)
	default:
		return l.failAt(reasonNumber, i)
	}
	if i < len(b) && b[i] == '.' {
		if i++; i >= len(b) || !isDigit(b[i]) {
			return l.failAt(reasonNumber, i)
		}
		i = skipDigits(b, i)
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if i >= len(b) || !isDigit(b[i]) {
			return l.failAt(reasonNumber, i)
		}
		i = skipDigits(b, i)
	}
	return i
}

func isDigit(c byte) bool { return c-'0' <= 9 }

func skipDigits(b []byte, i int) int {
	for i < len(b) && isDigit(b[i]) {
		i++
	}
	return i
}

// checkLiteral validates true, false or null at i.
func (l *lexer) checkLiteral(i int) int {
	rest := l.data[i:]
	switch {
	case len(rest) >= 4 && (string(rest[:4]) == "true" || string(rest[:4]) == "null"):
		return i + 4
	case len(rest) >= 5 && string(rest[:5]) == "false":
		return i + 5
	}
	return l.failAt(reasonLiteral, i)
}

// checkValue validates the value at i, which lies inside depth containers.
func (l *lexer) checkValue(i, depth int) int {
	if i >= len(l.data) {
		return l.failAt(reasonEnd, i)
	}
	l.values++
	switch classes[l.data[i]] {
	case classString:
		return l.checkString(i)
	case classNumber:
		return l.checkNumber(i)
	case classLiteral:
		return l.checkLiteral(i)
	case classOpen:
		return l.checkContainer(i, depth)
	}
	return l.failAt(reasonValue, i)
}

// checkContainer validates the object or array at i without recursion: a bit for each level says whether it is an object.
func (l *lexer) checkContainer(i, depth int) int {
	var objects [maxDepth / 64]uint64
	b := l.data
	level := 0
	object := false
	values := 0

open:
	if depth+level >= l.max {
		return l.failAt(reasonDepth, i)
	}
	if word := &objects[level>>6&(maxDepth/64-1)]; object {
		*word |= 1 << (level & 63)
	} else {
		*word &^= 1 << (level & 63)
	}
	level++
	object = b[i] == '{'
	i = l.skipGap(i + 1)
	if i >= len(b) {
		return l.failAt(reasonEnd, i)
	}
	if object {
		if b[i] == '}' {
			goto end
		}
		goto key
	}
	if b[i] == ']' {
		goto end
	}
	goto value

key:
	if i >= len(b) {
		return l.failAt(reasonEnd, i)
	}
	if b[i] != '"' {
		return l.failAt(reasonKey, i)
	}
	if i = l.checkString(i); i < 0 {
		return -1
	}
	if i = l.skipGap(i); i >= len(b) {
		return l.failAt(reasonEnd, i)
	}
	if b[i] != ':' {
		return l.failAt(reasonColon, i)
	}
	i = l.skipGap(i + 1)

value:
	if i >= len(b) {
		return l.failAt(reasonEnd, i)
	}
	values++
	switch classes[b[i]] {
	case classString:
		i = l.checkString(i)
	case classNumber:
		i = l.checkNumber(i)
	case classLiteral:
		i = l.checkLiteral(i)
	case classOpen:
		goto open
	default:
		return l.failAt(reasonValue, i)
	}
	if i < 0 {
		return -1
	}

after:
	if i = l.skipGap(i); i >= len(b) {
		return l.failAt(reasonEnd, i)
	}
	switch c := b[i]; {
	case c == ',':
		i = l.skipGap(i + 1)
		if object {
			goto key
		}
		goto value
	case c == '}' && object, c == ']' && !object:
		goto end
	}
	return l.failAt(reasonComma, i)

end:
	i++
	if level--; level == 0 {
		l.values += values
		return i
	}
	object = objects[level>>6&(maxDepth/64-1)]>>(level&63)&1 != 0
	goto after
}

// Valid reports whether data is one JSON value as Scan would accept it anywhere in a message: RFC 8259, UTF-8, no
// escape that stands for half of a surrogate pair, at most 1024 containers deep. Duplicate keys are no fault.
func Valid(data []byte) bool {
	l := lexer{data: data, max: maxDepth}
	i := l.checkValue(skipSpace(data, 0), 0)
	return i >= 0 && skipSpace(data, i) == len(data)
}

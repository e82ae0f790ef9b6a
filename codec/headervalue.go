package codec

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// The marks around a header value that is written in base64.
const (
	encodedPrefix = "=?base64?"
	encodedSuffix = "?="
)

var strictBase64 = base64.StdEncoding.Strict()

// DecodeHeader returns the text of a value of Mcp-Name or Mcp-Param-* (2026-07-28, streamable HTTP, value encoding):
// the value without the blanks around it, decoded if it stands between =?base64? and ?=. It returns false for a value
// that must be refused with HeaderMismatch: between the marks it is not strict base64 of UTF-8, or it has characters
// other than visible ASCII, space and tab. It allocates nothing for a value that is not encoded.
func DecodeHeader(value string) (string, bool) {
	value = strings.Trim(value, " \t")
	if len(value) >= len(encodedPrefix)+len(encodedSuffix) && strings.HasPrefix(value, encodedPrefix) && strings.HasSuffix(value, encodedSuffix) {
		return decodeText(value[len(encodedPrefix) : len(value)-len(encodedSuffix)])
	}
	for i := 0; i < len(value); i++ {
		if c := value[i]; c != '\t' && (c < ' ' || c > '~') {
			return "", false
		}
	}
	return value, true
}

func decodeText(encoded string) (string, bool) {
	// The decoder would skip line breaks.
	if strings.ContainsAny(encoded, "\r\n") {
		return "", false
	}
	text, err := strictBase64.DecodeString(encoded)
	if err != nil || !utf8.Valid(text) {
		return "", false
	}
	return string(text), true
}

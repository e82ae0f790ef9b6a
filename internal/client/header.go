package client

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
)

// headerValue writes text as the value of Mcp-Name or Mcp-Param-* (2026-07-28, streamable HTTP, value encoding): as it is, or in base64
// between marks where a proxy might change it, or it looks like that.
func headerValue(text string) string {
	plain := text == strings.Trim(text, " \t") && !(strings.HasPrefix(text, "=?base64?") && strings.HasSuffix(text, "?="))
	for i := 0; i < len(text) && plain; i++ {
		plain = text[i] == '\t' || ' ' <= text[i] && text[i] <= '~'
	}
	if plain {
		return text
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(text)) + "?="
}

// schema is what of an input schema says which arguments are repeated in headers.
type schema struct {
	Header     string            `json:"x-mcp-header"`
	Properties map[string]schema `json:"properties"`
}

// paramHeaders returns the headers that repeat arguments of a call, as the schema says. It is nil where there are none.
func paramHeaders(inputSchema, arguments json.RawMessage) http.Header {
	var s schema
	if json.Unmarshal(inputSchema, &s) != nil {
		return nil
	}
	var all http.Header
	s.collectHeaders(arguments, func(name, value string) {
		if all == nil {
			all = make(http.Header)
		}
		all.Set("Mcp-Param-"+name, headerValue(value))
	})
	return all
}

// collectHeaders calls add for each argument below value that has a header.
func (s schema) collectHeaders(value json.RawMessage, add func(name, value string)) {
	if s.Header != "" && isToken(s.Header) {
		switch value = bytes.TrimSpace(value); {
		case len(value) == 0 || strings.IndexByte("n{[", value[0]) >= 0: // null, or nothing that a header can carry
		case value[0] == '"':
			var text string
			if json.Unmarshal(value, &text) == nil {
				add(s.Header, text)
			}
		default:
			add(s.Header, string(value))
		}
	}
	if len(s.Properties) == 0 {
		return
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(value, &members) != nil {
		return
	}
	for name, property := range s.Properties {
		if value, ok := members[name]; ok {
			property.collectHeaders(value, add)
		}
	}
}

// isToken reports whether s may be a part of a header's name. Anything else would make the whole request fail.
func isToken(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}

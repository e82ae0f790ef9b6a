package transport

import "strings"

const (
	typeJSON = "application/json"
	typeSSE  = "text/event-stream"
)

// isJSON reports whether value is a Content-Type of JSON in UTF-8. Without a charset JSON is UTF-8.
func isJSON(value string) bool {
	if value == typeJSON {
		return true
	}
	media, params, _ := cutQuoted(value, ';')
	if !strings.EqualFold(trimBlanks(media), typeJSON) {
		return false
	}
	for params != "" {
		var p string
		p, params, _ = cutQuoted(params, ';')
		name, v, _ := strings.Cut(p, "=")
		if !strings.EqualFold(trimBlanks(name), "charset") {
			continue
		}
		if v = stripQuotes(trimBlanks(v)); !strings.EqualFold(v, "utf-8") && !strings.EqualFold(v, "utf8") { // a label of UTF-8 (WHATWG Encoding, 4.2)
			return false
		}
	}
	return true
}

// acceptedMedia reports whether the values of an Accept header admit JSON and an event stream. If several ranges match a
// type, the most specific one counts (RFC 9110, 12.5.1). No header admits nothing: a client must name both.
func acceptedMedia(values []string) (json, sse bool) {
	if len(values) == 1 && values[0] == "application/json, text/event-stream" {
		return true, true
	}
	var forJSON, forSSE verdict
	for _, value := range values {
		for value != "" {
			var item string
			item, value, _ = cutQuoted(value, ',')
			media, params, _ := cutQuoted(item, ';')
			media = trimBlanks(media)
			admitted := !zeroQuality(params)
			forJSON.considerRange(media, typeJSON, "application/*", admitted)
			forSSE.considerRange(media, typeSSE, "text/*", admitted)
		}
	}
	return forJSON.admitted, forSSE.admitted
}

// verdict is what the most specific range so far says of one type.
type verdict struct {
	specificity int
	admitted    bool
}

func (v *verdict) considerRange(media, exact, family string, admitted bool) {
	specificity := 0
	switch {
	case strings.EqualFold(media, exact):
		specificity = 3
	case strings.EqualFold(media, family):
		specificity = 2
	case media == "*/*":
		specificity = 1
	default:
		return
	}
	switch {
	case specificity > v.specificity:
		v.specificity, v.admitted = specificity, admitted
	case specificity == v.specificity:
		v.admitted = v.admitted || admitted
	}
}

// zeroQuality reports whether the parameters of a media range have a q of 0, however it is written.
func zeroQuality(params string) bool {
	for params != "" {
		var p string
		p, params, _ = cutQuoted(params, ';')
		name, v, ok := strings.Cut(p, "=")
		if !ok || !strings.EqualFold(trimBlanks(name), "q") {
			continue
		}
		v = trimBlanks(v)
		whole, fraction, _ := strings.Cut(v, ".")
		return whole == "0" && strings.Trim(fraction, "0") == ""
	}
	return false
}

// cutQuoted is strings.Cut, but ignores a separator inside a quoted string.
func cutQuoted(s string, sep byte) (before, after string, found bool) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == sep && !quoted:
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

func trimBlanks(s string) string { return strings.Trim(s, " \t") }

func stripQuotes(s string) string {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		return s[1 : len(s)-1]
	}
	return s
}

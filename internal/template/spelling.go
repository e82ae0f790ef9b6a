package template

import (
	"net/url"
	"strings"
)

const (
	letters    = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	unreserved = letters + "0123456789._~-"
	reserved   = ":/?#[]@!$&'()*+,;="
)

// The kinds of bytes in a URI (RFC 3986, section 2). All others must be escaped.
const (
	isUnreserved = 1 + iota
	isReserved
)

var kinds = func() (kinds [256]byte) {
	for _, c := range []byte(unreserved) {
		kinds[c] = isUnreserved
	}
	for _, c := range []byte(reserved) {
		kinds[c] = isReserved
	}
	return kinds
}()

// NormalizeURI returns the spelling in which URIs are compared (RFC 3986, section 6.2.2, and RFC 3987, section 3.1): nothing is
// escaped that need not be, everything else is, escapes and the scheme have one case, and so has the host of http and https.
// The host of other schemes keeps its case: it is often an id, as in note://{id}.
func NormalizeURI(uri string) string { return lowerSchemeAndHost(normalizeEscapes(uri)) }

// normalizeEscapes returns text with an escape, in upper case, for each byte that needs one, and for no unreserved byte, whatever was escaped in it.
func normalizeEscapes(text string) string {
	const hex = "0123456789ABCDEF"
	i := 0
	for i < len(text) && kinds[text[i]] != 0 {
		i++
	}
	if i == len(text) {
		return text
	}
	b := append(make([]byte, 0, len(text)+16), text[:i]...)
	for ; i < len(text); i++ {
		c := text[i]
		if kinds[c] != 0 {
			b = append(b, c)
			continue
		}
		if c == '%' && i+2 < len(text) {
			high, low := strings.IndexByte(hex, upper(text[i+1])), strings.IndexByte(hex, upper(text[i+2]))
			if high >= 0 && low >= 0 {
				c = byte(high<<4 | low)
				i += 2
				if kinds[c] == isUnreserved {
					b = append(b, c)
					continue
				}
			}
		}
		b = append(b, '%', hex[c>>4], hex[c&15])
	}
	return string(b)
}

func upper(c byte) byte {
	if 'a' <= c && c <= 'f' {
		return c - 'a' + 'A'
	}
	return c
}

// lowerSchemeAndHost returns a URI, as normalizeEscapes returns it, with its scheme in lower case, and the host too where case means nothing. The user
// before a host has case.
func lowerSchemeAndHost(uri string) string {
	colon := strings.IndexByte(uri, ':')
	if colon < 0 || strings.IndexByte(letters, uri[0]) < 0 || strings.ContainsAny(uri[:colon], "/?#%") {
		return uri
	}
	scheme := strings.ToLower(uri[:colon])
	if scheme != "http" && scheme != "https" {
		return scheme + uri[colon:]
	}
	end := authorityEnd(uri)
	host := max(colon, strings.LastIndexByte(uri[:end], '@'))
	return scheme + uri[colon:host] + lowerCase(uri[host:end]) + uri[end:]
}

// lowerCase returns text with its letters in lower case, but not those of escapes.
func lowerCase(text string) string {
	b := []byte(text)
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '%':
			i += 2
		case 'A' <= c && c <= 'Z':
			b[i] = c - 'A' + 'a'
		}
	}
	return string(b)
}

// authorityEnd returns where the authority of a URI ends: after its scheme, if it has none.
func authorityEnd(uri string) int {
	colon := strings.IndexByte(uri, ':') + 1
	rest, ok := strings.CutPrefix(uri[colon:], "//")
	if !ok {
		return colon
	}
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		return len(uri) - len(rest) + end
	}
	return len(uri)
}

// SameURI reports whether two spellings are one URI: whether [NormalizeURI] spells them alike, where no path of an http or https URI
// is the path "/" (RFC 3986, section 6.2.3).
func SameURI(a, b string) bool { return addRootPath(NormalizeURI(a)) == addRootPath(NormalizeURI(b)) }

// addRootPath gives an http or https URI without a path the path "/".
func addRootPath(uri string) string {
	if !strings.HasPrefix(uri, "http://") && !strings.HasPrefix(uri, "https://") {
		return uri
	}
	if end := authorityEnd(uri); end == len(uri) || uri[end] != '/' {
		return uri[:end] + "/" + uri[end:]
	}
	return uri
}

// PlainURI returns the URI without escapes, and with its authority in lower case. URIs that some reader may take for one have
// the same PlainURI: all that [SameURI] holds to be one, and others.
func PlainURI(uri string) string {
	uri = addRootPath(NormalizeURI(uri))
	if plain, err := url.PathUnescape(uri); err == nil { // it has no error: NormalizeURI has escaped each percent sign that begins no escape
		uri = plain
	}
	end := authorityEnd(uri)
	return strings.ToLower(uri[:end]) + uri[end:]
}

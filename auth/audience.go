package auth

import (
	"slices"
	"strings"
)

// canonicalURL returns the spelling in which two URLs of one server are equal: the scheme and the host in lower case, no default port, and one slash less
// at the end (RFC 3986, 6.2.2.1 and 6.2.3). Nothing else is changed: not a dot, not an escape. What is no URL with a host stays as it is.
func canonicalURL(s string) string {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || scheme == "" {
		return s
	}
	scheme = strings.ToLower(scheme)
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	host, rest := strings.ToLower(rest[:end]), rest[end:]
	switch scheme {
	case "https":
		host = strings.TrimSuffix(host, ":443")
	case "http":
		host = strings.TrimSuffix(host, ":80")
	}
	if !strings.ContainsAny(rest, "?#") {
		rest = strings.TrimSuffix(rest, "/")
	}
	return scheme + "://" + host + rest
}

// anyMeant reports whether one of the values of an audience claim is one of those that are meant, which are canonical. They must be equal: a prefix does not do.
func anyMeant(values, meant []string) bool {
	return slices.ContainsFunc(values, func(v string) bool { return slices.Contains(meant, canonicalURL(v)) })
}

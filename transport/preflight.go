package transport

import (
	"net/http"
	"strings"
)

const (
	// allowedHeaders are what a page may send anywhere, and paramPrefix begins the names of the headers that a tool's
	// parameters are mirrored in (2026-07-28), of which nobody here knows the rest.
	allowedHeaders = "Content-Type, Accept, Authorization, Mcp-Session-Id, MCP-Protocol-Version, Last-Event-ID, " +
		"Mcp-Method, Mcp-Name, traceparent, tracestate"
	paramPrefix = "mcp-param-"
)

// answerPreflight answers the request by which a browser asks what a page may send. Access-Control-Allow-Headers has no
// wildcard for a prefix, nor one for requests with credentials: the asked-for Mcp-Param-* are said again.
func answerPreflight(w http.ResponseWriter, r *http.Request, methods string) {
	header := w.Header()
	header.Set("Allow", methods)
	if header["Access-Control-Allow-Origin"] != nil {
		header.Set("Access-Control-Allow-Methods", methods)
		header.Set("Access-Control-Allow-Headers", allowedHeaders+params(r.Header["Access-Control-Request-Headers"]))
		header.Set("Access-Control-Max-Age", "600")
		delete(header, "Access-Control-Expose-Headers")
	} else {
		header.Set("Vary", "Origin")
	}
	w.WriteHeader(http.StatusNoContent)
}

// params lists the names of parameters' headers among asked, each after a comma.
func params(asked []string) string {
	var b strings.Builder
	for _, list := range asked {
		for name := range strings.SplitSeq(list, ",") {
			if name = trim(name); len(name) > len(paramPrefix) && strings.EqualFold(name[:len(paramPrefix)], paramPrefix) && isToken(name) {
				b.WriteString(", ")
				b.WriteString(name)
			}
		}
	}
	return b.String()
}

// isToken reports whether s can be the name of a header (RFC 9110, 5.6.2).
func isToken(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

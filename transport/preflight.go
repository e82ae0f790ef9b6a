package transport

import (
	"net/http"
	"strings"
)

const (
	// allowedHeaders are the headers that a page may always send. paramPrefix begins the names of the headers that
	// mirror a tool's parameters (2026-07-28); only the tools know the rest of those names. Pages may send those of 2026-07-28 to a
	// server that does not speak it, too: a page whose request the browser stops does not learn that it should fall back.
	allowedHeaders = "Content-Type, Accept, Authorization, Mcp-Session-Id, MCP-Protocol-Version, Last-Event-ID, " +
		"Mcp-Method, Mcp-Name, traceparent, tracestate"
	paramPrefix = "mcp-param-"
)

// answerPreflight answers the request by which a browser asks what a page may send. Access-Control-Allow-Headers has no
// wildcard for a prefix, nor one for requests with credentials, so it repeats the Mcp-Param-* that were asked for.
func (h *Handler) answerPreflight(x *Exchange, w http.ResponseWriter, r *http.Request, methods string) {
	header := w.Header()
	header.Set("Allow", methods)
	if header["Access-Control-Allow-Origin"] != nil {
		header.Set("Access-Control-Allow-Methods", methods)
		header.Set("Access-Control-Allow-Headers", allowedHeaders+paramHeaders(r.Header["Access-Control-Request-Headers"]))
		header.Set("Access-Control-Max-Age", "600")
		delete(header, "Access-Control-Expose-Headers")
	} else {
		header.Set("Vary", "Origin")
	}
	h.respondUncached(w, http.StatusNoContent, nil, &x.plain)
}

// paramHeaders lists the names of parameters' headers in asked, each after a comma.
func paramHeaders(asked []string) string {
	var b strings.Builder
	for _, list := range asked {
		for name := range strings.SplitSeq(list, ",") {
			if name = trimBlanks(name); len(name) > len(paramPrefix) && strings.EqualFold(name[:len(paramPrefix)], paramPrefix) && isToken(name) {
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

package transport

import (
	"strings"
)

const (
	// allowedHeaders are the headers that a page may always send. paramPrefix begins the names of the headers that
	// mirror a tool's parameters (2026-07-28); only the tools know the rest of those names. Pages may send those of 2026-07-28 to a
	// server that does not speak it, too: a page whose request the browser stops does not learn that it should fall back.
	allowedHeaders = "Content-Type, Accept, Authorization, Mcp-Session-Id, MCP-Protocol-Version, Last-Event-ID, " +
		"Mcp-Method, Mcp-Name, traceparent, tracestate, baggage"
	paramPrefix = "mcp-param-"
)

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

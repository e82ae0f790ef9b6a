package http1

import (
	"bytes"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
)

const (
	// maxHead is the largest head of a plain request, in bytes.
	maxHead = 16 << 10
	// maxFields is how many lines it has at most.
	maxFields = 64
	// maxDigits bounds a Content-Length.
	maxDigits = 15
)

// head is what a connection knows of its last request's head. Requests that are alike share its strings and its header.
type head struct {
	method string
	target string
	url    url.URL
	host   string
	fields []field
	header http.Header // of fields; another one is made if a handler has changed it
	keys   int         // of header

	length int64 // of the body
	last   bool  // the client closes the connection after this
}

// field is a line of a header as it came, and what it says.
type field struct {
	line, key, value string
	nth, of          int // its place among the values of its key, and how many those are
}

// headLength returns the length of the head that b begins with, the empty line included, 0 if it has not come whole.
func headLength(b []byte) int {
	if i := bytes.Index(b, []byte("\r\n\r\n")); i >= 0 {
		return i + 4
	}
	return 0
}

// hasBareLF reports whether a line in b ends with LF alone.
func hasBareLF(b []byte) bool {
	last := byte(0)
	for _, c := range b {
		if c == '\n' && last != '\r' {
			return true
		}
		last = c
	}
	return false
}

// canBegin reports whether b can be the beginning of a plain head, as far as its first line, which it takes, and the ends of its lines say. What cannot be is not waited for.
func (h *head) canBegin(b []byte) bool {
	line, _, whole := bytes.Cut(b, []byte("\r\n"))
	return !hasBareLF(b) && (!whole || h.parseRequestLine(line))
}

// read takes a whole head, and reports whether it is plain. If it is not, h is of no use any more.
func (h *head) read(b []byte) bool {
	line, rest, _ := bytes.Cut(b, []byte("\r\n"))
	if !h.parseRequestLine(line) {
		return false
	}
	h.length, h.last = 0, false
	n, changed, hosts, lengths := 0, false, 0, 0
	for len(rest) > 2 {
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		if n < len(h.fields) && h.fields[n].line == string(line) {
			switch h.fields[n].key {
			case "Host":
				hosts++
			case "Connection":
				h.last = h.last || saysClose(h.fields[n].value)
			}
			n++
			continue
		}
		name, value, ok := splitField(line)
		if !ok {
			return false
		}
		if len(name) == len("Content-Length") && bytes.EqualFold(name, []byte("Content-Length")) {
			if lengths++; !h.parseLength(value) || lengths > 1 {
				return false
			}
			continue
		}
		f := field{line: string(line), key: canonicalKey(name)}
		end := len(bytes.TrimRight(line, " \t"))
		f.value = f.line[min(max(end-len(value), 0), len(line)):end]
		switch f.key {
		case "Host":
			if hosts++; !plainHost(value) {
				return false
			}
			h.host = f.value
		case "Connection":
			if h.last = h.last || saysClose(f.value); !saysClose(f.value) && !strings.EqualFold(f.value, "keep-alive") {
				return false
			}
		case "Transfer-Encoding", "Trailer", "Expect", "Upgrade", "Pragma", "Http2-Settings", "Proxy-Connection":
			return false
		}
		if changed = true; n == maxFields {
			return false
		}
		if n < len(h.fields) {
			h.fields[n] = f
		} else {
			h.fields = append(h.fields, f)
		}
		n++
	}
	if hosts != 1 {
		return false
	}
	if changed || n != len(h.fields) || !h.isHeaderIntact() {
		h.fields = h.fields[:n]
		h.buildHeader()
	}
	return true
}

// parseRequestLine takes the request line.
func (h *head) parseRequestLine(line []byte) bool {
	method, rest, ok := bytes.Cut(line, []byte(" "))
	target, version, also := bytes.Cut(rest, []byte(" "))
	if !ok || !also || string(version) != "HTTP/1.1" {
		return false
	}
	switch string(method) {
	case http.MethodPost:
		h.method = http.MethodPost
	case http.MethodGet:
		h.method = http.MethodGet
	case http.MethodDelete:
		h.method = http.MethodDelete
	default:
		return false
	}
	if h.target == string(target) && h.target != "" {
		return true
	}
	if len(target) == 0 || target[0] != '/' || len(target) > 1 && target[1] == '/' {
		return false
	}
	for _, c := range target {
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	u, err := url.ParseRequestURI(string(target))
	if err != nil {
		return false
	}
	h.target, h.url = string(target), *u
	return true
}

// buildHeader makes the header of fields.
func (h *head) buildHeader() {
	values := make([]string, len(h.fields))
	h.header = make(http.Header, len(h.fields))
	for i := range h.fields {
		f := &h.fields[i]
		if f.key == "Host" {
			continue
		}
		before, more := h.header[f.key]
		if f.nth = len(before); more {
			h.header[f.key] = append(before, f.value) // its capacity is its length
			continue
		}
		values[i] = f.value
		h.header[f.key] = values[i : i+1 : i+1]
	}
	h.keys = len(h.header)
	for i := range h.fields {
		h.fields[i].of = len(h.header[h.fields[i].key])
	}
}

// isHeaderIntact reports whether the header is that of fields: handlers may have changed it.
func (h *head) isHeaderIntact() bool {
	if h.header == nil || len(h.header) != h.keys {
		return false
	}
	for i := range h.fields {
		f := &h.fields[i]
		if f.key == "Host" {
			continue
		}
		if values := h.header[f.key]; len(values) != f.of || values[f.nth] != f.value {
			return false
		}
	}
	return true
}

// parseLength takes the value of a Content-Length.
func (h *head) parseLength(value []byte) bool {
	if len(value) == 0 || len(value) > maxDigits {
		return false
	}
	for _, c := range value {
		if c < '0' || c > '9' {
			return false
		}
		h.length = h.length*10 + int64(c-'0')
	}
	return true
}

func saysClose(value string) bool { return strings.EqualFold(value, "close") }

// splitField takes a line of a header apart. It is false if anything in it is unusual.
func splitField(line []byte) (name, value []byte, ok bool) {
	i := bytes.IndexByte(line, ':')
	if i <= 0 {
		return nil, nil, false
	}
	name, value = line[:i], line[i+1:]
	for _, c := range name {
		if !isToken[c] {
			return nil, nil, false
		}
	}
	for _, c := range value {
		if c < ' ' && c != '\t' || c >= 0x7f {
			return nil, nil, false
		}
	}
	return name, bytes.Trim(value, " \t"), true
}

// isToken has the characters of names (RFC 9110, 5.6.2).
var isToken = func() (is [256]bool) {
	for c := range is {
		is[c] = 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c > 0 && c < 0x7f && strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0
	}
	return is
}()

// isName reports whether a key can be the name of a field.
func isName(key string) bool {
	for i := range len(key) {
		if !isToken[key[i]] {
			return false
		}
	}
	return key != ""
}

// plainHost reports whether a Host is a name or an address, with or without a port.
func plainHost(host []byte) bool {
	for _, c := range host {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._:[]", c) >= 0) {
			return false
		}
	}
	return len(host) > 0
}

// canonicalKey returns the name of a header as http.Header has it.
func canonicalKey(name []byte) string {
	if key, ok := known[string(name)]; ok {
		return key
	}
	return textproto.CanonicalMIMEHeaderKey(string(name))
}

// known are names as clients write them.
var known = func() map[string]string {
	all := make(map[string]string)
	for _, name := range []string{"Host", "Accept", "Accept-Encoding", "Accept-Language", "Authorization", "Cache-Control", "Connection", "Content-Type", "Cookie", "Origin",
		"Referer", "User-Agent", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "X-Request-Id", "Traceparent", "Tracestate", "Baggage",
		"Sec-Fetch-Mode", "Sec-Fetch-Site", "Sec-Fetch-Dest", "Mcp-Session-Id", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name", "Last-Event-Id"} {
		key := textproto.CanonicalMIMEHeaderKey(name)
		all[key], all[strings.ToLower(name)] = key, key
	}
	all["MCP-Protocol-Version"] = "Mcp-Protocol-Version"
	all["Last-Event-ID"] = "Last-Event-Id"
	return all
}()

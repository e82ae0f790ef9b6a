package greed

import (
	"net/http"
	"strconv"
	"strings"
)

// mebibyte is 1 MiB; no body may be larger than four of them.
const mebibyte = 1 << 20

// long is a text of n bytes.
func long(n int) string { return strings.Repeat("x", n) }

// empties is a JSON array of n empty objects.
func empties(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("{},", n), ",") + "]" }

// request is a JSON-RPC request; params is a JSON object.
func request(id int, method, params string) []byte {
	return []byte(`{"jsonrpc":"2.0","id":` + strconv.Itoa(id) + `,"method":"` + method + `","params":` + params + `}`)
}

// tool is a call of a tool; arguments is a JSON object.
func tool(id int, name, arguments string) []byte {
	return request(id, "tools/call", `{"name":"`+name+`","arguments":`+arguments+`}`)
}

// stateless is a request of 2026-07-28 with its headers; params are the members beside _meta, and
// meta further members of that.
func stateless(id int, method, name, params, meta string) ([]byte, http.Header) {
	if params != "" {
		params = "," + params
	}
	if meta != "" {
		meta = "," + meta
	}
	h := header("Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method)
	if name != "" {
		h["Mcp-Name"] = []string{name}
	}
	return request(id, method, `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"greedy","version":"1"},`+
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}},"sampling":{},"roots":{}}`+meta+`}`+params+`}`), h
}

// header is that of a POST, with further names and values.
func header(more ...string) http.Header {
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	for i := 0; i+1 < len(more); i += 2 {
		h[http.CanonicalHeaderKey(more[i])] = []string{more[i+1]}
	}
	return h
}

// initialize is the request that begins a session of a revision. more are further members of clientInfo.
func initialize(revision, more string) []byte {
	return request(0, "initialize", `{"protocolVersion":"`+revision+`","capabilities":{"elicitation":{}},"clientInfo":{"name":"greedy","version":"1"`+more+`}}`)
}

// revision is that of sessions, unless an attack needs an older one.
const revision = "2025-11-25"

// session begins a session and returns the header of its requests, nil if there is none.
func (p *Principal) session(revision string) http.Header {
	r := p.send(http.MethodPost, "/mcp", header(), initialize(revision, ""))
	if r == nil || r.status != http.StatusOK || r.header.Get("Mcp-Session-Id") == "" {
		return nil
	}
	return header("Mcp-Session-Id", r.header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", revision)
}

// post sends a message to a session.
func (p *Principal) post(h http.Header, body []byte) *response {
	return p.send(http.MethodPost, "/mcp", h, body)
}

// lines are headers as they are written on the wire.
func lines(h http.Header) string {
	var b strings.Builder
	for k, v := range h {
		if k != "Content-Type" && k != "Accept" {
			b.WriteString(k + ": " + v[0] + "\r\n")
		}
	}
	return b.String()
}

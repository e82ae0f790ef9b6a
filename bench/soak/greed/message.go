package greed

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/bench/client"
)

const (
	// mebibyte is 1 MiB; no body may be larger than four of them.
	mebibyte = 1 << 20
	// almostMost is nearly as much as a body may have.
	almostMost = 3_900_000
	// revision is that of sessions, unless an attack needs an older one.
	revision = "2025-11-25"
)

// textOf is a text of n bytes.
func textOf(n int) string { return strings.Repeat("x", n) }

// emptyObjects is a JSON array of n empty objects.
func emptyObjects(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("{},", n), ",") + "]" }

// requestOf is a JSON-RPC request; params is a JSON object.
func requestOf(id int, method, params string) string {
	return client.Request(strconv.Itoa(id), method, params)
}

// callOf is a call of a tool; arguments is a JSON object.
func callOf(id int, name, arguments string) string {
	return requestOf(id, "tools/call", `{"name":"`+name+`","arguments":`+arguments+`}`)
}

// capabilities are those of clients of 2026-07-28.
const capabilities = `{"elicitation":{"form":{}},"sampling":{},"roots":{}}`

// statelessOf is a request of 2026-07-28 with its headers; params are the members beside _meta.
func statelessOf(id int, method, params string) (string, http.Header) {
	return client.StatelessRequest(strconv.Itoa(id), method, params, capabilities)
}

// headerOf has names and values.
func headerOf(all ...string) http.Header {
	h := make(http.Header)
	for i := 0; i+1 < len(all); i += 2 {
		h.Set(all[i], all[i+1])
	}
	return h
}

// initialize is the request that begins a session of a revision. more are further members of
// clientInfo.
func initialize(revision, more string) string {
	return requestOf(0, "initialize", `{"protocolVersion":"`+revision+`","capabilities":{"elicitation":{}},"clientInfo":{"name":"greedy","version":"1"`+more+`}}`)
}

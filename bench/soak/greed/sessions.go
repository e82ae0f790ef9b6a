package greed

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
)

var initialize256K = sync.OnceValue(func() []byte { return initialize(revision, `,"title":"`+long(255<<10)+`"`) })

var initializeLarge = Attack{
	Name: "initialize-large", What: "initialize with 256 KiB of clientInfo",
	Apart: true, workers: 16,
	begin: free(func(p *Principal, _ int) { p.post(header(), initialize256K()) }),
}

var initializeSmall = Attack{
	Name: "initialize", What: "initialize in a loop",
	Apart: true, workers: 16,
	begin: free(func(p *Principal, _ int) { p.session(revision) }),
}

var initializeDelete = Attack{
	Name: "initialize-delete", What: "initialize and delete the session, in a loop",
	Apart: true, workers: 16,
	begin: free(func(p *Principal, _ int) {
		if h := p.session(revision); h != nil {
			p.send(http.MethodDelete, "/mcp", h, nil)
		}
	}),
}

var unknownSessions = Attack{
	Name: "unknown-sessions", What: "name sessions that do not exist, in POST, GET and DELETE",
	Limits: []string{"404 -32600"}, workers: 64,
	begin: func(p *Principal, worker int) func() {
		n := 0
		return func() {
			id := fmt.Sprintf("%026d", worker*1_000_000+n)
			id = strings.Map(func(r rune) rune { return 'a' + (r - '0') }, id)
			if n%2 == 1 {
				id += "abcdefghijklm" // as if it had a tag
			}
			h := header("Mcp-Session-Id", id, "Mcp-Protocol-Version", revision)
			method := []string{http.MethodPost, http.MethodGet, http.MethodDelete}[n%3]
			var body []byte
			if method == http.MethodPost {
				body = request(n, "tools/list", "{}")
			}
			p.send(method, "/mcp", h, body)
			n++
		}
	},
}

var hundredLists = sync.OnceValue(func() []byte {
	var all []string
	for i := range 100 {
		all = append(all, string(request(i, []string{"tools/list", "resources/list", "prompts/list"}[i%3], "{}")))
	}
	return []byte("[" + strings.Join(all, ",") + "]")
})

var batches = Attack{
	Name: "batches", What: "list a hundred times in one batch of 2025-03-26",
	Limits: refused, Rated: true, workers: 16,
	begin: stateful("2025-03-26", func(p *Principal, h map[string][]string, _ int) { p.post(h, hundredLists()) }),
}

var levels = Attack{
	Name: "levels", What: "logging/setLevel, each another level",
	Limits: refused, Rated: true, workers: 16,
	begin: stateful(revision, func(p *Principal, h map[string][]string, n int) {
		p.post(h, request(n, "logging/setLevel", `{"level":"`+[]string{"debug", "info", "error"}[n%3]+`"}`))
	}),
}

var subscriptions = Attack{
	Name: "subscriptions", What: "subscribe to resources with URIs of 4 KiB, and unsubscribe now and then",
	Limits: refused, Rated: true, workers: 16,
	begin: stateful(revision, func(p *Principal, h map[string][]string, n int) {
		method := "resources/subscribe"
		if n%100 == 99 {
			method = "resources/unsubscribe"
		}
		p.post(h, request(n, method, fmt.Sprintf(`{"uri":"test://template/%d%s/data"}`, n-n%100%99, long(4000))))
	}),
}

var cancels = sync.OnceValue(func() []byte {
	return []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x","reason":"` + long(60<<10) + `"}}`)
})

var notifications = Attack{
	Name: "notifications", What: "cancel what does not run, with a reason of 60 KiB",
	workers: 16,
	begin:   stateful(revision, func(p *Principal, h map[string][]string, _ int) { p.post(h, cancels()) }),
}

package greed

import "net/http"

var requests = Attack{
	Name: "requests", What: "ping, list, read, get, complete and call in sessions, as fast as they go",
	Limits: refused, Rated: true, workers: 16,
	begin: stateful(revision, func(p *Principal, h map[string][]string, n int) {
		one := [...]struct{ method, params string }{
			{"ping", "{}"}, {"tools/list", "{}"}, {"resources/list", "{}"}, {"resources/templates/list", "{}"}, {"prompts/list", "{}"},
			{"resources/read", `{"uri":"test://static-text"}`}, {"prompts/get", `{"name":"test_simple_prompt"}`},
			{"completion/complete", `{"ref":{"type":"ref/prompt","name":"test_prompt_with_arguments"},"argument":{"name":"arg1","value":"a"}}`},
			{"tools/call", `{"name":"echo","arguments":{"text":"x"}}`}, {"no/such/method", "{}"},
		}[n%10]
		p.post(h, request(n, one.method, one.params))
	}),
}

var scrapes = Attack{
	Name: "scrapes", What: "GET /metrics in a loop",
	workers: 16,
	begin:   free(func(p *Principal, _ int) { p.send(http.MethodGet, "/metrics", nil, nil) }),
}

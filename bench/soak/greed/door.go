package greed

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"time"
)

var largeHeaders = Attack{
	Name: "large-headers", What: "send a header of 64 KiB",
	Limits: []string{"431"}, workers: 16,
	begin: free(func(p *Principal, _ int) {
		p.unfinished(p.head("X-Padding: " + long(64<<10) + "\r\n"))
	}),
}

var slowHeaders = Attack{
	Name: "slow-headers", What: "hold 1,100 connections whose header comes a byte at a time",
	Limits: []string{"closed", "408"}, workers: 1100,
	begin: free(func(p *Principal, _ int) {
		conn := p.raw([]byte("POST /mcp HTTP/1.1\r\nX-Slow: "))
		if conn == nil {
			p.pause(time.Second)
			return
		}
		p.note("open")
		defer func() { _ = conn.Close() }()
		for {
			p.pause(time.Second)
			if _, err := conn.Write([]byte("x")); err != nil {
				p.note("closed")
				p.pause(time.Second)
				return
			}
		}
	}),
}

var connections = Attack{
	Name: "connections", What: "open connections and close them at once, or after a request for /healthz",
	workers: 16,
	begin: free(func(p *Principal, n int) {
		if n%2 == 0 {
			p.unfinished([]byte("GET /healthz HTTP/1.1\r\nHost: " + p.addr + "\r\n\r\n"))
			return
		}
		if conn := p.raw(); conn != nil {
			p.note("open")
			_ = conn.Close()
		}
	}),
}

var bound = Attack{
	Name: "http-sse", What: "hold 1,100 connections of HTTP+SSE, of which each calls a few times a second",
	Limits: append([]string{"closed"}, refused...), workers: 1100,
	begin: free(func(p *Principal, n int) {
		conn := p.raw([]byte("GET /sse HTTP/1.1\r\nHost: " + p.addr + "\r\nAccept: text/event-stream\r\n\r\n"))
		if conn == nil {
			p.pause(100 * time.Millisecond)
			return
		}
		defer func() { _ = conn.Close() }()
		lines := bufio.NewReader(conn)
		status, err := lines.ReadString('\n')
		if err != nil {
			p.note("closed")
			p.pause(time.Second)
			return
		}
		code := strings.TrimPrefix(strings.TrimSpace(status), "HTTP/1.1 ")
		p.note(code[:min(3, len(code))])
		path := ""
		for path == "" {
			line, err := lines.ReadString('\n')
			if err != nil {
				p.pause(100 * time.Millisecond)
				return
			}
			if v, ok := strings.CutPrefix(line, "data: "); ok {
				path = strings.TrimSpace(v)
			}
		}
		p.send(http.MethodPost, path, header(), initialize("2024-11-05", ""))
		p.send(http.MethodPost, path, header(), []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
		for i := 0; p.ctx.Err() == nil; i++ {
			if r := p.send(http.MethodPost, path, header(), tool(i, "echo", fmt.Sprintf(`{"text":"%d"}`, i))); r == nil || r.status != http.StatusAccepted {
				return
			}
			p.pause(time.Second)
		}
	}),
}

package main

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// client is a raw HTTP client on one connection.
type client struct {
	conn      net.Conn
	rd        *bufio.Reader
	addr      string
	session   string
	stateless bool
}

func dial(addr string) *client {
	c, err := net.Dial("tcp", addr)
	check(err)
	return &client{conn: c, rd: bufio.NewReader(c), addr: addr}
}

func (c *client) request(dst []byte, body string) []byte {
	dst = append(dst, "POST /mcp HTTP/1.1\r\nHost: "...)
	dst = append(dst, c.addr...)
	dst = append(dst, "\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"...)
	if c.stateless {
		dst = append(dst, "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n"...)
	} else if c.session != "" {
		dst = append(dst, "Mcp-Session-Id: "...)
		dst = append(dst, c.session...)
		dst = append(dst, "\r\nMcp-Protocol-Version: 2025-11-25\r\n"...)
	}
	dst = append(dst, "Content-Length: "...)
	dst = strconv.AppendInt(dst, int64(len(body)), 10)
	dst = append(dst, "\r\n\r\n"...)
	return append(dst, body...)
}

// answer reads a response and returns the session id it carries.
func (c *client) answer() (session string, err error) {
	length := -1
	for first := true; ; first = false {
		line, err := c.rd.ReadSlice('\n')
		if err != nil {
			return "", err
		}
		s := string(line)
		if first && !strings.HasPrefix(s, "HTTP/1.1 20") {
			return "", fmt.Errorf("answer %q", s)
		}
		if len(s) <= 2 {
			break
		}
		name, value, _ := strings.Cut(strings.TrimSpace(s), ": ")
		switch {
		case strings.EqualFold(name, "Content-Length"):
			if length, err = strconv.Atoi(value); err != nil {
				return "", err
			}
		case strings.EqualFold(name, "Mcp-Session-Id"):
			session = value
		}
	}
	if length > 0 {
		_, err = c.rd.Discard(length)
	}
	return session, err
}

func (c *client) call(body string) string {
	_, err := c.conn.Write(c.request(nil, body))
	check(err)
	session, err := c.answer()
	check(err)
	return session
}

// result has the figures of one run against one server.
type result struct {
	Server   string        `json:"server"`
	Round    int           `json:"round"`
	Requests int64         `json:"requests"`
	PerSec   float64       `json:"requests_per_second"`
	CPU      time.Duration `json:"server_cpu_ns_per_request"`
	P50      time.Duration `json:"p50_ns"`
	P99      time.Duration `json:"p99_ns"`
	Ratio    float64       `json:"times_bare"`
	RSS      int64         `json:"server_rss_bytes"`
}

// run drives one server and measures it.
func run(name string, args func(string) []string, conns, size int, stateless bool, d time.Duration) result {
	p := startServer(args)
	defer p.stop()
	clients := make([]*client, conns)
	for i := range clients {
		c := dial(p.addr)
		c.stateless = stateless
		if clients[i] = c; stateless {
			continue
		}
		c.session = c.call(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"load","version":"1"}}}`)
	}
	text := strings.Repeat("x", size)
	phase := func(d time.Duration) (n int64, times []time.Duration) {
		var mu sync.Mutex
		var wg sync.WaitGroup
		end := time.Now().Add(d)
		for _, c := range clients {
			wg.Go(func() {
				var mine []time.Duration
				var buf []byte
				for id := 1; ; id++ {
					begin := time.Now()
					if begin.After(end) {
						break
					}
					meta := ""
					if stateless {
						meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"load","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}},`
					}
					body := `{"jsonrpc":"2.0","id":` + strconv.Itoa(id) + `,"method":"tools/call","params":{` + meta + `"name":"echo","arguments":{"text":"` + text + `"}}}`
					buf = c.request(buf[:0], body)
					_, err := c.conn.Write(buf)
					check(err)
					_, err = c.answer()
					check(err)
					mine = append(mine, time.Since(begin))
				}
				mu.Lock()
				n += int64(len(mine))
				times = append(times, mine...)
				mu.Unlock()
			})
		}
		wg.Wait()
		return n, times
	}
	phase(d / 4) // warm up
	before, begin := p.cpu(), time.Now()
	n, times := phase(d)
	elapsed := time.Since(begin)
	r := result{Server: name, Requests: n, PerSec: float64(n) / elapsed.Seconds(), CPU: (p.cpu() - before) / time.Duration(n), RSS: p.rss()}
	slices.Sort(times)
	r.P50, r.P99 = times[len(times)/2], times[len(times)*99/100]
	for _, c := range clients {
		_ = c.conn.Close()
	}
	return r
}

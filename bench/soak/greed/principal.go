package greed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Outcomes count how requests ended: the HTTP status and, if there was one, the code of the
// JSON-RPC error behind it ("200 -32600"), "closed" for a connection that ended without a
// response, "dial" where none was made, and "open" for one that was made and sent no request.
type Outcomes map[string]int

// Principal is one greedy client, which has an address of its own.
type Principal struct {
	ctx    context.Context
	addr   string // of the server
	dialer net.Dialer
	http   *http.Client
	// storing is held by the goroutine that stores a large stream: several at once are mostly refused, and a herd would
	// never be complete.
	storing sync.Mutex

	mu       sync.Mutex // guards outcomes
	outcomes Outcomes
}

// patience is how long a request may take before its client gives up.
const patience = 20 * time.Second

// newPrincipal returns the n-th client of the server at addr in a network; the first has n 0.
func newPrincipal(ctx context.Context, addr string, network, n int) *Principal {
	p := &Principal{ctx: ctx, addr: addr, outcomes: make(Outcomes)}
	p.dialer = net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, byte(n/250), byte(network), byte(2+n%250))}, Timeout: 5 * time.Second}
	p.http = &http.Client{Transport: &http.Transport{DialContext: p.dialer.DialContext, MaxIdleConnsPerHost: 1024, DisableCompression: true}}
	return p
}

func (p *Principal) close() { p.http.CloseIdleConnections() }

// note counts an outcome, unless the attack is over, which ends requests as well.
func (p *Principal) note(outcome string) {
	if p.ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.outcomes[outcome]++
}

// response is what a greedy client keeps of a response.
type response struct {
	status int
	header http.Header
	body   []byte // its beginning
}

// kept is how many bytes of a response are kept; the rest is read and dropped.
const kept = 64 << 10

// send makes a request and reads the whole response. It returns nil if there was none.
func (p *Principal) send(method, path string, header http.Header, body []byte) *response {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	resp := p.begin(ctx, method, path, header, body)
	if resp == nil {
		return nil
	}
	defer func() { _ = resp.Body.Close() }()
	var start bytes.Buffer
	_, err := io.CopyN(&start, resp.Body, kept)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		p.note("broken")
		return nil
	}
	p.note(outcome(resp.StatusCode, start.Bytes()))
	return &response{resp.StatusCode, resp.Header, start.Bytes()}
}

// begin makes a request and leaves the response to its caller; nil if there was none.
func (p *Principal) begin(ctx context.Context, method, path string, header http.Header, body []byte) *http.Response {
	var from io.Reader
	if body != nil {
		from = bytes.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+p.addr+path, from)
	if err != nil {
		p.note(err.Error())
		return nil
	}
	for k, v := range header {
		r.Header[k] = v
	}
	resp, err := p.http.Do(r)
	if err != nil {
		p.note(failure(err))
		return nil
	}
	return resp
}

// failure is the outcome of a request without a response.
func failure(err error) string {
	switch e, ok := errors.AsType[*net.OpError](err); {
	case errors.Is(err, context.DeadlineExceeded):
		return "late"
	case ok && e.Op == "dial":
		return "dial"
	}
	return "closed"
}

var errorCode = regexp.MustCompile(`"error":\{"code":(-?\d+)`)

// outcome is that of a response, of which body is the beginning.
func outcome(status int, body []byte) string {
	if m := errorCode.FindSubmatch(body); m != nil {
		return fmt.Sprintf("%d %s", status, m[1])
	}
	return fmt.Sprint(status)
}

// raw opens a connection and writes what comes first on it. It returns nil if that failed.
func (p *Principal) raw(first ...[]byte) *rawConn {
	conn, err := p.dialer.DialContext(p.ctx, "tcp", p.addr)
	if err != nil {
		p.note("dial")
		return nil
	}
	stop := context.AfterFunc(p.ctx, func() { _ = conn.Close() })
	for _, b := range first {
		if _, err := conn.Write(b); err != nil {
			break // the response says why
		}
	}
	return &rawConn{conn, stop}
}

// rawConn is a connection that is closed when the attack is over.
type rawConn struct {
	net.Conn
	stop func() bool
}

func (c *rawConn) Close() error {
	c.stop()
	return c.Conn.Close()
}

// answered waits for the response on a connection and counts it. The server may have closed
// the connection instead.
func (p *Principal) answered(conn net.Conn) {
	var b [512]byte
	n, err := io.ReadAtLeast(conn, b[:], len("HTTP/1.1 200"))
	text := string(b[:n])
	if err != nil || !strings.HasPrefix(text, "HTTP/1.1 ") {
		p.note("closed")
		return
	}
	_, body, _ := strings.Cut(text, "\r\n\r\n")
	status := 0
	_, _ = fmt.Sscan(text[len("HTTP/1.1 "):], &status)
	p.note(outcome(status, []byte(body)))
}

// head is the header of a POST to /mcp with further lines, of which each ends with CRLF.
func (p *Principal) head(lines string) []byte {
	return []byte("POST /mcp HTTP/1.1\r\nHost: " + p.addr + "\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n" + lines + "\r\n")
}

// pause waits, unless the attack ends first.
func (p *Principal) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-p.ctx.Done():
	}
}

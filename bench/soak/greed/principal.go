package greed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// principal is one greedy client, which has an address of its own.
type principal struct {
	ctx    context.Context
	addr   string // of the server
	dialer net.Dialer
	http   *http.Client
	// storing is held by the goroutine that stores a large stream: several at once are mostly
	// refused.
	storing sync.Mutex

	mu       sync.Mutex // guards outcomes
	outcomes Outcomes
}

// patience is how long a request may take before its client gives up.
const patience = 20 * time.Second

// newPrincipal returns the n-th client of the server at addr in a network; the first has n 0.
func newPrincipal(ctx context.Context, addr string, network, n int) *principal {
	p := &principal{ctx: ctx, addr: addr, outcomes: make(Outcomes)}
	p.dialer = net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, byte(n/250), byte(network), byte(2+n%250))}, Timeout: 5 * time.Second}
	p.http = &http.Client{Transport: &http.Transport{DialContext: p.dialer.DialContext, MaxIdleConnsPerHost: 1024, DisableCompression: true}}
	return p
}

// countOutcome counts an outcome, unless the attack is over, which ends requests as well.
func (p *principal) countOutcome(outcome string) {
	if p.ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.outcomes[outcome]++
}

// sleepFor waits, unless the attack ends first.
func (p *principal) sleepFor(d time.Duration) { client.Sleep(p.ctx, d) }

// beginRequest makes a request and leaves the answer to its caller; nil if there was none.
func (p *principal) beginRequest(ctx context.Context, method, path string, h http.Header, body string) *client.Answer {
	if h = h.Clone(); h == nil {
		h = make(http.Header)
	}
	a, err := client.Do(ctx, p.http, method, "http://"+p.addr+path, body, h)
	switch {
	case err == nil:
		return a
	case errors.Is(err, context.DeadlineExceeded):
		p.countOutcome("late")
	case client.Failed(err) == client.Refused:
		p.countOutcome("dial")
	case client.Failed(err) == client.Broken:
		p.countOutcome("broken")
	default:
		p.countOutcome("closed")
	}
	return nil
}

// sendRequest makes a request and reads the whole answer. It returns nil if there was none.
func (p *principal) sendRequest(method, path string, h http.Header, body string) *client.Answer {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	a := p.beginRequest(ctx, method, path, h, body)
	if a == nil {
		return nil
	}
	defer a.Close()
	for a.Events != nil {
		e, err := a.Events.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			p.countOutcome("broken")
			return nil
		}
		a.Body = []byte(e.Data)
	}
	p.countOutcome(outcomeOf(a.Status, a.Body))
	return a
}

// postMessage sends a message with a header that may be that of a session.
func (p *principal) postMessage(h http.Header, body string) *client.Answer {
	return p.sendRequest(http.MethodPost, "/mcp", h, body)
}

// beginSession begins a session and returns the header of its requests, nil if there is none.
func (p *principal) beginSession(revision string) http.Header {
	a := p.postMessage(nil, initialize(revision, ""))
	if a == nil || a.Status != http.StatusOK || a.Header.Get("Mcp-Session-Id") == "" {
		return nil
	}
	return headerOf("Mcp-Session-Id", a.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", revision)
}

var errorCode = regexp.MustCompile(`"error":\{"code":(-?\d+)`)

// outcomeOf is the outcome of a response, of which body is the beginning.
func outcomeOf(status int, body []byte) string {
	if m := errorCode.FindSubmatch(body[:min(len(body), 64<<10)]); m != nil {
		return fmt.Sprintf("%d %s", status, m[1])
	}
	return fmt.Sprint(status)
}

// openConn opens a connection and writes what comes first on it. It returns nil if that failed.
func (p *principal) openConn(first ...string) *rawConn {
	conn, err := p.dialer.DialContext(p.ctx, "tcp", p.addr)
	if err != nil {
		p.countOutcome("dial")
		p.sleepFor(10 * time.Millisecond)
		return nil
	}
	stop := context.AfterFunc(p.ctx, func() { _ = conn.Close() })
	for _, text := range first {
		if _, err := io.WriteString(conn, text); err != nil {
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

// Close closes the connection.
func (c *rawConn) Close() error {
	c.stop()
	return c.Conn.Close()
}

// awaitResponse waits for the response on a connection and counts it. The server may have closed
// the connection instead.
func (p *principal) awaitResponse(conn net.Conn) (status int) {
	var b [512]byte
	n, err := io.ReadAtLeast(conn, b[:], len("HTTP/1.1 200"))
	text, ok := strings.CutPrefix(string(b[:n]), "HTTP/1.1 ")
	if err != nil || !ok {
		p.countOutcome("closed")
		return 0
	}
	_, body, _ := strings.Cut(text, "\r\n\r\n")
	_, _ = fmt.Sscan(text, &status)
	p.countOutcome(outcomeOf(status, []byte(body)))
	return status
}

// leaveUnfinished sends the beginning of a request, and waits for what the server makes of it.
func (p *principal) leaveUnfinished(first ...string) {
	if conn := p.openConn(first...); conn != nil {
		p.countOutcome("open")
		defer func() { _ = conn.Close() }()
		p.awaitResponse(conn)
	}
}

// postHead is the header of a POST to /mcp with those of h, and further lines, of which each ends
// with CRLF.
func (p *principal) postHead(h http.Header, lines string) string {
	for name, v := range h {
		lines += name + ": " + v[0] + "\r\n"
	}
	return "POST /mcp HTTP/1.1\r\nHost: " + p.addr + "\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n" + lines + "\r\n"
}

// useSSE opens a session over HTTP+SSE and calls in it until a call is refused. It does not read
// what comes.
func (p *principal) useSSE() {
	a := p.beginRequest(p.ctx, http.MethodGet, "/sse", nil, "")
	if a == nil {
		p.sleepFor(time.Second)
		return
	}
	defer a.Close()
	if p.countOutcome(outcomeOf(a.Status, a.Body)); a.Events == nil {
		p.sleepFor(time.Second)
		return
	}
	endpoint, err := a.Events.Next()
	if err != nil {
		p.countOutcome("closed")
		return
	}
	path := endpoint.Data
	p.sendRequest(http.MethodPost, path, nil, initialize("2024-11-05", ""))
	p.sendRequest(http.MethodPost, path, nil, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for i := 0; p.ctx.Err() == nil; i++ {
		if a := p.sendRequest(http.MethodPost, path, nil, callOf(i, "echo", `{"text":"x"}`)); a == nil || a.Status != http.StatusAccepted {
			return
		}
		p.sleepFor(time.Second)
	}
}

// readNothing calls for a large answer, reads nothing of it for a time, and then finds out whether
// the server has given the connection up.
func (p *principal) readNothing() {
	conn := p.openConn()
	if conn == nil {
		return
	}
	defer func() { _ = conn.Close() }()
	if tcp, ok := conn.Conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(4096)
	}
	body, h := echoOf()
	_, _ = io.WriteString(conn, p.postHead(h, fmt.Sprintf("Content-Length: %d\r\n", len(body))))
	_, _ = io.WriteString(conn, body) // if that fails, the response says why
	if p.awaitResponse(conn) != http.StatusOK {
		return
	}
	p.sleepFor(patience)
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	if _, err := io.Copy(io.Discard, conn); err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		p.countOutcome("closed")
	}
}

// storeStream calls for a stream that holds 3.9 MB and returns the id of its first event, "" if it
// was refused. It reads the stream to the end of its first large event, so that that is stored.
func (p *principal) storeStream(h http.Header) (first string) {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	a := p.beginRequest(ctx, http.MethodPost, "/mcp", h, largeQuestion(0))
	if a == nil {
		return ""
	}
	defer a.Close()
	if a.Events == nil {
		p.countOutcome(outcomeOf(a.Status, a.Body))
		return ""
	}
	for size := 0; size < almostMost; {
		e, err := a.Events.Next()
		if err != nil {
			p.countOutcome("broken")
			return ""
		}
		if size += len(e.Data); first == "" {
			first = e.ID
		}
	}
	p.countOutcome("stored")
	// The call need not wait for an answer to its question, with its body in memory.
	p.postMessage(h, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	return first
}

// readStream opens a stream with a GET, reads so many bytes of it, and leaves. It reports whether
// all of them came.
func (p *principal) readStream(h http.Header, bytes int64) bool {
	ctx, cancel := context.WithTimeout(p.ctx, 3*patience)
	defer cancel()
	a := p.beginRequest(ctx, http.MethodGet, "/mcp", h, "")
	if a == nil {
		return false
	}
	defer a.Close()
	if a.Events == nil {
		p.countOutcome(outcomeOf(a.Status, a.Body))
		return false
	}
	if _, err := io.CopyN(io.Discard, a.Events, bytes); err != nil {
		p.countOutcome("cut")
		return false
	}
	p.countOutcome(fmt.Sprint(a.Status))
	return true
}

package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/troupe-run/troupe/mcp"
)

// listener hands out connections in memory. Virtual time passes while they wait. The one of kit would bring a whole server into the
// binary of the fuzz targets.
type listener struct {
	connections chan net.Conn
	closed      chan struct{}
}

var loopback = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}

func (l *listener) Addr() net.Addr { return loopback }

func (l *listener) Close() error {
	close(l.closed)
	return nil
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.connections:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.connections <- there:
		return here, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// script is a server whose tests say what it answers. It works in virtual time.
type script struct {
	handle func(w http.ResponseWriter, r *http.Request, m message)

	mu   sync.Mutex // guards the rest
	log  []string   // the methods that came, and GET with its Last-Event-ID
	down bool       // it refuses connections
}

// serve serves a script until the test ends, and returns the options of a client of it, which writes down what it says.
func serve(t *testing.T, s *script) (Options, *[]string) {
	t.Helper()
	ln := &listener{connections: make(chan net.Conn), closed: make(chan struct{})}
	hs := &http.Server{Handler: s}
	go func() { _ = hs.Serve(ln) }()
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		if s.isDown() {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: ln.Addr(), Err: syscall.ECONNREFUSED}
		}
		return ln.dial(ctx)
	}}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		_ = hs.Close()
	})
	said := new([]string)
	return Options{
		URL: "http://127.0.0.1/mcp", Name: "test", Version: "1", Transport: tr, Patience: 30e9,
		Status: func(text string) { *said = append(*said, text) },
	}, said
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var m message
	what := r.Method
	switch {
	case json.Unmarshal(body, &m) == nil && m.Method != "":
		what = m.Method
	case len(body) > 0:
		what = "answer " + string(body)
	case r.Header.Get("Last-Event-ID") != "":
		what += " " + r.Header.Get("Last-Event-ID")
	}
	s.mu.Lock()
	s.log = append(s.log, what)
	s.mu.Unlock()
	s.handle(w, r, m)
}

// came returns what came so far, a word or two each.
func (s *script) came() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.log, ", ")
}

// count is how often something came.
func (s *script) count(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, one := range s.log {
		if one == what {
			n++
		}
	}
	return n
}

// refuse has the server refuse connections from now on, or take them.
func (s *script) refuse(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

func (s *script) isDown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down
}

// respond writes a response with a result or an error, both as JSON.
func respond(w http.ResponseWriter, status int, m message, member string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	id := string(m.ID)
	if id == "" {
		id = "null"
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, id, member)
}

// writeEvents writes events, and flushes them.
func writeEvents(w http.ResponseWriter, events string) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, events)
	_ = http.NewResponseController(w).Flush()
}

// breakOff ends a response in its middle.
func breakOff() { panic(http.ErrAbortHandler) }

// modern answers server/discover, and everything else by handle.
func modern(handle func(w http.ResponseWriter, r *http.Request, m message)) func(http.ResponseWriter, *http.Request, message) {
	return func(w http.ResponseWriter, r *http.Request, m message) {
		if m.Method == mcp.MethodServerDiscover {
			respond(w, 200, m, `"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}`)
			return
		}
		handle(w, r, m)
	}
}

// sitting begins a session of the newest revision that has some, and answers everything else by handle.
func sitting(handle func(w http.ResponseWriter, r *http.Request, m message)) func(http.ResponseWriter, *http.Request, message) {
	return func(w http.ResponseWriter, r *http.Request, m message) {
		switch {
		case m.Method == mcp.MethodServerDiscover:
			respond(w, 400, m, `"error":{"code":-32600,"message":"no session"}`)
		case m.Method == mcp.MethodInitialize:
			w.Header().Set("Mcp-Session-Id", "s1")
			respond(w, 200, m, `"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"script","version":"2"}}`)
		case strings.HasPrefix(m.Method, "notifications/"), r.Method == http.MethodDelete, m.Method == "" && r.Method == http.MethodPost:
			w.WriteHeader(http.StatusAccepted)
		default:
			handle(w, r, m)
		}
	}
}

// text is a result with a text, as a member of a response.
func text(s string) string {
	return fmt.Sprintf(`"result":{"content":[{"type":"text","text":%q}]}`, s)
}

// event is an event with the response to a message.
func event(id string, m message, member string) string {
	return fmt.Sprintf("id: %s\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,%s}\n\n", id, m.ID, member)
}

// call connects and calls a tool.
func call(ctx context.Context, o Options) (string, error) {
	c, err := Connect(ctx, o)
	if err != nil {
		return "", err
	}
	defer c.Close()
	r, err := c.CallTool(ctx, "greet", json.RawMessage(`{"name":"Ada"}`))
	if err != nil {
		return "", err
	}
	var block struct{ Text string }
	if len(r.Content) != 1 || json.Unmarshal(r.Content[0], &block) != nil {
		return "", fmt.Errorf("the content is %s", r.Content)
	}
	return block.Text, nil
}

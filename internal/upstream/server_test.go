package upstream

import (
	"context"
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

// A server is a backend over HTTP in this process.
type server struct {
	handle func(w http.ResponseWriter, r *http.Request, m message)

	mu   sync.Mutex
	got  []string // what came: methods, answers, GET with its event, DELETE
	head []http.Header
	body []string
	down bool
}

// pipeListener accepts connections within this process.
type pipeListener struct {
	connections chan net.Conn
	closed      chan struct{}
	once        sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.connections:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

// serveHTTP serves until the test ends, and returns how to reach the server.
func serveHTTP(t *testing.T, handle func(w http.ResponseWriter, r *http.Request, m message)) (*server, HTTPOptions) {
	t.Helper()
	s := &server{handle: handle}
	ln := &pipeListener{connections: make(chan net.Conn), closed: make(chan struct{})}
	hs := &http.Server{Handler: s}
	go func() { _ = hs.Serve(ln) }()
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		if s.isDown() {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: ln.Addr(), Err: syscall.ECONNREFUSED}
		}
		theirs, ours := net.Pipe()
		select {
		case ln.connections <- theirs:
			return ours, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		_ = hs.Close()
	})
	return s, HTTPOptions{URL: "http://127.0.0.1/mcp", Client: &http.Client{Transport: tr}}
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m := parseMessage(body)
	what := r.Method
	switch {
	case len(body) > 0:
		what = m.kind()
	case r.Header.Get("Last-Event-Id") != "":
		what += " " + r.Header.Get("Last-Event-Id")
	}
	s.mu.Lock()
	s.got, s.head, s.body = append(s.got, what), append(s.head, r.Header), append(s.body, string(body))
	s.mu.Unlock()
	s.handle(w, r, m)
}

func (s *server) isDown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down
}

func (s *server) refuse(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// came returns what came so far.
func (s *server) came() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.got, ", ")
}

// sent returns the headers and the body of the last request of a kind.
func (s *server) sent(what string) (http.Header, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.got) - 1; i >= 0; i-- {
		if s.got[i] == what {
			return s.head[i], s.body[i]
		}
	}
	return nil, ""
}

func (s *server) count(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, one := range s.got {
		if one == what {
			n++
		}
	}
	return n
}

// respond writes a body of JSON.
func respond(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// stream writes events, and flushes them.
func stream(w http.ResponseWriter, events ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		_, _ = io.WriteString(w, e)
	}
	_ = http.NewResponseController(w).Flush()
}

// event is an event with a message; "" has no id.
func event(id, data string) string {
	if id != "" {
		id = "id: " + id + "\n"
	}
	return fmt.Sprintf("%sdata: %s\n\n", id, data)
}

// politely answers the handshake of an era, and all other requests but tools/call with {}; those, GET and DELETE go to call.
func politely(era Era, call func(w http.ResponseWriter, r *http.Request, m message)) func(http.ResponseWriter, *http.Request, message) {
	return func(w http.ResponseWriter, r *http.Request, m message) {
		switch {
		case m.Method == mcp.MethodServerDiscover && era == EraModern:
			respond(w, 200, m.result(modernDiscover))
		case m.Method == mcp.MethodServerDiscover:
			respond(w, 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: no session"}}`)
		case m.Method == mcp.MethodInitialize:
			w.Header().Set("Mcp-Session-Id", "s1")
			respond(w, 200, m.result(legacyInit))
		case m.Method == mcp.MethodToolsCall, r.Method != http.MethodPost:
			call(w, r, m)
		case m.ID == nil || m.Method == "":
			w.WriteHeader(http.StatusAccepted)
		default:
			respond(w, 200, m.result(`{}`))
		}
	}
}

// openHTTP opens a Conn over Streamable HTTP, until the test ends.
func openHTTP(t *testing.T, o Options, handle func(w http.ResponseWriter, r *http.Request, m message)) (*server, *Conn) {
	t.Helper()
	s, h := serveHTTP(t, handle)
	c, err := Open(minute(t), NewHTTP(h), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return s, c
}

// breakOff ends a response in its middle.
func breakOff() { panic(http.ErrAbortHandler) }

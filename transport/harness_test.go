package transport

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe/transport/server/http1"
)

// TestMain fails the run if a test leaves a goroutine of this package or of net/http behind.
func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		_ = flag.Set("test.parallel", "24") // most tests wait for half seconds of linger
	}
	code := m.Run()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if left := leftovers(); left != "" && code == 0 {
		fmt.Fprintln(os.Stderr, "goroutines left behind:\n"+left)
		code = 1
	}
	os.Exit(code)
}

func leftovers() string {
	var left string
	for range 6000 { // a minute, as all that remains here ends by itself
		buf := make([]byte, 1<<20)
		left = ""
		for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")[1:] {
			if strings.Contains(g, "troupe/transport") || strings.Contains(g, "net/http") {
				left += g + "\n\n"
			}
		}
		if left == "" {
			return ""
		}
		<-time.After(10 * time.Millisecond)
	}
	return left
}

// funcs is a Dispatcher made of functions; a nil one answers with its input.
type funcs struct {
	post, get, del func(*Exchange)
}

func (f funcs) Post(x *Exchange) {
	if f.post == nil {
		x.Answer(200, x.Body)
		return
	}
	f.post(x)
}

func (f funcs) Get(x *Exchange) {
	if f.get == nil {
		x.Answer(200, []byte(`{"event":"`+x.LastEventID+`"}`))
		return
	}
	f.get(x)
}

func (f funcs) Delete(x *Exchange) {
	if f.del == nil {
		x.Answer(http.StatusNoContent, nil)
		return
	}
	f.del(x)
}

// counts is an Observer.
type counts struct {
	mu       sync.Mutex
	rejected map[string]int
	cuts     chan string
}

func newCounts() *counts { return &counts{rejected: map[string]int{}, cuts: make(chan string, 64)} }

func (c *counts) Rejected(status int, reason string) {
	c.mu.Lock()
	c.rejected[strconv.Itoa(status)+" "+reason]++
	c.mu.Unlock()
}

func (c *counts) Cut(reason string) { c.cuts <- reason }

// server is a Handler behind a real listener on loopback.
type running struct {
	*Handler
	addr string
}

func serve(t testing.TB, d Dispatcher, o Options) *running {
	t.Helper()
	if o.Accounts == nil {
		counted(t, &o, -1)
	}
	h := NewHandler(d, o)
	return &running{h, serveHandler(t, h, h)}
}

func serveHandler(t testing.TB, h *Handler, handler http.Handler) string {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	Configure(s.Config)
	s.Listener = front(s.Listener, s.Config)
	s.Start()
	t.Cleanup(func() {
		for _, x := range h.streams.listStreams() {
			x.Cut()
		}
		s.Close()
	})
	return s.Listener.Addr().String()
}

var netHTTP = flag.Bool("nethttp", false, "serve all connections of the tests with net/http alone")

// front is ln for s.Serve, with the listener of package http1 before it.
func front(ln net.Listener, s *http.Server) net.Listener {
	if *netHTTP {
		return ln
	}
	return http1.NewFront(ln, s)
}

const ping = `{"jsonrpc":"2.0","id":7,"method":"ping"}`

// request returns the bytes of a request; headers override those of a proper client, and an empty value removes
// one.
func request(method, addr, body string, headers ...string) string {
	names := []string{"Host", "Content-Type", "Accept", "Content-Length"}
	standard := len(names)
	values := map[string]string{"Host": addr, "Accept": "application/json, text/event-stream"}
	if method == http.MethodPost {
		values["Content-Type"] = typeJSON
		values["Content-Length"] = strconv.Itoa(len(body))
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		if i := slices.Index(names, name); i >= 0 && i < standard || values[name] == "" {
			values[name] = value
		} else {
			values[name] += "\r\n" + name + ": " + value
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	var b strings.Builder
	b.WriteString(method + " /mcp HTTP/1.1\r\n")
	for _, name := range names {
		if values[name] != "" {
			b.WriteString(name + ": " + values[name] + "\r\n")
		}
	}
	return b.String() + "\r\n" + body
}

// client is one raw connection.
type client struct {
	net.Conn
	r *bufio.Reader
	t testing.TB
}

// listen listens at a free port of this machine.
func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

func dial(t testing.TB, addr string) *client {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(5 * time.Minute))
	return &client{c, bufio.NewReader(c), t}
}

func (c *client) send(raw string) *client {
	c.t.Helper()
	if _, err := io.WriteString(c, raw); err != nil {
		c.t.Fatal(err)
	}
	return c
}

// response reads the header of the next response.
func (c *client) response(method string) *http.Response {
	c.t.Helper()
	resp, err := http.ReadResponse(c.r, &http.Request{Method: method})
	if err != nil {
		c.t.Fatalf("reading the response: %v", err)
	}
	return resp
}

// do sends raw on a connection of its own and returns the whole response.
func do(t testing.TB, addr, raw string) (*http.Response, string) {
	t.Helper()
	method, _, _ := strings.Cut(raw, " ")
	resp := dial(t, addr).send(raw).response(method)
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("reading the body: %v", err)
	}
	return resp, string(body)
}

// event is one parsed server-sent event.
type event struct{ ID, Retry, Data, Name string }

// events parses an event stream.
type events struct{ r *bufio.Reader }

var errComment = errors.New("a comment")

// next returns the next event, or errComment for a comment.
func (e *events) next() (event, error) {
	var ev event
	var data []string
	for {
		line, err := e.r.ReadString('\n')
		if err != nil {
			if line != "" || data != nil {
				err = io.ErrUnexpectedEOF
			}
			return ev, err
		}
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && data != nil:
			ev.Data = strings.Join(data, "\n")
			return ev, nil
		case line == "":
			return ev, errComment
		case name == "id":
			ev.ID = value
		case name == "retry":
			ev.Retry = value
		case name == "event":
			ev.Name = value
		case name == "data":
			data = append(data, value)
		case name != "":
			return ev, fmt.Errorf("unexpected line %q", line)
		}
	}
}

// first is next for the first event, which a comment precedes unless it came with the header.
func (e *events) first() (event, error) {
	ev, err := e.next()
	if err == errComment {
		return e.next()
	}
	return ev, err
}

// all returns the events up to the end of the stream; the error is nil if it ended well.
func all(r io.Reader) ([]event, error) {
	e := &events{bufio.NewReader(r)}
	var out []event
	for {
		ev, err := e.next()
		switch {
		case err == io.EOF:
			return out, nil
		case err == errComment:
		case err != nil:
			return out, err
		default:
			out = append(out, ev)
		}
	}
}

func wait(t testing.TB, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(5 * time.Minute):
		buf := make([]byte, 1<<20)
		t.Fatalf("timed out waiting for %s\n%s", what, bytes.TrimSpace(buf[:runtime.Stack(buf, true)]))
	}
}

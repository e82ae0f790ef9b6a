//go:build unix

package http1

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// answers is a handler that reads its body and writes a small answer, as most do.
var answers = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
	var room [512]byte
	n, _ := io.ReadFull(r.Body, room[:r.ContentLength])
	h := rw.Header()
	h["Content-Type"] = jsonType
	_, _ = rw.Write(room[:n])
})

var jsonType = []string{"application/json"}

const (
	callBody = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}`
	callHead = "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: node\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\n" +
		"Mcp-Session-Id: 0123456789abcdef0123456789abcdef\r\nMcp-Protocol-Version: 2025-11-25\r\nAuthorization: Bearer 0123456789abcdef\r\nContent-Length: "
)

func callOf(body string) string { return fmt.Sprintf("%s%d\r\n\r\n%s", callHead, len(body), body) }

// script is a connection on which the same request comes again and again, each once the one before it is answered.
type script struct {
	net.Conn
	request []byte
	rest    []byte
	wrote   int
}

func (s *script) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *script) Write(p []byte) (int, error)      { s.wrote += len(p); return len(p), nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }
func (s *script) LocalAddr() net.Addr              { return &net.UnixAddr{Name: "script"} }
func (s *script) RemoteAddr() net.Addr             { return &net.UnixAddr{Name: "script"} }

// onScript returns a function that serves one request.
func onScript(t testing.TB) func() {
	s := &script{request: []byte(callOf(callBody))}
	f := NewFront(newPipes(), &http.Server{Handler: answers, IdleTimeout: time.Minute, ReadHeaderTimeout: time.Minute})
	c := f.addConn(t.Context(), s)
	return func() {
		s.rest = s.request
		n, err := c.readHead(false)
		if err != nil || !c.head.read(c.buf[c.from:c.from+n]) {
			t.Fatal("not plain", err)
		}
		if c.from += n; !c.serveRequest() {
			t.Fatal("the connection ends")
		}
	}
}

// BenchmarkCall is the cost of one request with its response: without a network, and over loopback with net/http beside it, where it includes the client's.
func BenchmarkCall(b *testing.B) {
	b.Run("conn", func(b *testing.B) {
		serve := onScript(b)
		b.ReportAllocs()
		for b.Loop() {
			serve()
		}
	})
	for _, size := range []int{0, 10_000, 1_000_000} {
		body := callBody + strings.Repeat(" ", size)
		for _, name := range []string{"front", "nethttp"} {
			b.Run(fmt.Sprintf("loopback/%s/size=%d", name, size), func(b *testing.B) {
				over(b, name == "front", []byte(callOf(body)), len(body))
			})
		}
	}
}

// processor is the processor time that this process has used.
func processor() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// over sends a request over loopback, and waits for a response with a body of some bytes, again and again.
func over(b *testing.B, fronted bool, request []byte, size int) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	hs := &http.Server{ReadHeaderTimeout: time.Minute, IdleTimeout: time.Minute, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body := make([]byte, r.ContentLength)
		n, _ := io.ReadFull(r.Body, body)
		rw.Header()["Content-Type"] = jsonType
		_, _ = rw.Write(body[:n])
	})}
	if fronted {
		ln = NewFront(ln, hs)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = hs.Serve(ln)
	}()
	defer func() {
		_ = hs.Close()
		<-ended
	}()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	room := make([]byte, size+16<<10)
	b.ReportAllocs()
	began := processor()
	defer func() { b.ReportMetric(float64(processor()-began)/float64(b.N), "cpu-ns/op") }()
	for b.Loop() {
		if _, err := c.Write(request); err != nil {
			b.Fatal(err)
		}
		for n := 0; ; {
			k, err := c.Read(room[n:])
			if err != nil {
				b.Fatal(err)
			}
			n += k
			if i := bytes.Index(room[:n], []byte("\r\n\r\n")); i > 0 && (n == i+4+size || bytes.HasSuffix(room[:n], []byte("\r\n0\r\n\r\n"))) {
				break
			}
		}
	}
}

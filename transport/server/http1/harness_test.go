package http1

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener without a network, for tests in virtual time.
type pipes struct {
	conns chan net.Conn
	fails chan error
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes {
	return &pipes{conns: make(chan net.Conn), fails: make(chan error), done: make(chan struct{})}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case err := <-p.fails:
		return nil, err
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// world is a server in a bubble, with the Front before it or without.
type world struct {
	t     *testing.T
	ln    *pipes
	hs    *http.Server
	front *Front // nil: net/http has all connections
	log   bytes.Buffer

	mu     sync.Mutex // guards the rest
	seen   []string   // what handlers noted
	states []http.ConnState
}

// both runs f in virtual time, with net/http alone and with the Front before it, and requires that it returns the same.
func both(t *testing.T, handler func(w *world) http.HandlerFunc, f func(w *world) string) string {
	t.Helper()
	var results []string
	for _, fronted := range []bool{false, true} {
		t.Run(fmt.Sprintf("front=%v", fronted), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				results = append(results, f(newWorld(t, handler, fronted)))
			})
		})
	}
	if len(results) == 2 && results[0] != results[1] {
		t.Errorf("net/http:\n%s\nwith the Front:\n%s", results[0], results[1])
	}
	return results[len(results)-1]
}

func newWorld(t *testing.T, handler func(w *world) http.HandlerFunc, fronted bool) *world {
	w := &world{t: t, ln: newPipes()}
	w.hs = &http.Server{Handler: handler(w), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10, ErrorLog: log.New(&w.log, "", 0)}
	w.hs.BaseContext = func(net.Listener) context.Context { return context.WithValue(context.Background(), baseKey{}, "base") }
	w.hs.ConnState = func(_ net.Conn, s http.ConnState) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.states = append(w.states, s)
	}
	var ln net.Listener = w.ln
	if fronted {
		w.front = NewFront(ln, w.hs)
		ln = w.front
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = w.hs.Serve(ln)
	}()
	t.Cleanup(func() {
		_ = w.hs.Close()
		<-served
		if w.front != nil {
			_ = w.front.Wait(t.Context())
		}
	})
	return w
}

type baseKey struct{}

// note has what a handler saw compared.
func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, fmt.Sprintf(format, args...))
}

func (w *world) notes() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.seen, "\n")
}

// handed reports whether the Front has given a connection to net/http.
func (w *world) handed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.states, http.StateHijacked)
}

// peer is the client's end of a connection. All that comes is read.
type peer struct {
	net.Conn
	ended chan struct{}

	mu     sync.Mutex // guards the rest
	got    []byte
	closed bool
}

func (w *world) dial() *peer {
	near, far := net.Pipe()
	w.ln.conns <- far
	p := &peer{Conn: near, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		var b [4096]byte
		for {
			n, err := near.Read(b[:])
			p.mu.Lock()
			p.got = append(p.got, b[:n]...)
			p.closed = err != nil
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	w.t.Cleanup(func() { _ = near.Close() })
	return p
}

// send sends in the background, as far as the server reads.
func (p *peer) send(raw string) *peer {
	go func() { _, _ = io.WriteString(p, raw) }()
	synctest.Wait()
	return p
}

func (p *peer) isClosed() bool {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// result is all that has come: the statuses of the responses and the state of the connection, and the responses whole.
func (p *peer) result() (short, whole string) {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	var b, all strings.Builder
	for r := bufio.NewReader(bytes.NewReader(p.got)); ; {
		if _, err := r.Peek(1); err != nil {
			break
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			fmt.Fprintf(&all, "no response: %v\n", err)
			break
		}
		body, err := io.ReadAll(resp.Body)
		fmt.Fprintf(&b, "%d ", resp.StatusCode)
		fmt.Fprintf(&all, "%s length %d %v close %v\n", resp.Status, resp.ContentLength, resp.TransferEncoding, resp.Close)
		var lines []string
		for key, values := range resp.Header {
			lines = append(lines, fmt.Sprintf("\t%s: %q\n", key, values))
		}
		slices.Sort(lines)
		fmt.Fprintf(&all, "%s%q %v\n", strings.Join(lines, ""), body, err)
	}
	end := "open"
	if p.closed {
		end = "closed"
	}
	return b.String() + end, all.String() + end
}

// record is a handler that notes the request, as net/http and the Front give it.
func record(w *world) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		w.note("%s", shown(r)+fmt.Sprintf(" body %q %v", body, err))
		_, _ = rw.Write([]byte("ok"))
	}
}

// shown is a request as its handler sees it, but for the context and the body. The Front does not give Content-Length as a header.
func shown(r *http.Request) string {
	var lines []string
	for key, values := range r.Header {
		if key != "Content-Length" {
			lines = append(lines, fmt.Sprintf("%s: %q", key, values))
		}
	}
	slices.Sort(lines)
	return fmt.Sprintf("%s %q %#v %s host %q length %d %q close %v %q", r.Method, r.RequestURI, *r.URL, r.Proto, r.Host, r.ContentLength, r.TransferEncoding, r.Close, lines)
}

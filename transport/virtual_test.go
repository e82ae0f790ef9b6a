package transport

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener without a network, for tests in virtual time.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p *pipes) dial(t *testing.T) *client {
	a, b := net.Pipe()
	p.conns <- onPipe{b}
	t.Cleanup(func() { a.Close() })
	return &client{a, bufio.NewReader(a), t}
}

// onPipe is a pipe's end with the address of its listener, which no web page reaches.
type onPipe struct{ net.Conn }

func (onPipe) LocalAddr() net.Addr { return (&pipes{}).Addr() }

// virtually runs f in virtual time, once with connections that the handler takes over and once without. Everything
// that f blocks on must be made inside of it, so the handler is, too. A Connector gets the two endpoints of HTTP+SSE.
func virtually(t *testing.T, f func(t *testing.T, serve func(Dispatcher, Options) *pipes)) {
	t.Helper()
	for name, wrapped := range map[string]bool{"taken over": false, "inline": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f(t, func(d Dispatcher, o Options) *pipes {
					p := &pipes{make(chan net.Conn), make(chan struct{})}
					h := NewHandler(d, o)
					var handler http.Handler = h
					if _, ok := d.(Connector); ok {
						handler = bothEndpoints(h)
					}
					if wrapped {
						handler = wrap(handler, func(w http.ResponseWriter) http.ResponseWriter { return unwrappable{opaque{w}} })
					}
					s := &http.Server{Handler: handler}
					Configure(s)
					served := make(chan struct{})
					go func() {
						_ = s.Serve(front(p, s))
						close(served)
					}()
					t.Cleanup(func() {
						s.Close()
						<-served
					})
					return p
				})
			})
		})
	}
}

// unwrappable is middleware that lets deadlines through but not Hijack, as HTTP/2 does.
type unwrappable struct{ opaque }

func (u unwrappable) SetReadDeadline(t time.Time) error {
	return http.NewResponseController(u.ResponseWriter).SetReadDeadline(t)
}

func (u unwrappable) SetWriteDeadline(t time.Time) error {
	return http.NewResponseController(u.ResponseWriter).SetWriteDeadline(t)
}

func (u unwrappable) FlushError() error {
	return http.NewResponseController(u.ResponseWriter).Flush()
}

// TestSlowBody has bodies stop: they are ended when their time is over, or once they have come too slowly for 10 s.
func TestSlowBody(t *testing.T) {
	virtually(t, func(t *testing.T, serve func(Dispatcher, Options) *pipes) {
		for _, row := range []struct {
			rate  float64
			start string
			text  string
			after time.Duration
		}{
			{-1, "", "Request body took too long", 30 * time.Second},
			{-1, ping[:10], "Request body took too long", 30 * time.Second},
			{0, "", "Request body came too slowly", 10 * time.Second},
			{0, ping[:10], "Request body came too slowly", 10 * time.Second},
			{0.5, ping[:10], "Request body came too slowly", 21 * time.Second},
			{0.25, ping[:10], "Request body took too long", 30 * time.Second},
		} {
			p, start := serve(funcs{}, Options{BodyRate: row.rate}), row.start
			began := time.Now()
			c := p.dial(t).send(strings.TrimSuffix(request("POST", "x", ping), ping) + start)
			resp := c.response("POST")
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != 408 || !resp.Close || string(body) != errorBody(-32600, row.text, "") {
				t.Errorf("got %d %s", resp.StatusCode, body)
			}
			if got := time.Since(began); got != row.after {
				t.Errorf("rate %v: took %v, want %v", row.rate, got, row.after)
			}
		}
	})
}

// TestRefusalDoesNotWaitForABody refuses by the header; net/http then reads the rest of the body, but not forever.
func TestRefusalDoesNotWaitForABody(t *testing.T) {
	virtually(t, func(t *testing.T, serve func(Dispatcher, Options) *pipes) {
		p := serve(funcs{}, Options{})
		began := time.Now()
		c := p.dial(t).send(strings.TrimSuffix(request("POST", "x", ping, "Content-Type: a/b"), ping))
		if resp := c.response("POST"); resp.StatusCode != 415 {
			t.Errorf("got %d, want 415", resp.StatusCode)
		}
		if got := time.Since(began); got > 15*time.Second {
			t.Errorf("took %v, want at most 15 s", got)
		}
	})
}

// TestLongCall answers long after the body's deadline.
func TestLongCall(t *testing.T) {
	virtually(t, func(t *testing.T, serve func(Dispatcher, Options) *pipes) {
		p := serve(funcs{post: func(x *Exchange) {
			time.Sleep(time.Hour)
			if err := x.Context().Err(); err != nil {
				t.Errorf("the context of a long call: %v", err)
			}
			x.Answer(200, x.Body)
		}}, Options{})
		resp := p.dial(t).send(request("POST", "x", ping)).response("POST")
		if body, err := io.ReadAll(resp.Body); string(body) != ping || err != nil {
			t.Errorf("got %q, %v", body, err)
		}
	})
}

func TestReaderThatDoesNotRead(t *testing.T) {
	virtually(t, func(t *testing.T, serve func(Dispatcher, Options) *pipes) {
		type outcome struct {
			after time.Duration
			room  error
		}
		outcomes := make(chan outcome, 1)
		seen := newCounts()
		p := serve(funcs{get: func(x *Exchange) {
			x.Open()
			x.Event("1", 0, nil)
			x.Flush()
			if err := x.Room(x.Context()); err != nil {
				t.Errorf("Room of an empty stream: %v", err)
			}
			time.Sleep(time.Minute)
			began := time.Now()
			x.Event("2", 0, bytes.Repeat([]byte("x"), 600<<10))
			x.Flush()
			ctx, cancel := context.WithTimeoutCause(context.Background(), time.Second, io.ErrShortBuffer)
			defer cancel()
			if err := x.Room(ctx); err != io.ErrShortBuffer {
				t.Errorf("Room of a full stream: got %v, want the cause of ctx", err)
			}
			err := x.Room(context.Background())
			outcomes <- outcome{time.Since(began), err}
		}}, Options{Observer: seen})
		c := p.dial(t).send(request("GET", "x", ""))
		e := &events{bufio.NewReader(c.response("GET").Body)}
		if got, err := e.first(); err != nil || got.ID != "1" {
			t.Errorf("got %v, %v", got, err)
		}
		if got := <-outcomes; got.after != 30*time.Second || got.room != ErrGone {
			t.Errorf("Room returned after %v with %v, want 30 s and ErrGone", got.after, got.room)
		}
		if got := <-seen.cuts; got != cutTimeout {
			t.Errorf("cut for %q, want %q", got, cutTimeout)
		}
	})
}

// TestAnswerNobodyReads checks that a response that the client does not read keeps the goroutine for no longer than the
// write timeout.
func TestAnswerNobodyReads(t *testing.T) {
	virtually(t, func(t *testing.T, serve func(Dispatcher, Options) *pipes) {
		took := make(chan time.Duration, 1)
		p := serve(funcs{post: func(x *Exchange) {
			began := time.Now()
			x.Answer(200, []byte(ping))
			took <- time.Since(began)
		}}, Options{})
		p.dial(t).send(request("POST", "x", ping))
		if got := <-took; got != 30*time.Second {
			t.Errorf("Answer took %v, want 30 s", got)
		}
	})
}

// TestSlowProgressIsNotCut reads a large event slowly.
func TestSlowProgressIsNotCut(t *testing.T) {
	virtually(t, func(t *testing.T, serve func(Dispatcher, Options) *pipes) {
		p := serve(funcs{get: func(x *Exchange) {
			x.Open()
			x.Event("1", 0, bytes.Repeat([]byte("x"), 2<<20))
			x.Finish()
		}}, Options{})
		resp := p.dial(t).send(request("GET", "x", "")).response("GET")
		buf, n := make([]byte, 32<<10), 0
		for {
			time.Sleep(time.Second)
			k, err := resp.Body.Read(buf)
			n += k
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("after %d bytes: %v", n, err)
			}
		}
		if n < 2<<20 {
			t.Errorf("got %d bytes", n)
		}
	})
}

// TestABodyHasItsTimeBesideOthers: one that began later is not looked at with those that are due.
func TestABodyHasItsTimeBesideOthers(t *testing.T) {
	virtually(t, func(t *testing.T, serve func(Dispatcher, Options) *pipes) {
		p, began := serve(funcs{}, Options{}), time.Now()
		var all []*client
		for range 3 {
			all = append(all, p.dial(t).send(strings.TrimSuffix(request("POST", "x", ping), ping)))
			time.Sleep(4 * time.Second)
		}
		for i, c := range all {
			resp := c.response("POST")
			if got, want := time.Since(began), time.Duration(10+4*i)*time.Second; resp.StatusCode != 408 || got < want || got > max(want, 12*time.Second) {
				t.Errorf("body %d: %s after %v, want 408 after %v", i, resp.Status, got, want)
			}
		}
	})
}

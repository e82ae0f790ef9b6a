package transport

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// statelessHTTP returns a stateless request for an http.Client.
func statelessHTTP(ctx context.Context, url, body string) *http.Request {
	r, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	method, name := "tools/call", "echo"
	if body == statelessListen {
		method, name = "subscriptions/listen", ""
	}
	for k, v := range map[string]string{"Content-Type": typeJSON, "Accept": typeJSON + ", " + typeSSE, "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name} {
		r.Header.Set(k, v)
	}
	return r
}

// bodies are a call, and a stream that lasts.
var bodies = map[string]string{"call": statelessCall, "listen": statelessListen}

// TestClosingCancels has clients close the connection, before the first byte and in mid-stream. Nothing else would end
// the context: the test waits forever if closing does not.
func TestClosingCancels(t *testing.T) {
	t.Parallel()
	kinds := map[string]func(t *testing.T, h http.Handler) (*http.Client, string){"http": plainServer}
	for kind, start := range servers {
		kinds[kind] = start
	}
	for kind, start := range kinds {
		for what, body := range bodies {
			for _, streams := range []bool{false, true} {
				t.Run(kind+"/"+what+"/stream="+map[bool]string{true: "yes", false: "no"}[streams], func(t *testing.T) {
					t.Parallel()
					begun, done, counted := make(chan struct{}), make(chan struct{}), newCounts()
					o := bothEras
					o.Observer = counted
					h := NewHandler(funcs{post: func(x *Exchange) {
						told := make(chan struct{})
						stop := x.WhenGone(func() { close(told) })
						ctx := x.Context()
						if streams {
							if !x.Open() {
								t.Error("not opened")
							}
							x.Event("", 0, []byte("1"))
							x.Flush()
							x.mu.Lock()
							if taken := x.s.conn != nil; taken != (kind == "http" || kind == "https") {
								t.Errorf("connection taken over: %v", taken)
							}
							x.mu.Unlock()
						}
						close(begun)
						<-ctx.Done()
						if context.Cause(ctx) != ErrGone {
							t.Errorf("cause: got %v", context.Cause(ctx))
						}
						wait(t, "what WhenGone was given", told)
						if stop() {
							t.Error("what was called is said to have been stopped")
						}
						if x.Answer(200, []byte("{}")) || x.Open() {
							t.Error("an exchange whose client is gone can be answered")
						}
						close(done)
					}}, o)
					client, url := start(t, h)
					ctx, cancel := context.WithCancel(t.Context())
					go func() {
						resp, err := client.Do(statelessHTTP(ctx, url, body))
						if err == nil {
							_, _ = io.Copy(io.Discard, resp.Body)
							resp.Body.Close()
						}
					}()
					wait(t, "the request", begun)
					cancel()
					wait(t, "the end of the context", done)
					settled(t, h)
					if streams {
						if got := <-counted.cuts; got != cutClosed {
							t.Errorf("cut for %q, want %q", got, cutClosed)
						}
					}
				})
			}
		}
	}
}

func plainServer(t *testing.T, h http.Handler) (*http.Client, string) {
	addr := serveHandler(t, NewHandler(funcs{}, Options{}), h)
	c := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(c.CloseIdleConnections)
	return c, "http://" + addr
}

// TestClosingCancelsAtOnce does the same in virtual time, where no time may pass.
func TestClosingCancelsAtOnce(t *testing.T) {
	for what, raw := range map[string]string{"call": callRequest(), "listen": listenRequest()} {
		for _, streams := range []bool{false, true} {
			t.Run(what, func(t *testing.T) {
				virtually(t, func(t *testing.T, serve func(Dispatcher, Options) *pipes) {
					took, gone := make(chan time.Duration, 1), make(chan struct{})
					p := serve(funcs{post: func(x *Exchange) {
						if streams {
							x.Gone(func() { close(gone) })
							x.Open()
							x.Event("", 0, nil)
							x.Flush()
						} else {
							close(gone)
						}
						began := time.Now()
						<-x.Context().Done()
						took <- time.Since(began)
					}}, bothEras)
					c := p.dial(t).send(raw)
					if streams {
						if _, err := (&events{bufio.NewReader(c.response("POST").Body)}).first(); err != nil {
							t.Error(err)
						}
					}
					time.Sleep(time.Hour)
					c.Close()
					<-gone
					if got := <-took; got != time.Hour {
						t.Errorf("the context was done after %v, want an hour", got)
					}
				})
			})
		}
	}
}

// TestNothingAfterAClose closes only the client's sending direction, which counts as a close, and reads on.
func TestNothingAfterAClose(t *testing.T) {
	t.Parallel()
	for what, raw := range map[string]string{"call": callRequest(), "listen": listenRequest()} {
		for _, way := range []string{"answer", "open", "stream", "nothing"} {
			for _, wrapped := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/wrapped=%v", what, way, wrapped), func(t *testing.T) {
					t.Parallel()
					begun := make(chan struct{})
					var h http.Handler = NewHandler(funcs{post: func(x *Exchange) {
						done := x.base.Done() // must not depend on a call of Context
						if way == "stream" {
							done = x.Context().Done()
							x.Open()
							x.Event("", 0, []byte("1"))
							x.Flush()
						}
						close(begun)
						<-done
						switch way {
						case "answer":
							x.Answer(200, []byte("{}"))
						case "open":
							x.Open()
							fallthrough
						case "stream":
							x.Event("", 0, []byte("2"))
							x.Flush()
							x.Finish()
						}
					}}, bothEras)
					if wrapped {
						h = wrap(h, func(w http.ResponseWriter) http.ResponseWriter { return opaque{w} })
					}
					c := dial(t, serveHandler(t, NewHandler(nil, Options{}), h)).send(raw)
					wait(t, "the request", begun)
					if way == "stream" {
						got, err := (&events{bufio.NewReader(c.response("POST").Body)}).first()
						if got.Data != "1" || err != nil {
							t.Errorf("got %v, %v", got, err)
						}
					}
					if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
						t.Fatal(err)
					}
					rest, _ := io.ReadAll(c.r)
					if way == "stream" {
						rest = bytes.TrimPrefix(rest, []byte("\r\n")) // the end of the first event's chunk
					}
					if len(rest) > 0 {
						t.Errorf("after the close: got %q", rest)
					}
				})
			}
		}
	}
}

// stuck is a writer whose first write takes until release.
type stuck struct {
	opaque
	writes           *atomic.Int32
	entered, release chan struct{}
}

func (s stuck) Write(b []byte) (int, error) {
	if s.writes.Add(1) == 1 {
		close(s.entered)
		<-s.release
	}
	return s.opaque.Write(b)
}

// TestNothingAfterACloseInAWrite has the client leave while one event is being written and the next one waits.
func TestNothingAfterACloseInAWrite(t *testing.T) {
	t.Parallel()
	w := stuck{writes: new(atomic.Int32), entered: make(chan struct{}), release: make(chan struct{})}
	queued, done := make(chan struct{}), make(chan struct{})
	h := NewHandler(funcs{post: func(x *Exchange) {
		x.Open()
		x.Event("", 0, []byte("1"))
		x.Flush()
		<-w.entered
		x.Event("", 0, []byte("2"))
		x.Flush()
		close(queued)
		<-x.base.Done()
		close(done)
	}}, bothEras)
	addr := serveHandler(t, h, wrap(h, func(rw http.ResponseWriter) http.ResponseWriter {
		w := w
		w.ResponseWriter = rw
		return w
	}))
	c := dial(t, addr).send(callRequest())
	wait(t, "the second event", queued)
	c.Close()
	wait(t, "the close", done)
	close(w.release)
	settled(t, h)
	if got := w.writes.Load(); got != 1 {
		t.Errorf("%d writes, want 1", got)
	}
}

// TestCloseAtTheEnd has a client close the connection when it has read the end, before the writer knows that the end
// is written.
func TestCloseAtTheEnd(t *testing.T) {
	t.Parallel()
	h := NewHandler(nil, Options{})
	for ended, want := range map[bool]state{true: finishing, false: gone} {
		x := &Exchange{h: h, Stateless: true, s: &stream{ended: ended}, state: streaming}
		x.charges.Exchange = x
		h.streams.addStream(x)
		x.state = finishing
		x.client().endByClient()
		if x.state != want {
			t.Errorf("end written %v: got state %d, want %d", ended, x.state, want)
		}
	}
}

// TestListenFinishes ends a stream on a taken-over connection well, though its client closes at once.
func TestListenFinishes(t *testing.T) {
	t.Parallel()
	counted, o := newCounts(), bothEras
	o.Observer = counted
	release := make(chan struct{})
	s := serve(t, funcs{post: func(x *Exchange) {
		x.Open()
		x.Event("", 0, []byte("1"))
		x.Flush()
		<-release
		x.Event("", 0, []byte("2"))
		x.Finish()
	}}, o)
	for range 20 {
		c := dial(t, s.addr).send(listenRequest())
		resp := c.response("POST")
		release <- struct{}{}
		got, err := all(resp.Body)
		c.Close()
		if err != nil || len(got) != 2 || resp.Header.Get("Mcp-Session-Id") != "" {
			t.Errorf("got %v, %v", got, err)
		}
	}
	settled(t, s.Handler)
	if len(counted.cuts) > 0 {
		t.Errorf("cut for %q", <-counted.cuts)
	}
}

// TestListenersThatTalk has streams send events that their clients do not read; a write finds the clients that are
// gone.
func TestListenersThatTalk(t *testing.T) {
	virtually(t, func(t *testing.T, serve func(Dispatcher, Options) *pipes) {
		gone := make(chan struct{})
		p := serve(funcs{post: func(x *Exchange) {
			x.Gone(func() { close(gone) })
			x.Open()
			go func() {
				for {
					x.Comment()
					x.Flush()
					select {
					case <-x.Context().Done():
						return
					case <-time.After(15 * time.Second):
					}
				}
			}()
		}}, bothEras)
		c := p.dial(t).send(listenRequest())
		c.response("POST")
		go func() { _, _ = io.Copy(io.Discard, c.r) }()
		_ = c.SetWriteDeadline(time.Now().Add(time.Minute))
		_, _ = io.WriteString(c.Conn, strings.Repeat("x", 2*readMost))
		c.Close()
		<-gone
	})
}

// TestAnswerLast answers while the dispatcher goes on.
func TestAnswerLast(t *testing.T) {
	t.Parallel()
	kinds := map[string]func(t *testing.T, h http.Handler) (*http.Client, string){"http": plainServer}
	for kind, start := range servers {
		kinds[kind] = start
	}
	for kind, start := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			release, over := make(chan struct{}), make(chan struct{})
			h := NewHandler(funcs{post: func(x *Exchange) {
				defer close(over)
				stop := x.WhenGone(func() { t.Error("the client of a dispatcher that goes on is said to be gone") })
				ctx := x.Context()
				if !x.AnswerLast(400, pong) || x.AnswerLast(200, pong) || x.Answer(200, pong) {
					t.Error("want one answer")
				}
				<-release
				if err := ctx.Err(); err != nil {
					t.Errorf("the context of a dispatcher that goes on: %v", err)
				}
				if x.Context() != ctx {
					t.Error("another context")
				}
				if !stop() || stop() {
					t.Error("want what waits to be stopped once")
				}
			}}, bothEras)
			client, url := start(t, h)
			resp, err := client.Do(statelessHTTP(t.Context(), url, statelessCall))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			if resp.StatusCode != 400 || string(body) != string(pong) || err != nil {
				t.Errorf("got %d %s, %v", resp.StatusCode, body, err)
			}
			if resp.Close != (resp.ProtoMajor == 1) {
				t.Errorf("HTTP/%d: connection closed: %v", resp.ProtoMajor, resp.Close)
			}
			client.CloseIdleConnections()
			close(release)
			wait(t, "the dispatcher", over)
		})
	}
}

// TestAnswerLastOutlivesTheConnection has the client close the connection after it has its response.
func TestAnswerLastOutlivesTheConnection(t *testing.T) {
	virtually(t, func(t *testing.T, serve func(Dispatcher, Options) *pipes) {
		over := make(chan error)
		p := serve(funcs{post: func(x *Exchange) {
			ctx := x.Context()
			x.AnswerLast(200, pong)
			time.Sleep(time.Hour)
			over <- ctx.Err()
		}}, bothEras)
		c := p.dial(t).send(callRequest())
		if body, err := io.ReadAll(c.response("POST").Body); string(body) != string(pong) || err != nil {
			t.Errorf("got %s, %v", body, err)
		}
		c.Close()
		if err := <-over; err != nil {
			t.Errorf("the context: %v", err)
		}
	})
}

// TestAnswerKeepsTheConnection makes stateless calls one after another on one connection.
func TestAnswerKeepsTheConnection(t *testing.T) {
	t.Parallel()
	returned := make(chan struct{}, 3)
	s := serve(t, funcs{post: func(x *Exchange) {
		defer func() { returned <- struct{}{} }()
		stop := x.WhenGone(func() { t.Error("the client is said to be gone") })
		if x.Context().Err() != nil {
			t.Error("the context is done")
		}
		x.Answer(200, pong)
		if !stop() {
			t.Error("the client is gone")
		}
	}}, bothEras)
	c := dial(t, s.addr)
	for range 3 {
		resp := c.send(callRequest()).response("POST")
		if body, err := io.ReadAll(resp.Body); string(body) != string(pong) || err != nil || resp.Close {
			t.Errorf("got %s, %v, close %v", body, err, resp.Close)
		}
	}
	for range 3 { // the end of the test closes the connection, which must not happen before the last handler has asked
		<-returned
	}
}

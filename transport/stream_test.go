package transport

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestStreamEvents(t *testing.T) {
	t.Parallel()
	s := serve(t, funcs{post: func(x *Exchange) {
		x.SetSession("s-1")
		if !x.Open() {
			t.Error("Open returned false")
		}
		x.Event("e.0", 1000, nil)
		x.Event("e.1", 0, []byte(`{"a":1}`))
		x.Flush()
		x.Comment()
		x.Flush()
		x.Event("", 0, []byte("{\n\"b\":\r\n2}"))
		x.Event("bad\nid", 0, []byte(`3`))
		x.Answer(200, []byte("ignored"))
		x.Finish()
		x.Event("late", 0, []byte(`4`))
	}}, Options{})
	c := dial(t, s.addr).send(request("POST", s.addr, ping, "Origin: http://"+s.addr))
	resp := c.response("POST")
	got, err := all(resp.Body)
	if err != nil {
		t.Fatalf("stream ended with %v", err)
	}
	want := []event{{ID: "e.0", Retry: "1000"}, {ID: "e.1", Data: `{"a":1}`}, {Data: "{\n\"b\":\n2}"}, {Data: "3"}}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("events (-got +want):\n%s", diff)
	}
	for name, want := range map[string]string{
		"Content-Type": typeSSE, "Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no",
		"Mcp-Session-Id": "s-1", "Access-Control-Allow-Origin": "http://" + s.addr, "Vary": "Origin",
	} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("header %s: got %q, want %q", name, got, want)
		}
	}
	if !resp.Close || resp.Header.Get("Date") == "" {
		t.Errorf("response must announce the close and carry a date: %v", resp.Header)
	}
	if rest, err := io.ReadAll(c.r); len(rest) != 0 || err != nil {
		t.Errorf("after the stream: got %q, %v, want the end of the connection", rest, err)
	}
}

// opened returns a server that sends its GET streams to the channel.
func opened(t testing.TB, o Options) (*running, <-chan *Exchange) {
	streams := make(chan *Exchange, 4096)
	return serve(t, funcs{get: func(x *Exchange) {
		if !x.Open() {
			t.Error("Open returned false")
		}
		streams <- x
	}}, o), streams
}

func get(t testing.TB, addr string) (*client, *http.Response) {
	c := dial(t, addr).send(request("GET", addr, ""))
	return c, c.response("GET")
}

// TestFirstByte requires that a stream begins with a byte of its body, though nothing follows: proxies keep back the header
// until there is one.
func TestFirstByte(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *testing.T, serve func(Dispatcher, Options) *pipes) {
		open := make(chan *Exchange, 1)
		p := serve(funcs{get: func(x *Exchange) { x.Open(); open <- x }, post: func(x *Exchange) { x.Open(); x.Finish() }}, Options{})
		for _, version := range []string{"HTTP/1.1", "HTTP/1.0"} {
			begin := time.Now()
			resp := p.dial(t).send(strings.Replace(request("GET", "x", ""), "HTTP/1.1", version, 1)).response("GET")
			first := make([]byte, 4)
			if n, err := io.ReadAtLeast(resp.Body, first, len(comment)); string(first[:n]) != comment || err != nil || time.Since(begin) > 0 {
				t.Errorf("%s: the body begins with %q after %v, %v", version, first[:n], time.Since(begin), err)
			}
			(<-open).Finish()
			if rest, err := io.ReadAll(resp.Body); len(rest) > 0 || err != nil {
				t.Errorf("%s: then comes %q, %v", version, rest, err)
			}
		}
		resp := p.dial(t).send(request("POST", "x", ping)).response("POST")
		if body, err := io.ReadAll(resp.Body); strings.TrimPrefix(string(body), comment) != "" || err != nil {
			t.Errorf("an empty stream has %q, %v", body, err)
		}
	})
}

func TestStreamHTTP10(t *testing.T) {
	t.Parallel()
	s, streams := opened(t, Options{})
	raw := strings.Replace(request("GET", s.addr, ""), "HTTP/1.1", "HTTP/1.0", 1)
	c := dial(t, s.addr).send(raw)
	resp := c.response("GET")
	x := <-streams
	x.Event("", 0, []byte("1"))
	x.Finish()
	body, err := io.ReadAll(resp.Body)
	text := strings.TrimPrefix(string(body), comment) // the event may come with the header
	if resp.Proto != "HTTP/1.0" || len(resp.TransferEncoding) != 0 || text != "data: 1\n\n" || err != nil {
		t.Errorf("got %s %v %q, %v", resp.Proto, resp.TransferEncoding, body, err)
	}
}

func TestFinishDeliversAll(t *testing.T) {
	t.Parallel()
	s, streams := opened(t, Options{})
	_, resp := get(t, s.addr)
	x := <-streams
	type result struct {
		events []event
		err    error
	}
	read := make(chan result, 1)
	go func() {
		got, err := all(resp.Body)
		read <- result{got, err}
	}()
	var want []event
	for i := range 2000 {
		data := strconv.Itoa(i)
		if i == 999 {
			data = strings.Repeat("x", 3<<20) // beyond MaxQueued
		}
		if err := x.Room(t.Context()); err != nil {
			t.Fatal(err)
		}
		x.Event(strconv.Itoa(i), 0, []byte(data))
		want = append(want, event{ID: strconv.Itoa(i), Data: data})
		if i%7 == 0 || i == 999 {
			x.Flush()
		}
	}
	x.Finish()
	if got := <-read; got.err != nil || !cmp.Equal(got.events, want) {
		t.Errorf("got %d events, %v, want %d", len(got.events), got.err, len(want))
	}
}

// TestEventsWaitForFlush checks that events wait for Flush, because until then they may not be stored.
func TestEventsWaitForFlush(t *testing.T) {
	t.Parallel()
	s, streams := opened(t, Options{})
	c, resp := get(t, s.addr)
	x := <-streams
	x.Event("1", 0, nil)
	x.Flush()
	x.Event("2", 0, nil)
	e := &events{bufio.NewReader(resp.Body)}
	got, err := e.first()
	if err != nil || got.ID != "1" {
		t.Fatalf("got %v, %v", got, err)
	}
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if got, err := e.next(); err == nil {
		t.Errorf("got %v before Flush", got)
	}
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	for _, inline := range []bool{false, true} {
		h := NewHandler(funcs{get: func(x *Exchange) {
			if !x.Open() {
				return
			}
			var wg sync.WaitGroup
			for g := range 8 {
				wg.Go(func() {
					for i := range 200 {
						x.Event(fmt.Sprintf("%d.%d", g, i), 0, []byte(`{"n":1}`))
						x.Flush()
						x.Comment()
						if x.Room(x.Context()) != nil {
							return
						}
					}
				})
			}
			wg.Go(func() { x.Gone(func() {}); x.SetSession("x"); x.Answer(200, nil); x.Open() })
			if x.LastEventID == "cut" {
				wg.Go(func() { x.Cut(); x.Finish() })
			}
			wg.Wait()
			for range 4 {
				wg.Go(x.Finish)
			}
			wg.Wait()
		}}, Options{})
		var handler http.Handler = h
		if inline {
			handler = wrap(h, func(w http.ResponseWriter) http.ResponseWriter { return opaque{w} })
		}
		addr := serveHandler(t, h, handler)
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				header := "Last-Event-ID: finish"
				if i%2 == 1 {
					header = "Last-Event-ID: cut"
				}
				c := dial(t, addr).send(request("GET", addr, "", header))
				resp, err := http.ReadResponse(c.r, nil)
				var got []event
				if err == nil {
					got, err = all(resp.Body)
				}
				if i%2 == 0 && (err != nil || len(got) != 1600) {
					t.Errorf("inline %v: got %d events, %v, want 1600", inline, len(got), err)
				}
				next := map[string]int{}
				for _, ev := range got {
					g, n, _ := strings.Cut(ev.ID, ".")
					if n != strconv.Itoa(next[g]) || ev.Data != `{"n":1}` {
						t.Errorf("inline %v: got event %v, want number %d", inline, ev, next[g])
						break
					}
					next[g]++
				}
			})
		}
		wg.Wait()
		settled(t, h)
	}
}

// settled waits until h has no stream.
func settled(t testing.TB, h *Handler) {
	t.Helper()
	for range 12_000 {
		if h.Streams() == 0 {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
	t.Errorf("streams: got %d, want 0", h.Streams())
}

func TestSlowReaderIsCutAlone(t *testing.T) {
	t.Parallel()
	seen := newCounts()
	s, streams := opened(t, Options{MaxQueued: 64 << 10, Observer: seen})
	slow := dial(t, s.addr)
	_ = slow.Conn.(*net.TCPConn).SetReadBuffer(4096)
	slow.send(request("GET", s.addr, ""))
	slow.response("GET")
	x := <-streams
	_, resp := get(t, s.addr)
	y := <-streams
	gone := make(chan struct{})
	x.Gone(func() { close(gone) })
	ctx := x.Context()
	data := bytes.Repeat([]byte("y"), 8<<10)
	sent := 0
	for ; ctx.Err() == nil && sent < 10000; sent++ {
		x.Event("", 0, data)
		x.Flush()
	}
	wait(t, "Gone of the slow reader", gone)
	if got := <-seen.cuts; got != cutQueue {
		t.Errorf("cut for %q, want %q", got, cutQueue)
	}
	if err := x.Room(t.Context()); err != ErrGone {
		t.Errorf("Room of a cut stream: got %v, want ErrGone", err)
	}
	if x.s.pending != nil || x.s.out != nil {
		t.Error("a cut stream holds buffers")
	}
	y.Event("ok", 0, nil)
	y.Finish()
	if got, err := all(resp.Body); err != nil || len(got) != 1 {
		t.Errorf("the other stream: got %v, %v", got, err)
	}
	settled(t, s.Handler)
}

func TestVanishedClient(t *testing.T) {
	t.Parallel()
	seen := newCounts()
	s, streams := opened(t, Options{Observer: seen})
	c, _ := get(t, s.addr)
	x := <-streams
	gone := make(chan struct{})
	x.Gone(func() { close(gone) })
	ctx := x.Context()
	if ctx.Err() != nil {
		t.Error("the context of an open stream is done")
	}
	c.Close()
	for done := false; !done; {
		x.Comment()
		x.Flush()
		select {
		case <-gone:
			done = true
		case <-time.After(time.Millisecond):
		}
	}
	<-ctx.Done()
	if context.Cause(ctx) != ErrGone {
		t.Errorf("cause: got %v, want ErrGone", context.Cause(ctx))
	}
	again := make(chan struct{})
	x.Gone(func() { close(again) })
	wait(t, "Gone of a stream that is gone", again)
	if got := <-seen.cuts; got != cutWrite {
		t.Errorf("cut for %q, want %q", got, cutWrite)
	}
}

// TestContextSurvivesTheUpgrade takes the context before Open, as a handler does.
func TestContextSurvivesTheUpgrade(t *testing.T) {
	t.Parallel()
	type pair struct {
		x   *Exchange
		ctx context.Context
	}
	streams := make(chan pair, 1)
	s := serve(t, funcs{post: func(x *Exchange) {
		ctx := x.Context()
		x.Open()
		streams <- pair{x, ctx}
	}}, Options{})
	dial(t, s.addr).send(request("POST", s.addr, ping)).response("POST")
	p := <-streams
	for range 20 { // ServeHTTP has returned by then, and net/http has ended the request's own context
		<-time.After(time.Millisecond)
	}
	if p.ctx.Err() != nil {
		t.Errorf("context of an open stream: %v", context.Cause(p.ctx))
	}
	p.x.Cut()
	wait(t, "the context of a cut stream", p.ctx.Done())
}

func TestClientGoneBeforeAnAnswer(t *testing.T) {
	t.Parallel()
	entered, over := make(chan struct{}), make(chan struct{})
	s := serve(t, funcs{post: func(x *Exchange) {
		ctx := x.Context()
		close(entered)
		<-ctx.Done()
		if x.Open() { // the client may have shut down only its own side
			x.Gone(func() { close(over) })
			for range 20 {
				x.Event("", 0, bytes.Repeat([]byte("1"), 1<<16))
				x.Flush()
			}
			return
		}
		close(over)
	}}, Options{})
	c := dial(t, s.addr).send(request("POST", s.addr, ping))
	<-entered
	c.Close()
	wait(t, "the end of the exchange", over)
}

// TestHalfClosedConnectionIsAnswered checks that a client that has shut down its sending side, and reads on,
// gets its response, plain or as a stream.
func TestHalfClosedConnectionIsAnswered(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"plain", "stream"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			begun := make(chan struct{})
			s := serve(t, funcs{post: func(x *Exchange) {
				close(begun)
				<-x.base.Done()
				if way == "plain" {
					x.Answer(200, []byte("{}"))
					return
				}
				x.Open()
				x.Event("", 0, []byte("1"))
				x.Finish()
			}}, Options{})
			c := dial(t, s.addr).send(request("POST", s.addr, ping))
			wait(t, "the request", begun)
			if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(c.response("POST").Body)
			if want := map[string]string{"plain": "{}", "stream": "data: 1\n\n"}[way]; strings.TrimPrefix(string(body), comment) != want || err != nil {
				t.Errorf("got %q, %v, want %q", body, err, want)
			}
		})
	}
}

func TestCloseEndsStreams(t *testing.T) {
	t.Parallel()
	s, streams := opened(t, Options{})
	_, resp := get(t, s.addr)
	(<-streams).Event("last", 0, nil)
	if got := s.Streams(); got != 1 {
		t.Errorf("streams: got %d, want 1", got)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
	if got, err := all(resp.Body); err != nil || len(got) != 1 {
		t.Errorf("got %v, %v, want what was queued", got, err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if resp, body := do(t, s.addr, request("GET", s.addr, "")); resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "1" {
		t.Errorf("after Close: got %d %s", resp.StatusCode, body)
	}
}

func TestCloseCutsWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	seen := newCounts()
	s, streams := opened(t, Options{Observer: seen})
	c := dial(t, s.addr)
	_ = c.Conn.(*net.TCPConn).SetReadBuffer(4096)
	c.send(request("GET", s.addr, "")).response("GET")
	(<-streams).Event("", 0, bytes.Repeat([]byte("x"), 32<<20))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(io.ErrNoProgress)
	if err := s.Close(ctx); err != io.ErrNoProgress {
		t.Errorf("Close: got %v, want the cause", err)
	}
	if got := <-seen.cuts; got != cutClosing {
		t.Errorf("cut for %q, want %q", got, cutClosing)
	}
	if got := s.Streams(); got != 0 {
		t.Errorf("streams: got %d, want 0", got)
	}
}

// TestPollingGoesOn ends the connection of a call whose handler runs on.
func TestPollingGoesOn(t *testing.T) {
	t.Parallel()
	for _, inline := range []bool{false, true} {
		read, over := make(chan struct{}), make(chan struct{})
		h := NewHandler(funcs{post: func(x *Exchange) {
			x.Open()
			x.Event("0", 5, nil)
			x.Finish()
			<-read // the client has seen the end while this is running
			close(over)
		}}, Options{})
		var handler http.Handler = h
		if inline {
			handler = wrap(h, func(w http.ResponseWriter) http.ResponseWriter { return opaque{w} })
		}
		addr := serveHandler(t, h, handler)
		resp := dial(t, addr).send(request("POST", addr, ping)).response("POST")
		if got, err := all(resp.Body); err != nil || len(got) != 1 {
			t.Errorf("got %v, %v", got, err)
		}
		close(read)
		wait(t, "the handler", over)
	}
}

// TestUnreadBytesDoNotResetTheEnd pipelines a request that the server never reads behind one that becomes a
// stream.
func TestUnreadBytesDoNotResetTheEnd(t *testing.T) {
	t.Parallel()
	s, streams := opened(t, Options{})
	c := dial(t, s.addr).send(request("GET", s.addr, "") + request("POST", s.addr, ping))
	resp := c.response("GET")
	x := <-streams
	c.send(request("POST", s.addr, ping))
	x.Event("", 0, bytes.Repeat([]byte("z"), 1<<20))
	x.Finish()
	if got, err := all(resp.Body); err != nil || len(got) != 1 {
		t.Errorf("got %d events, %v", len(got), err)
	}
}

func TestIdleStreamsHaveNoGoroutine(t *testing.T) {
	s, streams := opened(t, Options{})
	n := 2000
	if testing.Short() {
		n = 200
	}
	before := runtime.NumGoroutine()
	for range n {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, request("GET", s.addr, "")); err != nil {
			t.Fatal(err)
		}
		x := <-streams
		x.Event("0", 1000, nil)
		x.Flush()
	}
	after := 0
	for range 12_000 {
		if after = runtime.NumGoroutine() - before; after < 20 {
			break
		}
		<-time.After(5 * time.Millisecond)
	}
	if after >= 20 || s.Streams() != n {
		t.Errorf("%d idle streams: %d goroutines more than before", s.Streams(), after)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
}

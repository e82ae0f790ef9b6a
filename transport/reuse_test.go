package transport

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// reusing starts a server that takes connections back after a stream.
func reusing(t testing.TB, d Dispatcher, o Options) (*httptest.Server, string) {
	s := httptest.NewUnstartedServer(NewHandler(d, o))
	Configure(s.Config)
	s.Listener = front(Reuse(s.Listener, s.Config), s.Config)
	s.Start()
	t.Cleanup(s.Close)
	return s, s.Listener.Addr().String()
}

// oneEvent answers with a stream of one event, the body.
func oneEvent(x *Exchange) {
	x.Open()
	x.Event("", 0, x.Body)
	x.Finish()
}

// TestReuse sends requests on one connection whose responses are streams, then plain ones, then streams again.
func TestReuse(t *testing.T) {
	t.Parallel()
	_, addr := reusing(t, funcs{post: oneEvent}, Options{})
	c := dial(t, addr)
	for i := range 6 {
		if i%3 == 2 {
			resp := c.send(request("GET", addr, "")).response("GET")
			body, err := io.ReadAll(resp.Body)
			if resp.StatusCode != 200 || string(body) != `{"event":""}` || err != nil {
				t.Fatalf("plain answer %d: %s %q, %v", i, resp.Status, body, err)
			}
			continue
		}
		resp := c.send(request("POST", addr, ping)).response("POST")
		if resp.Close {
			t.Fatalf("stream %d announces the end of the connection", i)
		}
		got, err := all(resp.Body)
		if diff := cmp.Diff(got, []event{{Data: ping}}); diff != "" || err != nil {
			t.Fatalf("stream %d: %v (-got +want):\n%s", i, err, diff)
		}
	}
}

// TestReuseWaits checks that a connection may be idle for longer than the header of a request may take, but not
// forever.
func TestReuseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pipes{make(chan net.Conn), make(chan struct{})}
		s := &http.Server{Handler: NewHandler(funcs{post: oneEvent}, Options{})}
		Configure(s) // 10 seconds for a header, 2 minutes idle
		served := make(chan error, 1)
		go func() { served <- s.Serve(front(Reuse(p, s), s)) }()
		c := p.dial(t)
		for range 3 {
			resp := c.send(request("POST", "x", ping)).response("POST")
			if got, err := all(resp.Body); len(got) != 1 || err != nil {
				t.Fatalf("the stream: %v, %v", got, err)
			}
			time.Sleep(time.Minute)
		}
		began := time.Now()
		if rest, err := io.ReadAll(c.r); len(rest) != 0 || err != nil || time.Since(began) != time.Minute {
			t.Errorf("after the last stream: %q, %v after another %v, want the end of the connection after a minute", rest, err, time.Since(began))
		}
		idle := p.dial(t)
		resp := idle.send(request("POST", "x", ping)).response("POST")
		if _, err := all(resp.Body); err != nil {
			t.Fatal(err)
		}
		_ = s.Close()
		if err := <-served; err != http.ErrServerClosed {
			t.Errorf("serve: %v", err)
		}
		if _, err := idle.r.ReadByte(); err == nil {
			t.Error("an idle connection is open after the server's end")
		}
	})
}

// TestReuseOfWhatCameMeanwhile sends the next request while the stream is open.
func TestReuseOfWhatCameMeanwhile(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	_, addr := reusing(t, funcs{post: func(x *Exchange) {
		x.Open()
		x.Flush()
		<-next
		x.Finish()
	}}, Options{})
	c := dial(t, addr).send(request("POST", addr, ping))
	resp := c.response("POST")
	c.send(request("GET", addr, ""))
	close(next)
	if got, err := all(resp.Body); len(got) != 0 || err != nil {
		t.Fatalf("the stream: %v, %v", got, err)
	}
	if resp := c.response("GET"); resp.StatusCode != 200 {
		t.Errorf("the request beside the stream is answered with %s", resp.Status)
	}
}

func TestNoReuse(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(addr string) string{
		"the client closes": func(addr string) string { return request("POST", addr, ping, "Connection: close") },
		"HTTP/1.0": func(addr string) string {
			return strings.Replace(request("POST", addr, ping), "HTTP/1.1", "HTTP/1.0", 1)
		},
		"read ahead":    func(addr string) string { return request("POST", addr, ping) + request("GET", addr, "") },
		"a body unread": func(addr string) string { return request("GET", addr, ping, "Content-Length: 40") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, addr := reusing(t, funcs{post: oneEvent, get: oneEvent}, Options{})
			c := dial(t, addr)
			resp := c.send(change(addr)).response("POST")
			if !resp.Close {
				t.Errorf("the answer does not announce the end of the connection: %v", resp.Header)
			}
			if _, err := all(resp.Body); err != nil {
				t.Errorf("the stream: %v", err)
			}
			if rest, err := io.ReadAll(c.r); len(rest) != 0 || err != nil {
				t.Errorf("after the stream: %q, %v, want the end of the connection", rest, err)
			}
		})
	}
}

// TestReuseBreaks checks that a stream that is cut ends without the end of a response.
func TestReuseBreaks(t *testing.T) {
	t.Parallel()
	read := make(chan struct{})
	_, addr := reusing(t, funcs{post: func(x *Exchange) {
		x.Open()
		x.Event("", 0, x.Body)
		x.Flush()
		<-read
		x.Cut()
	}}, Options{})
	resp := dial(t, addr).send(request("POST", addr, ping)).response("POST")
	stream := &events{bufio.NewReader(resp.Body)}
	if got, err := stream.first(); got.Data != ping || err != nil {
		t.Fatalf("the event: %v, %v", got, err)
	}
	close(read)
	if _, err := stream.next(); err != io.ErrUnexpectedEOF {
		t.Errorf("the stream that is cut ends with %v", err)
	}
}

// TestReuseOfAClosedServer ends a stream after its server has stopped taking connections.
func TestReuseOfAClosedServer(t *testing.T) {
	t.Parallel()
	opened, end := make(chan struct{}), make(chan struct{})
	s, addr := reusing(t, funcs{post: func(x *Exchange) {
		x.Open()
		x.Flush()
		close(opened)
		<-end
		x.Event("", 0, x.Body)
		x.Finish()
	}}, Options{})
	resp := dial(t, addr).send(request("POST", addr, ping)).response("POST")
	<-opened
	_ = s.Listener.Close()
	close(end)
	got, err := all(resp.Body)
	if diff := cmp.Diff(got, []event{{Data: ping}}); diff != "" || err != nil {
		t.Errorf("the stream: %v (-got +want):\n%s", err, diff)
	}
	if _, err := http.Get("http://" + addr); err == nil {
		t.Error("the server takes connections still")
	}
}

// TestReuseOfStatelessStreams sends stateless requests on one connection, and closes it during the last one.
func TestReuseOfStatelessStreams(t *testing.T) {
	t.Parallel()
	left := make(chan struct{})
	_, addr := reusing(t, funcs{post: func(x *Exchange) {
		if string(x.Msg.ID) != "0" {
			oneEvent(x)
			return
		}
		x.Open()
		x.Event("", 0, nil)
		x.Flush()
		<-x.Context().Done()
		close(left)
	}}, bothEras)
	c := dial(t, addr)
	for _, raw := range []string{listenRequest(), callRequest(), listenRequest(), callRequest()} {
		resp := c.send(raw).response("POST")
		if got, err := all(resp.Body); len(got) != 1 || err != nil {
			t.Fatalf("got %v, %v", got, err)
		}
		if resp.Close != (runtime.GOOS != "linux") {
			t.Fatalf("the end of the connection is announced: %v", resp.Close)
		}
		if resp.Close {
			c = dial(t, addr)
		}
	}
	if _, err := (&events{bufio.NewReader(c.send(strings.Replace(callRequest(), `"id":7`, `"id":0`, 1)).response("POST").Body)}).first(); err != nil {
		t.Fatal(err)
	}
	c.Close()
	wait(t, "the end of the context", left)
}

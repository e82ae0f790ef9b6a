package transport

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/test/kit/when"
)

func TestOneAnswerOnly(t *testing.T) {
	t.Parallel()
	stale := make(chan *Exchange, 1)
	s := serve(t, funcs{post: func(x *Exchange) {
		var yes atomic.Int32
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				if x.Answer(200, []byte(strconv.Itoa(i))) {
					yes.Add(1)
				}
			})
		}
		wg.Wait()
		x.Accepted()
		x.Reject(refusal.New(500, 1, "no"))
		x.SetSession("late")
		if x.Open() || yes.Load() != 1 {
			t.Errorf("answers: got %d, want 1", yes.Load())
		}
		x.Event("1", 0, nil)
		x.Comment()
		x.Flush()
		x.Finish()
		x.Cut()
		if err := x.Room(t.Context()); err != ErrGone {
			t.Errorf("Room of an answered exchange: got %v", err)
		}
		stale <- x
	}}, Options{})
	c := dial(t, s.addr)
	for range 3 {
		resp := c.send(request("POST", s.addr, ping)).response("POST")
		body, err := io.ReadAll(resp.Body)
		if resp.StatusCode != 200 || len(body) != 1 || err != nil || resp.Header.Get("Mcp-Session-Id") != "" {
			t.Errorf("got %d %q, %v", resp.StatusCode, body, err)
		}
		// A goroutine that keeps the exchange although it must not.
		x := <-stale
		if x.Answer(200, nil) || x.Open() {
			t.Error("an exchange that is over can be answered")
		}
	}
}

func TestAcceptedHasNoBody(t *testing.T) {
	t.Parallel()
	s := serve(t, funcs{post: func(x *Exchange) { x.Accepted() }}, Options{})
	resp, body := do(t, s.addr, request("POST", s.addr, `{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	if resp.StatusCode != 202 || body != "" || resp.ContentLength != 0 || resp.Header.Get("Content-Type") != "" {
		t.Errorf("got %d %q, %v", resp.StatusCode, body, resp.Header)
	}
}

func TestNoAnswer(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ body, want string }{
		{ping, errorBody(-32603, "internal error", `,"id":7`)},
		{`{"jsonrpc":"2.0","method":"n"}`, errorBody(-32603, "internal error", "")},
		{`{"jsonrpc":"2.0","id":1,"result":{}}`, errorBody(-32603, "internal error", "")},
	} {
		for name, post := range map[string]func(*Exchange){
			"nothing": func(*Exchange) {},
			"panic":   func(*Exchange) { panic("a bug") },
		} {
			var log bytes.Buffer
			s := serve(t, funcs{post: post}, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
			resp, body := do(t, s.addr, request("POST", s.addr, row.body))
			if resp.StatusCode != 500 || body != row.want {
				t.Errorf("%s: got %d %s, want 500 %s", name, resp.StatusCode, body, row.want)
			}
			if logged := strings.Contains(log.String(), "answer_test.go"); logged != (name == "panic") {
				t.Errorf("%s: stack logged %v", name, logged)
			}
		}
	}
}

func TestPanicCutsAnOpenStream(t *testing.T) {
	t.Parallel()
	seen := newCounts()
	s := serve(t, funcs{post: func(x *Exchange) { x.Open(); panic("a bug") }}, Options{Observer: seen})
	c := dial(t, s.addr).send(request("POST", s.addr, ping))
	if raw, err := io.ReadAll(c); err == nil && strings.HasSuffix(string(raw), lastChunk) {
		t.Errorf("got %q, want a broken stream", raw)
	}
	if got := <-seen.cuts; got != cutPanic {
		t.Errorf("cut for %q, want %q", got, cutPanic)
	}
}

func TestCutBeforeAnything(t *testing.T) {
	t.Parallel()
	s := serve(t, funcs{post: func(x *Exchange) {
		ctx := x.Context()
		x.Cut()
		<-ctx.Done()
		if x.Answer(200, nil) || x.Open() {
			t.Error("a cut exchange can be answered")
		}
	}}, Options{})
	c := dial(t, s.addr).send(request("POST", s.addr, ping))
	if raw, _ := io.ReadAll(c); len(raw) != 0 {
		t.Errorf("got %q, want a closed connection", raw)
	}
}

// TestAnswerFromElsewhere has Post wait for an answer on another goroutine, and Post return in the middle of
// such an answer.
func TestAnswerFromElsewhere(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat([]byte("1"), 4<<20)
	s := serve(t, funcs{post: func(x *Exchange) {
		begun := make(chan struct{})
		go func() {
			close(begun)
			x.Answer(200, large)
		}()
		<-begun
		for x.isFresh() {
			<-time.After(time.Millisecond)
		}
	}}, Options{})
	resp, body := do(t, s.addr, request("POST", s.addr, ping))
	if resp.StatusCode != 200 || body != string(large) {
		t.Errorf("got %d, %d bytes", resp.StatusCode, len(body))
	}
}

func TestPipelinedAndKeptAlive(t *testing.T) {
	t.Parallel()
	s := serve(t, funcs{}, Options{})
	c := dial(t, s.addr)
	var raw string
	for i := range 20 {
		raw += request("POST", s.addr, `{"jsonrpc":"2.0","id":`+strconv.Itoa(i)+`,"method":"ping"}`)
	}
	c.send(raw)
	for i := range 20 {
		resp := c.response("POST")
		body, err := io.ReadAll(resp.Body)
		if want := `{"jsonrpc":"2.0","id":` + strconv.Itoa(i) + `,"method":"ping"}`; string(body) != want || err != nil {
			t.Fatalf("got %s, %v, want %s", body, err, want)
		}
	}
}

func TestExpectContinue(t *testing.T) {
	t.Parallel()
	s := serve(t, funcs{}, Options{})
	c := dial(t, s.addr)
	head := strings.TrimSuffix(request("POST", s.addr, ping, "Expect: 100-continue"), ping)
	if resp := c.send(head).response("POST"); resp.StatusCode != 100 {
		t.Fatalf("got %d, want 100", resp.StatusCode)
	}
	resp := c.send(ping).response("POST")
	if body, _ := io.ReadAll(resp.Body); string(body) != ping {
		t.Errorf("got %s", body)
	}
	// The handler does not ask for a body that it would refuse.
	s = serve(t, funcs{}, Options{MaxBody: 3})
	if resp, _ := do(t, s.addr, strings.TrimSuffix(request("POST", s.addr, ping, "Expect: 100-continue"), ping)); resp.StatusCode != 413 {
		t.Errorf("got %d, want 413", resp.StatusCode)
	}
}

func TestEndlessChunkedBody(t *testing.T) {
	t.Parallel()
	s := serve(t, funcs{}, Options{MaxBody: 1 << 20})
	c := dial(t, s.addr)
	c.send(request("POST", s.addr, "", "Content-Length: ", "Transfer-Encoding: chunked"))
	sent := make(chan int, 1)
	go func() {
		chunk, n := "8000\r\n"+strings.Repeat(" ", 0x8000)+"\r\n", 0
		for {
			if _, err := io.WriteString(c.Conn, chunk); err != nil {
				sent <- n
				return
			}
			n += 0x8000
		}
	}()
	if resp := c.response("POST"); resp.StatusCode != 413 || !resp.Close {
		t.Errorf("got %d, close %v, want 413 and a close", resp.StatusCode, resp.Close)
	}
	if got := <-sent; got > 64<<20 {
		t.Errorf("the server took %d bytes", got)
	}
}

func TestHeaderBomb(t *testing.T) {
	t.Parallel()
	s := serve(t, funcs{}, Options{})
	resp, _ := do(t, s.addr, request("POST", s.addr, ping, "X-Bomb: "+strings.Repeat("b", 60<<10)))
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("got %d, want 431", resp.StatusCode)
	}
}

func TestConfigureKeepsWhatIsSet(t *testing.T) {
	t.Parallel()
	s := &http.Server{IdleTimeout: 7}
	Configure(s)
	if s.IdleTimeout != 7 || s.ReadHeaderTimeout != 10*time.Second || s.MaxHeaderBytes != 32<<10 || s.WriteTimeout != 0 {
		t.Errorf("got %v, %v, %d, %v", s.IdleTimeout, s.ReadHeaderTimeout, s.MaxHeaderBytes, s.WriteTimeout)
	}
}

// TestOtherHandlersKeepTheirConnection checks that no deadline of ours outlives our response.
func TestOtherHandlersKeepTheirConnection(t *testing.T) {
	when.Full(t, "20 ms to write an answer, in real time")
	t.Parallel()
	h := NewHandler(funcs{}, Options{WriteTimeout: 20 * time.Millisecond, BodyTimeout: 20 * time.Millisecond})
	mux := http.NewServeMux()
	mux.Handle("/mcp", h)
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, r *http.Request) {
		<-time.After(60 * time.Millisecond)
		if r.Context().Err() != nil {
			t.Error("the context of another handler is done")
		}
		_, _ = io.WriteString(w, "ok")
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	addr := s.Listener.Addr().String()
	c := dial(t, addr)
	resp := c.send(request("POST", addr, ping)).response("POST")
	_, _ = io.ReadAll(resp.Body)
	resp = c.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").response("GET")
	if body, err := io.ReadAll(resp.Body); string(body) != "ok" || err != nil {
		t.Errorf("got %q, %v", body, err)
	}
}

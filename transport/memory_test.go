package transport

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/quota"
)

// counted has o count on one account, of as many bytes as may be held; a negative number is no bound. Once the test and
// what it has served are over, nothing may be left on it.
func counted(t testing.TB, o *Options, most int64) *quota.Accounts {
	a := quota.New(quota.Limits{Places: 100, Each: 100, Accounts: 100, Bytes: most})
	o.Accounts, o.Account = a, func(any, string) *quota.Account { return a.Of("client", "") }
	t.Cleanup(func() {
		t, ok := t.(*testing.T)
		for k := range quota.Kinds {
			if ok {
				eventually(t, 0, func() int { return int(a.BytesOf(k)) })
			}
		}
	})
	return a
}

// TestBodiesAreCountedBeforeTheyAreRead: a body for which there is no room is refused though none of it has come.
func TestBodiesAreCountedBeforeTheyAreRead(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for _, row := range []struct {
		name, length string
		most         int64
		status       int
		reason       string
	}{
		{"the client has its share", "700000", mib, http.StatusTooManyRequests, "429 memory-share"},
		{"the node has no more", "2000000", mib, http.StatusServiceUnavailable, "503 memory"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			seen := newCounts()
			o := Options{Observer: seen}
			counted(t, &o, row.most)
			s := serve(t, funcs{}, o)
			c := dial(t, s.addr).send(request("POST", s.addr, "", "Content-Length: "+row.length))
			a := c.response("POST")
			if a.StatusCode != row.status || a.Header.Get("Retry-After") != "1" || !a.Close {
				t.Errorf("got %s, %v, close %v", a.Status, a.Header, a.Close)
			}
			seen.mu.Lock()
			if seen.rejected[row.reason] != 1 {
				t.Errorf("counted %v, want %s", seen.rejected, row.reason)
			}
			seen.mu.Unlock()
			if got := dial(t, s.addr).send(request("POST", s.addr, ping)).response("POST"); got.StatusCode != 200 {
				t.Errorf("the next one: %s", got.Status)
			}
		})
	}
}

// TestBodiesWithoutALengthAreCountedAsTheyCome refuses such a body in its midst.
func TestBodiesWithoutALengthAreCountedAsTheyCome(t *testing.T) {
	t.Parallel()
	var o Options
	a := counted(t, &o, 1<<20)
	got := make(chan int64, 1)
	s := serve(t, funcs{post: func(x *Exchange) {
		got <- a.BytesOf(quota.Bodies)
		x.Answer(200, pong)
	}}, o)
	chunk := func(n int) string { return fmt.Sprintf("%x\r\n%s\r\n", n, strings.Repeat(" ", n)) }
	head := request("POST", s.addr, "", "Content-Length: ", "Transfer-Encoding: chunked")
	if r := dial(t, s.addr).send(head + chunk(100_000) + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(ping), ping)).response("POST"); r.StatusCode != 200 {
		t.Fatalf("100 kB: %s", r.Status)
	}
	if n := <-got; n < 100_000 || n > 300_000 {
		t.Errorf("%d bytes are counted for 100 kB", n)
	}
	c := dial(t, s.addr).send(head + chunk(100_000))
	for range 6 {
		c.send(chunk(100_000))
	}
	// The buffer, whose first size is that of a pooled one, is doubled from below the client's share: to more than
	// that, or to more than the node has.
	if r := c.response("POST"); r.StatusCode != http.StatusTooManyRequests && r.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("700 kB: %s", r.Status)
	}
}

// TestValuesAreCounted: what decoding a message makes is refused like its bytes, and with its id.
func TestValuesAreCounted(t *testing.T) {
	t.Parallel()
	var o Options
	a := counted(t, &o, 4<<20)
	got := make(chan int64, 1)
	s := serve(t, funcs{post: func(x *Exchange) {
		got <- a.BytesOf(quota.Decoded)
		x.Answer(200, pong)
	}}, o)
	body := func(values int) string {
		return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"arguments":[` + strings.Repeat("{},", values-1) + `{}]}}`
	}
	if r := dial(t, s.addr).send(request("POST", s.addr, body(1064))).response("POST"); r.StatusCode != 200 {
		t.Fatalf("1,064 values: %s", r.Status)
	}
	if n, want := <-got, int64(1004*valueBytes); n != want {
		t.Errorf("%d bytes are counted, want %d", n, want)
	}
	r, text := do(t, s.addr, request("POST", s.addr, body(50_000)))
	if r.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, `"id":7`) {
		t.Errorf("50,000 values: %s %s", r.Status, text)
	}
}

// TestStreamsAreAskedFor: who has its share of the memory opens no stream any more, but resumes those that it has.
func TestStreamsAreAskedFor(t *testing.T) {
	for _, target := range []string{"/mcp", "/sse"} {
		virtually(t, func(t *testing.T, serve func(Dispatcher, Options) *pipes) {
			a := quota.New(quota.Limits{Places: 100, Each: 100, Accounts: 100, Bytes: 1 << 20})
			o := Options{Accounts: a, Account: func(any, string) *quota.Account { return a.Of("client", "") }}
			var streams []*Exchange
			open := func(x *Exchange) {
				x.Open()
				streams = append(streams, x)
			}
			var d Dispatcher = funcs{get: open}
			if target == "/sse" {
				d = &links{connect: open}
			}
			p := serve(d, o)
			var conns []*client
			get := func(more string) int {
				raw := strings.Replace(at(target, request("GET", "localhost", "")), "\r\n\r\n", more+"\r\n\r\n", 1)
				c := p.dial(t).send(raw)
				conns = append(conns, c)
				return c.response("GET").StatusCode
			}
			for status := 200; status == 200; {
				if status = get(""); status != 200 && status != http.StatusTooManyRequests {
					t.Fatalf("stream %d: status %d", len(streams)+1, status)
				}
				synctest.Wait()
				if len(streams) > 100 {
					t.Fatal("no stream is refused")
				}
			}
			if n := a.Bytes(); n > 3<<18 {
				t.Errorf("%d streams hold %d bytes of 1 MiB", len(streams), n)
			}
			if status := get("\r\nLast-Event-ID: "); target == "/mcp" && status != http.StatusTooManyRequests {
				t.Errorf("a stream with an empty event id, which is a new one: status %d", status)
			}
			if status := get("\r\nLast-Event-ID: x"); target == "/mcp" && status != 200 {
				t.Errorf("a resume: status %d", status)
			}
			synctest.Wait() // a response comes before its stream is noted
			for _, x := range streams {
				x.Finish()
			}
			for _, c := range conns {
				_ = c.Close()
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if n := a.Bytes(); n != 0 {
				t.Errorf("%d bytes are counted for streams that have ended", n)
			}
		})
	}
}

// TestQueuesAreCounted: a stream that nobody reads is cut when its client has its share.
func TestQueuesAreCounted(t *testing.T) {
	virtually(t, func(t *testing.T, serve func(Dispatcher, Options) *pipes) {
		seen := newCounts()
		o := Options{Observer: seen, MaxQueued: 8 << 20}
		a := quota.New(quota.Limits{Places: 100, Each: 100, Accounts: 100, Bytes: 1 << 20})
		o.Accounts, o.Account = a, func(any, string) *quota.Account { return a.Of("client", "") }
		opened := make(chan *Exchange, 1)
		p := serve(funcs{get: func(x *Exchange) {
			x.Open()
			opened <- x
		}}, o)
		c := p.dial(t).send(request("GET", "localhost", ""))
		x := <-opened
		synctest.Wait()
		if n := a.BytesOf(quota.Queues); n != streamBytes {
			t.Errorf("an open stream counts %d bytes, want %d", n, streamBytes)
		}
		x.Event("1", 0, []byte(strings.Repeat("x", 100_000))) // not flushed
		if n := a.BytesOf(quota.Queues); n < 100_000 || n > 100_000+2*streamBytes {
			t.Errorf("100 kB are queued, %d are counted", n)
		}
		x.Flush()
		c.response("GET")
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
		if n, _ := io.Copy(io.Discard, c.r); n < 100_000 { // all that comes
			t.Fatalf("%d bytes came", n)
		}
		synctest.Wait()
		if n := a.BytesOf(quota.Queues); n != streamBytes {
			t.Errorf("all is written, %d bytes are counted", n)
		}
		for range 20 {
			x.Event("2", 0, []byte(strings.Repeat("x", 100_000)))
		}
		if reason := <-seen.cuts; reason != cutMemory {
			t.Errorf("cut for %q, want %q", reason, cutMemory)
		}
		synctest.Wait()
		if n := a.Bytes(); n != 0 {
			t.Errorf("%d bytes are left", n)
		}
	})
}

// TestAnswersAreCounted: a plain response that its client does not read counts while it waits; one for which there is
// no room is not sent.
func TestAnswersAreCounted(t *testing.T) {
	t.Parallel()
	seen := newCounts()
	o := Options{Observer: seen}
	a := counted(t, &o, 2<<20)
	var sent bool
	during := make(chan struct{})
	s := serve(t, funcs{post: func(x *Exchange) {
		defer close(during)
		sent = x.Answer(200, []byte(strings.Repeat("x", 3<<20)))
	}}, o)
	c := dial(t, s.addr).send(request("POST", s.addr, ping))
	if _, err := c.r.ReadByte(); err == nil {
		t.Error("a response for which there is no room was sent")
	}
	<-during
	if sent {
		t.Error("Answer says that it sent it")
	}
	if n := a.BytesOf(quota.Queues); n != 0 {
		t.Errorf("%d bytes are counted", n)
	}
}

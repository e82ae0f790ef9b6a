package transports_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

func TestBadBodies(t *testing.T) { // not in parallel, as it measures the heap
	when.Long(t, "connections linger for half a second")
	e := newBadEnv(t)
	tooLarge := host.Fault("", host.Invalid, "the message is too large: max-body allows 4194304 bytes", "")
	dial := func(t *testing.T) net.Conn {
		conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(e.URL, "http://"), "/mcp"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	for name, row := range map[string]struct {
		head   string
		body   func(w io.Writer) // the response may cut it short
		status int
		want   string
	}{
		"5 MB announced, none sent": {head: "Content-Length: 5242880", status: 413, want: tooLarge},
		"5 MB sent": {head: "Content-Length: 5242880", status: 413, want: tooLarge, body: func(w io.Writer) {
			_, _ = w.Write(bytes.Repeat([]byte("x"), 5<<20))
		}},
		"endless in chunks": {head: "Transfer-Encoding: chunked", status: 413, want: tooLarge, body: func(w io.Writer) {
			chunk := fmt.Sprintf("%x\r\n%s\r\n", 64<<10, strings.Repeat("[", 64<<10))
			for range 1000 { // 64 MB
				if _, err := io.WriteString(w, chunk); err != nil {
					return
				}
			}
		}},
		"wrong chunk": {head: "Transfer-Encoding: chunked", status: 400, want: host.Fault("", host.BadJSON, "Request body could not be read", ""), body: func(w io.Writer) {
			_, _ = io.WriteString(w, "zz\r\n{}\r\n0\r\n\r\n")
		}},
		"exabytes announced": {head: "Content-Length: 9223372036854775807", status: 413, want: tooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			e.T, e.c.T = t, t
			conn := dial(t)
			if _, err := io.WriteString(conn, host.RawPost(e.c, row.head)); err != nil {
				t.Fatal(err)
			}
			if row.body != nil {
				go row.body(conn)
			}
			resp, body, ends := host.ReadRaw(t, conn)
			if resp.StatusCode != row.status || body != row.want || !ends {
				t.Errorf("got %s %s, connection closed: %v; want %d %s and a closed connection", resp.Status, body, ends, row.status, row.want)
			}
			e.alive()
		})
	}
	e.T, e.c.T, e.ann.T = t, t, t
	runBadRows(t, e, []badRow{
		{name: "just within the limit", body: strings.Repeat(" ", 4<<20-len(host.Method("1", "ping", ""))) + host.Method("1", "ping", ""), status: 200,
			want: `{"jsonrpc":"2.0","id":1,"result":{}}`},
		{name: "text", body: "{}", header: []string{"Content-Type", "text/plain"}, status: 415,
			want: host.Fault("", host.Invalid, "Content-Type must be application/json in UTF-8", "")},
		{name: "another charset", body: "{}", header: []string{"Content-Type", "application/json; charset=utf-16"}, status: 415,
			want: host.Fault("", host.Invalid, "Content-Type must be application/json in UTF-8", "")},
		{name: "compressed", body: "{}", header: []string{"Content-Encoding", "gzip"}, status: 415, want: host.Fault("", host.Invalid, "Content-Encoding is not supported", "")},
		{name: "accepts no stream", body: "{}", header: []string{"Accept", "application/json"}, status: 406,
			want: host.Fault("", host.Invalid, "Accept must admit application/json and text/event-stream", "")},
		{name: "GET accepts no stream", status: 406, want: host.Fault("", host.Invalid, "Accept must admit text/event-stream", ""),
			do: func(e *badEnv) *kit.Answer { return e.c.Do("GET", "", "Accept", "application/json") }},
		{name: "PUT", status: 405, want: host.Fault("", host.Invalid, "Method not allowed", ""), do: func(e *badEnv) *kit.Answer { return e.c.Do("PUT", "") }},
		{name: "another site's page", body: "{}", header: []string{"Origin", "https://evil.example.com"}, status: 403, want: host.Fault("", host.Invalid, "Origin not allowed: --allow-origin and Options.HTTP.AllowOrigins allow it", "")},
	})
}

func TestSlowHeader(t *testing.T) {
	for _, tt := range []struct{ limit, want time.Duration }{{0, 10 * time.Second}, {4 * time.Second, 4 * time.Second}} {
		t.Run(tt.want.String(), func(t *testing.T) { slowHeader(t, tt.limit, tt.want) })
	}
}

// slowHeader sends a header a byte a second. The connection must be closed after want.
func slowHeader(t *testing.T, limit, want time.Duration) {
	kit.Bubble(t, func(t *testing.T) {
		m := host.NewMeter()
		rt, err := troupe.New(troupe.Options{DrainDelay: -1, HTTP: troupe.HTTPOptions{HeaderTimeout: limit}, Telemetry: troupe.Telemetry{MeterProvider: m}})
		if err != nil {
			t.Fatal(err)
		}
		rt.Mount("/mcp", troupe.NewServer(mcp.Implementation{Name: "test", Version: "1"}, nil))
		ln := kit.NewListener()
		ctx, stop := context.WithCancel(context.Background())
		served := make(chan error, 1)
		go func() { served <- rt.ServeOn(ctx, ln) }()
		conn, err := ln.Dial(ctx, "", "")
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		for _, b := range []byte(strings.Repeat("POST /mcp HTTP/1.1\r\nX: y\r\n", 10)) {
			if _, err = conn.Write([]byte{b}); err != nil {
				break
			}
			time.Sleep(time.Second)
		}
		if took := time.Since(begin); err == nil || took < want-time.Second || took > want+2*time.Second {
			t.Errorf("a header took %v: %v; want the connection closed after %v", took, err, want)
		}
		synctest.Wait()
		if n := m.Count("troupe.http.refused", "header-timeout"); n != 1 {
			t.Errorf("%d slow headers are counted, want 1", n)
		}
		_ = conn.Close()
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// narrow keeps the kernel from holding much for a client that does not read.
type narrow struct{ net.Listener }

func (l narrow) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(64 << 10)
	}
	return c, err
}

type floodIn struct {
	N    int `json:"n"`
	Size int `json:"size"`
}

// TestReaderThatNeverReads has a call send much more than its client reads. The server
// cuts that client, serves others meanwhile, and the client can resume what the log
// still has.
func TestReaderThatNeverReads(t *testing.T) {
	when.Long(t, "it fills a connection")
	h := host.NewLoopback(t, troupe.Options{Limits: troupe.Limits{LogRate: -1}}, nil, func(ln net.Listener) net.Listener { return narrow{ln} })
	flooded := make(chan error, 1)
	reading := make(chan struct{}) // gets a value once the client has its first events: a cut discards what the client has not read
	troupe.AddTool(h.Server, troupe.Tool{Name: "flood"}, func(ctx context.Context, call *troupe.Call, in floodIn) (string, error) {
		text := strings.Repeat("x", in.Size)
		var err error
		for i := 1; i <= in.N && err == nil; i++ {
			if err = call.Log(ctx, mcp.LevelInfo, "flood", fmt.Sprintf("%d %s", i, text)); err == nil {
				err = call.Progress(ctx, float64(i), float64(in.N), text)
			}
			if i == 2 {
				select {
				case <-reading:
				case <-ctx.Done():
				}
			}
		}
		flooded <- err
		return "flooded", err
	})
	slow := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		d := net.Dialer{}
		conn, err := d.DialContext(ctx, network, addr)
		if err == nil {
			err = conn.(*net.TCPConn).SetReadBuffer(64 << 10)
		}
		return conn, err
	}}}
	t.Cleanup(slow.CloseIdleConnections)
	other := h.Session()
	before := host.Heap()
	for _, row := range []struct {
		name   string
		n      int
		resume bool // the log has everything that the client missed
	}{{"2 to 4 MB", 190, true}, {"many MB", host.Sized(10000, 2000), false}} {
		t.Run(row.name, func(t *testing.T) {
			h.T, other.T = t, t
			c := h.Unchecked()
			c.HTTP = slow
			c.Initialize(`{}`)
			a := c.Post(host.CallWith("1", "flood", fmt.Sprintf(`{"n":%d,"size":10000}`, row.n), `"t"`))
			var got []kit.Event
			for range 3 {
				e, ok := a.Next()
				if !ok {
					t.Fatal("the stream ended at once")
				}
				got = append(got, e)
			}
			reading <- struct{}{}
			for i := range 50 {
				id := fmt.Sprint(i)
				host.Equal(t, "another session meanwhile", other.Post(host.Call(id, "echo", `{"text":"x"}`)).Body, host.TextResult(id, "x"))
			}
			if err := <-flooded; err != nil {
				t.Fatalf("the call: %v", err)
			}
			if after := host.Heap(); after > before+24<<20 {
				t.Errorf("the heap grew from %d to %d KiB for a client that does not read", before>>10, after>>10)
			}
			got = append(got, a.All()...)
			if last := got[len(got)-1].Data; strings.Contains(last, `"result"`) {
				t.Fatal("the connection was not cut")
			}
			last := got[len(got)-1].ID
			if !row.resume {
				host.BadEvent(t, c.Get(last))
				return
			}
			rest := c.Get(last)
			if !rest.Stream() {
				t.Fatalf("resume: %s %s", rest.Status, rest.Body)
			}
			got = append(got, rest.All()...)
			checkFlood(t, got, row.n)
		})
	}
}

// checkFlood expects each log message once and in order, and the response last.
func checkFlood(t *testing.T, got []kit.Event, n int) {
	t.Helper()
	var logs []int
	for _, e := range got {
		var i int
		if _, text, ok := strings.Cut(e.Data, `"data":"`); ok {
			if _, err := fmt.Sscanf(text, "%d ", &i); err != nil {
				t.Fatalf("%.100s: %v", e.Data, err)
			}
			logs = append(logs, i)
		}
	}
	want := make([]int, n)
	for i := range want {
		want[i] = i + 1
	}
	if diff := cmp.Diff(want, logs); diff != "" {
		t.Errorf("log messages (-want +got):\n%s", diff)
	}
	host.Equal(t, "answer", got[len(got)-1].Data, host.TextResult("1", "flooded"))
}

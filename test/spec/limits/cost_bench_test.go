package limits_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// benchServer is a runtime as users run it, over a real loopback listener.
func benchServer(b testing.TB, o troupe.Options) *httptest.Server {
	b.Helper()
	// All clients share an address; these rates leave the limiter running.
	o.Limits.CallRate, o.Shared.PrincipalRate = 1e6, 1e6
	rt, err := troupe.New(o)
	if err != nil {
		b.Fatal(err)
	}
	srv := troupe.NewServer(mcp.Implementation{Name: "bench", Version: "1"}, nil)
	host.AddTestTools(srv)
	rt.Mount("/mcp", srv)
	hs := httptest.NewServer(rt)
	b.Cleanup(func() {
		hs.CloseClientConnections()
		hs.Close()
		if err := rt.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return hs
}

// bare returns a server that reads the body and writes a constant response: the least that an
// HTTP server can do.
func bare(b *testing.B) *httptest.Server {
	answer := []byte(host.TextResult("1", strings.Repeat("x", 105)))
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header()["Content-Type"] = []string{"application/json"}
		_, _ = w.Write(answer)
	}))
	b.Cleanup(hs.Close)
	return hs
}

// echoRequest is a whole HTTP request that calls echo with n bytes of text.
func echoRequest(hs *httptest.Server, session, id string, n int) []byte {
	body := host.Call(id, "echo", `{"text":"`+strings.Repeat("x", n)+`"}`)
	return fmt.Appendf(nil, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
		"Mcp-Session-Id: %s\r\nMcp-Protocol-Version: 2025-11-25\r\nContent-Length: %d\r\n\r\n%s", hs.Listener.Addr(), session, len(body), body)
}

// drive sends b.N requests over conns keep-alive connections, and reports the CPU per request
// of the process, including the client.
func drive(b *testing.B, hs *httptest.Server, conns int, request func(i int) []byte) {
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ReportAllocs()
	b.ResetTimer()
	begin := kit.CPU()
	var wg sync.WaitGroup
	for i := range conns {
		req := request(i)
		wg.Go(func() {
			c, err := net.Dial("tcp", hs.Listener.Addr().String())
			if err != nil {
				b.Error(err)
				return
			}
			defer c.Close()
			rd := bufio.NewReader(c)
			for left.Add(-1) >= 0 {
				if _, err := c.Write(req); err != nil {
					b.Error(err)
					return
				}
				if err := discardResponse(rd); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(kit.CPU()-begin)/float64(b.N), "cpu-ns/op")
}

// discardResponse reads a response that has a Content-Length and must be 200.
func discardResponse(rd *bufio.Reader) error {
	n := -1
	for first := true; ; first = false {
		line, err := rd.ReadSlice('\n')
		if err != nil {
			return err
		}
		if first && !strings.HasPrefix(string(line), "HTTP/1.1 200") {
			return fmt.Errorf("status %q", line)
		}
		if len(line) <= 2 {
			break
		}
		if k := "Content-Length: "; len(line) > len(k) && strings.EqualFold(string(line[:len(k)]), k) {
			_, _ = fmt.Sscan(string(line[len(k):]), &n)
		}
	}
	if n < 0 {
		return fmt.Errorf("no Content-Length")
	}
	_, err := rd.Discard(n)
	return err
}

func benchSession(b testing.TB, hs *httptest.Server) string {
	c := &kit.Client{T: b, HTTP: hs.Client(), URL: hs.URL + "/mcp"}
	return c.Initialize(`{}`).Session
}

// BenchmarkHTTP measures a round trip over loopback, beside a handler that does nothing.
func BenchmarkHTTP(b *testing.B) {
	for _, size := range []int{105, 10000} {
		for _, conns := range []int{1, 32} {
			name := fmt.Sprintf("size=%d/conns=%d", size, conns)
			b.Run("bare/"+name, func(b *testing.B) {
				hs := bare(b)
				drive(b, hs, conns, func(int) []byte { return echoRequest(hs, "s", "1", size) })
			})
			b.Run("echo/"+name, func(b *testing.B) {
				hs := benchServer(b, troupe.Options{})
				drive(b, hs, conns, func(int) []byte { return echoRequest(hs, benchSession(b, hs), "1", size) })
			})
		}
	}
}

// nullWriter is a ResponseWriter that keeps nothing.
type nullWriter struct {
	h      http.Header
	status int
	n      int
}

func (w *nullWriter) Header() http.Header         { return w.h }
func (w *nullWriter) WriteHeader(s int)           { w.status = s }
func (w *nullWriter) Write(b []byte) (int, error) { w.n += len(b); return len(b), nil }
func (w *nullWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, http.ErrNotSupported
}

// SetWriteDeadline spares the Handler the error of a writer that has no deadlines, which allocates.
func (w *nullWriter) SetWriteDeadline(time.Time) error { return nil }

// BenchmarkDispatch measures the path of requests without the HTTP server, in a session and
// stateless.
func BenchmarkDispatch(b *testing.B) {
	all, runs := dispatching(b)
	for _, o := range all {
		b.Run(o.name, func(b *testing.B) {
			run := runs(o)
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
		})
	}
}

// BenchmarkInitialize measures the start of a session, which is stored.
func BenchmarkInitialize(b *testing.B) {
	hs := benchServer(b, troupe.Options{Dir: b.TempDir()})
	c := &kit.Client{T: b, HTTP: hs.Client(), URL: hs.URL + "/mcp"}
	b.ReportAllocs()
	for b.Loop() {
		c.Initialize(`{}`)
	}
}

// stores runs a benchmark with a store on disk, and with one in memory.
func stores(b *testing.B, run func(b *testing.B, dir string)) {
	b.Run("store=file", func(b *testing.B) { run(b, b.TempDir()) })
	b.Run("store=memory", func(b *testing.B) { run(b, "") })
}

// BenchmarkResume measures a resume of 200 events, most of which have an append of their own, behind an empty log.
func BenchmarkResume(b *testing.B) {
	stores(b, func(b *testing.B, dir string) {
		hs := benchServer(b, troupe.Options{Dir: dir})
		c := (&kit.Client{T: b, HTTP: hs.Client(), URL: hs.URL + "/mcp"}).Initialize(`{}`)
		all := c.Post(host.CallWith("1", "count", `{"to":200,"delay_ms":1}`, "1")).All()
		b.ReportAllocs()
		b.ResetTimer()
		begin := kit.CPU()
		for b.Loop() {
			if rest := c.Get(all[0].ID).All(); len(rest) != len(all)-1 {
				b.Fatalf("%d events of %d", len(rest), len(all)-1)
			}
		}
		b.ReportMetric(float64((kit.CPU()-begin).Microseconds())/float64(b.N), "cpu-µs/op")
	})
}

// BenchmarkEvents measures the way of a durable event through a call's stream, from the
// handler over the log to the client: one call alone, and 100 calls at once. Their
// handlers never wait, so that events share appends.
func BenchmarkEvents(b *testing.B) {
	for _, streams := range []int{1, 100} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) {
			stores(b, func(b *testing.B, dir string) { benchEvents(b, dir, streams) })
		})
	}
}

func benchEvents(b *testing.B, dir string, streams int) {
	m := host.NewMeter()
	hs := benchServer(b, troupe.Options{Dir: dir, Limits: troupe.Limits{LogRate: -1}, Telemetry: troupe.Telemetry{MeterProvider: m}})
	c := (&kit.Client{T: b, HTTP: hs.Client(), URL: hs.URL + "/mcp"}).Initialize(`{}`)
	// A call's events stay below what may be queued for a connection.
	const each = 4000
	calls := b.N/each/streams + 1
	b.ReportAllocs()
	b.ResetTimer()
	begin, appends := kit.CPU(), m.Count("troupe.log.appends", "")
	var wg sync.WaitGroup
	for i := range streams {
		wg.Go(func() {
			for range calls {
				// Above 100 a second, progress of one token is coalesced; log
				// messages are not.
				all := c.Post(host.Call(fmt.Sprint(i), "chatter", fmt.Sprintf(`{"to":%d}`, each))).All()
				if len(all) != each+2 {
					b.Errorf("%d events, want %d", len(all), each+2)
				}
			}
		})
	}
	wg.Wait()
	events := float64(each * calls * streams)
	b.ReportMetric(float64((kit.CPU()-begin).Microseconds())/events, "cpu-µs/event")
	b.ReportMetric(events/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(events/float64(m.Count("troupe.log.appends", "")-appends), "events/append")
}

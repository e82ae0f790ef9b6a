package transport

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

var pong = []byte(`{"jsonrpc":"2.0","id":7,"result":{}}`)

// answering returns the handler under test, with every check of a request switched on.
func answering() http.Handler {
	return NewHandler(funcs{post: func(x *Exchange) { x.Answer(200, pong) }}, Options{
		Revisions:    []string{"2025-03-26", "2025-06-18", "2025-11-25"},
		Stateless:    []string{"2026-07-28"},
		Authenticate: func(*http.Request) (any, error) { return nil, nil },
	})
}

// bare returns the handler for comparison: it reads the body and writes a constant.
func bare() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := codec.GetBuffer()
		defer b.Free()
		for {
			if len(b.B) == cap(b.B) {
				b.B = append(b.B, 0)[:len(b.B)]
			}
			n, err := r.Body.Read(b.B[len(b.B):cap(b.B)])
			b.B = b.B[:len(b.B)+n]
			if err != nil {
				break
			}
		}
		w.Header()["Content-Type"] = jsonHeader
		_, _ = w.Write(pong)
	})
}

func sizes() map[string]string {
	return map[string]string{"100B": ping, "10KB": `{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":"` + string(bytes.Repeat([]byte("x"), 10<<10)) + `"}}`}
}

func BenchmarkHTTP(b *testing.B) {
	for size, body := range sizes() {
		for name, h := range map[string]http.Handler{"bare": bare(), "transport": answering()} {
			b.Run("body="+size+"/handler="+name, func(b *testing.B) {
				s := httptest.NewServer(h)
				defer s.Close()
				addr := s.Listener.Addr().String()
				c, err := net.Dial("tcp", addr)
				if err != nil {
					b.Fatal(err)
				}
				defer c.Close()
				raw := []byte(request("POST", addr, body, legacyHeaders...))
				r := bufio.NewReader(c)
				b.ReportAllocs()
				for b.Loop() {
					if _, err := c.Write(raw); err != nil {
						b.Fatal(err)
					}
					for length := 0; ; {
						line, err := r.ReadSlice('\n')
						if err != nil {
							b.Fatal(err)
						}
						if v, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
							length, _ = strconv.Atoi(string(v[:len(v)-2]))
						}
						if len(line) == 2 {
							_, _ = r.Discard(length)
							break
						}
					}
				}
			})
		}
	}
}

// fakeWriter is a response writer on a connection that the handler can take over; it costs nothing.
type fakeWriter struct{ header http.Header }

func (w *fakeWriter) Header() http.Header              { return w.header }
func (w *fakeWriter) WriteHeader(int)                  {}
func (w *fakeWriter) Write(p []byte) (int, error)      { return len(p), nil }
func (w *fakeWriter) SetReadDeadline(time.Time) error  { return nil }
func (w *fakeWriter) SetWriteDeadline(time.Time) error { return nil }
func (w *fakeWriter) FlushError() error                { return nil }
func (w *fakeWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, http.ErrNotSupported
}

type body struct{ bytes.Reader }

func (*body) Close() error { return nil }

// serveFake returns a function that serves one POST.
func serveFake(h http.Handler, message string, headers ...string) func() {
	r := httptest.NewRequest("POST", "/mcp", nil)
	r.Header.Set("Content-Type", typeJSON)
	r.Header.Set("Accept", typeJSON+", "+typeSSE)
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Set(name, value)
	}
	data, in := []byte(message), &body{}
	r.Body, r.ContentLength = in, int64(len(data))
	w := &fakeWriter{http.Header{}}
	return func() {
		in.Reset(data)
		h.ServeHTTP(w, r)
	}
}

// The headers of a request in a session and of a stateless one.
var (
	legacyHeaders    = []string{"Mcp-Session-Id: ABCDEFGHIJKLMNOPQRSTUVWXYZ", "Mcp-Protocol-Version: 2025-11-25"}
	statelessHeaders = []string{"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: echo"}
)

func BenchmarkServeHTTP(b *testing.B) {
	for size, message := range sizes() {
		for name, h := range map[string]http.Handler{"bare": bare(), "transport": answering()} {
			b.Run("body="+size+"/handler="+name, func(b *testing.B) { benchmarkFake(b, serveFake(h, message, legacyHeaders...)) })
		}
	}
}

// BenchmarkEra serves one message of equal length as a call in a session and as a stateless call.
func BenchmarkEra(b *testing.B) {
	b.Run("era=legacy", func(b *testing.B) { benchmarkFake(b, serveFake(answering(), legacyCall, legacyHeaders...)) })
	b.Run("era=stateless", func(b *testing.B) { benchmarkFake(b, serveFake(answering(), statelessCall, statelessHeaders...)) })
}

// legacyCall is statelessCall with another key.
var legacyCall = strings.Replace(statelessCall, mcp.MetaProtocolVersion, strings.ToUpper(mcp.MetaProtocolVersion), 1)

func benchmarkFake(b *testing.B, serve func()) {
	b.ReportAllocs()
	for b.Loop() {
		serve()
	}
}

// BenchmarkAdmitStateless measures the checks of the headers and _meta of a stateless call.
func BenchmarkAdmitStateless(b *testing.B) {
	for name, mcpName := range map[string]string{"plain": "echo", "base64": "=?base64?ZWNobw==?="} {
		b.Run("name="+name, func(b *testing.B) {
			h, header := answering().(*Handler), http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {mcpName}}
			x := &Exchange{h: h, Stateless: true}
			if err := codec.Scan([]byte(statelessCall), &x.Msg, codec.Limits{}); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if refused := h.admitStateless(x, header); refused != nil {
					b.Fatal(refused.Text)
				}
			}
		})
	}
}

func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	base := testing.AllocsPerRun(200, serveFake(bare(), ping))
	got := testing.AllocsPerRun(200, serveFake(answering(), legacyCall, legacyHeaders...))
	if got > base+2 {
		t.Errorf("a POST allocates %v times, a bare handler %v: want at most 2 more", got, base)
	}
	if stateless := testing.AllocsPerRun(200, serveFake(answering(), statelessCall, statelessHeaders...)); stateless > got {
		t.Errorf("a stateless POST allocates %v times, a legacy one %v: want no more", stateless, got)
	}
}

// BenchmarkStream answers calls, in a session and stateless, with a stream of one event, one after another on one
// connection.
func BenchmarkStream(b *testing.B) {
	for era, raw := range map[string]string{"legacy": request("POST", "127.0.0.1", legacyCall, legacyHeaders...), "stateless": callRequest()} {
		b.Run("era="+era, func(b *testing.B) {
			_, addr := reusing(b, funcs{post: oneEvent}, bothEras)
			c := dial(b, addr)
			_ = c.SetDeadline(time.Time{})
			b.ReportAllocs()
			for b.Loop() {
				body := c.send(raw).response("POST").Body
				if n, err := io.Copy(io.Discard, body); n < 100 || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}

// BenchmarkIdleStream reports what an open stream holds after its first event, without kernel memory but with the
// client's end of the connection.
func BenchmarkIdleStream(b *testing.B) {
	node := []string{"User-Agent: node", "Accept-Language: *", "Sec-Fetch-Mode: cors", "Accept-Encoding: gzip, deflate"}
	b.Run("era=legacy", func(b *testing.B) {
		idleStreams(b, request("GET", "127.0.0.1", "", append(node, legacyHeaders...)...))
	})
	b.Run("era=stateless", func(b *testing.B) {
		idleStreams(b, statelessRequest(statelessListen, append(node, "Mcp-Method: subscriptions/listen")...))
	})
}

func idleStreams(b *testing.B, raw string) {
	const n = 2000
	for b.Loop() {
		streams := make(chan *Exchange, n)
		open := func(x *Exchange) {
			x.Open()
			x.Event("e.0", 1000, nil)
			x.Flush()
			streams <- x
		}
		h := NewHandler(funcs{get: open, post: open}, Options{Revisions: []string{"2025-11-25"}, Stateless: []string{"2026-07-28"}})
		s := httptest.NewServer(h)
		conns := make([]net.Conn, n)
		before := heap()
		for i := range conns {
			c, err := net.Dial("tcp", s.Listener.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			conns[i] = c
		}
		held := make([]*Exchange, 0, n)
		buf := make([]byte, 4096)
		for _, c := range conns {
			if _, err := io.WriteString(c, raw); err != nil {
				b.Fatal(err)
			}
			held = append(held, <-streams)
			for !bytes.Contains(buf, []byte("e.0")) {
				k, err := c.Read(buf[:cap(buf)])
				if err != nil {
					b.Fatal(err)
				}
				buf = buf[:k]
			}
			buf = buf[:cap(buf)]
			clear(buf)
		}
		after := heap()
		b.ReportMetric(float64(int64(after)-int64(before))/n, "B/stream")
		b.ReportMetric(float64(runtime.NumGoroutine()), "goroutines")
		runtime.KeepAlive(held)
		for _, c := range conns {
			c.Close()
		}
		_ = h.Close(context.Background())
		s.Close()
	}
}

func heap() uint64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

func BenchmarkEvent(b *testing.B) {
	x := &Exchange{h: NewHandler(nil, Options{}), s: &stream{}, state: streaming}
	x.charges.Exchange = x
	data := bytes.Repeat([]byte("d"), 200)
	b.ReportAllocs()
	for b.Loop() {
		x.Event("ABCDEFGHIJKLMNOPQRSTUVWXYZ.12.0", 0, data)
		x.s.flushPending()
		batch, buf := x.s.takeBatch(true, false)
		_, _ = io.Discard.Write(batch)
		buf.Free()
	}
}

// BenchmarkPipe echoes pings between two goroutines, one at a time and many at once.
func BenchmarkPipe(b *testing.B) {
	for _, ahead := range []int{1, 100} {
		b.Run("ahead="+strconv.Itoa(ahead), func(b *testing.B) {
			in, client := io.Pipe()
			out, server := io.Pipe()
			p := NewPipe(in, server, PipeOptions{})
			over := make(chan error)
			go func() {
				over <- p.Serve(context.Background(), func(_ *codec.Message, line []byte) { p.Answer(200, line) })
			}()
			lines := bytes.Repeat([]byte(ping+"\n"), ahead)
			answers := make([]byte, len(lines))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := client.Write(lines); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(out, answers); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*ahead), "ns/message")
			client.Close()
			if err := <-over; err != nil {
				b.Fatal(err)
			}
			p.Finish()
			if err := p.Wait(context.Background()); err != nil {
				b.Fatal(err)
			}
		})
	}
}

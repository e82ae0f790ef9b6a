package limits_test

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/spec/host"
)

// BenchmarkMemory reports what a session without a connection holds on the node that
// served it last, and what an open event stream holds on top, including the client's
// end of its connection.
func BenchmarkMemory(b *testing.B) {
	const n = 2000
	for b.Loop() {
		hs := benchServer(b, troupe.Options{Dir: b.TempDir(), Shared: troupe.SharedLimits{StreamsPerPrincipal: -1}})
		do := func(method, session string) *http.Response {
			body := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
			r := httptest.NewRequest(method, "http://127.0.0.1/mcp", bytes.NewReader([]byte(body)))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			if session != "" {
				r.Header.Set("Mcp-Session-Id", session)
			}
			w := httptest.NewRecorder()
			hs.Config.Handler.ServeHTTP(w, r)
			return w.Result()
		}
		do(http.MethodPost, "")
		ids := make([]string, n)
		before := host.InUse()
		for i := range ids {
			ids[i] = do(http.MethodPost, "").Header.Get("Mcp-Session-Id")
		}
		sessions := host.InUse()
		conns := make([]net.Conn, n)
		for i, id := range ids {
			conns[i] = listenRaw(b, hs.Listener.Addr().String(), id)
		}
		open := host.InUse()
		b.ReportMetric(float64(sessions-before)/n, "B/session")
		b.ReportMetric(float64(open-sessions)/n, "B/stream")
		runtime.KeepAlive(ids)
		for _, c := range conns {
			_ = c.Close()
		}
	}
}

// listenRaw opens a standalone stream on a bare connection and reads it to the end of
// the priming event.
func listenRaw(b *testing.B, addr, session string) net.Conn {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := fmt.Fprintf(c, "GET /mcp HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\nMcp-Session-Id: %s\r\n\r\n", addr, session); err != nil {
		b.Fatal(err)
	}
	var got []byte
	buf := make([]byte, 1024)
	for !bytes.Contains(got, []byte("data:")) {
		k, err := c.Read(buf)
		if err != nil {
			b.Fatalf("%v after %q", err, got)
		}
		got = append(got, buf[:k]...)
		if len(got) > 12 && !bytes.HasPrefix(got, []byte("HTTP/1.1 200")) {
			b.Fatalf("no stream: %q", got)
		}
	}
	return c
}

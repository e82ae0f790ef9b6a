package transports_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit/certificate"
	"github.com/troupe-run/troupe/test/spec/host"
)

// dialFrom connects to address from another address of this machine.
func dialFrom(t *testing.T, source, address string) *bufio.ReadWriter {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
	conn, err := d.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return bufio.NewReadWriter(bufio.NewReader(conn), bufio.NewWriter(conn))
}

// asks sends a request and reports whether there is a response: a connection that was not let in has none.
func asks(t *testing.T, conn *bufio.ReadWriter) bool {
	t.Helper()
	_, _ = conn.WriteString("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
	_ = conn.Flush() // it fails if the connection is closed already
	resp, err := http.ReadResponse(conn.Reader, nil)
	if err != nil {
		return false
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
		t.Errorf("%s, %v", resp.Status, err)
	}
	return true
}

// TestConnectionsPerAddress has one address take all the connections that it may have, beside another one and a proxy.
func TestConnectionsPerAddress(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("other systems have one loopback address")
	}
	var log host.Lines
	h := host.NewLoopback(t, troupe.Options{Log: slog.New(slog.NewTextHandler(&log, nil)), HTTP: troupe.HTTPOptions{
		ConnectionsPerAddress: 3, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.3/32")},
	}}, nil, nil)
	address := strings.TrimSuffix(strings.TrimPrefix(h.URL, "http://"), "/mcp")
	for range 3 {
		if !asks(t, dialFrom(t, "127.0.0.2", address)) {
			t.Error("refused up to the limit")
		}
	}
	if n := h.Gauge("troupe.http.refused", "address-connections"); n != 0 {
		t.Errorf("%d connections are refused up to the limit", n)
	}
	for range 5 {
		if asks(t, dialFrom(t, "127.0.0.2", address)) {
			t.Error("served beyond the limit")
		}
		if !asks(t, dialFrom(t, "127.0.0.3", address)) {
			t.Error("a trusted proxy is refused")
		}
	}
	if !asks(t, dialFrom(t, "127.0.0.4", address)) {
		t.Error("another address is refused")
	}
	if n := h.Gauge("troupe.http.refused", "address-connections"); n != 5 {
		t.Errorf("%d connections are counted as refused, want 5", n)
	}
	if got := log.String(); strings.Count(got, "a limit is hit") != 1 || !strings.Contains(got, "address=127.0.0.2 setting=connections-per-address") {
		t.Errorf("the log of a minute: %s", got)
	}
}

// TestConnections fills a server with one address. Others get in once one of its connections waits.
func TestConnections(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("other systems have one loopback address")
	}
	began, release := make(chan bool, 3), make(chan bool)
	h := host.NewLoopback(t, troupe.Options{HTTP: troupe.HTTPOptions{Connections: 3, ConnectionsPerAddress: -1}, Middleware: func(http.Handler) http.Handler {
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { began <- true; <-release })
	}}, nil, nil)
	address := strings.TrimSuffix(strings.TrimPrefix(h.URL, "http://"), "/mcp")
	var busy []*bufio.ReadWriter
	for range 3 {
		conn := dialFrom(t, "127.0.0.2", address)
		_, _ = conn.WriteString("GET /wait HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
		if err := conn.Flush(); err != nil {
			t.Fatal(err)
		}
		<-began
		busy = append(busy, conn)
	}
	if asks(t, dialFrom(t, "127.0.0.3", address)) {
		t.Error("served beyond the limit")
	}
	if n := h.Gauge("troupe.http.refused", "connections"); n != 1 {
		t.Errorf("%d connections are counted as refused, want 1", n)
	}
	close(release)
	for _, conn := range busy {
		if resp, err := http.ReadResponse(conn.Reader, nil); err != nil || resp.StatusCode != 200 {
			t.Fatalf("a connection that was in time: %v, %v", resp, err)
		}
	}
	if asks(t, dialFrom(t, "127.0.0.2", address)) {
		t.Error("the address that has them all gets a further one")
	}
	for !asks(t, dialFrom(t, "127.0.0.3", address)) { // one of them waits in a moment, and makes room
	}
}

// TestHealthConnections fills the listener of the probes, which leaves the main one alone.
func TestHealthConnections(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("other systems have one loopback address")
	}
	log := healthAddress{slog.DiscardHandler, make(chan string, 1)}
	h := host.NewLoopback(t, troupe.Options{Log: slog.New(log), HTTP: troupe.HTTPOptions{HealthListen: "127.0.0.1:0"}}, nil, nil)
	address := <-log.at
	for i := range 64 {
		if !asks(t, dialFrom(t, "127.0.0.2", address)) {
			t.Fatalf("refused after %d connections", i)
		}
	}
	if asks(t, dialFrom(t, "127.0.0.2", address)) {
		t.Error("served beyond the limit")
	}
	if n := h.Gauge("troupe.http.refused", "health-connections"); n != 1 {
		t.Errorf("%d connections are counted as refused, want 1", n)
	}
	for !asks(t, dialFrom(t, "127.0.0.3", address)) { // as soon as one of the others waits
	}
	h.Session()
}

// TestLengthBesideCoding sends a request with two lengths, and a second request in what one of them takes for its body.
func TestLengthBesideCoding(t *testing.T) {
	t.Parallel()
	h := host.NewLoopback(t, troupe.Options{}, nil, nil)
	conn := dialFrom(t, "127.0.0.1", strings.TrimSuffix(strings.TrimPrefix(h.URL, "http://"), "/mcp"))
	_, _ = conn.WriteString("POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 50\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(conn.Reader, nil)
	if err != nil || resp.StatusCode != 400 || !resp.Close {
		t.Fatalf("%+v, %v, want 400 and the end of the connection", resp, err)
	}
	rest, err := io.ReadAll(conn)
	if string(rest) != "400 Bad Request" || err != nil {
		t.Errorf("then comes %q, %v", rest, err)
	}
	if n := h.Gauge("troupe.http.refused", "framing"); n != 1 {
		t.Errorf("%d are counted, want 1", n)
	}
}

// TestPipelinedLengths sends the same behind another request, in one write: that one is answered, and then all is over.
func TestPipelinedLengths(t *testing.T) {
	t.Parallel()
	const probe = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
	for _, bare := range []bool{false, true} {
		h := host.NewLoopback(t, troupe.Options{HTTP: troupe.HTTPOptions{NetHTTP: bare}}, nil, nil)
		conn := dialFrom(t, "127.0.0.1", strings.TrimSuffix(strings.TrimPrefix(h.URL, "http://"), "/mcp"))
		_, _ = conn.WriteString(probe + "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + probe)
		if err := conn.Flush(); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(conn.Reader, nil)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("net/http %t: %+v, %v", bare, resp, err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		if resp, err = http.ReadResponse(conn.Reader, nil); err != nil || resp.StatusCode != 400 || !resp.Close {
			t.Fatalf("net/http %t: %+v, %v, want 400 and the end of the connection", bare, resp, err)
		}
		if rest, err := io.ReadAll(conn); string(rest) != "400 Bad Request" || err != nil {
			t.Errorf("net/http %t: then comes %q, %v", bare, rest, err)
		}
		if n := h.Gauge("troupe.http.refused", "framing"); n != 1 {
			t.Errorf("net/http %t: %d are counted, want 1", bare, n)
		}
	}
}

// TestLastResponse has a client send more than its last request. The connection ends after the response, which still reaches
// the client: a connection that is closed with something unread is reset.
func TestLastResponse(t *testing.T) {
	t.Parallel()
	h := host.NewLoopback(t, troupe.Options{}, nil, nil)
	for range 20 { // a reset may come after the end was read
		conn := dialFrom(t, "127.0.0.1", strings.TrimSuffix(strings.TrimPrefix(h.URL, "http://"), "/mcp"))
		_, _ = conn.WriteString("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n" + strings.Repeat("x", 100_000))
		if err := conn.Flush(); err != nil {
			t.Fatalf("the connection ended before all was sent: %v", err)
		}
		resp, err := http.ReadResponse(conn.Reader, nil)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("%+v, %v", resp, err)
		}
		if _, err := io.ReadAll(conn); err != nil {
			t.Fatalf("the connection ends with %v", err)
		}
	}
}

// TestFailedHandshakes has clients fail to begin TLS. Each counts, and one of a minute is logged, as no warning.
func TestFailedHandshakes(t *testing.T) {
	t.Parallel()
	var log host.Lines
	certFile, keyFile, _ := certificate.Files(t)
	h := host.NewLoopback(t, troupe.Options{Log: slog.New(slog.NewTextHandler(&log, nil)), HTTP: troupe.HTTPOptions{TLSCert: certFile, TLSKey: keyFile}}, nil, nil)
	for range 5 {
		conn := dialFrom(t, "127.0.0.1", strings.TrimSuffix(strings.TrimPrefix(h.URL, "http://"), "/mcp"))
		_, _ = conn.WriteString("no TLS at all\r\n\r\n")
		if err := conn.Flush(); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, conn) // until the connection is closed
	}
	if n := h.Gauge("troupe.http.refused", "tls-handshake"); n != 5 {
		t.Errorf("%d are counted, want 5", n)
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `level=INFO msg="a TLS handshake failed" times=1 error="http: TLS handshake error from 127.0.0.1:`) {
		t.Errorf("the log of a minute: %s", got)
	}
}

// TestChunksOverTLS sends requests with two lengths over TLS, where nobody sees the second one: the connection is closed
// after a request in chunks, and what follows never runs. Without TLS the connection stays.
func TestChunksOverTLS(t *testing.T) {
	t.Parallel()
	certFile, keyFile, pool := certificate.Files(t)
	secret := host.NewLoopback(t, troupe.Options{HTTP: troupe.HTTPOptions{TLSCert: certFile, TLSKey: keyFile}}, nil, nil)
	open := host.NewLoopback(t, troupe.Options{}, nil, nil)
	head := "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
	body := host.Method("1", "ping", "")
	chunks := fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	const next = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
	for name, tt := range map[string]struct {
		h      *host.Host
		text   string
		closes bool
	}{
		"two lengths over TLS": {secret, head + "Content-Length: 5\r\n" + chunks, true},
		"chunks over TLS":      {secret, head + chunks, true},
		"a length over TLS":    {secret, head + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body), false},
		"chunks":               {open, head + chunks, false},
	} {
		t.Run(name, func(t *testing.T) {
			address := strings.TrimSuffix(strings.TrimPrefix(tt.h.URL, "http://"), "/mcp")
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			if tt.h == secret {
				conn = tls.Client(conn, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"})
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, tt.text+next); err != nil {
				t.Fatal(err)
			}
			br := bufio.NewReader(conn)
			resp, err := http.ReadResponse(br, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			if resp.StatusCode != 200 || string(got) != `{"jsonrpc":"2.0","id":1,"result":{}}` || err != nil || resp.Close != tt.closes {
				t.Errorf("%s %s, closes: %t, %v", resp.Status, got, resp.Close, err)
			}
			switch resp, err := http.ReadResponse(br, nil); {
			case tt.closes && err == nil:
				t.Errorf("the next request is answered, %s", resp.Status)
			case !tt.closes && (err != nil || resp.StatusCode != 200):
				t.Errorf("the next request: %+v, %v", resp, err)
			}
		})
	}
}

package limits_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/internal/spec/host"
	"github.com/troupe-run/troupe/internal/testkit"
	"github.com/troupe-run/troupe/internal/testkit/issuer"
	"github.com/troupe-run/troupe/internal/testkit/when"
	"github.com/troupe-run/troupe/mcp"
)

const audience = "https://mcp.example.com/mcp"

// doors are the ways to say who calls: by a function of the program, and by access tokens.
func doors(tb testing.TB) (byFunction, byToken troupe.Options, token string) {
	id := issuer.New(tb)
	token = id.Token("alice", audience, nil)
	byFunction.Authenticate = func(*http.Request) (troupe.Principal, error) {
		return troupe.Principal{Issuer: "https://id.example.com", Subject: "alice", Client: "editor"}, nil
	}
	byToken.Auth = &auth.Config{Issuers: []auth.Issuer{{URL: id.URL}}, PublicURL: "https://mcp.example.com"}
	return byFunction, byToken, token
}

// authorized returns the function that runs an operation with a token.
func authorized(tb testing.TB, o troupe.Options, token string, n int) func() {
	hs := benchServer(tb, o)
	c := &testkit.Client{T: tb, HTTP: hs.Client(), URL: hs.URL + "/mcp", Header: http.Header{"Authorization": {"Bearer " + token}}}
	op := operations(c.Initialize(`{}`).Session)[n]
	rd := strings.NewReader(op.body)
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/mcp", nil)
	r.Body, r.ContentLength, r.Header = io.NopCloser(rd), int64(len(op.body)), op.header.Clone()
	r.Header["Content-Type"], r.Header["Accept"] = []string{"application/json"}, []string{"application/json, text/event-stream"}
	r.Header["Authorization"] = []string{"Bearer " + token}
	w := &nullWriter{h: http.Header{}}
	return func() {
		rd.Reset(op.body)
		clear(w.h)
		hs.Config.Handler.ServeHTTP(w, r)
		if w.status != 200 && w.status != 0 {
			tb.Fatalf("%s: status %d", op.name, w.status)
		}
	}
}

// opened serves with Serve's own listener, and returns the function that makes a call over one connection.
func opened(tb testing.TB, o troupe.Options, token string) func() {
	o.Limits.CallRate, o.Shared.PrincipalRate, o.DrainDelay = 1e6, 1e6, -1
	rt, err := troupe.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	srv := troupe.NewServer(mcp.Implementation{Name: "bench", Version: "1"}, nil)
	host.AddTestTools(srv)
	rt.Mount("/mcp", srv)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- rt.ServeOn(ctx, ln) }()
	client := &http.Client{Transport: new(http.Transport)}
	c := &testkit.Client{T: tb, HTTP: client, URL: "http://" + ln.Addr().String() + "/mcp", Header: http.Header{"Authorization": {"Bearer " + token}}}
	session := c.Initialize(`{}`).Session
	client.CloseIdleConnections()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		conn.Close()
		stop()
		if err := <-served; err != nil {
			tb.Error(err)
		}
	})
	body := host.Call("1", "echo", `{"text":"`+strings.Repeat("x", 105)+`"}`)
	request := fmt.Appendf(nil, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nAuthorization: Bearer %s\r\n"+
		"Mcp-Session-Id: %s\r\nMcp-Protocol-Version: 2025-11-25\r\nContent-Length: %d\r\n\r\n%s", ln.Addr(), token, session, len(body), body)
	rd := bufio.NewReader(conn)
	return func() {
		if _, err := conn.Write(request); err != nil {
			tb.Fatal(err)
		}
		if err := discardResponse(rd); err != nil {
			tb.Fatal(err)
		}
	}
}

// TestTokensCostNoAllocation compares a call with an access token with one whose principal a function of the program says: with the last token of the
// connection, and with one of the table.
func TestTokensCostNoAllocation(t *testing.T) {
	if when.RaceEnabled {
		t.Skip("under the race detector pools lose what they have, at random")
	}
	byFunction, byToken, token := doors(t)
	compare := func(name string, before, now budget) {
		t.Logf("%s: %.2f allocations of %.0f bytes, with a token %.2f of %.0f", name, before.Allocations, before.Bytes, now.Allocations, now.Bytes)
		if now.Allocations > before.Allocations+0.1 || now.Bytes > before.Bytes*1.02+16 {
			t.Errorf("%s: a token costs %.2f allocations and %.0f bytes more", name, now.Allocations-before.Allocations, now.Bytes-before.Bytes)
		}
	}
	for _, n := range []int{0, 4} {
		compare(operations("")[n].name, measure(authorized(t, byFunction, token, n)), measure(authorized(t, byToken, token, n)))
	}
	compare("one connection", measure(opened(t, byFunction, token)), measure(opened(t, byToken, token)))
}

// BenchmarkTokens measures what TestTokensCostNoAllocation counts: processor time of a call, that of the client included for those over a connection.
func BenchmarkTokens(b *testing.B) {
	byFunction, byToken, token := doors(b)
	for name, o := range map[string]troupe.Options{"function": byFunction, "token": byToken} {
		for way, run := range map[string]func() func(){
			"table/legacy":    func() func() { return authorized(b, o, token, 0) },
			"table/stateless": func() func() { return authorized(b, o, token, 4) },
			"last":            func() func() { return opened(b, o, token) },
		} {
			b.Run(way+"/by="+name, func(b *testing.B) {
				f := run()
				b.ReportAllocs()
				runtime.GC()
				b.ResetTimer()
				begin := testkit.CPU()
				for range b.N {
					f()
				}
				b.ReportMetric(float64((testkit.CPU()-begin).Nanoseconds())/float64(b.N)/1000, "cpu-µs/op")
			})
		}
	}
}

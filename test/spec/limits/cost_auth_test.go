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
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/issuer"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

const audience = "https://mcp.example.com/mcp"

// doors are the ways to say who calls: by a function of the program, and by access tokens, of which alice has some.
func doors(tb testing.TB, n int) (byFunction, byToken troupe.Options, tokens []string) {
	id := issuer.New(tb)
	for range n {
		tokens = append(tokens, id.Token("alice", audience, issuer.Claims{"exp": time.Now().Add(time.Hour).Unix()}))
	}
	byFunction.Authenticate = func(*http.Request) (troupe.Principal, error) {
		return troupe.Principal{Issuer: "https://id.example.com", Subject: "alice", Client: "editor"}, nil
	}
	byToken.Auth = &auth.Config{Issuers: []auth.Issuer{{URL: id.URL}}, PublicURL: "https://mcp.example.com"}
	return byFunction, byToken, tokens
}

// authorized returns the function that runs an operation with a token.
func authorized(tb testing.TB, o troupe.Options, token string, n int) func() {
	return authorizedInTurn(tb, o, []string{token}, n)
}

// authorizedInTurn is authorized with several tokens of one principal, which have all been verified before: each run has the next one.
func authorizedInTurn(tb testing.TB, o troupe.Options, tokens []string, n int) func() {
	hs := benchServer(tb, o)
	c := &kit.Client{T: tb, HTTP: hs.Client(), URL: hs.URL + "/mcp", Header: http.Header{"Authorization": {"Bearer " + tokens[0]}}}
	op := operations(c.Initialize(`{}`).Session)[n]
	rd := strings.NewReader(op.body)
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/mcp", nil)
	r.Body, r.ContentLength, r.Header = io.NopCloser(rd), int64(len(op.body)), op.header.Clone()
	r.Header["Content-Type"], r.Header["Accept"] = []string{"application/json"}, []string{"application/json, text/event-stream"}
	values := make([][]string, len(tokens))
	for i, token := range tokens {
		values[i] = []string{"Bearer " + token}
	}
	w, at := &nullWriter{h: http.Header{}}, 0
	run := func() {
		r.Header["Authorization"] = values[at]
		at = (at + 1) % len(values)
		rd.Reset(op.body)
		clear(w.h)
		hs.Config.Handler.ServeHTTP(w, r)
		if w.status != 200 && w.status != 0 {
			tb.Fatalf("%s: status %d", op.name, w.status)
		}
	}
	for range tokens {
		run()
	}
	return run
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
	c := &kit.Client{T: tb, HTTP: client, URL: "http://" + ln.Addr().String() + "/mcp", Header: http.Header{"Authorization": {"Bearer " + token}}}
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
	byFunction, byToken, tokens := doors(t, 1)
	token := tokens[0]
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

// manyTokens are live at once, a third of those that a runtime remembers.
const manyTokens = 10_000

// TestManyTokensCostNoAllocation compares calls whose tokens take turns, of as many as are live, with those of one.
func TestManyTokensCostNoAllocation(t *testing.T) {
	if when.RaceEnabled {
		t.Skip("under the race detector pools lose what they have, at random")
	}
	_, byToken, tokens := doors(t, manyTokens)
	for _, n := range []int{0, 4} {
		one, many := measure(authorized(t, byToken, tokens[0], n)), measure(authorizedInTurn(t, byToken, tokens, n))
		t.Logf("%s: %.2f allocations of %.0f bytes, with %d tokens %.2f of %.0f", operations("")[n].name, one.Allocations, one.Bytes, len(tokens), many.Allocations, many.Bytes)
		if many.Allocations > one.Allocations+0.1 || many.Bytes > one.Bytes*1.02+16 {
			t.Errorf("%s: many tokens cost %.2f allocations and %.0f bytes more", operations("")[n].name, many.Allocations-one.Allocations, many.Bytes-one.Bytes)
		}
	}
}

// BenchmarkTokens measures what these tests count: processor time of a call, that of the client included for those over a connection.
func BenchmarkTokens(b *testing.B) {
	byFunction, byToken, tokens := doors(b, manyTokens)
	for name, o := range map[string]troupe.Options{"function": byFunction, "token": byToken, "tokens": byToken} {
		token, live := tokens[0], tokens[:1]
		if name == "tokens" {
			live = tokens
		}
		for way, run := range map[string]func() func(){
			"table/legacy":    func() func() { return authorizedInTurn(b, o, live, 0) },
			"table/stateless": func() func() { return authorizedInTurn(b, o, live, 4) },
			"last":            func() func() { return opened(b, o, token) },
		} {
			if name == "tokens" && way == "last" {
				continue // a connection has one
			}
			b.Run(way+"/by="+name, func(b *testing.B) {
				f := run()
				b.ReportAllocs()
				runtime.GC()
				b.ResetTimer()
				begin := kit.CPU()
				for range b.N {
					f()
				}
				b.ReportMetric(float64((kit.CPU()-begin).Nanoseconds())/float64(b.N)/1000, "cpu-µs/op")
			})
		}
	}
}

package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/refusal"
)

func errorBody(code int, message, rest string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0"%s,"error":{"code":%d,"message":%q`, rest, code, message) + "}}"
}

func TestAdmission(t *testing.T) {
	t.Parallel()
	revisions := []string{"2025-06-18", "2025-11-25"}
	plain := Options{Revisions: revisions, MaxBody: 200, Limits: codec.Limits{MaxDepth: 8}}
	with := func(change func(*Options)) Options {
		o := plain
		change(&o)
		return o
	}
	origins := with(func(o *Options) { o.AllowOrigins = []string{"https://App.example.com/", "vscode-webview://x"} })
	hosts := with(func(o *Options) { o.AllowHosts = []string{"mcp.example.com", "pinned.example.com:8443"} })
	authenticated := with(func(o *Options) {
		o.Authenticate = func(r *http.Request) (any, error) {
			if r.Header.Get("Authorization") != "Bearer good" {
				return nil, errors.New("the key of tenant 12 has expired")
			}
			return "ann", nil
		}
	})
	invalid := func(message string) string { return errorBody(-32600, message, "") }
	badHost, badOrigin := invalid("Host not allowed: --allow-host and Options.HTTP.AllowHosts allow it"), invalid("Origin not allowed: --allow-origin and Options.HTTP.AllowOrigins allow it")
	badType := invalid("Content-Type must be application/json in UTF-8")
	badAccept := invalid("Accept must admit application/json and text/event-stream")
	badSession := invalid("Invalid Mcp-Session-Id header")
	badVersion := func(requested string) string {
		return `{"jsonrpc":"2.0","error":{"code":-32602,"message":"MCP-Protocol-Version is not supported","data":{"supported":["2025-11-25","2025-06-18"],"requested":"` + requested + `"}}}`
	}
	long := `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("m", 200) + `"}`
	chunked := func(body string) string { return fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body) }
	const jsonSSE = typeJSON + ", " + typeSSE

	for name, row := range map[string]struct {
		options      Options
		method, body string // "" is a POST of ping
		headers      []string
		status       int
		want         string
		closes       bool
	}{
		"ping":                {status: 200, want: ping},
		"PUT":                 {method: "PUT", status: 405, want: invalid("Method not allowed")},
		"HEAD":                {method: "HEAD", status: 405, want: ""},
		"GET":                 {method: "GET", status: 200, want: `{"event":""}`},
		"DELETE":              {method: "DELETE", status: 204, want: ""},
		"host localhost":      {headers: []string{"Host: LocalHost:99"}, status: 200, want: ping},
		"host v6":             {headers: []string{"Host: [::1]"}, status: 200, want: ping},
		"host rebound":        {headers: []string{"Host: evil.example.com"}, status: 403, want: badHost},
		"host rebound, port":  {headers: []string{"Host: evil.example.com:80"}, status: 403, want: badHost},
		"host prefix":         {headers: []string{"Host: localhost.example.com"}, status: 403, want: badHost},
		"host dot":            {headers: []string{"Host: 127.0.0.1.example.com"}, status: 403, want: badHost},
		"host bad port":       {headers: []string{"Host: localhost:8x"}, status: 403, want: badHost},
		"host before method":  {method: "PATCH", headers: []string{"Host: evil.example.com"}, status: 403, want: badHost},
		"method before auth":  {options: authenticated, method: "PATCH", status: 405, want: invalid("Method not allowed")},
		"host allowed":        {options: hosts, headers: []string{"Host: MCP.example.com:1"}, status: 200, want: ping},
		"host allowed, port":  {options: hosts, headers: []string{"Host: pinned.example.com:8443"}, status: 200, want: ping},
		"host allowed, other": {options: hosts, headers: []string{"Host: pinned.example.com:8444"}, status: 403, want: badHost},
		"host listed, local":  {options: hosts, status: 200, want: ping},

		"origin same":        {headers: []string{"Origin: http://ADDR"}, status: 200, want: ping},
		"origin local":       {headers: []string{"Origin: http://localhost:6274"}, status: 200, want: ping},
		"origin local v6":    {headers: []string{"Origin: https://[::1]"}, status: 200, want: ping},
		"origin null":        {headers: []string{"Origin: null"}, status: 403, want: badOrigin},
		"origin null, any":   {options: with(func(o *Options) { o.AllowOrigins = []string{"*"} }), headers: []string{"Origin: null"}, status: 403, want: badOrigin},
		"origin any":         {options: with(func(o *Options) { o.AllowOrigins = []string{"*"} }), headers: []string{"Origin: https://x.test"}, status: 200, want: ping},
		"origin foreign":     {headers: []string{"Origin: https://evil.example.com"}, status: 403, want: badOrigin},
		"origin twice":       {headers: []string{"Origin: http://ADDR", "Origin: http://ADDR"}, status: 403, want: badOrigin},
		"origin with path":   {headers: []string{"Origin: http://localhost/x"}, status: 403, want: badOrigin},
		"origin user":        {headers: []string{"Origin: http://localhost@evil.example.com"}, status: 403, want: badOrigin},
		"origin file":        {headers: []string{"Origin: file://localhost"}, status: 403, want: badOrigin},
		"origin listed":      {options: origins, headers: []string{"Origin: https://app.example.com"}, status: 200, want: ping},
		"origin listed port": {options: origins, headers: []string{"Origin: https://app.example.com:8443"}, status: 403, want: badOrigin},
		"origin webview":     {options: origins, headers: []string{"Origin: vscode-webview://x"}, status: 200, want: ping},
		"origin after host":  {headers: []string{"Origin: null", "Host: evil"}, status: 403, want: badHost},
		"origin preflight":   {method: "OPTIONS", headers: []string{"Origin: null"}, status: 403, want: badOrigin},

		"auth missing":     {options: authenticated, status: 401, want: invalid("Unauthorized")},
		"auth wrong":       {options: authenticated, headers: []string{"Authorization: Bearer bad"}, status: 401, want: invalid("Unauthorized")},
		"auth before rest": {options: authenticated, headers: []string{"MCP-Protocol-Version: 1"}, status: 401, want: invalid("Unauthorized")},
		"auth good":        {options: authenticated, headers: []string{"Authorization: Bearer good"}, status: 200, want: ping},
		"auth preflight":   {options: authenticated, method: "OPTIONS", status: 204},

		"version known":         {headers: []string{"MCP-Protocol-Version: 2025-11-25"}, status: 200, want: ping},
		"version unknown":       {headers: []string{"MCP-Protocol-Version: 1999-01-01"}, status: 400, want: badVersion("1999-01-01")},
		"version quoted":        {headers: []string{`MCP-Protocol-Version: a"b`}, status: 400, want: badVersion(`a\"b`)},
		"version twice":         {headers: []string{"MCP-Protocol-Version: 2025-11-25", "MCP-Protocol-Version: 2025-11-25"}, status: 200, want: ping},
		"two versions":          {headers: []string{"MCP-Protocol-Version: 2025-11-25", "MCP-Protocol-Version: 2025-06-18"}, status: 400, want: badVersion("2025-11-25, 2025-06-18")},
		"version long":          {headers: []string{"MCP-Protocol-Version: " + strings.Repeat("9", 999)}, status: 400, want: badVersion(strings.Repeat("9", 128))},
		"version on GET":        {method: "GET", headers: []string{"MCP-Protocol-Version: x"}, status: 400, want: badVersion("x")},
		"version on DELETE":     {method: "DELETE", headers: []string{"MCP-Protocol-Version: x"}, status: 400, want: badVersion("x")},
		"version before accept": {headers: []string{"MCP-Protocol-Version: x", "Accept: a/b"}, status: 400, want: badVersion("x")},

		"session good":  {headers: []string{"Mcp-Session-Id: !~aZ9"}, status: 200, want: ping},
		"session space": {headers: []string{"Mcp-Session-Id: a b"}, status: 400, want: badSession},
		"session bytes": {headers: []string{"Mcp-Session-Id: \xc3\xa9"}, status: 400, want: badSession},
		"session twice": {method: "DELETE", headers: []string{"Mcp-Session-Id: a", "Mcp-Session-Id: b"}, status: 400, want: badSession},

		"type charset":       {headers: []string{`Content-Type: Application/JSON; Charset="UTF-8"`}, status: 200, want: ping},
		"type charset utf8":  {headers: []string{"Content-Type: application/json;charset=Utf8"}, status: 200, want: ping},
		"type other":         {headers: []string{"Content-Type: text/plain"}, status: 415, want: badType},
		"type form":          {headers: []string{"Content-Type: application/x-www-form-urlencoded"}, status: 415, want: badType},
		"type none":          {headers: []string{"Content-Type: "}, status: 415, want: badType},
		"type prefix":        {headers: []string{"Content-Type: application/jsonp"}, status: 415, want: badType},
		"type latin":         {headers: []string{"Content-Type: application/json; charset=iso-8859-1"}, status: 415, want: badType},
		"type twice":         {headers: []string{"Content-Type: " + typeJSON + "\r\nContent-Type: " + typeJSON}, status: 415, want: badType},
		"type before accept": {headers: []string{"Content-Type: a/b", "Accept: a/b"}, status: 415, want: badType},
		"encoding gzip":      {headers: []string{"Content-Encoding: gzip"}, status: 415, want: invalid("Content-Encoding is not supported")},
		"encoding identity":  {headers: []string{"Content-Encoding: identity"}, status: 200, want: ping},

		"accept any":          {headers: []string{"Accept: */*"}, status: 200, want: ping},
		"accept families":     {headers: []string{"Accept: application/*;q=0.1 , TEXT/*"}, status: 200, want: ping},
		"accept two headers":  {headers: []string{"Accept: " + typeJSON + "\r\nAccept: " + typeSSE}, status: 200, want: ping},
		"accept none":         {headers: []string{"Accept: "}, status: 406, want: badAccept},
		"accept json only":    {headers: []string{"Accept: " + typeJSON}, status: 406, want: badAccept},
		"accept sse only":     {headers: []string{"Accept: " + typeSSE}, status: 406, want: badAccept},
		"accept q=0":          {headers: []string{"Accept: " + jsonSSE + ";q=0"}, status: 406, want: badAccept},
		"accept q=0.000":      {headers: []string{"Accept: */*, " + typeSSE + "; q=0.000"}, status: 406, want: badAccept},
		"accept q small":      {headers: []string{"Accept: " + jsonSSE + ";q=0.001"}, status: 200, want: ping},
		"accept quoted comma": {headers: []string{`Accept: text/html;x="` + jsonSSE + `"`}, status: 406, want: badAccept},
		"accept GET":          {method: "GET", headers: []string{"Accept: " + typeSSE}, status: 200, want: `{"event":""}`},
		"accept GET json":     {method: "GET", headers: []string{"Accept: " + typeJSON}, status: 406, want: invalid("Accept must admit text/event-stream")},
		"accept DELETE":       {method: "DELETE", headers: []string{"Accept: a/b"}, status: 204},

		"too long":          {body: long, status: 413, want: invalid("the message is too large: max-body allows 200 bytes"), closes: true},
		"too long, chunked": {body: chunked(long), headers: []string{"Content-Length: ", "Transfer-Encoding: chunked"}, status: 413, want: invalid("the message is too large: max-body allows 200 bytes"), closes: true},
		"exactly as long":   {body: ping + strings.Repeat(" ", 200-len(ping)), status: 200, want: ping + strings.Repeat(" ", 200-len(ping))},
		"chunked":           {body: chunked(ping), headers: []string{"Content-Length: ", "Transfer-Encoding: chunked"}, status: 200, want: ping, closes: true},
		"chunked empty":     {body: "0\r\n\r\n", headers: []string{"Content-Length: ", "Transfer-Encoding: chunked"}, status: 400, want: errorBody(-32700, "Request body is empty", ""), closes: true},
		"chunked malformed": {body: "zz\r\n", headers: []string{"Content-Length: ", "Transfer-Encoding: chunked"}, status: 400, want: errorBody(-32700, "Request body could not be read", ""), closes: true},
		"empty":             {body: "-", status: 400, want: errorBody(-32700, "Request body is empty", "")},
		"batch":             {body: "[" + ping + "]", status: 200, want: "[" + ping + "]"},

		"event id":           {method: "GET", headers: []string{"Last-Event-ID: a b/ü"}, status: 200, want: `{"event":"a b/ü"}`},
		"event id long":      {method: "GET", headers: []string{"Last-Event-ID: " + strings.Repeat("i", 257)}, status: 400, want: errorBody(-32011, refusal.EventID.Text, "")},
		"event id full":      {method: "GET", headers: []string{"Last-Event-ID: " + strings.Repeat("i", 256)}, status: 200, want: `{"event":"` + strings.Repeat("i", 256) + `"}`},
		"event id twice":     {method: "GET", headers: []string{"Last-Event-ID: a", "Last-Event-ID: a"}, status: 400, want: errorBody(-32011, refusal.EventID.Text, "")},
		"event id on a POST": {headers: []string{"Last-Event-ID: x"}, status: 200, want: ping},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if row.options.MaxBody == 0 {
				row.options = plain
			}
			seen := newCounts()
			row.options.Observer = seen
			s := serve(t, funcs{}, row.options)
			method, body := row.method, row.body
			switch {
			case method == "":
				method = "POST"
				if body == "" {
					body = ping
				}
				if body == "-" {
					body = ""
				}
			}
			headers := append([]string(nil), row.headers...)
			for i := range headers {
				headers[i] = strings.ReplaceAll(headers[i], "ADDR", s.addr)
			}
			resp, got := do(t, s.addr, request(method, s.addr, body, headers...))
			if resp.StatusCode != row.status || got != row.want {
				t.Errorf("got %d %s, want %d %s", resp.StatusCode, got, row.status, row.want)
			}
			if resp.Close != row.closes {
				t.Errorf("connection closed: got %v, want %v", resp.Close, row.closes)
			}
			if got != "" && resp.Header.Get("Content-Type") != typeJSON {
				t.Errorf("Content-Type: got %q", resp.Header.Get("Content-Type"))
			}
			refused := 0
			if row.status >= 400 {
				refused = 1
			}
			if len(seen.rejected) != refused {
				t.Errorf("observed refusals: got %v, want %d", seen.rejected, refused)
			}
			switch row.status {
			case 405:
				if got := resp.Header.Get("Allow"); got != "GET, POST, DELETE, OPTIONS" {
					t.Errorf("Allow: got %q", got)
				}
			case 401:
				if got := resp.Header.Get("WWW-Authenticate"); got != "Bearer" {
					t.Errorf("WWW-Authenticate: got %q", got)
				}
			}
		})
	}
}

func TestMalformedMessages(t *testing.T) {
	t.Parallel()
	s := serve(t, funcs{}, Options{})
	for _, body := range []string{`{`, `nonsense`, `{"jsonrpc":"1.0","id":"a","method":"m"}`, `{"jsonrpc":"2.0","id":null,"method":"m"}`,
		`[]`, `{"jsonrpc":"2.0","id":3,"method":"m","params":4}`, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}"} {
		var m codec.Message
		e := codec.Scan([]byte(body), &m, codec.Limits{})
		if e == nil {
			t.Fatalf("%s: scans", body)
		}
		resp, got := do(t, s.addr, request("POST", s.addr, body))
		want := string(codec.AppendError(nil, e.ID, e.Code, reasonTold(e), nil))
		if resp.StatusCode != 400 || got != want {
			t.Errorf("%s: got %d %s, want 400 %s", body, resp.StatusCode, got, want)
		}
	}
}

func TestCORS(t *testing.T) {
	t.Parallel()
	s := serve(t, funcs{}, Options{AllowOrigins: []string{"https://app.example.com"}})
	const origin = "Origin: https://app.example.com"
	pick := func(resp *http.Response) map[string]string {
		out := map[string]string{}
		for name := range resp.Header {
			if strings.HasPrefix(name, "Access-") || name == "Vary" {
				out[name] = resp.Header.Get(name)
			}
		}
		return out
	}
	resp, _ := do(t, s.addr, request("OPTIONS", s.addr, "", origin, "Access-Control-Request-Method: POST"))
	want := map[string]string{
		"Access-Control-Allow-Origin":  "https://app.example.com",
		"Access-Control-Allow-Methods": "GET, POST, DELETE, OPTIONS",
		"Access-Control-Allow-Headers": "Content-Type, Accept, Authorization, Mcp-Session-Id, MCP-Protocol-Version, Last-Event-ID, Mcp-Method, Mcp-Name, traceparent, tracestate, baggage",
		"Access-Control-Max-Age":       "600",
		"Vary":                         "Origin",
	}
	if diff := cmp.Diff(pick(resp), want); diff != "" || resp.StatusCode != 204 {
		t.Errorf("preflight: status %d, headers (-got +want):\n%s", resp.StatusCode, diff)
	}
	want = map[string]string{
		"Access-Control-Allow-Origin":   "https://app.example.com",
		"Access-Control-Expose-Headers": "Mcp-Session-Id, MCP-Protocol-Version, Retry-After, WWW-Authenticate",
		"Vary":                          "Origin",
	}
	for _, raw := range []string{request("POST", s.addr, ping, origin), request("POST", s.addr, "x", origin), request("DELETE", s.addr, "", origin)} {
		resp, _ = do(t, s.addr, raw)
		if diff := cmp.Diff(pick(resp), want); diff != "" {
			t.Errorf("%.6s: headers (-got +want):\n%s", raw, diff)
		}
	}
	resp, _ = do(t, s.addr, request("POST", s.addr, ping))
	if diff := cmp.Diff(pick(resp), map[string]string{}); diff != "" {
		t.Errorf("without an origin (-got +want):\n%s", diff)
	}
	resp, _ = do(t, s.addr, request("POST", s.addr, ping, "Origin: https://evil.example.com"))
	if diff := cmp.Diff(pick(resp), map[string]string{}); diff != "" {
		t.Errorf("refused origin (-got +want):\n%s", diff)
	}
}

// TestHostAwayFromLoopback covers listeners that a test cannot have.
func TestHostAwayFromLoopback(t *testing.T) {
	t.Parallel()
	network := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80}
	socket := &net.UnixAddr{Name: "/run/troupe", Net: "unix"}
	foreign := &net.IPAddr{IP: net.IPv4(127, 0, 0, 1)} // no type that is known
	own, pinned, any := []string{"a.test"}, []string{"a.test:8443"}, []string{"*"}
	for _, row := range []struct {
		local        net.Addr // nil: the request has none
		hosts        []string
		host, origin string
		ok           bool
	}{
		{network, nil, "anything.example.com", "", false},
		{network, nil, "anything.example.com", "http://anything.example.com", false},
		{network, nil, "192.0.2.1", "", true},
		{network, nil, "192.0.2.1:8080", "http://192.0.2.1:8080", true},
		{network, nil, "198.51.100.7:80", "", true}, // the address of a router before it
		{network, nil, "[2001:db8::1]:8080", "", true},
		{network, nil, "[fe80::1%25eth0]", "", false},
		{network, nil, "[192.0.2.1]", "", false},
		{network, nil, "192.0.2.1.example.com", "", false},
		{network, nil, "192.0.2", "", false},
		{network, nil, "192.0.2.1]", "", false},
		{network, nil, "localhost:8080", "", true}, // a published port of a container
		{network, nil, "localhost.example.com", "", false},
		{network, nil, "", "", false},
		{network, own, "a.test", "", true},
		{network, own, "A.test:80", "https://a.test:80", true},
		{network, own, "a.test", "https://a.test", true},
		{network, own, "a.test:443", "https://A.test", true},
		{network, own, "a.test:8443", "https://a.test", false},
		{network, own, "a.test", "http://localhost:3000", false},
		{network, own, "b.test", "", false},
		{network, own, "192.0.2.1", "", true},
		{network, own, "", "", false},
		{network, pinned, "a.test:8443", "", true},
		{network, pinned, "a.test", "", false},
		{network, any, "b.test", "", true},
		{network, any, "", "", true},
		{network, any, "b.test", "https://c.test", false},
		{foreign, nil, "a.test", "", false},
		{foreign, nil, "192.0.2.1", "", true},
		{nil, nil, "anything.example.com", "", true},
		{nil, nil, "mcp.example.com", "https://mcp.example.com", true},
		{nil, nil, "mcp.example.com:443", "https://MCP.example.com", true},
		{nil, nil, "mcp.example.com:8443", "https://mcp.example.com", false},
		{nil, nil, "mcp.example.com", "http://localhost:3000", false},
		{nil, nil, "", "", true},
		{nil, own, "a.test", "", true},
		{nil, own, "localhost", "", false},
		{nil, own, "", "", false},
		{nil, any, "b.test", "", true},
		{socket, nil, "anything.example.com", "", true},
		{socket, nil, "", "", true},
		{socket, own, "a.test", "", true},
		{socket, own, "b.test", "", false},
		{socket, own, "192.0.2.1", "", false},
		{socket, own, "localhost", "", false},
	} {
		h := NewHandler(funcs{}, Options{AllowHosts: row.hosts})
		r := httptest.NewRequest("DELETE", "/mcp", nil)
		if row.local != nil {
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, row.local))
		}
		r.Host = row.host
		if row.origin != "" {
			r.Header.Set("Origin", row.origin)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Code == 204; got != row.ok {
			t.Errorf("on %v, hosts %v, host %q, origin %q: got %d, want ok %v", row.local, row.hosts, row.host, row.origin, w.Code, row.ok)
		}
	}
}

// TestUnavailableIsCounted: a request that a server sends away until later is counted, whatever its status, and others that it refuses are not.
func TestUnavailableIsCounted(t *testing.T) {
	t.Parallel()
	o := newCounts()
	inSession := *refusal.Unavailable
	inSession.Status = 200
	refusals := make(chan *refusal.Refusal, 3)
	s := serve(t, funcs{post: func(x *Exchange) { (<-refusals).Tell(x, x.Msg.ID) }}, Options{Revisions: []string{"2025-11-25"}, Observer: o})
	for _, no := range []*refusal.Refusal{refusal.Unavailable, &inSession, refusal.UnknownSession} {
		refusals <- no
		resp := dial(t, s.addr).send(request("POST", s.addr, ping)).response("POST")
		if _, _ = io.ReadAll(resp.Body); resp.StatusCode != no.Status {
			t.Errorf("%q is answered with %d", no.Text, resp.StatusCode)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if diff := cmp.Diff(o.rejected, map[string]int{"503 unavailable": 1, "200 unavailable": 1}); diff != "" {
		t.Errorf("counted (-got +want):\n%s", diff)
	}
}

func TestFieldsOfAnExchange(t *testing.T) {
	t.Parallel()
	type fields struct{ Session, Version, Principal, Trace, Remote, ID, Method, Body string }
	got := make(chan fields, 1)
	s := serve(t, funcs{post: func(x *Exchange) {
		got <- fields{x.SessionID, x.Version, fmt.Sprint(x.Principal), x.Header.Get("traceparent"), x.RemoteAddr(), string(x.Msg.ID), string(x.Msg.Method), string(x.Body)}
		x.SetSession("new")
		x.Reject(&refusal.Refusal{Status: 429, Code: -32600, Text: "slow down", Data: []byte(`{"a":1}`), ID: x.Msg.ID, After: 1500e6})
	}}, Options{Revisions: []string{"2025-11-25"}, Authenticate: func(*http.Request) (any, error) { return "ann", nil }})
	c := dial(t, s.addr).send(request("POST", s.addr, ping, "Mcp-Session-Id: s1", "Mcp-Protocol-Version: 2025-11-25", "Traceparent: 00-a"))
	resp := c.response("POST")
	body, _ := io.ReadAll(resp.Body)
	want := fields{"s1", "2025-11-25", "ann", "00-a", c.LocalAddr().String(), "7", "ping", ping}
	if diff := cmp.Diff(<-got, want); diff != "" {
		t.Errorf("fields (-got +want):\n%s", diff)
	}
	if string(body) != `{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"slow down","data":{"a":1}}}` || resp.StatusCode != 429 {
		t.Errorf("got %d %s", resp.StatusCode, body)
	}
	if resp.Header.Get("Retry-After") != "2" || resp.Header.Get("Mcp-Session-Id") != "new" {
		t.Errorf("headers: got %v", resp.Header)
	}
}

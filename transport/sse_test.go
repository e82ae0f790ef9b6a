package transport

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe/internal/refusal"
)

// links is a Connector that sends its sessions to a channel and echoes messages to the newest session.
type links struct {
	funcs
	opened  chan *Exchange
	connect func(*Exchange)
	message func(*Exchange)
}

func (l *links) Connect(x *Exchange) {
	if l.connect != nil {
		l.connect(x)
		return
	}
	x.SetSession("s&1")
	if x.Open() {
		l.opened <- x
	}
}

func (l *links) Message(x *Exchange) {
	if l.message != nil {
		l.message(x)
		return
	}
	x.Accepted()
}

func newLinks() *links { return &links{opened: make(chan *Exchange, 64)} }

// bothEndpoints returns a mux with the two endpoints of the transport.
func bothEndpoints(h *Handler) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("/sse", h.SSE("messages"))
	mux.Handle("/messages", h.Messages())
	return mux
}

func serveLinks(t testing.TB, d Dispatcher, o Options) *running {
	t.Helper()
	h := NewHandler(d, o)
	return &running{h, serveHandler(t, h, bothEndpoints(h))}
}

// at sends a request to a target other than /mcp.
func at(target, raw string) string { return strings.Replace(raw, " /mcp ", " "+target+" ", 1) }

func connect(t testing.TB, addr string) (*client, *http.Response, *events) {
	t.Helper()
	c := dial(t, addr).send(at("/sse", request("GET", addr, "")))
	resp := c.response("GET")
	return c, resp, &events{bufio.NewReader(resp.Body)}
}

var firstEvent = event{Name: "endpoint", Data: "/messages?sessionId=s%261"}

func (e *events) want(t testing.TB, want event) {
	t.Helper()
	if got, err := e.next(); got != want || err != nil {
		t.Errorf("got event %+v, %v, want %+v", got, err, want)
	}
}

// TestSSESession goes through a whole session on every kind of connection.
func TestSSESession(t *testing.T) {
	t.Parallel()
	kinds := map[string]func(*testing.T, http.Handler) (*http.Client, string){
		"taken over": func(t *testing.T, h http.Handler) (*http.Client, string) {
			transport := &http.Transport{}
			t.Cleanup(transport.CloseIdleConnections)
			l := listen(t)
			s := &http.Server{Handler: h}
			served := make(chan struct{})
			go func() { _ = s.Serve(front(l, s)); close(served) }()
			t.Cleanup(func() { s.Close(); <-served })
			return &http.Client{Transport: transport}, "http://" + l.Addr().String()
		},
	}
	for name, start := range servers {
		kinds[name] = start
	}
	for name, start := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLinks()
			type message struct{ Session, Method, Body string }
			took := make(chan message, 1)
			l.message = func(x *Exchange) {
				took <- message{x.SessionID, string(x.Msg.Method), string(x.Body)}
				x.Accepted()
			}
			h := NewHandler(l, Options{})
			client, url := start(t, bothEndpoints(h))
			do := func(method, url, body string, header ...string) *http.Response {
				t.Helper()
				r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				for i := 0; i < len(header); i += 2 {
					r.Header.Set(header[i], header[i+1])
				}
				resp, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { resp.Body.Close() })
				return resp
			}
			resp := do("GET", url+"/sse", "", "Accept", typeSSE, "Last-Event-ID", "x", "Mcp-Session-Id", "not valid")
			x := <-l.opened
			if x.SessionID != "" || x.LastEventID != "" {
				t.Errorf("a session of another transport got in: %q, %q", x.SessionID, x.LastEventID)
			}
			if name == "http2" && resp.ProtoMajor != 2 {
				t.Fatal("not HTTP/2")
			}
			if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != typeSSE || resp.Header.Get("Mcp-Session-Id") != "" {
				t.Errorf("got %d, %v", resp.StatusCode, resp.Header)
			}
			e := &events{bufio.NewReader(resp.Body)}
			e.want(t, firstEvent)
			posted := do("POST", url+firstEvent.Data, ping, "Content-Type", typeJSON)
			if body, _ := io.ReadAll(posted.Body); posted.StatusCode != 202 || len(body) != 0 {
				t.Errorf("POST: got %d %s", posted.StatusCode, body)
			}
			if got, want := <-took, (message{"s&1", "ping", ping}); got != want {
				t.Errorf("message: got %+v, want %+v", got, want)
			}

			x.Event("", 0, []byte("{\r\n  \"a\": \"\\n b\"\r\n}\n"))
			x.Flush()
			e.want(t, event{Name: "message", Data: `{"a":"\n b"}`})
			for idle := false; !idle; runtime.Gosched() { // the client may have the event before the writer has counted it
				x.mu.Lock()
				idle = x.s.queuedBytes() == 0
				x.mu.Unlock()
			}
			x.Comment()
			x.Flush()
			if _, err := e.next(); err != errComment {
				t.Errorf("got %v, want a comment", err)
			}
			x.Event("e.1", 1000, []byte(`{ "b":2 }`))
			x.Event("", 0, nil)
			x.Event("", 0, []byte(" \r\n"))
			x.Flush()
			x.Event("", 0, []byte(`3`))
			x.Finish()
			got, err := all(e.r)
			want := []event{{Name: "message", Data: `{ "b":2 }`}, {Name: "message", Data: "3"}}
			if diff := cmp.Diff(got, want); diff != "" || err != nil {
				t.Errorf("events, %v (-got +want):\n%s", err, diff)
			}
			settled(t, h)
		})
	}
}

// TestBlankMessages flushes an empty message, which must not end the response.
func TestBlankMessages(t *testing.T) {
	t.Parallel()
	l := newLinks()
	s := serveLinks(t, l, Options{})
	_, _, e := connect(t, s.addr)
	x := <-l.opened
	e.want(t, firstEvent)
	for range 3 {
		x.Event("", 0, []byte("\n"))
		x.Flush()
	}
	x.Event("", 0, []byte("1"))
	x.Flush()
	e.want(t, event{Name: "message", Data: "1"})
	x.Cut()
}

func TestMessagesAddress(t *testing.T) {
	t.Parallel()
	l := newLinks()
	h := NewHandler(l, Options{})
	mux := http.NewServeMux()
	mux.Handle("/sse", h.SSE("messages"))
	mux.Handle("/api/v1/", http.StripPrefix("/api/v1", bothEndpoints(h)))
	mux.Handle("/tenants/{tenant}/in", h.SSE("out"))
	mux.Handle("/slash/", h.SSE("messages"))
	plain := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "//") { // a mux would redirect
			h.SSE("messages").ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
	addr := serveHandler(t, h, plain)
	for target, want := range map[string]string{
		"/sse":                           "/messages",
		"/sse?token=a/b":                 "/messages",
		"/api/v1/sse":                    "/api/v1/messages",
		"/tenants/a%2Fb%20%C3%BC/in?x=/": "/tenants/a%2Fb%20%C3%BC/out",
		"/tenants/\xc3\xbc/in":           "/tenants/%C3%BC/out",
		"/slash/":                        "/slash/messages",
		"/slash/a/b/":                    "/slash/a/b/messages",
		"//evil.example.com/sse":         "/evil.example.com/messages",
		"http://" + addr + "/api/v1/sse": "/api/v1/messages",
	} {
		c := dial(t, addr).send(at(target, request("GET", addr, "")))
		resp := c.response("GET")
		if resp.StatusCode != 200 {
			t.Errorf("%s: got %d", target, resp.StatusCode)
			continue
		}
		e := &events{bufio.NewReader(resp.Body)}
		e.want(t, event{Name: "endpoint", Data: want + "?sessionId=s%261"})
		(<-l.opened).Cut()
	}

	behind := NewHandler(l, Options{PublicPath: "/pub%20lic"})
	mux.Handle("/behind/", http.StripPrefix("/behind", bothEndpoints(behind)))
	e := &events{bufio.NewReader(dial(t, addr).send(at("/behind/sse", request("GET", addr, ""))).response("GET").Body)}
	e.want(t, event{Name: "endpoint", Data: "/pub%20lic/behind/messages?sessionId=s%261"})
	(<-l.opened).Cut()

	l.connect = func(x *Exchange) { x.Open(); x.Finish() }
	r := httptest.NewRequest("GET", "/a/sse", nil)
	r.RequestURI = "" // as a request made by hand
	r.Header.Set("Accept", typeSSE)
	w := httptest.NewRecorder()
	h.SSE("messages").ServeHTTP(w, r)
	if got, want := w.Body.String(), "event: endpoint\ndata: /a/messages?sessionId=\n\n"; got != want {
		t.Errorf("without a request line: got %q, want %q", got, want)
	}
}

func TestAdmissionOfSSE(t *testing.T) {
	t.Parallel()
	options := Options{
		Revisions: []string{"2024-11-05"}, MaxBody: 200, AllowOrigins: []string{"https://app.example.com"},
		Authenticate: func(r *http.Request) (any, error) {
			if r.Header.Get("Authorization") != "Bearer good" {
				return nil, errors.New("no")
			}
			return "ann", nil
		},
	}
	invalid := func(message string) string { return errorBody(-32600, message, "") }
	const endpoint = "event: endpoint\ndata: /messages?sessionId=new\n\n"
	const good = "Authorization: Bearer good"
	badSession := invalid("The query must hold one valid sessionId")
	badVersion := `{"jsonrpc":"2.0","error":{"code":-32602,"message":"MCP-Protocol-Version is not supported","data":{"supported":["2024-11-05"],"requested":"1"}}}`
	for name, row := range map[string]struct {
		method, target string // "" is a GET of /sse, or a POST of ping to /messages
		body           string
		headers        []string
		status         int
		want, allow    string
	}{
		"sse":                     {headers: []string{good}, status: 200, want: endpoint},
		"sse any type":            {headers: []string{good, "Accept: */*"}, status: 200, want: endpoint},
		"sse sse only":            {headers: []string{good, "Accept: " + typeSSE}, status: 200, want: endpoint},
		"sse json only":           {headers: []string{good, "Accept: " + typeJSON}, status: 406, want: invalid("Accept must admit text/event-stream")},
		"sse no accept":           {headers: []string{good, "Accept: "}, status: 406, want: invalid("Accept must admit text/event-stream")},
		"sse version":             {headers: []string{good, "MCP-Protocol-Version: 2024-11-05"}, status: 200, want: endpoint},
		"sse bad version":         {headers: []string{good, "MCP-Protocol-Version: 1"}, status: 400, want: badVersion},
		"sse no auth":             {status: 401, want: invalid("Unauthorized")},
		"sse host":                {headers: []string{good, "Host: evil.example.com"}, status: 403, want: invalid("Host not allowed: --allow-host and Options.HTTP.AllowHosts allow it")},
		"sse origin":              {headers: []string{good, "Origin: https://evil.example.com"}, status: 403, want: invalid("Origin not allowed: --allow-origin and Options.HTTP.AllowOrigins allow it")},
		"sse origin null":         {headers: []string{good, "Origin: null"}, status: 403, want: invalid("Origin not allowed: --allow-origin and Options.HTTP.AllowOrigins allow it")},
		"sse origin listed":       {headers: []string{good, "Origin: https://app.example.com"}, status: 200, want: endpoint},
		"sse event id":            {headers: []string{good, "Last-Event-ID: " + strings.Repeat("i", 300)}, status: 200, want: endpoint},
		"sse session header":      {headers: []string{good, "Mcp-Session-Id: a b"}, status: 200, want: endpoint},
		"sse POST":                {method: "POST", body: ping, status: 405, want: invalid("Method not allowed"), allow: "GET, OPTIONS"},
		"sse DELETE":              {method: "DELETE", status: 405, want: invalid("Method not allowed"), allow: "GET, OPTIONS"},
		"sse HEAD":                {method: "HEAD", status: 405, allow: "GET, OPTIONS"},
		"sse POST, foreign":       {method: "POST", body: ping, headers: []string{"Origin: https://evil.example.com"}, status: 403, want: invalid("Origin not allowed: --allow-origin and Options.HTTP.AllowOrigins allow it")},
		"sse OPTIONS":             {method: "OPTIONS", status: 204, allow: "GET, OPTIONS"},
		"message":                 {target: "/messages?sessionId=!~aZ9", headers: []string{good}, status: 200, want: `{"session":"!~aZ9"}`},
		"message, more in query":  {target: "/messages?x=1&sessionId=a%26b&sessionid=c", headers: []string{good}, status: 200, want: `{"session":"a&b"}`},
		"message any type":        {target: "/messages?sessionId=a", headers: []string{good, "Accept: "}, status: 200, want: `{"session":"a"}`},
		"message version":         {target: "/messages?sessionId=a", headers: []string{good, "MCP-Protocol-Version: 1"}, status: 400, want: badVersion},
		"message session header":  {target: "/messages?sessionId=a", headers: []string{good, "Mcp-Session-Id: b c"}, status: 200, want: `{"session":"a"}`},
		"message no id":           {target: "/messages", headers: []string{good, "Mcp-Session-Id: a"}, status: 400, want: badSession},
		"message empty id":        {target: "/messages?sessionId=", headers: []string{good}, status: 400, want: badSession},
		"message two ids":         {target: "/messages?sessionId=a&sessionId=a", headers: []string{good}, status: 400, want: badSession},
		"message bad id":          {target: "/messages?sessionId=a+b", headers: []string{good}, status: 400, want: badSession},
		"message id not ASCII":    {target: "/messages?sessionId=%C3%BC", headers: []string{good}, status: 400, want: badSession},
		"message broken query":    {target: "/messages?sessionId=a&x=%zz", headers: []string{good}, status: 400, want: badSession},
		"message no auth":         {target: "/messages?sessionId=a", status: 401, want: invalid("Unauthorized")},
		"message host":            {target: "/messages?sessionId=a", headers: []string{good, "Host: evil.example.com"}, status: 403, want: invalid("Host not allowed: --allow-host and Options.HTTP.AllowHosts allow it")},
		"message origin":          {target: "/messages?sessionId=a", headers: []string{good, "Origin: https://evil.example.com"}, status: 403, want: invalid("Origin not allowed: --allow-origin and Options.HTTP.AllowOrigins allow it")},
		"message type":            {target: "/messages?sessionId=a", headers: []string{good, "Content-Type: text/plain"}, status: 415, want: invalid("Content-Type must be application/json in UTF-8")},
		"message too long":        {target: "/messages?sessionId=a", body: strings.Repeat(" ", 201), headers: []string{good}, status: 413, want: invalid("the message is too large: max-body allows 200 bytes")},
		"message no JSON":         {target: "/messages?sessionId=a", body: "[]", headers: []string{good}, status: 400, want: invalid("the batch is empty")},
		"message batch":           {target: "/messages?sessionId=a", body: "[" + ping + "]", headers: []string{good}, status: 200, want: `{"session":"a"}`},
		"message GET":             {method: "GET", target: "/messages?sessionId=a", headers: []string{good}, status: 405, want: invalid("Method not allowed"), allow: "POST, OPTIONS"},
		"message DELETE":          {method: "DELETE", target: "/messages?sessionId=a", status: 405, want: invalid("Method not allowed"), allow: "POST, OPTIONS"},
		"message OPTIONS":         {method: "OPTIONS", target: "/messages", status: 204, allow: "POST, OPTIONS"},
		"message OPTIONS foreign": {method: "OPTIONS", target: "/messages", headers: []string{"Origin: null"}, status: 403, want: invalid("Origin not allowed: --allow-origin and Options.HTTP.AllowOrigins allow it")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := newCounts()
			options := options
			options.Observer = seen
			l := newLinks()
			l.connect = func(x *Exchange) {
				if x.Principal != "ann" {
					t.Errorf("principal: got %v", x.Principal)
				}
				x.SetSession("new")
				x.Open()
				x.Finish()
			}
			l.message = func(x *Exchange) { x.Answer(200, []byte(`{"session":"`+x.SessionID+`"}`)) }
			s := serveLinks(t, l, options)
			method, target, body := row.method, row.target, row.body
			switch {
			case target == "":
				target = "/sse"
			case method == "":
				method = "POST"
				if body == "" {
					body = ping
				}
			}
			if method == "" {
				method = "GET"
			}
			resp, got := do(t, s.addr, at(target, request(method, s.addr, body, row.headers...)))
			if resp.StatusCode != row.status || got != row.want || resp.Header.Get("Allow") != row.allow {
				t.Errorf("got %d %q %s, want %d %q %s", resp.StatusCode, resp.Header.Get("Allow"), got, row.status, row.allow, row.want)
			}
			if resp.Header.Get("Mcp-Session-Id") != "" {
				t.Errorf("Mcp-Session-Id: got %q", resp.Header.Get("Mcp-Session-Id"))
			}
			if refused := min(row.status/400, 1); len(seen.rejected) != refused {
				t.Errorf("observed refusals: got %v, want %d", seen.rejected, refused)
			}
		})
	}
}

// TestBrowserCanFallBack has a page read the 405 of a probe, for which it needs the CORS headers.
func TestBrowserCanFallBack(t *testing.T) {
	t.Parallel()
	s := serveLinks(t, newLinks(), Options{AllowOrigins: []string{"https://app.example.com"}})
	const origin = "Origin: https://app.example.com"
	for target, methods := range map[string]string{"/sse": "GET, OPTIONS", "/messages": "POST, OPTIONS"} {
		resp, _ := do(t, s.addr, at(target, request("OPTIONS", s.addr, "", origin, "Access-Control-Request-Method: POST")))
		if resp.StatusCode != 204 || resp.Header.Get("Access-Control-Allow-Methods") != methods ||
			resp.Header.Get("Access-Control-Allow-Origin") != "https://app.example.com" ||
			!strings.Contains(resp.Header.Get("Access-Control-Allow-Headers"), "Authorization") {
			t.Errorf("preflight of %s: got %d %v", target, resp.StatusCode, resp.Header)
		}
	}
	resp, _ := do(t, s.addr, at("/sse", request("POST", s.addr, ping, origin)))
	if resp.StatusCode != 405 || resp.Header.Get("Access-Control-Allow-Origin") != "https://app.example.com" {
		t.Errorf("probe: got %d %v", resp.StatusCode, resp.Header)
	}
}

func TestNoConnector(t *testing.T) {
	t.Parallel()
	s := serveLinks(t, funcs{}, Options{})
	for _, raw := range []string{at("/sse", request("GET", s.addr, "")), at("/messages?sessionId=a", request("POST", s.addr, ping))} {
		if resp, _ := do(t, s.addr, raw); resp.StatusCode != 404 {
			t.Errorf("%.20q: got %d, want 404", raw, resp.StatusCode)
		}
		if resp, _ := do(t, s.addr, strings.Replace(raw, "Host: "+s.addr, "Host: evil.example.com", 1)); resp.StatusCode != 403 {
			t.Errorf("%.20q: got %d for another host, want 403", raw, resp.StatusCode)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		h := NewHandler(funcs{}, Options{})
		server := &http.Server{Handler: h.Messages()}
		Configure(server)
		ln, ended, began := &pipes{make(chan net.Conn), make(chan struct{})}, make(chan struct{}), time.Now()
		go func() { defer close(ended); _ = server.Serve(front(ln, server)) }()
		c := ln.dial(t).send("POST /messages HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n")
		_ = c.SetReadDeadline(began.Add(time.Hour))
		if all, err := io.ReadAll(c.r); !strings.HasPrefix(string(all), "HTTP/1.1 404 ") || err != nil || time.Since(began) > 31*time.Second {
			t.Errorf("a body that does not come: %q, %v after %v", all, err, time.Since(began))
		}
		_ = server.Close()
		<-ended
	})
}

// TestConnectorWithoutAnAnswer checks what a client gets when the runtime has a bug.
func TestConnectorWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(*Exchange){"nothing": func(*Exchange) {}, "panic": func(*Exchange) { panic("a bug") }} {
		l := newLinks()
		l.connect, l.message = f, f
		s := serveLinks(t, l, Options{})
		for raw, want := range map[string]string{
			at("/sse", request("GET", s.addr, "")):                       errorBody(-32603, "internal error", ""),
			at("/messages?sessionId=a", request("POST", s.addr, ping)):   errorBody(-32603, "internal error", `,"id":7`),
			at("/messages?sessionId=a", request("POST", s.addr, "[{}]")): errorBody(-32603, "internal error", ""),
		} {
			if resp, got := do(t, s.addr, raw); resp.StatusCode != 500 || got != want {
				t.Errorf("%s, %.20q: got %d %s", name, raw, resp.StatusCode, got)
			}
		}
	}
}

func TestConnectRefused(t *testing.T) {
	t.Parallel()
	l := newLinks()
	l.connect = func(x *Exchange) {
		x.SetSession("s")
		x.Reject(refusal.New(503, -32603, "Too many sessions").In(time.Second))
	}
	s := serveLinks(t, l, Options{})
	resp, got := do(t, s.addr, at("/sse", request("GET", s.addr, "")))
	if resp.StatusCode != 503 || got != errorBody(-32603, "Too many sessions", "") || resp.Header.Get("Retry-After") != "1" || resp.Header.Get("Mcp-Session-Id") != "" {
		t.Errorf("got %d %s, %v", resp.StatusCode, got, resp.Header)
	}
}

// TestSlowSessionIsCutAlone fills one session's queue; the other session is not affected.
func TestSlowSessionIsCutAlone(t *testing.T) {
	t.Parallel()
	for _, inline := range []bool{false, true} {
		seen := newCounts()
		l := newLinks()
		h := NewHandler(l, Options{MaxQueued: 64 << 10, Observer: seen})
		var handler http.Handler = bothEndpoints(h)
		if inline {
			handler = wrap(handler, func(w http.ResponseWriter) http.ResponseWriter { return unwrappable{opaque{w}} })
		}
		addr := serveHandler(t, h, handler)
		slow, _, _ := connect(t, addr)
		_ = slow.Conn.(*net.TCPConn).SetReadBuffer(4096)
		x := <-l.opened
		_, _, e := connect(t, addr)
		y := <-l.opened
		e.want(t, firstEvent)
		gone := make(chan struct{})
		x.Gone(func() { close(gone) })
		ctx := x.Context()
		data := append(append([]byte{'"'}, bytes.Repeat([]byte("y"), 8<<10)...), '"')
		for sent := 0; ctx.Err() == nil && sent < 10000; sent++ {
			x.Event("", 0, data)
			x.Flush()
		}
		wait(t, "Gone of the slow session", gone)
		if got := <-seen.cuts; got != cutQueue {
			t.Errorf("inline %v: cut for %q, want %q", inline, got, cutQueue)
		}
		if err := x.Room(t.Context()); err != ErrGone {
			t.Errorf("Room of a cut session: got %v, want ErrGone", err)
		}
		for range 100 { // more than the queue holds, at the reader's pace
			if err := y.Room(t.Context()); err != nil {
				t.Fatal(err)
			}
			y.Event("", 0, data)
			y.Flush()
			e.want(t, event{Name: "message", Data: string(data)})
		}
		y.Finish()
		if got, err := all(e.r); err != nil || len(got) != 0 {
			t.Errorf("the other session: got %v, %v", got, err)
		}
		settled(t, h)
	}
}

func TestCloseEndsSessions(t *testing.T) {
	t.Parallel()
	l := newLinks()
	s := serveLinks(t, l, Options{})
	_, _, e := connect(t, s.addr)
	x := <-l.opened
	gone := make(chan struct{})
	x.Gone(func() { close(gone) })
	x.Event("", 0, []byte(`"last"`))
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
	got, err := all(e.r)
	if diff := cmp.Diff(got, []event{firstEvent, {Name: "message", Data: `"last"`}}); diff != "" || err != nil {
		t.Errorf("events, %v (-got +want):\n%s", err, diff)
	}
	wait(t, "Gone", gone)
	for _, raw := range []string{at("/sse", request("GET", s.addr, "")), at("/messages?sessionId=a", request("POST", s.addr, ping))} {
		if resp, _ := do(t, s.addr, raw); resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "1" {
			t.Errorf("after Close: got %d", resp.StatusCode)
		}
	}
}

// TestSessionKeptAlive checks that an idle session outlives every timeout, and that one whose client stops
// reading ends.
func TestSessionKeptAlive(t *testing.T) {
	virtually(t, func(t *testing.T, serve func(Dispatcher, Options) *pipes) {
		const every, idle = 15 * time.Second, time.Hour
		seen := newCounts()
		l := newLinks()
		l.connect = func(x *Exchange) {
			x.SetSession("s")
			x.Open()
			gone := make(chan struct{})
			x.Gone(func() { close(gone) })
			for {
				select {
				case <-gone:
					return
				case <-time.After(every):
					x.Comment()
					x.Flush()
				}
			}
		}
		p := serve(l, Options{Observer: seen})
		c := p.dial(t).send(at("/sse", request("GET", "x", "")))
		e := &events{bufio.NewReader(c.response("GET").Body)}
		e.want(t, event{Name: "endpoint", Data: "/messages?sessionId=s"})
		began := time.Now()
		for time.Since(began) < idle {
			if got, err := e.next(); err != errComment {
				t.Fatalf("got %v, %v, want a comment", got, err)
			}
		}
		// The client does not read from here on.
		if got := <-seen.cuts; got != cutTimeout {
			t.Errorf("cut for %q, want %q", got, cutTimeout)
		}
		if got := time.Since(began) - idle; got > every+30*time.Second {
			t.Errorf("cut after %v, want the write timeout after the next comment", got)
		}
	})
}

// TestRoomOfASession makes a writer wait for a reader.
func TestRoomOfASession(t *testing.T) {
	if testing.Short() {
		t.Skip("60 MB of events: runs without -short")
	}
	virtually(t, func(t *testing.T, serve func(Dispatcher, Options) *pipes) {
		const messages = 100
		l := newLinks()
		l.connect = func(x *Exchange) {
			x.SetSession("s")
			x.Open()
			for range messages {
				if err := x.Room(context.Background()); err != nil {
					t.Errorf("Room: %v", err)
				}
				x.Event("", 0, bytes.Repeat([]byte("1"), 600<<10))
				x.Flush()
			}
			x.Finish()
		}
		p := serve(l, Options{})
		c := p.dial(t).send(at("/sse", request("GET", "x", "")))
		e := &events{bufio.NewReader(c.response("GET").Body)}
		if _, err := e.next(); err != nil {
			t.Fatal(err)
		}
		for i := range messages {
			time.Sleep(time.Second)
			if got, err := e.next(); err != nil || len(got.Data) != 600<<10 {
				t.Fatalf("message %d: got %d bytes, %v", i, len(got.Data), err)
			}
		}
	})
}

// FuzzSibling looks for a path for which the address of messages is on another host, or has two lines.
func FuzzSibling(f *testing.F) {
	for _, s := range []string{"/sse", "//a/b", "/\\a", "http://a/b", "*", "a:80", "/a%0ab", "/%2f%2fa/", "", "/a?b=/c#d/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return // net/http has refused it
		}
		got := siblingPath(&http.Request{RequestURI: target, URL: u}, "messages")
		if !strings.HasPrefix(got, "/") || strings.HasPrefix(got, "//") || strings.HasPrefix(got, "/\\") || !strings.HasSuffix(got, "/messages") {
			t.Errorf("%q: got %q", target, got)
		}
		for _, c := range got {
			if c <= ' ' || c >= 0x7f || c == '?' || c == '#' {
				t.Errorf("%q: got %q", target, got)
			}
		}
	})
}

// TestSSEClosingEndsTheSession has clients of HTTP+SSE close their connections: what they have begun ends at once, without a write.
func TestSSEClosingEndsTheSession(t *testing.T) {
	t.Parallel()
	seen, d := newCounts(), newLinks()
	s := serveLinks(t, d, Options{Observer: seen})
	c, _, stream := connect(t, s.addr)
	stream.want(t, firstEvent)
	x := <-d.opened
	gone := make(chan struct{})
	x.WhenGone(func() { close(gone) })
	c.Close()
	wait(t, "the end of the exchange", gone)
	if got := <-seen.cuts; got != cutClosed {
		t.Errorf("cut for %q, want %q", got, cutClosed)
	}
	settled(t, s.Handler)
}

package client

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/troupe-run/troupe/mcp"
)

// TestConnectAgrees: the newest revision is tried first, and initialize where the server does not know it.
func TestConnectAgrees(t *testing.T) {
	t.Parallel()
	refused := func(status int, member string) func(http.ResponseWriter, *http.Request, message) {
		return func(w http.ResponseWriter, r *http.Request, m message) {
			switch {
			case m.Method == mcp.MethodServerDiscover && member == "":
				http.Error(w, "what?", status)
			case m.Method == mcp.MethodServerDiscover:
				respond(w, status, m, member)
			default:
				sitting(nil)(w, r, m)
			}
		}
	}
	answered := func(version string) func(http.ResponseWriter, *http.Request, message) {
		return func(w http.ResponseWriter, r *http.Request, m message) {
			if m.Method == mcp.MethodInitialize {
				respond(w, 200, m, `"result":{"protocolVersion":"`+version+`"}`)
				return
			}
			sitting(nil)(w, r, m)
		}
	}
	session := "server/discover, initialize, notifications/initialized, DELETE"
	for name, tt := range map[string]struct {
		handle   func(http.ResponseWriter, *http.Request, message)
		only     mcp.Revision
		want     mcp.Revision
		came     string
		complain string // part of the error
	}{
		"modern":                      {handle: modern(nil), want: mcp.Revision20260728, came: "server/discover"},
		"modern, and only that":       {handle: modern(nil), only: mcp.Revision20260728, want: mcp.Revision20260728, came: "server/discover"},
		"no such method":              {handle: refused(200, `"error":{"code":-32601,"message":"no"}`), want: mcp.Revision20251125, came: session},
		"no session":                  {handle: sitting(nil), want: mcp.Revision20251125, came: session},
		"not found":                   {handle: refused(404, ""), want: mcp.Revision20251125, came: session},
		"bad request without message": {handle: refused(400, ""), want: mcp.Revision20251125, came: session},
		"unsupported":                 {handle: refused(400, `"error":{"code":-32022,"message":"no","data":{"supported":["2025-11-25"]}}`), want: mcp.Revision20251125, came: session},
		"discovers what is older":     {handle: refused(200, `"result":{"supportedVersions":["2025-11-25","2025-06-18"]}`), want: mcp.Revision20251125, came: session},
		"an older session":            {handle: answered("2025-03-26"), want: mcp.Revision20250326, came: "server/discover, initialize, notifications/initialized"},
		"a session, and only that":    {handle: sitting(nil), only: mcp.Revision20251125, want: mcp.Revision20251125, came: "initialize, notifications/initialized, DELETE"},
		"a modern error":              {handle: refused(400, `"error":{"code":-32020,"message":"headers"}`), came: "server/discover", complain: "headers (-32020)"},
		"only what is older":          {handle: sitting(nil), only: mcp.Revision20260728, came: "server/discover", complain: "no session (-32600)"},
		"not that older one":          {handle: answered("2025-06-18"), only: mcp.Revision20250326, came: "initialize", complain: `the server speaks "2025-06-18", and not 2025-03-26`},
		"a revision of the future":    {handle: answered("2031-01-01"), came: "server/discover, initialize", complain: `the server speaks "2031-01-01"`},
		"unauthorized":                {handle: refused(401, ""), came: "server/discover", complain: "the server wants to know who calls (401 Unauthorized)"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{handle: tt.handle}
				o, _ := serve(t, s)
				o.Revision = tt.only
				c, err := Connect(t.Context(), o)
				switch {
				case tt.complain != "":
					if err == nil || !strings.Contains(err.Error(), tt.complain) {
						t.Errorf("it fails with %v, want %s", err, tt.complain)
					}
				case err != nil:
					t.Error(err)
				default:
					c.Close()
					if c.Revision() != tt.want {
						t.Errorf("they speak %v, want %v", c.Revision(), tt.want)
					}
				}
				if got := s.came(); got != tt.came {
					t.Errorf("the server got %s, want %s", got, tt.came)
				}
			})
		})
	}
}

// TestHeadersOfRequests: each request has the user's headers, the session's, and the revision's.
func TestHeadersOfRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var got []string
		note := func(handle func(http.ResponseWriter, *http.Request, message)) func(http.ResponseWriter, *http.Request, message) {
			return func(w http.ResponseWriter, r *http.Request, m message) {
				line := []string{m.Method}
				for _, name := range []string{"Authorization", "Mcp-Session-Id", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name"} {
					line = append(line, r.Header.Get(name))
				}
				got = append(got, strings.Join(line, "|"))
				handle(w, r, m)
			}
		}
		answer := func(w http.ResponseWriter, r *http.Request, m message) { respond(w, 200, m, text("hi")) }
		for _, handle := range []func(http.ResponseWriter, *http.Request, message){modern(answer), sitting(answer)} {
			o, _ := serve(t, &script{handle: note(handle)})
			o.Header = http.Header{"Authorization": {"Bearer x"}}
			if _, err := call(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		want := `server/discover|Bearer x||2026-07-28|server/discover|
tools/call|Bearer x||2026-07-28|tools/call|greet
server/discover|Bearer x||2026-07-28|server/discover|
initialize|Bearer x||||
notifications/initialized|Bearer x|s1|2025-11-25||
tools/call|Bearer x|s1|2025-11-25||
|Bearer x|s1|2025-11-25||`
		if all := strings.Join(got, "\n"); all != want {
			t.Errorf("the server got\n%s\nwant\n%s", all, want)
		}
	})
}

// TestBadServers: whatever answers, a person is told what it is, and nothing is read without an end.
func TestBadServers(t *testing.T) {
	t.Parallel()
	write := func(status int, kind, body string) func(http.ResponseWriter, *http.Request, message) {
		return func(w http.ResponseWriter, _ *http.Request, _ message) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	endless := func(kind, begin string) func(http.ResponseWriter, *http.Request, message) {
		return func(w http.ResponseWriter, _ *http.Request, _ message) {
			w.Header().Set("Content-Type", kind)
			_, _ = io.WriteString(w, begin)
			for block := []byte(strings.Repeat("x", 1<<16)); ; {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		}
	}
	for name, tt := range map[string]struct {
		handle func(http.ResponseWriter, *http.Request, message)
		want   string
	}{
		"a web page":              {write(200, "text/html", "<!doctype html>\n<title>Hello</title>"), "no answer of MCP: 200 OK, text/html: <!doctype html> <title>Hello</title>"},
		"not there":               {write(404, "text/html", "<h1>Not found</h1>"), "no answer of MCP: 404 Not Found, text/html: <h1>Not found</h1>"},
		"forbidden":               {write(403, "text/plain", "not you"), "no answer of MCP: 403 Forbidden, text/plain: not you"},
		"broken JSON":             {write(200, "application/json", `{"jsonrpc":"2.0","id":1,"result"`), "no message of MCP: unexpected end of JSON input"},
		"JSON of something else":  {write(200, "application/json", `{"hello":"world"}`), "it has neither a method nor a result nor an error"},
		"JSON that is a number":   {write(200, "application/json", `7`), "no message of MCP"},
		"nothing":                 {write(202, "", ""), "no answer of MCP: 202 Accepted"},
		"another answer":          {write(200, "application/json", `{"jsonrpc":"2.0","id":777,"result":{}}`), "an answer to another request"},
		"a result that is a list": {write(200, "application/json", `{"jsonrpc":"2.0","id":1,"result":[]}`), "the result of server/discover: json: cannot unmarshal array"},
		"a server without a name": {write(200, "application/json", `{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"],"_meta":{"io.modelcontextprotocol/serverInfo":"x"}}}`), "the result of server/discover: json: cannot unmarshal string"},
		"an endless page":         {endless("text/html", "<p>"), "no answer of MCP: 200 OK, text/html, more than 65536 bytes: <p>xxx"},
		"endless JSON":            {endless("application/json", `{"result":"`), "no answer of MCP: 200 OK, application/json, more than 16777216 bytes"},
		"an endless event":        {endless("text/event-stream", "data: "), "an event of more than 16777216 bytes"},
		"an event of no message":  {write(200, "text/event-stream", "data: hello\n\n"), "an event is no message of MCP: invalid character 'h' looking for beginning of value: hello"},
		"a stream that ends":      {write(200, "text/event-stream", ": nothing\n\n"), "the connection broke (the server closed it): gave up after 30s"},
		"who are you": {func(w http.ResponseWriter, _ *http.Request, _ message) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="x"`)
			http.Error(w, "no", http.StatusUnauthorized)
		}, `the server wants to know who calls (401 Unauthorized, WWW-Authenticate: Bearer realm="x")`},
		"who are you, in JSON": {func(w http.ResponseWriter, _ *http.Request, m message) {
			respond(w, 401, m, `"error":{"code":-32600,"message":"Unauthorized"}`)
		}, `the server wants to know who calls (401 Unauthorized)`},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request, _ message) {
			if r.Host == "other.example" {
				http.Error(w, "the token is "+r.Header.Get("Authorization"), http.StatusForbidden)
				return
			}
			http.Redirect(w, r, "http://other.example/mcp", http.StatusTemporaryRedirect)
		}, "the server is somewhere else (307 Temporary Redirect): http://other.example/mcp"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o, _ := serve(t, &script{handle: tt.handle})
				_, err := Connect(t.Context(), o)
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("it fails with %v, want %s", err, tt.want)
				}
				if again := strings.Contains(err.Error(), "gave up"); again != strings.Contains(tt.want, "gave up") {
					t.Errorf("it was tried again %v: %v", again, err)
				}
				if len(err.Error()) > 1000 {
					t.Errorf("the error has %d bytes", len(err.Error()))
				}
			})
		})
	}
}

// TestStatusErrorIsFound: commands say what to do about a status.
func TestStatusErrorIsFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, _ := serve(t, &script{handle: func(w http.ResponseWriter, _ *http.Request, _ message) { http.Error(w, "no", http.StatusUnauthorized) }})
		_, err := Connect(t.Context(), o)
		if e, ok := errors.AsType[*StatusError](err); !ok || e.Status != 401 {
			t.Errorf("the error is %v", err)
		}
	})
}

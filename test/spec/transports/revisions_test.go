package transports_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// withSessions and without are what a server speaks that leaves out the newest revision, or all others.
var (
	withSessions = mcp.Revisions()[:4]
	without      = []mcp.Revision{mcp.Latest}
)

// unheard is the date of a revision of which no server has heard.
const unheard = "2031-01-01"

// TestUnspokenRevisionIsUnheardOf sends requests of 2026-07-28 to a server that leaves it out, and the same with the date of a
// revision that there is not. The server makes no difference between the two.
func TestUnspokenRevisionIsUnheardOf(t *testing.T) {
	const (
		none      = `{"jsonrpc":"2.0","error":{"code":-32602,"message":"MCP-Protocol-Version is not supported","data":{"supported":["2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"` + unheard + `"}}}`
		noSession = "the Mcp-Session-Id header is missing: initialize first"
	)
	body := func(method, params string) string {
		return (&host.Stateless{T: t, Capabilities: "{}"}).Body("1", method, params, "")
	}
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Revisions: withSessions}, nil)
		session := h.Unchecked().InitializeAs("2025-11-25", "{}").Session
		echo := body("tools/call", host.ToolParams("echo", `{"text":"x"}`))
		version := []string{"MCP-Protocol-Version", host.R20260728}
		of := func(more ...string) []string { return append(slices.Clone(version), more...) }
		in := []string{"Mcp-Session-Id", session}
		for _, tt := range []struct {
			name, verb, path, body string
			header                 []string
			status                 int
			want                   string
		}{
			{"discover", "POST", "/mcp", body("server/discover", "{}"), of("Mcp-Method", "server/discover"), 400, none},
			{"a call", "POST", "/mcp", echo, of("Mcp-Method", "tools/call", "Mcp-Name", "echo"), 400, none},
			{"a call with the header alone", "POST", "/mcp", host.Call("1", "echo", `{"text":"x"}`), version, 400, none},
			{"a call with wrong headers", "POST", "/mcp", echo, of("Mcp-Method", "x"), 400, none},
			{"a call without the header", "POST", "/mcp", echo, nil, 400, host.Fault("1", host.Invalid, noSession, "")},
			{"a notification", "POST", "/mcp", host.Note("notifications/x", ""), version, 400, none},
			{"a batch", "POST", "/mcp", host.Batch(echo), version, 400, none},
			{"GET", "GET", "/mcp", "", version, 400, none},
			{"DELETE", "DELETE", "/mcp", "", version, 400, none},
			{"over HTTP+SSE", "GET", "/sse", "", version, 400, none},
			{"a message over HTTP+SSE", "POST", "/messages?sessionId=x", echo, version, 400, none},
			{"discover in a session", "POST", "/mcp", body("server/discover", "{}"), in, 200, host.Fault("1", host.NoMethod, "method not found: server/discover", "")},
			{"listen in a session", "POST", "/mcp", body("subscriptions/listen", "{}"), in, 200, host.Fault("1", host.NoMethod, "method not found: subscriptions/listen", "")},
			{"a call in a session", "POST", "/mcp", echo, in, 200, host.TextResult("1", "x")},
			{"a call of the session with the header", "POST", "/mcp", echo, of(in...), 400, none},
			{"initialize", "POST", "/mcp", host.Initialize("1", `{"protocolVersion":"2026-07-28","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`), nil, 200, ""},
		} {
			c := h.Unchecked()
			c.URL = "http://127.0.0.1" + tt.path
			var header []string
			for _, v := range tt.header {
				header = append(header, strings.ReplaceAll(v, "2026-07-28", unheard))
			}
			newest := c.Do(tt.verb, tt.body, tt.header...)
			other := c.Do(tt.verb, strings.ReplaceAll(tt.body, "2026-07-28", unheard), header...)
			if got := strings.ReplaceAll(newest.Body, "2026-07-28", unheard); newest.StatusCode != other.StatusCode || got != other.Body {
				t.Errorf("%s: %s %s, and of a revision that is unheard of %s %s", tt.name, newest.Status, newest.Body, other.Status, other.Body)
			}
			if tt.want = strings.ReplaceAll(tt.want, "2026-07-28", unheard); other.StatusCode != tt.status || tt.want != "" && other.Body != tt.want {
				t.Errorf("%s: %s %s, want %d %s", tt.name, other.Status, other.Body, tt.status, tt.want)
			}
			if tt.name == "initialize" {
				host.Contains(t, tt.name, newest.Body, `"protocolVersion":"2025-11-25"`)
			}
		}
	})
	kit.Bubble(t, func(t *testing.T) {
		p := host.NewPipe(t, troupe.Options{Revisions: withSessions})
		for _, initialized := range []bool{false, true} {
			for method, want := range map[string]string{
				"server/discover": "method not found: server/discover", "subscriptions/listen": "method not found: subscriptions/listen",
			} {
				code := host.NoMethod
				if !initialized {
					code, want = host.Invalid, "initialize first"
				}
				line := body(method, "{}")
				for _, line := range []string{line, strings.ReplaceAll(line, "2026-07-28", unheard), host.Method("1", method, "")} {
					host.Equal(t, method, p.Ask(line), host.Fault("1", code, want, ""))
				}
			}
			if !initialized {
				p.Initialize(host.R20251125)
			}
		}
		// Not by Ask, which would hold the response to the schema of the revision that the request names.
		if _, err := io.WriteString(p.In, body("tools/call", host.ToolParams("echo", `{"text":"x"}`))+"\n"); err != nil {
			t.Fatal(err)
		}
		host.Equal(t, "a call of the session", p.Next(), host.TextResult("1", "x"))
	})
}

// TestOlderRevisionsAreUnspoken has a server that speaks the newest revision alone. What it says to a client with sessions names that.
func TestOlderRevisionsAreUnspoken(t *testing.T) {
	const (
		initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
		only       = `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"Unsupported protocol version: this server speaks only 2026-07-28","data":{"supported":["2026-07-28"],"requested":"2025-11-25"}}}`
		badHeader  = "Header mismatch: MCP-Protocol-Version is not the version in params._meta"
		noVersion  = "_meta must name the protocol version: io.modelcontextprotocol/protocolVersion"
		ping       = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	)
	unsupported := `"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"],"requested":"2025-11-25"}}}`
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Revisions: without}, nil)
		older := []string{"MCP-Protocol-Version", "2025-11-25"}
		for _, tt := range []struct {
			name, verb, path, body string
			header                 []string
			status                 int
			want                   string
		}{
			{"initialize", "POST", "/mcp", initialize, nil, 400, only},
			{"initialize with its version", "POST", "/mcp", initialize, older, 400, `{"jsonrpc":"2.0","id":1,` + unsupported},
			{"initialize without a version", "POST", "/mcp", host.Initialize("1", "{}"), nil, 400, strings.Replace(only, `"requested":"2025-11-25"`, `"requested":""`, 1)},
			{"ping", "POST", "/mcp", ping, nil, 400, host.Fault("1", -32020, badHeader, "")},
			{"ping of an older revision", "POST", "/mcp", ping, older, 400, `{"jsonrpc":"2.0","id":1,` + unsupported},
			{"a batch", "POST", "/mcp", host.Batch(ping), nil, 400, host.Fault("", -32020, badHeader, "")},
			{"GET", "GET", "/mcp", "", nil, 405, host.Fault("", host.Invalid, "Method not allowed", "")},
			{"DELETE", "DELETE", "/mcp", "", nil, 405, host.Fault("", host.Invalid, "Method not allowed", "")},
			{"GET of an older revision", "GET", "/mcp", "", older, 400, `{"jsonrpc":"2.0",` + unsupported},
			{"a session that there is not", "POST", "/mcp", ping, append([]string{"Mcp-Session-Id", "x"}, older...), 404, host.Fault("1", host.Invalid, "unknown session: initialize anew", "")},
			{"HTTP+SSE", "GET", "/sse", "", nil, 404, "404 page not found: GET / names the MCP endpoints\n"},
			{"a message over HTTP+SSE", "POST", "/messages?sessionId=x", ping, nil, 404, "404 page not found: GET / names the MCP endpoints\n"},
		} {
			c := h.Unchecked()
			c.URL = "http://127.0.0.1" + tt.path
			if a := c.Do(tt.verb, tt.body, tt.header...); a.StatusCode != tt.status || a.Body != tt.want {
				t.Errorf("%s: %s %s, want %d %s", tt.name, a.Status, a.Body, tt.status, tt.want)
			}
		}
		m := h.Stateless("{}")
		host.Contains(t, "discover", m.Post("server/discover", "{}").Body, `"supportedVersions":["2026-07-28"],`)
		asked := m.Body("1", "initialize", `{"protocolVersion":"2025-11-25"}`, "")
		host.Contains(t, "initialize without a session", m.Client.Post(asked, m.Header("initialize", asked)...).Body, `"message":"Unsupported protocol version: this server speaks only 2026-07-28"`)
		a, _ := m.Tool("echo", `{"text":"x"}`)
		host.Equal(t, "a call", a.Body, host.StatelessText("2", "x"))
	})
	kit.Bubble(t, func(t *testing.T) {
		p := host.NewStatelessPipe(t, troupe.Options{Revisions: without}, nil)
		host.Equal(t, "initialize", p.Ask(initialize), only)
		for _, line := range []string{ping, host.Call("1", "echo", `{"text":"x"}`)} {
			host.Equal(t, "a request without metadata", p.Ask(line), host.Fault("1", host.BadParam, noVersion, ""))
		}
		host.Equal(t, "a batch", p.Ask(host.Batch(ping)), host.Fault("", host.Invalid, "send one request or notification at a time", ""))
		host.Contains(t, "discover", p.Ask(p.M.Body("1", "server/discover", "{}", "")), `"supportedVersions":["2026-07-28"],`)
		host.Equal(t, "a call", p.Ask(p.M.Body("1", "tools/call", host.ToolParams("echo", `{"text":"x"}`), "")), host.StatelessText("1", "x"))
	})
}

// TestInitializeOffersWhatIsSpoken asks for each revision of servers that speak some.
func TestInitializeOffersWhatIsSpoken(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		for _, spoken := range [][]mcp.Revision{{mcp.Revision20250618}, {mcp.Latest, mcp.Revision20250618, mcp.Revision20250326}, {mcp.Revision20241105, mcp.Latest}} {
			newest := slices.MaxFunc(slices.DeleteFunc(slices.Clone(spoken), mcp.Revision.Stateless), func(a, b mcp.Revision) int { return int(a) - int(b) })
			h := host.New(t, troupe.Options{Revisions: spoken}, nil)
			p := host.NewPipe(t, troupe.Options{Revisions: spoken})
			for _, asked := range append(mcp.Revisions(), 0) {
				want := newest
				if !asked.Stateless() && slices.Contains(spoken, asked) {
					want = asked
				}
				request := host.Initialize("1", `{"protocolVersion":"`+asked.String()+`x","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
				if asked != 0 {
					request = strings.Replace(request, "x", "", 1)
				}
				answer := `"protocolVersion":"` + want.String() + `"`
				a := h.Unchecked().Post(request)
				host.Contains(t, "initialize", a.Body, answer)
				if asked == want { // a pipe has one session
					host.Contains(t, "initialize over a pipe", p.Ask(request), answer)
					p = host.NewPipe(t, troupe.Options{Revisions: spoken})
				}
			}
			refused := h.Unchecked().Post(host.Method("1", "ping", ""), "MCP-Protocol-Version", "1999-01-01")
			var names []string
			for _, r := range slices.Backward(h.Server.Revisions()) {
				names = append(names, `"`+r.String()+`"`)
			}
			host.Contains(t, "another version", refused.Body, `"supported":[`+strings.Join(names, ",")+`]`)
		}
	})
}

// TestSessionsOutliveTheirRevision begins sessions in each revision, and has another process without that revision go on with them.
func TestSessionsOutliveTheirRevision(t *testing.T) {
	for _, revision := range withSessions {
		t.Run(revision.String(), func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				o := troupe.Options{Dir: t.TempDir() + "/d"}
				first := host.New(t, o, nil)
				c := first.Unchecked().InitializeAs(revision.String(), "{}")
				begun := c.Post(host.CallWith("1", "count", `{"to":3,"delay_ms":10}`, `"p"`))
				events := begun.All()
				for _, spoken := range [][]mcp.Revision{without, slices.DeleteFunc(mcp.Revisions(), func(r mcp.Revision) bool { return r == revision })} {
					o.Revisions = spoken
					second, moved := host.Crashed(t, o.Dir, o, c)
					if slices.Contains(second.Server.Revisions(), revision) {
						t.Fatalf("the server speaks %v", second.Server.Revisions())
					}
					for _, header := range [][]string{nil, {"MCP-Protocol-Version", revision.String()}} { // older clients do not send it
						host.Equal(t, "a call", moved.Post(host.Call("2", "echo", `{"text":"x"}`), header...).Body, host.TextResult("2", "x"))
					}
					moved.Header = http.Header{"Mcp-Protocol-Version": {revision.String()}}
					if a := moved.Post(host.Note("notifications/x", "")); a.StatusCode != http.StatusAccepted {
						t.Errorf("a notification: %s %s", a.Status, a.Body)
					}
					listening := moved.Get("")
					if !listening.Stream() {
						t.Fatalf("its own stream: %s %s", listening.Status, listening.Body)
					}
					listening.Close()
					if len(events) < 2 {
						t.Fatalf("the call sent %v", events)
					}
					resumed := moved.Get(events[0].ID)
					if !resumed.Stream() {
						t.Fatalf("resuming the call: %s %s", resumed.Status, resumed.Body)
					}
					again := resumed.All()
					host.Equal(t, "the end of the call, resumed", again[len(again)-1].Data, events[len(events)-1].Data)
					if revision == mcp.Revision20250326 {
						host.Equal(t, "a batch", moved.Post(host.Batch(host.Call("3", "echo", `{"text":"x"}`))).Body, "["+host.TextResult("3", "x")+"]")
					}
					other := second.Unchecked()
					other.Session = moved.Session
					if a := other.Post(host.Method("4", "ping", ""), "MCP-Protocol-Version", "2026-07-28"); a.StatusCode != http.StatusBadRequest {
						t.Errorf("the session in the newest revision: %s %s", a.Status, a.Body)
					}
					if a := second.Unchecked().Post(host.Method("4", "ping", ""), "MCP-Protocol-Version", revision.String()); a.StatusCode != http.StatusBadRequest {
						t.Errorf("the revision without a session: %s %s", a.Status, a.Body)
					}
					if a := moved.Do(http.MethodDelete, ""); a.StatusCode/100 != 2 {
						t.Errorf("DELETE: %s %s", a.Status, a.Body)
					}
					if a := moved.Post(host.Method("5", "ping", "")); a.StatusCode != http.StatusNotFound {
						t.Errorf("after DELETE: %s %s", a.Status, a.Body)
					}
				}
			})
		})
	}
}

// TestNodesWithOtherRevisions changes the setting node by node. Each request is judged by the node that takes it, and sessions, over
// HTTP+SSE too, go on wherever their requests come.
func TestNodesWithOtherRevisions(t *testing.T) {
	kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
		node := func(name string, spoken []mcp.Revision) *host.Host {
			return host.New(t, troupe.Options{Revisions: spoken, Store: troupe.StoreOptions{Node: name, NATS: troupe.NATSOptions{URL: v.Line(name).URL()}}}, nil)
		}
		before, after := node("a", nil), node("b", without)
		c := before.Unchecked().InitializeAs("2025-11-25", "{}")
		host.Equal(t, "a call elsewhere", after.Moved(c).Post(host.Call("1", "echo", `{"text":"x"}`)).Body, host.TextResult("1", "x"))
		s := before.SSE()
		s.HTTP = after.HTTP // from now on
		s.Handshake("2024-11-05", "{}")
		host.Equal(t, "a message over HTTP+SSE elsewhere", s.Ask(host.Call("2", "echo", `{"text":"x"}`)), host.TextResult("2", "x"))
		for _, tt := range []struct {
			h      *host.Host
			path   string
			body   string
			status int
		}{
			{before, "/mcp", host.Initialize("1", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`), 200},
			{after, "/mcp", host.Initialize("1", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`), 400},
			{after, "/sse", "", 404},
			{after, "/messages?sessionId=b.x", host.Method("1", "ping", ""), 404},
		} {
			other := tt.h.Unchecked()
			other.URL = "http://127.0.0.1" + tt.path
			verb := http.MethodPost
			if tt.body == "" {
				verb = http.MethodGet
			}
			if a := other.Do(verb, tt.body); a.StatusCode != tt.status {
				t.Errorf("%s: %s %s, want %d", tt.path, a.Status, a.Body, tt.status)
			}
		}
	})
}

// TestServersSpeakTheirOwnRevisions mounts servers with revisions of their own in one Runtime. The paths of HTTP+SSE that one leaves
// free belong to another.
func TestServersSpeakTheirOwnRevisions(t *testing.T) {
	rt, err := troupe.New(troupe.Options{Revisions: []mcp.Revision{mcp.Latest, mcp.Revision20250618}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rt.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	server := func(path string, spoken ...mcp.Revision) *troupe.Server {
		s := troupe.NewServer(mcp.Implementation{Name: "s", Version: "1"}, &troupe.ServerOptions{Revisions: spoken})
		if got := s.Revisions(); spoken == nil && !slices.Equal(got, mcp.Revisions()) {
			t.Errorf("%s may speak %v", path, got)
		}
		rt.Mount(path, s)
		return s
	}
	for _, tt := range []struct {
		s    *troupe.Server
		want []mcp.Revision
	}{
		{server("/mcp"), []mcp.Revision{mcp.Revision20250618, mcp.Latest}},
		{server("/sse", mcp.Revision20241105), []mcp.Revision{mcp.Revision20241105}},
		{server("/messages", mcp.Latest, mcp.Revision20250326), []mcp.Revision{mcp.Revision20250326, mcp.Latest}},
	} {
		if got := tt.s.Revisions(); !slices.Equal(got, tt.want) {
			t.Errorf("got %v, want %v", got, tt.want)
		}
	}
	for path, want := range map[string]string{"/mcp": `"protocolVersion":"2025-06-18"`, "/sse": `"protocolVersion":"2024-11-05"`, "/messages": `"protocolVersion":"2025-03-26"`} {
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1"+path, strings.NewReader(host.Initialize("1", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		w := httptest.NewRecorder()
		rt.ServeHTTP(w, r)
		host.Contains(t, path, w.Body.String(), want)
	}
}

// TestBadRevisionsAreNamed gives New and Mount lists that they refuse, with all that is wrong.
func TestBadRevisionsAreNamed(t *testing.T) {
	t.Parallel()
	rt, err := troupe.New(troupe.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close(t.Context())
	for _, tt := range []struct {
		spoken []mcp.Revision
		want   []string
	}{
		{[]mcp.Revision{}, []string{" is empty: a server must speak one revision at least; nil stands for all"}},
		{[]mcp.Revision{0}, []string{": mcp.Revision(0) is no revision: want some of 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25, 2026-07-28"}},
		{[]mcp.Revision{mcp.Latest, mcp.Latest + 1, 2, 2}, []string{": mcp.Revision(6) is no revision: ", ": 2025-03-26 comes twice"}},
	} {
		_, err := troupe.New(troupe.Options{Revisions: tt.spoken, Limits: troupe.Limits{MaxBody: -1}})
		mounted := rt.TryMount("/mcp", troupe.NewServer(mcp.Implementation{Name: "s", Version: "1"}, &troupe.ServerOptions{Revisions: tt.spoken, Limits: troupe.Limits{MaxBody: -1}}))
		for option, err := range map[string]error{"Options.Revisions": err, "ServerOptions.Revisions": mounted} {
			if err == nil {
				t.Errorf("%s took %v", option, tt.spoken)
				continue
			}
			host.Contains(t, "the other fault", err.Error(), "MaxBody")
			for _, want := range tt.want {
				host.Contains(t, "the fault", err.Error(), option+want)
			}
		}
	}
	if mounted := rt.Mounted(); len(mounted) != 0 {
		t.Errorf("mounted are %v", mounted)
	}
}

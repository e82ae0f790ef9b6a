package compare

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// These tests show cells of docs/comparison.md. A library that does otherwise than the page says fails here, for the worse
// and for the better: the page has to follow.

// serve runs a probe on a port of its own.
func (p probe) serve(t *testing.T) string {
	t.Helper()
	p.closeWith = func(end func() error) { t.Cleanup(func() { _ = end() }) }
	h, err := p.handler()
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL + "/mcp"
}

// answer is what came back for a request.
type answer struct {
	status int
	header http.Header
	body   string
}

// result decodes the result of an answer, be it JSON or the last event of a stream.
func (a answer) result(t *testing.T) (r struct {
	Result map[string]any
	Error  *struct{ Code int }
}) {
	t.Helper()
	body := a.body
	if at := strings.LastIndex(body, "data: {"); at >= 0 {
		body = body[at+len("data: "):]
	}
	if err := json.NewDecoder(strings.NewReader(body)).Decode(&r); err != nil {
		t.Fatalf("%d: %v: %q", a.status, err, a.body)
	}
	return r
}

// send sends a request. Each header is written "Name: value".
func send(t *testing.T, method, url, body string, header ...string) (answer, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			r.Host = value
		}
		r.Header.Set(name, value)
	}
	resp, err := (&http.Client{Timeout: patience}).Do(r)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(text)}, err
}

// must is send for requests that are answered.
func must(t *testing.T, method, url, body string, header ...string) answer {
	t.Helper()
	a, err := send(t, method, url, body, header...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

const (
	initialize  = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"compare","version":"1"}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	list        = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
)

// begin begins a session and returns the header that names it.
func begin(t *testing.T, url string, header ...string) string {
	t.Helper()
	a := must(t, "POST", url, initialize, header...)
	if a.status != http.StatusOK || a.header.Get("Mcp-Session-Id") == "" {
		t.Fatalf("initialize: %+v", a)
	}
	session := "Mcp-Session-Id: " + a.header.Get("Mcp-Session-Id")
	must(t, "POST", url, initialized, append(header, session)...)
	return session
}

// toolCall is a call of a tool in a session.
func toolCall(id int, tool, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{"progressToken":"token"}}}`, id, tool, args)
}

// stateless sends a request of 2026-07-28, of a client with the capabilities. about is what the header Mcp-Name says.
func stateless(t *testing.T, url, method, about, params, capabilities string) answer {
	t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientInfo":{"name":"compare","version":"1"},"io.modelcontextprotocol/clientCapabilities":%s}}}`, method, params, capabilities)
	return must(t, "POST", url, body, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: "+method, "Mcp-Name: "+about)
}

// TestErasAtOnce asks one endpoint in both eras.
func TestErasAtOnce(t *testing.T) {
	for _, test := range []struct {
		probe            probe
		sessions, newest bool
	}{
		{probe{library: "troupe"}, true, true},
		{probe{library: "gosdk"}, true, false},
		{probe{library: "gosdk", newest: true}, false, true},
		{probe{library: "mcpgo"}, true, true},
	} {
		url := test.probe.serve(t)
		a := must(t, "POST", url, initialize)
		if sessions := a.status == http.StatusOK && a.header.Get("Mcp-Session-Id") != ""; sessions != test.sessions {
			t.Errorf("%+v: sessions: %v: %+v", test.probe, sessions, a)
		}
		a = stateless(t, url, "tools/list", "", "", "{}")
		if newest := a.status == http.StatusOK && a.result(t).Result["resultType"] == "complete"; newest != test.newest {
			t.Errorf("%+v: 2026-07-28: %v: %+v", test.probe, newest, a)
		}
	}
}

// TestRevisionLeftOut has the client of go-sdk, which prefers 2026-07-28, settle with servers that leave it out.
func TestRevisionLeftOut(t *testing.T) {
	for _, library := range libraries {
		for _, old := range []bool{true, false} {
			p := probe{library: library, old: old, newest: library == "gosdk" && !old}
			s, err := mcp.NewClient(&mcp.Implementation{Name: "compare", Version: "1.0.0"}, nil).
				Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: p.serve(t)}, nil)
			if err != nil {
				t.Errorf("%s: %v", library, err)
				continue
			}
			want := "2026-07-28"
			if old {
				want = "2025-11-25"
			}
			if got := s.InitializeResult().ProtocolVersion; got != want {
				t.Errorf("%s: settled on %s, not %s", library, got, want)
			}
			_ = s.Close()
		}
	}
}

// TestAnothersToken sends a request of one customer's session with another one's token.
func TestAnothersToken(t *testing.T) {
	for library, want := range map[string]int{"troupe": http.StatusNotFound, "gosdk": http.StatusForbidden, "mcpgo": http.StatusOK} {
		url := probe{library: library, tokens: true}.serve(t)
		const ada, bob = "Authorization: Bearer token-ada", "Authorization: Bearer token-bob"
		session := begin(t, url, ada)
		if a := must(t, "POST", url, list, ada, session); a.status != http.StatusOK {
			t.Errorf("%s: its own token: %+v", library, a)
		}
		if a := must(t, "POST", url, list, bob, session); a.status != want {
			t.Errorf("%s: another's token: %+v", library, a)
		}
	}
}

// TestArguments calls a tool with arguments that do not fit.
func TestArguments(t *testing.T) {
	for _, test := range []struct {
		probe probe
		takes map[string]string // what the tool was given, where it was called
	}{
		{probe{library: "troupe"}, nil},
		{probe{library: "gosdk"}, nil},
		{probe{library: "mcpgo"}, map[string]string{`{}`: "took 0", `{"n":11}`: "took 11"}},
		{probe{library: "mcpgo", validate: true}, nil},
	} {
		url := test.probe.serve(t)
		session := begin(t, url)
		for _, args := range []string{`{}`, `{"n":11}`, `{"n":"x"}`} {
			r := must(t, "POST", url, toolCall(3, "take", args), session).result(t)
			refused := r.Error != nil || r.Result["isError"] == true
			if took := test.takes[args]; refused != (took == "") || !refused && !strings.Contains(fmt.Sprint(r.Result["content"]), took) {
				t.Errorf("%+v: %s: %+v", test.probe, args, r)
			}
		}
		if r := must(t, "POST", url, toolCall(4, "take", `{"n":3}`), session).result(t); !strings.Contains(fmt.Sprint(r.Result["content"]), "took 3") {
			t.Errorf("%+v: %+v", test.probe, r)
		}
	}
}

// TestBrowsers asks as the browser of a page does: whether the page may call, and then with its Origin; and as a page that
// has made its name stand for this machine.
func TestBrowsers(t *testing.T) {
	const app = "https://app.example.com"
	for library, want := range map[string]struct {
		preflight string // Access-Control-Allow-Origin, with the page's origin allowed
		foreign   int    // the status for the page of an origin that is not allowed
	}{"troupe": {app, http.StatusForbidden}, "gosdk": {"", http.StatusOK}, "mcpgo": {app, http.StatusOK}} {
		url := probe{library: library, origin: app}.serve(t)
		a := must(t, "OPTIONS", url, "", "Origin: "+app, "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: content-type,mcp-session-id")
		if got := a.header.Get("Access-Control-Allow-Origin"); got != want.preflight {
			t.Errorf("%s: preflight: %+v", library, a)
		}
		if a := must(t, "POST", url, initialize, "Origin: https://evil.example.com"); a.status != want.foreign {
			t.Errorf("%s: a page of another origin: %+v", library, a)
		}
		if a := must(t, "POST", url, initialize, "Host: evil.example.com"); a.status != http.StatusForbidden {
			t.Errorf("%s: another host: %+v", library, a)
		}
	}
}

// TestEventsElsewhere resumes a stream at a second process, here a second handler, with an event store that both have.
func TestEventsElsewhere(t *testing.T) {
	gosdkLog, mcpgoLog := mcp.NewMemoryEventStore(nil), server.NewInMemoryEventStore()
	t.Setenv("RELEASED", "1")
	for library, want := range map[string]int{"gosdk": http.StatusNotFound, "mcpgo": http.StatusOK} {
		p := probe{library: library, gosdkLog: gosdkLog, mcpgoLog: mcpgoLog}
		here, there := p.serve(t), p.serve(t)
		session := begin(t, here)
		a := must(t, "POST", here, toolCall(3, "wait", "{}"), session)
		id, ok := eventID(a.body)
		if !ok {
			t.Fatalf("%s: no id in %q", library, a.body)
		}
		if a := must(t, "GET", here, "", session, "Last-Event-ID: "+id); a.status != http.StatusOK {
			t.Errorf("%s: where it began: %+v", library, a)
		}
		if a := must(t, "GET", there, "", session, "Last-Event-ID: "+id); a.status != want || want == http.StatusOK && !strings.Contains(a.body, "done") {
			t.Errorf("%s: elsewhere: %+v", library, a)
		}
	}
}

// eventID returns the id of the first event in a stream that has one.
func eventID(stream string) (string, bool) {
	for line := range strings.Lines(stream) {
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			return strings.TrimSpace(id), true
		}
	}
	return "", false
}

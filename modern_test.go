package troupe_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/internal/testkit"
)

// modern is a client whose requests each stand for themselves.
type modern struct {
	t    *testing.T
	c    *testkit.Client
	caps string
	n    int
}

// everyCapability is what a client can declare that can answer everything.
const everyCapability = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}`

func (h *host) modern(capabilities string) *modern {
	h.t.Helper()
	c := h.unchecked()
	conformTo(c, r28)
	return &modern{t: h.t, c: c, caps: capabilities}
}

// body is a request with its metadata. params is a JSON object; meta are members of _meta beside the usual ones.
func (m *modern) body(id, method, params, meta string) string {
	if meta != "" {
		meta = "," + meta
	}
	own := fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"testkit","version":"1"},"io.modelcontextprotocol/clientCapabilities":%s%s}`, m.caps, meta)
	if params = strings.TrimSuffix(strings.TrimPrefix(params, "{"), "}"); params != "" {
		own += "," + params
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s}}`, id, method, own)
}

// header are the headers that mirror a body.
func (m *modern) header(method, body string) []string {
	header := []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	var msg struct {
		Params struct{ Name, URI string }
	}
	if err := json.Unmarshal([]byte(body), &msg); err != nil {
		m.t.Fatal(err)
	}
	switch method {
	case "tools/call", "prompts/get":
		header = append(header, "Mcp-Name", msg.Params.Name)
	case "resources/read":
		header = append(header, "Mcp-Name", msg.Params.URI)
	}
	return header
}

func (m *modern) id() string { m.n++; return fmt.Sprint(m.n) }

// do sends a request with an id of its own and returns that, too.
func (m *modern) do(method, params string) (*testkit.Answer, string) {
	m.t.Helper()
	id := m.id()
	body := m.body(id, method, params, "")
	return m.c.Post(body, m.header(method, body)...), id
}

// later is do on a goroutine of its own.
func (m *modern) later(method, params string) (<-chan *testkit.Answer, string) {
	m.t.Helper()
	id := m.id()
	body := m.body(id, method, params, "")
	return m.c.PostLater(body, m.header(method, body)...), id
}

// tool calls a tool. more are members of params beside name and arguments.
func (m *modern) tool(name, args string, more ...string) (*testkit.Answer, string) {
	m.t.Helper()
	return m.do("tools/call", toolParams(name, args, more...))
}

func toolParams(name, args string, more ...string) string {
	return fmt.Sprintf(`{"name":%q,"arguments":%s%s}`, name, args, strings.Join(append([]string{""}, more...), ","))
}

// required is what a response asks for.
type required struct {
	ID     json.RawMessage
	Result struct {
		ResultType    string
		InputRequests map[string]struct {
			Method string
			Params json.RawMessage
		}
		RequestState string
		Content      []struct{ Text string }
		IsError      bool
	}
	Error *struct {
		Code    int
		Message string
	}
}

// read decodes a plain answer.
func (m *modern) read(a *testkit.Answer, id string) (r required) {
	m.t.Helper()
	if a.StatusCode != http.StatusOK {
		m.t.Fatalf("%s %s", a.Status, a.Body)
	}
	if err := json.Unmarshal([]byte(a.Body), &r); err != nil {
		m.t.Fatalf("%v: %s", err, a.Body)
	}
	if string(r.ID) != id {
		m.t.Errorf("id %s, want %s", r.ID, id)
	}
	return r
}

// parked reads an answer that asks for input, and returns the state.
func (m *modern) parked(a *testkit.Answer, id string, keys ...string) string {
	m.t.Helper()
	r := m.read(a, id)
	if r.Result.ResultType != "input_required" || len(r.Result.InputRequests) != len(keys) || r.Result.RequestState == "" {
		m.t.Fatalf("want the questions %q, got %s", keys, a.Body)
	}
	for _, k := range keys {
		if r.Result.InputRequests[k].Method == "" {
			m.t.Errorf("no question %q in %s", k, a.Body)
		}
	}
	return `"requestState":` + fmt.Sprintf("%q", r.Result.RequestState)
}

// done reads the text of a tool's result.
func (m *modern) done(a *testkit.Answer, id string) string {
	m.t.Helper()
	r := m.read(a, id)
	if r.Error != nil {
		return fmt.Sprintf("error %d: %s", r.Error.Code, r.Error.Message)
	}
	if len(r.Result.Content) != 1 {
		m.t.Fatalf("no content: %s", a.Body)
	}
	return r.Result.Content[0].Text
}

// given is the member of params that answers elicitations with a text.
func given(answers ...string) string {
	var all []string
	for i := 0; i+1 < len(answers); i += 2 {
		all = append(all, fmt.Sprintf(`%q:{"action":"accept","content":{"answer":%q}}`, answers[i], answers[i+1]))
	}
	return `"inputResponses":{` + strings.Join(all, ",") + `}`
}

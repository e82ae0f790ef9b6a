package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/test/kit"
)

// Stateless is a client whose requests belong to no session.
type Stateless struct {
	T            *testing.T
	Client       *kit.Client // nil if the requests go through a pipe
	Capabilities string      // as JSON
	N            int         // the newest id
}

// EveryCapability are the capabilities of a client that can answer every question.
const EveryCapability = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}`

// Body returns a request with its metadata. params is a JSON object; meta are members of _meta beside the usual ones.
func (m *Stateless) Body(id, method, params, meta string) string {
	if meta != "" {
		meta = "," + meta
	}
	own := fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"kit","version":"1"},"io.modelcontextprotocol/clientCapabilities":%s%s}`, m.Capabilities, meta)
	if params = strings.TrimSuffix(strings.TrimPrefix(params, "{"), "}"); params != "" {
		own += "," + params
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s}}`, id, method, own)
}

// Header returns the headers that mirror a body.
func (m *Stateless) Header(method, body string) []string {
	header := []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	var msg struct {
		Params struct{ Name, URI string }
	}
	if err := json.Unmarshal([]byte(body), &msg); err != nil {
		m.T.Fatal(err)
	}
	switch method {
	case "tools/call", "prompts/get":
		header = append(header, "Mcp-Name", msg.Params.Name)
	case "resources/read":
		header = append(header, "Mcp-Name", msg.Params.URI)
	}
	return header
}

// NextID returns an id that no request has had.
func (m *Stateless) NextID() string { m.N++; return fmt.Sprint(m.N) }

// Do sends a request with an id of its own, and returns the response and the id.
func (m *Stateless) Do(method, params string) (*kit.Answer, string) {
	m.T.Helper()
	id := m.NextID()
	body := m.Body(id, method, params, "")
	return m.Client.Post(body, m.Header(method, body)...), id
}

// Later is [Stateless.Do] on a goroutine of its own.
func (m *Stateless) Later(method, params string) (<-chan *kit.Answer, string) {
	m.T.Helper()
	id := m.NextID()
	body := m.Body(id, method, params, "")
	return m.Client.PostLater(body, m.Header(method, body)...), id
}

// Tool calls a tool. more are members of params beside name and arguments.
func (m *Stateless) Tool(name, args string, more ...string) (*kit.Answer, string) {
	m.T.Helper()
	return m.Do("tools/call", ToolParams(name, args, more...))
}

// ToolParams is the params of a tools/call. more are members beside name and arguments.
func ToolParams(name, args string, more ...string) string {
	return fmt.Sprintf(`{"name":%q,"arguments":%s%s}`, name, args, strings.Join(append([]string{""}, more...), ","))
}

// Required is a response, which may ask for input.
type Required struct {
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

// read decodes a plain response.
func (m *Stateless) read(a *kit.Answer, id string) (r Required) {
	m.T.Helper()
	if a.StatusCode != http.StatusOK {
		m.T.Fatalf("%s %s", a.Status, a.Body)
	}
	if err := json.Unmarshal([]byte(a.Body), &r); err != nil {
		m.T.Fatalf("%v: %s", err, a.Body)
	}
	if string(r.ID) != id {
		m.T.Errorf("id %s, want %s", r.ID, id)
	}
	return r
}

// Parked reads a response that asks for input, and returns the state.
func (m *Stateless) Parked(a *kit.Answer, id string, keys ...string) string {
	m.T.Helper()
	r := m.read(a, id)
	if r.Result.ResultType != "input_required" || len(r.Result.InputRequests) != len(keys) || r.Result.RequestState == "" {
		m.T.Fatalf("want the questions %q, got %s", keys, a.Body)
	}
	for _, k := range keys {
		if r.Result.InputRequests[k].Method == "" {
			m.T.Errorf("no question %q in %s", k, a.Body)
		}
	}
	return `"requestState":` + fmt.Sprintf("%q", r.Result.RequestState)
}

// Done reads the text of a tool's result.
func (m *Stateless) Done(a *kit.Answer, id string) string {
	m.T.Helper()
	r := m.read(a, id)
	if r.Error != nil {
		return fmt.Sprintf("error %d: %s", r.Error.Code, r.Error.Message)
	}
	if len(r.Result.Content) != 1 {
		m.T.Fatalf("no content: %s", a.Body)
	}
	return r.Result.Content[0].Text
}

// Given returns the member of params that answers elicitations with a text.
func Given(answers ...string) string {
	var all []string
	for i := 0; i+1 < len(answers); i += 2 {
		all = append(all, fmt.Sprintf(`%q:{"action":"accept","content":{"answer":%q}}`, answers[i], answers[i+1]))
	}
	return `"inputResponses":{` + strings.Join(all, ",") + `}`
}

// Post sends a request with further headers.
func (m *Stateless) Post(method, params string, header ...string) *kit.Answer {
	m.T.Helper()
	body := m.Body(m.NextID(), method, params, "")
	return m.Client.Post(body, append(m.Header(method, body), header...)...)
}

// Send POSTs a request with its own members of `_meta`. It returns the messages before the response, and the response.
func (m *Stateless) Send(method, params, meta string) (before []string, response string) {
	m.T.Helper()
	body := m.Body(m.NextID(), method, params, meta)
	a := m.Client.Post(body, m.Header(method, body)...)
	if !a.Stream() {
		return nil, a.Body
	}
	all := Payloads(a.All())
	if len(all) == 0 {
		m.T.Fatalf("%s: no response", method)
	}
	return all[:len(all)-1], all[len(all)-1]
}

// Listen opens a listener. It returns the listener after its acknowledgement, and the filter of that.
func (m *Stateless) Listen(id, filter string) (*kit.Answer, string) {
	m.T.Helper()
	body := m.Body(id, "subscriptions/listen", `{"notifications":`+filter+`}`, "")
	a := m.Client.Post(body, m.Header("subscriptions/listen", body)...)
	if !a.Stream() {
		m.T.Fatalf("listen: %s %s", a.Status, a.Body)
	}
	m.T.Cleanup(a.Close)
	e, ok := a.Next()
	if !ok || e.ID != "" || e.Retry != "" {
		m.T.Fatalf("first event %+v", e)
	}
	prefix := `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `},"notifications":`
	rest, ok := strings.CutPrefix(e.Data, prefix)
	if !ok {
		m.T.Fatalf("acknowledgement: %s", e.Data)
	}
	return a, strings.TrimSuffix(rest, "}}")
}

// ListenNote returns a notification on the stream of the listener with an id. rest are further members of params.
func ListenNote(id, method, rest string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/%s","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s}%s}}`, method, id, rest)
}

// NextEvent fails the test unless the next event of a stream is want.
func NextEvent(t *testing.T, what string, a *kit.Answer, want string) {
	t.Helper()
	e, _ := a.Next()
	Equal(t, what, e.Data, want)
}

// StatelessMeta is the `_meta` of a result of the test server.
const StatelessMeta = `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"test","version":"1"}}`

// Complete is the beginning of a result that is not cacheable.
const Complete = `{"resultType":"complete",` + StatelessMeta

// StatelessText returns the response of a tool that returns text. text stands between the quotes as it is.
func StatelessText(id, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete",%s,"content":[{"type":"text","text":"%s"}]}}`, id, StatelessMeta, text)
}

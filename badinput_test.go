package troupe_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/testkit"
	"github.com/troupe-run/troupe/mcp"
)

// badEnv is what the rows of bad input meet: a session of nobody in particular,
// and things that belong to ann, who is somebody.
type badEnv struct {
	*host
	c    *testkit.Client // its session is tried after every row
	ann  *testkit.Client
	page string // a cursor of c's for tools/list
	n    int
}

// user authenticates by X-User; nobody is somebody called eve.
func user(r *http.Request) (troupe.Principal, error) {
	switch name := r.Header.Get("X-User"); name {
	case "":
		return troupe.Principal{}, nil
	case "eve":
		return troupe.Principal{}, errors.New("eve's key is k-12345")
	default:
		return troupe.Principal{Issuer: "test", Subject: name}, nil
	}
}

func as(c *testkit.Client, name string) *testkit.Client {
	c.Header = http.Header{"X-User": {name}}
	return c
}

type strictIn struct {
	Count int     `json:"count"`
	Unit  string  `json:"unit,omitempty"`
	Ratio float64 `json:"ratio,omitempty"`
}

func newBadEnv(t *testing.T) *badEnv {
	h := newLoopbackHost(t, troupe.Options{Authenticate: user}, &troupe.ServerOptions{
		PageSize: 3,
		Complete: func(_ context.Context, _ *troupe.Call, p mcp.CompleteParams) (mcp.Completion, error) {
			if p.Argument.Value == "boom" {
				return mcp.Completion{}, errors.New("the database password is hunter2")
			}
			return mcp.NewCompletion([]string{p.Argument.Value + "!"}), nil
		},
		Subscribe: func(_ context.Context, _ *troupe.Call, uri string) error {
			if strings.HasPrefix(uri, "secret:") {
				return mcp.NewError(mcp.CodeInvalidParams, "not for you")
			}
			return nil
		},
	}, nil)
	troupe.AddTool(h.srv, troupe.Tool{Name: "strict", InputSchema: json.RawMessage(
		`{"type":"object","properties":{"count":{"type":"integer","minimum":1},"unit":{"enum":["C","F"]}},"required":["count"],"additionalProperties":false}`)},
		func(_ context.Context, _ *troupe.Call, in strictIn) (string, error) {
			return fmt.Sprint(in.Count, in.Unit), nil
		})
	troupe.AddTool(h.srv, troupe.Tool{Name: "fails"},
		func(context.Context, *troupe.Call, struct{}) (string, error) { return "", errors.New("no coffee left") })
	troupe.AddTool(h.srv, troupe.Tool{Name: "refuses"},
		func(context.Context, *troupe.Call, struct{}) (string, error) {
			return "", fmt.Errorf("wrapped: %w", mcp.NewError(-31999, "my own").WithData([]int{1}))
		})
	troupe.AddTool(h.srv, troupe.Tool{Name: "nothing"},
		func(context.Context, *troupe.Call, struct{}) (*mcp.CallToolResult, error) { return nil, nil })
	troupe.AddResource(h.srv, mcp.Resource{URI: "test://broken", Name: "broken"},
		func(context.Context, *troupe.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
			return nil, errors.New("dial 10.0.0.7: refused")
		})
	troupe.AddPrompt(h.srv, troupe.Prompt{Name: "broken"},
		func(context.Context, *troupe.Call, map[string]string) (*mcp.GetPromptResult, error) {
			return nil, errors.New("dial 10.0.0.7: refused")
		})
	bare := troupe.NewServer(mcp.Implementation{Name: "bare", Version: "1"}, &troupe.ServerOptions{ID: "bare"})
	h.rt.Mount("/bare", bare)
	e := &badEnv{host: h, c: h.session()}
	e.ann = as(h.client(), "ann").Initialize(`{}`)
	e.page = cursor(t, e.c.Post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	return e
}

func cursor(t testing.TB, a *testkit.Answer) string {
	t.Helper()
	var m struct {
		Result struct{ NextCursor string }
	}
	if err := json.Unmarshal([]byte(a.Body), &m); err != nil || m.Result.NextCursor == "" {
		t.Fatalf("no cursor in %s: %v", a.Body, err)
	}
	return m.Result.NextCursor
}

// fault is an error response; id "" leaves the id out, and so does data.
func fault(id string, code int, message, data string) string {
	if id != "" {
		id = `,"id":` + id
	}
	if data != "" {
		data = `,"data":` + data
	}
	quoted, _ := json.Marshal(message) // a string
	return fmt.Sprintf(`{"jsonrpc":"2.0"%s,"error":{"code":%d,"message":%s%s}}`, id, code, quoted, data)
}

// toolFault is a result with isError.
func toolFault(id, text string) string {
	quoted, _ := json.Marshal(text) // a string
	return `{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[{"type":"text","text":` + string(quoted) + `}],"isError":true}}`
}

// method is a request with params, which "" leaves out.
func method(id, name, params string) string {
	if params != "" {
		params = `,"params":` + params
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + name + `"` + params + `}`
}

func note(name, params string) string {
	if params != "" {
		params = `,"params":` + params
	}
	return `{"jsonrpc":"2.0","method":"` + name + `"` + params + `}`
}

const (
	invalid  = -32600
	noMethod = -32601
	badParam = -32602
	internal = -32603
	badJSON  = -32700

	badEventText   = "the event id cannot be resumed from"
	unknownSession = "unknown session: initialize anew"
	missingSession = "the Mcp-Session-Id header is missing: initialize first"
	needsInit      = "initialize needs protocolVersion, capabilities and clientInfo"
)

// badRow is one request and the exact answer to it. body is POSTed in the
// environment's session unless do says otherwise.
type badRow struct {
	name   string
	body   string
	header []string
	do     func(e *badEnv) *testkit.Answer
	status int
	want   string
}

func runBadRows(t *testing.T, e *badEnv, rows []badRow) {
	t.Helper()
	e.alive()
	before := heap()
	defer func() {
		if after := heap(); after > before+8<<20 {
			t.Errorf("the heap grew from %d to %d KiB", before>>10, after>>10)
		}
	}()
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			e.t = t
			e.c.T, e.ann.T = t, t
			var a *testkit.Answer
			if row.do != nil {
				a = row.do(e)
			} else {
				a = e.c.Post(row.body, row.header...)
			}
			if a.StatusCode != row.status {
				t.Errorf("status %s, want %d", a.Status, row.status)
			}
			if a.Stream() {
				t.Fatalf("a stream: %v", a.All())
			}
			equal(t, "body", a.Body, row.want)
			if row.want != "" {
				equal(t, "content type", a.Header.Get("Content-Type"), "application/json")
			}
			e.alive()
		})
	}
}

// alive makes an ordinary call in the session.
func (e *badEnv) alive() {
	e.t.Helper()
	e.n++
	id := fmt.Sprintf(`"alive-%d"`, e.n)
	a := e.c.Post(call(id, "echo", `{"text":"still here"}`))
	if want := textResult(id, "still here"); a.StatusCode != 200 || a.Body != want {
		e.t.Errorf("the call afterwards: %s %s", a.Status, a.Body)
	}
}

func TestBadMessages(t *testing.T) { runBadRows(t, newBadEnv(t), badMessages()) }

// badMessages are what no client of the newest revision should POST.
func badMessages() []badRow {
	row := func(name, body string, code int, id, message string) badRow {
		return badRow{name: name, body: body, status: 400, want: fault(id, code, message, "")}
	}
	deep := func(n int) string {
		return `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}}`
	}
	accepted := func(name, body string) badRow { return badRow{name: name, body: body, status: 202} }
	return []badRow{
		row("no JSON", `hello`, badJSON, "", "a value was expected"),
		row("cut short", `{"jsonrpc":"2.0","id":1,"method":"ping"`, badJSON, "1", "unexpected end of the message"),
		row("two messages", method("1", "ping", "")+method("2", "ping", ""), badJSON, "1", "unexpected bytes after the message"),
		row("trailing comma", `{"jsonrpc":"2.0","id":1,"method":"ping",}`, badJSON, "1", "an object key was expected"),
		row("single quotes", `{'jsonrpc':'2.0','id':1,'method':'ping'}`, badJSON, "", "an object key was expected"),
		row("a comment", `{"jsonrpc":"2.0",/**/"id":1,"method":"ping"}`, badJSON, "", "an object key was expected"),
		row("NaN", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}`, badJSON, "1", "a value was expected"),
		row("leading zero", `{"jsonrpc":"2.0","id":01,"method":"ping"}`, badJSON, "", "invalid number"),
		row("byte order mark", "\ufeff"+method("1", "ping", ""), badJSON, "", "a value was expected"),
		row("UTF-16", "\xff\xfe{\x00}\x00", badJSON, "", "a value was expected"),
		row("invalid UTF-8", call("1", "echo", "{\"text\":\"\xff\"}"), badJSON, "1", "invalid UTF-8"),
		row("overlong UTF-8", call("1", "echo", "{\"text\":\"\xc0\xaf\"}"), badJSON, "1", "invalid UTF-8"),
		row("surrogate in UTF-8", call("1", "echo", "{\"text\":\"\xed\xa0\x80\"}"), badJSON, "1", "invalid UTF-8"),
		row("half a surrogate pair", call("1", "echo", `{"text":"\ud800"}`), badJSON, "1", "unpaired surrogate escape in a string"),
		row("control character", call("1", "echo", "{\"text\":\"a\nb\"}"), badJSON, "1", "control character in a string"),
		row("NUL", "\x00", badJSON, "", "a value was expected"),
		row("empty", "", badJSON, "", "Request body is empty"),
		row("white space", " \r\n\t ", badJSON, "", "the message is empty"),
		row("1,000 deep", deep(1000), badJSON, "1", "nested too deep"),
		row("100,000 deep", deep(100000), badJSON, "1", "nested too deep"),
		row("100,000 deep and open", strings.Repeat(`{"a":[`, 50000), badJSON, "", "nested too deep"),

		row("a number", `1`, invalid, "", "the message must be an object or a batch"),
		row("null", `null`, invalid, "", "the message must be an object or a batch"),
		row("a string", `"ping"`, invalid, "", "the message must be an object or a batch"),
		row("nothing in it", `{}`, invalid, "", "the member jsonrpc is missing"),
		row("no version", `{"id":1,"method":"ping"}`, invalid, "1", "the member jsonrpc is missing"),
		row("version 1.0", `{"jsonrpc":"1.0","id":1,"method":"ping"}`, invalid, "1", `the member jsonrpc must be "2.0"`),
		row("version a number", `{"jsonrpc":2.0,"id":1,"method":"ping"}`, invalid, "1", `the member jsonrpc must be "2.0"`),
		row("id null", method("null", "ping", ""), invalid, "", "the id must be a string or an integer"),
		row("id a fraction", method("1.5", "ping", ""), invalid, "", "the id must be a string or an integer"),
		row("id an exponent", method("1e3", "ping", ""), invalid, "", "the id must be a string or an integer"),
		row("id a bool", method("true", "ping", ""), invalid, "", "the id must be a string or an integer"),
		row("id an object", method("{}", "ping", ""), invalid, "", "the id must be a string or an integer"),
		row("id twice", `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, invalid, "", "duplicate member in the message"),
		row("method twice", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}`, invalid, "1", "duplicate member in the message"),
		row("method a number", `{"jsonrpc":"2.0","id":1,"method":5}`, invalid, "1", "the method must be a string"),
		row("method null", `{"jsonrpc":"2.0","id":1,"method":null}`, invalid, "1", "the method must be a string"),
		row("only an id", `{"jsonrpc":"2.0","id":1}`, invalid, "1", "a message needs a method, a result or an error"),
		row("only the version", `{"jsonrpc":"2.0"}`, invalid, "", "a message needs a method, a result or an error"),
		row("params an array", method("1", "ping", "[]"), invalid, "1", "params must be an object"),
		row("params a string", method("1", "ping", `"{}"`), invalid, "1", "params must be an object"),
		row("notification's params an array", note("notifications/cancelled", "[1]"), invalid, "", "params must be an object"),
		row("result and error", `{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}`, invalid, "1", "a message cannot have both a result and an error"),
		row("method and result", `{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}`, invalid, "1", "a message cannot have both a method and a result or an error"),
		row("result without an id", `{"jsonrpc":"2.0","result":{}}`, invalid, "", "a result needs an id"),
		row("error a string", `{"jsonrpc":"2.0","id":1,"error":"x"}`, invalid, "1", "the error must be an object with an integer code and a string message"),
		row("error without a code", `{"jsonrpc":"2.0","id":1,"error":{"message":"x"}}`, invalid, "1", "the error must be an object with an integer code and a string message"),
		row("token a fraction", callWith("1", "echo", `{}`, "1.5"), invalid, "1", "the progress token must be a string or an integer"),
		row("token an exponent", callWith("1", "echo", `{}`, "1e2"), invalid, "1", "the progress token must be a string or an integer"),
		row("token an object", callWith("1", "echo", `{}`, "{}"), invalid, "1", "the progress token must be a string or an integer"),
		row("empty batch", `[]`, invalid, "", "the batch is empty"),
		row("batch", `[`+method("1", "ping", "")+`]`, invalid, "", "revision 2025-11-25 has no batches: send one message at a time"),
		row("batch with initialize", `[`+initialize("1", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}`)+`]`,
			invalid, "", "revision 2025-11-25 has no batches: send one message at a time"),
		row("batch of notifications", `[`+note("notifications/initialized", "")+`]`, invalid, "", "revision 2025-11-25 has no batches: send one message at a time"),
		row("batch of 101", `[1`+strings.Repeat(",1", 100)+`]`, invalid, "", "the batch has too many messages"),
		row("batch in a batch", `[[]]`, invalid, "", "a batch cannot hold a batch"),

		accepted("unknown notification", note("notifications/whatever", `{"a":[1]}`)),
		accepted("a request's method without an id", note("tools/call", `{"name":"panic"}`)),
		accepted("initialize without an id", note("initialize", "")),
		accepted("cancel without an id", note("notifications/cancelled", `{}`)),
		accepted("cancel without params", note("notifications/cancelled", "")),
		accepted("cancel of an object", note("notifications/cancelled", `{"requestId":{},"reason":5}`)),
		accepted("cancel of null", note("notifications/cancelled", `{"requestId":null}`)),
		accepted("cancel of nothing in flight", note("notifications/cancelled", `{"requestId":12345}`)),
		accepted("progress of nothing", note("notifications/progress", `{"progressToken":1,"progress":"x"}`)),
		accepted("a result nobody asked for", `{"jsonrpc":"2.0","id":"n.b.1","result":{}}`),
		accepted("a result with a number for an id", `{"jsonrpc":"2.0","id":7,"result":{"x":1}}`),
		accepted("a result that is no object", `{"jsonrpc":"2.0","id":7,"result":null}`),
		accepted("an error nobody asked for", `{"jsonrpc":"2.0","id":"x","error":{"code":-1,"message":"no"}}`),
		accepted("an error without an id", `{"jsonrpc":"2.0","error":{"code":-1,"message":"no"}}`),
		{name: "a notification's name with an id", body: method("1", "notifications/initialized", ""), status: 200,
			want: fault("1", noMethod, "method not found: notifications/initialized", "")},
	}
}

func initialize(id, params string) string { return method(id, "initialize", params) }

func TestBadRequests(t *testing.T) {
	e := newBadEnv(t)
	row := func(name, body string, code int, message string) badRow {
		return badRow{name: name, body: body, status: 200, want: fault("1", code, message, "")}
	}
	ok := func(name, body, result string) badRow {
		return badRow{name: name, body: body, status: 200, want: `{"jsonrpc":"2.0","id":1,"result":` + result + `}`}
	}
	toolRow := func(name, args, text string) badRow {
		return badRow{name: name, body: call("1", "strict", args), status: 200, want: toolFault("1", text)}
	}
	complete := func(params string) string { return method("1", "completion/complete", params) }
	level := "level must be one of debug, info, notice, warning, error, critical, alert, emergency"
	long := strings.Repeat("x", 100<<10)
	runBadRows(t, e, []badRow{
		row("unknown method", method("1", "tools/destroy", ""), noMethod, "method not found: tools/destroy"),
		row("no method", method("1", "", ""), noMethod, "method not found: "),
		row("method in capitals", method("1", "Ping", ""), noMethod, "method not found: Ping"),
		row("server's method", method("1", "roots/list", ""), noMethod, "method not found: roots/list"),
		row("tasks, undeclared", method("1", "tasks/list", ""), noMethod, "method not found: tasks/list"),
		row("another era's method", method("1", "server/discover", ""), noMethod, "method not found: server/discover"),
		row("endless method", method("1", long, ""), noMethod, "method not found: "+long[:128]+"…"),
		{name: "completion, undeclared", status: 200, want: fault("1", noMethod, "the server has no completions", ""), do: func(e *badEnv) *testkit.Answer {
			c := e.client()
			c.URL = strings.TrimSuffix(c.URL, "/mcp") + "/bare"
			return c.Initialize(`{}`).Post(complete(`{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":"A"}}`))
		}},

		row("unknown tool", call("1", "nope", `{}`), badParam, "Unknown tool: nope"),
		row("unknown tool, escaped", call("1", `n\u006fpe \"x\"`, `{}`), badParam, `Unknown tool: nope "x"`),
		row("endless tool", call("1", long, `{}`), badParam, "Unknown tool: "+long[:128]+"…"),
		ok("known tool, escaped", call("1", `ech\u006f`, `{"text":"x"}`), `{"content":[{"type":"text","text":"x"}]}`),
		row("no tool", method("1", "tools/call", `{"arguments":{}}`), badParam, "tools/call needs the name of a tool"),
		row("no params", method("1", "tools/call", ""), badParam, "tools/call needs the name of a tool"),
		row("tool a number", method("1", "tools/call", `{"name":5}`), badParam, "tools/call needs the name of a tool"),
		row("arguments an array", call("1", "echo", `[]`), badParam, "arguments must be an object"),
		row("arguments a string", call("1", "echo", `"{}"`), badParam, "arguments must be an object"),
		toolRow("nothing given", `{}`, "invalid arguments: at '': missing property 'count'"),
		toolRow("wrong type", `{"count":"1"}`, "invalid arguments: at '/count': got string, want integer"),
		toolRow("fraction", `{"count":1.5}`, "invalid arguments: at '/count': got number, want integer"),
		toolRow("too small", `{"count":0}`, "invalid arguments: at '/count': minimum: got 0, want 1"),
		toolRow("not in the list", `{"count":1,"unit":"K"}`, "invalid arguments: at '/unit': value must be one of 'C', 'F'"),
		toolRow("more than asked", `{"count":1,"extra":{}}`, "invalid arguments: at '': additional properties 'extra' not allowed"),
		toolRow("too large for Go", `{"count":9223372036854775808}`, "invalid arguments: number at offset 9 does not fit int64"),
		ok("an integer by another name", call("1", "strict", `{"count":1}`), `{"content":[{"type":"text","text":"1"}]}`),
		{name: "a tool that fails", body: call("1", "fails", `{}`), status: 200, want: toolFault("1", "no coffee left")},
		{name: "a tool's own error", body: call("1", "refuses", `{}`), status: 200, want: fault("1", -31999, "my own", `[1]`)},
		row("a tool without a result", call("1", "nothing", `{}`), internal, "internal error"),
		row("a tool that panics", call("1", "panic", `{}`), internal, "internal error"),

		row("unknown prompt", method("1", "prompts/get", `{"name":"nope"}`), badParam, "Unknown prompt: nope"),
		row("endless prompt", method("1", "prompts/get", `{"name":"`+long+`"}`), badParam, "Unknown prompt: "+long[:128]+"…"),
		row("no prompt", method("1", "prompts/get", ""), badParam, "prompts/get needs the name of a prompt"),
		row("prompt a number", method("1", "prompts/get", `{"name":5}`), badParam, "invalid params: number at offset 8 does not fit a string"),
		row("prompt's argument missing", method("1", "prompts/get", `{"name":"greet","arguments":{"whom":"x"}}`), badParam, "missing argument: who"),
		row("prompt without arguments", method("1", "prompts/get", `{"name":"greet"}`), badParam, "missing argument: who"),
		row("prompt's argument a number", method("1", "prompts/get", `{"name":"greet","arguments":{"who":5}}`), badParam, "invalid params: number at offset 35 does not fit a string"),
		row("prompt's arguments an array", method("1", "prompts/get", `{"name":"greet","arguments":[]}`), badParam, "invalid params: array at offset 28 does not fit an object"),
		row("a prompt that fails", method("1", "prompts/get", `{"name":"broken"}`), internal, "internal error"),

		{name: "unknown resource", body: method("1", "resources/read", `{"uri":"test://nope/Ä \"x\""}`), status: 200,
			want: fault("1", -32002, "resource not found", `{"uri":"test://nope/Ä \"x\""}`)},
		{name: "unknown by its template", body: method("1", "resources/read", `{"uri":"test://items/none"}`), status: 200,
			want: fault("1", -32002, "resource not found", `{"uri":"test://items/none"}`)},
		row("no URI", method("1", "resources/read", `{}`), badParam, "uri must be an absolute URI"),
		row("relative URI", method("1", "resources/read", `{"uri":"../etc/passwd"}`), badParam, "uri must be an absolute URI"),
		row("endless URI", method("1", "resources/read", `{"uri":"test://`+long+`"}`), badParam, "uri must be an absolute URI"),
		row("URI a number", method("1", "resources/read", `{"uri":1}`), badParam, "uri must be an absolute URI"),
		row("a resource that fails", method("1", "resources/read", `{"uri":"test://broken"}`), internal, "internal error"),
		row("subscribe to nothing", method("1", "resources/subscribe", ""), badParam, "uri must be an absolute URI"),
		row("subscribe refused", method("1", "resources/subscribe", `{"uri":"secret:1"}`), badParam, "not for you"),
		ok("unsubscribe from what was never subscribed", method("1", "resources/unsubscribe", `{"uri":"test://never"}`), `{}`),

		row("level unknown", method("1", "logging/setLevel", `{"level":"verbose"}`), badParam, level),
		row("level in capitals", method("1", "logging/setLevel", `{"level":"DEBUG"}`), badParam, level),
		row("level a number", method("1", "logging/setLevel", `{"level":3}`), badParam, level),
		row("no level", method("1", "logging/setLevel", ""), badParam, level),

		row("completion of an unknown prompt", complete(`{"ref":{"type":"ref/prompt","name":"nope"},"argument":{"name":"a","value":""}}`), badParam, "Unknown prompt: nope"),
		row("completion of an unknown resource", complete(`{"ref":{"type":"ref/resource","uri":"x://nope/{a}"},"argument":{"name":"a","value":""}}`), badParam, "Unknown resource: x://nope/{a}"),
		row("completion of an unknown type", complete(`{"ref":{"type":"ref/tool","name":"echo"},"argument":{"name":"a","value":""}}`), badParam, "ref must be of type ref/prompt or ref/resource"),
		row("completion without a ref", complete(`{"argument":{"name":"a","value":""}}`), badParam, "ref must be of type ref/prompt or ref/resource"),
		row("completion without an argument", complete(`{"ref":{"type":"ref/prompt","name":"greet"}}`), badParam, "completion needs the name of an argument"),
		row("completion's value a number", complete(`{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":5}}`), badParam, "invalid params: number at offset 77 does not fit a string"),
		row("completion that fails", complete(`{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":"boom"}}`), internal, "internal error"),
		ok("completion", complete(`{"ref":{"type":"ref/resource","uri":"test://items/{id}"},"argument":{"name":"id","value":"a"}}`), `{"completion":{"values":["a!"],"total":1,"hasMore":false}}`),

		{name: "in flight twice", status: 200, want: fault("5", invalid, "the id is in use by a request in flight", ""), do: func(e *badEnv) *testkit.Answer {
			first := e.c.Post(callWith("5", "count", `{"to":2,"delay_ms":60000}`, "5")) // its stream has begun
			a := e.c.Post(call("5", "echo", `{"text":"x"}`))
			if b := e.c.Post(call(`"5"`, "echo", `{"text":"x"}`)); b.Body != textResult(`"5"`, "x") {
				e.t.Errorf("the id as a string, which is another: %s", b.Body)
			}
			if b := e.ann.Post(call("5", "echo", `{"text":"x"}`)); b.Body != textResult("5", "x") {
				e.t.Errorf("the id in another session: %s", b.Body)
			}
			e.c.Post(note("notifications/cancelled", `{"requestId":5}`))
			if got := payloads(first.All()); strings.Contains(strings.Join(got, ""), `"id":5`) {
				e.t.Errorf("the cancelled call was answered: %v", got)
			}
			if b := e.c.Post(call("5", "echo", `{"text":"x"}`)); b.Body != textResult("5", "x") {
				e.t.Errorf("the id once it is free: %s", b.Body)
			}
			return a
		}},
	})
}

func TestBadCursors(t *testing.T) {
	e := newBadEnv(t)
	row := func(name, cursor string) badRow {
		return badRow{name: name, body: method("1", "tools/list", `{"cursor":`+cursor+`}`), status: 200, want: fault("1", badParam, "invalid cursor", "")}
	}
	quoted := func(c string) string { return `"` + c + `"` }
	others := as(e.client(), "ann").Initialize(`{}`)
	theirs := cursor(t, others.Post(method("1", "tools/list", "")))
	flipped := []byte(e.page)
	flipped[len(flipped)/2] ^= 1
	rows := []badRow{
		row("garbage", `"eyJwYWdlIjogM30="`),
		row("Chinese", `"可选的游标值"`),
		row("a number", `3`),
		row("an object", `{"page":2}`),
		row("truncated", quoted(e.page[:len(e.page)-1])),
		row("extended", quoted(e.page+"A")),
		row("padded", quoted(e.page+"=")),
		row("with a line break", quoted(e.page[:5]+`\n`+e.page[5:])),
		row("a bit flipped", quoted(string(flipped))),
		row("another principal's", quoted(theirs)),
		row("endless", quoted(strings.Repeat("A", 1<<20))),
		{name: "another method's", body: method("1", "prompts/list", `{"cursor":`+quoted(e.page)+`}`), status: 200, want: fault("1", badParam, "invalid cursor", "")},
		{name: "another server's", status: 200, want: fault("1", badParam, "invalid cursor", ""), do: func(e *badEnv) *testkit.Answer {
			c := e.client()
			c.URL = strings.TrimSuffix(c.URL, "/mcp") + "/bare"
			return c.Initialize(`{}`).Post(method("1", "tools/list", `{"cursor":`+quoted(e.page)+`}`))
		}},
	}
	runBadRows(t, e, rows)
	for i := range e.page {
		b := []byte(e.page)
		b[i] = "AB"[b2i(b[i] == 'A')]
		if a := e.c.Post(method("1", "tools/list", `{"cursor":"`+string(b)+`"}`)); a.Body != fault("1", badParam, "invalid cursor", "") {
			t.Errorf("character %d changed: %s", i, a.Body)
		}
	}
	good := method("1", "tools/list", `{"cursor":`+quoted(e.page)+`}`)
	contains(t, "the same cursor in another session of the same principal", e.session().Post(good).Body, `"tools":[`)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestBadSessions(t *testing.T) {
	e := newBadEnv(t)
	deleted := e.session()
	if a := deleted.Do("DELETE", ""); a.StatusCode != 200 || a.Body != "" {
		t.Fatalf("delete: %s %q", a.Status, a.Body)
	}
	events := e.ann.Post(callWith("1", "count", `{"to":2}`, "1")).All()
	own := e.c.Post(callWith("1", "count", `{"to":2}`, "1")).All()
	stream := strings.TrimSuffix(own[0].ID, ".0.0")
	params := `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}`
	ping := method("1", "ping", "")
	unsupported := fault("1", -32022, "Unsupported protocol version", `{"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"\""}`)
	unversioned := fault("1", -32602, "params._meta must have io.modelcontextprotocol/protocolVersion, a string", "")
	in := func(name, session string, status int, code int, message string) []badRow {
		var rows []badRow
		for _, m := range []string{"POST", "GET", "DELETE"} {
			id := ""
			if m == "POST" {
				id = "1"
			}
			if code == invalid && status == 400 && session != "" {
				id = "" // refused before the body was read
			}
			rows = append(rows, badRow{name: name + " " + m, status: status, want: fault(id, code, message, ""),
				do: func(e *badEnv) *testkit.Answer {
					return e.c.Do(m, method("1", "tools/list", ""), "Mcp-Session-Id", session)
				}})
		}
		return append(rows, badRow{name: name + " notification", status: status, want: fault("", code, message, ""),
			do: func(e *badEnv) *testkit.Answer {
				return e.c.Post(note("notifications/initialized", ""), "Mcp-Session-Id", session)
			}}, badRow{name: name + " answer", status: status, want: fault("", code, message, ""),
			do: func(e *badEnv) *testkit.Answer {
				return e.c.Post(`{"jsonrpc":"2.0","id":"x","result":{}}`, "Mcp-Session-Id", session)
			}})
	}
	resume := func(name, id string) badRow {
		return badRow{name: "event id " + name, status: 400, want: fault("", -32011, badEventText, ""),
			do: func(e *badEnv) *testkit.Answer { return e.c.Get(id) }}
	}
	begin := func(name, params, message string) badRow {
		return badRow{name: "initialize " + name, status: 200, want: fault("1", badParam, message, ""),
			do: func(e *badEnv) *testkit.Answer {
				a := e.client().Post(initialize("1", params))
				equal(e.t, "session id", a.Header.Get("Mcp-Session-Id"), "")
				return a
			}}
	}
	var rows []badRow
	rows = append(rows, in("no session", "", 400, invalid, missingSession)...)
	rows = append(rows, in("unknown", strings.Repeat("a", 26), 404, invalid, unknownSession)...)
	rows = append(rows, in("malformed", "../../etc/passwd", 404, invalid, unknownSession)...)
	rows = append(rows, in("a wildcard", ">", 404, invalid, unknownSession)...)
	rows = append(rows, in("endless", strings.Repeat("a", 10000), 404, invalid, unknownSession)...)
	rows = append(rows, in("not visible", "a b", 400, invalid, "Invalid Mcp-Session-Id header")...)
	rows = append(rows, in("ann's", e.ann.Session, 404, invalid, unknownSession)...)
	rows = append(rows, in("deleted", deleted.Session, 404, invalid, unknownSession)...)
	rows = append(rows, in("in capitals", strings.ToUpper(e.c.Session), 404, invalid, unknownSession)...)
	rows = append(rows,
		badRow{name: "of another server", status: 404, want: fault("1", invalid, unknownSession, ""), do: func(e *badEnv) *testkit.Answer {
			c := e.client()
			c.URL, c.Session = strings.TrimSuffix(c.URL, "/mcp")+"/bare", e.c.Session
			return c.Post(ping)
		}},
		badRow{name: "ann in ours", status: 404, want: fault("1", invalid, unknownSession, ""), do: func(e *badEnv) *testkit.Answer {
			return as(&testkit.Client{T: e.t, HTTP: e.web, URL: e.url, Session: e.c.Session}, "ann").Post(ping)
		}},
		badRow{name: "version of the future", body: ping, header: []string{"MCP-Protocol-Version", "2099-01-01"}, status: 400, want: unversioned},
		badRow{name: "version without sessions", body: ping, header: []string{"MCP-Protocol-Version", "2026-07-28"}, status: 400, want: unversioned},
		badRow{name: "version not the session's", body: ping, header: []string{"MCP-Protocol-Version", "2024-11-05"}, status: 400,
			want: fault("1", invalid, "MCP-Protocol-Version is not the session's, 2025-11-25", "")},
		badRow{name: "version garbage", body: ping, header: []string{"MCP-Protocol-Version", `"`}, status: 400, want: unsupported},
		badRow{name: "no version", body: ping, header: []string{"MCP-Protocol-Version", ""}, status: 200, want: `{"jsonrpc":"2.0","id":1,"result":{}}`},
		badRow{name: "not authenticated", body: ping, header: []string{"X-User", "eve"}, status: 401, want: fault("", invalid, "Unauthorized", "")},

		resume("malformed", "x"), resume("a stream's", stream), resume("two parts", stream+".1"), resume("negative", stream+".-1.0"),
		resume("leading zero", stream+".01.0"), resume("huge", stream+".99999999999999999999.0"), resume("beyond the end", stream+".99.0"),
		resume("no such entry", stream+".1.7"), resume("entry of nothing", stream+".0.1"), resume("wildcard", ">.1.0"), resume("in capitals", strings.ToUpper(own[1].ID)),
		resume("unknown", strings.Repeat("a", 26)+".1.0"), resume("of another session", events[1].ID), resume("long", strings.Repeat("9", 256)), resume("too long", strings.Repeat("9", 257)),

		begin("without params", "", needsInit),
		begin("without a version", `{"capabilities":{},"clientInfo":{"name":"a","version":"1"}}`, needsInit),
		begin("without capabilities", `{"protocolVersion":"2025-11-25","clientInfo":{"name":"a","version":"1"}}`, needsInit),
		begin("without a client", `{"protocolVersion":"2025-11-25","capabilities":{}}`, needsInit),
		begin("with no version", `{"protocolVersion":"","capabilities":{},"clientInfo":{"name":"a","version":"1"}}`, needsInit),
		begin("with a null for a client", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":null}`, needsInit),
		begin("with null capabilities", `{"protocolVersion":"2025-11-25","capabilities":null,"clientInfo":{"name":"a","version":"1"}}`, needsInit),
		begin("with a number for a version", `{"protocolVersion":20251125,"capabilities":{},"clientInfo":{"name":"a","version":"1"}}`, needsInit),
		begin("with a list of capabilities", `{"protocolVersion":"2025-11-25","capabilities":[],"clientInfo":{"name":"a","version":"1"}}`, needsInit),
		begin("with a string for a client", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":"a"}`, needsInit),
		badRow{name: "initialize twice", status: 400, want: fault("1", invalid, "initialize begins a session: send it without Mcp-Session-Id", ""),
			body: initialize("1", params)},
		badRow{name: "initialize in an unknown session", status: 400, want: fault("1", invalid, "initialize begins a session: send it without Mcp-Session-Id", ""),
			body: initialize("1", params), header: []string{"Mcp-Session-Id", "x"}},
	)
	runBadRows(t, e, rows)
	equal(t, "challenge", e.c.Post(ping, "X-User", "eve").Header.Get("WWW-Authenticate"), "Bearer")
	for _, version := range []string{"1999-01-01", "2099-01-01", "2026-07-28", "draft", "☃"} {
		a := e.client().Post(initialize("1", strings.Replace(params, "2025-11-25", version, 1)))
		contains(t, "version "+version, a.Body, `"protocolVersion":"2025-11-25"`)
		if a.Header.Get("Mcp-Session-Id") == "" {
			t.Errorf("version %s: no session", version)
		}
	}
}

// heap is what is alive after a collection.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

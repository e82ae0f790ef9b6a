package transports_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// badEnv is what the rows of bad input meet: a session of an anonymous client, and
// things that belong to ann, who is authenticated.
type badEnv struct {
	*host.Host
	c    *kit.Client // its session is tried after every row
	ann  *kit.Client
	page string // a cursor of c's for tools/list
	n    int
}

type strictIn struct {
	Count int     `json:"count"`
	Unit  string  `json:"unit,omitempty"`
	Ratio float64 `json:"ratio,omitempty"`
}

func newBadEnv(t *testing.T) *badEnv {
	h := host.NewLoopback(t, troupe.Options{Authenticate: host.User}, &troupe.ServerOptions{
		Limits: troupe.Limits{PageSize: 3},
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
	troupe.AddTool(h.Server, troupe.Tool{Name: "strict", InputSchema: json.RawMessage(
		`{"type":"object","properties":{"count":{"type":"integer","minimum":1},"unit":{"enum":["C","F"]}},"required":["count"],"additionalProperties":false}`)},
		func(_ context.Context, _ *troupe.Call, in strictIn) (string, error) {
			return fmt.Sprint(in.Count, in.Unit), nil
		})
	troupe.AddTool(h.Server, troupe.Tool{Name: "fails"},
		func(context.Context, *troupe.Call, struct{}) (string, error) { return "", errors.New("no coffee left") })
	troupe.AddTool(h.Server, troupe.Tool{Name: "refuses"},
		func(context.Context, *troupe.Call, struct{}) (string, error) {
			return "", fmt.Errorf("wrapped: %w", mcp.NewError(-31999, "my own").WithData([]int{1}))
		})
	troupe.AddTool(h.Server, troupe.Tool{Name: "nothing"},
		func(context.Context, *troupe.Call, struct{}) (*mcp.CallToolResult, error) { return nil, nil })
	troupe.AddResource(h.Server, mcp.Resource{URI: "test://broken", Name: "broken"},
		func(context.Context, *troupe.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
			return nil, errors.New("dial 10.0.0.7: refused")
		})
	troupe.AddPrompt(h.Server, troupe.Prompt{Name: "broken"},
		func(context.Context, *troupe.Call, map[string]string) (*mcp.GetPromptResult, error) {
			return nil, errors.New("dial 10.0.0.7: refused")
		})
	bare := troupe.NewServer(mcp.Implementation{Name: "bare", Version: "1"}, &troupe.ServerOptions{ID: "bare"})
	h.Runtime.Mount("/bare", bare)
	e := &badEnv{Host: h, c: h.Session()}
	e.ann = host.As(h.Client(), "ann").Initialize(`{}`)
	e.page = host.Cursor(t, e.c.Post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	return e
}

const (
	unknownSession = "unknown session: initialize anew"
	missingSession = "the Mcp-Session-Id header is missing: initialize first"
	needsInit      = "initialize needs protocolVersion, capabilities and clientInfo"
)

// badRow is one request and the exact response. body is POSTed in the environment's
// session unless do says otherwise.
type badRow struct {
	name   string
	body   string
	header []string
	do     func(e *badEnv) *kit.Answer
	status int
	want   string
}

func runBadRows(t *testing.T, e *badEnv, rows []badRow) {
	t.Helper()
	e.alive()
	before := host.Heap()
	defer func() {
		if after := host.Heap(); after > before+8<<20 {
			t.Errorf("the heap grew from %d to %d KiB", before>>10, after>>10)
		}
	}()
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			e.T = t
			e.c.T, e.ann.T = t, t
			var a *kit.Answer
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
			host.Equal(t, "body", a.Body, row.want)
			if row.want != "" {
				host.Equal(t, "content type", a.Header.Get("Content-Type"), "application/json")
			}
			e.alive()
		})
	}
}

// alive makes an ordinary call in the session.
func (e *badEnv) alive() {
	e.T.Helper()
	e.n++
	id := fmt.Sprintf(`"alive-%d"`, e.n)
	a := e.c.Post(host.Call(id, "echo", `{"text":"still here"}`))
	if want := host.TextResult(id, "still here"); a.StatusCode != 200 || a.Body != want {
		e.T.Errorf("the call afterwards: %s %s", a.Status, a.Body)
	}
}

func TestBadMessages(t *testing.T) { runBadRows(t, newBadEnv(t), badMessages()) }

// badMessages are messages that no client of the newest revision with sessions should
// POST.
func badMessages() []badRow {
	row := func(name, body string, code int, id, message string) badRow {
		return badRow{name: name, body: body, status: 400, want: host.Fault(id, code, message, "")}
	}
	deep := func(n int) string {
		return `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}}`
	}
	accepted := func(name, body string) badRow { return badRow{name: name, body: body, status: 202} }
	return []badRow{
		row("no JSON", `hello`, host.BadJSON, "", "a value was expected, at byte 1"),
		row("cut short", `{"jsonrpc":"2.0","id":1,"method":"ping"`, host.BadJSON, "1", "unexpected end of the message, at byte 40"),
		row("two messages", host.Method("1", "ping", "")+host.Method("2", "ping", ""), host.BadJSON, "1", "unexpected bytes after the message, at byte 41"),
		row("trailing comma", `{"jsonrpc":"2.0","id":1,"method":"ping",}`, host.BadJSON, "1", "an object key was expected, at byte 41"),
		row("single quotes", `{'jsonrpc':'2.0','id':1,'method':'ping'}`, host.BadJSON, "", "an object key was expected, at byte 2"),
		row("a comment", `{"jsonrpc":"2.0",/**/"id":1,"method":"ping"}`, host.BadJSON, "", "an object key was expected, at byte 18"),
		row("NaN", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}`, host.BadJSON, "1", "a value was expected, at byte 55"),
		row("leading zero", `{"jsonrpc":"2.0","id":01,"method":"ping"}`, host.BadJSON, "", "invalid number, at byte 24"),
		row("byte order mark", "\ufeff"+host.Method("1", "ping", ""), host.BadJSON, "", "a value was expected, at byte 1"),
		row("UTF-16", "\xff\xfe{\x00}\x00", host.BadJSON, "", "a value was expected, at byte 1"),
		row("invalid UTF-8", host.Call("1", "echo", "{\"text\":\"\xff\"}"), host.BadJSON, "1", "invalid UTF-8, at byte 92"),
		row("overlong UTF-8", host.Call("1", "echo", "{\"text\":\"\xc0\xaf\"}"), host.BadJSON, "1", "invalid UTF-8, at byte 92"),
		row("surrogate in UTF-8", host.Call("1", "echo", "{\"text\":\"\xed\xa0\x80\"}"), host.BadJSON, "1", "invalid UTF-8, at byte 92"),
		row("half a surrogate pair", host.Call("1", "echo", `{"text":"\ud800"}`), host.BadJSON, "1", "unpaired surrogate escape in a string, at byte 92"),
		row("control character", host.Call("1", "echo", "{\"text\":\"a\nb\"}"), host.BadJSON, "1", "control character in a string, at byte 93"),
		row("NUL", "\x00", host.BadJSON, "", "a value was expected, at byte 1"),
		row("empty", "", host.BadJSON, "", "Request body is empty"),
		row("white space", " \r\n\t ", host.BadJSON, "", "the message is empty, at byte 6"),
		row("1,000 deep", deep(1000), host.BadJSON, "1", "nested too deep, at byte 181"),
		row("100,000 deep", deep(100000), host.BadJSON, "1", "nested too deep, at byte 181"),
		row("100,000 deep and open", strings.Repeat(`{"a":[`, 50000), host.BadJSON, "", "nested too deep, at byte 385"),

		row("a number", `1`, host.Invalid, "", "the message must be an object or a batch"),
		row("null", `null`, host.Invalid, "", "the message must be an object or a batch"),
		row("a string", `"ping"`, host.Invalid, "", "the message must be an object or a batch"),
		row("nothing in it", `{}`, host.Invalid, "", "the member jsonrpc is missing"),
		row("no version", `{"id":1,"method":"ping"}`, host.Invalid, "1", "the member jsonrpc is missing"),
		row("version 1.0", `{"jsonrpc":"1.0","id":1,"method":"ping"}`, host.Invalid, "1", `the member jsonrpc must be "2.0"`),
		row("version a number", `{"jsonrpc":2.0,"id":1,"method":"ping"}`, host.Invalid, "1", `the member jsonrpc must be "2.0"`),
		row("id null", host.Method("null", "ping", ""), host.Invalid, "", "the id must be a string or an integer"),
		row("id a fraction", host.Method("1.5", "ping", ""), host.Invalid, "", "the id must be a string or an integer"),
		row("id an exponent", host.Method("1e3", "ping", ""), host.Invalid, "", "the id must be a string or an integer"),
		row("id a bool", host.Method("true", "ping", ""), host.Invalid, "", "the id must be a string or an integer"),
		row("id an object", host.Method("{}", "ping", ""), host.Invalid, "", "the id must be a string or an integer"),
		row("id twice", `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, host.Invalid, "", "duplicate member in the message"),
		row("method twice", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}`, host.Invalid, "1", "duplicate member in the message"),
		row("method a number", `{"jsonrpc":"2.0","id":1,"method":5}`, host.Invalid, "1", "the method must be a string"),
		row("method null", `{"jsonrpc":"2.0","id":1,"method":null}`, host.Invalid, "1", "the method must be a string"),
		row("only an id", `{"jsonrpc":"2.0","id":1}`, host.Invalid, "1", "a message needs a method, a result or an error"),
		row("only the version", `{"jsonrpc":"2.0"}`, host.Invalid, "", "a message needs a method, a result or an error"),
		row("params an array", host.Method("1", "ping", "[]"), host.Invalid, "1", "params must be an object"),
		row("params a string", host.Method("1", "ping", `"{}"`), host.Invalid, "1", "params must be an object"),
		row("notification's params an array", host.Note("notifications/cancelled", "[1]"), host.Invalid, "", "params must be an object"),
		row("result and error", `{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}`, host.Invalid, "1", "a message cannot have both a result and an error"),
		row("method and result", `{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}`, host.Invalid, "1", "a message cannot have both a method and a result or an error"),
		row("result without an id", `{"jsonrpc":"2.0","result":{}}`, host.Invalid, "", "a result needs an id"),
		row("error a string", `{"jsonrpc":"2.0","id":1,"error":"x"}`, host.Invalid, "1", "the error must be an object with an integer code and a string message"),
		row("error without a code", `{"jsonrpc":"2.0","id":1,"error":{"message":"x"}}`, host.Invalid, "1", "the error must be an object with an integer code and a string message"),
		row("token a fraction", host.CallWith("1", "echo", `{}`, "1.5"), host.Invalid, "1", "the progress token must be a string or an integer"),
		row("token an exponent", host.CallWith("1", "echo", `{}`, "1e2"), host.Invalid, "1", "the progress token must be a string or an integer"),
		row("token an object", host.CallWith("1", "echo", `{}`, "{}"), host.Invalid, "1", "the progress token must be a string or an integer"),
		row("empty batch", `[]`, host.Invalid, "", "the batch is empty"),
		row("batch", `[`+host.Method("1", "ping", "")+`]`, host.Invalid, "", "revision 2025-11-25 has no batches: send one message at a time"),
		row("batch with initialize", `[`+host.Initialize("1", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}`)+`]`,
			host.Invalid, "", "revision 2025-11-25 has no batches: send one message at a time"),
		row("batch of notifications", `[`+host.Note("notifications/initialized", "")+`]`, host.Invalid, "", "revision 2025-11-25 has no batches: send one message at a time"),
		row("batch of 101", `[1`+strings.Repeat(",1", 100)+`]`, host.Invalid, "", "the batch has too many messages"),
		row("batch in a batch", `[[]]`, host.Invalid, "", "a batch cannot hold a batch"),

		accepted("unknown notification", host.Note("notifications/whatever", `{"a":[1]}`)),
		accepted("a request's method without an id", host.Note("tools/call", `{"name":"panic"}`)),
		accepted("initialize without an id", host.Note("initialize", "")),
		accepted("cancel without an id", host.Note("notifications/cancelled", `{}`)),
		accepted("cancel without params", host.Note("notifications/cancelled", "")),
		accepted("cancel of an object", host.Note("notifications/cancelled", `{"requestId":{},"reason":5}`)),
		accepted("cancel of null", host.Note("notifications/cancelled", `{"requestId":null}`)),
		accepted("cancel of nothing in flight", host.Note("notifications/cancelled", `{"requestId":12345}`)),
		accepted("progress of nothing", host.Note("notifications/progress", `{"progressToken":1,"progress":"x"}`)),
		accepted("a result nobody asked for", `{"jsonrpc":"2.0","id":"n.b.1","result":{}}`),
		accepted("a result with a number for an id", `{"jsonrpc":"2.0","id":7,"result":{"x":1}}`),
		accepted("a result that is no object", `{"jsonrpc":"2.0","id":7,"result":null}`),
		accepted("an error nobody asked for", `{"jsonrpc":"2.0","id":"x","error":{"code":-1,"message":"no"}}`),
		accepted("an error without an id", `{"jsonrpc":"2.0","error":{"code":-1,"message":"no"}}`),
		{name: "a notification's name with an id", body: host.Method("1", "notifications/initialized", ""), status: 200,
			want: host.Fault("1", host.NoMethod, "method not found: notifications/initialized", "")},
	}
}

func TestBadRequests(t *testing.T) {
	e := newBadEnv(t)
	row := func(name, body string, code int, message string) badRow {
		return badRow{name: name, body: body, status: 200, want: host.Fault("1", code, message, "")}
	}
	ok := func(name, body, result string) badRow {
		return badRow{name: name, body: body, status: 200, want: `{"jsonrpc":"2.0","id":1,"result":` + result + `}`}
	}
	toolRow := func(name, args, text string) badRow {
		return badRow{name: name, body: host.Call("1", "strict", args), status: 200, want: host.ToolFault("1", text)}
	}
	complete := func(params string) string { return host.Method("1", "completion/complete", params) }
	level := "level must be one of debug, info, notice, warning, error, critical, alert, emergency"
	long := strings.Repeat("x", 100<<10)
	runBadRows(t, e, []badRow{
		row("unknown method", host.Method("1", "tools/destroy", ""), host.NoMethod, "method not found: tools/destroy"),
		row("no method", host.Method("1", "", ""), host.NoMethod, "method not found: "),
		row("method in capitals", host.Method("1", "Ping", ""), host.NoMethod, "method not found: Ping"),
		row("server's method", host.Method("1", "roots/list", ""), host.NoMethod, "method not found: roots/list"),
		row("tasks, undeclared", host.Method("1", "tasks/list", ""), host.NoMethod, "method not found: tasks/list"),
		row("another era's method", host.Method("1", "server/discover", ""), host.NoMethod, "method not found: server/discover"),
		row("endless method", host.Method("1", long, ""), host.NoMethod, "method not found: "+long[:128]+"…"),
		{name: "completion, undeclared", status: 200, want: host.Fault("1", host.NoMethod, "the server has no completions", ""), do: func(e *badEnv) *kit.Answer {
			c := e.Client()
			c.URL = strings.TrimSuffix(c.URL, "/mcp") + "/bare"
			return c.Initialize(`{}`).Post(complete(`{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":"A"}}`))
		}},

		row("unknown tool", host.Call("1", "nope", `{}`), host.BadParam, "Unknown tool: nope"),
		row("unknown tool, escaped", host.Call("1", `n\u006fpe \"x\"`, `{}`), host.BadParam, `Unknown tool: nope "x"`),
		row("endless tool", host.Call("1", long, `{}`), host.BadParam, "Unknown tool: "+long[:128]+"…"),
		ok("known tool, escaped", host.Call("1", `ech\u006f`, `{"text":"x"}`), `{"content":[{"type":"text","text":"x"}]}`),
		row("no tool", host.Method("1", "tools/call", `{"arguments":{}}`), host.BadParam, "tools/call needs the name of a tool"),
		row("no params", host.Method("1", "tools/call", ""), host.BadParam, "tools/call needs the name of a tool"),
		row("tool a number", host.Method("1", "tools/call", `{"name":5}`), host.BadParam, "tools/call needs the name of a tool"),
		row("arguments an array", host.Call("1", "echo", `[]`), host.BadParam, "arguments must be an object"),
		row("arguments a string", host.Call("1", "echo", `"{}"`), host.BadParam, "arguments must be an object"),
		toolRow("nothing given", `{}`, "invalid arguments: at '': missing property 'count'"),
		toolRow("wrong type", `{"count":"1"}`, "invalid arguments: at '/count': got string, want integer"),
		toolRow("fraction", `{"count":1.5}`, "invalid arguments: at '/count': got number, want integer"),
		toolRow("too small", `{"count":0}`, "invalid arguments: at '/count': minimum: got 0, want 1"),
		toolRow("not in the list", `{"count":1,"unit":"K"}`, "invalid arguments: at '/unit': value must be one of 'C', 'F'"),
		toolRow("more than asked", `{"count":1,"extra":{}}`, "invalid arguments: at '': additional properties 'extra' not allowed"),
		toolRow("too large for Go", `{"count":9223372036854775808}`, "invalid arguments: number at offset 9 does not fit int64"),
		ok("an integer by another name", host.Call("1", "strict", `{"count":1}`), `{"content":[{"type":"text","text":"1"}]}`),
		{name: "a tool that fails", body: host.Call("1", "fails", `{}`), status: 200, want: host.ToolFault("1", "no coffee left")},
		{name: "a tool's own error", body: host.Call("1", "refuses", `{}`), status: 200, want: host.Fault("1", -31999, "my own", `[1]`)},
		row("a tool without a result", host.Call("1", "nothing", `{}`), host.Internal, "internal error"),
		row("a tool that panics", host.Call("1", "panic", `{}`), host.Internal, "internal error"),

		row("unknown prompt", host.Method("1", "prompts/get", `{"name":"nope"}`), host.BadParam, "Unknown prompt: nope"),
		row("endless prompt", host.Method("1", "prompts/get", `{"name":"`+long+`"}`), host.BadParam, "Unknown prompt: "+long[:128]+"…"),
		row("no prompt", host.Method("1", "prompts/get", ""), host.BadParam, "prompts/get needs the name of a prompt"),
		row("prompt a number", host.Method("1", "prompts/get", `{"name":5}`), host.BadParam, "invalid params: number at offset 8 does not fit a string"),
		row("prompt's argument missing", host.Method("1", "prompts/get", `{"name":"greet","arguments":{"whom":"x"}}`), host.BadParam, "missing argument: who"),
		row("prompt without arguments", host.Method("1", "prompts/get", `{"name":"greet"}`), host.BadParam, "missing argument: who"),
		row("prompt's argument a number", host.Method("1", "prompts/get", `{"name":"greet","arguments":{"who":5}}`), host.BadParam, "invalid params: number at offset 35 does not fit a string"),
		row("prompt's arguments an array", host.Method("1", "prompts/get", `{"name":"greet","arguments":[]}`), host.BadParam, "invalid params: array at offset 28 does not fit an object"),
		row("a prompt that fails", host.Method("1", "prompts/get", `{"name":"broken"}`), host.Internal, "internal error"),

		{name: "unknown resource", body: host.Method("1", "resources/read", `{"uri":"test://nope/Ä \"x\""}`), status: 200,
			want: host.Fault("1", -32002, "resource not found", `{"uri":"test://nope/Ä \"x\""}`)},
		{name: "unknown by its template", body: host.Method("1", "resources/read", `{"uri":"test://items/none"}`), status: 200,
			want: host.Fault("1", -32002, "resource not found", `{"uri":"test://items/none"}`)},
		row("no URI", host.Method("1", "resources/read", `{}`), host.BadParam, "uri must be an absolute URI"),
		row("relative URI", host.Method("1", "resources/read", `{"uri":"../etc/passwd"}`), host.BadParam, "uri must be an absolute URI"),
		row("endless URI", host.Method("1", "resources/read", `{"uri":"test://`+long+`"}`), host.BadParam, "uri is longer than 8192 bytes"),
		row("URI a number", host.Method("1", "resources/read", `{"uri":1}`), host.BadParam, "uri must be an absolute URI"),
		row("a resource that fails", host.Method("1", "resources/read", `{"uri":"test://broken"}`), host.Internal, "internal error"),
		row("subscribe to nothing", host.Method("1", "resources/subscribe", ""), host.BadParam, "uri must be an absolute URI"),
		row("subscribe refused", host.Method("1", "resources/subscribe", `{"uri":"secret:1"}`), host.BadParam, "not for you"),
		ok("unsubscribe from what was never subscribed", host.Method("1", "resources/unsubscribe", `{"uri":"test://never"}`), `{}`),

		row("level unknown", host.Method("1", "logging/setLevel", `{"level":"verbose"}`), host.BadParam, level),
		row("level in capitals", host.Method("1", "logging/setLevel", `{"level":"DEBUG"}`), host.BadParam, level),
		row("level a number", host.Method("1", "logging/setLevel", `{"level":3}`), host.BadParam, level),
		row("no level", host.Method("1", "logging/setLevel", ""), host.BadParam, level),

		row("completion of an unknown prompt", complete(`{"ref":{"type":"ref/prompt","name":"nope"},"argument":{"name":"a","value":""}}`), host.BadParam, "Unknown prompt: nope"),
		row("completion of an unknown resource", complete(`{"ref":{"type":"ref/resource","uri":"x://nope/{a}"},"argument":{"name":"a","value":""}}`), host.BadParam, "Unknown resource: x://nope/{a}"),
		row("completion of an unknown type", complete(`{"ref":{"type":"ref/tool","name":"echo"},"argument":{"name":"a","value":""}}`), host.BadParam, "ref must be of type ref/prompt or ref/resource"),
		row("completion without a ref", complete(`{"argument":{"name":"a","value":""}}`), host.BadParam, "ref must be of type ref/prompt or ref/resource"),
		row("completion without an argument", complete(`{"ref":{"type":"ref/prompt","name":"greet"}}`), host.BadParam, "completion needs the name of an argument"),
		row("completion's value a number", complete(`{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":5}}`), host.BadParam, "invalid params: number at offset 77 does not fit a string"),
		row("completion that fails", complete(`{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":"boom"}}`), host.Internal, "internal error"),
		ok("completion", complete(`{"ref":{"type":"ref/resource","uri":"test://items/{id}"},"argument":{"name":"id","value":"a"}}`), `{"completion":{"values":["a!"],"total":1,"hasMore":false}}`),

		{name: "in flight twice", status: 200, want: host.Fault("5", host.Invalid, "the id is in use by a request in flight", ""), do: func(e *badEnv) *kit.Answer {
			first := e.c.Post(host.CallWith("5", "count", `{"to":2,"delay_ms":60000}`, "5")) // its stream has begun
			a := e.c.Post(host.Call("5", "echo", `{"text":"x"}`))
			if b := e.c.Post(host.Call(`"5"`, "echo", `{"text":"x"}`)); b.Body != host.TextResult(`"5"`, "x") {
				e.T.Errorf("the id as a string, which is another: %s", b.Body)
			}
			if b := e.ann.Post(host.Call("5", "echo", `{"text":"x"}`)); b.Body != host.TextResult("5", "x") {
				e.T.Errorf("the id in another session: %s", b.Body)
			}
			e.c.Post(host.Note("notifications/cancelled", `{"requestId":5}`))
			if got := host.Payloads(first.All()); strings.Contains(strings.Join(got, ""), `"id":5`) {
				e.T.Errorf("the cancelled call was answered: %v", got)
			}
			again := func() string { return e.c.Post(host.Call("5", "echo", `{"text":"x"}`)).Body }
			b := again()
			for end := time.Now().Add(20 * time.Second); b == a.Body && time.Now().Before(end); b = again() {
				runtime.Gosched() // the stream has ended, and the handler may not have returned yet: until then it has the id
			}
			if b != host.TextResult("5", "x") {
				e.T.Errorf("the id once it is free: %s", b)
			}
			return a
		}},
	})
}

func TestBadCursors(t *testing.T) {
	e := newBadEnv(t)
	row := func(name, cursor string) badRow {
		return badRow{name: name, body: host.Method("1", "tools/list", `{"cursor":`+cursor+`}`), status: 200, want: host.Fault("1", host.BadParam, "invalid cursor", "")}
	}
	quoted := func(c string) string { return `"` + c + `"` }
	others := host.As(e.Client(), "ann").Initialize(`{}`)
	theirs := host.Cursor(t, others.Post(host.Method("1", "tools/list", "")))
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
		{name: "another method's", body: host.Method("1", "prompts/list", `{"cursor":`+quoted(e.page)+`}`), status: 200, want: host.Fault("1", host.BadParam, "invalid cursor", "")},
		{name: "another server's", status: 200, want: host.Fault("1", host.BadParam, "invalid cursor", ""), do: func(e *badEnv) *kit.Answer {
			c := e.Client()
			c.URL = strings.TrimSuffix(c.URL, "/mcp") + "/bare"
			return c.Initialize(`{}`).Post(host.Method("1", "tools/list", `{"cursor":`+quoted(e.page)+`}`))
		}},
	}
	runBadRows(t, e, rows)
	for i := range e.page {
		b := []byte(e.page)
		b[i] = "AB"[b2i(b[i] == 'A')]
		if a := e.c.Post(host.Method("1", "tools/list", `{"cursor":"`+string(b)+`"}`)); a.Body != host.Fault("1", host.BadParam, "invalid cursor", "") {
			t.Errorf("character %d changed: %s", i, a.Body)
		}
	}
	good := host.Method("1", "tools/list", `{"cursor":`+quoted(e.page)+`}`)
	host.Contains(t, "the same cursor in another session of the same principal", e.Session().Post(good).Body, `"tools":[`)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestBadSessions(t *testing.T) {
	e := newBadEnv(t)
	deleted := e.Session()
	if a := deleted.Do("DELETE", ""); a.StatusCode != 200 || a.Body != "" {
		t.Fatalf("delete: %s %q", a.Status, a.Body)
	}
	events := e.ann.Post(host.CallWith("1", "count", `{"to":2}`, "1")).All()
	own := e.c.Post(host.CallWith("1", "count", `{"to":2}`, "1")).All()
	stream := strings.TrimSuffix(own[0].ID, ".0.0")
	params := `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}`
	ping := host.Method("1", "ping", "")
	unsupported := host.Fault("1", -32022, "Unsupported protocol version", `{"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"\""}`)
	unversioned := host.Fault("1", -32602, "_meta must name the protocol version: io.modelcontextprotocol/protocolVersion", "")
	in := func(name, session string, status int, code int, message string) []badRow {
		var rows []badRow
		for _, m := range []string{"POST", "GET", "DELETE"} {
			id := ""
			if m == "POST" {
				id = "1"
			}
			if code == host.Invalid && status == 400 && session != "" {
				id = "" // refused before the body was read
			}
			rows = append(rows, badRow{name: name + " " + m, status: status, want: host.Fault(id, code, message, ""),
				do: func(e *badEnv) *kit.Answer {
					return e.c.Do(m, host.Method("1", "tools/list", ""), "Mcp-Session-Id", session)
				}})
		}
		return append(rows, badRow{name: name + " notification", status: status, want: host.Fault("", code, message, ""),
			do: func(e *badEnv) *kit.Answer {
				return e.c.Post(host.Note("notifications/initialized", ""), "Mcp-Session-Id", session)
			}}, badRow{name: name + " answer", status: status, want: host.Fault("", code, message, ""),
			do: func(e *badEnv) *kit.Answer {
				return e.c.Post(`{"jsonrpc":"2.0","id":"x","result":{}}`, "Mcp-Session-Id", session)
			}})
	}
	resume := func(name, id string) badRow {
		return badRow{name: "event id " + name, status: 400, want: host.Fault("", -32011, host.BadEventText, ""),
			do: func(e *badEnv) *kit.Answer { return e.c.Get(id) }}
	}
	begin := func(name, params, message string) badRow {
		return badRow{name: "initialize " + name, status: 200, want: host.Fault("1", host.BadParam, message, ""),
			do: func(e *badEnv) *kit.Answer {
				a := e.Client().Post(host.Initialize("1", params))
				host.Equal(e.T, "session id", a.Header.Get("Mcp-Session-Id"), "")
				return a
			}}
	}
	var rows []badRow
	rows = append(rows, in("no session", "", 400, host.Invalid, missingSession)...)
	rows = append(rows, in("unknown", strings.Repeat("a", 26), 404, host.Invalid, unknownSession)...)
	rows = append(rows, in("malformed", "../../etc/passwd", 404, host.Invalid, unknownSession)...)
	rows = append(rows, in("a wildcard", ">", 404, host.Invalid, unknownSession)...)
	rows = append(rows, in("endless", strings.Repeat("a", 10000), 404, host.Invalid, unknownSession)...)
	rows = append(rows, in("not visible", "a b", 400, host.Invalid, "Invalid Mcp-Session-Id header")...)
	rows = append(rows, in("ann's", e.ann.Session, 404, host.Invalid, unknownSession)...)
	rows = append(rows, in("deleted", deleted.Session, 404, host.Invalid, unknownSession)...)
	rows = append(rows, in("in capitals", strings.ToUpper(e.c.Session), 404, host.Invalid, unknownSession)...)
	rows = append(rows,
		badRow{name: "of another server", status: 404, want: host.Fault("1", host.Invalid, unknownSession, ""), do: func(e *badEnv) *kit.Answer {
			c := e.Client()
			c.URL, c.Session = strings.TrimSuffix(c.URL, "/mcp")+"/bare", e.c.Session
			return c.Post(ping)
		}},
		badRow{name: "ann in ours", status: 404, want: host.Fault("1", host.Invalid, unknownSession, ""), do: func(e *badEnv) *kit.Answer {
			return host.As(&kit.Client{T: e.T, HTTP: e.HTTP, URL: e.URL, Session: e.c.Session}, "ann").Post(ping)
		}},
		badRow{name: "version of the future", body: ping, header: []string{"MCP-Protocol-Version", "2099-01-01"}, status: 400, want: strings.Replace(unsupported, `"\""`, `"2099-01-01"`, 1)},
		badRow{name: "version without sessions", body: ping, header: []string{"MCP-Protocol-Version", "2026-07-28"}, status: 400, want: unversioned},
		badRow{name: "version not the session's", body: ping, header: []string{"MCP-Protocol-Version", "2024-11-05"}, status: 400,
			want: host.Fault("1", host.Invalid, "MCP-Protocol-Version is not the session's, 2025-11-25", "")},
		badRow{name: "version garbage", body: ping, header: []string{"MCP-Protocol-Version", `"`}, status: 400, want: unsupported},
		badRow{name: "no version", body: ping, header: []string{"MCP-Protocol-Version", ""}, status: 200, want: `{"jsonrpc":"2.0","id":1,"result":{}}`},
		badRow{name: "not authenticated", body: ping, header: []string{"X-User", "eve"}, status: 401, want: host.Fault("", host.Invalid, "Unauthorized", "")},

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
		badRow{name: "initialize twice", status: 400, want: host.Fault("1", host.Invalid, "initialize begins a session: send it without Mcp-Session-Id", ""),
			body: host.Initialize("1", params)},
		badRow{name: "initialize in an unknown session", status: 400, want: host.Fault("1", host.Invalid, "initialize begins a session: send it without Mcp-Session-Id", ""),
			body: host.Initialize("1", params), header: []string{"Mcp-Session-Id", "x"}},
	)
	runBadRows(t, e, rows)
	host.Equal(t, "challenge", e.c.Post(ping, "X-User", "eve").Header.Get("WWW-Authenticate"), "Bearer")
	for _, version := range []string{"1999-01-01", "2099-01-01", "2026-07-28", "draft", "☃"} {
		a := e.Client().Post(host.Initialize("1", strings.Replace(params, "2025-11-25", version, 1)))
		host.Contains(t, "version "+version, a.Body, `"protocolVersion":"2025-11-25"`)
		if a.Header.Get("Mcp-Session-Id") == "" {
			t.Errorf("version %s: no session", version)
		}
	}
}

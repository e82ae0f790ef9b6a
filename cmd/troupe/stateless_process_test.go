package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/eventstream"
)

// aloneBody returns a request of 2026-07-28. params are members of its params.
func aloneBody(id, method, params string) string {
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}},"sampling":{},"roots":{}},"progressToken":"p"}`
	if params != "" {
		meta += "," + params
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + meta + `}}`
}

// exchange is the response to a request, not read yet.
type exchange struct {
	*http.Response
	rd    *bufio.Reader
	close context.CancelFunc // breaks the connection off
}

// post sends a message; header are names and values. It fails with the connection.
func (p *process) post(ctx context.Context, body string, header ...string) (*exchange, error) {
	return p.send(ctx, "POST", body, header...)
}

func (p *process) send(ctx context.Context, method, body string, header ...string) (*exchange, error) {
	ctx, cancel := context.WithTimeout(ctx, hung)
	r, err := http.NewRequestWithContext(ctx, method, p.base+"/mcp", strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		cancel()
		return nil, err
	}
	return &exchange{resp, bufio.NewReader(resp.Body), func() { cancel(); _ = resp.Body.Close() }}, nil
}

// sendAlone sends a request of 2026-07-28 with the headers that repeat parts of its
// body.
func (p *process) sendAlone(ctx context.Context, id, method, params string) (*exchange, error) {
	body := aloneBody(id, method, params)
	header := []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	var m struct{ Params struct{ Name string } }
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		panic(err)
	}
	if m.Params.Name != "" {
		header = append(header, "Mcp-Name", m.Params.Name)
	}
	return p.post(ctx, body, header...)
}

// open is sendAlone for a request that must succeed. The exchange lasts until the test
// ends.
func (p *process) open(t *testing.T, id, method, params string) *exchange {
	t.Helper()
	x, err := p.sendAlone(t.Context(), id, method, params)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.close)
	return x
}

// event reads the next event of a stream: its id, and its data if it has any.
func (x *exchange) event() (id, data string, err error) {
	r := eventstream.NewReader(x.rd, 1<<20) // which keeps nothing back from x.rd
	for {
		e, err := r.Next()
		if err != nil || e.ID != "" || len(e.Data) > 0 {
			return e.ID, string(e.Data), err
		}
	}
}

// next reads the next event that has data.
func (x *exchange) next(t *testing.T) (id, data string) {
	t.Helper()
	for data == "" {
		var err error
		if id, data, err = x.event(); err != nil {
			t.Fatalf("%s: the stream ended: %v", x.Status, err)
		}
	}
	return id, data
}

// answered is a response of 2026-07-28.
type answered struct {
	Status int             `json:"-"`
	Body   string          `json:"-"`
	ID     json.RawMessage `json:"id"`
	Result struct {
		ResultType    string                     `json:"resultType"`
		RequestState  string                     `json:"requestState"`
		InputRequests map[string]json.RawMessage `json:"inputRequests"`
		NextCursor    string                     `json:"nextCursor"`
		Tools         []struct{ Name string }    `json:"tools"`
		Content       []struct{ Text string }    `json:"content"`
		Messages      []struct{ Content struct{ Text string } }
	} `json:"result"`
	Error *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// alone makes a request of 2026-07-28 and checks that its response is one of that
// revision.
func (p *process) alone(t *testing.T, method, params string) (a answered) {
	t.Helper()
	x := p.open(t, "1", method, params)
	defer x.close()
	data, err := io.ReadAll(x.rd)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &a); err != nil || string(a.ID) != "1" {
		t.Fatalf("%s %s is answered with %s: %s", method, params, x.Status, data)
	}
	a.Status, a.Body = x.StatusCode, string(data)
	return a
}

// says returns the text of a response, its error or its questions.
func (a answered) says() string {
	switch {
	case a.Error != nil:
		return fmt.Sprintf("%d %s", a.Error.Code, a.Error.Message)
	case a.Result.ResultType == "input_required":
		var keys []string
		for key := range a.Result.InputRequests {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		return "asks " + strings.Join(keys, " ")
	case len(a.Result.Content) == 1:
		return a.Result.Content[0].Text
	case len(a.Result.Messages) == 1:
		return a.Result.Messages[0].Content.Text
	}
	return a.Body
}

// asking is a call that waits for input: its method, its params, and the state that the
// client got.
type asking struct{ method, params, state string }

// ask makes a call that must ask for the given keys.
func (p *process) ask(t *testing.T, method, params, keys string) *asking {
	t.Helper()
	a := p.alone(t, method, params)
	if a.says() != "asks "+keys || a.Result.RequestState == "" {
		t.Fatalf("%s asks for %s and a state, not for %s", params, a.Body, keys)
	}
	return &asking{method, params, a.Result.RequestState}
}

// given returns the members of params with which a request is sent again.
func (k *asking) given(responses string) string {
	return fmt.Sprintf(`%s,"requestState":%q,"inputResponses":{%s}`, k.params, k.state, responses)
}

// retry sends the call again, and keeps the state if the call asks for more.
func (k *asking) retry(t *testing.T, p *process, responses, want string) {
	t.Helper()
	a := p.alone(t, k.method, k.given(responses))
	if a.says() != want {
		t.Errorf("%s with %s is answered with %d %s, want %s", k.params, responses, a.Status, a.Body, want)
	}
	if a.Result.RequestState != "" {
		k.state = a.Result.RequestState
	}
}

func form(key, field, value string) string {
	return fmt.Sprintf(`%q:{"action":"accept","content":{%q:%q}}`, key, field, value)
}

const (
	lostText = "-32010 the node running this call was lost; whether it took effect is unknown"
	badState = "-32602 the requestState is not valid for this request"
)

// tool returns the params of a call.
func tool(name, arguments string) string {
	return fmt.Sprintf(`"name":%q,"arguments":%s`, name, arguments)
}

// TestAnyProcessServesTheNextRequest has several processes, one after the other, serve
// the requests of one client.
func TestAnyProcessServesTheNextRequest(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "ended in order": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := []string{"--data", t.TempDir(), "--set", "page-size=5", "--drain-delay", "0s"}
			p := start(t, args...)
			restart := func() {
				p.signal(t, sig)
				// Parked calls hold nothing up.
				if code := p.exit(t); sig == syscall.SIGTERM && code != 0 {
					t.Fatalf("it ended with %d:\n%s", code, p.stderr)
				}
				p = start(t, args...)
			}
			const call = "tools/call"
			discovered := p.alone(t, "server/discover", "")
			pages := []answered{p.alone(t, "tools/list", "")}
			safe := p.ask(t, call, tool("ask", `{"question":"q"}`), "elicit")
			safe2 := p.ask(t, call, tool("ask", `{"question":"q"}`), "elicit")
			never := p.ask(t, call, tool("ask_once", `{"question":"q"}`), "elicit")
			rounds := p.ask(t, call, tool("test_input_required_result_multi_round", `{}`), "step1")
			several := p.ask(t, call, tool("test_input_required_result_multiple_inputs", `{}`), "client_roots greeting user_name")
			prompt := p.ask(t, "prompts/get", `"name":"test_input_required_result_prompt"`, "user_context")

			restart()
			if a := p.alone(t, "server/discover", ""); a.Body != discovered.Body || discovered.Error != nil {
				t.Errorf("it discovers %s, and before %s", a.Body, discovered.Body)
			}
			seconds := p.alone(t, "tools/list", fmt.Sprintf(`"cursor":%q`, pages[0].Result.NextCursor))
			pages = append(pages, seconds)
			if a := p.alone(t, call, tool("echo", `{"text":"x"}`)); a.says() != "x" {
				t.Errorf("echo: %s", a.Body)
			}
			safe.retry(t, p, form("elicit", "answer", "a\u00e4 1"), "a\u00e4 1")
			safe.retry(t, p, form("elicit", "answer", "a\u00e4 1"), "a\u00e4 1")
			safe.retry(t, p, form("elicit", "answer", "other"), badState)
			never.retry(t, p, form("elicit", "answer", "yes"), lostText)
			rounds.retry(t, p, form("step1", "name", "Ada"), "asks step2")
			several.retry(t, p, form("user_name", "name", "Ada"), "asks client_roots greeting")
			never2 := p.ask(t, call, tool("ask_once", `{"question":"q"}`), "elicit")

			restart()
			// The cursor of the last process but one leads to the same page.
			if a := p.alone(t, "tools/list", fmt.Sprintf(`"cursor":%q`, pages[0].Result.NextCursor)); len(a.Result.Tools) != 5 || fmt.Sprint(a.Result.Tools) != fmt.Sprint(seconds.Result.Tools) {
				t.Errorf("page 2 is %s, and before %s", a.Body, seconds.Body)
			}
			for last := seconds; last.Result.NextCursor != ""; pages = append(pages, last) {
				last = p.alone(t, "tools/list", fmt.Sprintf(`"cursor":%q`, last.Result.NextCursor))
			}
			var names []string
			for _, a := range pages {
				for _, tl := range a.Result.Tools {
					names = append(names, tl.Name)
				}
			}
			if n := len(slices.Compact(slices.Sorted(slices.Values(names)))); n != len(names) || n < 40 {
				t.Errorf("the pages of three processes have %d tools, of which %d differ", len(names), n)
			}
			safe2.retry(t, p, form("elicit", "answer", "late"), "late")
			never2.retry(t, p, form("elicit", "answer", "yes"), lostText)
			never.retry(t, p, form("elicit", "answer", "yes"), lostText)
			rounds.retry(t, p, form("step2", "color", "green"), "Ada likes green")
			several.retry(t, p, `"greeting":{"role":"assistant","content":{"type":"text","text":"Hi"},"model":"m"},`+form("user_name", "name", "Eve"), "asks client_roots")
			prompt.retry(t, p, form("user_context", "context", "this"), "Use this context: this")

			restart()
			several.retry(t, p, `"client_roots":{"roots":[{"uri":"file:///x"}]}`, "Hi Ada works in file:///x")
		})
	}
}

// TestStatesAreOfOneStore checks that a process with another store refuses a state, and
// that its own process refuses it when it has expired, like an invented one.
func TestStatesAreOfOneStore(t *testing.T) {
	t.Parallel()
	p, other := start(t, "--data", t.TempDir(), "--set", "max-ask=2s"), start(t, "--data", t.TempDir())
	k := p.ask(t, "tools/call", tool("ask", `{"question":"q"}`), "elicit")
	made := asking{k.method, k.params, "bm8gc3RhdGU"}
	bodies := []string{
		other.alone(t, k.method, k.given("")).Body, p.alone(t, k.method, made.given("")).Body,
	}
	time.Sleep(2100 * time.Millisecond)
	bodies = append(bodies, p.alone(t, k.method, k.given(form("elicit", "answer", "x"))).Body)
	for _, b := range bodies {
		if b != bodies[0] || !strings.Contains(b, `"code":-32602,"message":"the requestState is not valid for this request"`) {
			t.Errorf("states that are not good are answered with\n%s", strings.Join(bodies, "\n"))
			break
		}
	}
}

// metric returns the value of a metric, whose name includes the labels.
func (p *process) metric(t *testing.T, name string) string {
	t.Helper()
	_, _, body := p.request(t, "GET", "/metrics", "", "")
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			return value
		}
	}
	return ""
}

// becomes waits until a metric has a value.
func (p *process) becomes(t *testing.T, name, want string) {
	t.Helper()
	for end := time.Now().Add(hung); p.metric(t, name) != want; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s is %q, want %q", name, p.metric(t, name), want)
		}
	}
}

// TestCallsAtTheEndOfAProcess sends SIGTERM while calls run. Calls that end in time get
// their response; of the others, only those that may run again tell the client to send
// them again.
func TestCallsAtTheEndOfAProcess(t *testing.T) {
	t.Parallel()
	p := start(t, "--memory", "--drain-delay", "0s", "--drain-wait", "8s", "--set", "stateless-grace=1m") // a stream would have said 200
	const lost = `"error":{"code":-32010,"message":"the node running this call was lost; whether it took effect is unknown"}`
	const again = `"error":{"code":-32603,"message":"temporarily unavailable: try again shortly","data":{"retryAfterMs":1000}}`
	calls := []struct{ params, status, body string }{
		{tool("sleep", `{"ms":3600000}`), "503 Service Unavailable", `"message":"temporarily unavailable: try again shortly"`},
		{tool("tick", `{"n":1,"every_ms":60000}`), "200 OK", lost},
		{tool("count", `{"to":100000,"delay_ms":100}`), "200 OK", again},
		{tool("sleep", `{"ms":5000}`), "200 OK", `"text":"slept 5000 ms"`},
	}
	var all sync.WaitGroup
	defer all.Wait()
	for i, c := range calls { // the call that ends comes last
		p.becomes(t, "troupe_calls_in_flight", fmt.Sprint(i))
		all.Go(func() {
			id := fmt.Sprint(i)
			x, err := p.sendAlone(t.Context(), id, "tools/call", c.params)
			if err != nil {
				t.Errorf("%s: %v", c.params, err)
				return
			}
			defer x.close()
			data, err := io.ReadAll(x.rd)
			last := string(data[max(0, bytes.LastIndex(data, []byte(`{"jsonrpc"`))):])
			if err != nil || x.Status != c.status || !strings.HasPrefix(last, `{"jsonrpc":"2.0","id":`+id+`,`) || !strings.Contains(last, c.body) {
				t.Errorf("%s is answered with %s %s, %v", c.params, x.Status, data, err)
			}
		})
	}
	p.becomes(t, "troupe_calls_in_flight", "4")
	p.signal(t, syscall.SIGTERM)
	if code := p.exit(t); code != 0 {
		t.Errorf("it ended with %d:\n%s", code, p.stderr)
	}
}

// TestListenersAtTheEndOfAProcess has one listener end by its client, and the others by
// SIGTERM.
func TestListenersAtTheEndOfAProcess(t *testing.T) {
	t.Parallel()
	p := start(t, "--memory", "--drain-delay", "0s")
	var open []*exchange
	for _, id := range []string{`"a"`, "2", `"c"`} {
		x := p.open(t, id, "subscriptions/listen", `"notifications":{"toolsListChanged":true,"resourceSubscriptions":["test://watched-resource"]}`)
		if _, data := x.next(t); !strings.Contains(data, `"method":"notifications/subscriptions/acknowledged"`) {
			t.Fatalf("first %s", data)
		}
		open = append(open, x)
	}
	// Three listeners and the resource.
	p.becomes(t, `troupe_actors{kind="subscription"}`, "4")
	open[0].close()
	p.becomes(t, `troupe_actors{kind="subscription"}`, "3")
	p.alone(t, "tools/call", tool("touch", `{"uri":"test://watched-resource"}`))
	p.signal(t, syscall.SIGTERM)
	for i, id := range []string{"2", `"c"`} {
		x := open[i+1]
		for _, want := range []string{
			`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `},"uri":"test://watched-resource"}}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `},"requestId":` + id + `,"reason":"the server is shutting down"}}`,
			`{"jsonrpc":"2.0","id":` + id + `,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `,"io.modelcontextprotocol/serverInfo":{"name":"everything","title":"Troupe: everything","version":"1.0.0"}}}}`,
		} {
			if eventID, data := x.next(t); data != want || eventID != "" {
				t.Errorf("event %q is %s, want %s", eventID, data, want)
			}
		}
		if rest, err := io.ReadAll(x.rd); err != nil || len(bytes.TrimSpace(rest)) > 0 {
			t.Errorf("then %q and %v", rest, err)
		}
	}
	if code := p.exit(t); code != 0 {
		t.Errorf("it ended with %d:\n%s", code, p.stderr)
	}
}

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
)

// spanRow is a message, and what the spans say that it leads to.
type spanRow struct {
	method, params string   // params are members; $kept in them is what the last row with keep has found
	meta           string   // members of _meta beside the usual ones
	header         []string // of HTTP: names and values
	more           bool     // the message is sent in one batch with that of the next row
	waiting        bool     // the message is sent once a task waits for its client
	keep           string   // matches the answer; its group is kept
	want           []string // see collector.line
}

// speaker is a client that sends the messages of a table. Of all speakers of a collector each has another revision, or another transport.
type speaker struct {
	revision, transport string
	usual               map[string]string // what each span says that a process makes for the speaker
	rows                []spanRow
	process             *process
	send                func(body string, header ...string) (answer string)
}

// id is that of the request of a row.
func (s *speaker) id(row int) string { return fmt.Sprint(s.revision, " ", s.transport, " ", row) }

// usualOf are the attributes that a span should have that the speaker has brought about.
func (s *speaker) usualOf(span *exportedSpan) map[string]string {
	all := maps.Clone(s.usual)
	all["mcp.method.name"], all["mcp.protocol.version"], all["network.transport"] = "*", s.revision, s.transport
	switch {
	case span.Kind == kindClient: // the server is the client
		delete(all, "client.address")
		delete(all, "client.port")
	case span.attrs["troupe.task.id"] != "": // the run of a task, which came over nothing
		all = map[string]string{"mcp.method.name": "*", "mcp.protocol.version": s.revision, "troupe.server": "main", "jsonrpc.request.id": "0"}
		if s.usual["mcp.session.id"] != "" {
			all["mcp.session.id"] = "*"
		}
	case strings.HasPrefix(span.Name, "notifications/"):
		all["troupe.server"] = "main"
	default:
		all["troupe.server"], all["jsonrpc.request.id"] = "main", "*"
	}
	return all
}

// speak sends the messages of all rows.
func (s *speaker) speak(t *testing.T) {
	t.Helper()
	kept := ""
	var batch []string
	for i, r := range s.rows {
		r.params = strings.ReplaceAll(r.params, "$kept", kept)
		if r.meta != "" && s.revision != "2026-07-28" {
			r.params = strings.TrimPrefix(r.params+`,"_meta":{`+r.meta+`}`, ",")
		}
		if r.waiting {
			s.process.becomes(t, "troupe_tasks_waiting", "1")
		}
		var answer string
		switch {
		case s.revision == "2026-07-28":
			answer = s.askAlone(t, s.id(i), &r)
		case r.more:
			batch = append(batch, bodyOf(s.id(i), &r))
		case len(batch) > 0:
			answer = s.send("["+strings.Join(append(batch, bodyOf(s.id(i), &r)), ",")+"]", r.header...)
			batch = nil
		default:
			answer = s.send(bodyOf(s.id(i), &r), r.header...)
		}
		if r.keep != "" {
			found := regexp.MustCompile(r.keep).FindStringSubmatch(answer)
			if found == nil {
				t.Fatalf("%s %s is answered with %s", r.method, r.params, answer)
			}
			kept = found[1]
		}
	}
}

// bodyOf is the message of a row.
func bodyOf(id string, r *spanRow) string {
	if strings.HasPrefix(r.method, "notifications/") {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":{%s}}`, r.method, r.params)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":%q,"params":{%s}}`, id, r.method, r.params)
}

// askAlone sends a request of 2026-07-28, and sends it again as long as it is answered with questions.
func (s *speaker) askAlone(t *testing.T, id string, r *spanRow) (answer string) {
	t.Helper()
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}},"sampling":{"tools":{}},"roots":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	if r.meta != "" {
		meta += "," + r.meta
	}
	asked := *r
	asked.params = strings.TrimSuffix(meta+"},"+r.params, ",")
	header := append([]string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", r.method}, r.header...)
	var named struct{ Name, URI, TaskID string }
	if err := json.Unmarshal([]byte("{"+r.params+"}"), &named); err != nil {
		t.Fatal(err)
	}
	switch r.method {
	case "tools/call", "prompts/get":
		header = append(header, "Mcp-Name", named.Name)
	case "resources/read":
		header = append(header, "Mcp-Name", named.URI)
	case "tasks/get", "tasks/update", "tasks/cancel":
		header = append(header, "Mcp-Name", named.TaskID)
	}
	given := ""
	for {
		again := asked
		again.params += given
		answer = s.send(bodyOf(id, &again), header...)
		var a answered
		if json.Unmarshal([]byte(answer), &a) != nil || a.Result.ResultType != "input_required" {
			return answer
		}
		var responses []string
		for key, question := range a.Result.InputRequests {
			responses = append(responses, fmt.Sprintf("%q:%s", key, answerTo(question)))
		}
		given = fmt.Sprintf(`,"requestState":%q,"inputResponses":{%s}`, a.Result.RequestState, strings.Join(responses, ","))
	}
}

// answerTo is what each client answers to a question, "" if a message is none.
func answerTo(question []byte) string {
	var m message
	_ = json.Unmarshal(question, &m)
	return map[string]string{
		"elicitation/create":     `{"action":"accept","content":{"answer":"y"}}`,
		"sampling/createMessage": `{"role":"assistant","model":"m","content":{"type":"text","text":"y"}}`,
		"roots/list":             `{"roots":[{"uri":"file:///r"}]}`,
		"ping":                   `{}`,
	}[m.Method]
}

// hear reads messages until the response, or until a listener has begun, and answers questions.
func hear(next func() string, reply func(string)) (response string) {
	for {
		text := next()
		var m message
		_ = json.Unmarshal([]byte(text), &m) // a batch is none
		switch {
		case m.Method == "" || m.Method == "notifications/subscriptions/acknowledged":
			return text
		case len(m.ID) > 0:
			reply(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, answerTo([]byte(text))))
		}
	}
}

// overHTTP sends messages to a process, in a session if it begins with initialize.
func overHTTP(t *testing.T, p *process, revision string) func(body string, header ...string) string {
	session := ""
	var post func(body string, header ...string) string
	post = func(body string, header ...string) string {
		if session != "" {
			header = append(header, "Mcp-Session-Id", session, "MCP-Protocol-Version", revision)
		}
		x, err := p.post(t.Context(), body, header...)
		if err != nil {
			t.Fatal(err)
		}
		defer x.close()
		if id := x.Header.Get("Mcp-Session-Id"); id != "" {
			session = id
		}
		if !strings.HasPrefix(x.Header.Get("Content-Type"), "text/event-stream") {
			text, _ := io.ReadAll(x.rd)
			return string(text)
		}
		return hear(func() string { _, text := x.next(t); return text }, func(answer string) { post(answer) })
	}
	return post
}

// overSSE sends messages to a process by the transport of 2024-11-05.
func overSSE(t *testing.T, p *process) func(body string, header ...string) string {
	s := (&kit.Client{T: t, HTTP: http.DefaultClient, URL: p.base + "/mcp"}).OpenSSE("/sse")
	t.Cleanup(s.Stream.Close)
	return func(body string, _ ...string) string {
		if !strings.Contains(body, `"id"`) {
			return s.Post(body, "Accept", "").Body
		}
		s.Post(body, "Accept", "")
		return hear(func() string { text, _ := s.Next(); return text }, func(answer string) { s.Post(answer, "Accept", "") })
	}
}

// overPipe sends messages to a process that was started for it.
func overPipe(p *stdioProcess) func(body string, header ...string) string {
	return func(body string, _ ...string) string {
		p.send(body)
		if !strings.Contains(body, `"id"`) {
			return ""
		}
		return hear(p.message, p.send)
	}
}

// expect compares the spans of all speakers with what their rows want.
func (c *collector) expect(t *testing.T, speakers ...*speaker) {
	t.Helper()
	got := make(map[string][]string) // by the request that they are of, or the revision and the transport of a notification
	for _, span := range c.exported() {
		root := c.rootOf(span)
		at := slices.IndexFunc(speakers, func(s *speaker) bool {
			return root.attrs["mcp.protocol.version"] == s.revision && root.attrs["network.transport"] == s.transport
		})
		if at < 0 {
			continue
		}
		key := root.attrs["jsonrpc.request.id"]
		if key == "" {
			key = speakers[at].id(-1)
		}
		got[key] = append(got[key], c.line(span, speakers[at].usualOf(span)))
	}
	for _, s := range speakers {
		want := make(map[string][]string)
		for i, r := range s.rows {
			key := s.id(i)
			if strings.HasPrefix(r.method, "notifications/") {
				key = s.id(-1)
			}
			want[key] = append(want[key], r.want...)
		}
		for key, lines := range want {
			slices.Sort(lines)
			slices.Sort(got[key])
			if !slices.Equal(got[key], lines) {
				t.Errorf("%s:\n%s\nwant\n%s", key, strings.Join(got[key], "\n"), strings.Join(lines, "\n"))
			}
			delete(got, key)
		}
	}
	for key, lines := range got {
		t.Errorf("nobody has sent %s:\n%s", key, strings.Join(lines, "\n"))
	}
}

// expectEveryMethod looks for a span of each method that clients may send, and of each question.
func (c *collector) expectEveryMethod(t *testing.T) {
	t.Helper()
	seen := make(map[string]bool)
	for _, s := range c.exported() {
		seen[s.Kind.String()+s.attrs["mcp.method.name"]] = true
	}
	for _, m := range protocol.Methods() {
		for _, r := range mcp.Revisions() {
			if m.Allowed(protocol.ToServer, r) && !seen[kindServer.String()+m.Name] {
				t.Errorf("no span of %s, which %s has", m.Name, r)
				break
			}
		}
		// Questions about tasks that the client hosts belong to the question that has become one.
		if m.Kind == protocol.KindRequest && m.Allowed(protocol.ToClient, mcp.LatestLegacy) && !strings.HasPrefix(m.Name, "tasks/") && !seen[kindClient.String()+m.Name] {
			t.Errorf("no span of the question %s", m.Name)
		}
	}
}

// expectRerun looks for the span of a second run of the tool ask, at a node. Its request had the trace context parentOfRow.
func (c *collector) expectRerun(t *testing.T, s *speaker, node string) {
	t.Helper()
	var again *exportedSpan
	c.until(t, "a second run", func() bool {
		for _, span := range c.exported() {
			if span.attrs["troupe.run"] == "2" {
				again = span
			}
		}
		return again != nil
	})
	want := "server tools/call ask gen_ai.operation.name=execute_tool gen_ai.tool.name=ask troupe.run=2 below b7ad6b7169203331 link earlier run"
	usual := s.usualOf(again)
	for _, lost := range []string{"client.address", "client.port", "network.protocol.version"} { // of the connection of the first run
		delete(usual, lost)
	}
	if got := c.line(again, usual); got != want {
		t.Errorf("the second run is\n%s\nwant\n%s", got, want)
	}
	if again.resource["service.instance.id"] != node {
		t.Errorf("the second run is at %v", again.resource)
	}
	for _, l := range again.Links {
		if string(l.TraceId) != string(again.TraceId) || len(l.SpanId) != 8 || string(l.SpanId) == string(again.ParentSpanId) {
			t.Errorf("the second run has a link to %x %x", l.TraceId, l.SpanId)
		}
	}
}

// askTraced has a session call ask in the trace context parentOfRow, and returns when the question has come.
func (s *seated) askTraced(t *testing.T, p *process) {
	t.Helper()
	var err error
	if s.stream, err = p.post(t.Context(), `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{`+tool("ask", `{"question":"q"}`)+`,"_meta":{`+parentOfRow+`}}}`, s.header()...); err != nil {
		t.Fatal(err)
	}
	m, err := s.next()
	if err != nil || m.Method != "elicitation/create" {
		t.Fatalf("it is asked %+v (%v)", m, err)
	}
	s.question = string(m.ID)
}

// endTraced resumes the call at a process, and answers its question once the process has the call.
func (s *seated) endTraced(t *testing.T, p *process) {
	t.Helper()
	if err := s.resume(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	defer s.stream.close()
	for end := time.Now().Add(hung); ; time.Sleep(100 * time.Millisecond) {
		x, err := p.post(t.Context(), `{"jsonrpc":"2.0","id":`+s.question+`,"result":`+answerTo([]byte(`{"method":"elicitation/create"}`))+`}`, s.header()...)
		if err != nil {
			t.Fatal(err)
		}
		x.close()
		if x.StatusCode == http.StatusAccepted {
			break
		}
		if x.StatusCode != http.StatusServiceUnavailable || time.Now().After(end) { // it is 503 until the lease of a lost process has ended
			t.Fatalf("the answer is taken with %s", x.Status)
		}
	}
	if m, err := s.next(); err != nil || string(m.ID) != "7" {
		t.Fatalf("after the answer comes %+v (%v)", m, err)
	}
}

// TestExportProcess starts servers with the variables of OpenTelemetry alone. Their traces, metrics and logs say what they are called; each
// message of the tables has the spans that it should have; a second run after kill -9 is linked to the first one, with the parent that the
// request had; and the end of a process sends what waits, and writes all lines of requests.
func TestExportProcess(t *testing.T) {
	when.Long(t, "processes")
	t.Parallel()
	binary(t)
	c := newCollector(t)
	args := append(variables(c.URL), "--data", t.TempDir(), "--node", "n1", "--log-requests", "all", "--set", "call-rate=0", "--set", "principal-rate=0")
	p := start(t, args...)
	killed := &speaker{revision: "2025-06-18", transport: "tcp", usual: usually(true, true)}
	s := sit(t, p, killed.revision)
	who := `deployment\.environment\.name=test .*service\.instance\.id=n1 service\.name=troupe service\.version=`
	c.await(t, `^span initialize$`) // which may end after the next one
	c.await(t, `^span notifications/initialized$`)
	c.await(t, `^metric \{`+who+`.*mcp\.server\.operation\.duration$`)
	c.await(t, `^log \{`+who+`.*\} request \{.*method=initialize .*outcome=ok .*trace [0-9a-f]{32}$`)
	s.askTraced(t, p)
	p.kill(t)
	p = start(t, args...)
	s.endTraced(t, p)

	pipe := startStdio(t, variables(c.URL)...)
	speakers := spanTables()
	for _, s := range speakers {
		switch {
		case s.transport == "pipe":
			s.send = overPipe(pipe)
		case s.revision == "2024-11-05":
			s.send = overSSE(t, p)
		default:
			s.process, s.send = p, overHTTP(t, p, s.revision)
		}
		s.speak(t)
		c.until(t, "the last span of "+s.revision+" over "+s.transport, func() bool {
			return slices.ContainsFunc(c.exported(), func(span *exportedSpan) bool { return span.attrs["jsonrpc.request.id"] == s.id(len(s.rows)-1) })
		})
	}
	_ = pipe.in.Close()
	pipe.exit()
	p.signal(t, syscall.SIGTERM)
	if code := p.exit(t); code != 0 {
		t.Errorf("it ended with %d:\n%s", code, p.stderr)
	}
	c.expect(t, speakers...)
	c.expectRerun(t, killed, "n1")
	c.expectEveryMethod(t)
	for _, name := range []string{"mcp.client.operation.duration", "mcp.server.session.duration"} {
		if !strings.Contains(c.got.String(), "} "+name+"\n") {
			t.Errorf("no metric %s came", name)
		}
	}
	served := 0
	for _, span := range c.exported() {
		if span.Kind == kindServer && span.resource["service.instance.id"] == "n1" {
			served++
		}
	}
	served -= 2 // of the process that was killed
	if n := strings.Count(p.stderr.String(), "msg=request "); n != served {
		t.Errorf("%d lines of requests are written of %d:\n%s", n, served, p.stderr)
	}
	if strings.Contains(p.stderr.String(), "telemetry is not exported") {
		t.Errorf("something was not exported:\n%s", p.stderr)
	}
}

// TestExportOfATakeoverProcess kills a process on NATS servers: another one takes a call over, and its span is linked to the run that was
// lost.
func TestExportOfATakeoverProcess(t *testing.T) {
	when.Full(t, "processes on one NATS server, whose leases end")
	t.Parallel()
	binary(t)
	c := newCollector(t)
	store := kit.StartNATS(t, 1, nil)
	a, b := onNATS(t, store, "a", variables(c.URL)...), onNATS(t, store, "b", variables(c.URL)...)
	killed := &speaker{revision: "2025-11-25", transport: "tcp", usual: usually(true, true)}
	s := sit(t, a, killed.revision)
	s.askTraced(t, a)
	a.kill(t)
	s.endTraced(t, b)
	c.expectRerun(t, killed, "b")
}

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-run/troupe/operator"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
)

// asOperator runs a command with a data directory and fails the test unless it ends with a code; it returns what the command writes.
func asOperator(t *testing.T, dir string, code int, args ...string) string {
	t.Helper()
	return command(t, code, append(args, "--data", dir)...)
}

// TestOperatorsOfAFleet looks at two processes and a session that both serve, ends it by way of the one that does not write its stream,
// and drains the other.
func TestOperatorsOfAFleet(t *testing.T) {
	when.Full(t, "processes on one NATS server, whose leases end")
	t.Parallel()
	binary(t)
	c := kit.StartNATS(t, 1, nil)
	one, two := t.TempDir(), t.TempDir()
	a := start(t, "--nats", c.URL(), "--data", one, "--node", "one", "--drain-delay", "3s")
	b := start(t, "--nats", c.URL(), "--data", two, "--node", "two", "--drain-delay", "0s")

	s := sit(t, a, "2025-11-25")
	b.echo(t, s.session)
	x, err := a.send(t.Context(), "GET", "", s.header()...)
	if err != nil || x.StatusCode != http.StatusOK {
		t.Fatalf("the standalone stream: %v, %v", x, err)
	}
	defer x.close()
	call, err := a.post(t.Context(), `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"progressToken":1},`+tool("count", `{"to":1000,"delay_ms":100}`)+`}}`, s.header()...)
	if err != nil {
		t.Fatal(err)
	}
	defer call.close()
	if line, err := call.rd.ReadString('\n'); err != nil {
		t.Fatalf("the call's stream begins with %q, %v", line, err)
	}

	var nodes []operator.Node
	for end := time.Now().Add(hung); ; {
		nodes = nil
		if err := json.Unmarshal([]byte(asOperator(t, two, 0, "nodes", "--json")), &nodes); err != nil {
			t.Fatal(err)
		}
		if len(nodes) == 2 && nodes[0].Load != nil && nodes[0].Load.Calls == 1 && nodes[0].Load.Streams == 2 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the nodes are %+v", nodes)
		}
	}
	if n := nodes[0]; n.Name != "one" || n.Self || n.Lease != operator.LeaseHeld || n.HeardMS == nil || n.LeftMS == nil || *n.LeftMS <= 0 || n.Load.Draining || n.Load.Sessions != 1 {
		t.Errorf("the other node is %+v", n)
	}
	if out := asOperator(t, two, 0, "nodes"); !strings.Contains(out, "this one") || strings.Count(out, "held") != 2 {
		t.Errorf("nodes:\n%s", out)
	}

	var page operator.SessionPage
	if err := json.Unmarshal([]byte(asOperator(t, two, 0, "sessions", "ls", "--json")), &page); err != nil || len(page.Sessions) != 1 {
		t.Fatalf("the sessions are %+v, %v", page, err)
	}
	told := page.Sessions[0]
	if told.Server != "/mcp" || told.Tenant != "anon" || told.Revision != "2025-11-25" || told.Client == "" || told.AllStreams != 2 || len(told.Streams) != 2 || told.Streams[0].Node != "one" || time.Since(told.Created) > time.Minute || told.Expires.Before(time.Now()) {
		t.Errorf("the session is %+v", told)
	}
	for _, args := range [][]string{{"sessions", "ls"}, {"sessions", "show", told.ID}, {"sessions", "show", s.session}, {"sessions", "show", told.ID[1:], "--json"}} {
		out := asOperator(t, two, 0, args...)
		if strings.Contains(out, s.session[:26]) || !strings.Contains(out, told.ID) || !strings.Contains(out, "one") {
			t.Errorf("%q:\n%s", args, out)
		}
	}
	if out := asOperator(t, two, 0, "sessions", "show", told.ID); !strings.Contains(out, "tools/call") || !strings.Contains(out, "standalone") {
		t.Errorf("sessions show:\n%s", out)
	}
	if out := asOperator(t, two, 1, "sessions", "end", "#000000000000"); !strings.Contains(out, "no such session") || !strings.Contains(out, "troupe sessions ls") {
		t.Errorf("end what there is not: %s", out)
	}
	began := time.Now()
	if out := asOperator(t, two, 0, "sessions", "end", told.ID); out != told.ID+" has ended\n" {
		t.Errorf("end: %s", out)
	}
	for what, stream := range map[string]*exchange{"standalone stream": x, "call's stream": call} {
		if _, err := io.Copy(io.Discard, stream.rd); err != nil {
			t.Errorf("the %s: %v", what, err)
		}
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the streams ended after %v", took)
	}
	for _, p := range []*process{a, b} {
		if status, _, body := p.request(t, "POST", "/mcp", s.session, `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`); status != http.StatusNotFound {
			t.Errorf("a request of the session: %d %s", status, body)
		}
	}
	if out := asOperator(t, one, 0, "sessions", "ls"); out != "there are no sessions\n" {
		t.Errorf("sessions ls, then:\n%s", out)
	}

	last, err := a.post(t.Context(), `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":1},`+tool("count", `{"to":20,"delay_ms":100}`)+`}}`, sit(t, a, "2025-11-25").header()...)
	if err != nil {
		t.Fatal(err)
	}
	defer last.close()
	if _, err := last.rd.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if out := asOperator(t, one, 0, "drain"); !strings.HasPrefix(out, "one drains; calls in flight: 1, ") {
		t.Errorf("drain: %s", out)
	}
	if status, _, _ := a.request(t, "GET", "/readyz", "", ""); status != http.StatusServiceUnavailable {
		t.Errorf("/readyz of a process that drains: %d", status)
	}
	if out := asOperator(t, one, 1, "drain"); !strings.Contains(out, "the node is draining already") || !strings.Contains(out, "--wait") {
		t.Errorf("drain again: %s", out)
	}
	asOperator(t, one, 0, "drain", "--wait")
	if code := a.exit(t); code != 0 {
		t.Errorf("it ends with %d:\n%s", code, a.stderr)
	}
	if out := asOperator(t, one, 1, "drain"); !strings.Contains(out, "no server answers on") {
		t.Errorf("drain what has ended: %s", out)
	}
	if out := asOperator(t, two, 0, "nodes"); strings.Contains(out, "\none ") {
		t.Errorf("nodes, then:\n%s", out)
	}
}

// TestCallsOfAProcess lists a call that runs, and ends it: its client has the answer on its stream, and once more from the next process after a
// kill, which does not run the call again.
func TestCallsOfAProcess(t *testing.T) {
	t.Parallel()
	binary(t)
	dir := t.TempDir()
	p := start(t, "--data", dir, "--sync", "0s")
	s := sit(t, p, "2025-11-25")
	x, err := p.post(t.Context(), `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"progressToken":1},`+tool("count", `{"to":100000,"delay_ms":100}`)+`}}`, s.header()...)
	if err != nil {
		t.Fatal(err)
	}
	defer x.close()
	first, _ := x.next(t)
	var page operator.CallPage
	if err := json.Unmarshal([]byte(asOperator(t, dir, 0, "calls", "ls", "--json", "--server", "/mcp")), &page); err != nil || len(page.Calls) != 1 {
		t.Fatalf("the calls are %+v, %v", page, err)
	}
	c := page.Calls[0]
	if c.State != "streaming" || c.Method != "tools/call" || c.Target != "count" || c.Server != "/mcp" || c.Tenant != "anon" || c.Revision != "2025-11-25" || c.Client == "" || c.Session == "" || c.Address == "" {
		t.Errorf("the call is %+v", c)
	}
	if out := asOperator(t, dir, 0, "calls", "ls"); !strings.Contains(out, c.ID) || !strings.Contains(out, "count") || strings.Contains(out, s.session) {
		t.Errorf("calls ls:\n%s", out)
	}
	if out := asOperator(t, dir, 0, "calls", "cancel", c.ID); out != c.ID+" has ended: tools/call count\n" {
		t.Errorf("cancel: %s", out)
	}
	if out := asOperator(t, dir, 1, "calls", "cancel", c.ID); !strings.Contains(out, "no such call") || !strings.Contains(out, "troupe calls ls") {
		t.Errorf("cancel what has ended: %s", out)
	}
	if out := asOperator(t, dir, 0, "calls", "ls"); out != "there are no such calls in flight\n" {
		t.Errorf("calls ls, then:\n%s", out)
	}
	const want = "an operator has ended this call"
	ends := func(x *exchange) (n int) {
		t.Helper()
		rest, err := io.ReadAll(x.rd)
		if err != nil {
			t.Errorf("the stream: %v", err)
		}
		return strings.Count(string(rest), want)
	}
	if n := ends(x); n != 1 {
		t.Errorf("the stream has the answer %d times", n)
	}
	p.signal(t, syscall.SIGKILL)
	p.exit(t)
	p = start(t, "--data", dir)
	again, err := p.send(t.Context(), "GET", "", append(s.header(), "Last-Event-ID", first)...)
	if err != nil {
		t.Fatal(err)
	}
	defer again.close()
	if n := ends(again); n != 1 {
		t.Errorf("after a kill the stream has the answer %d times", n)
	}
}

// TestOperatorUsage: what cannot be asked ends with code 2, and each help says what the command does.
func TestOperatorUsage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"sessions", "ls", "--limit", "0"}, 2, "limit is 0: want at least 1"},
		{[]string{"sessions", "show"}, 2, "which session? troupe sessions ls lists them"},
		{[]string{"sessions", "end", "a", "b"}, 2, "name one session"},
		{[]string{"sessions", "end", "a", "--principal", "b"}, 2, "name one session"},
		{[]string{"sessions", "end"}, 2, "name one session"},
		{[]string{"calls", "ls", "--state", "x"}, 2, "want one of running"},
		{[]string{"calls", "cancel"}, 2, "which call? troupe calls ls lists them"},
		{[]string{"calls", "cancel", "a", "b"}, 2, "one call at a time: there are 2 words"},
		{[]string{"calls", "ls"}, 1, "no server answers on "},
		{[]string{"calls", "--help"}, 0, "troupe calls cancel"},
		{[]string{"nodes", "x"}, 2, "unknown command"},
		{[]string{"drain", "x"}, 2, "unknown command"},
		{[]string{"sessions", "ls"}, 1, "no server answers on "},
		{[]string{"nodes"}, 1, "no server answers on "},
		{[]string{"drain", "--wait"}, 1, "no server answers on "},
		{[]string{"nodes", "--help"}, 0, "LEFT what is left of its lease"},
		{[]string{"sessions", "--help"}, 0, "troupe sessions end"},
		{[]string{"drain", "--help"}, 0, "--wait"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(append(tt.args, "--data", dir), &stdout, &stderr)
		if out := stdout.String() + stderr.String(); code != tt.code || !strings.Contains(out, tt.want) {
			t.Errorf("%q ends with %d, want %d and %q:\n%s", tt.args, code, tt.code, tt.want, out)
		}
	}
}

// TestSessionsHaveTenants shows a session: the store has the hash of whose it is, and no name.
func TestSessionsHaveTenants(t *testing.T) {
	t.Parallel()
	s := operator.Session{ID: "#836b91aa8177", Server: "/mcp", Tenant: "32vh5xwxz7phpumz5a6nb24nhk"}
	var list, one strings.Builder
	if err := errors.Join(printSessions(&list, operator.SessionPage{Sessions: []operator.Session{s}}, time.Now()), printSession(&one, s, time.Now())); err != nil {
		t.Fatal(err)
	}
	if head, rows, _ := strings.Cut(list.String(), "\n"); !strings.Contains(head, " TENANT ") || strings.Contains(head, "PRINCIPAL") || !strings.Contains(rows, s.Tenant) {
		t.Error(list.String())
	}
	if !strings.Contains(one.String(), "\ntenant      "+s.Tenant+"\n") || strings.Contains(one.String(), "principal") {
		t.Error(one.String())
	}
}

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
)

// stored is a task as tasks/get has it, or the error.
type stored struct {
	Result struct {
		TaskID        string                     `json:"taskId"`
		Status        string                     `json:"status"`
		InputRequests map[string]json.RawMessage `json:"inputRequests"`
		Result        struct {
			Content    []struct{ Text string } `json:"content"`
			Structured struct {
				Steps []struct {
					N       int    `json:"n"`
					Node    string `json:"node"`
					Attempt int    `json:"attempt"`
				} `json:"steps"`
			} `json:"structuredContent"`
		} `json:"result"`
	} `json:"result"`
	Error *struct {
		Code int `json:"code"`
	} `json:"error"`
	status int
	body   string
	took   time.Duration
}

// task makes a request about tasks of a client of 2026-07-28 that knows them. name is that of the tool, or the id of the task.
func (p *process) task(t *testing.T, method, name, params string) (s stored) {
	t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},`+
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`, method, params)
	began := time.Now()
	x, err := p.post(t.Context(), body, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name)
	if err != nil {
		t.Fatal(err)
	}
	defer x.close()
	data, err := io.ReadAll(x.rd)
	if err != nil {
		t.Fatal(err)
	}
	s.status, s.body, s.took = x.StatusCode, string(data), time.Since(began)
	_ = json.Unmarshal(data, &s) // an answer that is no JSON has no id and no status
	return s
}

// begun makes a call that becomes a task, and returns its id.
func (p *process) begun(t *testing.T, name, arguments string) string {
	t.Helper()
	s := p.task(t, "tools/call", name, tool(name, arguments))
	if s.Result.TaskID == "" {
		t.Fatalf("%s is answered with %d %s", name, s.status, s.body)
	}
	return s.Result.TaskID
}

// becomes waits until a task has a status.
func (p *process) until(t *testing.T, id, status string) stored {
	t.Helper()
	for end := time.Now().Add(40 * time.Second); ; {
		s := p.task(t, "tasks/get", id, fmt.Sprintf(`"taskId":%q`, id))
		if s.Result.Status == status {
			return s
		}
		if time.Now().After(end) {
			t.Fatalf("the task is not %s: %d %s\n%s", status, s.status, s.body, p.stderr)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// onNATS starts a process whose store is on servers.
func onNATS(t *testing.T, c *kit.NATS, name string, more ...string) *process {
	t.Helper()
	return start(t, append([]string{"--nats", c.URL(), "--node", name, "--drain-delay", "0s"}, more...)...)
}

func answer(id, keys, value string) string {
	return fmt.Sprintf(`"taskId":%q,"inputResponses":{%s:{"action":"accept","content":{"confirm":%s}}}`, id, keys, value)
}

// TestTwoProcessesShareTasks has one process make tasks that the other one reads, answers and cancels.
func TestTwoProcessesShareTasks(t *testing.T) {
	when.Full(t, "processes on one NATS server, whose leases end")
	t.Parallel()
	binary(t)
	c := kit.StartNATS(t, 1, nil)
	a, b := onNATS(t, c, "a"), onNATS(t, c, "b")

	id := a.begun(t, "job", `{"steps":5,"step_ms":20}`)
	if got := b.until(t, id, "completed"); len(got.Result.Result.Structured.Steps) != 5 {
		t.Errorf("the other process reads %s", got.body)
	}

	id = a.begun(t, "confirm_delete", `{"filename":"a.txt"}`)
	asked := b.until(t, id, "input_required")
	for key := range asked.Result.InputRequests {
		if got := b.task(t, "tasks/update", id, answer(id, fmt.Sprintf("%q", key), "true")); got.Error != nil || got.status != http.StatusOK {
			t.Errorf("an answer to the other process: %d %s", got.status, got.body)
		}
	}
	a.until(t, id, "completed")
	b.until(t, id, "completed")

	id = a.begun(t, "job", `{"steps":1000,"step_ms":1000}`)
	b.until(t, id, "working")
	b.task(t, "tasks/cancel", id, fmt.Sprintf(`"taskId":%q`, id))
	b.until(t, id, "cancelled")
	a.until(t, id, "cancelled")
	for _, p := range []*process{a, b} { // the handler ends where it runs
		p.becomes(t, "troupe_tasks_running", "0")
	}

	// A session that one of them began goes on at the other.
	b.echo(t, a.session(t))
}

// TestDrainingNodeShutsItsDoor ends one of two nodes while a call runs there that may not run twice. From then on nobody finds the
// node's door open, as the other one serves them, and the call has its answer.
func TestDrainingNodeShutsItsDoor(t *testing.T) {
	when.Full(t, "processes on one NATS server, and a call that takes long")
	t.Parallel()
	binary(t)
	c := kit.StartNATS(t, 1, nil)
	a, b := onNATS(t, c, "a", "--drain-wait", "1m"), onNATS(t, c, "b")
	a.becomes(t, "troupe_nodes_heard", "1")
	answer := a.late(t, false, "tick", `{"n":1,"every_ms":15000}`)
	a.becomes(t, "troupe_calls_in_flight", "1")
	<-time.After(time.Second) // a drain waits for no call that has run for less than 250 ms: it would end at once
	address := strings.TrimPrefix(a.base, "http://")
	a.signal(t, syscall.SIGTERM)
	for open := true; open; {
		conn, err := net.Dial("tcp", address)
		if open = err == nil; open {
			_ = conn.Close()
		}
		select {
		case got := <-answer:
			t.Fatalf("the call was answered, and the door was open until then: %+v", got)
		case <-time.After(10 * time.Millisecond):
		}
	}
	b.echo(t, b.session(t))
	if got := <-answer; got.status != http.StatusOK || got.err != nil || strings.Contains(got.last, `"error"`) {
		t.Errorf("the call that ran: %+v", got)
	}
	if code := a.exit(t); code != 0 {
		t.Errorf("it ended with %d: %s", code, a.stderr)
	}
}

// TestProcessTakesUpItsTasks kills a process on NATS servers: the next one of its name has its tasks at once.
func TestProcessTakesUpItsTasks(t *testing.T) {
	when.Full(t, "processes on one NATS server, whose leases end")
	t.Parallel()
	binary(t)
	c := kit.StartNATS(t, 1, nil)
	dir := t.TempDir()
	p := start(t, "--nats", c.URL(), "--data", dir)
	var ids []string
	for range 20 {
		ids = append(ids, p.begun(t, "job", `{"steps":20,"step_ms":100}`))
	}
	p.signal(t, syscall.SIGKILL)
	p.exit(t)
	p = start(t, "--nats", c.URL(), "--data", dir)
	ready, most := time.Now(), 0
	for _, id := range ids {
		steps := p.until(t, id, "completed").Result.Result.Structured.Steps
		if n := len(steps); n != 20 || steps[n-1].Attempt > 2 {
			t.Errorf("the task has %d steps, the last by attempt %d", n, steps[max(n-1, 0)].Attempt)
		} else {
			most = max(most, steps[n-1].Attempt)
		}
	}
	if most != 2 {
		t.Error("no task was taken up: it proves nothing")
	}
	// Without that, the servers wait five seconds for the process that is dead.
	if n := p.metric(t, "troupe_tasks_reclaimed_total"); n == "0" || n == "" {
		t.Errorf("%q tasks were taken up at once", n)
	}
	t.Logf("all were complete after %v", time.Since(ready))
}

// TestTasksWhileNATSIsAway stops the servers: requests end in time, and tasks go on when the servers are back.
func TestTasksWhileNATSIsAway(t *testing.T) {
	when.Full(t, "processes on one NATS server, whose leases end")
	t.Parallel()
	binary(t)
	c := kit.StartNATS(t, 1, nil)
	p := onNATS(t, c, "a")
	running := p.begun(t, "job", `{"steps":30,"step_ms":100}`)
	waiting := p.begun(t, "confirm_delete", `{"filename":"a.txt"}`)
	asked := p.until(t, waiting, "input_required")

	c.Stop(0)
	for _, method := range []string{"tasks/get", "tasks/cancel"} {
		got := p.task(t, method, waiting, fmt.Sprintf(`"taskId":%q`, waiting))
		if got.took > 7*time.Second || got.status != http.StatusServiceUnavailable && (got.Error == nil || got.Error.Code != -32603) {
			t.Errorf("%s without a store is answered after %v with %d %s", method, got.took, got.status, got.body)
		}
	}
	got := p.task(t, "tools/call", "job", tool("job", `{"steps":1,"step_ms":1}`))
	if got.Result.TaskID != "" || got.took > 7*time.Second {
		t.Errorf("a task without a store is answered after %v with %d %s", got.took, got.status, got.body)
	}
	p.await(t, "connection to nats lost")

	c.Start(t, 0)
	p.await(t, "connected to nats again")
	if steps := p.until(t, running, "completed").Result.Result.Structured.Steps; len(steps) != 30 {
		t.Errorf("the task has the steps %+v", steps)
	}
	for key := range asked.Result.InputRequests {
		p.task(t, "tasks/update", waiting, answer(waiting, fmt.Sprintf("%q", key), "true"))
	}
	p.until(t, waiting, "completed")
	if strings.Contains(p.stderr.String(), "panic") {
		t.Errorf("it panicked:\n%s", p.stderr)
	}
}

// TestNATSRefusalsOfAProcess ends with one line that says what to do, and has no secret in it.
func TestNATSRefusalsOfAProcess(t *testing.T) {
	t.Parallel()
	binary(t)
	c := kit.StartNATS(t, 1, func(o *kit.NATSOptions) { o.Authorization = "right" })
	p := startAny(t, "--nats", strings.Replace(c.URL(), "://", "://wrong@", 1))
	if code := p.exit(t); code != 1 {
		t.Errorf("it ended with %d", code)
	}
	if out := p.stderr.String(); !strings.Contains(out, "check the user, token") || strings.Contains(out, "wrong") || strings.Count(out, "\n") != 1 {
		t.Errorf("it wrote %s", out)
	}
}

// TestProcessesOnTheStoreOfOne starts a process that serves its store to another one, and kills it: it comes back with all that is stored.
func TestProcessesOnTheStoreOfOne(t *testing.T) {
	when.Full(t, "processes on one NATS server, whose leases end")
	t.Parallel()
	binary(t)
	dir := t.TempDir()
	own := func(address string) []string {
		return []string{"--data", dir, "--node", "store", "--set", "nats-listen=" + address, "--set", "nats-token=right", "--drain-delay", "0s"}
	}
	a := start(t, own("127.0.0.1:0")...)
	store := a.await(t, `--nats (nats://(127\.0\.0\.1:\d+))`)
	b := start(t, "--nats", store[1], "--set", "nats-token=right", "--node", "b", "--drain-delay", "0s")
	b.becomes(t, "troupe_nodes_heard", "1")
	a.becomes(t, "troupe_nodes_heard", "1")
	session := a.session(t)
	b.echo(t, session)
	id := b.begun(t, "job", `{"steps":5,"step_ms":20}`)
	a.until(t, id, "completed")
	if code := startAny(t, "--nats", store[1], "--set", "nats-token=wrong").exit(t); code == 0 {
		t.Error("a process with the wrong token serves")
	}

	a.signal(t, syscall.SIGKILL)
	a.exit(t)
	a = start(t, own(store[2])...)
	a.becomes(t, "troupe_nodes_heard", "1")
	b.becomes(t, "troupe_lease_suspended_ratio", "0")
	b.until(t, id, "completed")
	b.echo(t, session)
	for _, p := range []*process{b, a} {
		p.signal(t, syscall.SIGTERM)
		if code := p.exit(t); code != 0 {
			t.Errorf("it ended with %d:\n%s", code, p.stderr)
		}
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/admin"
	"github.com/troupe-run/troupe/operator"
)

// tasks runs troupe tasks with a data directory and fails the test unless it ends with a code; it returns what the command writes.
func tasks(t *testing.T, dir string, code int, args ...string) string {
	t.Helper()
	return command(t, code, append([]string{"tasks", "--data", dir}, args...)...)
}

// command runs the program and fails the test unless it ends with a code; it returns what it writes.
func command(t *testing.T, code int, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(binary(t), args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	got := 0
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		got = e.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	if got != code {
		t.Errorf("%q ends with %d, want %d:\n%s", args, got, code, &out)
	}
	return out.String()
}

// shown is troupe tasks show --json.
func shown(t *testing.T, dir, id string, args ...string) (d operator.TaskDetail) {
	t.Helper()
	out := tasks(t, dir, 0, append([]string{"show", id, "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return d
}

// job makes a task of the tool job, and returns its id.
func (p *process) job(t *testing.T, session string, steps, ms int) string {
	t.Helper()
	status, _, body := p.request(t, "POST", "/mcp", session,
		fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"job","arguments":{"steps":%d,"step_ms":%d},"task":{}}}`, steps, ms))
	var made struct {
		Result struct {
			Task struct {
				TaskID string `json:"taskId"`
			} `json:"task"`
		} `json:"result"`
	}
	if err := json.Unmarshal([]byte(lastMessage(body)), &made); err != nil || made.Result.Task.TaskID == "" {
		t.Fatalf("a job is answered with %d: %s", status, body)
	}
	return made.Result.Task.TaskID
}

// lastMessage is the response that a body ends with: a busy process may have begun a stream.
func lastMessage(body string) string {
	if i := strings.LastIndex(body, "data: {"); i >= 0 {
		return strings.TrimSpace(body[i+len("data: "):])
	}
	return body
}

// eventually asks until f is content with what a task is.
func eventually(t *testing.T, dir, id, what string, f func(d operator.TaskDetail) bool) operator.TaskDetail {
	t.Helper()
	var d operator.TaskDetail
	for end := time.Now().Add(hung); time.Now().Before(end); {
		if d = shown(t, dir, id); f(d) {
			return d
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("the task is not %s: %+v", what, d)
	return d
}

// TestTasksOfARunningServer looks at tasks of a process by its socket, over a kill -9 and an orderly end.
func TestTasksOfARunningServer(t *testing.T) {
	dir := t.TempDir()
	p := start(t, "--data", dir, "--node", "one")
	socket := filepath.Join(dir, admin.SocketName)
	session := p.session(t) // it serves by now
	if info, err := os.Lstat(socket); err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Fatalf("the socket: %v, %v", info, err)
	}
	short, long := p.job(t, session, 3, 10), p.job(t, session, 1000, 2_000) // it is cancelled long before its end, however slow the machine is
	d := eventually(t, dir, short, "done", func(d operator.TaskDetail) bool { return d.State == "done" })
	if len(d.Steps) != 3 || d.Steps[1].Name != "step 2" || d.Steps[1].TookMS < 10 || d.Steps[1].Bytes == 0 || d.Steps[1].Attempt != 1 || d.Result != nil {
		t.Errorf("the steps are %+v, the result %s", d.Steps, d.Result)
	}
	if len(d.Runs) != 1 || d.Runs[0].Node != "one" || d.Runs[0].How != "finished" || d.Tool != "job" || d.Server != "/mcp" || d.Address != "127.0.0.1" {
		t.Errorf("the task is %+v", d)
	}
	if r := shown(t, dir, short, "--result").Result; !strings.Contains(string(r), `"structuredContent"`) {
		t.Errorf("with --result: %s", r)
	}
	if out := tasks(t, dir, 0, "ls"); !strings.Contains(out, long) || strings.Contains(out, short) || !strings.Contains(out, "running") {
		t.Errorf("ls:\n%s", out)
	}
	if out := tasks(t, dir, 0, "ls", "--state", "all", "--limit", "1"); !strings.Contains(out, "there are more: troupe tasks ls --after ") || strings.Count(out, "job") != 1 {
		t.Errorf("ls --limit 1:\n%s", out)
	}
	if out := tasks(t, dir, 0, "show", short); !strings.Contains(out, "step 3") || !strings.Contains(out, "finished") || strings.Contains(out, "structuredContent") {
		t.Errorf("show:\n%s", out)
	}

	eventually(t, dir, long, "at its second step", func(d operator.TaskDetail) bool { return len(d.Steps) > 0 })
	p.signal(t, syscall.SIGKILL)
	p.exit(t)
	if _, err := os.Lstat(socket); err != nil {
		t.Fatalf("a killed process leaves its socket: %v", err)
	}
	if out := tasks(t, dir, 1, "ls"); !strings.Contains(out, "no server answers on "+socket) || !strings.Contains(out, "troupe serve --data "+dir) {
		t.Errorf("ls without a server: %s", out)
	}

	p = start(t, "--data", dir, "--node", "one")
	p.echo(t, session)
	d = eventually(t, dir, long, "in its second run", func(d operator.TaskDetail) bool { return len(d.Runs) == 2 && d.Steps[len(d.Steps)-1].Attempt == 2 })
	if d.Runs[0].How != "lost" || d.Runs[0].Ended.IsZero() || d.Runs[1].How != "" || d.Attempt != 2 || d.Steps[0].Attempt != 1 {
		t.Errorf("after the kill: %+v", d)
	}
	if out := tasks(t, dir, 0, "cancel", long); out != long+" is cancelled\n" {
		t.Errorf("cancel: %s", out)
	}
	status, _, body := p.request(t, "POST", "/mcp", session, `{"jsonrpc":"2.0","id":3,"method":"tasks/get","params":{"taskId":"`+long+`"}}`)
	if !strings.Contains(body, `"status":"cancelled"`) {
		t.Errorf("its client sees %d: %s", status, body)
	}
	if out := tasks(t, dir, 1, "cancel", long); !strings.Contains(out, "the task has ended: it is cancelled") {
		t.Errorf("cancel again: %s", out)
	}
	if out := tasks(t, dir, 1, "show", strings.Repeat("a", 26)); !strings.Contains(out, "no such task") || !strings.Contains(out, "troupe tasks ls --state all") {
		t.Errorf("show what there is not: %s", out)
	}
	p.signal(t, syscall.SIGTERM)
	if code := p.exit(t); code != 0 {
		t.Errorf("it ends with %d:\n%s", code, p.stderr)
	}
	if _, err := os.Lstat(socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket, after the end: %v", err)
	}
}

// TestTasksUsage: what cannot be asked ends with code 2 before anything is, and nobody finds a server where there is none.
func TestTasksUsage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"ls", "--state", "lazy"}, 2, `state is "lazy": want one of open, queued`},
		{[]string{"ls", "--limit", "0"}, 2, "limit is 0: want at least 1"},
		{[]string{"ls", "now"}, 2, `unknown command "now"`},
		{[]string{"show"}, 2, "which task? troupe tasks ls lists them"},
		{[]string{"cancel"}, 2, "which task? troupe tasks ls lists them"},
		{[]string{"ls"}, 1, "no server answers on " + filepath.Join(dir, admin.SocketName)},
		{[]string{"cancel", "x"}, 1, "a server with --memory, and troupe stdio, cannot be asked"},
		{[]string{"--help"}, 0, "troupe tasks show ID"},
		{[]string{"ls", "--help"}, 0, "--state"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(append([]string{"tasks", "--data", dir}, tt.args...), &stdout, &stderr)
		if out := stdout.String() + stderr.String(); code != tt.code || !strings.Contains(out, tt.want) {
			t.Errorf("%q ends with %d, want %d and %q:\n%s", tt.args, code, tt.code, tt.want, out)
		}
	}
}

// TestPrintedTasks: what clients and handlers wrote moves nothing on the operator's terminal.
func TestPrintedTasks(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	x := operator.Task{ID: "a", State: "running", Tool: "job", Principal: "eve\x1b[2J", Message: "one\ntwo " + strings.Repeat("x", 100), Created: now.Add(-90 * time.Minute), Expires: now.Add(100 * time.Hour)}
	var out bytes.Buffer
	if err := printList(&out, operator.TaskPage{Tasks: []operator.Task{x}}, "open", now); err != nil {
		t.Fatal(err)
	}
	if err := printTask(&out, operator.TaskDetail{Task: x, Steps: []operator.Step{{Name: "s\r\x07"}}, Result: []byte("\"\u202e\x1b\"")}, now); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"\x1b", "\r", "\x07", "one\n", "\u202e"} {
		if strings.Contains(out.String(), bad) {
			t.Errorf("it prints %q:\n%q", bad, &out)
		}
	}
	for _, want := range []string{"1h30m", "4d", "…"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not print %q:\n%s", want, &out)
		}
	}
}

//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var backendBuilt = sync.OnceValues(func() (string, error) {
	path := filepath.Join(buildDir, "backend")
	if out, err := exec.Command("go", "build", "-o", path, "github.com/troupe-run/troupe/test/backend").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// A stranger is a backend's program under a name of one test's own, by which its processes are found, whatever became of their
// parents, their sessions and their environments.
type stranger struct{ path string }

func newStranger(t *testing.T) stranger {
	t.Helper()
	binary(t) // or the test is skipped
	built, err := backendBuilt()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	// The system knows a process by the first 15 bytes of its file's name.
	s := stranger{filepath.Join(dir, fmt.Sprintf("b%x", time.Now().UnixNano()&0xffffffffffff))}
	if err := os.Link(built, s.path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // whatever the test has found
		for _, p := range s.processes(t) {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
	})
	return s
}

// command is what stands behind "--" to host the program in a mode.
func (s stranger) command(mode ...string) []string { return append([]string{"--", s.path}, mode...) }

// A seen process is one of /proc.
type seen struct {
	pid, parent int
	zombie      bool
}

// processes returns the processes of the program, those that have ended and wait for their parent among them.
func (s stranger) processes(t *testing.T) (all []seen) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, name := look(pid); name == filepath.Base(s.path) {
			all = append(all, p)
		}
	}
	return all
}

// look reads what the system says of a process, whose name is empty if it is gone.
func look(pid int) (p seen, name string) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	from, to := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if err != nil || from < 0 || to < 0 {
		return p, ""
	}
	rest := strings.Fields(string(stat[to+1:]))
	parent, _ := strconv.Atoi(rest[1])
	return seen{pid, parent, rest[0] == "Z"}, string(stat[from+1 : to])
}

// until waits until something holds, for as long as it takes unless something hangs.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(hung); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never comes: %s", what)
		}
	}
}

// nothingLeft waits until the program has no process.
func (s stranger) nothingLeft(t *testing.T) {
	t.Helper()
	until(t, "the end of all processes of the backend", func() bool { return len(s.processes(t)) == 0 })
}

// gone waits until a process is none any more.
func gone(t *testing.T, pid int) {
	t.Helper()
	until(t, fmt.Sprintf("the end of process %d", pid), func() bool { return syscall.Kill(pid, 0) != nil })
}

// hostOn runs serve with arguments of its own until the test ends, and then has its keeper and its backends end.
func hostOn(t *testing.T, args ...string) *process {
	t.Helper()
	p := hostAny(t, args...)
	p.base = p.await(t, `(http://127\.0\.0\.1:\d+)/metrics`)[1]
	return p
}

func hostAny(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{stderr: &lines{wrote: make(chan struct{}, 1)}, exited: make(chan error, 1)}
	args, env := withoutVariables(args)
	p.cmd = exec.Command(binary(t), append([]string{"serve", "--listen", "127.0.0.1:0", "--set", "lease=2m", "--set", "learn-wait=5m", "--drain-delay", "0s", "--set", "call-rate=0", "--set", "principal-rate=0"}, args...)...)
	p.cmd.Stderr, p.cmd.Env = p.stderr, env
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		if i := slices.Index(args, "--data"); t.Failed() && i >= 0 {
			said, _ := os.ReadFile(filepath.Join(args[i+1], "keeper.log"))
			t.Logf("serve said:\n%s\nits keeper said:\n%s", p.stderr, said)
		}
		if i := slices.Index(args, "--data"); i >= 0 {
			endKeepers(t, args[i+1])
		}
	})
	go func() { p.exited <- p.cmd.Wait() }()
	return p
}

// endKeepers ends the keepers that had a data directory and keep what they have for longer than their test lasts.
func endKeepers(t *testing.T, dir string) {
	t.Helper()
	said, _ := os.ReadFile(filepath.Join(dir, "keeper.log")) // none says that there was none
	for _, ready := range keeperReady.FindAllSubmatch(said, -1) {
		pid, _ := strconv.Atoi(string(ready[1]))
		is, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if !bytes.Contains(is, []byte(dir)) { // it has ended, and another process may have its number
			continue
		}
		_ = syscall.Kill(pid, syscall.SIGTERM)
		gone(t, pid)
	}
}

var keeperReady = regexp.MustCompile(`msg="keeper ready" part=keeper pid=(\d+)`)

// A reply is any message that a guest gets, or a backend says.
type reply struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
		Data    json.RawMessage
	}
}

// says is the text of a result of a tool, or what it has instead.
func (r reply) says() string {
	var result struct {
		Content []struct{ Text string }
		IsError bool
	}
	switch {
	case r.Error != nil:
		return fmt.Sprintf("%d %s %s", r.Error.Code, r.Error.Message, r.Error.Data)
	case json.Unmarshal(r.Result, &result) == nil && len(result.Content) == 1 && !result.IsError:
		return result.Content[0].Text
	}
	return string(r.Result)
}

// A caller speaks to a backend, directly or by way of serve.
type caller interface {
	do(t *testing.T, method, params string) reply
}

// A guest is a client of serve with a session.
type guest struct {
	p                 *process
	revision, session string
	capabilities      string
	began             reply // the answer to initialize

	mu     sync.Mutex
	ids    int
	beside []reply // what came beside answers on the streams of calls, but for questions that were answered
}

// declared is what a client of a revision with elicitation can declare.
const declared = `{"elicitation":{},"sampling":{},"roots":{"listChanged":true}}`

// arrive begins a session.
func arrive(t *testing.T, p *process, revision, capabilities string) *guest {
	t.Helper()
	g := &guest{p: p, revision: revision, capabilities: capabilities}
	if g.began = g.initialize(t); g.began.Error != nil {
		t.Fatalf("initialize is answered with %s:\n%s", g.began.says(), p.stderr)
	}
	return g
}

// initialize begins the session, unless it is refused.
func (g *guest) initialize(t *testing.T) (r reply) {
	t.Helper()
	x, err := g.p.post(t.Context(), `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+g.revision+`","capabilities":`+g.capabilities+`,"clientInfo":{"name":"guest","version":"1"}}}`)
	if err != nil {
		t.Fatal(err)
	}
	defer x.close()
	if r = g.answer(t, x, "0"); r.Error != nil {
		return r
	}
	g.session = x.Header.Get("Mcp-Session-Id")
	g.tell(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return r
}

func (g *guest) header(more ...string) []string {
	if g.revision >= "2025-06-18" { // which has brought the header
		more = append(more, "MCP-Protocol-Version", g.revision)
	}
	return append([]string{"Mcp-Session-Id", g.session}, more...)
}

// tell sends what has no answer.
func (g *guest) tell(t *testing.T, body string) {
	t.Helper()
	x, err := g.p.post(t.Context(), body, g.header()...)
	if err != nil {
		t.Fatal(err)
	}
	x.close()
	if x.StatusCode != http.StatusAccepted {
		t.Fatalf("%s is answered with %s", body, x.Status)
	}
}

func (g *guest) nextID() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ids++
	return strconv.Itoa(g.ids)
}

func requestOf(id, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s}}`, id, method, params)
}

// open sends a request, whose answer is not read yet.
func (g *guest) open(t *testing.T, method, params string) (x *exchange, id string) {
	t.Helper()
	id = g.nextID()
	x, err := g.p.post(t.Context(), requestOf(id, method, params), g.header()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.close)
	return x, id
}

func (g *guest) do(t *testing.T, method, params string) reply {
	t.Helper()
	x, id := g.open(t, method, params)
	defer x.close()
	return g.answer(t, x, id)
}

// call is do for a tool.
func (g *guest) call(t *testing.T, name, arguments string) reply {
	t.Helper()
	return g.do(t, "tools/call", tool(name, arguments))
}

// answer reads the answer to a request. Questions are answered on the way.
func (g *guest) answer(t *testing.T, x *exchange, id string) reply {
	t.Helper()
	for {
		r, err := x.message()
		if err != nil {
			t.Fatalf("%s: no answer to %s: %v\n%s", x.Status, id, err, g.p.stderr)
		}
		switch {
		case r.Method == "" && (string(r.ID) == id || x.StatusCode >= http.StatusBadRequest):
			return r
		case r.Method != "" && r.ID != nil:
			g.tell(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, r.ID, toQuestion(r)))
		}
		g.mu.Lock()
		g.beside = append(g.beside, r)
		g.mu.Unlock()
	}
}

// toQuestion is what guests answer, and direct callers too.
func toQuestion(r reply) string {
	var p struct{ Message string }
	_ = json.Unmarshal(r.Params, &p)
	switch r.Method {
	case "elicitation/create":
		return fmt.Sprintf(`{"action":"accept","content":{"answer":%q}}`, strings.ReplaceAll(p.Message, " ", "-"))
	case "sampling/createMessage":
		return `{"role":"assistant","content":{"type":"text","text":"sampled"},"model":"m"}`
	case "roots/list":
		return `{"roots":[{"uri":"file:///etc"}]}`
	}
	return `{}`
}

// message reads the next message of a response.
func (x *exchange) message() (r reply, err error) {
	if strings.HasPrefix(x.Header.Get("Content-Type"), "text/event-stream") {
		for data := ""; data == ""; {
			if _, data, err = x.event(); err == nil && data != "" {
				err = json.Unmarshal([]byte(data), &r)
			}
			if err != nil {
				return r, err
			}
		}
		return r, nil
	}
	data, err := io.ReadAll(x.rd)
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		err = fmt.Errorf("%w: %s", err, data)
	}
	return r, err
}

// listen opens the standalone stream of the session, and returns what comes on it.
func (g *guest) listen(t *testing.T) <-chan reply {
	t.Helper()
	x, err := g.p.send(t.Context(), "GET", "", g.header()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.close)
	if x.StatusCode != http.StatusOK {
		t.Fatalf("the standalone stream is answered with %s", x.Status)
	}
	heard := make(chan reply, 100)
	go func() {
		defer close(heard)
		for {
			r, err := x.message()
			if err != nil {
				return
			}
			heard <- r
		}
	}()
	return heard
}

// awaitMessage waits for a message of a method.
func awaitMessage(t *testing.T, heard <-chan reply, method string) reply {
	t.Helper()
	late := time.After(hung)
	for {
		select {
		case r, open := <-heard:
			if !open {
				t.Fatalf("the stream ended before %s came", method)
			}
			if r.Method == method {
				return r
			}
		case <-late:
			t.Fatalf("%s does not come", method)
		}
	}
}

// leave ends the session.
func (g *guest) leave(t *testing.T) {
	t.Helper()
	x, err := g.p.send(t.Context(), "DELETE", "", g.header()...)
	if err != nil {
		t.Fatal(err)
	}
	x.close()
}

// A counted is what the tool counter says: which process has counted how often, and how many calls wait in it.
type counted struct{ PID, N, Waiting int }

func countOf(t *testing.T, r reply) (c counted) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.says()), &c); err != nil || c.PID == 0 {
		t.Fatalf("counter says %s", r.says())
	}
	return c
}

func (g *guest) counter(t *testing.T) counted {
	t.Helper()
	return countOf(t, g.call(t, "counter", "{}"))
}

// A direct caller is the client of a backend that nobody hosts.
type direct struct {
	in     io.Writer
	out    *bufio.Reader
	ids    int
	beside []reply
	began  reply
}

// speak starts a backend and begins with it.
func (s stranger) speak(t *testing.T, revision, capabilities string, mode ...string) *direct {
	t.Helper()
	cmd := exec.Command(s.path, mode...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	d := &direct{in: in, out: bufio.NewReader(out)}
	d.began = d.do(t, "initialize", `"protocolVersion":"`+revision+`","capabilities":`+capabilities+`,"clientInfo":{"name":"direct","version":"1"}`)
	d.say(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return d
}

func (d *direct) say(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(d.in, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

func (d *direct) do(t *testing.T, method, params string) reply {
	t.Helper()
	d.ids++
	id := strconv.Itoa(d.ids)
	d.say(t, requestOf(id, method, params))
	for {
		line, err := d.out.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		var r reply
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		switch {
		case r.Method == "" && string(r.ID) == id:
			return r
		case r.Method != "" && r.ID != nil:
			d.say(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, r.ID, toQuestion(r)))
		}
		d.beside = append(d.beside, r)
	}
}

// listAll reads all pages of a list, and returns its items as they came.
func listAll(t *testing.T, c caller, method, member string) (items []string) {
	t.Helper()
	for cursor := ""; ; {
		r := c.do(t, method, cursor)
		var page map[string]json.RawMessage
		var raw []json.RawMessage
		if r.Error != nil || json.Unmarshal(r.Result, &page) != nil || json.Unmarshal(page[member], &raw) != nil {
			t.Fatalf("%s is answered with %s", method, r.says())
		}
		for _, item := range raw {
			items = append(items, string(item))
		}
		if page["nextCursor"] == nil {
			return items
		}
		cursor = `"cursor":` + string(page["nextCursor"])
	}
}

// keeperOf returns the keeper of a backend's process: its parent, or that of its wrapper.
func (s stranger) keeperOf(t *testing.T, pid int) int {
	t.Helper()
	for {
		p, name := look(pid)
		if name != filepath.Base(s.path) {
			if name == "" {
				t.Fatalf("there is no process %d", pid)
			}
			return pid
		}
		pid = p.parent
	}
}

// configured writes a file of --config with backends, and returns its path.
func configured(t *testing.T, backends string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "troupe.yaml")
	if err := os.WriteFile(path, []byte("backends:\n"+backends), fs.FileMode(0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

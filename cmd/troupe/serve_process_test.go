package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
)

// buildDir is where binary builds; TestMain makes and removes it.
var buildDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "troupe-test-")
	if err != nil {
		panic(err)
	}
	buildDir = dir
	kit.SpareCollections()
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// binary returns the path of the program, which is built once for all tests that start it. With -short
// it skips the test.
func binary(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the program and starts processes")
	}
	when.Unraced(t, "the processes are built without the detector")
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var built = sync.OnceValues(func() (string, error) {
	path := filepath.Join(buildDir, "troupe")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// process is a running server.
type process struct {
	cmd    *exec.Cmd
	base   string
	stderr *lines
	exited chan error
}

// lines is what a process has written so far.
type lines struct {
	mu    sync.Mutex // guards text
	text  bytes.Buffer
	wrote chan struct{}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	select {
	case l.wrote <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// start runs serve with the arguments and all tools on a free port and waits until it listens.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := startAny(t, args...)
	url := p.await(t, `(http://127\.0\.0\.1:\d+)/metrics`)
	p.base = url[1]
	return p
}

// hung is how long to wait for what comes at once, unless something hangs. A busy machine comes nowhere near it.
const hung = 10 * time.Minute

// isVariable says that an argument of a process that a test starts is of its environment.
var isVariable = regexp.MustCompile(`^[A-Z_]+=`).MatchString

// startAny is start for a process that may end. Arguments such as TROUPE_LISTEN=127.0.0.1:0 are of its environment.
func startAny(t *testing.T, args ...string) *process {
	t.Helper()
	return startPrepared(t, func(*exec.Cmd) {}, args...)
}

// startPrepared is startAny with a command that prepare may change.
func startPrepared(t *testing.T, prepare func(*exec.Cmd), args ...string) *process {
	t.Helper()
	p := &process{stderr: &lines{wrote: make(chan struct{}, 1)}, exited: make(chan error, 1)}
	flags := []string{"serve", "--set", "conformance=true", "--listen", "127.0.0.1:0"}
	if !slices.Contains(args, "--nats") && !slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "nats-listen=") }) { // no other process waits for its lease to end
		flags = append(flags, "--set", "lease=2m") // a busy machine may keep it from renewing one
	}
	flags = append(flags, "--set", "learn-wait=5m") // and a backend from saying what it lists
	args, env := withoutVariables(args)
	p.cmd = exec.Command(binary(t), append(flags, args...)...)
	p.cmd.Stderr, p.cmd.Env = p.stderr, env
	prepare(p.cmd)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	go func() { p.exited <- p.cmd.Wait() }()
	return p
}

// withoutVariables returns the arguments that are no variables, and an environment that has those.
func withoutVariables(args []string) (others, env []string) {
	env = os.Environ()
	for _, a := range args {
		if isVariable(a) {
			env = append(env, a)
		} else {
			others = append(others, a)
		}
	}
	return others, env
}

// await waits until the output of the process matches.
func (p *process) await(t *testing.T, pattern string) []string {
	t.Helper()
	late := time.After(hung)
	for {
		if found := regexp.MustCompile(pattern).FindStringSubmatch(p.stderr.String()); found != nil {
			return found
		}
		select {
		case <-p.stderr.wrote:
		case err := <-p.exited:
			t.Fatalf("it ended (%v) before it wrote %s:\n%s", err, pattern, p.stderr)
		case <-late:
			t.Fatalf("it did not write %s in time:\n%s", pattern, p.stderr)
		}
	}
}

// exit waits for the end of the process and returns its exit code.
func (p *process) exit(t *testing.T) int {
	t.Helper()
	select {
	case err := <-p.exited:
		if err == nil {
			return 0
		}
		if e, ok := errors.AsType[*exec.ExitError](err); ok {
			return e.ExitCode()
		}
		t.Fatal(err)
	case <-time.After(hung):
		t.Fatalf("it does not end:\n%s", p.stderr)
	}
	return -1
}

func (p *process) signal(t *testing.T, sig os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// request returns the status, the session and the body of a response.
func (p *process) request(t *testing.T, method, path, session, body string) (int, string, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, p.base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
		req.Header.Set("MCP-Protocol-Version", "2025-11-25")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Mcp-Session-Id"), string(data)
}

// session begins a session and returns its id.
func (p *process) session(t *testing.T) string {
	t.Helper()
	status, session, body := p.request(t, "POST", "/mcp", "",
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	if status != http.StatusOK || session == "" {
		t.Fatalf("initialize is answered with %d, session %q: %s", status, session, body)
	}
	if status, _, body := p.request(t, "POST", "/mcp", session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); status != http.StatusAccepted {
		t.Fatalf("initialized is answered with %d: %s", status, body)
	}
	return session
}

func (p *process) echo(t *testing.T, session string) {
	t.Helper()
	status, _, body := p.request(t, "POST", "/mcp", session,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"all the world's a stage"}}}`)
	if status != http.StatusOK || !strings.Contains(body, `"text":"all the world's a stage"`) {
		t.Fatalf("echo is answered with %d: %s", status, body)
	}
}

func TestServeProcess(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	p := start(t, "--data", data, "--drain-delay", "0s")
	for path, want := range map[string]string{"/healthz": "ok\n", "/readyz": "ready\n"} {
		if status, _, body := p.request(t, "GET", path, "", ""); status != http.StatusOK || body != want {
			t.Errorf("%s is answered with %d and %q, want 200 and %q", path, status, body, want)
		}
	}
	session := p.session(t)
	p.echo(t, session)
	status, _, metrics := p.request(t, "GET", "/metrics", "", "")
	for _, want := range []string{"\ntroupe_sessions_active 1\n", `gen_ai_tool_name="echo"`, "\ntroupe_stream_cut_total{reason=\"queue-full\"} 0\n", "\ngo_goroutines "} {
		if status != http.StatusOK || !strings.Contains(metrics, want) {
			t.Errorf("/metrics is answered with %d and lacks %q:\n%s", status, want, metrics)
		}
	}

	locked := exec.Command(p.cmd.Path, "serve", "--listen", "127.0.0.1:0", "--data", data, "--drain-delay", "0s")
	out, err := locked.CombinedOutput()
	if locked.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), fmt.Sprintf("another process (%d) uses the data directory %s: stop it and wait for its end, up to 33s as it drains, or", p.cmd.Process.Pid, data)) || strings.Count(string(out), "\n") != 1 {
		t.Errorf("a second server on the directory ends with %v and writes %s", err, out)
	}
	taken := exec.Command(p.cmd.Path, "serve", "--listen", strings.TrimPrefix(p.base, "http://"), "--memory", "--log-level", "error")
	out, err = taken.CombinedOutput()
	if taken.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "listens on") || strings.Count(string(out), "\n") != 1 {
		t.Errorf("a second server on the address ends with %v and writes %s", err, out)
	}

	p.signal(t, syscall.SIGTERM)
	if code := p.exit(t); code != 0 {
		t.Fatalf("it ended with %d:\n%s", code, p.stderr)
	}
	again := start(t, "--data", data, "--drain-delay", "0s")
	again.echo(t, session)
}

func TestHealthListenProcess(t *testing.T) {
	t.Parallel()
	p := start(t, "--memory", "--health-listen", "127.0.0.1:0", "--drain-delay", "1h")
	p.base = p.await(t, `serves MCP on (http://127\.0\.0\.1:\d+)/mcp`)[1]
	p.echo(t, p.session(t))
	if status, _, body := p.request(t, "GET", "/metrics", "", ""); status != http.StatusNotFound {
		t.Errorf("/metrics is answered with %d at the main address: %s", status, body)
	}
	p.base = "http://" + p.await(t, `serving health" address=(\S+)`)[1]
	if status, _, body := p.request(t, "GET", "/metrics", "", ""); status != http.StatusOK || !strings.Contains(body, `gen_ai_tool_name="echo"`) {
		t.Errorf("/metrics is answered with %d: %s", status, body)
	}
	p.signal(t, syscall.SIGTERM)
	p.await(t, "a second signal ends the process at once")
	for status := 0; status != http.StatusServiceUnavailable; {
		status, _, _ = p.request(t, "GET", "/readyz", "", "")
	}
	if status, _, _ := p.request(t, "GET", "/healthz", "", ""); status != http.StatusOK {
		t.Errorf("health is %d while it drains, want 200", status)
	}
}

func TestLimitsOfAProcess(t *testing.T) {
	t.Parallel()
	p := start(t, "--memory", "--set", "call-rate=0.01", "--set", "call-burst=1", "--set", "max-batch=1")
	session := p.session(t)
	p.echo(t, session)
	status, _, body := p.request(t, "POST", "/mcp", session, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}`)
	if status != http.StatusOK || !strings.Contains(body, `"error":{"code":-32600`) || !strings.Contains(body, `"retryAfterMs":`) {
		t.Errorf("a second call is answered with %d: %s", status, body)
	}
	if status, _, body := p.request(t, "POST", "/mcp", session, `[{},{}]`); status != http.StatusBadRequest {
		t.Errorf("a batch of two is answered with %d: %s", status, body)
	}
	_, _, metrics := p.request(t, "GET", "/metrics", "", "")
	for _, want := range []string{`troupe_refusals_total{reason="session-rate"} 1`, `troupe_refusals_total{reason="node-calls"} 0`,
		`troupe_http_refused_total{http_response_status_code="400",reason="batch"} 1`, "\ntroupe_accounts 1\n", "\ntroupe_accounts_overflowed_total 0\n"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics lacks %q:\n%s", want, metrics)
		}
	}
}

func TestKilledProcess(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	p := start(t, "--data", data)
	session := p.session(t)
	p.signal(t, syscall.SIGKILL)
	p.exit(t)
	again := start(t, "--data", data)
	again.echo(t, session)
}

func TestSecondSignalProcess(t *testing.T) {
	t.Parallel()
	p := start(t, "--memory", "--drain-delay", "1h")
	p.request(t, "GET", "/healthz", "", "") // without a client of /healthz the drain would not wait
	p.signal(t, syscall.SIGINT)
	p.await(t, "a second signal ends the process at once")
	if status, _, _ := p.request(t, "GET", "/healthz", "", ""); status != http.StatusOK {
		t.Errorf("health is %d while it drains, want 200", status)
	}
	p.signal(t, syscall.SIGINT)
	if code := p.exit(t); code != 1 {
		t.Errorf("it ended with %d, want 1", code)
	}
}

func TestJSONLogProcess(t *testing.T) {
	t.Parallel()
	p := start(t, "--memory", "--log-format", "json")
	if !strings.Contains(p.stderr.String(), `"mcp":"`+p.base+`/mcp"`) {
		t.Errorf("the log does not say where the server is:\n%s", p.stderr)
	}
	for line := range strings.Lines(p.stderr.String()) {
		if !strings.HasPrefix(line, "{") {
			t.Errorf("the log has a line that is no JSON: %s", line)
		}
	}
}

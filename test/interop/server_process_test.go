package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for something that should come at once. It is no measure: a test that needs it hangs.
const patience = 10 * time.Minute

// program is the path of the command under test, and shared is the server of the tests that need none of their
// own.
var (
	program string
	shared  *server
)

func TestMain(m *testing.M) {
	// The tests mostly wait for other processes. A flag of the command line takes precedence.
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	os.Exit(withServer(m.Run))
}

// pageSize is how many items a page of a list has: few, so that lists have several pages.
const pageSize = 7

// withServer builds the command, starts one server and runs the tests.
func withServer(run func() int) (code int) {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, "interop:", err)
		return 1
	}
	dir, err := os.MkdirTemp("", "troupe-interop-")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "troupe")
	build := exec.Command("go", append(append([]string{"build"}, buildFlags...), "-o", program, "./cmd/troupe")...)
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		return fail(fmt.Errorf("build the command: %w\n%s", err, out))
	}
	p, err := launch("127.0.0.1:0", "--memory", "--set", fmt.Sprintf("page-size=%d", pageSize))
	if err != nil {
		return fail(err)
	}
	shared = &server{p}
	code = run()
	http.DefaultClient.CloseIdleConnections()
	if err := shared.stop(); err != nil {
		return fail(err)
	}
	return code
}

// server serves an address: one process of the command after the other.
type server struct{ *process }

// process is one process of the command.
type process struct {
	endpoint string // where it speaks MCP
	metrics  string
	addr     string // host and port
	cmd      *exec.Cmd
	ended    chan struct{} // closed once exit is set
	exit     error

	mu  sync.Mutex // guards log
	log strings.Builder
}

// launch starts a server and returns once it serves.
func launch(addr string, flags ...string) (*process, error) {
	args := append([]string{"serve", "--set", "conformance=true", "--listen", addr, "--log-format", "json", "--drain-delay", "0s",
		"--set", "header-timeout=2m", "--set", "body-timeout=10m", "--set", "write-timeout=10m", "--set", "lease=2m", // a busy machine may keep a client from sending and from reading, and the server from renewing its lease
		"--set", "log-rate=1000000"}, // features share sessions: one must not drop the messages that another waits for
		flags...)
	s := &process{cmd: exec.Command(program, args...), ended: make(chan struct{})}
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	serving := make(chan error, 1)
	go func() {
		for lines := bufio.NewReader(stderr); ; {
			line, err := lines.ReadString('\n')
			s.mu.Lock()
			s.log.WriteString(line)
			s.mu.Unlock()
			var record struct{ Msg, MCP, Metrics string }
			if json.Unmarshal([]byte(line), &record) == nil && record.Msg == "serving" {
				at, err := url.Parse(record.MCP)
				if err == nil {
					s.endpoint, s.metrics, s.addr = record.MCP, record.Metrics, at.Host
				}
				serving <- err
			}
			if err != nil {
				break
			}
		}
		s.exit = s.cmd.Wait()
		close(s.ended)
	}()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case err = <-serving:
	case <-s.ended:
		err = fmt.Errorf("it ended: %v", s.exit)
	case <-timeout.C:
		err = errors.New("it says nothing")
	}
	if err != nil {
		s.kill()
		return nil, fmt.Errorf("start a server on %s: %w\n%s", addr, err, s.logged())
	}
	return s, nil
}

// start starts a server of the test's own, and checks how it ends.
func start(t *testing.T, flags ...string) *server {
	t.Helper()
	p, err := launch("127.0.0.1:0", flags...)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{p}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the server's log:\n%s", s.logged())
		}
	})
	return s
}

// restart kills the process as kill -9 does, and starts another on its address.
func (s *server) restart(t *testing.T, flags ...string) {
	t.Helper()
	s.kill()
	p, err := launch(s.addr, flags...)
	for end := time.Now().Add(patience); err != nil && strings.Contains(err.Error(), "another process listens on") && time.Now().Before(end); { // which has got the port meanwhile
		time.Sleep(100 * time.Millisecond)
		p, err = launch(s.addr, flags...)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.process = p
}

func (s *process) logged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// kill ends the process as kill -9 does.
func (s *process) kill() {
	_ = s.cmd.Process.Kill() // it may have ended
	<-s.ended
}

// stop ends the process as a supervisor does. Its end must be orderly, unless kill has come first.
func (s *process) stop() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	var err error
	select {
	case <-s.ended:
		if status, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus); s.exit != nil && !(ok && status.Signal() == syscall.SIGKILL) {
			err = fmt.Errorf("the server ended: %w", s.exit)
		}
	case <-timeout.C:
		_ = s.cmd.Process.Signal(syscall.SIGQUIT) // its stacks go to the log
		select {
		case <-s.ended:
		case <-time.After(patience):
			s.kill()
		}
		err = errors.New("the server did not end")
	}
	for _, bad := range []string{"panic", "DATA RACE"} {
		if strings.Contains(s.logged(), bad) {
			err = errors.Join(err, fmt.Errorf("the server reports a %s:\n%s", bad, s.logged()))
		}
	}
	return err
}

var sample = regexp.MustCompile(`(?m)^([a-z_]+)(?:\{[^}]*\})? (\S+)$`)

// gauge returns the sum of a metric over its labels.
func (s *process) gauge(ctx context.Context, name string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.metrics, nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	sum, found := 0.0, false
	for _, m := range sample.FindAllStringSubmatch(string(text), -1) {
		if m[1] == name {
			v, err := strconv.ParseFloat(m[2], 64)
			if err != nil {
				return 0, err
			}
			sum, found = sum+v, true
		}
	}
	if !found {
		return 0, fmt.Errorf("%s has no %s", s.metrics, name)
	}
	return sum, nil
}

// awaitGauge waits until a metric has the value.
func (s *process) awaitGauge(t *testing.T, name string, want float64) {
	t.Helper()
	ctx := within(t)
	var got float64
	var err error
	eventually(t, func() bool {
		got, err = s.gauge(ctx, name)
		return err == nil && got == want
	}, func() string { return fmt.Sprintf("%s is %v (%v), want %v", name, got, err, want) })
}

// eventually polls until the condition holds, or fails the test with the text that matter returns.
func eventually(t *testing.T, holds func() bool, matter func() string) {
	t.Helper()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(patience); !holds(); <-poll.C {
		if time.Now().After(deadline) {
			t.Fatal(matter())
		}
	}
}

// within returns a context that ends with the test, or when it takes too long.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errors.New("it takes too long"))
	t.Cleanup(cancel)
	return ctx
}

// receive returns the next value of a channel, or fails the test when none comes.
func receive[T any](t *testing.T, from <-chan T) (v T) {
	t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case v = <-from:
	case <-timeout.C:
		t.Fatal("nothing happens")
	}
	return v
}

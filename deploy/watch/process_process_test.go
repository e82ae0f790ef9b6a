//go:build full && linux

package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// hung is how long to wait for what comes within seconds, unless something hangs.
const hung = 3 * time.Minute

// A process is a program that a test has started. Its addresses stay the same over all starts.
type process struct {
	name, bin string
	args, env []string
	address   string // of what it is for
	ready     string // a URL that answers with 200 once it serves, and has the metrics beside it if it is a node

	cmd   *exec.Cmd
	ended chan struct{}
	out   string // a file with what it has written
}

// start starts the process, and waits until it is ready.
func (p *process) start(t *testing.T) {
	t.Helper()
	p.launch(t)
	p.await(t)
}

// launch starts the process.
func (p *process) launch(t *testing.T) {
	t.Helper()
	if p.out == "" {
		p.out = filepath.Join(t.TempDir(), p.name+".log")
		t.Cleanup(func() {
			p.end()
			if text, err := os.ReadFile(p.out); err == nil && t.Failed() {
				t.Logf("%s wrote, at the end:\n%s", p.name, text[max(0, len(text)-4000):])
			}
		})
	}
	out, err := os.OpenFile(p.out, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	p.cmd = exec.Command(p.bin, p.args...)
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = out, out, append(os.Environ(), p.env...)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	p.ended = ended
	go func(cmd *exec.Cmd) {
		_ = cmd.Wait()
		close(ended)
	}(p.cmd)
}

// await waits until the process is ready.
func (p *process) await(t *testing.T) {
	t.Helper()
	for late := time.After(hung); !p.isReady(); {
		select {
		case <-p.ended:
			t.Fatalf("%s has ended before it was ready", p.name)
		case <-late:
			t.Fatalf("%s does not get ready", p.name)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// isReady asks the process whether it serves.
func (p *process) isReady() bool {
	resp, err := quick.Get(p.ready)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Errorf("%v of %s: %v", s, p.name, err)
	}
}

// kill ends the process at once.
func (p *process) kill(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGKILL)
	<-p.ended
}

// end ends the process with the test.
func (p *process) end() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// client trusts any certificate: those of tests are their own authority. quick gives up what takes long.
var (
	client = &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 64, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
	}}
	quick = &http.Client{Timeout: 10 * time.Second, Transport: client.Transport}
)

// addresses are of this machine, and nobody listens there. None is given twice: its process may not listen there yet.
func addresses(t *testing.T, n int) (all []string) {
	t.Helper()
	for len(all) < n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if at := l.Addr().String(); !given[at] {
			given[at] = true
			all = append(all, at)
		}
	}
	return all
}

// given are the addresses that processes have.
var given = map[string]bool{}

// binaries saves the time to build.
var binaries = flag.String("binaries", "", "the directory with the programs troupe and lab, which are built otherwise")

// build compiles the command and bench/lab, once for all tests.
func build(t *testing.T) (troupe, lab string) {
	t.Helper()
	dir, err := *binaries, error(nil)
	if dir == "" {
		dir, err = built()
	}
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "troupe"), filepath.Join(dir, "lab")
}

var built = sync.OnceValues(func() (string, error) {
	dir := buildDir
	for _, from := range []string{"cmd/troupe", "bench/lab"} {
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, filepath.Base(from)), "./"+from)
		cmd.Dir = repository
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build %s: %w\n%s", from, err, out)
		}
	}
	return dir, nil
})

// buildDir is where the programs are; TestMain makes and removes it.
var buildDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "troupe-watch-")
	if err != nil {
		panic(err)
	}
	buildDir = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// newNATS starts three NATS servers, a process of bench/lab each, and returns them with their URLs.
func newNATS(t *testing.T, lab string) (all []*process, urls string) {
	t.Helper()
	at := addresses(t, 9)
	data := t.TempDir()
	port := func(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }
	var routes, clients []string
	for i := range 3 {
		routes, clients = append(routes, "nats://"+at[3*i+2]), append(clients, "nats://"+at[3*i])
	}
	for i := range 3 {
		name := fmt.Sprintf("nats-%d", i+1)
		all = append(all, &process{
			name: name, bin: lab, address: at[3*i], ready: "http://" + at[3*i+1] + "/healthz",
			args: []string{"nats", "--data", data, "--name", name, "--port", port(at[3*i]), "--monitor", port(at[3*i+1]), "--cluster", port(at[3*i+2]), "--routes", strings.Join(routes, ",")},
		})
	}
	for _, p := range all { // all, before one is waited for: one alone has no quorum, and does not get ready
		p.launch(t)
	}
	for _, p := range all {
		p.await(t)
	}
	return all, strings.Join(clients, ",")
}

// newNode returns a process of the command with its health and metrics at an address of their own.
func newNode(t *testing.T, troupe, name string, more ...string) *process {
	t.Helper()
	at := addresses(t, 2)
	args := []string{"serve", "--listen", at[0], "--health-listen", at[1], "--node", name, "--set", "conformance=true", "--drain-delay", "1s", "--set", "principal-rate=0"}
	return &process{name: name, bin: troupe, address: at[0], ready: "http://" + at[1] + "/readyz", args: append(args, more...)}
}

// ago waits for d, unless ctx ends first, and reports whether it did not.
func ago(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

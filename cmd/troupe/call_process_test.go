package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-run/troupe/test/kit/ports"
)

// calling is a call by the command in this process.
type calling struct {
	stdout bytes.Buffer // to be read after the end
	stderr *lines
	code   chan int
}

// beginCall calls a tool of a process, while which the test does something to that.
func beginCall(p *process, args ...string) *calling {
	c := &calling{stderr: &lines{wrote: make(chan struct{}, 1)}, code: make(chan int, 1)}
	go func() { c.code <- run(append([]string{"call", p.base + "/mcp"}, args...), &c.stdout, c.stderr) }()
	return c
}

// await waits until the command has told something.
func (c *calling) await(t *testing.T, what string) {
	t.Helper()
	late := time.After(hung)
	for !strings.Contains(c.stderr.String(), what) {
		select {
		case <-c.stderr.wrote:
		case code := <-c.code:
			t.Fatalf("it ended with %d before it told %q:\n%s%s", code, what, c.stderr, &c.stdout)
		case <-late:
			t.Fatalf("it did not tell %q in time:\n%s", what, c.stderr)
		}
	}
}

// end waits for the end, and requires the result.
func (c *calling) end(t *testing.T, want string) {
	t.Helper()
	select {
	case code := <-c.code:
		if code != 0 || c.stdout.String() != want {
			t.Errorf("it ended with %d and %q, want %q:\n%s", code, &c.stdout, want, c.stderr)
		}
	case <-time.After(hung):
		t.Fatalf("it did not end:\n%s", c.stderr)
	}
}

// TestCallGoesOnThroughAKill: the server is killed in the middle of a call and started again, and the command ends with the result, having
// told each number once.
func TestCallGoesOnThroughAKill(t *testing.T) {
	t.Parallel()
	binary(t)
	dir := t.TempDir()
	p := start(t, "--data", dir, "--listen", ports.Address(t))
	c := beginCall(p, "count", `{"to":60,"delay_ms":200}`, "--revision", "2025-11-25", "--retry", hung.String())
	c.await(t, "3 of 60\n")
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.exited
	c.await(t, "the connection broke")
	start(t, "--data", dir, "--listen", strings.TrimPrefix(p.base, "http://"))
	c.end(t, "counted to 60\n")
	for n := 1; n <= 60; n++ {
		if line := fmt.Sprintf("%d of 60\n", n); strings.Count("\n"+c.stderr.String(), "\n"+line) != 1 {
			t.Errorf("%q was not told once:\n%s", line, c.stderr)
		}
	}
}

// TestCallGoesOnThroughADeploy: without a session, a safe call becomes a task when its server ends, and the command follows that in the
// next process.
func TestCallGoesOnThroughADeploy(t *testing.T) {
	t.Parallel()
	binary(t)
	dir := t.TempDir()
	p := start(t, "--data", dir, "--drain-delay", "0s", "--listen", ports.Address(t))
	c := beginCall(p, "count", `{"to":60,"delay_ms":200}`, "--retry", hung.String())
	c.await(t, "3 of 60\n")
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.exit(t); code != 0 {
		t.Errorf("it ends with %d:\n%s", code, p.stderr)
	}
	c.await(t, "the call goes on as task ")
	start(t, "--data", dir, "--listen", strings.TrimPrefix(p.base, "http://"))
	c.end(t, "counted to 60\n")
}

// TestCallIsInterrupted: Ctrl-C cancels the call at its server, with and without a session.
func TestCallIsInterrupted(t *testing.T) {
	t.Parallel()
	p := start(t, "--memory")
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		var stdout bytes.Buffer
		c := &calling{stderr: &lines{wrote: make(chan struct{}, 1)}, code: make(chan int, 1)}
		cmd := exec.Command(binary(t), "call", p.base+"/mcp", "count", `{"to":100000,"delay_ms":100}`, "--revision", revision)
		cmd.Stdout, cmd.Stderr = &stdout, c.stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			_ = cmd.Wait()
			c.code <- cmd.ProcessState.ExitCode()
		}()
		c.await(t, "2 of 100000\n")
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if code := <-c.code; code != 1 || !strings.HasSuffix(c.stderr.String(), "troupe: interrupted: the call is cancelled\n") {
			t.Errorf("%s: it ends with %d:\n%s", revision, code, c.stderr)
		}
		for end := time.Now().Add(hung); ; {
			if _, _, metrics := p.request(t, "GET", "/metrics", "", ""); strings.Contains(metrics, "\ntroupe_calls_in_flight 0\n") {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s: a call still runs", revision)
			}
		}
	}
}

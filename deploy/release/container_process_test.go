//go:build linux

package main

import (
	"bytes"
	"errors"
	"io"
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

	"github.com/troupe-run/troupe/test/kit/when"
)

// hung is how long to wait for what comes at once, unless something hangs.
const hung = 10 * time.Minute

// container is a root directory, what runs in it, as which user and with which variables, and a network that nobody else can reach.
type container struct {
	root    string
	user    int
	env     []string
	command []string // what runs the program, and the program
}

// isolate gives this test a network of its own. Only what the test itself starts is in it, as it belongs to a thread: t must not be left for another
// goroutine.
func isolate(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can change the root directory")
	}
	runtime.LockOSThread() // for ever: the thread is in no state for others, and ends with the test
	if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
		t.Skipf("this kernel gives no network of its own: unshare: %v", err)
	}
	if _, err := exec.LookPath("ip"); err != nil {
		when.Lacking(t, "there is no ip")
	}
	if out, err := exec.CommandContext(t.Context(), "ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		t.Skipf("the network of its own cannot be used: ip link set lo up: %v, %s", err, out)
	}
}

// prepare returns a command in the container.
func (c container) prepare(args []string, variables []string) *exec.Cmd {
	args = append(append([]string{}, c.command...), args...)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = "/", append(append([]string{}, c.env...), variables...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: c.root, Credential: &syscall.Credential{Uid: uint32(c.user), Gid: uint32(c.user)}}
	return cmd
}

// troupe runs a command to its end, and returns its exit code and what it has written.
func (c container) troupe(t *testing.T, args ...string) (int, string) {
	t.Helper()
	out, err := c.prepare(args, nil).CombinedOutput()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		return e.ExitCode(), string(out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0, string(out)
}

// becomes asks for the health until the answer has a code and a text.
func (c container) becomes(t *testing.T, code int, text string, args ...string) {
	t.Helper()
	args = append([]string{"health"}, args...)
	for end := time.Now().Add(hung); ; time.Sleep(50 * time.Millisecond) {
		got, out := c.troupe(t, args...)
		if got == code && strings.Contains(out, text) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("troupe %v ends with %d and %q, want %d and %q", args, got, out, code, text)
		}
	}
}

// is requires an answer of troupe health at once.
func (c container) is(t *testing.T, code int, text string, args ...string) {
	t.Helper()
	if got, out := c.troupe(t, append([]string{"health"}, args...)...); got != code || !strings.Contains(out, text) {
		t.Errorf("troupe health %v ends with %d and %q, want %d and %q", args, got, out, code, text)
	}
}

// process is a program that runs in a container.
type process struct {
	cmd    *exec.Cmd
	said   *lines
	exited chan error
}

// start starts the program as the first process of a container, which the system passes no signal that it does not handle.
func (c container) start(t *testing.T, args []string, variables ...string) *process {
	t.Helper()
	cmd := c.prepare(args, variables)
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID
	return begin(t, cmd)
}

// begin starts a command whose output is read while it runs.
func begin(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, said: &lines{wrote: make(chan struct{}, 1)}, exited: make(chan error, 1)}
	cmd.Stdout, cmd.Stderr = p.said, p.said
	if err := cmd.Start(); errors.Is(err, syscall.EPERM) {
		t.Skipf("this kernel starts no process in a container: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	go func() { p.exited <- cmd.Wait() }()
	return p
}

// await waits until the output of the process matches.
func (p *process) await(t *testing.T, pattern string) {
	t.Helper()
	late := time.After(hung)
	for !regexp.MustCompile(pattern).MatchString(p.said.String()) {
		select {
		case <-p.said.wrote:
		case err := <-p.exited:
			t.Fatalf("it ended (%v) before it wrote %s:\n%s", err, pattern, p.said)
		case <-late:
			t.Fatalf("it did not write %s in time:\n%s", pattern, p.said)
		}
	}
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// ends waits for the end of the process, which must have this exit code; -1 is that of one that was killed.
func (p *process) ends(t *testing.T, code int) {
	t.Helper()
	select {
	case <-p.exited:
		if got := p.cmd.ProcessState.ExitCode(); got != code {
			t.Fatalf("it ended with %d, want %d:\n%s", got, code, p.said)
		}
	case <-time.After(hung):
		t.Fatalf("it does not end:\n%s", p.said)
	}
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

// copyProgram copies a program of this machine into a root directory, with the libraries that it needs.
func copyProgram(t *testing.T, root, name string) {
	t.Helper()
	from, err := exec.LookPath(name)
	if err != nil {
		when.Lacking(t, "there is no "+name)
	}
	copyFile(t, from, filepath.Join(root, "usr/bin", name))
	libraries, _ := exec.Command("ldd", from).Output() // it fails for a program that needs none
	for _, m := range regexp.MustCompile(`(?m)(/\S+) \(0x`).FindAllStringSubmatch(string(libraries), -1) {
		copyFile(t, m[1], filepath.Join(root, m[1]))
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close(), os.Chmod(to, 0o755)); err != nil {
		t.Fatal(err)
	}
}

// userOf is the number of a user in the file of a root directory.
func userOf(t *testing.T, root, name string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "etc/passwd"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Split(line, ":"); fields[0] == name && len(fields) > 3 && fields[2] == fields[3] {
			id, err := strconv.Atoi(fields[2])
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
	}
	t.Fatalf("there is no user %s with a group of its own:\n%s", name, text)
	return 0
}

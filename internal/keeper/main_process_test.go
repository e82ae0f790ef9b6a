//go:build unix

package keeper

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The test's own program is the keeper, and each of the rude children.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "keeper":
			os.Exit(Main(os.Args[2:]))
		case "child":
			os.Exit(behave(os.Args[2:]))
		case "client":
			os.Exit(serveAndWait(os.Args[2:]))
		case "dial":
			os.Exit(dialOnly(os.Args[2]))
		case "embed":
			os.Exit(embedAndWait(os.Args[2]))
		}
	}
	os.Exit(m.Run())
}

// behave behaves as its first word says, with the rest of the words.
func behave(words []string) int {
	switch words[0] {
	case "echo": // reads lines and says them again
		lines := bufio.NewScanner(os.Stdin)
		lines.Buffer(nil, MaxLine+1)
		for lines.Scan() {
			fmt.Println(lines.Text())
		}
	case "deaf": // ends neither at the end of its input nor at a signal that it can ignore
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
		fmt.Println("ready")
		if path := os.Getenv("READY"); path != "" {
			_ = os.WriteFile(path, nil, 0o600)
		}
		_, _ = io.Copy(io.Discard, os.Stdin)
		block()
	case "mute": // does not read
		fmt.Println("ready")
		block()
	case "and": // starts another child beside it, and waits for it as npx does
		cmd := again(words[1:])
		if cmd.Start() != nil {
			return 1
		}
		signal.Ignore(syscall.SIGTERM)
		_ = cmd.Wait()
		block()
	case "leave": // starts another child and leaves it when it is ready
		path := filepath.Join(os.TempDir(), "ready-"+newToken())
		cmd := again(words[1:])
		cmd.Env = append(os.Environ(), "READY="+path)
		if cmd.Start() != nil {
			return 1
		}
		for os.Remove(path) != nil {
			time.Sleep(time.Millisecond)
		}
	case "away": // starts another one in a session of its own, whose parent ends, and stays itself
		middle := again(append([]string{"daemon"}, words[1:]...))
		if middle.Run() != nil {
			return 1
		}
		_, _ = io.Copy(io.Discard, os.Stdin)
		block()
	case "daemon":
		cmd := again(words[1:])
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if cmd.Start() != nil {
			return 1
		}
	case "strip": // has its child live in another environment
		cmd := again(words[1:])
		cmd.Env = []string{"A=b"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if cmd.Start() != nil {
			return 1
		}
	case "flood":
		line := []byte(strings.Repeat("x", 1000) + "\n")
		for {
			if _, err := os.Stdout.Write(line); err != nil {
				return 1
			}
		}
	case "complain":
		for i := range 20_000 {
			fmt.Fprintln(os.Stderr, "no", i)
		}
		fmt.Println("done")
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "zombies": // has children that end and are never waited for, some of which have children
		for range 10 {
			_ = again([]string{"daemon", "nothing"}).Start()
			_ = again([]string{"nothing"}).Start()
		}
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "nothing":
	case "long":
		_, _ = os.Stdout.Write(bytes.Repeat([]byte("x"), MaxLine+2))
		block()
	case "half":
		fmt.Fprintln(os.Stderr, "I cannot go on")
		fmt.Print("whole\nhalf")
		return 3
	case "say":
		n, _ := strconv.Atoi(words[1])
		for i := range n {
			fmt.Println("line", i+1)
		}
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "tell": // what it has
		dir, _ := os.Getwd()
		fmt.Println(strings.Join(os.Environ(), "|"), dir, openFiles())
	case "try": // what it may
		fmt.Println(attempt(words[1:]))
	}
	return 0
}

func attempt(words []string) string {
	var err error
	switch words[0] {
	case "read":
		_, err = os.ReadFile(words[1])
	case "write":
		err = os.WriteFile(words[1], []byte("x"), 0o600)
	case "files":
		n := 0
		for ; err == nil; n++ {
			_, err = os.Open("/dev/null")
		}
		return fmt.Sprint(n, " ", err)
	case "dial":
		_, err = net.Dial("tcp", "127.0.0.1:9")
	case "keeper":
		_, err = greeted(words[1])
	case "pid":
		return strconv.Itoa(os.Getpid())
	}
	if err != nil {
		return err.Error()
	}
	return "ok"
}

// block waits until the process is killed: with a timer, or the runtime takes it for a deadlock.
func block() {
	for {
		time.Sleep(time.Hour)
	}
}

// again is this program as another child, with the same files.
func again(words []string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], append([]string{"child"}, words...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd
}

// serveAndWait is a serve: it starts children, tells how many lines it has of each, and waits until it is killed.
func serveAndWait(words []string) int {
	socket, boot, keep := words[0], words[1], words[2]
	ctx := context.Background()
	k, err := time.ParseDuration(keep)
	if err != nil {
		return 2
	}
	c, err := Spawn(ctx, Options{Socket: socket, Log: quiet()}, Launch{Program: []string{os.Args[0], "keeper"}, Boot: boot, Keep: k})
	if err != nil {
		fmt.Println("spawn:", err)
		return 1
	}
	for i, role := range strings.Split(words[3], ",") {
		words := strings.Fields(role)
		grace, term := patience(words[0])
		p, err := c.Start(ctx, Spec{ID: fmt.Sprint("p", i), Note: role, Command: append([]string{os.Args[0], "child"}, words...), Grace: grace, Term: term})
		if err != nil {
			fmt.Println("start:", err)
			return 1
		}
		fmt.Println("pid", p.PID())
	}
	fmt.Println("up", c.PID())
	block()
	return 0
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// A fixture is a keeper and a client of it.
type fixture struct {
	*Client
	socket, boot string
	log          string
	stderr       *collected
}

// collected is what was relayed of standard error.
type collected struct {
	mu      sync.Mutex
	lines   []string
	dropped int
}

func (c *collected) add(_ string, line []byte, dropped int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, string(line))
	c.dropped += dropped
}

// spawned starts a keeper that ends with the test, and checks then that nothing of it is left.
func spawned(t *testing.T, keep time.Duration) *fixture {
	t.Helper()
	dir := t.TempDir()
	f := &fixture{socket: filepath.Join(dir, "keeper.sock"), boot: newToken(), log: filepath.Join(dir, "log"), stderr: &collected{}}
	c, err := Spawn(t.Context(), f.options(), Launch{Program: []string{ownProgram(t), "keeper"}, Boot: f.boot, Keep: keep, Log: f.log, Env: []string{"GORACE=log_path=" + f.log}})
	if err != nil {
		t.Fatal(err)
	}
	f.Client = c
	t.Cleanup(func() {
		races, _ := filepath.Glob(f.log + ".*") // of the keeper, under the detector
		for _, path := range races {
			text, _ := os.ReadFile(path)
			t.Errorf("%s: %s", path, text)
		}
	})
	t.Cleanup(func() {
		_ = syscall.Kill(c.PID(), syscall.SIGTERM)
		await(t, "the end of the keeper", func() bool { return syscall.Kill(c.PID(), 0) != nil })
		f.nothingLeft(t)
		if t.Failed() {
			text, _ := os.ReadFile(f.log)
			t.Logf("the keeper's log:\n%s", text)
		}
	})
	return f
}

func (f *fixture) options() Options {
	return Options{Socket: f.socket, Log: quiet(), Stderr: f.stderr.add}
}

func ownProgram(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// patience is how long a child has after the end of its input, and after SIGTERM. One that obeys has as long as a busy machine may need.
func patience(role string) (grace, term time.Duration) {
	switch role {
	case "echo", "say", "tell", "try", "half", "complain", "zombies":
		return time.Hour, time.Hour
	case "mute", "flood":
		return 50 * time.Millisecond, time.Hour
	}
	return 50 * time.Millisecond, 50 * time.Millisecond
}

// spec is a child by its role.
func spec(t testing.TB, id string, words ...string) Spec {
	t.Helper()
	grace, term := patience(words[0])
	return Spec{ID: id, Command: append([]string{ownProgram(t), "child"}, words...), Env: []string{"PATH=/usr/bin:/bin"}, Grace: grace, Term: term}
}

func (f *fixture) start(t *testing.T, s Spec) *Process {
	t.Helper()
	p, err := f.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// await waits for a condition, as long as the tests may run.
func await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for i := 1; !holds(); i++ {
		if i%6000 == 0 {
			t.Logf("still waits for %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// marked returns the processes that have a boot's mark.
func marked(t testing.TB, boot string) []procEntry {
	t.Helper()
	all, err := listProcesses()
	if errors.Is(err, errNoCensus) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return leftBehind(all, boot, markOf)
}

func (f *fixture) nothingLeft(t testing.TB) {
	t.Helper()
	await(t, "the end of what has the mark", func() bool { return len(marked(t, f.boot)) == 0 })
}

// expect receives one line.
func expect(t *testing.T, p *Process, want string) {
	t.Helper()
	line, err := p.Receive(t.Context())
	if err != nil || string(line.Text) != want {
		t.Fatalf("received %q, %v, want %q", line.Text, err, want)
	}
	p.Ack(line.Number)
}

func send(t *testing.T, p *Process, text string) uint64 {
	t.Helper()
	n, err := p.Send(t.Context(), []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestEcho has lines go to a process and come back, and its end follow that of its input.
func TestEcho(t *testing.T) {
	t.Parallel()
	f := spawned(t, time.Minute)
	p := f.start(t, spec(t, "a", "echo"))
	for _, text := range []string{"one", "", "three \x00 \xff", strings.Repeat("long ", 1<<20)} {
		n := send(t, p, text)
		expect(t, p, text)
		if err := p.HandedOver(t.Context(), n); err != nil {
			t.Error(err)
		}
	}
	if all, err := f.List(t.Context()); err != nil || len(all) != 1 || all[0].ID != "a" || all[0].PID != p.PID() || all[0].Written != 4 || all[0].Last != 4 || !all[0].Held {
		t.Errorf("list: %+v, %v", all, err)
	}
	if _, err := f.Start(t.Context(), spec(t, "a", "echo")); !errors.Is(err, ErrExists) {
		t.Errorf("the same id again: %v", err)
	}
	s, err := p.Stop(t.Context(), "enough")
	if err != nil || s.Code != 0 || s.Signal != "" || s.Reason != "enough" {
		t.Errorf("stopped: %+v, %v", s, err)
	}
	if _, err := p.Receive(t.Context()); !errors.Is(err, ErrExited) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := p.Send(t.Context(), nil); !errors.Is(err, ErrExited) {
		t.Errorf("sent after the end: %v", err)
	}
	await(t, "an empty list", func() bool { all, err := f.List(t.Context()); return err == nil && len(all) == 0 })
}

// TestBadLines are refused before anything is sent.
func TestBadLines(t *testing.T) {
	t.Parallel()
	f := spawned(t, time.Minute)
	p := f.start(t, spec(t, "a", "echo"))
	for _, line := range [][]byte{[]byte("a\nb"), make([]byte, MaxLine+1)} {
		if _, err := p.Send(t.Context(), line); !errors.Is(err, ErrLine) {
			t.Errorf("a line of %d bytes: %v", len(line), err)
		}
	}
	longest := bytes.Repeat([]byte("x"), MaxLine)
	if _, err := p.Send(t.Context(), longest); err != nil {
		t.Fatal(err)
	}
	expect(t, p, string(longest))
}

// TestHowItEnds has the status, the last lines of standard error and what came last.
func TestHowItEnds(t *testing.T) {
	t.Parallel()
	f := spawned(t, time.Minute)
	p := f.start(t, spec(t, "a", "half"))
	expect(t, p, "whole")
	expect(t, p, "half")
	<-p.Exited()
	s, err := p.Status()
	if err != nil || s.Code != 3 || s.Reason != "" || !slices.Equal(s.Stderr, []string{"I cannot go on"}) || s.Last != 2 {
		t.Errorf("%+v, %v", s, err)
	}
	for name, s := range map[string]Spec{"no program": {ID: "b", Command: []string{"there-is-none"}, Env: []string{"PATH=/bin"}}, "no directory": {ID: "b", Command: []string{"/bin/true"}, Dir: "/there-is-none"}, "no script": {ID: "b", Command: []string{"/etc/passwd"}}} {
		if _, err := f.Start(t.Context(), s); !errors.Is(err, ErrStart) {
			t.Errorf("%s: %v", name, err)
		}
	}
	q := f.start(t, spec(t, "c", "long"))
	<-q.Exited()
	if s, err := q.Status(); err != nil || !strings.Contains(s.Reason, "longer than 16777216 bytes") {
		t.Errorf("a long line: %+v, %v", s, err)
	}
}

// TestEnvironment has a process get nothing but what its spec says.
func TestEnvironment(t *testing.T) {
	t.Setenv("TROUPE_SECRET", "s")
	leaked, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = leaked.Close() }()
	if _, err := fcntl(int(leaked.Fd()), syscall.F_SETFD, 0); err != nil { // as a file that a service manager has passed on
		t.Fatal(err)
	}
	f := spawned(t, time.Minute)
	s := spec(t, "a", "tell")
	s.Dir = t.TempDir()
	p := f.start(t, s)
	line, err := p.Receive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	env, rest, _ := strings.Cut(string(line.Text), " ")
	if names := strings.Split(env, "|"); len(names) != 2 || names[0] != "PATH=/usr/bin:/bin" || !strings.HasPrefix(names[1], MarkName+"="+f.boot+"-") {
		t.Errorf("environment: %q", env)
	}
	// 3 is the directory that is being read; epoll's are the child's own.
	if !strings.HasPrefix(rest, s.Dir+" [0 1 2") || strings.Count(rest, " ") > 7 {
		t.Errorf("directory and files: %s", rest)
	}
	for _, fd := range filesOf(t, f.PID()) {
		if strings.Contains(fd, "/dev/null") && !strings.HasPrefix(fd, "0 ") && !strings.HasPrefix(fd, "1 ") && !strings.HasPrefix(fd, "2 ") {
			t.Errorf("the keeper has a file of its parent: %s", fd)
		}
	}
}

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/troupe-run/troupe/bench/client"
	"github.com/troupe-run/troupe/bench/loadgen"
)

// build compiles troupe, or bench/lab, into dir.
func build(ctx context.Context, dir string, host bool) (string, error) {
	bin, from := filepath.Join(dir, "troupe"), "github.com/troupe-run/troupe/cmd/troupe"
	if host {
		bin, from = filepath.Join(dir, "lab"), "github.com/troupe-run/troupe/bench/lab"
	}
	out, err := exec.CommandContext(ctx, "go", "build", "-o", bin, from).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", from, err, out)
	}
	return bin, nil
}

// process is a program that is started over and over with the same command.
type process struct {
	name   string // in a fleet
	health string // the URL that tells when it is ready, "" for that of troupe serve
	bin    string
	args   []string
	addr   string
	log    logTail

	cmd    *exec.Cmd
	exited chan error // receives the end of cmd
}

// newProcess makes a troupe that chooses an address that stays the same over all starts.
func newProcess(bin, data string, seed uint64, more ...string) (*process, error) {
	addr, err := freeAddress(seed)
	if err != nil {
		return nil, err
	}
	// All sessions come from one address.
	args := append([]string{"serve", "--data", data, "--listen", addr, "--set", "call-rate=1000000", "--set", "principal-rate=1000000", "--set", "log-rate=0", "--set", "page-size=7", "--set", "conformance=true"}, more...)
	return &process{bin: bin, args: args, addr: addr}, nil
}

// freeAddress looks for a port below those that the system hands to clients: a
// client that dials one of those while no server listens may connect to itself.
func freeAddress(seed uint64) (string, error) {
	for i := range uint64(200) {
		addr := fmt.Sprintf("127.0.0.1:%d", 20000+(seed*7+i*31+uint64(os.Getpid()))%10000)
		ln, err := net.Listen("tcp", addr)
		if err == nil {
			return addr, ln.Close()
		}
	}
	return "", errors.New("no free port")
}

// newTwin is a process with the same settings at another address.
func (p *process) newTwin() (*process, error) {
	addr, err := freeAddress(0) // all others are taken: their processes run
	if err != nil {
		return nil, err
	}
	other := &process{bin: p.bin, args: slices.Clone(p.args), addr: addr}
	for i, arg := range p.args {
		switch arg {
		case "--listen":
			other.args[i+1] = addr
		case "--data":
			other.args[i+1] += "-twin"
		}
	}
	return other, nil
}

// url is where the n-th server is.
func (p *process) url(n int) string {
	if n == 0 {
		return "http://" + p.addr + "/mcp"
	}
	return fmt.Sprintf("http://%s/s/%d/mcp", p.addr, n)
}

// start starts the process and does not wait for it to serve.
func (p *process) start() error {
	cmd := exec.Command(p.bin, p.args...)
	cmd.Stderr = &p.log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start troupe: %w", err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	p.cmd, p.exited = cmd, exited
	return nil
}

// startReady starts the process and waits until it is ready.
func (p *process) startReady(ctx context.Context) error {
	if err := p.start(); err != nil {
		return err
	}
	return p.untilReady(ctx)
}

func (p *process) untilReady(ctx context.Context) error {
	for end := time.Now().Add(2 * patience); !p.isReady(); {
		if time.Now().After(end) || !client.Sleep(ctx, 5*time.Millisecond) {
			return fmt.Errorf("%s is not ready: %s", p.name, p.log.lastLines(20))
		}
	}
	return nil
}

// isReady reports whether the process, or what is before several, is ready.
func (p *process) isReady() bool {
	r, err := http.Get(cmp.Or(p.health, "http://"+p.addr+"/readyz"))
	if err != nil {
		return false
	}
	_ = r.Body.Close()
	return r.StatusCode == http.StatusOK
}

// usedResources is the processor time that the process has taken, and its resident memory in bytes.
func (p *process) usedResources() (cpu time.Duration, resident int64) {
	if p.cmd == nil {
		return 0, 0
	}
	return loadgen.Used(p.cmd.Process.Pid)
}

// signal sends the process a signal.
func (p *process) signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// kill ends the process at once.
func (p *process) kill() error { return p.endWith(syscall.SIGKILL) }

// endInOrder has the process end by itself.
func (p *process) endInOrder() error { return p.endWith(syscall.SIGTERM) }

// endWith ends the process with a signal, and returns when it is gone. It fails when the process
// had ended before.
func (p *process) endWith(with syscall.Signal) error {
	if p.cmd == nil {
		return nil
	}
	select {
	case err := <-p.exited:
		p.cmd = nil
		return fmt.Errorf("%s ended by itself: %w", p.name, err)
	default:
	}
	if err := p.signal(with); err != nil {
		return err
	}
	select {
	case err := <-p.exited:
		if p.cmd = nil; with == syscall.SIGKILL {
			return nil
		}
		return err
	case <-time.After(2 * time.Minute):
		return fmt.Errorf("%s is there two minutes after %s: %s", p.name, with, p.log.lastLines(20))
	}
}

// logTail keeps the end of what a process writes, and all lines with an alarm in them.
type logTail struct {
	alarms []string // set before the process starts

	mu   sync.Mutex // guards the rest
	buf  []byte
	line []byte   // the beginning of a line
	said []string // lines with an alarm
}

const logKept = 64 << 10

func (l *logTail) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listen(b)
	l.buf = append(l.buf, b...)
	if over := len(l.buf) - logKept; over > 0 {
		l.buf = append(l.buf[:0], l.buf[over:]...)
	}
	return len(b), nil
}

// listen looks for alarms in what comes next.
func (l *logTail) listen(b []byte) {
	if l.alarms == nil {
		return
	}
	l.line = append(l.line, b...)
	for {
		line, rest, whole := bytes.Cut(l.line, []byte("\n"))
		if !whole {
			return
		}
		if text := string(line); slices.ContainsFunc(l.alarms, func(a string) bool { return strings.Contains(text, a) }) {
			l.said = append(l.said, text)
		}
		l.line = rest
	}
}

// raisedAlarms returns the lines with an alarm.
func (l *logTail) raisedAlarms() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.said)
}

// lastLines returns the last n lines.
func (l *logTail) lastLines(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := bytes.Split(bytes.TrimSpace(l.buf), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-n):], []byte("\n")))
}

// Package program runs the programs that are measured or harmed: each is started and ended as often
// as one likes, with the same command at the same address.
//
// A [Process] belongs to one goroutine, but that any may call IsReady, Used and Signal while it
// runs. Any goroutine may use its Log.
package program

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/troupe-run/troupe/bench/client"
	"github.com/troupe-run/troupe/bench/loadgen"
)

const (
	// readyWithin bounds the time until a process is ready, and goneWithin that until it has ended.
	readyWithin = time.Minute
	goneWithin  = 2 * time.Minute
)

// Signals with which Linux has a process stand still, and go on.
const (
	StandStill = syscall.Signal(19)
	Continue   = syscall.Signal(18)
)

// Process is a program that is started over and over.
type Process struct {
	Name   string // for errors
	Bin    string
	Next   string // if not "", the program of the start after the next one; then they take turns
	Args   []string
	Addr   string    // where it listens
	Health string    // the URL that answers with 200 once it is ready; "": it is ready when it takes connections
	In     io.Reader // its standard input; nil is none
	Env    []string  // beside the environment of this process
	Socket *os.File  // what it serves, as systemd hands it over; nil: it opens a socket itself
	Log    Log

	Exited chan error // receives the end of what was started last

	cmd *exec.Cmd
}

// FreeAddress looks for a port below those that the system hands to clients: a
// client that dials one of those while no server listens may connect to itself.
func FreeAddress(seed uint64) (string, error) {
	for i := range uint64(200) {
		addr := fmt.Sprintf("127.0.0.1:%d", 20000+(seed*7+i*31+uint64(os.Getpid()))%10000)
		ln, err := net.Listen("tcp", addr)
		if err == nil {
			return addr, ln.Close()
		}
	}
	return "", errors.New("no free port")
}

// URL is where the n-th copy of the demo is, or the only one.
func (p *Process) URL(n int) string {
	if n == 0 {
		return "http://" + p.Addr + "/mcp"
	}
	return fmt.Sprintf("http://%s/s/%d/mcp", p.Addr, n)
}

// Start starts the process and does not wait for it to serve.
func (p *Process) Start() error {
	cmd := exec.Command(p.Bin, p.Args...)
	if p.Socket != nil {
		// The process must know its own number, which it has once it is there.
		cmd = exec.Command("sh", append([]string{"-c", `LISTEN_PID=$$; export LISTEN_PID; exec "$0" "$@"`, p.Bin}, p.Args...)...)
		cmd.Env, cmd.ExtraFiles = []string{"LISTEN_FDS=1"}, []*os.File{p.Socket}
	}
	cmd.Env = slices.Concat(os.Environ(), p.Env, cmd.Env)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.In, &p.Log, &p.Log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.Bin, err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	p.cmd, p.Exited = cmd, exited
	if p.Next != "" {
		p.Bin, p.Next = p.Next, p.Bin
	}
	return nil
}

// StartReady starts the process and waits until it is ready.
func (p *Process) StartReady(ctx context.Context) error {
	if err := p.Start(); err != nil {
		return err
	}
	return p.UntilReady(ctx)
}

// UntilReady waits until the process is ready.
func (p *Process) UntilReady(ctx context.Context) error {
	for end := time.Now().Add(readyWithin); !p.IsReady(); {
		if len(p.Exited) > 0 || time.Now().After(end) || !client.Sleep(ctx, 5*time.Millisecond) {
			return fmt.Errorf("%s is not ready: %s", p.Name, p.Log.LastLines(20))
		}
	}
	return nil
}

// IsReady reports whether the process, or what is before several, is ready.
func (p *Process) IsReady() bool {
	if p.Health == "" {
		conn, err := net.Dial("tcp", p.Addr)
		return err == nil && conn.Close() == nil
	}
	r, err := http.Get(p.Health)
	if err != nil {
		return false
	}
	_ = r.Body.Close()
	return r.StatusCode == http.StatusOK
}

// Running is the process that was started last, nil once it was ended.
func (p *Process) Running() *os.Process {
	if p.cmd == nil {
		return nil
	}
	return p.cmd.Process
}

// Used is the processor time that the process has taken, and its resident memory in bytes.
func (p *Process) Used() (cpu time.Duration, resident int64) {
	if p.cmd == nil {
		return 0, 0
	}
	return loadgen.Used(p.cmd.Process.Pid)
}

// Signal sends the process a signal.
func (p *Process) Signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// Kill ends the process at once.
func (p *Process) Kill() error { return p.EndWith(syscall.SIGKILL) }

// End has the process end by itself.
func (p *Process) End() error { return p.EndWith(syscall.SIGTERM) }

// EndWith ends the process with a signal, and returns when it is gone. It fails when the process
// had ended before.
func (p *Process) EndWith(with syscall.Signal) error {
	if p.cmd == nil {
		return nil
	}
	select {
	case err := <-p.Exited:
		p.cmd = nil
		return fmt.Errorf("%s ended by itself: %w", p.Name, err)
	default:
	}
	if err := p.Signal(with); err != nil {
		return err
	}
	select {
	case err := <-p.Exited:
		if p.cmd = nil; with == syscall.SIGKILL {
			return nil
		}
		return err
	case <-time.After(goneWithin):
		return fmt.Errorf("%s is there %v after %s: %s", p.Name, goneWithin, with, p.Log.LastLines(20))
	}
}

// Metrics reads what troupe at an address says at /metrics: values by the names of their series.
func Metrics(addr string) (map[string]float64, error) {
	resp, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	m := make(map[string]float64)
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), " ")
		if v, err := strconv.ParseFloat(text, 64); err == nil {
			m[name] = v
		}
	}
	return m, lines.Err()
}

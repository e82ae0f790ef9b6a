//go:build linux

package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-run/troupe/test/kit/when"
)

// listeningManager stands for systemd: it hears what a process tells.
type listeningManager struct {
	socket string
	heard  chan string
}

func newListeningManager(t *testing.T) *listeningManager {
	t.Helper()
	dir, err := os.MkdirTemp("", "troupe-") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	m := &listeningManager{filepath.Join(dir, "notify"), make(chan string, 1000)}
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	go func() {
		for b := make([]byte, 4096); ; {
			n, err := c.Read(b)
			if err != nil {
				return
			}
			select {
			case m.heard <- string(b[:n]):
			default: // of its watchdog, and nobody waits any more
			}
		}
	}()
	return m
}

// hears waits for the next message whose first line is not that of the watchdog, or is, which must match.
func (m *listeningManager) hears(t *testing.T, pattern string) []string {
	t.Helper()
	late := time.After(hung)
	for {
		select {
		case state := <-m.heard:
			if state == "WATCHDOG=1" && pattern != state {
				continue
			}
			found := regexp.MustCompile("(?s)^" + pattern + "$").FindStringSubmatch(state)
			if found == nil {
				t.Fatalf("the manager hears %q, want %s", state, pattern)
			}
			return found
		case <-late:
			t.Fatalf("the manager does not hear %s", pattern)
		}
	}
}

// TestServiceManagerHears starts a process, has it read its file again, and ends it; the manager hears of each, and of its health.
func TestServiceManagerHears(t *testing.T) {
	t.Parallel()
	m := newListeningManager(t)
	file := writeConfig(t, "page-size: 7\n")
	p := start(t, "--memory", "--config", file, "--drain-delay", "0s", "NOTIFY_SOCKET="+m.socket, "WATCHDOG_USEC=100000")
	m.hears(t, "READY=1\nSTATUS=serving MCP on "+regexp.QuoteMeta(p.base)+"/mcp")
	m.hears(t, "WATCHDOG=1")
	p.signal(t, syscall.SIGHUP)
	at := m.hears(t, "RELOADING=1\nSTATUS=.*\nMONOTONIC_USEC=(\\d+)")[1]
	if usec, err := strconv.ParseInt(at, 10, 64); err != nil || usec <= 0 || time.Duration(usec)*time.Microsecond > monotonic() {
		t.Errorf("the reload began at %s, and it is %d", at, monotonic().Microseconds())
	}
	m.hears(t, "READY=1\nSTATUS=serving .*")
	if err := os.WriteFile(file, []byte("page-size: many\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.signal(t, syscall.SIGHUP) // refused, and the process goes on
	m.hears(t, "RELOADING=1\n.*")
	m.hears(t, "READY=1\n.*")
	p.signal(t, syscall.SIGTERM)
	m.hears(t, "STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC=\\d+")
	if code := p.exit(t); code != 0 {
		t.Errorf("it ended with %d:\n%s", code, p.stderr)
	}
}

// handOver gives the sockets of listeners to a process, as systemd does.
func handOver(t *testing.T, names string, sockets ...net.Listener) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) {
		for _, ln := range sockets {
			f, err := ln.(*net.TCPListener).File()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = f.Close() })
			cmd.ExtraFiles = append(cmd.ExtraFiles, f)
		}
		// The process must know its own number, which it has once it is there.
		cmd.Args = append([]string{"sh", "-c", `LISTEN_PID=$$; export LISTEN_PID; exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
		cmd.Path = "/bin/sh"
		cmd.Env = append(cmd.Env, fmt.Sprintf("LISTEN_FDS=%d", len(sockets)), "LISTEN_FDNAMES="+names)
	}
}

// TestRestartsOnOneSocket starts one process after another on a socket that stays open, while clients of 2026-07-28 call, each over a connection of its own: none is refused, and each call
// has its result. The last process also has a socket for the probes.
func TestRestartsOnOneSocket(t *testing.T) {
	t.Parallel()
	when.Full(t, "a process that ends gives its last clients a second of real time, which a busy machine may need itself")
	binary(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// As DeferAcceptSec has it in a unit: a process is given connections whose request has come. Without it a client that does nothing for a second after it has
	// connected may find its connection closed, and on a busy machine clients do.
	raw, err := ln.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var refused error
	if err := raw.Control(func(fd uintptr) {
		refused = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_DEFER_ACCEPT, 60)
	}); err != nil || refused != nil {
		t.Skipf("the system accepts connections before their requests: %v, %v", err, refused)
	}
	base := "http://" + ln.Addr().String()

	var calls atomic.Int64
	stop, answered, failed := make(chan struct{}), make(chan struct{}, 1), make(chan struct{}, 4)
	var clients sync.WaitGroup
	halt := sync.OnceFunc(func() { close(stop) })
	t.Cleanup(func() {
		halt()
		_ = ln.Close()
		clients.Wait()
	})
	for i := range 4 {
		tr := &http.Transport{DisableKeepAlives: true}
		c := &http.Client{Transport: tr}
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				text := fmt.Sprintf("client %d, call %d", i, calls.Add(1))
				status, body, err := callAlone(c, base, fmt.Sprintf(`{"text":%q}`, text))
				if err != nil || status != http.StatusOK || !strings.Contains(body, `"text":"`+text+`"`) {
					t.Errorf("%s: %d %s, %v", text, status, body, err)
					failed <- struct{}{}
					return
				}
				select {
				case answered <- struct{}{}:
				default:
				}
			}
		})
	}
	data := t.TempDir()
	serve := func(names string, sockets ...net.Listener) *process {
		t.Helper()
		p := startPrepared(t, handOver(t, names, sockets...), "--data", data, "--drain-delay", "0s", "--set", "call-rate=0", "--set", "principal-rate=0")
		p.base = p.await(t, `serves MCP on (http://127\.0\.0\.1:\d+)/mcp`)[1]
		if p.base != base {
			t.Errorf("it serves on %s, want %s", p.base, base)
		}
		for range 20 { // whether they were sent before or since
			select {
			case <-answered:
			case <-failed:
				t.Fatalf("a call has failed:\n%s", p.stderr)
			case <-time.After(hung):
				t.Fatalf("no call is answered:\n%s", p.stderr)
			}
		}
		return p
	}
	for range 3 {
		p := serve("troupe.socket", ln)
		p.signal(t, syscall.SIGTERM)
		if code := p.exit(t); code != 0 {
			t.Errorf("it ended with %d:\n%s", code, p.stderr)
		}
	}
	probes, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = probes.Close() }()
	p := serve("health:http", probes, ln)
	if code, out, errs := outputOf("health", "--listen", probes.Addr().String(), "--ready"); code != 0 || !strings.HasSuffix(out, "/readyz: ready\n") {
		t.Errorf("its probes: %d, %q and %q", code, out, errs)
	}
	halt()
	clients.Wait()
	p.signal(t, syscall.SIGTERM)
	if code := p.exit(t); code != 0 {
		t.Errorf("it ended with %d:\n%s", code, p.stderr)
	}
	t.Logf("%d calls", calls.Load())
}

// TestSocketsThatCannotBeServed hands over what is wrong.
func TestSocketsThatCannotBeServed(t *testing.T) {
	t.Parallel()
	binary(t)
	var sockets [2]net.Listener
	for i := range sockets {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = ln.Close() }()
		sockets[i] = ln
	}
	p := startPrepared(t, handOver(t, "one:two", sockets[:]...), "--memory")
	if code := p.exit(t); code != 1 || !strings.Contains(p.stderr.String(), "two sockets for listen, the second being two") {
		t.Errorf("it ended with %d:\n%s", code, p.stderr)
	}
	p = startPrepared(t, func(cmd *exec.Cmd) {
		handOver(t, "http")(cmd)
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		cmd.ExtraFiles, cmd.Env = append(cmd.ExtraFiles, f), append(cmd.Env, "LISTEN_FDS=1")
	}, "--memory")
	if code := p.exit(t); code != 1 || !strings.Contains(p.stderr.String(), "http, which is no socket that listens") {
		t.Errorf("it ended with %d:\n%s", code, p.stderr)
	}
}

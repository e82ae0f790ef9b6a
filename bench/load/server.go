package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/examples/everything"
)

// serveBare answers every request with a constant.
func serveBare(addr string) {
	answer := []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", 105) + `"}]}}`)
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header()["Content-Type"] = []string{"application/json"}
		w.Header()["Mcp-Session-Id"] = []string{"bare"}
		_, _ = w.Write(answer)
	})
	mux.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	check(http.ListenAndServe(addr, mux))
}

// beyondLoad is a rate of calls per second that no load here reaches, so that the
// limiter runs and refuses nothing.
const beyondLoad = 1_000_000

// serveHandler serves the demo as a handler in a server like the bare one.
func serveHandler(addr string) {
	rt, err := troupe.New(troupe.Options{Limits: troupe.Limits{CallRate: beyondLoad}, Shared: troupe.SharedLimits{PrincipalRate: beyondLoad}})
	check(err)
	rt.Mount("/mcp", everything.New())
	mux := http.NewServeMux()
	mux.Handle("/mcp", rt)
	mux.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	check(http.ListenAndServe(addr, mux))
}

// process is a server that has been started.
type process struct {
	cmd  *exec.Cmd
	addr string
}

func startServer(args func(addr string) []string) *process {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	addr := l.Addr().String()
	check(l.Close())
	a := args(addr)
	p := &process{cmd: exec.Command(a[0], a[1:]...), addr: addr}
	p.cmd.Stderr = io.Discard
	check(p.cmd.Start())
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		r, err := http.Get("http://" + addr + "/readyz")
		if err == nil {
			_ = r.Body.Close()
			return p
		}
		if time.Now().After(deadline) {
			check(fmt.Errorf("%v is not ready: %w", a, err))
		}
	}
}

func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	done := make(chan struct{})
	go func() { _ = p.cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		_ = p.cmd.Process.Kill()
		<-done
	}
}

// cpu is the user and system time that the process has used.
func (p *process) cpu() time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	check(err)
	_, rest, _ := strings.Cut(string(data), ") ")
	f := strings.Fields(rest)
	user, err := strconv.ParseInt(f[11], 10, 64)
	check(err)
	system, err := strconv.ParseInt(f[12], 10, 64)
	check(err)
	return time.Duration(user+system) * (time.Second / 100) // clock ticks of Linux
}

// rss is the resident memory in bytes.
func (p *process) rss() int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	check(err)
	pages, err := strconv.ParseInt(strings.Fields(string(data))[1], 10, 64)
	check(err)
	return pages * int64(os.Getpagesize())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"github.com/troupe-run/troupe/bench/compare/repair"
	"github.com/troupe-run/troupe/bench/loadgen"
)

// A server is one of those that are compared.
type server struct {
	name         string
	bare         bool // it echoes nothing
	sessionsOnly bool // it does not serve 2026-07-28
	args         func(b binaries, s scenario) []string
}

// base is the server whose cost the others are multiples of.
const base = "bare"

var servers = []server{
	{name: base, bare: true, args: bare(base)},
	{name: "bare-fasthttp", bare: true, args: bare("bare-fasthttp")},
	{name: "troupe-handler", args: peer("troupe-handler")},
	{name: "troupe-serve", args: func(b binaries, _ scenario) []string {
		return []string{b.troupe, "serve", "--memory", "--listen", "127.0.0.1:0", "--log-level", "error", "--drain-delay", "1ms", "--call-rate", "0", "--principal-rate", "0"}
	}},
	{name: "mcp-go", args: peer("mcp-go")},
	{name: "gosdk", sessionsOnly: true, args: peer("gosdk")},
	{name: "gosdk-fixed", sessionsOnly: true, args: repaired("gosdk")},
	{name: "gosdk-stateless", args: peer("gosdk-stateless")},
	{name: "gosdk-stateless-fixed", args: repaired("gosdk-stateless")},
}

// peer is a kind of bench/peers.
func peer(kind string) func(binaries, scenario) []string {
	return func(b binaries, _ scenario) []string { return []string{b.peers, "--kind", kind} }
}

// repaired is a kind of bench/peers, built with the SDK that package repair makes.
func repaired(kind string) func(binaries, scenario) []string {
	return func(b binaries, _ scenario) []string { return []string{b.repaired, "--kind", kind} }
}

// bare is a kind that answers with as many bytes as an echo would have.
func bare(kind string) func(binaries, scenario) []string {
	return func(b binaries, s scenario) []string {
		return []string{b.peers, "--kind", kind, "--size", strconv.Itoa(s.size)}
	}
}

func (v server) speaks(s scenario) bool { return !v.sessionsOnly || s.revision != loadgen.Stateless }

// binaries are the programs that are run, and the directory where they are.
type binaries struct {
	dir                     string
	troupe, peers, repaired string
}

// peersModule is the module of the servers, from the root of the repository.
const peersModule = "bench/peers"

// build builds everything into dir.
func build(ctx context.Context, dir string) (binaries, error) {
	b := binaries{dir, filepath.Join(dir, "troupe"), filepath.Join(dir, "peers"), filepath.Join(dir, "peers-repaired")}
	sdk := filepath.Join(dir, "sdk")
	if err := os.Mkdir(sdk, 0o755); err != nil {
		return b, err
	}
	modfile, err := repair.Modfile(ctx, peersModule, sdk)
	if err != nil {
		return b, err
	}
	for _, args := range [][]string{
		{"build", "-o", b.troupe, "./cmd/troupe"},
		{"-C", peersModule, "build", "-o", b.peers, "."},
		{"-C", peersModule, "build", "-modfile", modfile, "-o", b.repaired, "."},
	} {
		if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
			return b, fmt.Errorf("go %v: %w\n%s", args, err, out)
		}
	}
	return b, nil
}

// process is a server that runs.
type process struct {
	cmd    *exec.Cmd
	url    string
	exited chan struct{}
}

// startWithin bounds the time until a server prints its URL.
const startWithin = 30 * time.Second

var endpoint = regexp.MustCompile(`http://\S+/mcp`)

// start starts a server, and returns once it has printed its URL.
func start(ctx context.Context, args []string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, args[0], args[1:]...), exited: make(chan struct{})}
	out, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.cmd.Stdout, p.cmd.Stderr = w, w
	err = p.cmd.Start()
	_ = w.Close() // of this process
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	found, said := make(chan string, 1), make(chan string, 1)
	go func() {
		defer out.Close()
		lines, before := bufio.NewReader(out), ""
		for {
			line, err := lines.ReadString('\n')
			before += line
			if url := endpoint.FindString(line); url != "" {
				found <- url
				_, _ = io.Copy(io.Discard, lines)
				return
			}
			if err != nil {
				said <- before
				return
			}
		}
	}()
	late := time.NewTimer(startWithin)
	defer late.Stop()
	select {
	case p.url = <-found:
		return p, nil
	case text := <-said:
		p.stop()
		return nil, fmt.Errorf("%v ends without a URL: %s", args, text)
	case <-late.C:
		p.stop()
		return nil, fmt.Errorf("%v does not say within %v where it listens", args, startWithin)
	}
}

// stopWithin bounds the time that a server may take to end.
const stopWithin = 5 * time.Second

// stop ends the server.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(stopWithin):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

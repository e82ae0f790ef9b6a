package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// stdioProcess is a running troupe stdio.
type stdioProcess struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	close  func() error // of the reading end
	stderr bytes.Buffer
}

// startStdio starts the process. Arguments that begin with OTEL_ are of its environment.
func startStdio(t *testing.T, args ...string) *stdioProcess {
	t.Helper()
	args, env := withoutVariables(args)
	p := &stdioProcess{t: t, cmd: exec.Command(binary(t), append([]string{"stdio", "--set", "conformance=true"}, args...)...)}
	p.cmd.Stderr, p.cmd.Env = &p.stderr, env
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out, p.close = bufio.NewScanner(out), out.Close
	p.out.Buffer(nil, 1<<20)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
	})
	return p
}

func (p *stdioProcess) send(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.t.Fatalf("write: %v; stderr: %s", err, &p.stderr)
	}
}

// message reads the next line, which must be a JSON-RPC message.
func (p *stdioProcess) message() (text string) {
	p.t.Helper()
	if !p.out.Scan() {
		p.t.Fatalf("the output ended: %v; stderr: %s", p.out.Err(), &p.stderr)
	}
	var m struct {
		Version string `json:"jsonrpc"`
	}
	if err := json.Unmarshal(p.out.Bytes(), &m); err != nil || m.Version != "2.0" {
		p.t.Fatalf("no message on standard output: %s", p.out.Text())
	}
	return p.out.Text()
}

func (p *stdioProcess) begin() {
	p.t.Helper()
	p.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	p.message()
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// exit waits for the end of the process, which must come in time and in order.
func (p *stdioProcess) exit() {
	p.t.Helper()
	for p.out.Scan() {
		p.t.Errorf("after the last answer: %s", p.out.Text())
	}
	ended := make(chan error, 1)
	go func() { ended <- p.cmd.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			p.t.Errorf("exit: %v; stderr: %s", err, &p.stderr)
		}
	case <-time.After(hung):
		p.t.Error("still there")
	}
}

func TestStdioProcess(t *testing.T) {
	t.Run("10000 calls", func(t *testing.T) {
		p := startStdio(t)
		p.begin()
		const n = 10000
		go func() {
			w := bufio.NewWriter(p.in)
			for i := 1; i <= n; i++ {
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"number %d"}}}`+"\n", i, i)
			}
			_ = w.Flush()
		}()
		seen := make(map[string]bool)
		for range n {
			seen[p.message()] = true
		}
		for i := 1; i <= n; i++ {
			if want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"number %d"}]}}`, i, i); !seen[want] {
				t.Fatalf("no answer %s", want)
			}
		}
		_ = p.in.Close()
		p.exit()
		if p.stderr.Len() > 0 {
			t.Errorf("at its default level it logs %s", &p.stderr)
		}
	})
	t.Run("input ends in mid-call", func(t *testing.T) {
		p := startStdio(t)
		p.begin()
		p.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sleep","arguments":{"ms":300}}}`)
		_ = p.in.Close()
		if got := p.message(); !strings.Contains(got, "slept 300 ms") {
			t.Error(got)
		}
		p.exit()
	})
	t.Run("SIGTERM in mid-call", func(t *testing.T) {
		p := startStdio(t)
		p.begin()
		p.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sleep","arguments":{"ms":600000}}}`)
		p.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
		p.message()
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if got := p.message(); !strings.Contains(got, "-32010") {
			t.Error(got)
		}
		p.exit()
	})
	t.Run("the reader goes", func(t *testing.T) {
		p := startStdio(t)
		p.begin()
		_ = p.close()
		for {
			_, err := io.WriteString(p.in, `{"jsonrpc":"2.0","id":2,"method":"ping"}`+"\n")
			if errors.Is(err, syscall.EPIPE) {
				break // it has ended
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		p.exit()
	})
}

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// collected begins the line that a server prints when it has collected its garbage and given back
// the memory.
const collected = "collected"

// process is a server that runs.
type process struct {
	cmd       *exec.Cmd
	url       string
	exited    chan struct{}
	in        io.WriteCloser // its standard input
	collected chan string    // gets what is live, for each line that says so
}

// startWithin bounds the time until a server prints its URL.
const startWithin = 30 * time.Second

// Where a server listens, as it prints it.
var (
	endpoint = regexp.MustCompile(`http://\S+/mcp`)
	natsURL  = regexp.MustCompile(`nats://\S+`)
)

// startProcess starts a server, and returns once it has printed its URL, which is of the form that
// is given.
func startProcess(ctx context.Context, args []string, form *regexp.Regexp) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, args[0], args[1:]...), exited: make(chan struct{}), collected: make(chan string, 1)}
	out, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, errors.Join(err, out.Close(), w.Close())
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
			if url := form.FindString(line); url != "" {
				found <- url
				p.readCollected(lines)
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

// readCollected reads what the server prints until it ends.
func (p *process) readCollected(lines *bufio.Reader) {
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		if live, ok := strings.CutPrefix(line, collected+" "); ok {
			p.collected <- strings.TrimSpace(live)
		}
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

// collectWithin bounds the time that a server may take to collect.
const collectWithin = time.Minute

// collect has the server collect its garbage and give back the memory, and returns what is live
// when it has, in bytes.
func (p *process) collect(ctx context.Context) (int64, error) {
	if _, err := p.in.Write([]byte("\n")); err != nil {
		return 0, fmt.Errorf("ask the server to collect: %w", err)
	}
	late := time.NewTimer(collectWithin)
	defer late.Stop()
	select {
	case text := <-p.collected:
		return strconv.ParseInt(text, 10, 64)
	case <-p.exited:
		return 0, errors.New("the server has ended")
	case <-late.C:
		return 0, fmt.Errorf("the server does not collect within %v", collectWithin)
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// settle is collect for what does not look at what is live.
func (p *process) settle(ctx context.Context) error {
	_, err := p.collect(ctx)
	return err
}

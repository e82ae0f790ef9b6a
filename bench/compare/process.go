package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/bench/client"
	"github.com/troupe-run/troupe/bench/program"
)

// collected begins the line that a server prints when it has collected its garbage and given back
// the memory.
const collected = "collected"

// process is a server that runs.
type process struct {
	program.Process
	ask *os.File // what comes here has it collect
}

// startProcess starts a server at an address of its own, which args get as the value of listen, and
// returns once it takes connections.
func startProcess(ctx context.Context, listen string, args []string) (*process, error) {
	addr, err := program.FreeAddress(0)
	if err != nil {
		return nil, err
	}
	if listen == "--port" {
		_, port, _ := strings.Cut(addr, ":")
		args = append(args, listen, port)
	} else {
		args = append(args, listen, addr)
	}
	p := &process{Process: program.Process{Name: args[0], Bin: args[0], Args: args[1:], Addr: addr}}
	in, ask, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close() // of this process
	p.In, p.ask, p.Log.Alarms = in, ask, []string{collected + " "}
	if err := p.StartReady(ctx); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// stop ends the server.
func (p *process) stop() { _ = errors.Join(p.Kill(), p.ask.Close()) }

// pid is the id of the process.
func (p *process) pid() int { return p.Running().Pid }

// collectWithin bounds the time that a server may take to collect.
const collectWithin = time.Minute

// collect has the server collect its garbage and give back the memory, and returns what is live
// when it has, in bytes.
func (p *process) collect(ctx context.Context) (int64, error) {
	before := len(p.Log.Alarmed())
	if _, err := io.WriteString(p.ask, "\n"); err != nil {
		return 0, fmt.Errorf("ask the server to collect: %w", err)
	}
	for end := time.Now().Add(collectWithin); time.Now().Before(end) && len(p.Exited) == 0; {
		if said := p.Log.Alarmed(); len(said) > before {
			return strconv.ParseInt(strings.TrimPrefix(said[before], collected+" "), 10, 64)
		}
		if !client.Sleep(ctx, 5*time.Millisecond) {
			return 0, context.Cause(ctx)
		}
	}
	return 0, fmt.Errorf("the server has ended, or does not collect within %v", collectWithin)
}

// settle is collect for what does not look at what is live.
func (p *process) settle(ctx context.Context) error {
	_, err := p.collect(ctx)
	return err
}

package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/troupe-run/troupe/bench/program"
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

// plainProcess is a troupe with the demo and default settings, at an address that stays the same over
// all starts.
func plainProcess(bin string, seed uint64, flags ...string) (*program.Process, error) {
	addr, err := program.FreeAddress(seed)
	return &program.Process{Bin: bin, Addr: addr, Health: "http://" + addr + "/readyz", Args: append([]string{"serve", "--listen", addr, "--set", "conformance=true"}, flags...)}, err
}

// newProcess is one for many clients, all of whose sessions come from one address.
func newProcess(bin, data string, seed uint64, more ...string) (*program.Process, error) {
	return plainProcess(bin, seed, append([]string{"--data", data, "--set", "call-rate=1000000", "--set", "principal-rate=1000000", "--set", "log-rate=0"}, more...)...)
}

// takeTurns has the first start of a process be of the other release, and each start after that of
// the one that was not started last.
func takeTurns(p *program.Process, o *options) {
	if o.old != "" {
		p.Bin, p.Next = o.old, p.Bin
	}
}

// newTwin is a process with the same settings at another address.
func newTwin(p *program.Process) (*program.Process, error) {
	addr, err := program.FreeAddress(0) // all others are taken: their processes run
	if err != nil {
		return nil, err
	}
	other := &program.Process{Bin: p.Bin, Args: slices.Clone(p.Args), Addr: addr}
	for i, arg := range p.Args {
		switch arg {
		case "--listen":
			other.Args[i+1] = addr
		case "--data":
			other.Args[i+1] += "-twin"
		}
	}
	return other, nil
}

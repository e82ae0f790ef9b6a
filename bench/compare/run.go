package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/bench/loadgen"
)

// A run is a server that is measured at a scenario.
type run struct {
	b      binaries
	v      server
	s      scenario
	length time.Duration // that counts
	p      *process
}

// calls measures calls.
func (r run) calls(ctx context.Context) (result, error) {
	p, err := r.bench(ctx, "--duration", r.length.String())
	if err != nil {
		return result{}, err
	}
	return r.resultOf(p), nil
}

// bench puts the load of the scenario on the server. The load generator is a process of its own.
func (r run) bench(ctx context.Context, more ...string) (*loadgen.Report, error) {
	file := filepath.Join(r.b.dir, "report.json")
	args := append([]string{"bench", r.p.url, "--json", file, "--pid", strconv.Itoa(r.p.cmd.Process.Pid), "--clients", strconv.Itoa(r.s.clients),
		"--revision", r.s.revision, "--size", strconv.Itoa(r.s.size)}, more...)
	if r.v.bare { // Its text is not the client's: with arguments of the user's the load generator does not look at it.
		arguments := filepath.Join(r.b.dir, "arguments.json")
		if err := os.WriteFile(arguments, []byte(`{"text":"`+strings.Repeat("x", r.s.size)+`"}`), 0o600); err != nil {
			return nil, err
		}
		args = append(args, "--arguments", "@"+arguments)
	}
	if out, err := exec.CommandContext(ctx, r.b.troupe, args...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return loadgen.Read(file)
}

// resultOf returns what a report of calls says.
func (r run) resultOf(p *loadgen.Report) result {
	got := result{Scenario: r.s.name, Server: r.v.name, CPU: p.CPU, P50: p.Latency.P50, P99: p.Latency.P99, PerSecond: p.PerSecond, Resident: p.Resident}
	got.fail(p)
	return got
}

package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/bench/loadgen"
)

// measure starts a server, puts a load on it for as long as is given, and stops it.
func measure(ctx context.Context, b binaries, v server, s scenario, length time.Duration) (result, error) {
	p, err := start(ctx, v.args(b, s))
	if err != nil {
		return result{}, err
	}
	defer p.stop()
	file := filepath.Join(b.dir, "report.json")
	args := []string{"bench", p.url, "--json", file, "--pid", strconv.Itoa(p.cmd.Process.Pid), "--clients", strconv.Itoa(s.clients),
		"--revision", s.revision, "--size", strconv.Itoa(s.size), "--duration", length.String()}
	if v.bare { // Its text is not the client's: with arguments of the user's the load generator does not look at it.
		args = append(args, "--arguments", `{"text":"`+strings.Repeat("x", s.size)+`"}`)
	}
	if out, err := exec.CommandContext(ctx, b.troupe, args...).CombinedOutput(); err != nil {
		return result{}, fmt.Errorf("%w: %s", err, out)
	}
	r, err := loadgen.Read(file)
	if err != nil {
		return result{}, err
	}
	return result{Scenario: s.name, Server: v.name, CPU: r.CPU, P50: r.Latency.P50, P99: r.Latency.P99, PerSecond: r.PerSecond, Failed: r.Failed(), Resident: r.Resident}, nil
}

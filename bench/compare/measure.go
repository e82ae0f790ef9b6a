package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/bench/client"
	"github.com/troupe-run/troupe/bench/loadgen"
	"github.com/troupe-run/troupe/bench/program"
)

// A measurement is a server that is measured at a scenario.
type measurement struct {
	b      binaries
	v      server
	s      scenario
	length time.Duration // that counts
	p      *process
}

// measureServer starts a server, measures it at a scenario for as long as is given, and stops it.
func measureServer(ctx context.Context, b binaries, v server, s scenario, length time.Duration) (result, error) {
	dir, err := os.MkdirTemp(b.dir, "data")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(dir)
	r := measurement{b: b, v: v, s: s, length: length}
	switch {
	case s.group == nodes:
		return measureNodes(ctx, r, dir)
	case v.name == direct:
		return r.measureDirect(ctx)
	}
	listen := "--listen"
	if v.npm {
		listen = "--port"
	}
	p, err := startProcess(ctx, listen, v.args(b, s, dir))
	if err != nil {
		return result{}, err
	}
	defer p.stop()
	r.p = p
	switch s.group {
	case sessions, rest, streams:
		return r.measureHeld(ctx)
	case waiting:
		return r.measureWaiting(ctx)
	case beside:
		if s.name == "noisy" {
			return r.measureBesideNoise(ctx)
		}
		return r.measureBesideSlow(ctx)
	}
	return r.measureCalls(ctx)
}

// measureCalls measures calls.
func (r measurement) measureCalls(ctx context.Context) (result, error) {
	more := []string{"--duration", r.length.String()}
	if r.s.group == hosted { // a keeper is there with the first call
		if _, err := r.putLoad(ctx, "--duration", warmFor.String(), "--warm-up", "-1s"); err != nil {
			return result{}, err
		}
		for _, child := range program.Children(r.p.pid()) {
			if child.Name == filepath.Base(r.b.troupe) { // others are hosted
				more = append(more, "--pid", strconv.Itoa(child.PID))
			}
		}
	}
	p, err := r.putLoad(ctx, more...)
	if err != nil {
		return result{}, err
	}
	return r.resultOf(p), nil
}

// measureDirect measures calls over the pipes of a process for each client. The clients are in this
// process.
func (r measurement) measureDirect(ctx context.Context) (result, error) {
	o := loadgen.Options{URL: "http://direct/mcp", Clients: r.s.clients, Revision: r.s.revision, Size: r.s.size, Duration: r.length}
	o.Through = func(http.RoundTripper) http.RoundTripper {
		return &client.Direct{Command: r.v.args(r.b, r.s, "")}
	}
	p, err := loadgen.Run(ctx, o)
	if err != nil {
		return result{}, err
	}
	return r.resultOf(p), nil
}

// putLoad puts the load of the scenario on the server. The load generator is a process of its own.
func (r measurement) putLoad(ctx context.Context, more ...string) (*loadgen.Report, error) {
	file := filepath.Join(r.b.dir, "report.json")
	args := append([]string{"bench", r.p.URL(0), "--json", file, "--pid", strconv.Itoa(r.p.pid()), "--clients", strconv.Itoa(r.s.clients),
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
func (r measurement) resultOf(p *loadgen.Report) result {
	got := result{Scenario: r.s.name, Server: r.v.name, Calls: p}
	got.addFailures(p)
	return got
}

const (
	// warmFor is how long calls run before the first look at the memory, so that what a server
	// makes once is there.
	warmFor = 300 * time.Millisecond
	// idleFor is how long streams are left alone before the second look.
	idleFor = time.Second
)

// measureHeld looks at the memory of the server without and with sessions or streams, each time
// after a collection, and measures calls beside them.
func (r measurement) measureHeld(ctx context.Context) (result, error) {
	if _, err := r.putLoad(ctx, "--duration", warmFor.String(), "--warm-up", "-1s"); err != nil {
		return result{}, err
	}
	var calls *loadgen.Report
	call := func(ctx context.Context) (err error) {
		calls, err = r.putLoad(ctx, "--duration", r.length.String())
		return err
	}
	var begun *loadgen.Report
	var err error
	if r.s.count == 0 {
		if begun, err = r.reportNothing(ctx); err == nil {
			err = call(ctx)
		}
	} else {
		begun, err = r.holdMeanwhile(ctx, call)
	}
	if err != nil {
		return result{}, err
	}
	got := r.resultOf(calls)
	got.addFailures(begun)
	got.Begun = begun
	return got, nil
}

// reportNothing reports the memory of a server that holds nothing.
func (r measurement) reportNothing(ctx context.Context) (*loadgen.Report, error) {
	if _, err := r.p.collect(ctx); err != nil {
		return nil, err
	}
	_, resident := r.p.Used()
	mib := float64(resident) / (1 << 20)
	return &loadgen.Report{Held: &loadgen.Held{Before: mib, After: mib}}, nil
}

// holdMeanwhile begins what the scenario holds in this process, and does something while it is
// there. Sessions end with the server.
func (r measurement) holdMeanwhile(ctx context.Context, meanwhile func(context.Context) error) (*loadgen.Report, error) {
	o := loadgen.Options{URL: r.p.URL(0), Revision: r.s.revision, Clients: r.s.clients, Count: r.s.count, Scenario: r.s.bench, Duration: idleFor, Keep: true,
		PIDs: []int{r.p.pid()}, Meanwhile: meanwhile}
	if r.s.holds() {
		o.Settle = r.p.settle
	}
	if r.s.group == rest {
		o.Settle = afterRest(r.p.settle)
	}
	return loadgen.Run(ctx, o)
}

// afterRest returns what waits before all but the first time that it collects.
func afterRest(collect func(context.Context) error) func(context.Context) error {
	began := false
	return func(ctx context.Context) error {
		if began {
			select {
			case <-time.After(restFor):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		began = true
		return collect(ctx)
	}
}

// mostLeft is what each of those that waited may leave behind, in bytes, the first time and the
// second. The runtime keeps the headers of goroutines for the next ones, and maps do not shrink.
// After that the process may grow by less: the registry of actors is of 32,768 maps, each of which
// keeps its first 270 bytes. A call or a listener that is never let go of takes several times that.
var mostLeft = [...]float64{1200, 600}

// goneWithin bounds how long those that waited may be counted after they have ended.
const goneWithin = time.Minute

// measureWaiting has calls or listeners wait twice, and looks at what is live while they do and
// once they have ended. What is over its budget has failed, and so has what stays behind.
func (r measurement) measureWaiting(ctx context.Context) (result, error) {
	got := result{Scenario: r.s.name, Server: r.v.name}
	if _, err := r.putLoad(ctx, "--duration", warmFor.String(), "--warm-up", "-1s"); err != nil {
		return got, err
	}
	before, err := r.p.collect(ctx)
	if err != nil {
		return got, err
	}
	for i, most := range mostLeft {
		var there int64
		begun, err := r.holdMeanwhile(ctx, func(ctx context.Context) (err error) {
			there, err = r.p.collect(ctx)
			return err
		})
		if err != nil {
			return got, err
		}
		got.addFailures(begun)
		each := float64(there-before) / float64(r.s.count)
		if each > r.s.budget {
			got.addOverrun("%.0f bytes each", each)
		}
		if err := r.awaitGone(); err != nil {
			got.addOverrun("%v", err)
		}
		after, err := r.p.collect(ctx)
		if err != nil {
			return got, err
		}
		left := float64(after-before) / float64(r.s.count)
		if left > most {
			got.addOverrun("%.0f bytes left of each", left)
		}
		if before = after; i == 0 {
			got.Live, got.Left, got.Begun = each, left, begun
		}
	}
	return got, nil
}

// awaitGone waits until the server counts none of those that waited, and until their connections
// have ended, which is a moment later.
func (r measurement) awaitGone() error {
	for end := time.Now().Add(goneWithin); ; time.Sleep(500 * time.Millisecond) {
		counted, err := r.stillCounted()
		if err == nil && counted == "" {
			time.Sleep(2 * time.Second)
			return nil
		}
		if err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s after %v", counted, goneWithin)
		}
	}
}

// stillCounted is what the server says of calls and listeners that are there, "" if there are none.
func (r measurement) stillCounted() (string, error) {
	m, err := program.Metrics(r.p.Addr)
	for _, kind := range []string{"request", "subscription"} {
		if n := m[`troupe_actors{kind="`+kind+`"}`]; n > 0 {
			return fmt.Sprintf("%.0f of %s", n, kind), err
		}
	}
	return "", err
}

// measureBesideSlow measures calls alone and beside a slow reader, while event streams are open on
// which nothing happens.
func (r measurement) measureBesideSlow(ctx context.Context) (result, error) {
	var calls *loadgen.Report
	open, err := r.holdMeanwhile(ctx, func(ctx context.Context) (err error) {
		calls, err = r.putLoad(ctx, "--scenario", "slow", "--rate", fmt.Sprint(r.s.rate), "--duration", r.length.String())
		return err
	})
	if err != nil {
		return result{}, err
	}
	got := r.resultOf(calls)
	got.addFailures(open)
	return got, nil
}

// wrongAnswer is the kind of error of an answer that is none.
const wrongAnswer = "wrong answer"

const (
	noiseFrom    = "127.0.0.2"
	noiseClients = "256"
	noiseBefore  = time.Second     // of the calls
	noiseBeyond  = 5 * time.Second // what the calls may need longer than they should
	noiseTimeout = 2 * time.Second // of one of its calls, and so how long it takes to end
)

// measureBesideNoise measures calls alone and beside a client of another address that calls far too
// often. That is a process of its own, with the lowest priority, so that what it takes from the
// others is what the server gives it.
func (r measurement) measureBesideNoise(ctx context.Context) (result, error) {
	args := []string{"--rate", fmt.Sprint(r.s.rate), "--duration", r.length.String()}
	alone, err := r.putLoad(ctx, args...)
	if err != nil {
		return result{}, err
	}
	stop, err := r.startNoise(ctx)
	if err != nil {
		return result{}, err
	}
	calls, err := r.putLoad(ctx, args...)
	noise, problem := stop()
	if err = errors.Join(err, problem); err != nil {
		return result{}, err
	}
	got := r.resultOf(calls)
	got.addFailures(alone)
	if text, ok := noise.Examples[wrongAnswer]; ok { // Refusals are its own matter.
		got.addFailures(&loadgen.Report{Errors: map[string]int64{wrongAnswer: noise.Errors[wrongAnswer]}, Examples: map[string]string{wrongAnswer: text}})
	}
	calls.Beside = calls.BesideOf(alone)
	calls.Beside.Offered, calls.Beside.Served, calls.Beside.Refused = noise.Rate, noise.PerSecond, noise.Errors
	return got, nil
}

// startNoise starts the noisy client. What it returns waits until that has ended, and says what
// came of it.
func (r measurement) startNoise(ctx context.Context) (func() (*loadgen.Report, error), error) {
	file := filepath.Join(r.b.dir, "noise.json")
	whole := noiseBefore + time.Second + r.length + noiseBeyond
	c := exec.CommandContext(ctx, "nice", "-n", "19", r.b.troupe, "bench", r.p.URL(0), "--json", file, "--from", noiseFrom, "--clients", noiseClients, "--rate", fmt.Sprint(noise),
		"--size", fmt.Sprint(r.s.size), "--revision", r.s.revision, "--warm-up", "-1s", "--duration", whole.String(), "--timeout", noiseTimeout.String())
	out := new(bytes.Buffer)
	c.Stdout, c.Stderr = out, out
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("the noisy client: %w", err)
	}
	select {
	case <-time.After(noiseBefore):
	case <-ctx.Done():
	}
	return func() (*loadgen.Report, error) {
		_ = c.Process.Signal(os.Interrupt) // It may have ended.
		if err := c.Wait(); err != nil {
			return nil, fmt.Errorf("the noisy client: %w: %s", err, out)
		}
		return loadgen.Read(file)
	}, nil
}

// measureNodes starts a NATS server with nodes on it, and measures calls that go to each of them in
// turn, so that most reach another node than the one that served the session last.
func measureNodes(ctx context.Context, r measurement, dir string) (result, error) {
	store := filepath.Join(dir, "nats")
	if err := os.Mkdir(store, 0o755); err != nil {
		return result{}, err
	}
	nats, err := startProcess(ctx, "--port", []string{r.b.lab, "nats", "--data", store})
	if err != nil {
		return result{}, err
	}
	defer nats.stop()
	var more []string
	for i := range r.s.count {
		name := fmt.Sprintf("node-%d", i+1)
		args := append(r.v.args(r.b, r.s, filepath.Join(dir, name)), "--nats", "nats://"+nats.Addr, "--node", name)
		p, err := startProcess(ctx, "--listen", args)
		if err != nil {
			return result{}, err
		}
		defer p.stop()
		if i == 0 {
			r.p = p
			continue
		}
		more = append(more, p.URL(0), "--pid", strconv.Itoa(p.pid()))
	}
	more = append(more, "--pid", strconv.Itoa(nats.pid()), "--duration", r.length.String())
	report, err := r.putLoad(ctx, more...)
	if err != nil {
		return result{}, err
	}
	return r.resultOf(report), nil
}

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/troupe-run/troupe/bench/loadgen"
)

// slow measures calls alone and beside a slow reader, while event streams are open on which nothing happens.
func (r run) slow(ctx context.Context) (result, error) {
	var calls *loadgen.Report
	open, err := r.keep(ctx, func(ctx context.Context) (err error) {
		calls, err = r.bench(ctx, "--scenario", "slow", "--rate", fmt.Sprint(r.s.rate), "--duration", r.length.String())
		return err
	})
	if err != nil {
		return result{}, err
	}
	got := r.resultOf(calls)
	got.fail(open)
	got.Beside = calls.Beside
	return got, nil
}

// noisy measures calls alone and beside a client of another address that calls far too often. That is a process of its own, with the lowest
// priority, so that what it takes from the others is what the server gives it.
func (r run) noisy(ctx context.Context) (result, error) {
	args := []string{"--rate", fmt.Sprint(r.s.rate), "--duration", r.length.String()}
	alone, err := r.bench(ctx, args...)
	if err != nil {
		return result{}, err
	}
	stop, err := r.disturb(ctx)
	if err != nil {
		return result{}, err
	}
	calls, err := r.bench(ctx, args...)
	noise, problem := stop()
	if err = errors.Join(err, problem); err != nil {
		return result{}, err
	}
	got := r.resultOf(calls)
	got.fail(alone)
	if text, ok := noise.Examples[wrongAnswer]; ok { // Refusals are its own matter.
		got.fail(&loadgen.Report{Errors: map[string]int64{wrongAnswer: noise.Errors[wrongAnswer]}, Examples: map[string]string{wrongAnswer: text}})
	}
	got.Beside = calls.BesideOf(alone)
	got.Beside.Offered, got.Beside.Served, got.Beside.Refused = noise.Rate, noise.PerSecond, noise.Errors
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

// disturb starts the noisy client. What it returns waits until that has ended, and says what came of it.
func (r run) disturb(ctx context.Context) (func() (*loadgen.Report, error), error) {
	file := filepath.Join(r.b.dir, "noise.json")
	whole := noiseBefore + time.Second + r.length + noiseBeyond
	c := exec.CommandContext(ctx, "nice", "-n", "19", r.b.troupe, "bench", r.p.url, "--json", file, "--from", noiseFrom, "--clients", noiseClients, "--rate", fmt.Sprint(noise),
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

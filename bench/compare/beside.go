package main

import (
	"context"
	"fmt"

	"github.com/troupe-run/troupe/bench/loadgen"
)

// beside measures calls alone and beside who disturbs them.
func (r run) beside(ctx context.Context) (result, error) {
	args := []string{"--scenario", r.s.name, "--rate", fmt.Sprint(r.s.rate), "--duration", r.length.String()}
	if r.s.name == "noisy" {
		args = append(args, "--noise", fmt.Sprint(noise))
	}
	var calls *loadgen.Report
	call := func(ctx context.Context) (err error) {
		calls, err = r.bench(ctx, args...)
		return err
	}
	failed := int64(0)
	if r.s.count == 0 {
		if err := call(ctx); err != nil {
			return result{}, err
		}
	} else {
		p, err := r.keep(ctx, call)
		if err != nil {
			return result{}, err
		}
		failed = p.Failed()
	}
	got := r.resultOf(calls)
	got.Failed += failed
	got.Beside = calls.Beside
	return got, nil
}

package main

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/bench/loadgen"
)

const (
	// warmFor is how long calls run before the first look at the memory, so that what a server makes once is there.
	warmFor = 300 * time.Millisecond
	// idleFor is how long streams are left alone before the second look.
	idleFor = time.Second
)

// held looks at the memory of the server without and with sessions or streams, each time after a collection, and measures calls beside them.
func (r run) held(ctx context.Context) (result, error) {
	if _, err := r.bench(ctx, "--duration", warmFor.String(), "--warm-up", "-1s"); err != nil {
		return result{}, err
	}
	var calls *loadgen.Report
	call := func(ctx context.Context) (err error) {
		calls, err = r.bench(ctx, "--duration", r.length.String())
		return err
	}
	h := &kept{Count: r.s.count}
	var begun *loadgen.Report
	if r.s.count == 0 {
		if err := r.p.settle(ctx); err != nil {
			return result{}, err
		}
		mib, err := loadgen.Resident(r.p.cmd.Process.Pid)
		if err != nil {
			return result{}, err
		}
		h.Before, h.After = mib, mib
		if err := call(ctx); err != nil {
			return result{}, err
		}
	} else {
		var err error
		if begun, err = r.keep(ctx, call); err != nil {
			return result{}, err
		}
		h.Before, h.After, h.Each = begun.Held.Before, begun.Held.After, begun.Held.Each*1024
		h.CPU, h.PerSecond = begun.CPU, begun.PerSecond
	}
	got := r.resultOf(calls)
	if begun != nil {
		got.fail(begun)
	}
	got.Held = h
	return got, nil
}

// settle is collect for what does not look at what is live.
func (p *process) settle(ctx context.Context) error {
	_, err := p.collect(ctx)
	return err
}

// keep begins what the scenario holds in this process, and does something while it is there. Sessions end with the server.
func (r run) keep(ctx context.Context, meanwhile func(context.Context) error) (*loadgen.Report, error) {
	o := loadgen.Options{URL: r.p.url, Revision: r.s.revision, Clients: r.s.clients, Count: r.s.count, Scenario: r.s.bench, Duration: idleFor, Keep: true,
		PIDs: []int{r.p.cmd.Process.Pid}, Meanwhile: meanwhile}
	if r.s.holds() {
		o.Settle = r.p.settle
	}
	if r.s.group == rest {
		o.Settle = rested(r.p.settle)
	}
	return loadgen.Run(ctx, o)
}

// rested returns what waits before all but the first time that it collects.
func rested(collect func(context.Context) error) func(context.Context) error {
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

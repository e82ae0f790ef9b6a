package main

import (
	"context"
	"os"
	"time"
)

// measure starts a server, measures it at a scenario for as long as is given, and stops it.
func measure(ctx context.Context, b binaries, v server, s scenario, length time.Duration) (result, error) {
	dir, err := os.MkdirTemp(b.dir, "data")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(dir)
	if s.group == nodes {
		return measureNodes(ctx, run{b: b, v: v, s: s, length: length}, dir)
	}
	p, err := start(ctx, v.args(b, s, dir), endpoint)
	if err != nil {
		return result{}, err
	}
	defer p.stop()
	r := run{b: b, v: v, s: s, length: length, p: p}
	switch s.group {
	case sessions, rest, streams:
		return r.held(ctx)
	case waiting:
		return r.waiting(ctx)
	case beside:
		if s.name == "noisy" {
			return r.noisy(ctx)
		}
		return r.slow(ctx)
	}
	return r.calls(ctx)
}

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// measureNodes starts a NATS server with nodes on it, and measures calls that go to each of them in turn, so that most reach another node than
// the one that served the session last.
func measureNodes(ctx context.Context, r run, dir string) (result, error) {
	store := filepath.Join(dir, "nats")
	if err := os.Mkdir(store, 0o755); err != nil {
		return result{}, err
	}
	nats, err := start(ctx, []string{r.b.lab, "nats", "--data", store}, natsURL)
	if err != nil {
		return result{}, err
	}
	defer nats.stop()
	var more []string
	for i := range r.s.count {
		name := fmt.Sprintf("node-%d", i+1)
		args := append(r.v.args(r.b, r.s, filepath.Join(dir, name)), "--nats", nats.url, "--node", name)
		p, err := start(ctx, args, endpoint)
		if err != nil {
			return result{}, err
		}
		defer p.stop()
		if i == 0 {
			r.p = p
			continue
		}
		more = append(more, p.url, "--pid", strconv.Itoa(p.cmd.Process.Pid))
	}
	more = append(more, "--pid", strconv.Itoa(nats.cmd.Process.Pid), "--duration", r.length.String())
	report, err := r.bench(ctx, more...)
	if err != nil {
		return result{}, err
	}
	return r.resultOf(report), nil
}

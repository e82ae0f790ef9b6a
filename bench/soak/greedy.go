package main

import (
	"context"
	"sync"
	"time"

	"github.com/troupe-run/troupe/bench/loadgen"
)

// startGreedy begins to call each node of a fleet with --greedy callers at a time, with 64 KiB
// each, from an address of their own. Each sends the next call as soon as it has the answer to the
// last. stop ends that, and judges that all answers were right.
func startGreedy(w *world) (stop func()) {
	ctx, cancel := context.WithCancel(w.ctx)
	var calling sync.WaitGroup
	for _, p := range w.fleet.nodes {
		calling.Go(func() {
			r, err := loadgen.Run(ctx, loadgen.Options{URL: p.URL(0), Revision: loadgen.Stateless, Clients: w.o.greedy, Size: 64 << 10, From: "127.0.9.1", Duration: 24 * time.Hour, WarmUp: -1})
			if err != nil {
				w.violated(nil, "the greedy client: %v", err)
				return
			}
			w.tally.addMany("greedy_served", r.Operations)
			for kind, n := range r.Errors {
				if w.tally.addMany("greedy_"+kind, n); kind == "wrong answer" {
					w.violated(nil, "the greedy client got %d wrong answers: %s", n, r.Examples[kind])
				}
			}
		})
	}
	return func() {
		cancel()
		calling.Wait()
	}
}

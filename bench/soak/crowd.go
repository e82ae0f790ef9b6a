package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/troupe-run/troupe/bench/loadgen"
)

// crowd is many clients that lose their connections when a node dies, and come back within a
// second.
type crowd struct {
	w       *world
	members []*exchange
	conns   []*connSet
}

// newCrowd begins a session and a call for each member, and returns when each call's stream has
// begun. The calls send an event twice a second for 14 seconds.
func newCrowd(w *world, size int) (*crowd, error) {
	h := &crowd{w: w, members: make([]*exchange, size), conns: make([]*connSet, size)}
	rng := w.rngFor(2)
	for n := range size {
		h.conns[n] = newConnSet()
		v := newSession(w, 10000+n, primed, w.p.url(0), balancedTransport{h.conns[n].Transport})
		h.members[n] = v.newLong(rng, v.newCount(28, 500, ""))
	}
	return h, each(size, 32, func(n int) error {
		x := h.members[n]
		if err := x.v.c.BeginSession(w.ctx, `{}`); err != nil {
			return fmt.Errorf("a client of the crowd: %w", err)
		}
		x.v.placeCall(x)
		select {
		case <-x.f.begun:
		case <-x.ended:
		case <-time.After(patience):
			return fmt.Errorf("%s of the crowd has no event after %v", x.v, patience)
		}
		return nil
	})
}

// scatter breaks all connections within a second.
func (h *crowd) scatter() {
	for _, c := range h.conns {
		c.breakOpen()
		h.w.wait(time.Second / time.Duration(len(h.conns)))
	}
}

// awaitWhole waits until each member has its stream to the end. What it has is judged where it
// comes.
func (h *crowd) awaitWhole() {
	for n, x := range h.members {
		if !h.w.until(func() bool { return isClosed(x.ended) }) {
			x.v.accuse(x.f.rec, "%s of the crowd was not answered in %v", x, patience)
		}
		h.conns[n].breakAll()
	}
}

// startGreedy begins to call each node of a fleet with --greedy callers at a time, with 64 KiB
// each, from an address of their own. Each sends the next call as soon as it has the answer to the
// last. stop ends that, and judges that all answers were right.
func startGreedy(w *world) (stop func()) {
	ctx, cancel := context.WithCancel(w.ctx)
	var calling sync.WaitGroup
	for _, p := range w.fleet.nodes {
		calling.Go(func() {
			r, err := loadgen.Run(ctx, loadgen.Options{URL: p.url(0), Revision: loadgen.Stateless, Clients: w.o.greedy, Size: 64 << 10, From: "127.0.9.1", Duration: 24 * time.Hour, WarmUp: -1})
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

package main

import (
	"fmt"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// Each member of a crowd has a call that sends an event twice a second for so many seconds.
const (
	crowdSeconds = 14
	crowdAtOnce  = 32 // that begin
)

// crowd is many clients that lose their connections when a node dies, and come back within a second.
type crowd struct {
	w       *world
	members []*call
	conns   []*connSet
}

// newCrowd begins a session and a call for each member, and returns when each call's stream has begun.
func (w *world) newCrowd(size int) (*crowd, error) {
	h := &crowd{w: w, members: make([]*call, size), conns: make([]*connSet, size)}
	rng := w.rng(2)
	for n := range size {
		h.conns[n] = newConnSet()
		d := &driver{w: w, n: 10000 + n, c: client.New(w.p.url(0), balancedTransport{h.conns[n].Transport})}
		to := 2 * crowdSeconds
		k := d.newCall(rng, "count", fmt.Sprintf(`{"to":%d,"delay_ms":500}`, to))
		k.to, k.text, k.long, k.rounds, k.f.paced = to, fmt.Sprintf("counted to %d", to), true, int(w.round.Load())+1, true
		h.members[n] = k
	}
	return h, each(size, crowdAtOnce, func(n int) error {
		k := h.members[n]
		if err := k.d.c.Initialize(w.ctx, `{}`); err != nil {
			return fmt.Errorf("a client of the crowd: %w", err)
		}
		k.d.place(k)
		select {
		case <-k.f.begun:
		case <-k.ended:
		case <-time.After(patience):
			return fmt.Errorf("%s of the crowd has no event after %v", k.d, patience)
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

// whole waits until each member has its stream to the end. What it has is judged where it comes.
func (h *crowd) whole() {
	for n, k := range h.members {
		if !h.w.until(func() bool { return isClosed(k.ended) }) && h.w.ctx.Err() == nil {
			h.w.violated(k.f.rec, "%s of the crowd: %s was not answered in %v", k.d, k, patience)
		}
		h.conns[n].breakAll()
	}
}

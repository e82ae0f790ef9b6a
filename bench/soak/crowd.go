package main

import (
	"context"
	"fmt"
	"net"
	"sync"
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

	mu    sync.Mutex // guards conns
	conns map[net.Conn]bool
}

// newCrowd begins a session and a call for each member, and returns when each call's stream has begun.
func (w *world) newCrowd(size int) (*crowd, error) {
	h := &crowd{w: w, conns: make(map[net.Conn]bool)}
	rt := client.NewTransport()
	rt.MaxIdleConns, rt.MaxIdleConnsPerHost = 2*size, 2*size
	rt.DialContext = h.dial
	var group sync.WaitGroup
	next, failed := make(chan *driver), make(chan error, crowdAtOnce)
	for range crowdAtOnce {
		group.Go(func() {
			for d := range next {
				if err := d.c.Initialize(w.ctx, `{}`); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	var all []*driver
	var err error
	for n := 0; n < size && err == nil; n++ {
		d := &driver{w: w, n: 10000 + n, c: client.New(w.p.url(0), balancedTransport{rt})}
		select {
		case next <- d:
			all = append(all, d)
		case err = <-failed:
		case <-w.ctx.Done():
			err = context.Cause(w.ctx)
		}
	}
	close(next)
	group.Wait()
	if err != nil {
		return nil, fmt.Errorf("a client of the crowd: %w", err)
	}
	rng := w.rng(2)
	for _, d := range all {
		to := 2 * crowdSeconds
		k := d.newCall(rng, "count", fmt.Sprintf(`{"to":%d,"delay_ms":500}`, to))
		k.to, k.text, k.long, k.rounds, k.f.paced = to, fmt.Sprintf("counted to %d", to), true, int(w.round.Load())+1, true
		h.members = append(h.members, k)
		d.place(k)
	}
	for _, k := range h.members {
		select {
		case <-k.f.begun:
		case <-k.ended:
		case <-time.After(patience):
			return nil, fmt.Errorf("%s of the crowd has no event after %v", k.d, patience)
		}
	}
	return h, nil
}

// dial makes a connection that scatter breaks.
func (h *crowd) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, network, address)
	if err == nil {
		h.mu.Lock()
		h.conns[c] = true
		h.mu.Unlock()
	}
	return c, err
}

// scatter breaks all connections within a second.
func (h *crowd) scatter() {
	h.mu.Lock()
	conns := h.conns
	h.conns = make(map[net.Conn]bool)
	h.mu.Unlock()
	began, n := time.Now(), 0
	for c := range conns {
		_ = c.Close()
		n++
		h.w.wait(time.Duration(n)*time.Second/time.Duration(len(conns)) - time.Since(began))
	}
}

// whole waits until each member has its stream to the end. What it has is judged where it comes.
func (h *crowd) whole() {
	for _, k := range h.members {
		if !h.w.until(func() bool { return isClosed(k.ended) }) && h.w.ctx.Err() == nil {
			h.w.violated(k.f.rec, "%s of the crowd: %s was not answered in %v", k.d, k, patience)
		}
		k.d.forget()
	}
}

package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// crowd is many clients that lose their connections when a node dies, and come back within a second.
type crowd struct {
	w       *world
	members []*exchange
	conns   []*connSet
}

// newCrowd begins a session and a call for each member, and returns when each call's stream has begun. The calls send an
// event twice a second for 14 seconds.
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

// awaitWhole waits until each member has its stream to the end. What it has is judged where it comes.
func (h *crowd) awaitWhole() {
	for n, x := range h.members {
		if !h.w.until(func() bool { return isClosed(x.ended) }) {
			x.v.accuse(x.f.rec, "%s of the crowd was not answered in %v", x, patience)
		}
		h.conns[n].breakAll()
	}
}

const (
	// greedyBytes is the size of every greedyLarge-th argument of a greedy client.
	greedyBytes = 256 << 10
	greedyLarge = 16
	// greedyPause is how long it waits after a refusal, which asks for more.
	greedyPause = 10 * time.Millisecond
)

// startGreedy begins to call each node of a fleet with --greedy callers at a time, from an address of their own, until the
// run is over. Each sends the next call as soon as it has the answer to the last, whatever the nodes ask for.
func startGreedy(w *world) {
	rt, calls := client.NewTransport(), new(atomic.Int64)
	rt.DialContext = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 9, 1)}, Timeout: 2 * time.Second}).DialContext
	context.AfterFunc(w.ctx, rt.CloseIdleConnections)
	for _, p := range w.fleet.nodes {
		c := client.NewStateless(p.url(0), rt, `{}`)
		for range w.o.greedy {
			go func() {
				for w.ctx.Err() == nil {
					callGreedily(w, c, calls.Add(1))
				}
			}()
		}
	}
}

// callGreedily makes a call, and breaks the run if what comes back is neither its answer nor a refusal.
func callGreedily(w *world, c *client.Stateless, n int64) {
	text := "greedy " + strconv.FormatInt(n, 10)
	if n%greedyLarge == 0 {
		text += strings.Repeat(".", greedyBytes)
	}
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	a, err := c.SendRequest(ctx, strconv.FormatInt(n, 10), "tools/call", `"name":"echo","arguments":{"text":"`+text+`"}`)
	if err != nil { // as while the node is down
		w.tally.add("greedy_without_an_answer")
		w.wait(greedyPause)
		return
	}
	defer a.Close()
	m := parse(string(a.Body))
	switch {
	case m.text() == text:
		w.tally.add("greedy_served")
	case a.Status == http.StatusTooManyRequests || a.Status == http.StatusServiceUnavailable || m.Error != nil:
		w.tally.add("greedy_refused")
		w.wait(greedyPause)
	default:
		w.violated(nil, "call %d of the greedy client got %d %.200s", n, a.Status, a.Body)
	}
}

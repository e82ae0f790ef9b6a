package main

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

const (
	// greedyBytes is the size of every greedyLarge-th argument of a greedy client.
	greedyBytes = 256 << 10
	greedyLarge = 16
	// greedyPause is how long it waits after a refusal, which asks for more.
	greedyPause = 10 * time.Millisecond
)

// startGreedy begins to call each node of a fleet with --greedy callers at a time, from an address of their own, until the run is over. Each sends the
// next call as soon as it has the answer to the last, whatever the nodes ask for.
func (w *world) startGreedy() {
	if !w.visited(ofGreed) {
		return
	}
	rt, calls := client.NewTransport(), new(atomic.Int64)
	rt.DialContext = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 9, 1)}, Timeout: 2 * time.Second}).DialContext
	context.AfterFunc(w.ctx, rt.CloseIdleConnections)
	for _, p := range w.fleet.nodes {
		c := client.NewStateless(p.url(0), rt, `{}`)
		for range w.o.greedy {
			go func() {
				for w.ctx.Err() == nil {
					w.callGreedily(c, calls.Add(1))
				}
			}()
		}
	}
}

// callGreedily makes a call, and breaks the run if what comes back is neither its answer nor a refusal.
func (w *world) callGreedily(c *client.Stateless, n int64) {
	text := "greedy " + strconv.FormatInt(n, 10)
	if n%greedyLarge == 0 {
		text += strings.Repeat(".", greedyBytes)
	}
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	a, err := c.Call(ctx, strconv.FormatInt(n, 10), "tools/call", `"name":"echo","arguments":{"text":"`+text+`"}`)
	if err != nil { // as while the node is down
		w.tally.add("greedy_without_an_answer")
		w.wait(greedyPause)
		return
	}
	defer a.Close()
	m := parse(string(a.Body))
	switch {
	case m.Result != nil && len(m.Result.Content) == 1 && m.Result.Content[0].Text == text:
		w.tally.add("greedy_served")
	case a.Status == http.StatusTooManyRequests || a.Status == http.StatusServiceUnavailable || m.Error != nil:
		w.tally.add("greedy_refused")
		w.wait(greedyPause)
	default:
		w.violated(nil, "call %d of the greedy client got %d %.200s", n, a.Status, a.Body)
	}
}

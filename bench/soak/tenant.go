package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

const (
	// tenantBytes is the size of every tenantLarge-th argument of a greedy tenant.
	tenantBytes = 256 << 10
	tenantLarge = 16
	// tenantPause is how long it waits after a refusal, which asks for more.
	tenantPause = 10 * time.Millisecond
)

// tenant is a client that takes all it can get of each node of a fleet, from an address of its own: it sends the next call as soon as
// it has the answer to the last, whatever the nodes ask for.
type tenant struct {
	w *world

	calls                    atomic.Int64
	served, refused, unheard atomic.Int64 // unheard: nobody answered, as while a node is down
}

// tenantReport is what a greedy tenant came to.
type tenantReport struct {
	Callers int   `json:"callers"`
	Served  int64 `json:"served"`
	Refused int64 `json:"refused"`
	Unheard int64 `json:"without_an_answer"`
}

// newTenant begins to call each node with --greedy callers at a time, until the run is over.
func (w *world) newTenant() *tenant {
	if !w.visited(ofGreed) {
		return nil
	}
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 9, 1)}, Timeout: 2 * time.Second}
	var working sync.WaitGroup
	t, rt := &tenant{w: w}, client.NewTransport()
	rt.DialContext = from.DialContext
	for _, p := range w.fleet.nodes {
		c := client.NewStateless(p.url(0), rt, `{}`)
		for range w.o.greedy {
			working.Go(func() {
				for w.ctx.Err() == nil {
					t.call(c)
				}
			})
		}
	}
	go func() {
		working.Wait()
		rt.CloseIdleConnections()
	}()
	return t
}

// call makes a call, and breaks the run if what comes back is neither its answer nor a refusal.
func (t *tenant) call(c *client.Stateless) {
	n := t.calls.Add(1)
	text := "tenant " + strconv.FormatInt(n, 10)
	if n%tenantLarge == 0 {
		text += strings.Repeat(".", tenantBytes)
	}
	ctx, cancel := context.WithTimeout(t.w.ctx, patience)
	defer cancel()
	a, err := c.Call(ctx, strconv.FormatInt(n, 10), "tools/call", `"name":"echo","arguments":{"text":"`+text+`"}`)
	if err != nil {
		t.unheard.Add(1)
		t.w.wait(tenantPause)
		return
	}
	defer a.Close()
	m := parse(string(a.Body))
	switch {
	case m.Result != nil && len(m.Result.Content) == 1 && m.Result.Content[0].Text == text:
		t.served.Add(1)
	case a.Status == http.StatusTooManyRequests || a.Status == http.StatusServiceUnavailable || m.Error != nil:
		t.refused.Add(1)
		t.w.wait(tenantPause)
	default:
		t.w.violated(nil, "call %d of the greedy tenant got %d %.200s", n, a.Status, a.Body)
	}
}

// report says what the tenant came to.
func (t *tenant) report() tenantReport {
	if t == nil {
		return tenantReport{}
	}
	return tenantReport{Callers: t.w.o.greedy * len(t.w.fleet.nodes), Served: t.served.Load(), Refused: t.refused.Load(), Unheard: t.unheard.Load()}
}

// verdict says whether the tenant was there at all: others beside nobody prove nothing.
func (r tenantReport) verdict() error {
	if r.Callers > 0 && r.Served == 0 {
		return fmt.Errorf("the greedy tenant was served nothing: %+v", r)
	}
	return nil
}

package histories

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
)

// resource is there on all nodes.
const resource = "x:1"

// process is one process of a node: a runtime, its listener and its line to the NATS server.
type process struct {
	w        *world
	place    *place
	name     string
	rt       *troupe.Runtime
	server   *troupe.Server
	listener *kit.Listener
	hs       *http.Server
	http     *http.Client
	line     *kit.Line
	lists    int          // how often its lists have changed; guarded by world.listing
	dead     atomic.Bool  // it was killed: nothing that it does counts
	islands  atomic.Int32 // no client reaches it while that is above 0

	mu    sync.Mutex // guards the rest
	conns map[net.Conn]bool
	over  bool // Close was called
}

func newProcess(w *world, pl *place, n int) (*process, error) {
	p := &process{w: w, place: pl, name: fmt.Sprintf("%s.%d", pl.name, n), conns: make(map[net.Conn]bool)}
	p.line = w.nats.Line(fmt.Sprintf("%s-%d", pl.name, n))
	o := troupe.Options{DrainDelay: -1, DrainWait: 10 * time.Second, Limits: troupe.Limits{LogRate: -1, CallRate: 1e6, StatelessGrace: time.Second}, Shared: troupe.SharedLimits{PrincipalRate: 1e6}}
	o.Store = troupe.StoreOptions{Node: pl.name, NoSocket: true, Lease: lease, ReplayAge: time.Duration(w.plan.Replay), ReplayEvents: w.plan.Appends, NATS: troupe.NATSOptions{URL: p.line.URL()}}
	rt, err := troupe.New(o)
	if err != nil {
		return nil, err
	}
	p.rt, p.server, p.listener = rt, troupe.NewServer(mcp.Implementation{Name: "test", Version: "1"}, nil), kit.NewListener()
	troupe.AddTool(p.server, troupe.Tool{Name: "safe", Rerun: troupe.Safe, Task: troupe.TaskOptional}, p.serve)
	troupe.AddTool(p.server, troupe.Tool{Name: "once", Task: troupe.TaskOptional}, p.serve)
	troupe.AddResource(p.server, mcp.Resource{URI: resource, Name: "one"}, func(context.Context, *troupe.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
		return nil, nil
	})
	rt.Mount("/mcp", p.server)
	p.hs = &http.Server{Handler: rt}
	w.ends.Go(func() { _ = p.hs.Serve(p.listener) })
	p.http = &http.Client{Transport: &http.Transport{DialContext: p.dial, MaxIdleConnsPerHost: 100}}
	return p, nil
}

// changeLists gives the process the tools that all have by now.
func (p *process) changeLists() {
	defer p.w.listing.take()()
	p.w.mu.Lock()
	n := p.w.lists
	p.w.mu.Unlock()
	for p.lists < n {
		p.lists++
		troupe.AddTool(p.server, troupe.Tool{Name: fmt.Sprint("more-", p.lists)}, func(context.Context, *troupe.Call, struct{}) (string, error) { return "", nil })
	}
}

// dial connects a client.
func (p *process) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := p.listener.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = true
	return c, nil
}

// die ends the process at once: nothing that it sends arrives anywhere any more.
func (p *process) die() {
	p.dead.Store(true)
	p.line.Break()
	_ = p.listener.Close()
	p.leaveClients()
	p.end()
}

// leaveClients breaks all connections of clients.
func (p *process) leaveClients() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// drains ends the process in order, as far as the world sees it.
func (p *process) drains() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_ = p.rt.Drain(ctx)
}

// end closes the runtime, in the background, so that its goroutines end.
func (p *process) end() {
	p.mu.Lock()
	over := p.over
	p.over = true
	p.mu.Unlock()
	if over {
		return
	}
	p.w.ends.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := p.rt.Close(ctx); err != nil && !p.dead.Load() {
			p.w.judge.Note("process %s closes: %v", p.name, err)
		}
		p.http.CloseIdleConnections()
		_ = p.hs.Close()
		_ = p.listener.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		for c := range p.conns {
			_ = c.Close()
		}
	})
}

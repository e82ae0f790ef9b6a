package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/bench/lab/roundrobin"
	"github.com/troupe-run/troupe/bench/program"
)

const (
	// drainWait is for how long a node that ends waits for calls that may not run again.
	drainWait = 3 * time.Second
	// deployWait is the same behind a proxy, where none of them may be given up: they are shorter, on a
	// busy machine, too.
	deployWait = 10 * time.Second
)

// fleet is the nodes of a run on NATS servers that they share, behind a load balancer or a proxy.
type fleet struct {
	nodes   []*program.Process
	links   [][]*link // of each node to each NATS server
	nats    natsServers
	front   func() error // starts what is before the nodes, at last
	ends    []func()     // in reverse order
	started bool

	victim string           // of the harm
	heal   func() error     // ends the harm
	twin   *program.Process // another one with the name of a node, nil without one
}

// newFleet starts NATS servers, and a load balancer at an address. The nodes start with the first
// start of the world, and a proxy once they are ready.
func newFleet(ctx context.Context, o options, address string) (f *fleet, err error) {
	f = &fleet{}
	defer func() {
		if err != nil {
			f.end()
		}
	}()
	if f.nats, err = newNATS(o); err == nil {
		err = f.nats.start(ctx)
	}
	if err != nil {
		return f, err
	}
	wait := drainWait
	if o.proxy != "" {
		wait = deployWait
	}
	var urls []string
	for i := range o.nodes {
		var links []*link
		var nats []string
		for _, s := range f.nats {
			l, err := newLink(s.Addr)
			if err != nil {
				return f, err
			}
			f.ends = append(f.ends, l.end)
			links, nats = append(links, l), append(nats, "nats://"+l.listener.Addr().String())
		}
		name := fmt.Sprintf("node-%d", i+1)
		if err := f.addNode(o, name, "--servers", "1", "--drain-wait", wait.String(), "--nats", strings.Join(nats, ","), "--node", name); err != nil {
			return f, err
		}
		f.links, urls = append(f.links, links), append(urls, "http://"+f.nodes[i].Addr)
	}
	if o.proxy != "" {
		f.front = func() error { return f.startProxy(ctx, o, address) }
		return f, nil
	}
	ctx, stop := context.WithCancel(ctx)
	f.ends = append(f.ends, stop)
	balancer, err := roundrobin.New(ctx, urls)
	if err != nil {
		return f, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return f, err
	}
	server := &http.Server{Handler: balancer}
	f.ends = append(f.ends, func() { _ = server.Close() })
	go func() { _ = server.Serve(l) }()
	return f, nil
}

// startProxy starts a proxy of deploy/proxy, once the nodes are ready: it looks for them now and then.
func (f *fleet) startProxy(ctx context.Context, o options, address string) error {
	var nodes []string
	for _, p := range f.nodes {
		if err := p.UntilReady(ctx); err != nil {
			return err
		}
		nodes = append(nodes, p.Addr)
	}
	dir := filepath.Join(o.data, o.proxy)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	proxy, err := startDeployed(ctx, o.proxy, dir, address, nodes...)
	if err == nil {
		f.ends = append(f.ends, func() { _ = proxy.End() })
	}
	return err
}

// addNode adds a node with a data directory of its own.
func (f *fleet) addNode(o options, name string, flags ...string) error {
	p, err := newProcess(o.bin, filepath.Join(o.data, name), o.seed+uint64(len(f.nodes)+1)*1000, flags...)
	if err == nil {
		p.Name = name
		takeTurns(p, &o)
		f.nodes = append(f.nodes, p)
	}
	return err
}

// start starts all nodes, or ends what was done to them.
func (f *fleet) start() error {
	if f.started {
		return f.heal()
	}
	f.started = true
	for _, p := range f.nodes {
		if err := p.Start(); err != nil {
			return err
		}
	}
	if f.front != nil {
		return f.front()
	}
	return nil
}

func (f *fleet) end() {
	for _, p := range append(f.nodes, f.twin) {
		if p != nil && p.Running() != nil {
			_ = p.Signal(program.Continue)
			_ = p.Kill()
		}
	}
	for _, end := range slices.Backward(f.ends) {
		end()
	}
	for _, p := range f.nats {
		_ = p.Kill()
	}
}

// errUnavailable is what a request comes to that nobody has taken.
var errUnavailable = errors.New("no node takes the request now")

// refusal is what a node says in a session that takes no request now; elsewhere the status is 503.
const refusal = `"message":"temporarily unavailable: try again shortly"`

// balancedTransport is the connections to a fleet. A request that is refused for a moment is like
// one whose connection was not made: the client tries again. Only a fleet that is harmed may refuse
// one.
type balancedTransport struct{ *http.Transport }

func (t balancedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.Transport.RoundTrip(r)
	if err != nil {
		return resp, err
	}
	refused := resp.StatusCode == http.StatusServiceUnavailable
	if !refused && resp.StatusCode == http.StatusOK && strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			return nil, err
		}
		resp.Body = io.NopCloser(bytes.NewReader(body))
		refused = bytes.Contains(body, []byte(refusal)) && !bytes.Contains(body, []byte(`"result":`)) // a part of a batch may be
	}
	if !refused {
		return resp, nil
	}
	said, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	pause := time.NewTimer(20*time.Millisecond + rand.N(60*time.Millisecond))
	defer pause.Stop()
	select {
	case <-pause.C:
		return nil, fmt.Errorf("%w: %d %.200s", errUnavailable, resp.StatusCode, said)
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

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

// drainWait is for how long a node that ends waits for calls that may not run again.
const drainWait = 3 * time.Second

// fleet is the nodes of a run behind a load balancer: on NATS servers that they share, or each with
// data of its own.
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

// newFleet starts NATS servers and a load balancer at an address. The nodes start with the first
// start of the world.
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
		if err := f.addNode(o, name, "--servers", "1", "--drain-wait", drainWait.String(), "--nats", strings.Join(nats, ","), "--node", name); err != nil {
			return f, err
		}
		f.links, urls = append(f.links, links), append(urls, "http://"+f.nodes[i].Addr)
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

// newProxied makes two nodes with data of their own behind nginx or HAProxy, in the configuration
// that deploy has. The nodes keep the default --drain-delay, which that relies on: the proxies
// close idle connections before that.
func newProxied(ctx context.Context, o options, address string) (f *fleet, err error) {
	f = &fleet{}
	if err := errors.Join(f.addNode(o, "node-1", "--trusted-proxy", "127.0.0.0/8"), f.addNode(o, "node-2", "--trusted-proxy", "127.0.0.0/8")); err != nil {
		return f, err
	}
	dir := filepath.Join(o.data, o.proxy)
	f.front = func() error { // once the nodes listen: a proxy looks for them now and then
		for _, p := range f.nodes {
			if err := p.UntilReady(ctx); err != nil {
				return err
			}
		}
		proxy, err := startDeployed(ctx, proxies[o.proxy], dir, address, f.nodes[0].Addr, f.nodes[1].Addr)
		if err == nil {
			f.ends = append(f.ends, func() { _ = proxy.End() })
		}
		return err
	}
	return f, os.MkdirAll(dir, 0o755)
}

// proxies are the files of deploy for --proxy.
var proxies = map[string]string{"nginx": "nginx.conf", "haproxy": "haproxy.cfg"}

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
	_ = resp.Body.Close()
	pause := time.NewTimer(20*time.Millisecond + rand.N(60*time.Millisecond))
	defer pause.Stop()
	select {
	case <-pause.C:
		return nil, errUnavailable
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

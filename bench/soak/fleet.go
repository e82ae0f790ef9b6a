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
	"strings"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/bench/lab/roundrobin"
)

// drainWait is for how long a node that ends waits for calls that may not run again.
const drainWait = 3 * time.Second

// fleet is the nodes of a run behind a load balancer: on NATS servers that they share, or each with data of its own.
type fleet struct {
	nodes      []*process
	links      [][]*link // of each node to each NATS server
	nats       *natsServers
	balancer   *http.Server
	proxy      *deployed    // in place of balancer, where each node has data of its own
	startProxy func() error // nil without one
	stop       context.CancelFunc
	started    bool

	away   time.Duration
	victim string       // of the harm
	twin   *process     // another one with the name of a node, nil without one
	heal   func() error // ends the harm
	harmed atomic.Bool  // a harm is under way
	healed atomic.Int64 // when it was over, unix nanoseconds

	rolling atomic.Bool  // the nodes are restarted in turn
	rolled  atomic.Int64 // when that was over, unix nanoseconds
}

// newFleet starts NATS servers and a load balancer at an address. The nodes start with the first start of the world.
func newFleet(ctx context.Context, o options, address string) (f *fleet, err error) {
	f = &fleet{away: o.away}
	defer func() {
		if err != nil {
			f.end()
		}
	}()
	if f.nats, err = startNATS(ctx, o); err != nil {
		return f, err
	}
	var urls []string
	for i := range o.nodes {
		var links []*link
		var nats []string
		for _, s := range f.nats.all {
			l, err := newLink(s.address)
			if err != nil {
				return f, err
			}
			links, nats = append(links, l), append(nats, "nats://"+l.address())
		}
		name := fmt.Sprintf("node-%d", i+1)
		args := []string{"--servers", "1", "--drain-wait", drainWait.String(), "--nats", strings.Join(nats, ","), "--node", name}
		p, err := newProcess(o.bin, filepath.Join(o.data, name), o.seed+uint64(i+1)*1000, append(args, o.flags...)...)
		if err != nil {
			return f, err
		}
		p.name = name
		f.nodes, f.links, urls = append(f.nodes, p), append(f.links, links), append(urls, "http://"+p.addr)
	}
	ctx, f.stop = context.WithCancel(ctx)
	balancer, err := roundrobin.New(ctx, urls)
	if err != nil {
		return f, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return f, err
	}
	f.balancer = &http.Server{Handler: balancer}
	go func() { _ = f.balancer.Serve(l) }()
	return f, nil
}

// newProxied makes two nodes with data of their own behind nginx or HAProxy, in the configuration that deploy has. The nodes keep the default
// --drain-delay, which that relies on: the proxies close idle connections before that.
func newProxied(ctx context.Context, o options, address string) (f *fleet, err error) {
	f = &fleet{}
	var addresses []string
	for i := range 2 {
		name := fmt.Sprintf("node-%d", i+1)
		p, err := newProcess(o.bin, filepath.Join(o.data, name), o.seed+uint64(i+1)*1000, append([]string{"--trusted-proxy", "127.0.0.0/8"}, o.flags...)...)
		if err != nil {
			return f, err
		}
		p.name = name
		f.nodes, addresses = append(f.nodes, p), append(addresses, p.addr)
	}
	file := map[string]string{"nginx": "nginx.conf", "haproxy": "haproxy.cfg"}[o.proxy]
	dir := filepath.Join(o.data, o.proxy)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return f, err
	}
	f.startProxy = func() (err error) { // once the nodes listen: a proxy looks for them now and then
		for _, p := range f.nodes {
			if !(&world{ctx: ctx}).until(p.isReady) {
				return errors.New("a node is not ready: " + p.log.lines(20))
			}
		}
		f.proxy, err = startDeployed(file, dir, address, addresses...)
		return err
	}
	return f, nil
}

// startFleet starts a fleet and waits until its balancer, at front, has heard that all nodes are ready.
func startFleet(ctx context.Context, o options) (f *fleet, front string, err error) {
	if front, err = freeAddress(o.seed + 7000); err != nil {
		return nil, "", err
	}
	if f, err = newFleet(ctx, o, front); err != nil {
		return nil, "", err
	}
	if err = f.start(); err == nil && !(&world{ctx: ctx}).until((&process{addr: front}).isReady) {
		err = errors.New("the nodes are not ready")
	}
	if err != nil {
		f.end()
		return nil, "", err
	}
	return f, front, nil
}

// start starts all nodes, or ends what was done to them.
func (f *fleet) start() error {
	if f.started {
		return f.heal()
	}
	f.started = true
	for _, p := range f.nodes {
		if err := p.start(); err != nil {
			return err
		}
	}
	if f.startProxy != nil {
		return f.startProxy()
	}
	return nil
}

func (f *fleet) end() {
	if f.stop != nil {
		f.stop()
	}
	if f.balancer != nil {
		_ = f.balancer.Close()
	}
	if f.proxy != nil {
		f.proxy.end()
	}
	for _, p := range f.nodes {
		if p.cmd != nil {
			_ = p.signal(sigCont)
		}
		_ = p.kill()
	}
	if f.twin != nil {
		_ = f.twin.kill()
	}
	for _, links := range f.links {
		for _, l := range links {
			l.end()
		}
	}
	if f.nats != nil {
		f.nats.end()
	}
}

// errUnavailable is what a request comes to that nobody has taken.
var errUnavailable = errors.New("no node takes the request now")

// refusal is what a node says in a session that takes no request now; elsewhere the status is 503.
const refusal = `"message":"temporarily unavailable: try again shortly"`

// balancedTransport is the connections to a fleet. A request that is refused for a moment is like one whose connection was not made: the client
// tries again. Only a fleet that is harmed may refuse one.
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

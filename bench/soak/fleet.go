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
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/bench/lab/roundrobin"
)

// chaosNodes is how many nodes there are.
const chaosNodes = 3

// drainWait is for how long a node that ends waits for calls that may not run again.
const drainWait = 3 * time.Second

// fleet is the nodes of a run, behind a load balancer, and the NATS servers that they share.
type fleet struct {
	nodes   []*process
	lines   [][]*line // of each node to each NATS server
	nats    *natsServers
	proxy   *http.Server
	stop    context.CancelFunc
	started bool

	how    atomic.Value // string: what is done to it in this round
	away   time.Duration
	victim string       // to what
	twin   *process     // another one with the name of a node, nil without one
	heal   func() error // ends that
	harmed atomic.Bool  // it is under way
	healed atomic.Int64 // when it was over, unix nanoseconds
}

// newFleet starts NATS and what stands before the nodes, which start with the first start of the world.
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
	for i := range chaosNodes {
		var lines []*line
		var nats []string
		for _, s := range f.nats.all {
			l, err := newLine(s.address)
			if err != nil {
				return f, err
			}
			lines, nats = append(lines, l), append(nats, "nats://"+l.address())
		}
		name := fmt.Sprintf("node-%d", i+1)
		args := []string{"--servers", "1", "--drain-wait", drainWait.String(), "--nats", strings.Join(nats, ","), "--node", name}
		p, err := newProcess(o.bin, filepath.Join(o.data, name), o.seed+uint64(i+1)*1000, append(args, o.flags...)...)
		if err != nil {
			return f, err
		}
		f.nodes, f.lines, urls = append(f.nodes, p), append(f.lines, lines), append(urls, "http://"+p.addr)
	}
	ctx, f.stop = context.WithCancel(ctx)
	proxy, err := roundrobin.New(ctx, urls)
	if err != nil {
		return f, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return f, err
	}
	f.proxy = &http.Server{Handler: proxy}
	go func() { _ = f.proxy.Serve(l) }()
	return f, nil
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
	return nil
}

func (f *fleet) end() {
	if f.stop != nil {
		f.stop()
	}
	if f.proxy != nil {
		_ = f.proxy.Close()
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
	for _, lines := range f.lines {
		for _, l := range lines {
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

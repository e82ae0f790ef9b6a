// Package roundrobin is a load balancer without any memory of its clients: each request goes to the
// next node that is ready. Tests put it before several nodes to show that none of them needs to see
// the same client twice.
package roundrobin

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"time"
)

// askEvery is how often the nodes are asked whether they are ready.
const askEvery = 200 * time.Millisecond

// maxBody is the largest body in bytes.
const maxBody = 64 << 20

// Proxy is an http.Handler. Make one with New.
type Proxy struct {
	client *http.Client
	nodes  []*node
	turn   atomic.Uint64
}

type node struct {
	url   *url.URL
	ready atomic.Bool
	to    *httputil.ReverseProxy
	took  atomic.Int64
}

// New returns a proxy for the nodes at these URLs. It asks each for /readyz until ctx ends, and
// gives requests to those that answer with 200.
func New(ctx context.Context, urls []string) (*Proxy, error) {
	p := &Proxy{client: &http.Client{Timeout: 2 * time.Second}}
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil {
			return nil, err
		}
		p.nodes = append(p.nodes, &node{url: u, to: &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(u)
				r.Out.Host = r.In.Host
			},
			Transport:     &http.Transport{MaxIdleConnsPerHost: 256},
			FlushInterval: -1,
			ErrorLog:      log.New(io.Discard, "", 0),
			ErrorHandler:  p.handleFailure,
		}})
	}
	for _, n := range p.nodes {
		go p.watchNode(ctx, n)
	}
	return p, nil
}

// watchNode asks a node whether it is ready.
func (p *Proxy) watchNode(ctx context.Context, n *node) {
	for ctx.Err() == nil {
		resp, err := p.client.Get(n.url.JoinPath("readyz").String())
		if err == nil {
			_ = resp.Body.Close()
		}
		n.ready.Store(err == nil && resp.StatusCode == http.StatusOK)
		select {
		case <-ctx.Done():
		case <-time.After(askEvery):
		}
	}
}

// Ready returns how many nodes are ready.
func (p *Proxy) Ready() (n int) {
	for _, x := range p.nodes {
		if x.ready.Load() {
			n++
		}
	}
	return n
}

// Took returns how many requests each node has got.
func (p *Proxy) Took() (all []int64) {
	for _, x := range p.nodes {
		all = append(all, x.took.Load())
	}
	return all
}

// ServeHTTP gives a request to the next node that is ready. /readyz is the proxy's own: it is 200
// while all nodes are ready.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/readyz" {
		if p.Ready() < len(p.nodes) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return
	}
	n := p.nextReady()
	if n == nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	// The body is read first: net/http takes it away from a request whose response begins, which
	// may be before the node's connection has seen its end.
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	n.took.Add(1)
	n.to.ServeHTTP(w, withBody(r, body, len(p.nodes)))
}

// try is what is left of a request: its body, and how many more nodes may get it.
type try struct {
	body []byte
	left int
}

type tryKey struct{}

// withBody returns a request with its body to be read from the start.
func withBody(r *http.Request, body []byte, left int) *http.Request {
	r = r.WithContext(context.WithValue(r.Context(), tryKey{}, try{body, left - 1}))
	r.Body = io.NopCloser(bytes.NewReader(body))
	return r
}

// handleFailure deals with a request that got no response. One that no node has seen goes to the
// next node; of another it is unknown what has become of it, and its client sees a broken
// connection, as without a proxy.
func (p *Proxy) handleFailure(w http.ResponseWriter, r *http.Request, err error) {
	var op *net.OpError
	if t := r.Context().Value(tryKey{}).(try); errors.As(err, &op) && op.Op == "dial" && t.left > 0 {
		if n := p.nextReady(); n != nil {
			n.to.ServeHTTP(w, withBody(r, t.body, t.left))
			return
		}
	}
	panic(http.ErrAbortHandler)
}

// nextReady returns the node whose turn it is, nil if none is ready.
func (p *Proxy) nextReady() *node {
	turn := int(p.turn.Add(1))
	for k := range p.nodes {
		if n := p.nodes[(turn+k)%len(p.nodes)]; n.ready.Load() {
			return n
		}
	}
	return nil
}

package actors

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/request"
)

// calls makes the actors of requests, and keeps them, with their PIDs, for the next ones.
type calls struct {
	node *Node
	mu   sync.Mutex // guards free
	free []*requestActor
}

// callsKept is how many actors are kept.
const callsKept = 512

// actor returns one for a request that a has been charged with.
func (p *calls) actor(a *quota.Account) *requestActor {
	n := p.node
	p.mu.Lock()
	var r *requestActor
	if k := len(p.free); k > 0 {
		r, p.free = p.free[k-1], p.free[:k-1]
	}
	p.mu.Unlock()
	if r == nil {
		r = &requestActor{node: n}
		n.k.Start(&r.Actor, KindRequest, "", r)
		r.timer = time.AfterFunc(time.Hour, func() { _ = r.Post(graceOver{}) })
		r.timer.Stop()
	} else {
		r.Wake()
	}
	r.from, r.out = a, codec.GetBuffer()
	return r
}

// begins makes the actor stand for a request, which is delivered in the way w.
func (r *requestActor) begins(svc *Service, w way, m *codec.Message, body []byte, c *Call) {
	r.svc, r.way, r.body, r.started = svc, w, body, time.Now()
	r.id = append(r.id[:0], m.ID...)
	// Once a session or a stream knows the request, others may cancel it.
	// The node's own context is no parent: its list of children would be the one
	// lock that all calls share.
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	c.ctx = r.ctx
	c.r, c.turn, c.msg = r, r.turn, m
	c.client, c.pace = w.client, w.pace
	c.own = bytes.Clone(m.ProgressToken)
	c.token.Store(&c.own)
	r.call = c
}

// release ends the request, when nothing can find it any more.
func (r *requestActor) release() {
	n := r.node
	if r.from != nil {
		n.accounts.Leave(r.from)
	}
	r.out.Free()
	if r.handed {
		n.drain.handed.Add(-1)
	}
	if r.used {
		r.Actor.Stop()
		return
	}
	r.svc, r.way, r.logged, r.from, r.out, r.ctx, r.cancel = nil, way{}, logged{}, nil, nil, nil, nil
	r.self, r.call, r.body = nil, nil, nil
	r.phase, r.gate, r.notified, r.graced = request.Plain, nil, 0, false
	r.Rest()
	p := &n.calls
	p.mu.Lock()
	keep := len(p.free) < callsKept && !n.drain.closing.Load()
	if keep {
		p.free = append(p.free, r)
	}
	p.mu.Unlock()
	if !keep {
		r.Wake()
		r.Actor.Stop()
	}
}

// close ends the actors that are kept.
func (p *calls) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.free {
		r.Wake()
		r.Actor.Stop()
	}
	p.free = nil
}

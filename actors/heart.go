package actors

import (
	"time"

	"github.com/troupe-run/troupe/internal/kernel"
)

// heart is the node's actor: it pings and comments on silent streams, and stores
// writer records that are due.
type heart struct {
	kernel.Actor
	node    *Node
	pingers map[pinged]*pinger
	ticks   uint64
}

type tick struct{}

func (h *heart) Receive(m any) {
	n := h.node
	if _, ok := m.(tick); !ok || n.drain.closing.Load() {
		return
	}
	now := time.Now()
	streams, links := n.attachments.snapshot(), n.links.snapshot()
	h.pingAll(streams, links, now)
	// A connection that fails must not keep the others from theirs, nor end the node.
	for _, a := range streams {
		h.Contain(func() { a.comment(now) })
	}
	for _, s := range links {
		h.Contain(func() { s.link.comment(now, s.svc.Limits.KeepAlive) })
	}
	for _, s := range n.talking.silent(now) {
		h.Contain(s.comment)
	}
	n.mrtr.outcomes.expire(now)
	n.accounts.Settle(now)
	jumped, running := n.clock.jumped(), int64(n.clock.running())
	n.streams.Each(func(s *streamActor) {
		if d := s.due.Load(); d != 0 && (jumped || running > d) {
			_ = s.Post(refresh{})
		}
	})
	n.timer.Reset(time.Second)
}

func (h *heart) Failed(any, bool) { h.node.timer.Reset(time.Second) }

package actors

import (
	"sync"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/stream"
)

// subscriptionActor stands for one resource of one server on this node, and for
// the sessions here that want to hear of it. It ends with the last of them.
type subscriptionActor struct {
	cell
	node *Node
	key  subscriptionKey
	want map[SessionKey]struct{}
}

type subscriptionKey struct{ server, uri string }

type (
	wantUpdates   struct{ s SessionKey }
	unwantUpdates struct{ s SessionKey }
	updated       struct{ data []byte }
)

func (a *subscriptionActor) receive(m any) {
	switch m := m.(type) {
	case wantUpdates:
		a.want[m.s] = struct{}{}
	case unwantUpdates:
		if delete(a.want, m.s); len(a.want) == 0 {
			a.node.subs.end(a)
		}
	case updated:
		for s := range a.want {
			if _, here := a.node.sessions.get(s); here {
				a.node.push(s, m.data)
			} else {
				delete(a.want, s)
			}
		}
		if len(a.want) == 0 {
			a.node.subs.end(a)
		}
	}
}

func (a *subscriptionActor) failed(any, bool) {}

// subscriptions finds the subscription actors of a node.
type subscriptions struct {
	mu  sync.Mutex // guards all
	all map[subscriptionKey]*subscriptionActor
}

func (s *subscriptions) init() { s.all = make(map[subscriptionKey]*subscriptionActor) }

func (s *subscriptions) add(n *Node, k SessionKey, uri string) {
	key := subscriptionKey{k.Server, uri}
	for {
		s.mu.Lock()
		a, ok := s.all[key]
		if !ok {
			a = &subscriptionActor{node: n, key: key, want: make(map[SessionKey]struct{})}
			n.k.start(&a.cell, KindSubscription, a)
			s.all[key] = a
		}
		s.mu.Unlock()
		if a.post(wantUpdates{k}) == nil {
			return
		}
		s.forget(a)
	}
}

func (s *subscriptions) remove(k SessionKey, uri string) {
	s.mu.Lock()
	a, ok := s.all[subscriptionKey{k.Server, uri}]
	s.mu.Unlock()
	if ok {
		_ = a.post(unwantUpdates{k})
	}
}

func (s *subscriptions) forget(a *subscriptionActor) {
	s.mu.Lock()
	if s.all[a.key] == a {
		delete(s.all, a.key)
	}
	s.mu.Unlock()
}

// end stops a subscription that nobody wants; what waits in its mailbox is
// refused, so that a new subscriber makes a new one.
func (s *subscriptions) end(a *subscriptionActor) {
	s.forget(a)
	a.node.k.stop(&a.cell)
}

// ResourceUpdated tells every session on this node that subscribed to the
// resource; params are those of notifications/resources/updated.
func (n *Node) ResourceUpdated(svc *Service, uri string, method string, params []byte) {
	n.subs.mu.Lock()
	a, ok := n.subs.all[subscriptionKey{svc.ID, uri}]
	n.subs.mu.Unlock()
	if ok {
		_ = a.post(updated{codec.AppendNotification(nil, method, params)})
	}
}

// push sends data on a session's standalone stream if that is written here. It
// reports whether somebody listened: else the message waits for a resume, and a
// new stream in its place would not have it.
func (n *Node) push(k SessionKey, data []byte) (heard bool) {
	s, ok := n.sessions.get(k)
	if !ok {
		return false
	}
	if s.link != nil {
		return n.pushLink(s, data)
	}
	st, ok := n.streams.get(StreamKey{k, s.view.Load().rec.Standalone})
	if !ok || st.queued.Load() > int64(s.svc.Limits.Queue) {
		s.away.Store(true) // its next stream, or resume, makes good what it missed
		return false
	}
	heard = st.heard.Load()
	if st.post(&pushEntries{entries: []stream.Entry{{Kind: stream.Message, Data: data}}, told: true}) != nil {
		s.away.Store(true)
		return false
	}
	return heard
}

// Sessions calls f for every session of the service that is on this node.
func (n *Node) Sessions(svc *Service, f func(*Peer)) {
	n.sessions.each(func(s *sessionActor) {
		if s.svc == svc {
			f(s.peer)
		}
	})
}

// Push sends a notification on the session's standalone stream if that is open
// on this node; it reports whether a connection was there to take it. It never
// waits.
func (p *Peer) Push(method string, params []byte) (heard bool) {
	return p.node.push(p.key, codec.AppendNotification(nil, method, params))
}

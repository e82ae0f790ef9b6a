package actors

import (
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/stream"
	"github.com/troupe-run/troupe/mcp"
)

const (
	// updatePause is how long an update of a resource waits when one has just been
	// told: what comes meanwhile is told once.
	updatePause = 100 * time.Millisecond
	// maxBursts bounds the resources below a subscribed one that are told by their own
	// URI within updatePause.
	maxBursts = 100
	// tellHere is to how many sessions an update is told by whoever reports it.
	tellHere = 64
)

// subscriptionActor stands for one resource of one server on this node, and for
// the sessions here that want to hear of it. It ends with the last of them.
type subscriptionActor struct {
	cell
	node *Node
	key  subscriptionKey
	want map[SessionKey]struct{}
	// told are the resources of which an update was told within updatePause, or is
	// being told: the subscribed one and those below it. The value says whether
	// there has been another one since.
	told map[string]bool
}

type subscriptionKey struct{ server, uri string }

type (
	wantUpdates   struct{ s SessionKey }
	unwantUpdates struct{ s SessionKey }
	// updated reports a change of a resource, the subscribed one or one below it.
	updated struct{ uri string }
	// telling is over when all sessions have been told; gone are those that have left
	// memory.
	telling struct {
		uri  string
		gone []SessionKey
	}
	// paused ends the time in which updates of a resource are gathered.
	paused struct{ uri string }
)

func (a *subscriptionActor) receive(m any) {
	switch m := m.(type) {
	case wantUpdates:
		a.want[m.s] = struct{}{}
	case unwantUpdates:
		delete(a.want, m.s)
		a.endIfUnwanted()
	case updated:
		a.updated(m.uri)
	case telling:
		for _, s := range m.gone {
			if !a.node.hears(s) {
				delete(a.want, s)
			}
		}
		time.AfterFunc(updatePause, func() { _ = a.post(paused{m.uri}) })
		a.endIfUnwanted()
	case paused:
		again := a.told[m.uri]
		if delete(a.told, m.uri); again {
			a.updated(m.uri)
		}
	}
}

// failed forgets what was being told: an update that comes next is told, though one
// may have been a moment ago.
func (a *subscriptionActor) failed(any, bool) { a.told = nil }

func (a *subscriptionActor) endIfUnwanted() {
	if len(a.want) == 0 {
		a.node.subs.end(a)
	}
}

// updated tells the sessions, now or with what comes within updatePause. When very
// many resources below the subscribed one change at once, that itself is told.
func (a *subscriptionActor) updated(uri string) {
	if _, busy := a.told[uri]; !busy && len(a.told) >= maxBursts {
		uri = a.key.uri
	}
	if _, busy := a.told[uri]; busy {
		a.told[uri] = true
		return
	}
	if a.told == nil {
		a.told = make(map[string]bool)
	}
	a.told[uri] = false
	if len(a.want) <= tellHere {
		a.receive(a.tell(uri, func(yield func(SessionKey) bool) {
			for s := range a.want {
				yield(s)
			}
		}))
		return
	}
	all := make([]SessionKey, 0, len(a.want))
	for s := range a.want {
		all = append(all, s)
	}
	go func() {
		_ = a.post(a.tell(uri, func(yield func(SessionKey) bool) {
			for _, s := range all {
				yield(s)
			}
		}))
	}()
}

// tell tells sessions of an update. It waits for none of them.
func (a *subscriptionActor) tell(uri string, sessions iter.Seq[SessionKey]) telling {
	m := telling{uri: uri}
	data := updateOf(uri)
	for s := range sessions {
		if a.node.hears(s) {
			a.node.push(s, data)
		} else {
			m.gone = append(m.gone, s)
		}
	}
	return m
}

// updateOf is the notification that a resource has changed.
func updateOf(uri string) []byte {
	params := append([]byte(nil), `{"uri":`...)
	params = append(codec.AppendString(params, uri), '}')
	return codec.AppendNotification(nil, mcp.NotifyResourcesUpdated, params)
}

// above yields the URIs of the resources that one with that URI may lie below: it
// without its fragment, without its query, and without each of its last segments.
func above(uri string) iter.Seq[string] {
	return func(yield func(string) bool) {
		root := strings.IndexByte(uri, ':') + 1
		if strings.HasPrefix(uri[root:], "//") {
			root += 2
		}
		for end := len(uri) - 1; end >= root; end-- {
			if c := uri[end]; c != '/' && c != '#' && c != '?' {
				continue
			}
			if uri[end] == '/' && end+1 < len(uri) && !yield(uri[:end+1]) {
				return
			}
			if end > root && !yield(uri[:end]) {
				return
			}
		}
	}
}

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

// ResourceUpdated tells every session on this node that subscribed to the resource,
// or, with below, to one that it lies below.
func (n *Node) ResourceUpdated(svc *Service, uri string, below bool) {
	n.subs.updated(svc.ID, uri, uri)
	if below {
		for parent := range above(uri) {
			n.subs.updated(svc.ID, parent, uri)
		}
	}
}

// updated tells those who subscribed to a resource that the one with that URI has
// changed.
func (s *subscriptions) updated(server, subscribed, uri string) {
	s.mu.Lock()
	a, ok := s.all[subscriptionKey{server, subscribed}]
	s.mu.Unlock()
	if ok {
		_ = a.post(updated{uri})
	}
}

// push sends data on a session's standalone stream if that is written here. It
// reports whether the stream has it: for its connection, or else for a resume. A new
// stream in its place does not have it.
func (n *Node) push(k SessionKey, data []byte) (sent bool) {
	if l, ok := n.listens.get(k); ok {
		return l.post(hear{data}) == nil
	}
	s, ok := n.sessions.get(k)
	if !ok {
		return false
	}
	if s.link != nil {
		return n.pushLink(s, data)
	}
	st, ok := n.streams.get(StreamKey{k, s.view.Load().rec.Standalone})
	if !ok || st.queued.Load() > int64(s.svc.Limits.Queue) ||
		st.post(&pushEntries{entries: []stream.Entry{{Kind: stream.Message, Data: data}}, told: true}) != nil {
		s.away.Store(true) // its next stream, or resume, makes good what it missed
		return false
	}
	return true
}

// Sessions calls f for every session of the service that is on this node.
func (n *Node) Sessions(svc *Service, f func(*Peer)) {
	n.sessions.each(func(s *sessionActor) {
		if s.svc == svc {
			f(s.peer)
		}
	})
}

// Push sends a notification on the session's standalone stream, if that is written
// here: else it is lost. It never waits.
func (p *Peer) Push(method string, params []byte) {
	p.node.push(p.key, codec.AppendNotification(nil, method, params))
}

// PushUpdate is Push of an update of a resource. To a session that lives on a connection
// it waits until the client has read enough.
func (p *Peer) PushUpdate(uri string) {
	if l := p.last.Load().link; l != nil {
		_ = l.tell(p.node.base, stream.Entry{Kind: stream.Message, Data: updateOf(uri)})
		return
	}
	p.node.push(p.key, updateOf(uri))
}

package actors

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/mcp"
)

// updatePause is how long an update of a resource waits when one has just been
// sent: what comes meanwhile is sent once.
var updatePause = time.Second / time.Duration(limits.Updates.Value())

const (
	// maxBursts bounds the resources below a subscribed one that are told by their own
	// URI within updatePause.
	maxBursts = 100
	// tellHere is to how many sessions an update is told by whoever reports it.
	tellHere = 64
)

// subscriptionActor stands for one resource of one server on this node, and for
// the sessions and listeners here that want to hear of it. It ends with the last of
// them.
type subscriptionActor struct {
	kernel.Actor
	subs *subscriptions
	key  subscriptionKey
	want map[subscriber]struct{}
	// told are the resources of which an update was told within updatePause, or is
	// being told: the subscribed one and those below it. The value says whether
	// there has been another one since.
	told map[string]bool
}

// subscriber is a session or a listener on this node. It is the actor and not what
// that stands for: a session that has left memory and come back is another
// subscriber, from which the end of the first takes nothing.
type subscriber interface {
	// server is the id of its service.
	server() string
	// push sends it an update, and waits for nothing.
	push(data []byte) bool
	// wants reports whether it is still here and wants updates of the resource. It is
	// asked in other actors' turns.
	wants(uri string) bool
	Stopped() bool
}

var (
	_ subscriber = (*sessionActor)(nil)
	_ subscriber = (*listenActor)(nil)
)

type subscriptionKey struct{ server, uri string }

type (
	// wanting says that u may have changed its mind about the resource, and that it is
	// to be asked. Of two that cross, the later one finds what holds.
	wanting struct {
		subs *subscriptions
		key  subscriptionKey
		u    subscriber
	}
	// updated reports a change of a resource, the subscribed one or one below it.
	updated struct {
		subs *subscriptions
		key  subscriptionKey
		uri  string
	}
	// telling is over when all have been told; gone are those that have left memory.
	telling struct {
		uri  string
		gone []subscriber
	}
	// paused ends the time in which updates of a resource are gathered.
	paused struct{ uri string }
)

func (m wanting) Refused(error) { m.subs.send(m.key, m, true) }
func (m updated) Refused(error) { m.subs.send(m.key, m, false) }

func (a *subscriptionActor) Receive(m any) {
	switch m := m.(type) {
	case wanting:
		if m.u.wants(a.key.uri) {
			a.want[m.u] = struct{}{}
		} else {
			delete(a.want, m.u)
		}
	case updated:
		a.updated(m.uri)
	case telling:
		for _, u := range m.gone {
			delete(a.want, u)
		}
		time.AfterFunc(updatePause, func() { _ = a.Post(paused{m.uri}) })
	case paused:
		again := a.told[m.uri]
		if delete(a.told, m.uri); again {
			a.updated(m.uri)
		}
	}
	if len(a.want) == 0 && a.StopIdle() {
		a.subs.forget(a)
	}
}

// failed forgets what was being told: an update that comes next is told, though one
// may have been a moment ago. When the actor ends by it, another one takes its place.
func (a *subscriptionActor) Failed(_ any, last bool) {
	a.told = nil
	if last {
		a.subs.forget(a)
		for u := range a.want {
			a.subs.follow(u, a.key.uri)
		}
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
		a.Receive(a.tell(uri, maps.Keys(a.want)))
		return
	}
	all := slices.Collect(maps.Keys(a.want))
	go func() { _ = a.Post(a.tell(uri, slices.Values(all))) }()
}

// tell tells subscribers of an update. It waits for none of them.
func (a *subscriptionActor) tell(uri string, all iter.Seq[subscriber]) telling {
	m := telling{uri: uri}
	data := updateOf(uri)
	for u := range all {
		if u.Stopped() {
			m.gone = append(m.gone, u)
		} else {
			u.push(data)
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
	node *Node
	mu   sync.Mutex // guards all
	all  map[subscriptionKey]*subscriptionActor
}

func (s *subscriptions) init() { s.all = make(map[subscriptionKey]*subscriptionActor) }

// follow tells the resource's subscription that u wants its updates, or does not any
// more. Whoever changes what u wants calls it afterwards, and so does who ends u.
func (s *subscriptions) follow(u subscriber, uri string) {
	key := subscriptionKey{u.server(), uri}
	s.send(key, wanting{s, key, u}, u.wants(uri))
}

// send hands m to the actor of a resource, which is made when there is none and
// create is set. One that is just ending takes nothing any more, and its successor
// gets it.
func (s *subscriptions) send(key subscriptionKey, m any, create bool) {
	for {
		s.mu.Lock()
		a, ok := s.all[key]
		if !ok && create {
			a = &subscriptionActor{subs: s, key: key, want: make(map[subscriber]struct{})}
			s.node.k.Start(&a.Actor, KindSubscription, key.server+"."+key.uri, a)
			s.all[key] = a
		}
		s.mu.Unlock()
		if !ok && !create || a.Post(m) == nil {
			return
		}
		s.forget(a)
	}
}

func (s *subscriptions) forget(a *subscriptionActor) {
	s.mu.Lock()
	if s.all[a.key] == a {
		delete(s.all, a.key)
	}
	s.mu.Unlock()
}

// ResourceUpdated tells every session on this node that subscribed to the resource,
// or, with below, to one that it lies below.
func (n *Node) ResourceUpdated(svc *Service, uri string, below bool) {
	n.subs.updated(svc.ID, uri, below)
}

func (s *subscriptions) updated(server, uri string, below bool) {
	tell := func(subscribed string) {
		key := subscriptionKey{server, subscribed}
		s.send(key, updated{s, key, uri}, false)
	}
	tell(uri)
	if below {
		for parent := range above(uri) {
			tell(parent)
		}
	}
}

package subscription

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

// updatePause is how long an update of a resource waits after one was sent: updates that come
// meanwhile are sent as one.
var updatePause = time.Second / time.Duration(limits.Updates.Value())

const (
	// maxBursts bounds the resources below a subscribed one that get updates with their own URI
	// within updatePause.
	maxBursts = 100
	// tellHere is the number of subscribers up to which the reporting goroutine sends them the
	// update itself.
	tellHere = 64
)

// subscription is one resource of one server on this node, with the sessions and listeners here
// that want its updates. It ends with the last of them.
type subscription struct {
	kernel.Actor
	table *Table
	key   key
	want  map[Subscriber]struct{}
	// told has the resources, the subscribed one and those below it, whose update was sent
	// within updatePause or is being sent. The value says whether another update has come
	// since.
	told map[string]bool
}

// Subscriber is the actor of a session or a listener on this node. A session that has left
// memory and come back is another Subscriber: the end of the first one takes nothing from it.
type Subscriber interface {
	// Server is the id of the subscriber's service.
	Server() string
	// Push sends an update without waiting. It reports whether the update was taken.
	Push(data []byte) bool
	// Wants reports whether the subscriber is still here and wants updates of the resource.
	// Other actors call it in their turns.
	Wants(uri string) bool
	// Hears reports whether the subscriber may learn of an update of the resource, which may
	// lie below one that it wants. Other actors call it in their turns.
	Hears(uri string) bool
	// Stopped reports whether the subscriber has ended.
	Stopped() bool
}

type key struct{ server, uri string }

type (
	// wanting says that u may want the resource now or no longer: ask it. Of two that cross,
	// the later one finds the present answer.
	wanting struct {
		table *Table
		key   key
		u     Subscriber
	}
	// updated reports a change of a resource, the subscribed one or one below it.
	updated struct {
		table *Table
		key   key
		uri   string
	}
	// telling reports that all have the update; gone are the subscribers that have left memory.
	telling struct {
		uri  string
		gone []Subscriber
	}
	// paused ends the time in which updates of a resource are gathered.
	paused struct{ uri string }
)

func (m wanting) Refused(error) { m.table.postTo(m.key, m, true) }
func (m updated) Refused(error) { m.table.postTo(m.key, m, false) }

func (a *subscription) Receive(m any) {
	switch m := m.(type) {
	case wanting:
		if m.u.Wants(a.key.uri) {
			a.want[m.u] = struct{}{}
		} else {
			delete(a.want, m.u)
		}
	case updated:
		a.sendUpdate(m.uri)
	case telling:
		for _, u := range m.gone {
			delete(a.want, u)
		}
		time.AfterFunc(updatePause, func() { _ = a.Post(paused{m.uri}) })
	case paused:
		again := a.told[m.uri]
		if delete(a.told, m.uri); again {
			a.sendUpdate(m.uri)
		}
	}
	if len(a.want) == 0 && a.StopIdle() {
		a.table.dropSubscription(a)
	}
}

// Failed forgets the updates that were being sent: the next one is sent even if one was a
// moment ago. If the actor ends by the panic, another one replaces it.
func (a *subscription) Failed(_ any, last bool) {
	a.told = nil
	if last {
		a.table.dropSubscription(a)
		for u := range a.want {
			a.table.Follow(u, a.key.uri)
		}
	}
}

// sendUpdate sends an update to the subscribers, now or with the updates of the next updatePause.
// When very many resources below the subscribed one change at once, it sends an update of the
// subscribed one instead.
func (a *subscription) sendUpdate(uri string) {
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
		a.Receive(a.tellSubscribers(uri, maps.Keys(a.want)))
		return
	}
	all := slices.Collect(maps.Keys(a.want))
	go func() { _ = a.Post(a.tellSubscribers(uri, slices.Values(all))) }()
}

// tellSubscribers sends subscribers an update. It waits for none of them.
func (a *subscription) tellSubscribers(uri string, all iter.Seq[Subscriber]) telling {
	m := telling{uri: uri}
	data := EncodeUpdate(uri)
	for u := range all {
		switch {
		case u.Stopped():
			m.gone = append(m.gone, u)
		case u.Hears(uri):
			u.Push(data)
		}
	}
	return m
}

// EncodeUpdate is the notification that a resource has changed.
func EncodeUpdate(uri string) []byte {
	params := append([]byte(nil), `{"uri":`...)
	params = append(codec.AppendString(params, uri), '}')
	return codec.AppendNotification(nil, mcp.NotifyResourcesUpdated, params)
}

// parentsOf yields the URIs of the resources that uri may lie below: uri without its fragment,
// without its query, and without each of its last segments.
func parentsOf(uri string) iter.Seq[string] {
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

// Covers reports whether who subscribes to a resource may get updates of another one: it is the same, or lies below.
func Covers(subscribed, uri string) bool {
	for parent := range parentsOf(uri) {
		if parent == subscribed {
			return true
		}
	}
	return uri == subscribed
}

// Table finds the subscriptions of a node. It is safe for concurrent use.
type Table struct {
	k    *kernel.Kernel
	kind kernel.Kind

	mu  sync.Mutex // guards all
	all map[key]*subscription
}

// NewTable returns a table whose actors k runs as the given kind.
func NewTable(k *kernel.Kernel, kind kernel.Kind) *Table {
	return &Table{k: k, kind: kind, all: make(map[key]*subscription)}
}

// Follow has the resource's subscription ask whether u wants its updates. Every change of what
// u wants must call it afterwards, and so must the end of u.
func (s *Table) Follow(u Subscriber, uri string) {
	of := key{u.Server(), uri}
	s.postTo(of, wanting{s, of, u}, u.Wants(uri))
}

// postTo hands m to the actor of a resource. If there is none and create is set, it makes one. An
// actor that is ending takes nothing any more: its successor gets m.
func (s *Table) postTo(of key, m any, create bool) {
	for {
		s.mu.Lock()
		a, ok := s.all[of]
		if !ok && create {
			a = &subscription{table: s, key: of, want: make(map[Subscriber]struct{})}
			s.k.Start(&a.Actor, s.kind, of.server+"."+of.uri, a)
			s.all[of] = a
		}
		s.mu.Unlock()
		if !ok && !create || a.Post(m) == nil {
			return
		}
		s.dropSubscription(a)
	}
}

func (s *Table) dropSubscription(a *subscription) {
	s.mu.Lock()
	if s.all[a.key] == a {
		delete(s.all, a.key)
	}
	s.mu.Unlock()
}

// SendUpdate sends an update to the subscribers here of a resource of a server or, with below,
// also of the resources above it.
func (s *Table) SendUpdate(server, uri string, below bool) {
	tell := func(subscribed string) {
		of := key{server, subscribed}
		s.postTo(of, updated{s, of, uri}, false)
	}
	tell(uri)
	if below {
		for parent := range parentsOf(uri) {
			tell(parent)
		}
	}
}

// EachResource calls f for every resource with a subscriber, and its server.
func (s *Table) EachResource(f func(server, uri string)) {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.all))
	s.mu.Unlock()
	for _, of := range all {
		f(of.server, of.uri)
	}
}

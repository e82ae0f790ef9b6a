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

// subscription stands for one resource of one server on this node, and for
// the sessions and listeners here that want to hear of it. It ends with the last of
// them.
type subscription struct {
	kernel.Actor
	table *Table
	key   key
	want  map[Subscriber]struct{}
	// told are the resources of which an update was told within updatePause, or is
	// being told: the subscribed one and those below it. The value says whether
	// there has been another one since.
	told map[string]bool
}

// Subscriber is a session or a listener on this node. It is the actor and not what
// that stands for: a session that has left memory and come back is another
// Subscriber, from which the end of the first takes nothing.
type Subscriber interface {
	// Server is the id of its service.
	Server() string
	// Push sends it an update, and waits for nothing.
	Push(data []byte) bool
	// Wants reports whether it is still here and wants updates of the resource. It is
	// asked in other actors' turns.
	Wants(uri string) bool
	// Hears reports whether it may hear of an update of the resource, which may be one
	// below that which it wants. It is asked in other actors' turns.
	Hears(uri string) bool
	// Stopped reports that it has ended.
	Stopped() bool
}

type key struct{ server, uri string }

type (
	// wanting says that u may have changed its mind about the resource, and that it is
	// to be asked. Of two that cross, the later one finds what holds.
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
	// telling is over when all have been told; gone are those that have left memory.
	telling struct {
		uri  string
		gone []Subscriber
	}
	// paused ends the time in which updates of a resource are gathered.
	paused struct{ uri string }
)

func (m wanting) Refused(error) { m.table.send(m.key, m, true) }
func (m updated) Refused(error) { m.table.send(m.key, m, false) }

func (a *subscription) Receive(m any) {
	switch m := m.(type) {
	case wanting:
		if m.u.Wants(a.key.uri) {
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
		a.table.forget(a)
	}
}

// Failed forgets what was being told: an update that comes next is told, though one
// may have been a moment ago. When the actor ends by it, another one takes its place.
func (a *subscription) Failed(_ any, last bool) {
	a.told = nil
	if last {
		a.table.forget(a)
		for u := range a.want {
			a.table.Follow(u, a.key.uri)
		}
	}
}

// updated tells the sessions, now or with what comes within updatePause. When very
// many resources below the subscribed one change at once, that itself is told.
func (a *subscription) updated(uri string) {
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
func (a *subscription) tell(uri string, all iter.Seq[Subscriber]) telling {
	m := telling{uri: uri}
	data := Update(uri)
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

// Update is the notification that a resource has changed.
func Update(uri string) []byte {
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

// Table finds the subscriptions of a node. It is safe for concurrent use.
type Table struct {
	k    *kernel.Kernel
	kind kernel.Kind

	mu  sync.Mutex // guards all
	all map[key]*subscription
}

// NewTable returns one whose actors k runs as the given kind.
func NewTable(k *kernel.Kernel, kind kernel.Kind) *Table {
	return &Table{k: k, kind: kind, all: make(map[key]*subscription)}
}

// Follow tells the resource's subscription that u wants its updates, or does not any
// more. Whoever changes what u wants calls it afterwards, and so does who ends u.
func (s *Table) Follow(u Subscriber, uri string) {
	of := key{u.Server(), uri}
	s.send(of, wanting{s, of, u}, u.Wants(uri))
}

// send hands m to the actor of a resource, which is made when there is none and
// create is set. One that is just ending takes nothing any more, and its successor
// gets it.
func (s *Table) send(of key, m any, create bool) {
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
		s.forget(a)
	}
}

func (s *Table) forget(a *subscription) {
	s.mu.Lock()
	if s.all[a.key] == a {
		delete(s.all, a.key)
	}
	s.mu.Unlock()
}

// Updated tells all who subscribed here to a resource of a server, or, with below, to one
// that it lies below.
func (s *Table) Updated(server, uri string, below bool) {
	tell := func(subscribed string) {
		of := key{server, subscribed}
		s.send(of, updated{s, of, uri}, false)
	}
	tell(uri)
	if below {
		for parent := range above(uri) {
			tell(parent)
		}
	}
}

// Each calls f for every resource that somebody subscribes to, with its server.
func (s *Table) Each(f func(server, uri string)) {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.all))
	s.mu.Unlock()
	for _, of := range all {
		f(of.server, of.uri)
	}
}

package hosting

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/backend"
	"github.com/troupe-run/troupe/internal/upstream"
	"github.com/troupe-run/troupe/mcp"
)

// A followTable is who follows which resources of backends: sessions, and listeners of 2026-07-28. Of those who share an instance the first has it
// say when a resource changes, and the last one that it no longer need.
type followTable struct {
	mu         sync.Mutex // guards the rest, and what is in it
	byResource map[followedResource]*followerSet
}

// followedResource is a resource of a backend as the instances of a holder have it.
type followedResource struct{ backend, holder, uri string }

// followerSet is who follows one. Whoever has put something into turn may ask the backend.
type followerSet struct {
	turn      chan struct{}
	users     int // who has it, or waits for its turn
	followers map[any]*Follower
}

// A Follower is a session that follows a resource, or a listener that follows some.
type Follower struct {
	Session string // the key of a session, "" for a listener

	s      *Server
	caller backend.Caller
	items  map[string]*Item   // what a listener follows, by the URI
	ends   context.CancelFunc // ends that
	stop   func() bool        // keeps the end of what it was begun with from ending it; it reports false if that has happened

	mu      sync.Mutex // guards the rest
	send    func(uri string)
	early   []string // updates that came before there was a send
	updates Updates
}

// key is by what a follower is known.
func (f *Follower) key() any {
	if f.Session != "" {
		return f.Session
	}
	return f
}

// takeTurn returns who follows a resource, once nobody else changes that. leave gives it back.
func (a *followTable) takeTurn(ctx context.Context, key followedResource) (*followerSet, error) {
	a.mu.Lock()
	of := a.byResource[key]
	if of == nil {
		of = &followerSet{turn: make(chan struct{}, 1), followers: make(map[any]*Follower)}
		a.byResource[key] = of
	}
	of.users++
	a.mu.Unlock()
	select {
	case of.turn <- struct{}{}:
		return of, nil
	case <-ctx.Done():
		a.releaseEntry(key, of)
		return nil, context.Cause(ctx)
	}
}

func (a *followTable) endTurn(key followedResource, of *followerSet) {
	<-of.turn
	a.releaseEntry(key, of)
}

// releaseEntry forgets a resource that nobody follows or is about to.
func (a *followTable) releaseEntry(key followedResource, of *followerSet) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if of.users--; of.users == 0 && len(of.followers) == 0 {
		delete(a.byResource, key)
	}
}

// add adds a follower, and reports whether it is the first.
func (a *followTable) add(of *followerSet, f *Follower) (first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	first = len(of.followers) == 0
	of.followers[f.key()] = f
	return first
}

// remove takes a follower away, and reports whether there was one, and whether there is nobody left.
func (a *followTable) remove(of *followerSet, f *Follower) (was, last bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, was = of.followers[f.key()]
	delete(of.followers, f.key())
	return was, len(of.followers) == 0
}

// forget takes away what a session follows.
func (a *followTable) forget(session string) {
	ctx, cancel := context.WithTimeout(context.Background(), tellTime)
	defer cancel()
	of := make(map[followedResource]*Follower)
	a.mu.Lock()
	for key, following := range a.byResource {
		if f := following.followers[session]; f != nil {
			of[key] = f
		}
	}
	a.mu.Unlock()
	for key, f := range of {
		_ = f.unfollow(ctx, key, false) // its backend will say in vain what nobody gets
	}
}

// follow has the backend of a resource say when it changes. The error is an *[mcp.Error] of the client's, or the cause of the end of ctx.
func (f *Follower) follow(ctx context.Context, m *mounted, uri string) error {
	holder, lasts := f.caller.Holder(m.Options.Isolation)
	if !lasts {
		return nil // nothing would be heard of an instance that is a single call's
	}
	key, all := followedResource{m.Key, holder, uri}, &f.s.followers
	of, err := all.takeTurn(ctx, key)
	if err != nil {
		return err
	}
	defer all.endTurn(key, of)
	if !all.add(of, f) {
		return nil
	}
	if err = f.askBackend(ctx, m.Key, mcp.MethodResourcesSubscribe, uri); err != nil {
		all.remove(of, f)
	}
	return err
}

// unfollow is the end of that. always says that the backend is asked even if it is unknown that this one has followed the resource: an
// earlier process may have asked for it.
func (f *Follower) unfollow(ctx context.Context, key followedResource, always bool) error {
	all := &f.s.followers
	of, err := all.takeTurn(ctx, key)
	if err != nil {
		return err
	}
	defer all.endTurn(key, of)
	if was, last := all.remove(of, f); !last || !was && !always {
		return nil
	}
	return f.askBackend(ctx, key.backend, mcp.MethodResourcesUnsubscribe, key.uri)
}

func (f *Follower) askBackend(ctx context.Context, key, method, uri string) error {
	r, err := f.s.backends.Call(ctx, key, f.caller, Asked{Method: method, Params: backend.ResourceParams(uri), Safe: true})
	switch {
	case err != nil:
		return callError(ctx, err)
	case r.Kind == upstream.Refused:
		return errorOf(&r)
	}
	return nil
}

// ChangeSubscription has the backend of a resource say to a session when it changes, or no longer. The error is an *[mcp.Error] of the client's, or
// the cause of the end of ctx. A backend that has no subscriptions is asked for nothing.
func (s *Server) ChangeSubscription(ctx context.Context, c *Caller, item *Item, uri string, method string) error {
	m := item.backend
	if !item.tellsUpdates() {
		return nil
	}
	f := &Follower{Session: c.Session, s: s, caller: c.Caller}
	if method == mcp.MethodResourcesSubscribe {
		return f.follow(ctx, m, uri)
	}
	holder, lasts := c.Holder(m.Options.Isolation)
	if !lasts {
		return nil
	}
	return f.unfollow(ctx, followedResource{m.Key, holder, uri}, m.Options.Isolation == host.BySession)
}

// Follow has the backends of resources tell a listener when they change. It returns once they know, or after the time that a request waits for
// a backend; refused are the resources that they have refused. It ends with ctx, unless [Follower.AddUpdates] has begun.
func (s *Server) Follow(ctx context.Context, c *Caller, items map[string]*Item) (f *Follower, refused []string) {
	f = &Follower{s: s, caller: c.Caller, items: items}
	answered := f.beginFollowing(ctx)
	waiting, cancel := context.WithTimeout(ctx, s.wait)
	defer cancel()
	select {
	case refused = <-answered:
	case <-waiting.Done():
	}
	return f, refused
}

// beginFollowing has the listener follow its resources until a context ends.
func (f *Follower) beginFollowing(until context.Context) (answered <-chan []string) {
	life, cancel := context.WithCancel(context.Background())
	f.ends, f.stop = cancel, context.AfterFunc(until, cancel)
	known := make(chan []string, 1)
	go func() { known <- f.followAll(life) }()
	return known
}

// AddUpdates returns what a listener sends beside what the actors know, as [actors.Listening] has it: the updates of its resources that may is
// true of, and what rest sends, which may be nil.
func (f *Follower) AddUpdates(may func(uri string) bool, rest func(context.Context, func(string, []byte)) func()) func(context.Context, func(string, []byte)) func() {
	return func(ctx context.Context, send func(method string, params []byte)) (again func()) {
		if f.stop() {
			context.AfterFunc(ctx, f.ends)
		} else { // what it was begun with has ended before
			f.beginFollowing(ctx)
		}
		f.mu.Lock()
		f.send = func(uri string) {
			if may(uri) {
				send(mcp.NotifyResourcesUpdated, backend.ResourceParams(uri))
			}
		}
		early := f.early
		f.early = nil
		f.mu.Unlock()
		for _, uri := range early {
			f.TellUpdate(uri)
		}
		if rest == nil {
			return nil
		}
		return rest(ctx, send)
	}
}

// TellUpdate tells a listener that a resource has changed, now or with the updates of the next moment.
func (f *Follower) TellUpdate(uri string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.send == nil {
		if len(f.early) <= len(f.items) && !slices.Contains(f.early, uri) {
			f.early = append(f.early, uri)
		}
		return
	}
	f.updates.Push(uri, func() { f.send(uri) })
}

// mostAtOnce is how many resources of a listener are asked for at a time.
const mostAtOnce = 16

// followAll follows the resources of a listener until ctx ends, and returns those that their backends refuse.
func (f *Follower) followAll(ctx context.Context) (refused []string) {
	refusals := make(chan string, len(f.items))
	var asking sync.WaitGroup
	room := make(chan struct{}, mostAtOnce)
	for uri, item := range f.items {
		if !item.tellsUpdates() {
			continue
		}
		room <- struct{}{}
		asking.Go(func() {
			defer func() { <-room }()
			err := f.follow(ctx, item.backend, uri)
			if err == nil || ctx.Err() != nil {
				return
			}
			f.s.log.Debug("a backend does not tell of a resource", "backend", item.backend.Key, "error", err)
			refusals <- uri
		})
	}
	asking.Wait()
	close(refusals)
	for uri := range refusals {
		refused = append(refused, uri)
	}
	context.AfterFunc(ctx, func() {
		ending, cancel := context.WithTimeout(context.Background(), tellTime)
		defer cancel()
		for uri, item := range f.items {
			if holder, lasts := f.caller.Holder(item.backend.Options.Isolation); lasts {
				_ = f.unfollow(ending, followedResource{item.backend.Key, holder, uri}, false) // its backend will say in vain what nobody gets
			}
		}
	})
	return refused
}

// Followers returns who follows a resource that the instance of a holder has changed, or with below one above it.
func (s *Server) Followers(key, holder, uri string, below bool) (all []*Follower) {
	a := &s.followers
	a.mu.Lock()
	defer a.mu.Unlock()
	add := func(of *followerSet) {
		for _, f := range of.followers {
			if !slices.Contains(all, f) {
				all = append(all, f)
			}
		}
	}
	if of := a.byResource[followedResource{key, holder, uri}]; of != nil {
		add(of)
	}
	if !below {
		return all
	}
	for above, of := range a.byResource {
		if above.backend == key && above.holder == holder && strings.HasPrefix(uri, strings.TrimSuffix(above.uri, "/")+"/") {
			add(of)
		}
	}
	return all
}

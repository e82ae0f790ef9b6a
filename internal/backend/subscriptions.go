package backend

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/upstream"
	"github.com/troupe-run/troupe/mcp"
)

// subscriptions are the resources that holders follow, for the instances that take the place of theirs.
type subscriptions struct {
	mu sync.Mutex // guards of
	of map[ownership]map[string]bool
}

// ownership is a holder's part in a backend.
type ownership struct{ backend, holder string }

// mostSubscribed is how many resources of a holder are remembered, and how many an instance of the newer era is asked about.
const mostSubscribed = 1000

// note remembers what a holder follows.
func (s *subscriptions) note(key ownership, uris ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.of[key]
	if of == nil && len(uris) > 0 {
		of = make(map[string]bool)
		s.of[key] = of
	}
	for _, uri := range uris[:min(len(uris), max(0, mostSubscribed-len(of)))] {
		of[uri] = true
	}
}

// drop forgets that a holder follows a resource.
func (s *subscriptions) drop(key ownership, uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.of[key], uri); len(s.of[key]) == 0 {
		delete(s.of, key)
	}
}

// forget drops what a holder follows.
func (s *subscriptions) forget(holder string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.of, func(key ownership, _ map[string]bool) bool { return key.holder == holder })
}

func (s *subscriptions) followed(key ownership) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.of[key]))
}

// uriOf is the resource that a request is about.
func uriOf(params []byte) string {
	uri, _ := codec.Str(codec.Field(params, "uri"))
	return uri
}

// subscriptionParams are the params of a request that is about a resource.
func subscriptionParams(uri string) []byte {
	return append(codec.AppendString([]byte(`{"uri":`), uri), '}')
}

// restoreSubscriptions has a new instance say what its holder follows. What the instance refuses is as if it had lost it: its holder is
// told of that loss in any case.
func restoreSubscriptions(ctx context.Context, in *instance) {
	for _, uri := range in.b.subscriptions.followed(ownership{in.of.Name, in.holder()}) {
		if in.isModern() {
			in.followed.add(uri)
			continue
		}
		if r, err := in.conn.Do(ctx, upstream.Request{Method: mcp.MethodResourcesSubscribe, Params: subscriptionParams(uri)}); err == nil && r.Kind == upstream.Complete {
			in.followed.add(uri)
		}
	}
}

// noteSubscription remembers what a request has settled that an instance has answered.
func noteSubscription(b *Backends, l *lease, q *Request, r *upstream.Response) {
	lasts := l.want.Holder != "" && !l.once || l.in.of.Options.Isolation == host.Shared
	if q.Method == mcp.MethodResourcesSubscribe && r.Kind == upstream.Complete && lasts {
		b.subscriptions.note(ownership{l.in.of.Name, l.want.Holder}, uriOf(q.Params))
	}
}

// isTold reports whether a request only changes what instances say by themselves: those that a caller has are told, and none begins for
// that.
func isTold(method string) bool {
	return method == mcp.MethodLoggingSetLevel || method == mcp.MethodResourcesUnsubscribe
}

// tellInstances asks those instances that a caller has what changes what they say by themselves. The first refusal is the answer.
func tellInstances(ctx context.Context, b *Backends, name string, c *Caller, q *Request) (upstream.Response, error) {
	answer := upstream.Response{Result: []byte("{}")}
	of, ok := b.find(name)
	if !ok {
		return answer, nil
	}
	holder, lasts := c.Holder(of.Options.Isolation)
	if !lasts {
		return answer, nil
	}
	uri := uriOf(q.Params)
	if q.Method == mcp.MethodResourcesUnsubscribe {
		b.subscriptions.drop(ownership{name, holder}, uri)
	}
	for _, in := range instancesOf(b, name, holder) {
		if _, err := in.opened(ctx); err != nil {
			continue // it has not begun, or this request has been given up
		}
		if q.Method == mcp.MethodLoggingSetLevel {
			level, _ := codec.Str(codec.Field(q.Params, "level"))
			leveler{in}.settle(ctx, level)
			continue
		}
		if r, err := (hearing{in}).unfollow(ctx, uri); err == nil && r.Kind == upstream.Refused && answer.Kind != upstream.Refused {
			answer = r
		}
	}
	if ctx.Err() != nil {
		return upstream.Response{}, context.Cause(ctx)
	}
	return answer, nil
}

// instancesOf returns the instances that serve a holder now.
func instancesOf(b *Backends, name, holder string) []*instance {
	m := &allOf{name: name, holder: holder}
	m.Init()
	if b.pool.Post(m) == nil {
		m.Wait()
	}
	return m.all
}

package backend

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/upstream"
	"github.com/troupe-run/troupe/mcp"
)

// settings are what holders have settled with their instances, for those that take their place.
type settings struct {
	mu sync.Mutex // guards of
	of map[ownership]*setting
}

// ownership is a holder's part in a backend.
type ownership struct{ backend, holder string }

type setting struct {
	level      []byte            // the params of the last logging/setLevel
	subscribed map[string][]byte // the params of resources/subscribe, by the URI
}

// mostSubscribed is how many subscriptions of a holder are remembered.
const mostSubscribed = 1000

// note remembers what a request has settled that the backend has answered.
func (s *settings) note(backend string, l *lease, q *Request) {
	switch q.Method {
	case mcp.MethodLoggingSetLevel, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
	default:
		return
	}
	holder := l.want.Holder
	if holder == "" || l.once {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := ownership{backend, holder}
	of := s.of[key]
	if of == nil {
		of = &setting{subscribed: make(map[string][]byte)}
		s.of[key] = of
	}
	uri, _ := codec.Str(codec.Field(q.Params, "uri"))
	switch {
	case q.Method == mcp.MethodLoggingSetLevel:
		of.level = slices.Clone(q.Params)
	case q.Method == mcp.MethodResourcesUnsubscribe:
		delete(of.subscribed, uri)
	case len(of.subscribed) < mostSubscribed:
		of.subscribed[uri] = slices.Clone(q.Params)
	}
	if of.level == nil && len(of.subscribed) == 0 {
		delete(s.of, key)
	}
}

// forget drops what a holder has settled.
func (s *settings) forget(holder string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.of, func(key ownership, _ *setting) bool { return key.holder == holder })
}

// restore settles with a new instance what its holder has settled with the one before. What the instance refuses is as if it had lost
// it: its holder is told of that loss in any case.
func (s *settings) restore(ctx context.Context, in *instance) {
	s.mu.Lock()
	of := s.of[ownership{in.of.Name, in.holder()}]
	var level []byte
	var subscribed [][]byte
	if of != nil {
		level, subscribed = of.level, slices.Collect(maps.Values(of.subscribed))
	}
	s.mu.Unlock()
	if level != nil {
		_, _ = in.conn.Do(ctx, upstream.Request{Method: mcp.MethodLoggingSetLevel, Params: level})
	}
	for _, params := range subscribed {
		_, _ = in.conn.Do(ctx, upstream.Request{Method: mcp.MethodResourcesSubscribe, Params: params})
	}
}

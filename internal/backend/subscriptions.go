package backend

import (
	"maps"
	"slices"
	"sync"

	"github.com/troupe-run/troupe/codec"
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

// forgetResource forgets that a holder follows a resource.
func (s *subscriptions) forgetResource(key ownership, uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.of[key], uri); len(s.of[key]) == 0 {
		delete(s.of, key)
	}
}

// forgetHolder forgets what a holder follows.
func (s *subscriptions) forgetHolder(holder string) {
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

// ResourceParams are the params of a message that is about a resource alone.
func ResourceParams(uri string) []byte {
	return append(codec.AppendString([]byte(`{"uri":`), uri), '}')
}

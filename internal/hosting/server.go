package hosting

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/backend"
	"github.com/troupe-run/troupe/internal/backend/listing"
	"github.com/troupe-run/troupe/internal/backend/naming"
)

// A Backend is a server of others that a mounted server offers.
type Backend struct {
	Name    string       // as the configuration has it
	Key     string       // by which Backends know it
	Digest  string       // another one is another server: nothing that is known of the one holds for the other
	URL     bool         // it is reached over HTTP
	Kept    bool         // its instances, and the calls that they work at, outlive this process
	Options host.Options // with their defaults
}

// Server is a mounted server as far as others serve for it. Make it with NewServer.
type Server struct {
	// Tasks is called when a backend lists tools whose calls may become tasks: by themselves, or as asks says also as clients ask for it. It must not
	// block, and not change once the server is configured; nil is told of none.
	Tasks func(asks bool)

	backends  Backends
	wait      time.Duration // of a request for a backend of which nothing is known
	log       *slog.Logger
	mounted   atomic.Pointer[[]*mounted]
	followers followTable
}

// NewServer returns a Server without backends. wait is how long a request waits for one of which nothing is known.
func NewServer(b Backends, wait time.Duration, log *slog.Logger) *Server {
	s := &Server{backends: b, wait: wait, log: log, followers: followTable{byResource: make(map[followedResource]*followerSet)}}
	s.mounted.Store(&[]*mounted{})
	return s
}

// Configure has exactly these backends, in this order.
func (s *Server) Configure(all []Backend) {
	before := *s.mounted.Load()
	next := make([]*mounted, len(all))
	for i, b := range all {
		m := &mounted{Backend: b, log: s.log, prefix: naming.Prefix(b.Name, b.Options.Prefix), filter: naming.Filter{Allow: b.Options.Tools.Allow, Deny: b.Options.Tools.Deny}}
		for _, old := range before {
			if old.Key == b.Key && old.Digest == b.Digest {
				m.quietUntil.Store(old.quietUntil.Load())
			}
		}
		next[i] = m
	}
	s.mounted.Store(&next)
}

// quietTime is for how long nobody waits for a backend that was not there in time.
const quietTime = 30 * time.Second

// LearnLists waits until it is known what each backend lists for such a caller, for as long as a request may wait for that. Of a backend that
// is down, or that starts for too long, it is unknown then.
func (s *Server) LearnLists(ctx context.Context, c *Caller) {
	ctx, cancel := context.WithTimeout(ctx, s.wait)
	defer cancel()
	for range 2 { // a backend may have been asked on behalf of another caller
		var waits []<-chan struct{}
		for _, m := range *s.mounted.Load() {
			if !s.backends.Knows(m.Key, c.Caller) && time.Now().UnixNano() >= m.quietUntil.Load() {
				waits = append(waits, m.beginLearning(s.backends, c, s.wait))
			}
		}
		if waits == nil {
			return
		}
		for _, known := range waits {
			select {
			case <-known:
			case <-ctx.Done():
			}
		}
	}
	if ctx.Err() == nil {
		return
	}
	for _, m := range *s.mounted.Load() {
		if !s.backends.Knows(m.Key, c.Caller) {
			m.quietUntil.Store(time.Now().Add(quietTime).UnixNano())
		}
	}
}

// BeginLearning has backends of which nothing is known begin to say what they list, though nobody has asked yet. It does not wait.
func BeginLearning(s *Server) {
	c := &Caller{Caller: backend.Caller{Alone: true}}
	for _, m := range *s.mounted.Load() {
		if _, known := s.backends.Catalogue(m.Key, c.Caller); !known && time.Now().UnixNano() >= m.quietUntil.Load() {
			m.log.Info("a backend is asked what it lists", "backend", m.Key)
			m.beginLearning(s.backends, c, s.wait)
		}
	}
}

// FindBackend returns the name of the backend that Backends know by a key.
func (s *Server) FindBackend(key string) (Backend, bool) {
	for _, m := range *s.mounted.Load() {
		if m.Key == key {
			return m.Backend, true
		}
	}
	return Backend{}, false
}

// FindItem finds an item by the name by which clients know it, or the resource that a template stands for, among what is known to be
// listed for a caller. Of several backends that have it the first counts.
func (s *Server) FindItem(c *Caller, of listing.Of, name string) (*Item, bool) {
	for _, m := range *s.mounted.Load() {
		if !m.mayHave(of, name) {
			continue
		}
		r := s.reading(m, c)
		if r == nil {
			continue
		}
		if item, ok := r.lists[of].Find(name); ok {
			return &Item{item, of, m, r}, true
		}
	}
	if of != listing.Resources {
		return nil, false
	}
	for _, m := range *s.mounted.Load() {
		r := s.reading(m, c)
		if r == nil {
			continue
		}
		for t := range r.templatesOf(name) {
			return &Item{t, listing.Templates, m, r}, true
		}
	}
	return nil, false
}

// GuessItem returns the item that a name stands for if a backend has it of which it is unknown what it lists for such a caller, or a resource
// that its backend does not list. It returns nil where more than one backend could have it: nobody is asked for what may be another's.
func (s *Server) GuessItem(c *Caller, of listing.Of, name string) (found *Item) {
	for _, m := range *s.mounted.Load() {
		own, r := name, s.reading(m, c)
		switch of {
		case listing.Tools, listing.Prompts:
			if own, _ = naming.Item(m.prefix, name); r != nil && s.backends.Knows(m.Key, c.Caller) || own == "" || of == listing.Tools && !m.filter.Allows(own) {
				continue
			}
		default:
			if r != nil && !r.has("resources") {
				continue
			}
		}
		if found != nil {
			return nil
		}
		found = &Item{&listing.Item{Backend: m.Name, Own: own, Name: name}, of, m, r}
	}
	return found
}

// IsListed reports whether a backend is known to list an item of a name, for whomever, that sees is true of; nil is true of all.
func (s *Server) IsListed(of listing.Of, name string, sees func(*Item) bool) (known bool) {
	s.eachKnown(of, name, func(m *mounted, item *listing.Item) bool {
		known = sees == nil || sees(&Item{item, of, m, nil})
		return !known
	})
	return known
}

// eachKnown calls f for each item that a backend is known to list under a name, for whomever, until it returns false.
func (s *Server) eachKnown(of listing.Of, name string, f func(*mounted, *listing.Item) bool) {
	for _, m := range *s.mounted.Load() {
		if !m.mayHave(of, name) {
			continue
		}
		goOn := true
		m.eachReading(func(r *reading) bool {
			if item, ok := r.lists[of].Find(name); ok {
				goOn = f(m, item)
			}
			return goOn
		})
		if !goOn {
			return
		}
	}
}

// IsSafeTool reports whether a call of a tool may run once more when it is unknown what became of it: for nobody is it known to be a tool
// that must not.
func (s *Server) IsSafeTool(tool string) bool {
	found, safe := false, true
	s.eachKnown(listing.Tools, tool, func(m *mounted, item *listing.Item) bool {
		found, safe = true, m.isSafeTool(item.Own, item)
		return safe
	})
	if found {
		return safe
	}
	for _, m := range *s.mounted.Load() {
		if own, _ := naming.Item(m.prefix, tool); own != "" {
			return m.isSafeTool(own, nil)
		}
	}
	return false
}

// InsistsOnSafe reports whether the configuration itself says that a call of a tool may run once more.
func (s *Server) InsistsOnSafe(tool string) bool {
	for _, m := range *s.mounted.Load() {
		own, may := naming.Item(m.prefix, tool)
		if !may {
			continue
		}
		if own == "" { // the name may have been cut
			s.eachKnown(listing.Tools, tool, func(of *mounted, item *listing.Item) bool {
				if of == m {
					own = item.Own
				}
				return of != m
			})
		}
		if own != "" && naming.Matches(m.Options.Rerun.Safe, own) && !naming.Matches(m.Options.Rerun.Never, own) {
			return true
		}
	}
	return false
}

// KeepsCalls reports whether a call of a tool goes on when this process ends, so that a second run of it finds what the first one has begun.
func (s *Server) KeepsCalls(tool string) bool {
	for _, m := range *s.mounted.Load() {
		if m.Kept && m.mayHave(listing.Tools, tool) {
			return true
		}
	}
	return false
}

// OfSessions returns those of the server.
func (s *Server) OfSessions() (all OfSessions) {
	for _, m := range *s.mounted.Load() {
		if m.ofSession() {
			all = append(all, m)
		}
	}
	return all
}

// MayHaveTool reports whether a name may be that of a tool of a backend.
func (s *Server) MayHaveTool(tool string) bool {
	for _, m := range *s.mounted.Load() {
		if m.mayHave(listing.Tools, tool) {
			return true
		}
	}
	return false
}

// PassedHeaders are the names of the headers that backends are passed.
func PassedHeaders(s *Server) (names []string) {
	for _, m := range *s.mounted.Load() {
		names = append(names, m.Options.PassHeaders...)
	}
	return names
}

package hosting

import (
	"maps"
	"slices"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/backend/listing"
	"github.com/troupe-run/troupe/internal/backend/naming"
	"github.com/troupe-run/troupe/internal/scope"
)

// Find finds an item by the name by which clients know it, or the resource that a template stands for, among what is known to be
// listed for a caller. Of several backends that have it the first counts.
func (s *Server) Find(c *Caller, of listing.Of, name string) (*Item, bool) {
	for _, m := range *s.now.Load() {
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
	for _, m := range *s.now.Load() {
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

// mayHave reports whether a name may be one of the backend's.
func (m *mounted) mayHave(of listing.Of, name string) bool {
	if of != listing.Tools && of != listing.Prompts {
		return true
	}
	_, may := naming.Item(m.prefix, name)
	return may
}

// Guess returns the item that a name stands for if a backend has it of which it is unknown what it lists for such a caller, or a resource
// that its backend does not list. It returns nil where more than one backend could have it: nobody is asked for what may be another's.
func (s *Server) Guess(c *Caller, of listing.Of, name string) (found *Item) {
	for _, m := range *s.now.Load() {
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

// Lists reports whether a backend is known to list an item of a name, for whomever, that sees is true of; nil is true of all.
func (s *Server) Lists(of listing.Of, name string, sees func(*Item) bool) (known bool) {
	s.eachKnown(of, name, func(m *mounted, item *listing.Item) bool {
		known = sees == nil || sees(&Item{item, of, m, nil})
		return !known
	})
	return known
}

// Scoped reports whether something of the backends needs scopes.
func Scoped(s *Server) bool {
	return slices.ContainsFunc(*s.now.Load(), func(m *mounted) bool { return NeedsScopes(m.Options) })
}

// NeedsScopes reports whether something of a backend with such options needs scopes.
func NeedsScopes(o host.Options) bool { return len(o.Scopes)+len(o.ToolScopes) > 0 }

// Needs are the scopes that callers need for an item, beside those of the server, each once. Which backend serves it may depend on the caller: so they are
// those of each that lists it for whomever, and, where none does, of each that may have it. Items that sees is not true of need none; nil is true of all.
func Needs(s *Server, of listing.Of, name string, sees func(*Item) bool) (needs []string) {
	known := false
	add := func(m *mounted, item *listing.Item) bool {
		if known = true; sees == nil || sees(&Item{item, of, m, nil}) {
			needs = m.addNeeds(needs, of, item.Own)
		}
		return true
	}
	s.eachKnown(of, name, add)
	if of == listing.Resources && !known {
		for _, m := range *s.now.Load() {
			m.each(func(r *reading) bool {
				for t := range r.templatesOf(name) {
					add(m, t)
				}
				return true
			})
		}
	}
	if known {
		return needs
	}
	for _, m := range *s.now.Load() {
		if m.mayHave(of, name) {
			own, _ := naming.Item(m.prefix, name)
			needs = m.addNeeds(needs, of, own)
		}
	}
	return needs
}

// Needs are the scopes that the item needs, beside those of the server.
func (i *Item) Needs() []string { return i.backend.addNeeds(nil, i.Of, i.Own) }

// addNeeds adds the scopes of an item of the backend. own is "" for one of which only that is known that its name was cut.
func (m *mounted) addNeeds(needs []string, of listing.Of, own string) []string {
	needs = scope.Union(needs, m.Options.Scopes)
	if of != listing.Tools || len(m.Options.ToolScopes) == 0 {
		return needs
	}
	for _, pattern := range slices.Sorted(maps.Keys(m.Options.ToolScopes)) {
		if own == "" || naming.Matches([]string{pattern}, own) {
			needs = scope.Union(needs, m.Options.ToolScopes[pattern])
		}
	}
	return needs
}

// eachKnown calls f for each item that a backend is known to list under a name, for whomever, until it returns false.
func (s *Server) eachKnown(of listing.Of, name string, f func(*mounted, *listing.Item) bool) {
	for _, m := range *s.now.Load() {
		if !m.mayHave(of, name) {
			continue
		}
		goOn := true
		m.each(func(r *reading) bool {
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

// Safe reports whether a call of a tool may run once more when it is unknown what became of it: for nobody is it known to be a tool
// that must not.
func (s *Server) Safe(tool string) bool {
	found, safe := false, true
	s.eachKnown(listing.Tools, tool, func(m *mounted, item *listing.Item) bool {
		found, safe = true, m.safe(item.Own, item)
		return safe
	})
	if found {
		return safe
	}
	for _, m := range *s.now.Load() {
		if own, _ := naming.Item(m.prefix, tool); own != "" {
			return m.safe(own, nil)
		}
	}
	return false
}

// Insists reports whether the configuration itself says that a call of a tool may run once more.
func (s *Server) Insists(tool string) bool {
	for _, m := range *s.now.Load() {
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

// Resumes reports whether a call of a tool goes on when this process ends, so that a second run of it finds what the first one has begun.
func (s *Server) Resumes(tool string) bool {
	for _, m := range *s.now.Load() {
		if m.Kept && m.mayHave(listing.Tools, tool) {
			return true
		}
	}
	return false
}

// OfSessions are the backends that have an instance for each session, which other nodes have not.
type OfSessions []*mounted

// OfSessions returns those of the server.
func (s *Server) OfSessions() (all OfSessions) {
	for _, m := range *s.now.Load() {
		if m.ofSession() {
			all = append(all, m)
		}
	}
	return all
}

// MayHave reports whether a name may be that of an item of one of them.
func (all OfSessions) MayHave(of listing.Of, name string) bool {
	return slices.ContainsFunc(all, func(m *mounted) bool { return m.mayHave(of, name) })
}

// PassedHeaders are the names of the headers that backends are passed.
func PassedHeaders(s *Server) (names []string) {
	for _, m := range *s.now.Load() {
		names = append(names, m.Options.PassHeaders...)
	}
	return names
}

// ofSession reports whether each session has an instance to itself.
func (m *mounted) ofSession() bool { return m.Options.Isolation == host.BySession }

// OfSession reports whether the item's backend has an instance for each session.
func (i *Item) OfSession() bool { return i.backend.ofSession() }

// May reports whether a name may be that of a tool of a backend.
func (s *Server) May(tool string) bool {
	for _, m := range *s.now.Load() {
		if m.mayHave(listing.Tools, tool) {
			return true
		}
	}
	return false
}

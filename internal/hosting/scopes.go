package hosting

import (
	"slices"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/backend/listing"
	"github.com/troupe-run/troupe/internal/backend/naming"
)

// AnyNeedsScopes reports whether something of the backends needs scopes.
func AnyNeedsScopes(s *Server) bool {
	return slices.ContainsFunc(*s.mounted.Load(), func(m *mounted) bool { return NeedsScopes(m.Options) })
}

// NeedsScopes reports whether something of a backend with such options needs scopes.
func NeedsScopes(o host.Options) bool { return len(o.Scopes)+len(o.ToolScopes) > 0 }

// NeededScopes are the scopes that callers need for an item, beside those of the server, each once. Which backend serves it may depend on the caller: so they are
// those of each that lists it for whomever, and, where none does, of each that may have it. Items that sees is not true of need none; nil is true of all.
func NeededScopes(s *Server, of listing.Of, name string, sees func(*Item) bool) (needs []string) {
	known := false
	add := func(m *mounted, item *listing.Item) bool {
		if known = true; sees == nil || sees(&Item{item, of, m, nil}) {
			needs = m.addNeeds(needs, of, item.Own)
		}
		return true
	}
	s.eachKnown(of, name, add)
	if of == listing.Resources && !known {
		for _, m := range *s.mounted.Load() {
			m.eachReading(func(r *reading) bool {
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
	for _, m := range *s.mounted.Load() {
		if m.mayHave(of, name) {
			own, _ := naming.Item(m.prefix, name)
			needs = m.addNeeds(needs, of, own)
		}
	}
	return needs
}

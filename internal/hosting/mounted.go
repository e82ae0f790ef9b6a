package hosting

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/backend"
	"github.com/troupe-run/troupe/internal/backend/listing"
	"github.com/troupe-run/troupe/internal/backend/naming"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/scope"
	"github.com/troupe-run/troupe/internal/upstream"
	"github.com/troupe-run/troupe/mcp"
)

// mounted is a backend of a Server.
type mounted struct {
	Backend
	log        *slog.Logger
	prefix     string
	filter     naming.Filter
	known      readCatalogues
	quietUntil atomic.Int64 // until when nobody waits for it to say what it lists: it has not lately. Unix nanoseconds

	mu       sync.Mutex    // guards learning
	learning chan struct{} // closed when it has said what it lists, or has failed to; nil if nobody waits
}

// beginLearning has the backend say what it lists, once for all who ask at the same time. It goes on when those who ask have given up.
func (m *mounted) beginLearning(b Backends, c *Caller, wait time.Duration) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.learning != nil {
		return m.learning
	}
	known := make(chan struct{})
	m.learning = known
	caller := c.Caller
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), max(m.Options.Pool.StartTimeout, wait))
		defer cancel()
		has, err := b.Learn(ctx, m.Key, caller)
		if err != nil {
			m.log.Debug("a backend does not say what it lists", "backend", m.Key, "error", err)
			m.quietUntil.Store(time.Now().Add(wait).UnixNano())
		} else {
			n := func(of listing.Of) int { return len(has.Items[of]) }
			m.log.Info("a backend has said what it lists", "backend", m.Key, "tools", n(listing.Tools), "prompts", n(listing.Prompts), "resources", n(listing.Resources))
		}
		m.mu.Lock()
		m.learning = nil
		m.mu.Unlock()
		close(known)
	}()
	return known
}

// mayHave reports whether a name may be one of the backend's.
func (m *mounted) mayHave(of listing.Of, name string) bool {
	if of != listing.Tools && of != listing.Prompts {
		return true
	}
	_, may := naming.Item(m.prefix, name)
	return may
}

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

// ofSession reports whether each session has an instance to itself.
func (m *mounted) ofSession() bool { return m.Options.Isolation == host.BySession }

// roots is the answer to a question for roots that the client does not get.
func (m *mounted) roots() []byte {
	list := m.Options.Roots.List
	if list == nil {
		list = []mcp.Root{}
	}
	return mcp.Raw(mcp.ListRootsResult{Roots: list})
}

// readCatalogue returns the reading of a catalogue of the backend. isNew says that none was like it.
func (m *mounted) readCatalogue(c *backend.Catalogue) (r *reading, isNew bool) {
	k := &m.known
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.byCatalogue[c]; r != nil {
		return r, false
	}
	digest := c.Digest()
	if r = k.byDigest[digest]; r == nil {
		r, isNew = m.newReading(c), true
		if k.byDigest == nil || len(k.byDigest) >= mostReadings {
			k.byDigest = make(map[string]*reading)
		}
		k.byDigest[digest] = r
	}
	if k.byCatalogue == nil || len(k.byCatalogue) >= mostCatalogues {
		k.byCatalogue = make(map[*backend.Catalogue]*reading)
	}
	k.byCatalogue[c] = r
	return r, isNew
}

// eachReading calls f for all that was read of the backend, until it returns false.
func (m *mounted) eachReading(f func(*reading) bool) {
	m.known.mu.Lock()
	all := make([]*reading, 0, len(m.known.byDigest))
	for _, r := range m.known.byDigest {
		all = append(all, r)
	}
	m.known.mu.Unlock()
	for _, r := range all {
		if !f(r) {
			return
		}
	}
}

func (m *mounted) newReading(c *backend.Catalogue) *reading {
	r := &reading{settled: c.Settled, safe: make(map[*listing.Item]bool)}
	capabilities, revision := c.Settled.Capabilities, c.Settled.Revision
	requests := codec.Optional(codec.Optional(capabilities, "tasks"), "requests")
	r.core = protocol.Has(revision, protocol.FeatureCoreTasks) && codec.Optional(codec.Optional(requests, "tools"), "call") != nil
	r.extension = protocol.Has(revision, protocol.FeatureTasksExtension) && codec.Field(codec.Optional(capabilities, "extensions"), mcp.ExtensionTasks) != nil
	for of := range r.lists {
		raw := c.Items[of]
		if listing.Of(of) == listing.Tools {
			raw = r.withTaskSupport(m.usableTools(revision, raw))
		}
		items, err := listing.Read(listing.Of(of), m.Name, raw, m.renamer(listing.Of(of)))
		if err != nil {
			m.log.Warn("a backend lists what has no name", "backend", m.Key, "error", err)
		}
		list, hidden := listing.New(listing.Of(of), c.Settled.Revision, items)
		for i := range hidden {
			m.log.Warn("a backend lists two items of one name: the first counts", "backend", m.Key, "list", listing.Of(of).Member(), "name", hidden[i].Own)
		}
		r.lists[of] = list
	}
	for item := range r.lists[listing.Tools].All {
		r.supports = r.supports || supportIn(item.Raw) != mcp.TaskForbidden
		if m.isSafeTool(item.Own, item) {
			r.safe[item] = true
		}
	}
	for item := range r.lists[listing.Templates].All {
		t := &matcher{item: item}
		t.begins, _, _ = strings.Cut(item.Own, "{")
		r.templates = append(r.templates, t)
	}
	return r
}

// renamer returns what gives items the names by which clients know them, and leaves out those that they may not know.
func (m *mounted) renamer(of listing.Of) func(own string) (string, bool) {
	switch of {
	case listing.Tools:
		return func(own string) (string, bool) { return naming.Name(m.prefix, own), m.filter.Allows(own) }
	case listing.Prompts:
		return func(own string) (string, bool) { return naming.Name(m.prefix, own), true }
	}
	return func(own string) (string, bool) { return own, true }
}

// mostUnusable is how many tools of a backend are logged that may not be used.
const mostUnusable = 10

// usableTools returns the tools of a backend without those that may not be used: over HTTP such whose annotations for headers break the rules
// (2026-07-28, streamable HTTP, custom headers from tool parameters).
func (m *mounted) usableTools(r mcp.Revision, tools [][]byte) [][]byte {
	if !m.URL || !r.Stateless() {
		return tools
	}
	usable, unusable := make([][]byte, 0, len(tools)), 0
	for _, raw := range tools {
		_, err := upstream.HeaderParams(codec.Field(raw, "inputSchema"))
		if err == nil {
			usable = append(usable, raw)
			continue
		}
		if unusable++; unusable <= mostUnusable {
			name, _ := codec.Str(codec.Field(raw, "name"))
			m.log.Warn("a tool of a backend is left out: its annotations for headers break the rules", "backend", m.Key, "tool", name, "error", err)
		}
	}
	return usable
}

// isSafeTool reports whether a call of a tool may run once more. name is the tool's own; in is nil where nothing is known of it.
func (m *mounted) isSafeTool(own string, in *listing.Item) bool {
	switch {
	case naming.Matches(m.Options.Rerun.Never, own):
		return false
	case naming.Matches(m.Options.Rerun.Safe, own):
		return true
	case in == nil:
		return false
	}
	a := (&Item{Item: in, Of: listing.Tools}).Annotations()
	return a != nil && (a.ReadOnlyHint || a.IdempotentHint)
}

// OfSessions are the backends that have an instance for each session, which other nodes have not.
type OfSessions []*mounted

// MayHave reports whether a name may be that of an item of one of them.
func (all OfSessions) MayHave(of listing.Of, name string) bool {
	return slices.ContainsFunc(all, func(m *mounted) bool { return m.mayHave(of, name) })
}

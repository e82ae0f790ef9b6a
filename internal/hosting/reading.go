package hosting

import (
	"iter"
	"strings"
	"sync"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/backend"
	"github.com/troupe-run/troupe/internal/backend/listing"
	"github.com/troupe-run/troupe/internal/backend/naming"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/template"
	"github.com/troupe-run/troupe/internal/upstream"
	"github.com/troupe-run/troupe/mcp"
)

// reading is a catalogue as clients may see it: with the names that they know, and without what they may not know. It does not
// change.
type reading struct {
	settled   *upstream.Settled
	lists     [4]*listing.List // by listing.Of
	templates []*matcher       // of listing.Templates

	core, extension bool                   // the backend makes tasks of calls: those of 2025-11-25, or of the extension
	supports        bool                   // clients may ask for tasks of some tool
	safe            map[*listing.Item]bool // tools whose calls may run once more, and so may become tasks by themselves
}

// has reports whether the backend declares a capability.
func (r *reading) has(capability string) bool {
	return codec.Optional(r.settled.Capabilities, capability) != nil
}

// templatesOf yields the templates that a URI may stand for.
func (r *reading) templatesOf(uri string) iter.Seq[*listing.Item] {
	return func(yield func(*listing.Item) bool) {
		for _, t := range r.templates {
			if t.matches(uri) && !yield(t.item) {
				return
			}
		}
	}
}

// matcher says which URIs a template of a backend stands for. It is compiled when a URI has come that it may stand for.
type matcher struct {
	item   *listing.Item
	begins string // its literal beginning
	once   sync.Once
	parsed *template.Template // nil for a template that we cannot read: its beginning counts
}

func (t *matcher) matches(uri string) bool {
	if t.begins == "" || !strings.HasPrefix(uri, t.begins) {
		return false
	}
	t.once.Do(func() { t.parsed, _ = template.New(t.item.Own) })
	if t.parsed == nil {
		return true
	}
	_, ok := t.parsed.Match(template.Normal(uri))
	return ok
}

// readCatalogues are what was read of catalogues. They are few: each backend has one, and another one for each way in which it lists
// otherwise for some clients.
type readCatalogues struct {
	mu    sync.Mutex // guards the rest, and is held while one is made
	of    map[*backend.Catalogue]*reading
	alike map[string]*reading // by the digest of catalogues
}

const (
	// mostCatalogues is how many catalogues of a backend are remembered: each instance may have one, and most are alike.
	mostCatalogues = 4096
	// mostReadings is how many are remembered of which no two are alike.
	mostReadings = 64
)

// read returns the reading of a catalogue of the backend. isNew says that none was like it.
func (m *mounted) read(c *backend.Catalogue) (r *reading, isNew bool) {
	k := &m.known
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.of[c]; r != nil {
		return r, false
	}
	digest := c.Digest()
	if r = k.alike[digest]; r == nil {
		r, isNew = m.newReading(c), true
		if k.alike == nil || len(k.alike) >= mostReadings {
			k.alike = make(map[string]*reading)
		}
		k.alike[digest] = r
	}
	if k.of == nil || len(k.of) >= mostCatalogues {
		k.of = make(map[*backend.Catalogue]*reading)
	}
	k.of[c] = r
	return r, isNew
}

// each calls f for all that was read of the backend, until it returns false.
func (m *mounted) each(f func(*reading) bool) {
	m.known.mu.Lock()
	all := make([]*reading, 0, len(m.known.alike))
	for _, r := range m.known.alike {
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
			raw = r.shown(m.usable(revision, raw))
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
		if m.safe(item.Own, item) {
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

// usable returns the tools of a backend without those that may not be used: over HTTP such whose annotations for headers break the rules
// (2026-07-28, streamable HTTP, custom headers from tool parameters).
func (m *mounted) usable(r mcp.Revision, tools [][]byte) [][]byte {
	if !m.URL || !r.Stateless() {
		return tools
	}
	usable, unusable := make([][]byte, 0, len(tools)), 0
	for _, raw := range tools {
		_, err := upstream.Params(codec.Field(raw, "inputSchema"))
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

// anyCall is the execution of a tool of which the backend decides with each call whether it becomes a task.
var anyCall = mcp.Raw(mcp.ToolExecution{TaskSupport: mcp.TaskOptional})

// shown returns the tools that a backend lists, with what clients of 2025-11-25 may ask for: a task that is ours. The tool says so where the
// backend is of that revision, whether or not the backend itself makes tasks.
func (r *reading) shown(tools [][]byte) [][]byte {
	out := make([][]byte, len(tools))
	for i, raw := range tools {
		switch {
		case r.extension:
			out[i] = WithMember(raw, "execution", anyCall)
		case protocol.Has(r.settled.Revision, protocol.FeatureCoreTasks) && (supportIn(raw) != mcp.TaskForbidden || codec.SameString(supportOf(raw), string(mcp.TaskForbidden))):
			out[i] = raw
		default:
			out[i] = Without(raw, "execution")
		}
	}
	return out
}

// supportOf is the word in which a listed tool says that, as raw JSON.
func supportOf(raw []byte) []byte {
	return codec.Field(codec.Optional(raw, "execution"), "taskSupport")
}

// supportIn is what a listed tool says of tasks: that it makes none if it says nothing, or what nobody knows.
func supportIn(raw []byte) mcp.TaskSupport {
	word, _ := codec.Str(supportOf(raw))
	if support := mcp.TaskSupport(word); support == mcp.TaskOptional || support == mcp.TaskRequired {
		return support
	}
	return mcp.TaskForbidden
}

// TaskSupport says whether clients of 2025-11-25 may, or must, ask for a task of a tool's call.
func (i *Item) TaskSupport() mcp.TaskSupport {
	if i.Of != listing.Tools || i.listed() == nil {
		return mcp.TaskForbidden
	}
	return supportIn(i.Raw)
}

// Safe reports whether a call of a tool may run once more.
func (i *Item) Safe() bool {
	if i.in != nil && i.listed() != nil {
		return i.in.safe[i.Item]
	}
	return i.backend.safe(i.Own, i.listed())
}

// reading returns what a caller sees of a backend, nil if nothing is known of it.
func (s *Server) reading(m *mounted, c *Caller) *reading {
	known, ok := s.backends.Catalogue(m.Key, c.Caller)
	if !ok {
		return nil
	}
	r, isNew := m.read(known)
	if isNew {
		logHidden(s, m, r)
		if s.Tasks != nil && (r.supports || len(r.safe) > 0) {
			s.Tasks(r.supports)
		}
	}
	return r
}

// mostHidden is how many items of one list are logged that another backend hides.
const mostHidden = 10

// logHidden logs which items of a backend nobody sees, because one that comes first has their names, or hides with its own those of
// others.
func logHidden(s *Server, m *mounted, r *reading) {
	first := true // whether others come before m
	for _, other := range *s.now.Load() {
		if other == m {
			first = false
			continue
		}
		shows, hides := other, m
		if !first {
			shows, hides = m, other
		}
		other.each(func(theirs *reading) bool {
			for of := range r.lists {
				n := 0
				for item := range r.lists[of].All {
					if _, both := theirs.lists[of].Find(item.Name); !both {
						continue
					}
					if n++; n > mostHidden {
						break
					}
					s.log.Warn("two backends have an item of one name: that of the first counts", "list", listing.Of(of).Member(), "name", item.Name, "first", shows.Key, "hidden", hides.Key)
				}
			}
			return false // others of theirs differ little
		})
	}
}

// An Item is a tool, a prompt, a resource or a template of a backend.
type Item struct {
	*listing.Item
	Of      listing.Of
	backend *mounted
	in      *reading // nil for an item of a backend of which nothing is known
}

// Annotations are those of a tool, nil if it has none.
func (i *Item) Annotations() *mcp.ToolAnnotations {
	raw := codec.Optional(i.Raw, "annotations")
	if i.Of != listing.Tools || raw == nil {
		return nil
	}
	a := new(mcp.ToolAnnotations)
	if codec.Unmarshal(raw, a) != nil {
		return nil
	}
	return a
}

// Meta is the `_meta` of the item, nil if it has none.
func (i *Item) Meta() (m mcp.Meta) {
	if raw := codec.Optional(i.Raw, "_meta"); raw != nil {
		_ = codec.Unmarshal(raw, &m) // what cannot be read is none
	}
	return m
}

// Backend is the name of its backend, as the configuration has it.
func (i *Item) Backend() string { return i.backend.Name }

// Key is the key of its backend.
func (i *Item) Key() string { return i.backend.Key }

// Kept reports whether calls of it go on when this process ends.
func (i *Item) Kept() bool { return i.backend.Kept }

// safe reports whether a call of a tool may run once more. name is the tool's own; in is nil where nothing is known of it.
func (m *mounted) safe(own string, in *listing.Item) bool {
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

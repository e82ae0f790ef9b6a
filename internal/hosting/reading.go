package hosting

import (
	"iter"
	"maps"
	"strings"
	"sync"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/backend"
	"github.com/troupe-run/troupe/internal/backend/listing"
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
	_, ok := t.parsed.Match(template.NormalizeURI(uri))
	return ok
}

// readCatalogues are what was read of catalogues. They are few: each backend has one, and another one for each way in which it lists
// otherwise for some clients.
type readCatalogues struct {
	mu          sync.Mutex // guards the rest, and is held while one is made
	byCatalogue map[*backend.Catalogue]*reading
	byDigest    map[string]*reading // by the digest of catalogues
}

const (
	// mostCatalogues is how many catalogues of a backend are remembered: each instance may have one, and most are alike.
	mostCatalogues = 4096
	// mostReadings is how many are remembered of which no two are alike.
	mostReadings = 64
)

// anyCall is the execution of a tool of which the backend decides with each call whether it becomes a task.
var anyCall = mcp.Raw(mcp.ToolExecution{TaskSupport: mcp.TaskOptional})

// withTaskSupport returns the tools that a backend lists, each with what clients of 2025-11-25 may ask for: a task that is ours. The tool says so where the
// backend is of that revision, whether or not the backend itself makes tasks.
func (r *reading) withTaskSupport(tools [][]byte) [][]byte {
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

// capabilities are those of a backend that its clients may use here. Changes of lists are told in any case, and log messages may
// come from us.
func (r *reading) capabilities() (c mcp.ServerCapabilities) {
	if codec.Unmarshal(r.settled.Capabilities, &c) != nil {
		c = mcp.ServerCapabilities{}
	}
	c.Tasks, c.Logging = nil, mcp.Declared()
	if r.supports {
		c.Tasks = new(mcp.ServerTasksCapability) // the tasks are the server's, which says what it does with them
	}
	if c.Extensions = maps.Clone(c.Extensions); c.Extensions == nil {
		c.Extensions = make(map[string]mcp.Object)
	}
	if delete(c.Extensions, mcp.ExtensionTasks); r.supports || len(r.safe) > 0 {
		c.Extensions[mcp.ExtensionTasks] = nil
	}
	if c.Tools != nil {
		c.Tools = &mcp.ListChanged{ListChanged: true}
	}
	if c.Prompts != nil {
		c.Prompts = &mcp.ListChanged{ListChanged: true}
	}
	if c.Resources != nil {
		c.Resources = &mcp.ResourcesCapability{ListChanged: true, Subscribe: c.Resources.Subscribe}
	}
	return c
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

// reading returns what a caller sees of a backend, nil if nothing is known of it.
func (s *Server) reading(m *mounted, c *Caller) *reading {
	known, ok := s.backends.Catalogue(m.Key, c.Caller)
	if !ok {
		return nil
	}
	r, isNew := m.readCatalogue(known)
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
	for _, other := range *s.mounted.Load() {
		if other == m {
			first = false
			continue
		}
		shows, hides := other, m
		if !first {
			shows, hides = m, other
		}
		other.eachReading(func(theirs *reading) bool {
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

package troupe

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/catalogue"
	"github.com/troupe-run/troupe/internal/hosting"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/scope"
	"github.com/troupe-run/troupe/internal/skill"
	"github.com/troupe-run/troupe/internal/spoken"
	"github.com/troupe-run/troupe/internal/template"
	"github.com/troupe-run/troupe/mcp"
)

// ServerOptions are the settings of a server. The zero value is ready to use.
type ServerOptions struct {
	// ID names the server in the store: [a-z0-9-], 1 to 32 characters, the same
	// on every node. Sessions belong to it. Two servers of one Runtime must differ.
	// Empty makes an id of the path of Mount: "main" for /mcp and on stdio, "weather" for
	// /weather and /weather/mcp, and a name with a hash for longer paths. Set an ID if
	// the server must keep its sessions when its path changes.
	ID string
	// Instructions tell a model how to use the server.
	Instructions string
	// Complete answers completion/complete; nil declares no completions.
	Complete func(ctx context.Context, call *Call, p mcp.CompleteParams) (mcp.Completion, error)
	// Subscribe runs before a client subscribes to a resource; an error refuses the
	// subscription. nil allows every URI.
	Subscribe func(ctx context.Context, call *Call, uri string) error
	// SubResources sends the update of a resource also to subscribers of the resources
	// that it lies below, under its own URI: an update of file:///a/b also goes to
	// subscribers of file:///a and file:///a/. Clients must expect that, but not all do.
	SubResources bool
	// Scopes are those that every request to the server needs, such as "mcp:use": the scopes of its caller ([Principal].Scopes) must hold or imply
	// them. A caller that lacks one gets status 403 with a challenge, by which clients ask their users for more; docs/auth.md says how. A scope has
	// no spaces, quotes or backslashes (RFC 6749, 3.3), and is not offline_access. Over stdio everything is allowed.
	Scopes []string
	// Limits are the server's own limits. A zero field takes the Runtime's.
	Limits Limits
	// Revisions are the revisions of the protocol that clients may begin to use with the server, in any order: nil means those of
	// Options. All nodes should have the same; docs/revisions.md says what happens while they change.
	//
	// Without 2026-07-28 the server answers as one that has never heard of it, so that a client which
	// prefers that revision begins a session instead. Without any older one initialize is
	// refused with the revisions that are left. Without 2024-11-05 a client of HTTP+SSE cannot connect.
	// A session goes on to its end in the revision in which it began, whether or not the server still speaks that.
	// Mount refuses an empty list, and one that has a revision twice or names none of [Revisions].
	Revisions []mcp.Revision
	// ListCache is how long clients since 2026-07-28 may keep the lists and the result of
	// server/discover. ReadCache is how long they may keep the contents of resources; a
	// handler can set another time with Call.SetCache.
	ListCache, ReadCache Cache
	// RootsChanged runs when a client's roots have changed. It must not block.
	RootsChanged func(p *Peer)
	// Visible reports whether a caller may see an item of the server. For a caller who
	// may not, the item does not exist. It is in no list; to call, read, complete or
	// subscribe to it fails as for an unknown item; and its changes are not announced. A
	// template that matches a hidden resource's URI does not read that resource. With
	// Visible set, clients can only subscribe to resources that are registered or that a
	// template matches. Visible runs again for each update of a resource that goes out to
	// a subscriber.
	//
	// p is the principal of the request. For announcements and updates outside of requests
	// it is the principal of the session's newest request on this node, or of the request of
	// subscriptions/listen, without its Token.
	// It is the zero Principal over stdio, and in a session that another process began
	// until this node gets a request of that session.
	//
	// Visible must be quick, and several run at once. An item for which it panics is
	// hidden; the panic is counted, and logged at most once a minute. Call
	// [Server.FilterChanged] when the results of Visible change. nil shows everything to
	// everybody.
	Visible func(p Principal, item Item) bool
	// SessionBegan runs when initialize has begun a session, before the client gets the
	// response, which waits for it. ctx ends when the time to wait for the store is over.
	// Stateless requests (2026-07-28) begin no session.
	SessionBegan func(ctx context.Context, p *Peer)
	// SessionEnded runs when a session has ended, on a goroutine of its own and after
	// SessionBegan has returned. how says why the session ended, and p still describes it.
	// Runtime.Close does not wait for it.
	//
	// It runs at most once for a session, in one of the processes that share the store, and
	// not for every session. When a process is
	// killed, its sessions go on in the next process, without another SessionBegan. A
	// session leaves the memory after a minute without use; if it expires after that, no
	// SessionEnded runs. So anything that it must clean up needs an expiry of its own.
	SessionEnded func(p *Peer, how SessionEnd)
	// MethodMiddleware wraps the handlers of requests, inside the MethodMiddleware of
	// Options. The first one is outermost: it sees a request first and its result last.
	MethodMiddleware []MethodMiddleware
	// Experimental are capabilities that the specification does not have, by their
	// names. Extensions are the capabilities of its extensions, by their identifiers.
	// Each value is a JSON object; nil stands for an empty one. Those of tasks, skills and
	// MCP Apps are declared by what is added; with mcp.ExtensionSkills here, a server to which
	// skills are added later answers skills/list from the start.
	Experimental, Extensions map[string]mcp.Object
}

// Server is one MCP server: its tools, prompts and resources. It does nothing
// until a Runtime mounts it.
type Server struct {
	impl      mcp.Implementation
	opts      ServerOptions
	head      resultHead
	tools     *catalogue.Catalogue[*tool]
	prompts   *catalogue.Catalogue[*prompt]
	resources *catalogue.Catalogue[*resource]
	templates *catalogue.Catalogue[*resourceTemplate]
	skills    *catalogue.Catalogue[*skillEntry]
	// The program's own methods and notifications, by name: *method, and
	// func(*Peer, []byte).
	methods, notifications sync.Map
	hasTasks               atomic.Bool // a tool was added whose calls may become tasks as their clients ask
	longTasks              atomic.Bool // a tool was added whose calls may become tasks by themselves
	hasSkills              atomic.Bool // a skill was added, or the program declares that there may be some
	hasPages               atomic.Bool // a page was added, or a tool that has one
	scoped                 atomic.Bool // the server needs scopes, or an item was added that does
	backends               serverBackends
	mount                  mountPoint
}

// serverBackends are the backends of a server.
type serverBackends struct {
	mu  sync.Mutex // guards all, and is held while a change is carried out
	all []Backend

	// hosted is the server as far as they serve for it; nil until it is mounted with backends. It stays when they are taken away.
	hosted atomic.Pointer[hosting.Server]
}

var serverID = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

// NewServer returns a server. It panics when opts.ID or a scope is not valid, when a middleware is
// nil, or when the server's capabilities cannot be encoded. A nil opts stands for the zero
// value.
func NewServer(impl mcp.Implementation, opts *ServerOptions) *Server {
	s, err := TryNewServer(impl, opts)
	must(err)
	return s
}

// TryNewServer is NewServer for a server that the program learns when it runs: where
// NewServer panics, it returns an error.
func TryNewServer(impl mcp.Implementation, opts *ServerOptions) (*Server, error) {
	s := &Server{impl: impl, head: newResultHead(impl)}
	if opts != nil {
		s.opts = *opts
	}
	s.opts.MethodMiddleware, s.opts.Revisions = slices.Clone(s.opts.MethodMiddleware), spoken.OldestFirst(s.opts.Revisions)
	s.opts.Scopes = slices.Clone(s.opts.Scopes)
	s.opts.Experimental, s.opts.Extensions = maps.Clone(s.opts.Experimental), maps.Clone(s.opts.Extensions)
	if s.opts.ID != "" && !serverID.MatchString(s.opts.ID) {
		return nil, fmt.Errorf("troupe: server id %q: want 1 to 32 of a-z, 0-9 and -", s.opts.ID)
	}
	if err := scope.Check(s.opts.Scopes); err != nil {
		return nil, fmt.Errorf("troupe: server %q: %w", impl.Name, err)
	}
	s.scoped.Store(len(s.opts.Scopes) > 0)
	for _, all := range []map[string]mcp.Object{s.opts.Experimental, s.opts.Extensions} {
		for name, o := range all {
			if len(o) > 0 && (!codec.Valid(o) || !isObject(bytes.TrimSpace(o))) {
				return nil, fmt.Errorf("troupe: server %q: capabilities: %q is no JSON object", impl.Name, name)
			}
		}
	}
	if err := noneOf("ServerOptions.MethodMiddleware", s.opts.MethodMiddleware); err != nil {
		return nil, fmt.Errorf("troupe: server %q: %w", impl.Name, err)
	}
	if _, err := codec.Marshal(s.declaredCapabilities()); err != nil {
		return nil, fmt.Errorf("troupe: server %q: capabilities: %w", impl.Name, err)
	}
	s.tools = catalogue.New(func(t *tool) any { return t.wire() }, func(t *tool, r mcp.Revision) any { return protocol.ToolFor(t.wire(), r) })
	s.prompts = catalogue.New(func(p *prompt) any { return p.wire() }, func(p *prompt, r mcp.Revision) any { return protocol.PromptFor(p.wire(), r) })
	s.resources = catalogue.New(func(x *resource) any { return x.Resource }, func(x *resource, r mcp.Revision) any { return protocol.ResourceFor(x.Resource, r) })
	s.templates = catalogue.New(func(t *resourceTemplate) any { return t.ResourceTemplate }, func(t *resourceTemplate, r mcp.Revision) any { return protocol.TemplateFor(t.ResourceTemplate, r) })
	s.tools.Changed = func() { s.mount.listChanged(0) }
	s.prompts.Changed = func() { s.mount.listChanged(1) }
	s.skills = catalogue.New(func(k *skillEntry) any { return k.entry }, func(k *skillEntry, _ mcp.Revision) any { return k.entry })
	resources := func() { s.mount.listChanged(2) }
	s.resources.Changed, s.templates.Changed, s.skills.Changed = resources, resources, resources
	if _, ok := s.opts.Extensions[mcp.ExtensionSkills]; ok {
		s.hasSkills.Store(true)
	}
	return s, nil
}

// The values of extensions among a server's capabilities.
var (
	skillsCapability = mcp.Object(`{"directoryRead":true}`)
	uiCapability     = mcp.Object(`{"mimeTypes":["` + mcp.MIMEApp + `"]}`)
)

// declaredCapabilities returns the capabilities that the server declares.
func (s *Server) declaredCapabilities() mcp.ServerCapabilities {
	var c mcp.ServerCapabilities
	c.Logging = mcp.Declared()
	c.Tools = &mcp.ListChanged{ListChanged: true}
	c.Prompts = &mcp.ListChanged{ListChanged: true}
	c.Resources = &mcp.ResourcesCapability{ListChanged: true, Subscribe: true}
	if s.opts.Complete != nil {
		c.Completions = mcp.Declared()
	}
	c.Experimental, c.Extensions = s.opts.Experimental, s.opts.Extensions
	if s.hasTasks.Load() {
		c.Tasks = &mcp.ServerTasksCapability{List: mcp.Declared(), Cancel: mcp.Declared(), Requests: &mcp.ServerTaskRequests{Tools: &mcp.ToolTaskRequests{Call: mcp.Declared()}}}
	}
	own := [...]struct {
		declared bool
		name     string
		value    mcp.Object
	}{
		{s.hasTasks.Load() || s.longTasks.Load(), mcp.ExtensionTasks, nil},
		{s.hasSkills.Load(), mcp.ExtensionSkills, skillsCapability},
		{s.hasPages.Load(), mcp.ExtensionUI, uiCapability},
	}
	for _, e := range own {
		if e.declared {
			c.Extensions = maps.Clone(c.Extensions)
			if c.Extensions == nil {
				c.Extensions = make(map[string]mcp.Object)
			}
			c.Extensions[e.name] = e.value
		}
	}
	return c
}

// Revisions returns the revisions that clients may begin to use with the server, oldest first:
// those of its ServerOptions, or else those of the Runtime that it is mounted in. A server that is
// mounted nowhere and names none may speak all. The slice is the caller's.
func (s *Server) Revisions() []mcp.Revision {
	if m := s.mount.mountedService(); m != nil {
		return slices.Clone(m.speaks)
	}
	return slices.Clone(s.spokenRevisions(nil))
}

// spokenRevisions returns the revisions of the server in a Runtime whose options name others.
func (s *Server) spokenRevisions(others []mcp.Revision) spoken.Revisions {
	switch {
	case s.opts.Revisions != nil:
		return s.opts.Revisions
	case others != nil:
		return others
	}
	return mcp.Revisions()
}

// findMethod finds a method that AddMethod has registered.
func (s *Server) findMethod(name []byte) (*method, bool) {
	m, ok := s.methods.Load(string(name))
	if !ok {
		return nil, false
	}
	return m.(*method), true
}

// RemovePrompts removes prompts. It ignores names that the server does not have.
func (s *Server) RemovePrompts(names ...string) { s.prompts.Remove(names...) }

func (s *Server) addPrompt(p Prompt, handler PromptHandler, replace bool) error {
	if s == nil {
		return fmt.Errorf("troupe: prompt %q: %w", p.Name, errNoServer)
	}
	if err := checkName("prompt", p.Name); err != nil {
		return err
	}
	if handler == nil {
		return fmt.Errorf("troupe: prompt %q: %w", p.Name, errNoHandler)
	}
	if err := checkNeeds(p.Needs); err != nil {
		return fmt.Errorf("troupe: prompt %q: %w", p.Name, err)
	}
	needs, err := s.guardScopes(p.Scopes)
	if err != nil {
		return fmt.Errorf("troupe: prompt %q: %w", p.Name, err)
	}
	p.Arguments, p.Icons, p.Meta, p.Scopes = slices.Clone(p.Arguments), slices.Clone(p.Icons), p.Meta.Clone(), slices.Clone(p.Scopes)
	replaced, err := s.prompts.Put(p.Name, &prompt{Prompt: p, handler: handler, needs: needs}, replace)
	if err != nil {
		return fmt.Errorf("troupe: prompt %w", err)
	}
	if replaced {
		s.mount.adviseReplaced("prompt", p.Name)
	}
	return nil
}

// RemoveResources removes resources. It ignores URIs that the server does not have, and those
// of the files of skills: see [Server.RemoveSkills].
func (s *Server) RemoveResources(uris ...string) {
	s.resources.Edit(func(all map[string]*resource) bool {
		before := len(all)
		for _, uri := range uris {
			if r, ok := all[uri]; ok && r.file == nil {
				delete(all, uri)
			}
		}
		return len(all) != before
	})
}

// RemoveResourceTemplates removes templates. It ignores those that the server does not have.
func (s *Server) RemoveResourceTemplates(templates ...string) { s.templates.Remove(templates...) }

// ResourceUpdated tells every session and listener that subscribed to uri that the
// resource has changed, on all processes that share the store; see also ServerOptions.SubResources. Of several updates of a resource within
// 100 ms the first is sent at once, and the others as one at the end of that time. It does
// not wait for clients, and does nothing before the server is mounted.
func (s *Server) ResourceUpdated(uri string) { s.mount.resourceUpdated(uri) }

func (s *Server) addResource(r mcp.Resource, handler ResourceHandler, replace bool) error {
	if s == nil {
		return fmt.Errorf("troupe: resource %q: %w", r.URI, errNoServer)
	}
	if r.URI == "" || r.Name == "" {
		return fmt.Errorf("troupe: resource %q: it needs a URI and a name", r.URI)
	}
	if handler == nil {
		return fmt.Errorf("troupe: resource %q: %w", r.URI, errNoHandler)
	}
	needs, err := s.guardScopes(r.Scopes)
	if err != nil {
		return fmt.Errorf("troupe: resource %q: %w", r.URI, err)
	}
	r.Icons, r.Meta, r.Scopes = slices.Clone(r.Icons), r.Meta.Clone(), slices.Clone(r.Scopes)
	if _, err := codec.Marshal(r); err != nil {
		return fmt.Errorf("troupe: resource %q: %w", r.URI, err)
	}
	replaced, fault := false, error(nil)
	s.resources.Edit(func(all map[string]*resource) bool {
		var old *resource
		switch old, replaced = all[r.URI]; {
		case replaced && old.file != nil:
			fault = fmt.Errorf("troupe: resource %q: it is a file of a skill, whose digest would no longer be right", r.URI)
		case replaced && !replace:
			fault = fmt.Errorf("troupe: resource %w", catalogue.ErrTaken(r.URI))
		default:
			all[r.URI] = &resource{Resource: r, handler: handler, needs: needs}
		}
		return fault == nil
	})
	if fault != nil {
		return fault
	}
	if replaced {
		s.mount.adviseReplaced("resource", r.URI)
		s.mount.reviewListeners()
	}
	return nil
}

func (s *Server) addTemplate(t mcp.ResourceTemplate, handler ResourceHandler, replace bool) error {
	if s == nil {
		return fmt.Errorf("troupe: resource template %q: %w", t.URITemplate, errNoServer)
	}
	parsed, err := template.New(t.URITemplate)
	if err != nil {
		return fmt.Errorf("troupe: resource template %q: %w", t.URITemplate, err)
	}
	if t.Name == "" {
		return fmt.Errorf("troupe: resource template %q: it needs a name", t.URITemplate)
	}
	if handler == nil {
		return fmt.Errorf("troupe: resource template %q: %w", t.URITemplate, errNoHandler)
	}
	needs, err := s.guardScopes(t.Scopes)
	if err != nil {
		return fmt.Errorf("troupe: resource template %q: %w", t.URITemplate, err)
	}
	t.Icons, t.Meta, t.Scopes = slices.Clone(t.Icons), t.Meta.Clone(), slices.Clone(t.Scopes)
	replaced, err := s.templates.Put(t.URITemplate, &resourceTemplate{ResourceTemplate: t, parsed: parsed, handler: handler, needs: needs}, replace)
	if err != nil {
		return fmt.Errorf("troupe: resource template %w", err)
	}
	if replaced {
		s.mount.adviseReplaced("resource template", t.URITemplate)
		s.mount.reviewListeners()
	}
	return nil
}

// findReader finds who reads uri for a caller with view v.
func (s *Server) findReader(v *view, uri string) (found, bool) {
	if r, ok := s.resources.Get(uri); ok { // if v hides it, a template that matches must not show it
		return found{handler: r.handler, uri: uri, needs: r.needs}, v.seesItem(r.item())
	}
	now := s.resources.Now()
	like := now.SpelledLike(uri)
	for _, name := range like { // a template's handler gets its variables without escapes, and cannot tell the spellings apart
		if !v.seesItem(now.ByName[name].item()) {
			return found{}, false
		}
	}
	for _, name := range like {
		if template.SameURI(name, uri) {
			return found{handler: now.ByName[name].handler, uri: name, needs: now.ByName[name].needs}, true
		}
	}
	templates := s.templates.Now()
	if len(templates.Names) == 0 {
		return found{}, false
	}
	normal := template.NormalizeURI(uri)
	for _, name := range templates.Names {
		t := templates.ByName[name]
		vars, ok := t.parsed.Match(normal)
		if !ok || !v.seesItem(t.item()) {
			continue
		}
		return found{t.handler, uri, vars, s.templateNeeds(now, t, vars)}, v == nil || !hidesVars(v, now, t, vars)
	}
	return found{}, false
}

// listedSpelling returns uri or, if it is another spelling of a resource's URI, that one: by it the resource is subscribed to.
func (s *Server) listedSpelling(v *view, uri string) string {
	if f, ok := s.findReader(v, uri); ok {
		return f.uri
	}
	return uri
}

func (s *Server) addSkill(k Skill, replace bool) error {
	fail := func(err error) error {
		return fmt.Errorf("troupe: skill %q: %w", cmp.Or(k.Path, k.Dir, "."), err)
	}
	if s == nil {
		return fail(errNoServer)
	}
	t, err := readSkills(k)
	if err != nil {
		return fail(err)
	}
	replaced, err := s.putSkills(t, replace)
	if err != nil {
		return fail(err)
	}
	if replaced {
		s.mount.adviseReplaced("skill", t.path)
	}
	for _, why := range t.odd {
		s.mount.logAdvice(advice{"a SKILL.md within a skill makes no skill, and is served as a file alone", []slog.Attr{slog.String("skill", t.path), slog.String("why", why.Error())}})
	}
	return nil
}

// RemoveSkills removes skills by their Path, with those that lie in their directories. It
// ignores paths that [AddSkill] was not given.
func (s *Server) RemoveSkills(paths ...string) {
	for _, p := range paths {
		s.skills.Edit(func(all map[string]*skillEntry) bool {
			i, ok := all[skillURI(p, skill.MainFile)]
			if !ok || i.tree.path != p {
				return false
			}
			_, _ = replaceFiles(s, i.tree, nil) // there is nothing that could be in the way
			maps.DeleteFunc(all, func(_ string, k *skillEntry) bool { return k.tree == i.tree })
			return true
		})
	}
}

// putSkills puts the skills of t in the place of those that have its path, or refuses to unless replace is set.
func (s *Server) putSkills(t *skillTree, replace bool) (replaced bool, err error) {
	var changed []string
	s.skills.Edit(func(all map[string]*skillEntry) bool {
		var before *skillTree
		for _, k := range all {
			switch {
			case k.tree.path == t.path:
				before = k.tree
			case strings.HasPrefix(k.tree.path, t.path+"/"), strings.HasPrefix(t.path, k.tree.path+"/"):
				err = fmt.Errorf("it and the skill %q lie in one another, and each lists all files of its directory: add them as one", k.tree.path)
				return false
			}
		}
		if replaced = before != nil; replaced && !replace {
			err = catalogue.ErrTaken(t.path)
			return false
		}
		if changed, err = replaceFiles(s, before, t); err != nil {
			return false
		}
		maps.DeleteFunc(all, func(_ string, k *skillEntry) bool { return k.tree == before })
		for _, k := range t.skills {
			all[k.entry.URI] = k
		}
		s.hasSkills.Store(true) // before clients are told of a change
		return true
	})
	for _, uri := range changed {
		s.ResourceUpdated(uri)
	}
	return replaced, err
}

// replaceFiles makes resources of the files of t in place of those of before; either may be nil. It returns the URIs of files that
// were there with other bytes.
func replaceFiles(s *Server, before, t *skillTree) (changed []string, err error) {
	s.resources.Edit(func(all map[string]*resource) bool {
		if t != nil {
			for uri := range t.files {
				if old, ok := all[uri]; ok && (old.file == nil || old.file.tree != before) {
					err = fmt.Errorf("there is another resource %q", uri)
					return false
				}
			}
		}
		maps.DeleteFunc(all, func(_ string, r *resource) bool { return before != nil && r.file != nil && r.file.tree == before })
		if t != nil {
			maps.Copy(all, t.files)
		}
		return true
	})
	if err != nil || before == nil || t == nil {
		return nil, err
	}
	for uri, r := range t.files {
		if old, ok := before.files[uri]; ok && old.file.digest != r.file.digest {
			changed = append(changed, uri)
		}
	}
	slices.Sort(changed)
	return changed, nil
}

// skillAt finds a skill by the URI of its SKILL.md, in any spelling.
func skillAt(s *Server, uri string) (*skillEntry, bool) {
	now := s.skills.Now()
	if k, ok := now.ByName[uri]; ok {
		return k, true
	}
	for _, name := range now.SpelledLike(uri) {
		if template.SameURI(name, uri) {
			return now.ByName[name], true
		}
	}
	return nil, false
}

func (s *Server) addTool(t *tool, replace bool) error {
	if s == nil {
		return fmt.Errorf("troupe: tool %q: %w", t.Name, errNoServer)
	}
	needs, err := s.guardScopes(t.Scopes)
	if err != nil {
		return fmt.Errorf("troupe: tool %q: %w", t.Name, err)
	}
	t.needs = needs
	replaced, err := s.tools.Put(t.Name, t, replace)
	if err != nil {
		return fmt.Errorf("troupe: tool %w", err)
	}
	if t.runsLong() {
		s.longTasks.Store(true)
	}
	if t.Task.startsAsTask() && !s.hasTasks.Swap(true) {
		if here := s.mount.mountedService(); here != nil {
			here.rt.tasks.Serve(here.id)
		}
	}
	if t.UI.Page != "" {
		s.hasPages.Store(true)
	}
	if replaced {
		s.mount.adviseReplaced("tool", t.Name)
	} else {
		s.mount.adviseName(t.Name)
	}
	return nil
}

// Tools returns the server's tools, in the order of their names, each as it was registered
// and with its inferred schemas. They are copies: the caller may change them.
func (s *Server) Tools() []Tool {
	now := s.tools.Now()
	all := make([]Tool, len(now.Names))
	for i, name := range now.Names {
		all[i] = now.ByName[name].Tool.clone()
	}
	return all
}

// RemoveTools removes tools. It ignores names that the server does not have.
func (s *Server) RemoveTools(names ...string) { s.tools.Remove(names...) }

// FilterChanged makes the server call ServerOptions.Visible again: clients whose lists differ
// from those announced last get a notification. Call it when the items that callers may see
// have changed, but not the server's items. It holds for all processes that share the store.
func (s *Server) FilterChanged() {
	for list := range announced {
		s.mount.listChanged(list)
	}
}

// listDigest returns the digest of what v sees of a list, by its index in announced. c is who sees those of backends, nil for nobody in particular.
func (s *Server) listDigest(list int, v *view, c *hosting.Caller) string {
	own := ownDigest(s, list, v)
	if h := s.backends.hosted.Load(); h != nil {
		return h.Digest(own, hostedView(v, c), hostedLists[list]...)
	}
	return own
}

// ownDigest is listDigest for the server's own items.
func ownDigest(s *Server, list int, v *view) string {
	switch list {
	case listTools:
		return s.tools.Now().DigestFor(seenBy[*tool](v))
	case listPrompts:
		return s.prompts.Now().DigestFor(seenBy[*prompt](v))
	}
	digest := s.resources.Now().DigestFor(seenBy[*resource](v)) + s.templates.Now().DigestFor(seenBy[*resourceTemplate](v))
	if skills := s.skills.Now(); len(skills.Names) > 0 { // they change with their files, which may keep their sizes
		digest += skills.DigestFor(seenBy[*skillEntry](v))
	}
	return digest
}

// guardScopes checks the scopes of an item that is about to be added, and returns them with those of the server.
func (s *Server) guardScopes(scopes []string) ([]string, error) {
	if err := scope.Check(scopes); err != nil {
		return nil, err
	}
	if len(scopes) > 0 {
		s.scoped.Store(true)
	}
	return scope.Union(s.opts.Scopes, scopes), nil
}

// templateNeeds are the scopes that a template needs to read a resource with these variables. Where that is one of AddResource, which the template reads in
// another form, it has the scopes of that, too: see hidesVars.
func (s *Server) templateNeeds(now *catalogue.Snapshot[*resource], t *resourceTemplate, vars map[string]string) []string {
	needs := t.needs
	if !s.scoped.Load() {
		return needs
	}
	for _, name := range now.Names {
		if r := now.ByName[name]; len(r.Scopes) > 0 {
			if of, ok := t.parsed.Match(template.NormalizeURI(name)); ok && isSubset(of, vars) {
				needs = scope.Union(needs, r.needs)
			}
		}
	}
	return needs
}

// changeDelay gathers changes of a catalogue into one notification.
const changeDelay = 50 * time.Millisecond

// checkName refuses a name of a tool or a prompt that some client could not send: a
// stateless client repeats the name in the header Mcp-Name, in base64 where it is not plain.
func checkName(kind, name string) error {
	most := limits.Name.Value()
	switch {
	case name == "":
		return fmt.Errorf("troupe: a %s needs a name", kind)
	case !utf8.ValidString(name):
		return fmt.Errorf("troupe: the name %q of a %s is not UTF-8", name, kind)
	case len(name) > most:
		return fmt.Errorf("troupe: the name %q of a %s has %d bytes: at most %d fit a header of every client", protocol.Shown(name), kind, len(name), most)
	}
	return nil
}

// mostOfToolName is how long the specification advises names of tools to be (2025-11-25, server/tools, "Tool Names").
const mostOfToolName = 128

// Backend is a server that somebody else has written, as a [Server] offers it: see [AddBackend].
type Backend struct {
	// Name tells it from the others of its server: [A-Za-z0-9_.-], at most 46 characters. The names of its tools and prompts have it in front,
	// unless Options.Prefix says otherwise.
	Name    string
	Target  host.Target
	Options host.Options
	// Fault, if it is not nil, is why nobody can be served by this backend, such as an error in the file that has it. It is offered to nobody, nothing
	// else of it counts, and another one may have its name: operators are told of it, see [Server.SetBackends]. Its text has no secrets.
	Fault error
}

package troupe

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/scope"
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
	tools     *catalogue[*tool]
	prompts   *catalogue[*prompt]
	resources *catalogue[*resource]
	templates *catalogue[*resourceTemplate]
	skills    *catalogue[*skillEntry]
	// The program's own methods and notifications, by name: *method, and
	// func(*Peer, []byte).
	methods, notifications sync.Map
	hasTasks               atomic.Bool // a tool was added whose calls may become tasks as their clients ask
	longTasks              atomic.Bool // a tool was added whose calls may become tasks by themselves
	hasSkills              atomic.Bool // a skill was added, or the program declares that there may be some
	hasPages               atomic.Bool // a page was added, or a tool that has one
	scoped                 atomic.Bool // the server needs scopes, or an item was added that does
	mount                  mountPoint
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
	s.opts.MethodMiddleware, s.opts.Revisions = slices.Clone(s.opts.MethodMiddleware), ordered(s.opts.Revisions)
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
	if _, err := codec.Marshal(s.capabilities()); err != nil {
		return nil, fmt.Errorf("troupe: server %q: capabilities: %w", impl.Name, err)
	}
	s.tools = newCatalogue(func(t *tool) any { return t.wire() }, func(t *tool, r mcp.Revision) any { return protocol.ToolFor(t.wire(), r) })
	s.prompts = newCatalogue(func(p *prompt) any { return p.wire() }, func(p *prompt, r mcp.Revision) any { return protocol.PromptFor(p.wire(), r) })
	s.resources = newCatalogue(func(x *resource) any { return x.Resource }, func(x *resource, r mcp.Revision) any { return protocol.ResourceFor(x.Resource, r) })
	s.templates = newCatalogue(func(t *resourceTemplate) any { return t.ResourceTemplate }, func(t *resourceTemplate, r mcp.Revision) any { return protocol.TemplateFor(t.ResourceTemplate, r) })
	s.tools.changed = func() { s.mount.changed(0) }
	s.prompts.changed = func() { s.mount.changed(1) }
	s.skills = newCatalogue(func(k *skillEntry) any { return k.entry }, func(k *skillEntry, _ mcp.Revision) any { return k.entry })
	resources := func() { s.mount.changed(2) }
	s.resources.changed, s.templates.changed, s.skills.changed = resources, resources, resources
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

// capabilities returns the capabilities that the server declares.
func (s *Server) capabilities() mcp.ServerCapabilities {
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
	if m := s.mount.service(); m != nil {
		return slices.Clone(m.speaks)
	}
	return slices.Clone(s.speaks(nil))
}

// speaks returns the revisions of the server in a Runtime whose options name others.
func (s *Server) speaks(others []mcp.Revision) spoken {
	switch {
	case s.opts.Revisions != nil:
		return s.opts.Revisions
	case others != nil:
		return others
	}
	return mcp.Revisions()
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
		return fmt.Errorf("troupe: the name %q of a %s has %d bytes: at most %d fit a header of every client", shown(name), kind, len(name), most)
	}
	return nil
}

// SessionEnd says how a session has ended.
type SessionEnd uint8

// The ways in which a session ends.
const (
	// SessionDeleted: the client sent a DELETE.
	SessionDeleted SessionEnd = iota
	// SessionExpired: SessionIdle or SessionMax was over.
	SessionExpired
	// SessionDisconnected: the connection that the session is bound to ended (HTTP+SSE,
	// stdio).
	SessionDisconnected
)

// String names the end for logs.
func (e SessionEnd) String() string {
	return [...]string{"deleted", "expired", "disconnected"}[min(e, SessionDisconnected)]
}

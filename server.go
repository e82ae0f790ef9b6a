package troupe

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/yosida95/uritemplate/v3"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// ServerOptions are the settings of a server. The zero value is good.
type ServerOptions struct {
	// ID names the server in the store: [a-z0-9-], 1 to 32 characters, the same
	// on every node. Sessions belong to it. Two servers of one Runtime must differ.
	// Empty makes an id of the path of Mount: "main" for /mcp and on stdio, "weather" for
	// /weather and /weather/mcp, and a name with a hash for longer paths. A server whose
	// path may change and that is to keep its sessions needs an ID.
	ID string
	// Instructions tell a model how to use the server.
	Instructions string
	// PageSize is the number of items in one page of a list. 0 means 100.
	PageSize int
	// Complete answers completion/complete; nil declares no completions.
	Complete func(ctx context.Context, call *Call, p mcp.CompleteParams) (mcp.Completion, error)
	// Subscribe is asked before a client subscribes to a resource; an error
	// refuses it. nil allows every URI.
	Subscribe func(ctx context.Context, call *Call, uri string) error
	// SubResources has an update of a resource told also to those who subscribed to
	// one that it lies below, under its own URI: that of file:///a/b to those of
	// file:///a and file:///a/. Clients must expect that, but not all
	// do.
	SubResources bool
	// Limits are the server's own; its zero fields stand for the Runtime's.
	Limits Limits
	// ListCache is how long clients since 2026-07-28 may keep the lists and what
	// server/discover says, ReadCache that for the contents of resources, unless their
	// handler says otherwise with Call.SetCache.
	ListCache, ReadCache Cache
	// RootsChanged is told that a client's roots have changed. It must not block.
	RootsChanged func(p *Peer)
	// Visible reports whether a caller may see an item of the server. What a caller may
	// not see is unknown to it: it is in no list and on no page, calling, reading,
	// completing or subscribing to it fails as for one that is not there, and its coming
	// and going is not announced. A resource that is hidden is not read through a
	// template that matches its URI, either. Resources that are in no list, nor matched by a
	// template, cannot be subscribed to then. It is asked again for each update of a
	// resource that goes out to a subscriber.
	//
	// p is of the request at hand. Of announcements and updates outside of requests it is
	// who made the session's newest one on this node, and has no Token. It is the zero
	// Principal over stdio, and in a session that another process began until it has had a
	// request here. Visible must be quick, and several run at once; an item for which it
	// panics is hidden, and the panic is counted, and logged once a minute. See [Server.FilterChanged] for
	// when it begins to answer otherwise. nil shows everything to everybody.
	Visible func(p Principal, item Item) bool
	// SessionBegan is told of a session that initialize has just begun, before the
	// client is; it holds that answer up, and ctx ends when the store has been waited
	// for long enough. Requests without a session (2026-07-28) have none that begins.
	SessionBegan func(ctx context.Context, p *Peer)
	// SessionEnded is told on a goroutine of its own that a session has ended, and how.
	// It is told of a session once at most, and not of every one: a process that is
	// killed tells nothing, and its sessions go on in the next one, without another
	// SessionBegan; a session that expires while it is in no process's memory, which it
	// leaves after a minute without use, ends without a word. What has to be cleaned up
	// needs a time of its own to expire. Runtime.Close does not wait for it. p still
	// knows what the session was.
	SessionEnded func(p *Peer, how SessionEnd)
	// MethodMiddleware wraps the handlers of requests, inside of that of Options. The
	// first one is outermost: it sees a request first and its result last.
	MethodMiddleware []MethodMiddleware
	// Experimental are capabilities that the specification does not have, by their
	// names; Extensions are those of its extensions, by their identifiers. Each value
	// is a JSON object; nil stands for an empty one.
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
	templates *catalogue[*template]
	// The program's own methods and notifications, by name: *method, and
	// func(*Peer, []byte).
	methods, notifications sync.Map
	mount                  mountPoint
}

var serverID = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

// NewServer returns a server. It panics when opts.ID is not valid, or what the server
// declares cannot be encoded. A nil opts stands for the zero value.
func NewServer(impl mcp.Implementation, opts *ServerOptions) *Server {
	s, err := TryNewServer(impl, opts)
	must(err)
	return s
}

// TryNewServer is NewServer for servers that are not known when the program is written:
// what is wrong with one is an error.
func TryNewServer(impl mcp.Implementation, opts *ServerOptions) (*Server, error) {
	s := &Server{impl: impl, head: newResultHead(impl)}
	if opts != nil {
		s.opts = *opts
	}
	s.opts.MethodMiddleware = slices.Clone(s.opts.MethodMiddleware)
	s.opts.Experimental, s.opts.Extensions = maps.Clone(s.opts.Experimental), maps.Clone(s.opts.Extensions)
	if s.opts.ID != "" && !serverID.MatchString(s.opts.ID) {
		return nil, fmt.Errorf("troupe: server id %q: want 1 to 32 of a-z, 0-9 and -", s.opts.ID)
	}
	for _, all := range []map[string]mcp.Object{s.opts.Experimental, s.opts.Extensions} {
		for name, o := range all {
			if len(o) > 0 && (!codec.Valid(o) || !isObject(bytes.TrimSpace(o))) {
				return nil, fmt.Errorf("troupe: server %q: capabilities: %q is no JSON object", impl.Name, name)
			}
		}
	}
	if _, err := codec.Marshal(s.capabilities()); err != nil {
		return nil, fmt.Errorf("troupe: server %q: capabilities: %w", impl.Name, err)
	}
	if s.opts.PageSize <= 0 {
		s.opts.PageSize = 100
	}
	s.tools = newCatalogue(func(t *tool) any { return t.wire() }, func(t *tool, r mcp.Revision) any { return t.wire().For(r) })
	s.prompts = newCatalogue(func(p *prompt) any { return p.wire() }, func(p *prompt, r mcp.Revision) any { return p.wire().For(r) })
	s.resources = newCatalogue(func(x *resource) any { return x.Resource }, func(x *resource, r mcp.Revision) any { return x.Resource.For(r) })
	s.templates = newCatalogue(func(t *template) any { return t.ResourceTemplate }, func(t *template, r mcp.Revision) any { return t.ResourceTemplate.For(r) })
	s.tools.changed = func() { s.mount.changed(0) }
	s.prompts.changed = func() { s.mount.changed(1) }
	resources := func() { s.mount.changed(2) }
	s.resources.changed, s.templates.changed = resources, resources
	return s, nil
}

// RemoveTools removes tools; names that are not there are ignored.
func (s *Server) RemoveTools(names ...string) { s.tools.remove(names...) }

// RemovePrompts removes prompts; names that are not there are ignored.
func (s *Server) RemovePrompts(names ...string) { s.prompts.remove(names...) }

// RemoveResources removes resources; URIs that are not there are ignored.
func (s *Server) RemoveResources(uris ...string) { s.resources.remove(uris...) }

// RemoveResourceTemplates removes templates; ones that are not there are
// ignored.
func (s *Server) RemoveResourceTemplates(templates ...string) { s.templates.remove(templates...) }

// ResourceUpdated tells every session that subscribed to uri that it has changed;
// see also ServerOptions.SubResources. Of several updates of a resource within 100 ms
// the first is told at once, and the others once at the end of that time. It waits
// for no client, and does nothing before the server is mounted.
func (s *Server) ResourceUpdated(uri string) { s.mount.resourceUpdated(uri) }

// Prompt describes a prompt. Name and Description should be set.
type Prompt struct {
	Name        string
	Title       string
	Description string
	Arguments   []mcp.PromptArgument
	Icons       []mcp.Icon
	Meta        mcp.Meta
	Needs       mcp.Capability // as that of a [Tool]
}

// PromptHandler makes a prompt from its arguments. Missing required arguments
// are refused before it runs.
type PromptHandler func(ctx context.Context, call *Call, args map[string]string) (*mcp.GetPromptResult, error)

type prompt struct {
	Prompt
	handler PromptHandler
}

func (p *prompt) wire() mcp.Prompt {
	return mcp.Prompt{Name: p.Name, Title: p.Title, Description: p.Description, Arguments: p.Arguments, Icons: p.Icons, Meta: p.Meta}
}

// AddPrompt registers a prompt; it replaces one of the same name. It panics when the
// prompt lacks a handler or a name that every client can send, or cannot be encoded.
func AddPrompt(s *Server, p Prompt, handler PromptHandler) { must(TryAddPrompt(s, p, handler)) }

// TryAddPrompt is AddPrompt for prompts that are not known when the program is written.
func TryAddPrompt(s *Server, p Prompt, handler PromptHandler) error {
	if err := checkName("prompt", p.Name); err != nil {
		return err
	}
	if handler == nil {
		return fmt.Errorf("troupe: prompt %q: %w", p.Name, errNoHandler)
	}
	if err := checkNeeds(p.Needs); err != nil {
		return fmt.Errorf("troupe: prompt %q: %w", p.Name, err)
	}
	p.Arguments, p.Icons, p.Meta = slices.Clone(p.Arguments), slices.Clone(p.Icons), slices.Clone(p.Meta)
	if err := s.prompts.put(p.Name, &prompt{Prompt: p, handler: handler}); err != nil {
		return fmt.Errorf("troupe: prompt %w", err)
	}
	return nil
}

// ResourceHandler reads a resource. vars are the variables of the template that
// matched, nil for a plain resource. An error wrapping ErrNotFound says that
// there is no such resource.
type ResourceHandler func(ctx context.Context, call *Call, uri string, vars map[string]string) ([]mcp.ResourceContents, error)

type resource struct {
	mcp.Resource
	handler ResourceHandler
}

type template struct {
	mcp.ResourceTemplate
	parsed  *uritemplate.Template
	match   *regexp.Regexp
	handler ResourceHandler
}

// AddResource registers a resource; it replaces one of the same URI. It panics when the
// resource lacks its URI, name or handler, or cannot be encoded.
func AddResource(s *Server, r mcp.Resource, handler ResourceHandler) {
	must(TryAddResource(s, r, handler))
}

// TryAddResource is AddResource for resources that are not known when the program is
// written.
func TryAddResource(s *Server, r mcp.Resource, handler ResourceHandler) error {
	if r.URI == "" || r.Name == "" {
		return fmt.Errorf("troupe: resource %q: it needs a URI and a name", r.URI)
	}
	if handler == nil {
		return fmt.Errorf("troupe: resource %q: %w", r.URI, errNoHandler)
	}
	r.Icons, r.Meta = slices.Clone(r.Icons), slices.Clone(r.Meta)
	if err := s.resources.put(r.URI, &resource{Resource: r, handler: handler}); err != nil {
		return fmt.Errorf("troupe: resource %w", err)
	}
	return nil
}

// AddResourceTemplate registers the resources whose URIs an RFC 6570 template
// describes. Plain resources come first; of several templates that match, the
// one first by its text reads. It panics when the template is not
// valid, or lacks its name or handler.
func AddResourceTemplate(s *Server, t mcp.ResourceTemplate, handler ResourceHandler) {
	must(TryAddResourceTemplate(s, t, handler))
}

// TryAddResourceTemplate is AddResourceTemplate for templates that are not known when the
// program is written.
func TryAddResourceTemplate(s *Server, t mcp.ResourceTemplate, handler ResourceHandler) error {
	parsed, err := uritemplate.New(t.URITemplate)
	if err != nil {
		return fmt.Errorf("troupe: resource template %q: %w", t.URITemplate, err)
	}
	if t.Name == "" {
		return fmt.Errorf("troupe: resource template %q: it needs a name", t.URITemplate)
	}
	if handler == nil {
		return fmt.Errorf("troupe: resource template %q: %w", t.URITemplate, errNoHandler)
	}
	t.Icons, t.Meta = slices.Clone(t.Icons), slices.Clone(t.Meta)
	if err := s.templates.put(t.URITemplate, &template{ResourceTemplate: t, parsed: parsed, match: parsed.Regexp(), handler: handler}); err != nil {
		return fmt.Errorf("troupe: resource template %w", err)
	}
	return nil
}

// reader finds who reads uri for a caller who sees v.
func (s *Server) reader(v *view, uri string) (ResourceHandler, map[string]string) {
	if r, ok := s.resources.get(uri); ok {
		if !v.sees(r.item()) {
			return nil, nil // A template that matches must not show what is hidden.
		}
		return r.handler, nil
	}
	now := s.templates.now.Load()
	for _, name := range now.names {
		t := now.byName[name]
		if !t.match.MatchString(uri) || !v.sees(t.item()) {
			continue
		}
		vars := map[string]string{}
		for k, v := range t.parsed.Match(uri) {
			vars[k] = v.String()
		}
		return t.handler, vars
	}
	return nil, nil
}

// capabilities are what the server declares.
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
	return c
}

// changeDelay gathers changes of a catalogue into one notification.
const changeDelay = 50 * time.Millisecond

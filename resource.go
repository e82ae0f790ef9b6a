package troupe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/catalogue"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/scope"
	"github.com/troupe-run/troupe/internal/template"
	"github.com/troupe-run/troupe/mcp"
)

// serviceResources is what a service does with its resources and their subscribers.
type serviceResources struct{ *service }

func (s *serviceResources) readResource(ctx context.Context, call *Call, m *codec.Message, dst []byte) ([]byte, *mcp.Error) {
	uri, bad := s.resourceURI(m)
	if bad != nil {
		return nil, bad
	}
	found, ok := s.srv.findReader(call.callerView(), uri)
	if !ok {
		return nil, notFound(uri)
	}
	if refused := call.requireScopes(scope.Union(s.srv.opts.Scopes, found.needs)); refused != nil {
		return nil, refused
	}
	contents, err := found.handler(ctx, call, found.uri, found.vars)
	if errors.Is(err, ErrNotFound) {
		return nil, notFound(uri)
	}
	if err != nil {
		return s.respondHandlerError(dst, call, "resources/read", err)
	}
	for i := range contents {
		if err := protocol.CheckResourceContents(&contents[i]); err != nil {
			return nil, s.internalError("resources/read", fmt.Errorf("%w: contents %d: %w", errBadResult, i, err))
		}
	}
	return s.encodeResult(dst, call, m, s.readCache(call, m), protocol.ReadResultFor(mcp.ReadResourceResult{Contents: contents}, call.revision()))
}

func (s *serviceResources) resourceURI(m *codec.Message) (string, *mcp.Error) {
	uri, ok := codec.Str(m.URI)
	if !ok || !isAbsolute(uri) {
		return "", mcp.NewError(mcp.CodeInvalidParams, "uri must be an absolute URI")
	}
	if s.tooLong(uri) {
		return "", mcp.NewError(mcp.CodeInvalidParams, fmt.Sprintf("uri is longer than %d bytes", s.limits.MaxURI))
	}
	return uri, nil
}

// tooLong reports whether uri is longer than Limits.MaxURI, and counts it if so.
func (s *serviceResources) tooLong(uri string) bool {
	if len(uri) <= s.limits.MaxURI {
		return false
	}
	s.rt.hits.Refused(limits.MaxURI.Row)
	return true
}

// isAbsolute reports whether uri begins with a scheme (RFC 3986, section 3.1).
func isAbsolute(uri string) bool {
	for i, c := range []byte(uri) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		case i > 0 && ('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'):
		default:
			return i > 0 && c == ':'
		}
	}
	return false
}

func notFound(uri string) *mcp.Error {
	return mcp.NewError(mcp.CodeResourceNotFound, "resource not found").WithData(protocol.ResourceNotFoundData{URI: uri})
}

// mayFollow reports whether a caller with view v may get updates of the resource at uri. Without
// Visible every caller gets the updates of any URI.
func (s *serviceResources) mayFollow(v *view, uri string) bool {
	if v == nil {
		return true
	}
	_, ok := s.srv.findReader(v, uri)
	return ok || s.hosting.mayFollow(v, uri)
}

// withholdsResource reports whether a caller lacks a scope that the resource at uri needs.
func (s *serviceResources) withholdsResource(principal any, uri string) bool {
	if !s.srv.scoped.Load() {
		return false
	}
	refused, _ := s.scopes.requireScopes(principal, s.scopes.uriNeeds(nil, uri))
	return refused != nil
}

// listenerEndReason returns why none of the resources that a listener follows is for its caller any more: they are hidden, or need scopes that it lacks. It returns "" if one is for it, or
// has been removed: that may come back.
func (s *serviceResources) listenerEndReason(v *view, principal any, uris []string) (reason string) {
	reason = actors.TokenRevoked
	for _, uri := range uris {
		switch _, there := s.srv.findReader(nil, uri); {
		case there && !s.mayFollow(v, uri):
		case s.withholdsResource(principal, uri):
			reason = actors.TokenInsufficient
		default:
			return ""
		}
	}
	return reason
}

// withholdsUpdate reports whether a message is an update of a resource that needs a scope which a caller lacks.
func (s *serviceResources) withholdsUpdate(holder any, message []byte) (uri string, withheld bool) {
	if !s.srv.scoped.Load() || decodeText(codec.Field(message, "method")) != mcp.NotifyResourcesUpdated {
		return "", false
	}
	uri = decodeText(codec.Field(codec.Field(message, "params"), "uri"))
	return uri, s.withholdsResource(holder, uri)
}

func (s *serviceResources) changeSubscription(ctx context.Context, call *Call, m *codec.Message, dst []byte) ([]byte, *mcp.Error) {
	uri, bad := s.resourceURI(m)
	if bad != nil {
		return nil, bad
	}
	uri = s.srv.listedSpelling(call.callerView(), uri)
	var err error
	if string(m.Method) == mcp.MethodResourcesUnsubscribe {
		err = call.peer.p.Unsubscribe(ctx, uri)
	} else {
		if !s.mayFollow(call.callerView(), uri) {
			return nil, notFound(uri)
		}
		if refused := call.requireScopes(s.scopes.uriNeeds(call.callerView(), uri)); refused != nil {
			return nil, refused
		}
		if s.srv.opts.Subscribe != nil {
			if err := s.srv.opts.Subscribe(ctx, call, uri); err != nil {
				return nil, s.handlerError(&call.peer, "resources/subscribe", err)
			}
		}
		if err = call.peer.p.Subscribe(ctx, uri); errors.Is(err, actors.ErrTooManySubscriptions) {
			return nil, mcp.NewError(mcp.CodeInvalidRequest, "the session subscribes to as many resources as it may")
		}
	}
	if err != nil {
		return nil, s.internalError(string(m.Method), err)
	}
	if s.hosting.now() != nil {
		if refused := s.hosting.follow(ctx, call, m, uri); refused != nil {
			return nil, refused
		}
	}
	return append(dst, '{', '}'), nil
}

// repeatUpdates sends a client an update of each resource that it subscribed to.
func (s *serviceResources) repeatUpdates(p *actors.Peer) {
	for _, uri := range p.Subscribed() {
		if s.mayGetUpdate(p, uri) {
			p.PushUpdate(uri)
		}
	}
}

// mayGetUpdate reports whether a session may get updates of a resource now. The resource may have
// been hidden since the session subscribed, or lie below the one that it subscribed to.
func (s *serviceResources) mayGetUpdate(p *actors.Peer, uri string) bool {
	return s.mayFollow(s.access.viewOf(ownerOf(p)), uri)
}

// readCache returns the Cache of the contents that a call has read. If the client's answers
// went into the contents, they must not be kept: the answers are not part of the request's URI.
func (s *serviceResources) readCache(call *Call, m *codec.Message) *Cache {
	if call.asked.Load() || m.Responses != nil || m.State != nil {
		return &Cache{}
	}
	if c := call.cache.Load(); c != nil {
		return c
	}
	return &s.srv.opts.ReadCache
}

// skillsMethod answers the methods of the extension.
func (s *serviceResources) skillsMethod(call *Call, m *codec.Message, dst []byte) ([]byte, *mcp.Error) {
	if !s.srv.hasSkills.Load() {
		return nil, methodNotFound(m)
	}
	if string(m.Method) == mcp.MethodSkillsList {
		s.lists.remoteLists.noteListAsked(listResources)
		return s.lists.appendListPage(call, m, s.lists.listCache(), pagerOf(s.srv.skills.Now(), call.callerView(), call.revision(), "skills"), dst)
	}
	uri, bad := s.resourceURI(m)
	if bad != nil {
		return nil, bad
	}
	if string(m.Method) == mcp.MethodSkillsGet {
		k, ok := skillAt(s.srv, uri)
		if !ok || !call.callerView().seesItem(k.item()) {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "no skill is served at %s", protocol.Shown(uri))
		}
		return s.encodeResult(dst, call, m, s.lists.listCache(), struct {
			Skill mcp.Skill `json:"skill"`
		}{k.entry})
	}
	d := directory{now: s.srv.resources.Now(), view: call.callerView().forList(), revision: call.revision(), prefix: uri + "/"}
	if _, ok := d.nextFile(d.firstFile()); !ok || !strings.HasPrefix(uri, skillScheme) {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "%s is not a directory resource", protocol.Shown(uri))
	}
	s.lists.remoteLists.noteListAsked(listResources)
	return s.lists.appendListPage(call, m, nil, d.appendPage, dst)
}

// allowsResource reports whether ServerOptions.Subscribe allows a listener the resource.
func (s *serviceResources) allowsResource(ctx context.Context, call *Call, uri string) bool {
	if s.srv.opts.Subscribe == nil {
		return true
	}
	allowed := false
	s.containPanic("Subscribe", func() { allowed = s.srv.opts.Subscribe(ctx, call, uri) == nil })
	return allowed
}

// ResourceHandler reads a resource. uri is the URI as the client wrote it or, for a plain
// resource, as it was registered. vars are the variables of the template that matched, see
// [AddResourceTemplate], and nil for a plain resource. An error wrapping ErrNotFound says
// that there is no such resource.
type ResourceHandler func(ctx context.Context, call *Call, uri string, vars map[string]string) ([]mcp.ResourceContents, error)

type resource struct {
	mcp.Resource
	handler ResourceHandler
	file    *skillFile // nil for one of AddResource
	needs   []string   // scopes, with those of the server; nil for the file of a skill
}

func (r *resource) item() Item {
	if r.file != nil {
		return r.file.item()
	}
	return Item{Kind: ItemResource, Name: r.URI, Meta: r.Resource.Meta}
}

type resourceTemplate struct {
	mcp.ResourceTemplate
	parsed  *template.Template
	handler ResourceHandler
	needs   []string // scopes, with those of the server
}

func (t *resourceTemplate) item() Item {
	return Item{Kind: ItemResourceTemplate, Name: t.URITemplate, Meta: t.ResourceTemplate.Meta}
}

// AddResource registers a resource; it replaces one of the same URI, as
// [AddTool] does. Clients may spell the
// URI in another way that RFC 3986, section 6.2.2, has for the same: with other escapes, as
// caf%C3%A9 for café, or with the scheme in upper case. It panics when the resource lacks its
// URI, name or handler, cannot be encoded, has a scope that is none, or has the URI of a skill's file.
func AddResource(s *Server, r mcp.Resource, handler ResourceHandler) {
	must(s.addResource(r, handler, true))
}

// TryAddResource is AddResource with an error in place of a panic, as [TryAddTool] is
// [AddTool].
func TryAddResource(s *Server, r mcp.Resource, handler ResourceHandler) error {
	return s.addResource(r, handler, false)
}

// AddResourceTemplate registers the resources whose URIs an RFC 6570 template expands to; it
// replaces a template of the same text. A resource of AddResource comes before templates; of
// several templates that match, the first by its text counts.
//
// The handler gets the variables that the URI has, by their names without modifiers, and
// without escapes. One that the URI does not have is missing in vars. The elements of a list
// are joined by commas; an exploded variable ({/path*}) is a list. Where a URI can be read in
// several ways, each variable takes as much as it can, the first one first. An expression of
// several variables ({.a,b}) takes no value that has its separator.
//
// {v} takes letters, digits, "-", ".", "_", "~", commas and escapes, as RFC 6570 has it, and
// a client has to escape everything else: note://{at} is not found by note://2026-01-02T03:04.
// Write {+v} for values that have ":", "/", "@" and so on. The parameters of {?a,b} and {&c},
// and those of {;a}, are found by name, in any order and with any value; those that the
// template does not have are ignored, and of those that it has, none but a list may come
// twice. {v:3} takes at most three characters. A variable that occurs twice must have the
// same value. The template's text matches however it is escaped, as the URI of a resource.
//
// AddResourceTemplate panics when the template is not valid, when a URI would not say which
// part of it is the value of which variable ({a}{b}; parameters of a query that something
// but a fragment follows), and when the template lacks its name or handler, has a scope that is
// none, or cannot be encoded.
func AddResourceTemplate(s *Server, t mcp.ResourceTemplate, handler ResourceHandler) {
	must(s.addTemplate(t, handler, true))
}

// TryAddResourceTemplate is AddResourceTemplate with an error in place of a panic, as
// [TryAddTool] is [AddTool].
func TryAddResourceTemplate(s *Server, t mcp.ResourceTemplate, handler ResourceHandler) error {
	return s.addTemplate(t, handler, false)
}

// found is the reader of a resource.
type found struct {
	handler ResourceHandler
	uri     string            // as the handler gets it
	vars    map[string]string // nil for a plain resource
	needs   []string          // scopes
}

// hidesVars reports whether v hides a resource that the template reads with some of the variables: with others, which select a
// form of the resource, its handler would read the same one.
func hidesVars(v *view, now *catalogue.Snapshot[*resource], t *resourceTemplate, vars map[string]string) bool {
	for _, name := range now.Names {
		of, ok := t.parsed.Match(template.NormalizeURI(name))
		if ok && isSubset(of, vars) && !v.seesItem(now.ByName[name].item()) {
			return true
		}
	}
	return false
}

// isSubset reports whether all has the variables of some.
func isSubset(some, all map[string]string) bool {
	for name, value := range some {
		if got, ok := all[name]; !ok || got != value {
			return false
		}
	}
	return true
}

// Page is an HTML document that hosts with the extension MCP Apps show in a frame, for
// [AddPage]. URI, Name and HTML are required.
type Page struct {
	// URI begins with ui://.
	URI         string
	Name        string
	Title       string
	Description string
	// HTML is the whole document. A host runs its scripts in a sandbox, and lets it reach no
	// other origin than those of CSP: styles and scripts stand in the document itself, or come
	// from CSP.ResourceDomains.
	HTML string
	// CSP lists the origins that the document uses. The zero value lets it use none.
	CSP mcp.UICSP
	// Permissions are abilities of the browser that the document asks for.
	Permissions mcp.UIPermissions
	// Domain is the origin that the document is to have, in the host's own form. Empty leaves
	// that to the host.
	Domain string
	// Border asks for a border around the document, or for none. nil leaves that to the host.
	Border *bool
	Icons  []mcp.Icon
	// Meta has further members of the resource's `_meta`; it has no member "ui".
	Meta mcp.Meta
}

// AddPage registers a page as a resource of type [mcp.MIMEApp]; it replaces a resource of
// the same URI, and [Server.RemoveResources] removes it. The server declares the extension
// io.modelcontextprotocol/ui from then on, in each revision since 2025-06-18: tools have no
// `_meta` before. [Tool.UI] names the page. For a document that is made for each reader, add
// a resource of that type with [AddResource], and the `_meta` of [mcp.UIPage].
//
// AddPage panics when the page lacks its URI, name or HTML, when the URI does not begin with
// ui://, when the HTML has more than 16 MiB, when an origin is none, and when the page
// cannot be encoded.
func AddPage(s *Server, p Page) { must(addPage(s, p, true)) }

// TryAddPage is AddPage with an error in place of a panic, as [TryAddTool] is [AddTool].
func TryAddPage(s *Server, p Page) error { return addPage(s, p, false) }

// meta returns what the `_meta` of the page says of it, nil if that is nothing.
func (p *Page) meta() (any, error) {
	switch most := limits.PageHTML.Value(); {
	case !pageURI(p.URI):
		return nil, errors.New("its URI must begin with ui://, and go on, without blanks")
	case strings.TrimSpace(p.HTML) == "":
		return nil, errors.New("it has no HTML")
	case len(p.HTML) > most:
		return nil, fmt.Errorf("its HTML has %d bytes, and may have %d", len(p.HTML), most)
	}
	meta := mcp.UIPage{Domain: p.Domain, PrefersBorder: p.Border}
	for _, origins := range [][]string{p.CSP.ConnectDomains, p.CSP.ResourceDomains, p.CSP.FrameDomains, p.CSP.BaseURIDomains} {
		for _, o := range origins {
			if !cspSource(o) {
				return nil, fmt.Errorf("CSP: %q is no origin, such as https://example.com", o)
			}
		}
		if len(origins) > 0 {
			meta.CSP = &p.CSP
		}
	}
	if p.Permissions != (mcp.UIPermissions{}) {
		meta.Permissions = &p.Permissions
	}
	if meta == (mcp.UIPage{}) {
		return nil, nil
	}
	return meta, nil
}

// cspOrigin is a scheme, a host, whose first label may be a star where two follow, and a port.
var cspOrigin = regexp.MustCompile(`^(?:https?|wss?)://(?:\*\.[a-zA-Z0-9-]+\.)?[a-zA-Z0-9-]+(?:\.[a-zA-Z0-9-]+)*(?::([0-9]{1,5}))?$`)

// cspSource reports whether s is an origin, which a host puts into a Content-Security-Policy: not more than it names, and nothing by
// which the header goes on with something else.
func cspSource(s string) bool {
	m := cspOrigin.FindStringSubmatch(s)
	if m == nil {
		return false
	}
	_, err := strconv.ParseUint(cmp.Or(m[1], "0"), 10, 16)
	return err == nil
}

func addPage(s *Server, p Page, replace bool) error {
	if s == nil {
		return fmt.Errorf("troupe: page %q: %w", p.URI, errNoServer)
	}
	meta, err := p.meta()
	if err != nil {
		return fmt.Errorf("troupe: page %q: %w", p.URI, err)
	}
	contents := mcp.TextResource(p.URI, mcp.MIMEApp, p.HTML)
	contents.Meta, _ = withUI(nil, meta) // encoded before
	r := mcp.Resource{URI: p.URI, Name: p.Name, Title: p.Title, Description: p.Description, MIMEType: mcp.MIMEApp,
		Size: new(int64(len(p.HTML))), Icons: p.Icons}
	if r.Meta, err = withUI(p.Meta, meta); err != nil {
		return fmt.Errorf("troupe: page %q: %w", p.URI, err)
	}
	err = s.addResource(r, func(context.Context, *Call, string, map[string]string) ([]mcp.ResourceContents, error) {
		return []mcp.ResourceContents{contents}, nil
	}, replace)
	if err == nil {
		s.hasPages.Store(true)
	}
	return err
}

package troupe

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/mcp"
	"github.com/yosida95/uritemplate/v3"
)

func (s *service) readResource(ctx context.Context, call *Call, m *codec.Message, dst []byte) ([]byte, *mcp.Error) {
	uri, bad := s.resourceURI(m)
	if bad != nil {
		return nil, bad
	}
	handler, vars := s.srv.reader(call.view(), uri)
	if handler == nil {
		return nil, notFound(uri)
	}
	contents, err := handler(ctx, call, uri, vars)
	if errors.Is(err, ErrNotFound) {
		return nil, notFound(uri)
	}
	if err != nil {
		return s.unfinished(dst, call, "resources/read", err)
	}
	for i := range contents {
		if err := contents[i].Check(); err != nil {
			return nil, s.internal("resources/read", fmt.Errorf("%w: contents %d: %w", errBadResult, i, err))
		}
	}
	return s.encode(dst, call, m, s.readCache(call, m), mcp.ReadResourceResult{Contents: contents}.For(call.revision()))
}

func (s *service) resourceURI(m *codec.Message) (string, *mcp.Error) {
	uri, ok := codec.Str(m.URI)
	if !ok || !absolute(uri) {
		return "", mcp.NewError(mcp.CodeInvalidParams, "uri must be an absolute URI")
	}
	if s.tooLong(uri) {
		return "", mcp.NewError(mcp.CodeInvalidParams, fmt.Sprintf("uri is longer than %d bytes", s.limits.MaxURI))
	}
	return uri, nil
}

// tooLong reports whether uri is longer than Limits.MaxURI, and counts it if so.
func (s *service) tooLong(uri string) bool {
	if len(uri) <= s.limits.MaxURI {
		return false
	}
	s.rt.longURI.Add(1)
	s.rt.hits.Hit(limits.MaxURI.Row)
	return true
}

// absolute reports whether uri begins with a scheme (RFC 3986, section 3.1).
func absolute(uri string) bool {
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
	return mcp.NewError(mcp.CodeResourceNotFound, "resource not found").WithData(mcp.ResourceNotFoundData{URI: uri})
}

// follows reports whether a caller with view v may get updates of the resource at uri. Without
// Visible every caller gets the updates of any URI.
func (s *service) follows(v *view, uri string) bool {
	if v == nil {
		return true
	}
	h, _ := s.srv.reader(v, uri)
	return h != nil
}

func (s *service) subscribe(ctx context.Context, call *Call, m *codec.Message, dst []byte) ([]byte, *mcp.Error) {
	uri, bad := s.resourceURI(m)
	if bad != nil {
		return nil, bad
	}
	var err error
	if string(m.Method) == mcp.MethodResourcesUnsubscribe {
		err = call.peer.p.Unsubscribe(ctx, uri)
	} else {
		if !s.follows(call.view(), uri) {
			return nil, notFound(uri)
		}
		if s.srv.opts.Subscribe != nil {
			if err := s.srv.opts.Subscribe(ctx, call, uri); err != nil {
				return nil, s.failure(call, "resources/subscribe", err)
			}
		}
		if err = call.peer.p.Subscribe(ctx, uri); errors.Is(err, actors.ErrTooManySubscriptions) {
			return nil, mcp.NewError(mcp.CodeInvalidRequest, "the session subscribes to as many resources as it may")
		}
	}
	if err != nil {
		return nil, s.internal(string(m.Method), err)
	}
	return append(dst, '{', '}'), nil
}

// RemoveResources removes resources. It ignores URIs that the server does not have.
func (s *Server) RemoveResources(uris ...string) { s.resources.remove(uris...) }

// RemoveResourceTemplates removes templates. It ignores those that the server does not have.
func (s *Server) RemoveResourceTemplates(templates ...string) { s.templates.remove(templates...) }

// ResourceUpdated tells every session and listener that subscribed to uri that the
// resource has changed, on all processes that share the store; see also ServerOptions.SubResources. Of several updates of a resource within
// 100 ms the first is sent at once, and the others as one at the end of that time. It does
// not wait for clients, and does nothing before the server is mounted.
func (s *Server) ResourceUpdated(uri string) { s.mount.resourceUpdated(uri) }

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

// TryAddResource is AddResource with an error in place of a panic, as [TryAddTool] is
// [AddTool].
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

// AddResourceTemplate registers the resources whose URIs match an RFC 6570 template; it
// replaces a template of the same text. A resource of AddResource comes before templates;
// of several templates that match, the first by its text counts. It panics when the
// template is not valid, lacks its name or handler, or cannot be encoded.
func AddResourceTemplate(s *Server, t mcp.ResourceTemplate, handler ResourceHandler) {
	must(TryAddResourceTemplate(s, t, handler))
}

// TryAddResourceTemplate is AddResourceTemplate with an error in place of a panic, as
// [TryAddTool] is [AddTool].
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

// hides reports whether v hides a resource that uri may be another spelling of. A template's handler gets its variables
// without escapes, so that it cannot tell the spellings apart.
func (s *Server) hides(v *view, uri string) bool {
	plain := unescaped(uri)
	now := s.resources.now.Load()
	for _, name := range now.names {
		if unescaped(name) == plain && !v.sees(now.byName[name].item()) {
			return true
		}
	}
	return false
}

// unescaped is a URI without escapes, and with its scheme and authority in lower case (RFC 3986, section 6.2.2).
func unescaped(uri string) string {
	if plain, err := url.PathUnescape(uri); err == nil {
		uri = plain
	}
	end := strings.Index(uri, "://")
	if end < 0 {
		return uri
	}
	end += len("://")
	if path := strings.IndexByte(uri[end:], '/'); path >= 0 {
		end += path
	} else {
		end = len(uri)
	}
	return strings.ToLower(uri[:end]) + uri[end:]
}

// reader finds the handler that reads uri for a caller with view v.
func (s *Server) reader(v *view, uri string) (ResourceHandler, map[string]string) {
	if r, ok := s.resources.get(uri); ok {
		if !v.sees(r.item()) {
			return nil, nil // a template that matches must not show a hidden resource
		}
		return r.handler, nil
	}
	now := s.templates.now.Load()
	for _, name := range now.names {
		t := now.byName[name]
		if !t.match.MatchString(uri) || !v.sees(t.item()) {
			continue
		}
		if v != nil && s.hides(v, uri) {
			return nil, nil
		}
		vars := map[string]string{}
		for k, v := range t.parsed.Match(uri) {
			vars[k] = v.String()
		}
		return t.handler, vars
	}
	return nil, nil
}

package troupe

import (
	"context"
	"encoding/json"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/backend/listing"
	"github.com/troupe-run/troupe/internal/bearer"
	"github.com/troupe-run/troupe/internal/hosting"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/scope"
	"github.com/troupe-run/troupe/mcp"
)

// serviceAccess decides what a caller of a service sees.
type serviceAccess struct {
	*service
	visibility
}

// viewOf returns the server as a principal sees it. It calls who only if the server has a Visible.
func (s *serviceAccess) viewOf(who func() Principal) *view {
	if s.visible == nil {
		return nil
	}
	return &view{caller: who(), by: &s.visibility}
}

// ownerIn returns the principal that begins a session with initialize.
func ownerIn(ctx context.Context) func() Principal {
	return func() Principal { return ownedBy(actors.Owner(ctx)) }
}

// ownerOf returns the principal of a session's newest request.
func ownerOf(p *actors.Peer) func() Principal {
	return func() Principal { return ownedBy(p.Owner()) }
}

func ownedBy(v any) Principal {
	if p, ok := v.(*Principal); ok {
		return *p
	}
	return Principal{}
}

// isKnown reports whether the tool of a call exists for its caller; other methods always do.
func (s *serviceAccess) isKnown(principal any, method, name []byte) bool {
	if string(method) != mcp.MethodToolsCall {
		return true
	}
	t, ok := s.tools.findTool(name)
	v := s.viewOf(func() Principal { return principalOf(principal) })
	if h := s.hosting.now(); h != nil && !ok {
		return h.IsListed(listing.Tools, decodeText(name), hostedSeenBy(v))
	}
	return ok && v.seesItem(t.item())
}

// identifyCaller says in in who makes a request, as authenticateRequest returned it.
func (s *serviceAccess) identifyCaller(in *actors.Input, principal any) {
	if c, ok := principal.(*caller); ok {
		in.Tenant, in.Principal = c.key, s.keptOwner(c)
	}
}

// keptOwner returns what sessions keep of the principal of their requests, nil without a Visible.
func (s *serviceAccess) keptOwner(principal any) any {
	if s.visible == nil {
		return nil
	}
	switch principal.(type) {
	case *caller, *carriedCaller:
		p := principalOf(principal).withoutToken()
		return &p
	}
	return nil
}

// readCarried is the reverse of Carry.
func (s *serviceAccess) readCarried(form []byte, passed map[string][]string) (principal, owner any) {
	if string(form) == "null" {
		return &carriedAnybody{passed}, nil
	}
	c := &carriedCaller{passed: passed}
	_ = codec.Unmarshal(form, &c.callerForm) // the runtime's own form
	return c, s.keptOwner(c)
}

// serviceScopes decides which scopes the callers of a service need, and refuses those that lack one.
type serviceScopes struct{ *service }

// uriNeeds are the scopes that a resource needs, found or not.
func (s *serviceScopes) uriNeeds(v *view, uri string) []string {
	if f, ok := s.srv.findReader(v, uri); ok {
		return scope.Union(s.srv.opts.Scopes, f.needs)
	}
	return s.hostedNeeds(v, listing.Resources, uri)
}

// hostedNeeds are the scopes that an item of a backend needs, with those of the server.
func (s *serviceScopes) hostedNeeds(v *view, of listing.Of, name string) []string {
	h := s.hosting.now()
	if h == nil || !hosting.AnyNeedsScopes(h) {
		return s.srv.opts.Scopes
	}
	return scope.Union(s.srv.opts.Scopes, hosting.NeededScopes(h, of, name, hostedSeenBy(v)))
}

// completionNeeds are the scopes that the arguments of a prompt or of a template need to be
// completed.
func (s *serviceScopes) completionNeeds(v *view, kind, name, uri string) []string {
	switch kind {
	case mcp.RefPrompt:
		if p, ok := s.srv.prompts.Get(name); ok && v.seesItem(p.item()) {
			return p.needs
		} else if !ok {
			return s.hostedNeeds(v, listing.Prompts, name)
		}
	case mcp.RefResource:
		if t, ok := s.srv.templates.Get(uri); ok && v.seesItem(t.item()) {
			return t.needs
		}
		return scope.Union(s.hostedNeeds(v, listing.Templates, uri), s.uriNeeds(v, uri))
	}
	return s.srv.opts.Scopes
}

// messageNeeds are the scopes that a message needs: those of the server, and of what it names.
// What its caller must not know of needs none. It costs tools/call no allocation.
func (s *serviceScopes) messageNeeds(m *codec.Message, principal any) *[]string {
	switch {
	case m.Kind != codec.Request:
	case string(m.Method) == mcp.MethodToolsCall:
		t, own := s.tools.findTool(m.Name)
		switch h := s.hosting.now(); {
		case own && len(t.Scopes) == 0, !own && (h == nil || !hosting.AnyNeedsScopes(h)):
		case !own:
			needs := s.hostedNeeds(s.access.viewOf(func() Principal { return principalOf(principal) }), listing.Tools, decodeText(m.Name))
			return &needs
		case s.access.viewOf(func() Principal { return principalOf(principal) }).seesItem(t.item()):
			return &t.needs
		}
	default:
		if all := s.methodNeeds(m, principal); all != nil {
			own := all
			return &own
		}
	}
	return &s.srv.opts.Scopes
}

// methodNeeds are the scopes that a request other than tools/call needs, nil if it names
// nothing.
func (s *serviceScopes) methodNeeds(m *codec.Message, principal any) []string {
	kind, name, uri := mcp.RefResource, "", decodeText(m.URI)
	switch string(m.Method) {
	case mcp.MethodPromptsGet:
		kind, name = mcp.RefPrompt, decodeText(m.Name)
	case mcp.MethodResourcesRead, mcp.MethodResourcesSubscribe:
	case mcp.MethodCompletionComplete:
		ref := codec.Field(m.Params, "ref")
		kind, name, uri = decodeText(codec.Field(ref, "type")), decodeText(codec.Field(ref, "name")), decodeText(codec.Field(ref, "uri"))
	default:
		return nil
	}
	if len(uri) > s.limits.MaxURI {
		return nil
	}
	v := s.access.viewOf(func() Principal { return principalOf(principal) })
	if string(m.Method) == mcp.MethodCompletionComplete || kind == mcp.RefPrompt {
		return s.completionNeeds(v, kind, name, uri)
	}
	return s.uriNeeds(v, uri)
}

// checkMessageScopes refuses a message whose caller lacks a scope, and otherwise puts into in
// what it needs. A batch needs what all of its requests need.
func (s *serviceScopes) checkMessageScopes(in *actors.Input, principal any, m *codec.Message, body []byte) *refusal.Refusal {
	if !s.srv.scoped.Load() {
		return nil
	}
	if in.Needs = s.messageNeeds(m, principal); m.Kind == codec.Batch {
		in.Needs = s.batchNeeds(body, principal)
	}
	if len(*in.Needs) == 0 {
		return nil
	}
	return s.checkScopes(principal, *in.Needs)
}

// batchNeeds are the scopes that a batch needs.
func (s *serviceScopes) batchNeeds(body []byte, principal any) *[]string {
	all := s.srv.opts.Scopes
	for raw := range codec.Elements(body) {
		var e codec.Message
		if codec.Scan(raw, &e, codec.Limits{MaxDepth: s.svc.Limits.Depth}) == nil { // a faulty batch is refused as such
			all = scope.Union(all, *s.messageNeeds(&e, principal))
		}
	}
	return &all
}

// grantedScopes returns the scopes of a caller; all says that it may do everything.
func grantedScopes(principal any) (scopes []string, all bool) {
	switch p := principal.(type) {
	case *caller:
		return p.Scopes, false
	case *carriedCaller:
		return p.Scopes, false
	case json.RawMessage:
		s := storedOf(p)
		return s.Scopes, s.Local
	case local:
		return nil, true
	}
	return nil, false
}

// withoutAuth holds scopes to those that are needed where nobody says which imply others.
var withoutAuth auth.Authority

// requireScopes returns why a caller that lacks one of the needed scopes is refused, with the
// challenge that says what to ask for. The paths of HTTP+SSE are a resource of their own, which
// takes no tokens of the other.
func (s *serviceScopes) requireScopes(principal any, needed []string) (refused *auth.Refusal, challenge string) {
	has, all := grantedScopes(principal)
	if all {
		return nil, ""
	}
	if s.rt.bearer == nil {
		if refused = withoutAuth.Require(has, needed); refused != nil {
			challenge = scope.Challenge(refused.Scopes, refused.Text)
		}
		return refused, challenge
	}
	path := s.path
	if r := requestOf(principal); r != nil {
		path = r.URL.Path
	}
	return s.rt.bearer.Require(path, isAnonymous(principal), has, needed)
}

// checkScopes returns why a caller may not have what needs some scopes, nil if it may.
func (s *serviceScopes) checkScopes(principal any, needs []string) *refusal.Refusal {
	refused, challenge := s.requireScopes(principal, needs)
	if refused == nil {
		return nil
	}
	label := refusal.Scope.Label
	if refused.Reason == auth.ReasonMissing {
		label = bearer.LabelOf(refused.Reason)
	}
	s.rt.observer().Rejected(refused.Status, label)
	if !isAnonymous(principal) {
		p := principalOf(principal)
		refused.Known = append((&auth.Identity{Issuer: p.Issuer, Subject: p.Subject, Client: p.Client}).Whose(), refused.Known...)
	}
	bearer.LogRefusal(s.rt.hits, requestOf(principal), refused)
	err := mcp.NewError(refusal.Scope.Code, refused.Text).WithData(struct {
		Scopes []string `json:"scopes"`
	}{refused.Scopes})
	return &refusal.Refusal{Status: refused.Status, Code: err.Code, Text: err.Message, Data: err.Data, Challenge: challenge, Err: err}
}

// denial is an error of the call that says which scopes its caller lacks.
type denial struct {
	no     *refusal.Refusal
	err    *mcp.Error // of no
	before *denial    // an earlier one of the same call
}

// askForScopes has the response to a call be one that asks for scopes, if err is that of
// requireScopes.
func (s *serviceScopes) askForScopes(c *Call, err *mcp.Error) {
	for d := c.denied.Load(); d != nil && err != nil; d = d.before {
		if d.err == err {
			c.c.Deny(d.no)
			return
		}
	}
}

// refusesTo reports whether a listener lacks a scope that a resource needs. denied is set to the
// error then.
func (s *serviceScopes) refusesTo(call *Call, v *view, uri string, denied **mcp.Error) bool {
	if !s.srv.scoped.Load() {
		return false
	}
	refused := call.requireScopes(s.uriNeeds(v, uri))
	if refused != nil {
		*denied = refused
	}
	return refused != nil
}

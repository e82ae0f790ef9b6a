package troupe

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/bearer"
	"github.com/troupe-run/troupe/internal/guard"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/scope"
	"github.com/troupe-run/troupe/mcp"
)

// ItemKind is the kind of an item that a server offers.
type ItemKind uint8

// The kinds of items.
const (
	ItemTool ItemKind = iota
	ItemPrompt
	ItemResource
	ItemResourceTemplate
	ItemSkill
)

// Item is a tool, prompt, resource, resource template or skill, for [ServerOptions.Visible].
// The files of a skill are resources that are seen with it, and are no items of their own.
type Item struct {
	Kind ItemKind
	// Name is the name of a tool or a prompt, the URI of a resource, the text of a
	// template, or the URI of a skill's SKILL.md.
	Name string
	// Annotations are the annotations of a tool, nil if it has none. Visible must not
	// change them.
	Annotations *mcp.ToolAnnotations
	// Meta is the `_meta` that the item was registered with.
	Meta mcp.Meta

	others []Item // of which one must be visible in place of this one
}

// view is a server as one caller sees it; nil sees all of it.
type view struct {
	caller Principal
	s      *service
	within bool            // Visible runs within a handler's goroutine, which may end with it
	skills map[string]bool // what Visible has said of skills, for one list of their files; nil outside of lists
}

// forList returns v for one pass over a list, in which Visible says of each skill once what holds for all of its files.
func (v *view) forList() *view {
	if v == nil {
		return nil
	}
	w := *v
	w.skills = make(map[string]bool)
	return &w
}

// offer is an item of one kind.
type offer interface {
	comparable
	item() Item
}

// seenBy returns what v sees of a list, for one pass over it; nil sees all.
func seenBy[T offer](v *view) func(T) bool {
	if v == nil {
		return nil
	}
	v = v.forList()
	return func(i T) bool { return v.seesItem(i.item()) }
}

// rememberedSkill returns whether a skill's item is visible, if Visible has been asked what is needed to say so.
func (v *view) rememberedSkill(i Item) (seen, ok bool) {
	seen, ok = v.skills[i.Name]
	for at := 0; ok && !seen && at < len(i.others); at++ {
		seen, ok = v.skills[i.others[at].Name]
	}
	return seen, ok
}

// isVisible calls Visible.
func (v *view) isVisible(i Item) bool {
	if i.Kind != ItemSkill || v.skills == nil {
		return v.s.srv.opts.Visible(v.caller, i)
	}
	seen, ok := v.skills[i.Name]
	if !ok {
		v.skills[i.Name] = false // if Visible panics
		seen = v.s.srv.opts.Visible(v.caller, i)
		v.skills[i.Name] = seen
	}
	return seen
}

// seesItem reports whether the item is visible. An item for which Visible panics is not: Visible
// also runs outside of requests, where a panic would end the process.
func (v *view) seesItem(i Item) bool {
	switch {
	case v == nil:
		return true
	case i.Kind == ItemSkill:
		if seen, ok := v.rememberedSkill(i); ok {
			return seen
		}
	}
	if v.within {
		return v.isVisibleSafely(i)
	}
	seen := false
	guard.Apart(func() { seen = v.isVisibleSafely(i) })
	return seen
}

// isVisibleSafely calls Visible. If that ends the goroutine, isVisibleSafely does not return.
func (v *view) isVisibleSafely(i Item) (seen bool) {
	returned := false
	defer func() {
		if !returned {
			seen = false
			v.s.access.hiding.logPanic(v.s, guard.Caught(recover()))
		}
	}()
	others := i.others
	i.others = nil
	seen = v.isVisible(i)
	for at := 0; !seen && at < len(others); at++ {
		seen = v.isVisible(others[at])
	}
	returned = true
	return seen
}

// panicLog keeps a Visible that panics for every item of every list from flooding the log.
type panicLog struct {
	last   atomic.Int64 // when a panic was logged, unix nanoseconds
	silent atomic.Int64 // how many panics there were since then
}

// panicEvery is how often panics of Visible are logged.
const panicEvery = time.Minute

// logPanic counts a panic, and logs it if none was logged within a minute.
func (l *panicLog) logPanic(s *service, failure *guard.Failure) {
	s.rt.node.Kernel().CountPanic()
	now, last := time.Now().UnixNano(), l.last.Load()
	if last != 0 && now-last < int64(panicEvery) || !l.last.CompareAndSwap(last, now) {
		l.silent.Add(1)
		return
	}
	s.rt.log.Error("a function of the server "+failure.Did(), append(failure.Attrs(), "server", s.id, "function", "Visible",
		"unlogged", l.silent.Swap(0))...)
}

// serviceAccess decides what a caller of a service sees, and which scopes it needs.
type serviceAccess struct {
	*service
	hiding panicLog // the panics of Visible
}

// viewOf returns the server as a principal sees it. It calls who only if the server has a Visible.
func (s *serviceAccess) viewOf(who func() Principal) *view {
	if s.srv.opts.Visible == nil {
		return nil
	}
	return &view{caller: who(), s: s.service}
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
	return ok && s.viewOf(func() Principal { return principalOf(principal) }).seesItem(t.item())
}

// identifyCaller says in in who makes a request, as authenticateRequest returned it.
func (s *serviceAccess) identifyCaller(in *actors.Input, principal any) {
	if c, ok := principal.(*caller); ok {
		in.Tenant, in.Principal = c.key, s.keptOwner(c)
	}
}

// keptOwner returns what sessions keep of the principal of their requests, nil without a Visible.
func (s *serviceAccess) keptOwner(principal any) any {
	if s.srv.opts.Visible == nil {
		return nil
	}
	switch principal.(type) {
	case *caller, *carriedCaller:
		p := principalOf(principal).withoutToken()
		return &p
	}
	return nil
}

// forLater returns v for use after the request of its caller.
func (v *view) forLater() *view {
	if v == nil {
		return nil
	}
	return &view{caller: v.caller.withoutToken(), s: v.s}
}

// changedLists returns the notifications of the lists whose digests differ.
func changedLists(now, before string) (methods []string) {
	have, had := strings.Split(now, " "), strings.Split(before, " ")
	for i, method := range announced {
		if i >= len(had) || have[i] != had[i] {
			methods = append(methods, method)
		}
	}
	return methods
}

// uriNeeds are the scopes that a resource needs, found or not.
func (s *serviceAccess) uriNeeds(v *view, uri string) []string {
	if f, ok := s.srv.findReader(v, uri); ok {
		return scope.Union(s.srv.opts.Scopes, f.needs)
	}
	return s.srv.opts.Scopes
}

// completionNeeds are the scopes that the arguments of a prompt or of a template need to be completed.
func (s *serviceAccess) completionNeeds(v *view, kind, name, uri string) []string {
	switch kind {
	case mcp.RefPrompt:
		if p, ok := s.srv.prompts.Get(name); ok && v.seesItem(p.item()) {
			return p.needs
		}
	case mcp.RefResource:
		if t, ok := s.srv.templates.Get(uri); ok && v.seesItem(t.item()) {
			return t.needs
		}
		return s.uriNeeds(v, uri)
	}
	return s.srv.opts.Scopes
}

// messageNeeds are the scopes that a message needs: those of the server, and of what it names. What its caller must not know of needs none. It costs tools/call no
// allocation.
func (s *serviceAccess) messageNeeds(m *codec.Message, principal any) *[]string {
	switch {
	case m.Kind != codec.Request:
	case string(m.Method) == mcp.MethodToolsCall:
		if t, ok := s.tools.findTool(m.Name); ok && len(t.Scopes) > 0 && s.viewOf(func() Principal { return principalOf(principal) }).seesItem(t.item()) {
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

// methodNeeds are the scopes that a request other than tools/call needs, nil if it names nothing.
func (s *serviceAccess) methodNeeds(m *codec.Message, principal any) []string {
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
	v := s.viewOf(func() Principal { return principalOf(principal) })
	if string(m.Method) == mcp.MethodCompletionComplete || kind == mcp.RefPrompt {
		return s.completionNeeds(v, kind, name, uri)
	}
	return s.uriNeeds(v, uri)
}

// checkMessageScopes refuses a message whose caller lacks a scope, and otherwise puts into in what it needs. A batch needs what all of its requests need.
func (s *serviceAccess) checkMessageScopes(in *actors.Input, principal any, m *codec.Message, body []byte) *refusal.Refusal {
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
func (s *serviceAccess) batchNeeds(body []byte, principal any) *[]string {
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

// requireScopes returns why a caller that lacks one of the needed scopes is refused, with the challenge that says what to ask for. The paths of HTTP+SSE are a
// resource of their own, which takes no tokens of the other.
func (s *serviceAccess) requireScopes(principal any, needed []string) (refused *auth.Refusal, challenge string) {
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
func (s *serviceAccess) checkScopes(principal any, needs []string) *refusal.Refusal {
	refused, challenge := s.requireScopes(principal, needs)
	if refused == nil {
		return nil
	}
	label := refusal.Scope.Label
	if refused.Reason == auth.ReasonMissing {
		label = bearer.Label(refused.Reason)
	}
	s.rt.observer().Rejected(refused.Status, label)
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

// askForScopes has the response to a call be one that asks for scopes, if err is that of requireScopes.
func (s *serviceAccess) askForScopes(c *Call, err *mcp.Error) {
	for d := c.denied.Load(); d != nil && err != nil; d = d.before {
		if d.err == err {
			c.c.Deny(d.no)
			return
		}
	}
}

// refusesTo reports whether a listener lacks a scope that a resource needs. denied is set to the error then.
func (s *serviceAccess) refusesTo(call *Call, v *view, uri string, denied **mcp.Error) bool {
	if !s.srv.scoped.Load() {
		return false
	}
	refused := call.requireScopes(s.uriNeeds(v, uri))
	if refused != nil {
		*denied = refused
	}
	return refused != nil
}

// readCarried is the reverse of Carry.
func (s *serviceAccess) readCarried(form []byte) (principal, owner any) {
	c := new(carriedCaller)
	_ = codec.Unmarshal(form, &c.callerForm) // the runtime's own form
	return c, s.keptOwner(c)
}

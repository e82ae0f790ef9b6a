package troupe

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/guard"
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

// serviceAccess decides what a caller of a service sees.
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

// readCarried is the reverse of Carry.
func (s *serviceAccess) readCarried(form []byte) (principal, owner any) {
	c := new(carriedCaller)
	_ = codec.Unmarshal(form, &c.callerForm) // the runtime's own form
	return c, s.keptOwner(c)
}

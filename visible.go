package troupe

import (
	"context"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/mcp"
)

// ItemKind is what a server offers an item as.
type ItemKind uint8

// The kinds of items.
const (
	ItemTool ItemKind = iota
	ItemPrompt
	ItemResource
	ItemResourceTemplate
)

// Item is what [ServerOptions.Visible] decides on.
type Item struct {
	Kind ItemKind
	// Name is that of a tool or a prompt, the URI of a resource, or the text of a
	// template.
	Name string
	// Annotations are those of a tool, nil if it has none. They must not be changed.
	Annotations *mcp.ToolAnnotations
	// Meta is the `_meta` that the item was registered with.
	Meta mcp.Meta
}

func (t *tool) item() Item {
	return Item{Kind: ItemTool, Name: t.Name, Annotations: t.Annotations, Meta: t.Meta}
}
func (p *prompt) item() Item   { return Item{Kind: ItemPrompt, Name: p.Name, Meta: p.Meta} }
func (r *resource) item() Item { return Item{Kind: ItemResource, Name: r.URI, Meta: r.Resource.Meta} }
func (t *template) item() Item {
	return Item{Kind: ItemResourceTemplate, Name: t.URITemplate, Meta: t.ResourceTemplate.Meta}
}

// view is a server as one caller sees it; nil sees all of it.
type view struct {
	caller Principal
	s      *service
}

// sees reports whether the item is visible. One whose Visible panics is not: it is asked
// outside of requests, too, where a panic would end the process.
func (v *view) sees(i Item) (seen bool) {
	if v == nil {
		return true
	}
	defer func() {
		if p := recover(); p != nil {
			seen = false
			v.s.hiding.panicked(v.s, p)
		}
	}()
	return v.s.srv.opts.Visible(v.caller, i)
}

// panicLog keeps a Visible that panics for every item of every list from flooding the log.
type panicLog struct {
	last   atomic.Int64 // when a panic was logged, unix nanoseconds
	silent atomic.Int64 // how many there were since then
}

// panicEvery is how often panics of Visible are logged.
const panicEvery = time.Minute

// panicked counts a panic, and logs it if none was logged within a minute.
func (l *panicLog) panicked(s *service, p any) {
	s.rt.node.Kernel().CountPanic()
	now, last := time.Now().UnixNano(), l.last.Load()
	if last != 0 && now-last < int64(panicEvery) || !l.last.CompareAndSwap(last, now) {
		l.silent.Add(1)
		return
	}
	s.rt.log.Error("a function of the server panicked", "server", s.id, "function", "Visible", "panic", p,
		"unlogged", l.silent.Swap(0), "stack", string(debug.Stack()))
}

// viewOf is the server as a principal sees it. who is asked only where that matters.
func (s *service) viewOf(who func() Principal) *view {
	if s.srv.opts.Visible == nil {
		return nil
	}
	return &view{who(), s}
}

// view is the server as the caller of c sees it.
func (c *Call) view() *view { return c.svc.viewOf(c.Principal) }

// seen returns t if the caller may see it.
func (c *Call) seen(t *tool) *tool {
	if t != nil && c.svc.srv.opts.Visible != nil && !c.view().sees(t.item()) {
		return nil
	}
	return t
}

// prompt finds a prompt that the caller may see.
func (c *Call) prompt(name string) (*prompt, bool) {
	p, ok := c.svc.srv.prompts.get(name)
	return p, ok && c.view().sees(p.item())
}

// ownerIn is who begins the session that initialize is about.
func ownerIn(ctx context.Context) func() Principal {
	return func() Principal { return ownedBy(actors.Owner(ctx)) }
}

// ownerOf is who the newest request of a session was from.
func ownerOf(p *actors.Peer) func() Principal {
	return func() Principal { return ownedBy(p.Owner()) }
}

func ownedBy(v any) Principal {
	if p, ok := v.(*Principal); ok {
		return *p
	}
	return Principal{}
}

// owner is what sessions keep of the principal of their requests, nil where nobody needs it.
func (s *service) owner(principal any) any {
	c, ok := principal.(*caller)
	if !ok || s.srv.opts.Visible == nil {
		return nil
	}
	p := c.Principal
	p.Token = ""
	return &p
}

// FilterChanged has the server ask ServerOptions.Visible anew: clients whose lists differ
// from what they were told last are told so. Call it when what callers may see has
// changed, and the server's items have not.
func (s *Server) FilterChanged() {
	for list := range announced {
		s.mount.changed(list)
	}
}

// digests say what of the server's catalogues v sees: a session's record keeps those it
// was last told of, so that each change is told once.
func (s *Server) digests(v *view) string {
	return strings.Join([]string{
		s.tools.now.Load().digestFor(v), s.prompts.now.Load().digestFor(v),
		s.resources.now.Load().digestFor(v) + s.templates.now.Load().digestFor(v),
	}, " ")
}

// differing are the notifications of those lists whose digests differ.
func differing(now, before string) (methods []string) {
	have, had := strings.Split(now, " "), strings.Split(before, " ")
	for i, method := range announced {
		if i >= len(had) || have[i] != had[i] {
			methods = append(methods, method)
		}
	}
	return methods
}

// changesFor returns what reports whether a list, by the method of its notification,
// differs from what v saw of it when that was asked last. It is nil where every change
// is one for v.
func (s *Server) changesFor(v *view) func(method string) bool {
	if v == nil {
		return nil
	}
	before := strings.Split(s.digests(v), " ")
	return func(method string) bool {
		now := strings.Split(s.digests(v), " ")
		for i := range announced {
			if announced[i] == method && now[i] != before[i] {
				before[i] = now[i]
				return true
			}
		}
		return false
	}
}

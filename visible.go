package troupe

import (
	"sync/atomic"
	"time"

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
	by     *visibility
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
		return v.by.visible(v.caller, i)
	}
	seen, ok := v.skills[i.Name]
	if !ok {
		v.skills[i.Name] = false // if Visible panics
		seen = v.by.visible(v.caller, i)
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
			v.by.logPanic(guard.Caught(recover()))
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

// visibility is the function Visible of a server. Each panic of it is counted, and few are logged, as it
// may panic for every item of every list.
type visibility struct {
	visible func(Principal, Item) bool // nil: everybody sees everything
	count   func()                     // counts a panic
	log     func(failure *guard.Failure, unlogged int64)

	last   atomic.Int64 // when a panic was logged, unix nanoseconds
	silent atomic.Int64 // how many panics there were since then
}

// panicEvery is how often panics of Visible are logged.
const panicEvery = time.Minute

// logPanic counts a panic, and logs it if none was logged within a minute.
func (l *visibility) logPanic(failure *guard.Failure) {
	l.count()
	now, last := time.Now().UnixNano(), l.last.Load()
	if last != 0 && now-last < int64(panicEvery) || !l.last.CompareAndSwap(last, now) {
		l.silent.Add(1)
		return
	}
	l.log(failure, l.silent.Swap(0))
}

// forLater returns v for use after the request of its caller.
func (v *view) forLater() *view {
	if v == nil {
		return nil
	}
	return &view{caller: v.caller.withoutToken(), by: v.by}
}

// Package listing has what backends list, as clients get it: the bytes of the backend, but for the name where it has a
// prefix, and for what the client's revision does not know.
//
// A [List] is what backends have of one kind. It does not change once it is made, and any goroutine may use it.
package listing

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/mcp"
)

// Of says what a list is of.
type Of uint8

// What backends list.
const (
	Tools Of = iota
	Prompts
	Resources
	Templates
)

// kinds says how items of each kind are read.
var kinds = [...]struct {
	member, key string
	project     func(raw []byte, r mcp.Revision) ([]byte, error)
}{
	Tools:     {"tools", "name", projectBy(protocol.ToolFor)},
	Prompts:   {"prompts", "name", projectBy(protocol.PromptFor)},
	Resources: {"resources", "uri", projectBy(protocol.ResourceFor)},
	Templates: {"resourceTemplates", "uriTemplate", projectBy(protocol.TemplateFor)},
}

// Member is the member of a result that has the list.
func (of Of) Member() string { return kinds[of].member }

// An Item is one item of a backend.
type Item struct {
	Backend string // its name in the configuration
	Own     string // by which the backend knows the item: a name, a URI or a template
	Name    string // by which clients know it
	Raw     []byte // as the backend lists it, with Name in place of Own
}

// ErrItem reports an item that is not listed, because it has no name, or is no object. The others are.
var ErrItem = errors.New("an item of a backend is not listed")

// Read reads what a backend lists. rename gives an item the name by which clients know it, and reports whether they may
// know it at all. The error, which may be of several items, is ErrItem; what could be read is returned all the same.
func Read(of Of, backend string, raw [][]byte, rename func(own string) (string, bool)) ([]Item, error) {
	items := make([]Item, 0, len(raw))
	var faults []error
	for i, r := range raw {
		key := kinds[of].key
		own, ok := codec.Str(codec.Field(r, key))
		if !ok || own == "" {
			faults = append(faults, fmt.Errorf("%w: %s, number %d of %s, has no %s", ErrItem, backend, i+1, kinds[of].member, key))
			continue
		}
		name, shown := rename(own)
		if !shown {
			continue
		}
		item := Item{Backend: backend, Own: own, Name: name, Raw: bytes.Clone(r)}
		if name != own {
			item.Raw = replaced(r, key, name)
		}
		items = append(items, item)
	}
	return items, errors.Join(faults...)
}

// replaced returns an object with name as its member key. All other members are as they were, without the blanks between.
func replaced(object []byte, key, name string) []byte {
	out := append(make([]byte, 0, len(object)+len(name)), '{')
	for k, value := range codec.Members(object) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		begin := len(out)
		out = append(append(append(out, '"'), k...), '"')
		is := codec.SameString(out[begin:], key)
		if out = append(out, ':'); is {
			out = codec.AppendString(out, name)
		} else {
			out = append(out, value...)
		}
	}
	return append(out, '}')
}

// A List is what backends list of one kind, in the order of the configuration and of each backend.
type List struct {
	of     Of
	items  []Item
	byName map[string]int
	digest string
	spoken mcp.Revision // the newest revision that an item may be of
	seen   [mcp.Latest + 1]struct {
		once  sync.Once
		items [][]byte
	}
}

// New returns a list of items, which were listed by backends that speak revisions up to spoken. Where several have one
// name the first one counts; the others are returned as hidden.
func New(of Of, spoken mcp.Revision, items []Item) (l *List, hidden []Item) {
	l = &List{of: of, byName: make(map[string]int, len(items)), spoken: spoken}
	h := sha256.New()
	for _, item := range items {
		if _, taken := l.byName[item.Name]; taken {
			hidden = append(hidden, item)
			continue
		}
		l.byName[item.Name] = len(l.items)
		l.items = append(l.items, item)
		h.Write(item.Raw)
		h.Write([]byte{'\n'})
	}
	l.digest = hex.EncodeToString(h.Sum(nil)[:6])
	return l, hidden
}

// Len is how many items there are.
func (l *List) Len() int { return len(l.items) }

// Digest tells lists apart whose clients see something else.
func (l *List) Digest() string { return l.digest }

// Find finds an item by the name by which clients know it.
func (l *List) Find(name string) (*Item, bool) {
	i, ok := l.byName[name]
	if !ok {
		return nil, false
	}
	return &l.items[i], true
}

// All calls yield for each item.
func (l *List) All(yield func(*Item) bool) {
	for i := range l.items {
		if !yield(&l.items[i]) {
			return
		}
	}
}

// AppendPage appends up to size items for which sees is true, with commas between them and, unless first is set, before
// them; nil sees all. It begins behind the item whose name is after, or at the first one for "" and for a name that is gone.
// It returns how many there are, and the name of the last of them if more follow.
func (l *List) AppendPage(dst []byte, first bool, sees func(*Item) bool, r mcp.Revision, after string, size int) (out []byte, n int, last string) {
	i := 0
	if at, ok := l.byName[after]; ok {
		i = at + 1
	}
	for items := l.itemsFor(r); i < len(items); i++ {
		if sees != nil && !sees(&l.items[i]) {
			continue
		}
		if n == size {
			return dst, n, last
		}
		if !first {
			dst = append(dst, ',')
		}
		dst = append(dst, items[i]...)
		first, n, last = false, n+1, l.items[i].Name
	}
	return dst, n, ""
}

// itemsFor returns the items for clients of a revision.
func (l *List) itemsFor(r mcp.Revision) [][]byte {
	if !r.Valid() {
		r = mcp.Revision20241105
	}
	e := &l.seen[r]
	e.once.Do(func() {
		e.items = make([][]byte, len(l.items))
		for i := range l.items {
			e.items[i] = l.itemFor(&l.items[i], r)
		}
	})
	return e.items
}

// itemFor returns an item for a revision. What does not read as the specification has it stays as the backend has said it: an older
// client passes over what it does not know. Whether calls may become tasks is of one revision alone.
func (l *List) itemFor(item *Item, r mcp.Revision) []byte {
	raw := item.Raw
	if l.of == Tools && !protocol.Has(r, protocol.FeatureCoreTasks) {
		raw = without(raw, "execution")
	}
	if r >= l.spoken {
		return raw
	}
	projected, err := kinds[l.of].project(raw, r)
	if err != nil {
		return raw
	}
	return projected
}

// without returns an object without a member: object itself if it has none of that name.
func without(object []byte, key string) []byte {
	if codec.Field(object, key) == nil {
		return object
	}
	out := append(make([]byte, 0, len(object)), '{')
	for k, value := range codec.Members(object) {
		begin := len(out)
		if begin > 1 {
			out = append(out, ',')
		}
		name := len(out)
		out = append(append(append(out, '"'), k...), '"')
		if codec.SameString(out[name:], key) {
			out = out[:begin]
			continue
		}
		out = append(append(out, ':'), value...)
	}
	return append(out, '}')
}

// projectBy returns what makes an item of type T one of a revision. Where the revision has all of it the bytes stay.
func projectBy[T any](to func(T, mcp.Revision) T) func([]byte, mcp.Revision) ([]byte, error) {
	return func(raw []byte, r mcp.Revision) ([]byte, error) {
		var item T
		if err := codec.Unmarshal(raw, &item); err != nil {
			return nil, err
		}
		before, err := codec.Marshal(item)
		if err != nil {
			return nil, err
		}
		after, err := codec.Marshal(to(item, r))
		if err != nil || bytes.Equal(before, after) {
			return raw, err
		}
		return after, nil
	}
}

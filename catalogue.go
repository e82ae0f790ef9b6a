package troupe

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// catalogue is one kind of a server's offers, by name. Reading takes no lock:
// each change makes a new snapshot.
type catalogue[T offer] struct {
	mu      sync.Mutex // serialises changes
	now     atomic.Pointer[snapshot[T]]
	wire    wire[T]
	changed func()
}

// offer is what a server offers.
type offer interface{ item() Item }

// wire is what travels of an item: all of it, and what peers of a revision may see.
type wire[T any] struct {
	whole func(T) any
	to    func(T, mcp.Revision) any
}

// snapshot is a catalogue as it stands: its items in the order of their names,
// which is the order of lists.
type snapshot[T offer] struct {
	byName map[string]T
	names  []string
	items  [][]byte // encoded with all that any revision may see
	digest string   // of items
	wire   wire[T]
	seen   [mcp.Latest + 1]encoded // by revision
}

// encoded are the items of a snapshot for one revision, made when the first client
// of that revision asks.
type encoded struct {
	once  sync.Once
	items [][]byte
}

func newCatalogue[T offer](whole func(T) any, to func(T, mcp.Revision) any) *catalogue[T] {
	c := &catalogue[T]{wire: wire[T]{whole, to}, changed: func() {}}
	c.now.Store(&snapshot[T]{byName: map[string]T{}, digest: digestOf(nil)})
	return c
}

func digestOf(items [][]byte) string {
	h := sha256.New()
	for _, i := range items {
		h.Write(i)
		h.Write([]byte{'\n'})
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

func (c *catalogue[T]) get(name string) (T, bool) {
	v, ok := c.now.Load().byName[name]
	return v, ok
}

// find is get without making a string of name.
func (c *catalogue[T]) find(name []byte) (T, bool) {
	v, ok := c.now.Load().byName[string(name)]
	return v, ok
}

// put adds an item, or replaces it. It fails, and changes nothing, when the item cannot be
// encoded.
func (c *catalogue[T]) put(name string, v T) error {
	if _, err := codec.Marshal(c.wire.whole(v)); err != nil {
		return fmt.Errorf("%q: %w", name, err)
	}
	c.edit(func(m map[string]T) bool { m[name] = v; return true })
	return nil
}

func (c *catalogue[T]) remove(names ...string) {
	c.edit(func(m map[string]T) bool {
		before := len(m)
		for _, n := range names {
			delete(m, n)
		}
		return len(m) != before
	})
}

func (c *catalogue[T]) edit(f func(map[string]T) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.now.Load()
	next := &snapshot[T]{byName: make(map[string]T, len(old.byName)+1), wire: c.wire}
	for k, v := range old.byName {
		next.byName[k] = v
	}
	if !f(next.byName) {
		return
	}
	for k := range next.byName {
		next.names = append(next.names, k)
	}
	slices.Sort(next.names)
	next.items = next.encode(c.wire.whole)
	next.digest = digestOf(next.items)
	c.now.Store(next)
	if next.digest != old.digest {
		c.changed()
	}
}

// encode returns the items as wire has them. All can be encoded, which shows when they are
// registered: no revision gets what the whole item does not have.
func (s *snapshot[T]) encode(wire func(T) any) [][]byte {
	items := make([][]byte, len(s.names))
	same := s.items != nil
	for i, k := range s.names {
		data, err := codec.Marshal(wire(s.byName[k]))
		if err != nil {
			panic("troupe: " + k + ": " + err.Error())
		}
		if s.items != nil && bytes.Equal(data, s.items[i]) {
			data = s.items[i] // most items are the same for all
		} else {
			same = false
		}
		items[i] = data
	}
	if same {
		return s.items
	}
	return items
}

// itemsFor are the encoded items for a revision.
func (s *snapshot[T]) itemsFor(r mcp.Revision) [][]byte {
	if !r.Valid() {
		r = mcp.Revision20241105
	}
	e := &s.seen[r]
	e.once.Do(func() { e.items = s.encode(func(v T) any { return s.wire.to(v, r) }) })
	return e.items
}

// digestFor is the digest of what v sees.
func (s *snapshot[T]) digestFor(v *view) string {
	if v == nil {
		return s.digest
	}
	var items [][]byte
	for i, name := range s.names {
		if v.sees(s.byName[name].item()) {
			items = append(items, s.items[i])
		}
	}
	return digestOf(items)
}

// page appends the member that is the list of what v sees from the first name after
// `after`, and returns the last name if there is more.
func (s *snapshot[T]) page(dst []byte, v *view, r mcp.Revision, member, after string, size int) (out []byte, last string) {
	i := 0
	if after != "" {
		i, _ = slices.BinarySearchFunc(s.names, after, strings.Compare)
		if i < len(s.names) && s.names[i] == after {
			i++
		}
	}
	dst = append(dst, '"')
	dst = append(dst, member...)
	dst = append(dst, `":[`...)
	shown, newest := 0, ""
	for items := s.itemsFor(r); i < len(s.names); i++ {
		if v != nil && !v.sees(s.byName[s.names[i]].item()) {
			continue
		}
		if shown == size {
			last = newest
			break
		}
		if shown > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, items[i]...)
		shown, newest = shown+1, s.names[i]
	}
	return append(dst, ']'), last
}

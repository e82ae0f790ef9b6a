// Package catalogue keeps what a server offers of one kind, by name, and the lists of it as clients
// get them, each encoded once.
package catalogue

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
	"github.com/troupe-run/troupe/internal/template"
	"github.com/troupe-run/troupe/mcp"
)

// Catalogue holds a server's items of one kind, by name. Reading takes no lock: each change makes a
// new snapshot. An item does not change once it is there: another one takes its place. The methods
// may be called from any goroutine.
type Catalogue[T comparable] struct {
	// Changed is called after each change of the lists, under the lock that serialises changes.
	Changed func()

	mu   sync.Mutex // serialises changes
	now  atomic.Pointer[Snapshot[T]]
	wire wire[T]
}

// wire makes an item as it is sent: with all its members, and for clients of one revision.
type wire[T any] struct {
	whole func(T) any
	to    func(T, mcp.Revision) any
}

// Snapshot is a catalogue as it stands: its items in the order of their names, which is the order of
// lists. It does not change, nor may its users change it.
type Snapshot[T comparable] struct {
	ByName map[string]T
	Names  []string
	items  [][]byte // encoded with the members of all revisions
	digest string   // of items
	wire   wire[T]
	seen   [mcp.Latest + 1]encoded // by revision

	spelling   sync.Once
	bySpelling map[string][]string // of resources: the names by what they are without escapes
}

// encoded holds the items of a snapshot for one revision, encoded when the first client
// of that revision asks.
type encoded struct {
	once  sync.Once
	items [][]byte
}

// New returns an empty catalogue. whole makes an item as it is sent with all its members, and to for clients of one revision.
func New[T comparable](whole func(T) any, to func(T, mcp.Revision) any) *Catalogue[T] {
	c := &Catalogue[T]{wire: wire[T]{whole, to}, Changed: func() {}}
	c.now.Store(&Snapshot[T]{ByName: map[string]T{}, digest: digestOf(nil)})
	return c
}

// Now returns the catalogue as it stands.
func (c *Catalogue[T]) Now() *Snapshot[T] { return c.now.Load() }

// ErrTaken refuses an item whose name another one has.
func ErrTaken(name string) error {
	return fmt.Errorf("%q: there is one of this name already: only the Add functions without Try replace it", name)
}

func digestOf(items [][]byte) string {
	h := sha256.New()
	for _, i := range items {
		h.Write(i)
		h.Write([]byte{'\n'})
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// SpelledLike returns the names, which are URIs, that may be other spellings of uri, in their order.
func (s *Snapshot[T]) SpelledLike(uri string) []string {
	s.spelling.Do(func() {
		s.bySpelling = make(map[string][]string, len(s.Names))
		for _, name := range s.Names {
			plain := template.PlainURI(name)
			s.bySpelling[plain] = append(s.bySpelling[plain], name)
		}
	})
	if len(s.bySpelling) == 0 {
		return nil
	}
	return s.bySpelling[template.PlainURI(uri)]
}

// Get finds an item.
func (c *Catalogue[T]) Get(name string) (T, bool) {
	v, ok := c.now.Load().ByName[name]
	return v, ok
}

// Find is Get without making a string of name.
func (c *Catalogue[T]) Find(name []byte) (T, bool) {
	v, ok := c.now.Load().ByName[string(name)]
	return v, ok
}

// Put adds an item. One of the same name is replaced, or refused unless replace is set. It fails, and changes nothing, when the
// item cannot be encoded.
func (c *Catalogue[T]) Put(name string, v T, replace bool) (replaced bool, err error) {
	if _, err := codec.Marshal(c.wire.whole(v)); err != nil {
		return false, fmt.Errorf("%q: %w", name, err)
	}
	c.Edit(func(m map[string]T) bool {
		if _, replaced = m[name]; replaced && !replace {
			return false
		}
		m[name] = v
		return true
	})
	if replaced && !replace {
		return false, ErrTaken(name)
	}
	return replaced, nil
}

// Remove removes items. It ignores names that there are not.
func (c *Catalogue[T]) Remove(names ...string) {
	c.Edit(func(m map[string]T) bool {
		before := len(m)
		for _, n := range names {
			delete(m, n)
		}
		return len(m) != before
	})
}

// Edit has f change the items by their names. f reports whether it has.
func (c *Catalogue[T]) Edit(f func(map[string]T) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.now.Load()
	next := &Snapshot[T]{ByName: make(map[string]T, len(old.ByName)+1), wire: c.wire}
	for k, v := range old.ByName {
		next.ByName[k] = v
	}
	if !f(next.ByName) {
		return
	}
	for k := range next.ByName {
		next.Names = append(next.Names, k)
	}
	slices.Sort(next.Names)
	next.items = next.encodeNew(c.wire.whole, old)
	next.digest = digestOf(next.items)
	c.now.Store(next)
	if next.digest != old.digest {
		c.Changed()
	}
}

// encodeNew returns the items with all their members. Those that were in the snapshot before are not encoded again.
func (s *Snapshot[T]) encodeNew(whole func(T) any, before *Snapshot[T]) [][]byte {
	items := make([][]byte, len(s.Names))
	for i, k := range s.Names {
		if at, ok := slices.BinarySearch(before.Names, k); ok && before.ByName[k] == s.ByName[k] {
			items[i] = before.items[at]
			continue
		}
		items[i] = encodeItem(k, whole(s.ByName[k]))
	}
	return items
}

// encodeFor returns the items as wire has them.
func (s *Snapshot[T]) encodeFor(wire func(T) any) [][]byte {
	items := make([][]byte, len(s.Names))
	same := true
	for i, k := range s.Names {
		data := encodeItem(k, wire(s.ByName[k]))
		if bytes.Equal(data, s.items[i]) {
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

// encodeItem returns an item of a list. It cannot fail: Put has encoded each whole item, and no revision gets more than that.
func encodeItem(name string, item any) []byte {
	data, err := codec.Marshal(item)
	if err != nil {
		panic("troupe: " + name + ": " + err.Error())
	}
	return data
}

// ItemsFor returns the encoded items for a revision.
func (s *Snapshot[T]) ItemsFor(r mcp.Revision) [][]byte {
	if !r.Valid() {
		r = mcp.Revision20241105
	}
	e := &s.seen[r]
	e.once.Do(func() { e.items = s.encodeFor(func(v T) any { return s.wire.to(v, r) }) })
	return e.items
}

// DigestFor returns the digest of the items for which sees is true; nil sees all.
func (s *Snapshot[T]) DigestFor(sees func(T) bool) string {
	if sees == nil {
		return s.digest
	}
	var items [][]byte
	for i, name := range s.Names {
		if sees(s.ByName[name]) {
			items = append(items, s.items[i])
		}
	}
	return digestOf(items)
}

// AppendPage appends a member with the list of the items for which sees is true, from the first name after
// `after`; nil sees all. It returns how many items there are, and the last name of the page if there are more.
func (s *Snapshot[T]) AppendPage(dst []byte, sees func(T) bool, r mcp.Revision, member, after string, size int) (out []byte, n int, last string) {
	i := 0
	if after != "" {
		i, _ = slices.BinarySearchFunc(s.Names, after, strings.Compare)
		if i < len(s.Names) && s.Names[i] == after {
			i++
		}
	}
	dst = append(dst, '"')
	dst = append(dst, member...)
	dst = append(dst, `":[`...)
	shown, newest := 0, ""
	for items := s.ItemsFor(r); i < len(s.Names); i++ {
		if sees != nil && !sees(s.ByName[s.Names[i]]) {
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
		shown, newest = shown+1, s.Names[i]
	}
	return append(dst, ']'), shown, last
}

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
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/template"
	"github.com/troupe-run/troupe/mcp"
)

// catalogue holds a server's items of one kind, by name. Reading takes no lock:
// each change makes a new snapshot.
type catalogue[T offer] struct {
	mu      sync.Mutex // serialises changes
	now     atomic.Pointer[snapshot[T]]
	wire    wire[T]
	changed func()
}

// offer is an item that a server offers. Once offered it does not change: another one takes its place.
type offer interface {
	comparable
	item() Item
}

// wire makes an item as it is sent: with all its members, and for clients of one revision.
type wire[T any] struct {
	whole func(T) any
	to    func(T, mcp.Revision) any
}

// snapshot is a catalogue as it stands: its items in the order of their names,
// which is the order of lists.
type snapshot[T offer] struct {
	byName map[string]T
	names  []string
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

// spelledLike returns the names, which are URIs, that may be other spellings of uri, in their order.
func (s *snapshot[T]) spelledLike(uri string) []string {
	s.spelling.Do(func() {
		s.bySpelling = make(map[string][]string, len(s.names))
		for _, name := range s.names {
			plain := template.Plain(name)
			s.bySpelling[plain] = append(s.bySpelling[plain], name)
		}
	})
	if len(s.bySpelling) == 0 {
		return nil
	}
	return s.bySpelling[template.Plain(uri)]
}

func (c *catalogue[T]) getItem(name string) (T, bool) {
	v, ok := c.now.Load().byName[name]
	return v, ok
}

// findItem is getItem without making a string of name.
func (c *catalogue[T]) findItem(name []byte) (T, bool) {
	v, ok := c.now.Load().byName[string(name)]
	return v, ok
}

// putItem adds an item. One of the same name is replaced, or refused unless replace is set. It fails, and changes nothing, when the
// item cannot be encoded.
func (c *catalogue[T]) putItem(name string, v T, replace bool) (replaced bool, err error) {
	if _, err := codec.Marshal(c.wire.whole(v)); err != nil {
		return false, fmt.Errorf("%q: %w", name, err)
	}
	c.editItems(func(m map[string]T) bool {
		if _, replaced = m[name]; replaced && !replace {
			return false
		}
		m[name] = v
		return true
	})
	if replaced && !replace {
		return false, errTaken(name)
	}
	return replaced, nil
}

func (c *catalogue[T]) removeItems(names ...string) {
	c.editItems(func(m map[string]T) bool {
		before := len(m)
		for _, n := range names {
			delete(m, n)
		}
		return len(m) != before
	})
}

func (c *catalogue[T]) editItems(f func(map[string]T) bool) {
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
	next.items = next.encodeNew(c.wire.whole, old)
	next.digest = digestOf(next.items)
	c.now.Store(next)
	if next.digest != old.digest {
		c.changed()
	}
}

// encodeNew returns the items with all their members. Those that were in the snapshot before are not encoded again.
func (s *snapshot[T]) encodeNew(whole func(T) any, before *snapshot[T]) [][]byte {
	items := make([][]byte, len(s.names))
	for i, k := range s.names {
		if at, ok := slices.BinarySearch(before.names, k); ok && before.byName[k] == s.byName[k] {
			items[i] = before.items[at]
			continue
		}
		items[i] = encodeItem(k, whole(s.byName[k]))
	}
	return items
}

// encodeFor returns the items as wire has them.
func (s *snapshot[T]) encodeFor(wire func(T) any) [][]byte {
	items := make([][]byte, len(s.names))
	same := true
	for i, k := range s.names {
		data := encodeItem(k, wire(s.byName[k]))
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

// encodeItem returns an item of a list. It cannot fail: putItem has encoded each whole item, and no revision gets more than that.
func encodeItem(name string, item any) []byte {
	data, err := codec.Marshal(item)
	if err != nil {
		panic("troupe: " + name + ": " + err.Error())
	}
	return data
}

// itemsFor returns the encoded items for a revision.
func (s *snapshot[T]) itemsFor(r mcp.Revision) [][]byte {
	if !r.Valid() {
		r = mcp.Revision20241105
	}
	e := &s.seen[r]
	e.once.Do(func() { e.items = s.encodeFor(func(v T) any { return s.wire.to(v, r) }) })
	return e.items
}

// digestFor returns the digest of the items that v sees.
func (s *snapshot[T]) digestFor(v *view) string {
	if v == nil {
		return s.digest
	}
	var items [][]byte
	v = v.forList()
	for i, name := range s.names {
		if v.seesItem(s.byName[name].item()) {
			items = append(items, s.items[i])
		}
	}
	return digestOf(items)
}

// appendPage appends a member with the list of the items that v sees, from the first name after
// `after`. It returns the last name of the page if there are more items.
func (s *snapshot[T]) appendPage(dst []byte, v *view, r mcp.Revision, member, after string, size int) (out []byte, last string) {
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
	v = v.forList()
	for items := s.itemsFor(r); i < len(s.names); i++ {
		if v != nil && !v.seesItem(s.byName[s.names[i]].item()) {
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

// mountPoint is a server's link to the runtime that mounted it.
type mountPoint struct {
	mu    sync.Mutex // guards the rest
	s     *service
	timer *time.Timer
	here  which // lists that have changed here since the timer was set
	there which // lists that have changed on other nodes
	again which // of both, those of which everybody must be told

	advice []advice // for the log, once there is one
}

func (m *mountPoint) mountedService() *service {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.s
}

// setService ties the server to s; it reports whether the server was free.
func (m *mountPoint) setService(s *service) bool {
	m.mu.Lock()
	if m.s != nil {
		m.mu.Unlock()
		return false
	}
	m.s = s
	s.lists.remoteLists.noteOwnLists(s.srv)
	waiting := m.advice
	m.advice = nil
	m.mu.Unlock()
	for _, a := range waiting {
		s.logAdvice(a)
	}
	return true
}

// clearService cuts the link: changes are announced to nobody from then on.
func (m *mountPoint) clearService() {
	m.mu.Lock()
	m.s = nil
	m.mu.Unlock()
}

// listChanged announces a change of a list, by its index in announced, after changeDelay, so
// that further changes join it. A session gets the lists that differ from those announced
// to it. A listener gets every change, as nothing is stored of it; in a fleet it gets those that differ, too.
func (m *mountPoint) listChanged(list int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.s == nil {
		return
	}
	m.here[list] = true
	m.again[list] = m.s.lists.remoteLists.noteOwnChange(list, m.s.srv) || m.again[list]
	m.announceLater()
}

// remoteListChanged announces a change of a list on another node.
func (m *mountPoint) remoteListChanged(list int, digest string, again bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.s == nil || !m.s.lists.remoteLists.noteRemoteChange(list, digest, m.s.srv) && !again {
		return
	}
	m.there[list] = true
	m.again[list] = again || m.again[list]
	m.announceLater()
}

// announceLater announces the changes after changeDelay. mu is held.
func (m *mountPoint) announceLater() {
	if m.timer != nil {
		return
	}
	m.timer = time.AfterFunc(changeDelay, func() {
		m.mu.Lock()
		s, here, there, again := m.s, m.here, m.there, m.again
		m.timer, m.here, m.there, m.again = nil, which{}, which{}, which{}
		m.mu.Unlock()
		if s == nil {
			return
		}
		s.lists.tellLists(here, again)
		s.rt.node.Sessions(s.svc, func(p *actors.Peer) { s.lists.announceLists(p, again) })
		for list, method := range announced {
			if here[list] || there[list] {
				s.rt.node.ListChanged(s.svc, method, again[list])
			}
		}
		if here[listResources] || there[listResources] {
			actors.ReviewListeners(s.rt.node, s.svc)
		}
	})
}

// reviewListeners ends listeners that have nothing left to hear, where a resource or a template was replaced: by one that needs other scopes, perhaps, which no list shows.
func (m *mountPoint) reviewListeners() {
	if s := m.mountedService(); s != nil {
		actors.ReviewListeners(s.rt.node, s.svc)
	}
}

func (m *mountPoint) resourceUpdated(uri string) {
	if s := m.mountedService(); s != nil {
		s.rt.node.ResourceUpdated(s.svc, uri, s.srv.opts.SubResources)
	}
}

// logAdvice logs advice about the server at once, or when a Runtime mounts it: until then there is no log.
func (m *mountPoint) logAdvice(a advice) {
	m.mu.Lock()
	s := m.s
	if s == nil && len(m.advice) < mostAdvice {
		m.advice = append(m.advice, a)
	}
	m.mu.Unlock()
	if s != nil {
		s.logAdvice(a)
	}
}

// pager reads a list page by page.
type pager func(dst []byte, after string, size int) (out []byte, last string)

func (s *snapshot[T]) pagerFor(v *view, r mcp.Revision, member string) pager {
	return func(dst []byte, after string, size int) ([]byte, string) {
		return s.appendPage(dst, v, r, member, after, size)
	}
}

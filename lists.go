package troupe

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/backend"
	"github.com/troupe-run/troupe/internal/backend/listing"
	"github.com/troupe-run/troupe/internal/catalogue"
	"github.com/troupe-run/troupe/internal/hosting"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/mcp"
)

// announced are the notifications of changes of lists.
var announced = [...]string{mcp.NotifyToolsListChanged, mcp.NotifyPromptsListChanged, mcp.NotifyResourcesListChanged}

// The lists, by their index in announced. Resources and their templates are one.
const (
	listTools = iota
	listPrompts
	listResources
)

// which are some of the lists.
type which [len(announced)]bool

// listNames are the names of lists in what nodes tell each other, in the order of announced.
var listNames = [...]string{listTools: "tools", listPrompts: "prompts", listResources: "resources"}

// validDigest reports whether a digest may stand in a session's record.
func validDigest(d string) bool {
	for _, c := range []byte(d) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return d != "" && len(d) <= 64
}

// remoteLists is what a server knows of its lists on other nodes. The zero value knows of none.
//
// Each process has its own lists. When one changes its own, the clients of all are told, once for each digest. A client may then
// have got the list from a node that changes it later: that node has all told again.
type remoteLists struct {
	shared bool // there may be other nodes

	// others are the digests that other nodes have had since the lists changed here; "" where that is this node's digest.
	others atomic.Pointer[[len(announced)]string]
	// got is when somebody asked for the list last, in nanoseconds since start.
	got   [len(announced)]atomic.Int64
	start time.Time

	// The rest is guarded by mountPoint.mu.
	own    [len(announced)]string        // this node's digests
	latest [len(announced)]string        // the digests that another node told last
	at     [len(announced)]time.Duration // when it did, since start
}

// noteOwnLists notes the lists of a server that is being mounted.
func (e *remoteLists) noteOwnLists(s *Server) {
	if e.start.IsZero() {
		e.start = time.Now()
	}
	for list := range e.own {
		e.own[list] = s.listDigest(list, nil, nil)
	}
}

// noteListAsked notes that a client is about to get a list.
func (e *remoteLists) noteListAsked(list int) {
	if e.shared {
		e.got[list].Store(int64(time.Since(e.start)))
	}
}

// newestDigest is the digest of a list that another node has changed since this one did; "" if there is none.
func (e *remoteLists) newestDigest(list int) string {
	if others := e.others.Load(); others != nil {
		return others[list]
	}
	return ""
}

// differingLists returns the lists that are not the same on all nodes, as far as is known.
func (e *remoteLists) differingLists() (lists which) {
	for list := range lists {
		lists[list] = e.newestDigest(list) != ""
	}
	return lists
}

func (e *remoteLists) setDigest(list int, digest string) {
	if e.newestDigest(list) == digest {
		return
	}
	var all [len(announced)]string
	if others := e.others.Load(); others != nil {
		all = *others
	}
	all[list] = digest
	e.others.Store(&all)
}

// noteOwnChange notes that a list may have changed here. It reports whether everybody must be told again: the others had this
// digest before, and a client has got the list from here since.
func (e *remoteLists) noteOwnChange(list int, s *Server) (again bool) {
	now := s.listDigest(list, nil, nil)
	if now == e.own[list] {
		return false
	}
	e.own[list] = now
	e.setDigest(list, "")
	return e.latest[list] == now && time.Duration(e.got[list].Load()) >= e.at[list]
}

// noteRemoteChange notes the digest of a list on another node. It reports whether that may be news for a client.
func (e *remoteLists) noteRemoteChange(list int, digest string, s *Server) (isNew bool) {
	e.latest[list], e.at[list] = digest, time.Since(e.start)
	other := digest
	if digest == e.own[list] {
		other = ""
	}
	isNew = e.newestDigest(list) != other || s.opts.Visible != nil
	e.setDigest(list, other)
	return isNew
}

// serviceLists sends the lists of a service, and announces their changes to clients and other nodes.
type serviceLists struct {
	*service
	remoteLists remoteLists // what is known of the lists of other nodes
}

// tellLists tells the other nodes which lists have changed here, and which of them everybody must be told of again.
func (s *serviceLists) tellLists(here, again which) {
	if here == (which{}) {
		return
	}
	var changed []actors.ListChange
	for list, name := range listNames {
		if here[list] {
			changed = append(changed, actors.ListChange{List: name, Digest: s.srv.listDigest(list, nil, nil), Again: again[list]})
		}
	}
	s.rt.node.TellLists(s.svc, changed)
	s.served()
}

// announceLists tells a session which lists differ from those announced to it, if it listens
// on this node. It is told of those in again in any case.
func (s *serviceLists) announceLists(p *actors.Peer, again which) {
	now, before := s.listDigests(s.access.viewOf(ownerOf(p)), s.hosting.callerOf(p)), p.Announced()
	if now == before && again == (which{}) {
		return
	}
	methods := changedLists(now, before)
	for list, method := range announced {
		if again[list] && !slices.Contains(methods, method) {
			methods = append(methods, method)
		}
	}
	p.Announce(methods, now)
}

// appendListPage answers with a page, which a client may keep as cache says; nil is for a list that no client keeps. Its cursor is the last name of the page, so that pages stay
// right while the list changes. The cursor is sealed, and valid only for the method and
// the principal that got it.
func (s *serviceLists) appendListPage(call *Call, m *codec.Message, cache *Cache, p pager, dst []byte) ([]byte, *mcp.Error) {
	key := call.peer.p.Key()
	aad := []byte("cursor\x00" + key.Tenant + "\x00" + key.Server + "\x00" + string(m.Method))
	after := ""
	if m.Cursor != nil {
		var err error
		switch after, err = s.rt.openSealed(decodeText(m.Cursor), aad); {
		case store.IsTransient(err):
			return nil, s.internalError(string(m.Method), fmt.Errorf("open cursor: %w", err))
		case err != nil:
			return nil, mcp.NewError(mcp.CodeInvalidParams, "invalid cursor")
		}
	}
	var err error
	if call.revision().Stateless() {
		if dst, err = s.srv.head.beginResult(dst, nil, cache); err != nil {
			return nil, s.internalError(string(m.Method), err)
		}
		dst = append(dst, ',')
	} else {
		dst = append(dst, '{')
	}
	out, _, last := p(dst, after, s.limits.PageSize)
	if last != "" {
		cursor, err := s.rt.sealText(last, aad)
		if err != nil {
			return nil, s.internalError(string(m.Method), fmt.Errorf("seal cursor: %w", err))
		}
		out = append(out, `,"nextCursor":`...)
		out = strconv.AppendQuote(out, cursor)
	}
	return append(out, '}'), nil
}

// listCache returns the Cache of the lists and of server/discover.
func (s *serviceLists) listCache() *Cache {
	c := s.srv.opts.ListCache
	if c.Scope == "" && !s.rt.knowsCallers && s.srv.opts.Visible == nil && s.srv.backends.hosted.Load() == nil { // what backends list depends on what clients declare
		c.Scope = mcp.CachePublic
	}
	return &c
}

// listDigests returns the digests of what v sees of the server's lists, and c of those of its backends. A session's record
// keeps those that were announced last, so that each change is announced once. Where another node has changed a list since, it is
// that node's digest: what v sees of it, nobody here can say.
func (s *serviceLists) listDigests(v *view, c *hosting.Caller) string {
	var all [len(announced)]string
	for list := range all {
		all[list] = s.srv.listDigest(list, v, c)
		switch other := s.remoteLists.newestDigest(list); {
		case other == "":
		case v == nil:
			all[list] = other
		default:
			all[list] += "+" + other
		}
	}
	return strings.Join(all[:], " ")
}

// changesFor returns a function that reports whether a list, named by the method of its
// notification, has changed for v, or for c in the lists of backends, since it last reported so. It returns nil where every change
// is one for both.
func (s *serviceLists) changesFor(v *view, c *hosting.Caller) func(method string) bool {
	if v == nil && c == nil && !s.rt.sharesStore {
		return nil
	}
	before := strings.Split(s.listDigests(v, c), " ")
	return func(method string) bool {
		now := strings.Split(s.listDigests(v, c), " ")
		for i := range announced {
			if announced[i] == method && now[i] != before[i] {
				before[i] = now[i]
				return true
			}
		}
		return false
	}
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

// noteLists notes what the lists of a mounted server are, which have not changed: only now it is known.
func (m *mountPoint) noteLists() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.s != nil {
		m.s.lists.remoteLists.noteOwnLists(m.s.srv)
	}
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

// adviseReplaced tells of an item that another one of the same name has replaced. While the server is mounted, that is how a
// program changes an item, and may do so often.
func (m *mountPoint) adviseReplaced(kind, name string) {
	attrs := []slog.Attr{slog.String("kind", kind), slog.String("name", protocol.Shown(name))}
	if here := m.mountedService(); here != nil {
		here.rt.hits.LogRarely(slog.LevelInfo, "an item of a server was replaced by another of the same name", append(attrs, slog.String("server", here.id))...)
		return
	}
	m.logAdvice(advice{"two items of a server have the same name: the later one has replaced the other", attrs})
}

// adviseName tells of a name that the specification advises against: some clients refuse it.
func (m *mountPoint) adviseName(tool string) {
	var odd []string
	seen := map[rune]bool{}
	for _, c := range tool {
		if strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.", c) || seen[c] {
			continue
		}
		seen[c] = true
		odd = append(odd, fmt.Sprintf("%q", c))
	}
	name := slog.String("name", protocol.Shown(tool))
	if odd != nil {
		m.logAdvice(advice{"the name of a tool has characters that some clients do not take: the specification advises A-Z, a-z, 0-9, _, - and .",
			[]slog.Attr{name, slog.String("characters", strings.Join(odd, " "))}})
	}
	if len(tool) > mostOfToolName {
		m.logAdvice(advice{"the name of a tool is longer than some clients take: the specification advises 128 characters at most",
			[]slog.Attr{name, slog.Int("characters", len(tool))}})
	}
}

// pager reads a list page by page: it appends a member with up to size items behind the one whose name is after. n is how many there are, and last the name of the
// last one if more follow.
type pager func(dst []byte, after string, size int) (out []byte, n int, last string)

func pagerOf[T offer](s *catalogue.Snapshot[T], v *view, r mcp.Revision, member string) pager {
	return func(dst []byte, after string, size int) ([]byte, int, string) {
		return s.AppendPage(dst, seenBy[T](v), r, member, after, size)
	}
}

// advice is a word of the log about what a program has registered: it works, but probably not as it was meant.
type advice struct {
	text  string
	attrs []slog.Attr
}

// mostAdvice is how much advice waits until the server is mounted.
const mostAdvice = 100

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

// nobody sees what is listed for a client of which nothing is known.
var nobody = &hosting.Caller{Caller: backend.Caller{Alone: true}, Revision: mcp.Latest}

// hostedLists are the lists of backends by those of notifications.
var hostedLists = [...][]listing.Of{listTools: {listing.Tools}, listPrompts: {listing.Prompts}, listResources: {listing.Resources, listing.Templates}}

// hostedView is what a caller with view v sees of backends; c is nil for nobody in particular.
func hostedView(v *view, c *hosting.Caller) *hosting.View {
	if c == nil {
		c = nobody
	}
	return &hosting.View{Caller: c, Sees: hostedSeenBy(v.forList())}
}

// hostedSeenBy returns what v sees of items of backends; nil sees all.
func hostedSeenBy(v *view) func(*hosting.Item) bool {
	if v == nil {
		return nil
	}
	return func(i *hosting.Item) bool { return v.seesItem(itemOf(i)) }
}

var hostedKinds = [...]ItemKind{listing.Tools: ItemTool, listing.Prompts: ItemPrompt, listing.Resources: ItemResource, listing.Templates: ItemResourceTemplate}

// itemOf is an item of a backend for ServerOptions.Visible.
func itemOf(i *hosting.Item) Item {
	return Item{Kind: hostedKinds[i.Of], Name: i.Name, Annotations: i.Annotations(), Meta: i.Meta()}
}

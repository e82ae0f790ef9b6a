package troupe

import (
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/internal/program"
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
	e.start = time.Now()
	for list := range e.own {
		e.own[list] = s.listDigest(list, nil)
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
	now := s.listDigest(list, nil)
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

// tellLists tells the other nodes which lists have changed here, and which of them everybody must be told of again.
func (s *service) tellLists(here, again which) {
	if here == (which{}) {
		return
	}
	var changed []actors.ListChange
	for list, name := range listNames {
		if here[list] {
			changed = append(changed, actors.ListChange{List: name, Digest: s.srv.listDigest(list, nil), Again: again[list]})
		}
	}
	s.rt.node.TellLists(s.svc, changed)
	s.rt.mu.Lock()
	defer s.rt.mu.Unlock()
	s.rt.publishServed()
}

// publishServed has the other nodes know what is served here. rt.mu is held.
func (rt *Runtime) publishServed() {
	if !rt.sharesStore() {
		return
	}
	all := make(map[string]program.Program, len(rt.services))
	for id, s := range rt.services {
		all[id] = program.Program{Name: s.srv.impl.Name, Tools: s.srv.listDigest(listTools, nil)}
	}
	rt.cluster.Serves(all)
}

package troupe

import (
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/mcp"
)

var announced = [...]string{mcp.NotifyToolsListChanged, mcp.NotifyPromptsListChanged, mcp.NotifyResourcesListChanged}

// announce tells a session which lists differ from what it was last told, if it
// listens here.
func (s *service) announce(p *actors.Peer) {
	now, told := s.srv.digests(s.viewOf(ownerOf(p))), p.Announced()
	if now == told {
		return
	}
	p.Announce(differing(now, told), now)
}

// Opened makes up for what a client may have missed while it did not listen:
// lists that changed, and one update of each resource it subscribed to.
func (s *service) Opened(p *actors.Peer, gap bool) {
	s.announce(p)
	if !gap {
		return
	}
	for _, uri := range p.Subscribed() {
		if s.mayHear(p, uri) {
			p.PushUpdate(uri)
		}
	}
}

// mayHear reports whether a session may hear of updates of a resource now, which may have
// been hidden since it subscribed, or lie below the one that it subscribed to.
func (s *service) mayHear(p *actors.Peer, uri string) bool {
	return s.follows(s.viewOf(ownerOf(p)), uri)
}

// Closed is part of the actors' handler; a session leaves nothing here.
func (s *service) Closed(*actors.Peer) {}

// mountPoint is a server's link to the runtime that mounted it.
type mountPoint struct {
	mu    sync.Mutex // guards the rest
	s     *service
	timer *time.Timer
	which [len(announced)]bool // lists that have changed since the timer was set
}

func (m *mountPoint) service() *service {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.s
}

// set ties the server to s; it reports whether it was free.
func (m *mountPoint) set(s *service) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.s != nil {
		return false
	}
	m.s = s
	return true
}

// clear cuts the link: changes are told nobody from then on.
func (m *mountPoint) clear() {
	m.mu.Lock()
	m.s = nil
	m.mu.Unlock()
}

// changed announces a change of a list, by its place in announced, after a moment in
// which further changes join it. Sessions are told what differs from what they were
// told last; listeners, of whom nothing is kept, of every change.
func (m *mountPoint) changed(list int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.s == nil {
		return
	}
	if m.which[list] = true; m.timer != nil {
		return
	}
	m.timer = time.AfterFunc(changeDelay, func() {
		m.mu.Lock()
		s, which := m.s, m.which
		m.timer, m.which = nil, [len(announced)]bool{}
		m.mu.Unlock()
		if s == nil {
			return
		}
		s.rt.node.Sessions(s.svc, s.announce)
		for i, changed := range which {
			if changed {
				s.rt.node.ListChanged(s.svc, announced[i])
			}
		}
	})
}

func (m *mountPoint) resourceUpdated(uri string) {
	if s := m.service(); s != nil {
		s.rt.node.ResourceUpdated(s.svc, uri, s.srv.opts.SubResources)
	}
}

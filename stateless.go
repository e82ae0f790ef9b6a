package troupe

import (
	"sync/atomic"

	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/mcp"
)

// discovery holds the results of server/discover by revision: each is the same for all
// requests, and encoded for the first.
type discovery [mcp.Latest + 1][16]atomic.Pointer[[]byte]

// serviceDiscovery answers server/discover.
type serviceDiscovery struct {
	*service
	discovered discovery
}

// appendDiscovery appends the result of server/discover for clients of the revision. It lists
// all versions, with sessions and without, newest first: a client takes the first one that
// it knows.
func (s *serviceDiscovery) appendDiscovery(dst []byte, r mcp.Revision) ([]byte, *mcp.Error) {
	declared := 0 // what of it may change
	for bit, has := range [...]*atomic.Bool{&s.srv.hasTasks, &s.srv.longTasks, &s.srv.hasSkills, &s.srv.hasPages} {
		if has.Load() {
			declared |= 1 << bit
		}
	}
	known := &s.discovered[min(r, mcp.Latest)][declared]
	if result := known.Load(); result != nil {
		return append(dst, *result...), nil
	}
	out, err := s.srv.head.appendResult(nil, nil, s.lists.listCache(), struct {
		SupportedVersions []string               `json:"supportedVersions"`
		Capabilities      mcp.ServerCapabilities `json:"capabilities"`
		Instructions      string                 `json:"instructions,omitempty"`
	}{s.speaks.newestFirst(), protocol.ServerCapabilitiesFor(s.shownCapabilities(), r), s.srv.opts.Instructions})
	if err != nil {
		return nil, s.internalError(mcp.MethodServerDiscover, err)
	}
	known.Store(&out)
	return append(dst, out...), nil
}

// shownCapabilities are those of the server. The tasks of anonymous clients are not listed: they would see those of all others.
func (s *serviceDiscovery) shownCapabilities() mcp.ServerCapabilities {
	c := s.srv.declaredCapabilities()
	if o := &s.rt.opts; c.Tasks != nil && (!o.hasAuth() || o.Auth != nil && o.Auth.AllowAnonymous) {
		c.Tasks.List = nil
	}
	return c
}

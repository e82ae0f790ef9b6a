package troupe

import (
	"slices"
	"sync/atomic"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/mcp"
)

// looksStateless reports whether a request that came without headers is meant to be
// stateless, even if its metadata are not complete: older revisions have neither its method
// nor such metadata. A server that speaks only revisions without sessions takes every request for
// one, but for initialize, whose refusal tells the client which revisions there are; and a server that
// speaks none of them takes none for one, as it would if there were none.
func (all spoken) looksStateless(m *codec.Message) bool {
	switch {
	case len(all.withoutSessions()) == 0:
		return false
	case len(all.withSessions()) == 0:
		return string(m.Method) != mcp.MethodInitialize
	}
	return m.ProtocolVersion != nil || string(m.Method) == mcp.MethodServerDiscover || codec.Optional(m.Meta, mcp.MetaClientCapabilities) != nil
}

// judgeMessage decides whether a message that came without headers is a stateless request, and refuses one that no
// revision allows.
func (all spoken) judgeMessage(m *codec.Message) (stateless bool, refused *mcp.Error) {
	switch {
	case m.Kind == codec.Batch && len(all.withSessions()) == 0:
		return false, refusal.OneMessage.MCP()
	case m.Kind != codec.Request || !all.looksStateless(m):
		return false, nil
	}
	return true, all.checkMeta(m)
}

// checkMeta checks the metadata of a stateless request that came without headers
// (2026-07-28, basic/index, _meta).
func (all spoken) checkMeta(m *codec.Message) *mcp.Error {
	q, err := mcp.ReadRequestMeta(m.Meta)
	if q.Version == nil || q.Revision.Stateless() && slices.Contains(all, q.Revision) {
		return err
	}
	return all.refuseVersion(string(q.Version), "")
}

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

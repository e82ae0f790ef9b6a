package troupe

import (
	"sync/atomic"

	"github.com/troupe-run/troupe/mcp"
)

// discovery are the results of server/discover by revision: each is the same for all
// requests, and encoded for the first.
type discovery [mcp.Latest + 1]atomic.Pointer[[]byte]

// discover appends the result of server/discover for clients of the revision. The
// versions are those of both eras, newest first: a client of either takes the first
// one that it knows.
func (s *service) discover(dst []byte, r mcp.Revision) ([]byte, *mcp.Error) {
	known := &s.discovery[min(r, mcp.Latest)]
	if result := known.Load(); result != nil {
		return append(dst, *result...), nil
	}
	out, err := s.srv.head.append(nil, nil, s.listCache(), struct {
		SupportedVersions []string               `json:"supportedVersions"`
		Capabilities      mcp.ServerCapabilities `json:"capabilities"`
		Instructions      string                 `json:"instructions,omitempty"`
	}{newestFirst(), s.srv.capabilities().For(r), s.srv.opts.Instructions})
	if err != nil {
		return nil, s.internal(mcp.MethodServerDiscover, err)
	}
	known.Store(&out)
	return append(dst, out...), nil
}

package troupe

import "github.com/troupe-run/troupe/mcp"

// discover appends the result of server/discover for clients of the revision. The
// versions are those of both eras, newest first: a client of either takes the first
// one that it knows.
func (s *service) discover(dst []byte, r mcp.Revision) ([]byte, *mcp.Error) {
	out, err := s.srv.head.append(dst, nil, s.listCache(), struct {
		SupportedVersions []string               `json:"supportedVersions"`
		Capabilities      mcp.ServerCapabilities `json:"capabilities"`
		Instructions      string                 `json:"instructions,omitempty"`
	}{served(), s.srv.capabilities().For(r), s.srv.opts.Instructions})
	if err != nil {
		return nil, s.internal(mcp.MethodServerDiscover, err)
	}
	return out, nil
}

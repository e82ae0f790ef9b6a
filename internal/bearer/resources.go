package bearer

import "github.com/troupe-run/troupe/auth"

// Resources are those of a server.
type Resources struct {
	// ID and Path are the names by which an API key may be for the server, and Name is for people.
	ID, Name string
	// Scopes are the least that its clients need, nil those of the configuration.
	Scopes []string
	// SSE and Messages are its paths of HTTP+SSE beside Path. HasSSE says that a session can begin there, and Messages is empty if none can be there.
	Path, SSE, Messages string
	HasSSE              bool
}

// resourcePair returns the resource of the server, and that of HTTP+SSE.
func (rs *Resources) resourcePair(a *auth.Authority) (own, older *auth.Resource) {
	return a.Resource(rs.Path, rs.Name, rs.Scopes, rs.ID, rs.Path), a.Resource(rs.SSE, rs.Name, rs.Scopes, rs.ID, rs.Path)
}

// resources are those of the paths that there are.
func (rs *Resources) resources(a *auth.Authority) []*auth.Resource {
	own, older := rs.resourcePair(a)
	if rs.Messages == "" {
		return []*auth.Resource{own}
	}
	return []*auth.Resource{own, older}
}

// metadataResources are the resources whose metadata is served: none if there is no issuer that a client could ask.
func (rs *Resources) metadataResources(own, older *auth.Resource) []*auth.Resource {
	switch {
	case own.Metadata() == nil:
		return nil
	case rs.HasSSE:
		return []*auth.Resource{own, older}
	}
	return []*auth.Resource{own}
}

// table has an authority, and the resources that are there as it describes them. It does not change.
type table struct {
	authority *auth.Authority
	before    *auth.Authority // that of the table before ReplaceAuthority, which is closed; nil if there was none
	servers   map[*Resources]struct{}
	paths     map[string]*auth.Resource // by the paths of requests
	documents map[string]*auth.Resource // by the paths of metadata
}

func newTable(a, before *auth.Authority, servers map[*Resources]struct{}) *table {
	t := &table{authority: a, before: before, servers: servers, paths: make(map[string]*auth.Resource), documents: make(map[string]*auth.Resource)}
	for rs := range servers {
		own, older := rs.resourcePair(a)
		t.paths[rs.Path] = own
		if rs.Messages != "" {
			t.paths[rs.Messages] = older
		}
		if rs.HasSSE {
			t.paths[rs.SSE] = older
		}
		for _, r := range rs.metadataResources(own, older) {
			t.documents[r.WellKnown()] = r
		}
		if _, taken := t.documents[ResourcePath]; len(servers) == 1 && !taken && own.Metadata() != nil {
			t.documents[ResourcePath] = own
		}
	}
	return t
}

// resourceAt returns the resource of a path of requests. One that is not mounted any more, or behind a pipe, is its own.
func (t *table) resourceAt(path string) *auth.Resource {
	if server := t.paths[path]; server != nil {
		return server
	}
	return t.authority.Resource(path, "", nil)
}

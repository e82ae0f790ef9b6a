package mcp

// DiscoverParams are the params of server/discover.
type DiscoverParams = RequestParams

// DiscoverResult answers server/discover (since 2026-07-28): which revisions requests may
// name, legacy ones included, and what the server can do. `_meta` has the server's name,
// see [Meta.WithServerInfo].
type DiscoverResult struct {
	ResultType        ResultType         `json:"resultType"`
	SupportedVersions []string           `json:"supportedVersions"`
	Capabilities      ServerCapabilities `json:"capabilities"`
	Instructions      string             `json:"instructions,omitempty"`
	TTL               int64              `json:"ttlMs"` // as in Cacheable
	CacheScope        CacheScope         `json:"cacheScope"`
	Meta              Meta               `json:"_meta,omitempty"`
}

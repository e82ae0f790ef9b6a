package mcp

// ResultType says what a result is (since 2026-07-28, which requires it). Empty means
// [ResultComplete], as in results of older revisions.
type ResultType string

// The result types of the protocol, and of the extensions that this package knows.
const (
	// ResultComplete is a result that answers its request.
	ResultComplete ResultType = "complete"
	// ResultInputRequired is an [InputRequiredResult].
	ResultInputRequired ResultType = "input_required"
	// ResultTask is a [CreatedTask], of the extension [ExtensionTasks].
	ResultTask ResultType = "task"
)

// CacheScope says who may share a cached result (since 2026-07-28).
type CacheScope string

// The scopes.
const (
	// CachePublic: anybody, also with another authorization or none.
	CachePublic CacheScope = "public"
	// CachePrivate: only requests with the same authorization.
	CachePrivate CacheScope = "private"
)

// Cacheable is the part of a result that says for how long and for whom it may be cached.
// 2026-07-28 requires both members of server/discover, the lists and resources/read;
// older revisions have neither.
type Cacheable struct {
	TTL        *int64     `json:"ttlMs,omitempty"` // milliseconds from arrival; 0 is stale at once
	CacheScope CacheScope `json:"cacheScope,omitempty"`
}

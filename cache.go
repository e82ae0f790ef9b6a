package troupe

import (
	"strconv"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// Cache says for how long, and by whom, an answer may be kept (2026-07-28,
// server/utilities/caching). Older clients are not told. The zero value lets nobody
// rely on an answer that may have changed: what a client was told of a list it may
// keep until it hears of a change, which only one that listens does.
type Cache struct {
	// TTL is how long the answer counts as fresh after it has come, in whole
	// milliseconds. 0 and less: it may be out of date at once.
	TTL time.Duration
	// Scope is who may share it. Empty is [mcp.CachePrivate] for what resources hold, since
	// their handlers know who asks. The lists and what server/discover says are the same for
	// all who may ask: for them it is mcp.CachePrivate with Options.Authenticate or
	// ServerOptions.Visible, and [mcp.CachePublic] without, which lets anybody share it who
	// comes by it.
	Scope mcp.CacheScope
}

// appendMembers appends the members of a result that say so.
func (c Cache) appendMembers(dst []byte) []byte {
	scope := mcp.CachePrivate
	if c.Scope == mcp.CachePublic { // what is no scope at all is not shared
		scope = mcp.CachePublic
	}
	dst = append(dst, `"ttlMs":`...)
	dst = strconv.AppendInt(dst, max(c.TTL.Milliseconds(), 0), 10)
	dst = append(dst, `,"cacheScope":"`...)
	dst = append(dst, scope...)
	return append(dst, '"')
}

// listCache is for the lists and for server/discover.
func (s *service) listCache() *Cache {
	c := s.srv.opts.ListCache
	if c.Scope == "" && s.rt.opts.Authenticate == nil && s.srv.opts.Visible == nil {
		c.Scope = mcp.CachePublic
	}
	return &c
}

// readCache is for the contents that a call has read. What it read with the help of
// its client is not to be kept: the answers are not part of what it was asked for.
func (s *service) readCache(call *Call, m *codec.Message) *Cache {
	if call.asked.Load() || m.Responses != nil || m.State != nil {
		return &Cache{}
	}
	if c := call.cache.Load(); c != nil {
		return c
	}
	return &s.srv.opts.ReadCache
}

// SetCache says how long the contents may be kept that this call reads, in the place
// of ServerOptions.ReadCache. Calls of other methods are not affected.
func (c *Call) SetCache(cache Cache) { c.cache.Store(&cache) }

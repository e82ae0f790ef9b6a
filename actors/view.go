package actors

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors/internal/record"
	"github.com/troupe-run/troupe/actors/internal/session"
	"github.com/troupe-run/troupe/mcp"
)

// A session's record is what all nodes share of it, and each node that serves the session caches it. Whoever changes the
// record tells the others. What repairs the loss of that is the age of what is cached:
//
//	known ──recordAge old, or a word that it has changed──▶ outdated ──read again──▶ known
//	                                                            └──gone──▶ the session ends here
//
// What a client's next request must find, wherever it goes, all nodes say that they know before the client hears of it.

const (
	// recordAge is for how long a session is served from what was read of its record.
	recordAge = 30 * time.Second
	// lookSpread is by how much the looks of sessions are spread that have calls or connections, but no requests.
	lookSpread = 10 * time.Second
	// lookPause is how long a look that failed, or that found no place, waits before the next.
	lookPause = 2 * time.Second
	// knownWait is how long a client waits at most until the other nodes know of a change of its session.
	knownWait = time.Second
	// mostReason bounds the reason of a cancel that other nodes are told.
	mostReason = 1 << 10
)

// KeepClient returns what a session keeps of its client's clientInfo and capabilities, in most bytes together. It
// reports false if name and version alone do not fit.
func KeepClient(p *mcp.InitializeParams, most int) (info, caps []byte, ok bool) {
	return session.Keep(p, most)
}

// DecodeSession reads a stored session for an operator. It reports false for a record that this release cannot read.
func DecodeSession(data []byte) (r session.Record, ok bool) {
	r, err := session.Decode(data)
	return r, err == nil && session.Newer(data) == 0
}

// DecodeStream reads a stored writer record for an operator. Of one of another release it has what this one knows.
func DecodeStream(data []byte) record.Stream {
	r, _ := record.Decode(data)
	return r
}

// view is a session record with its revision, as last read or written.
type view struct {
	rec session.Record
	rev uint64
}

// viewAge is how old what a node knows of a record is. The zero value is that of a session whose record is nobody else's.
type viewAge struct {
	shared  bool                       // other nodes may change the record; never changes
	asOf    atomic.Int64               // the view was right then, by clock.sinceStart
	behind  atomic.Uint64              // the record has had this revision
	reading atomic.Pointer[recordRead] // nil if nobody reads it
}

// recordRead is a read of a record under way, for all that wait for it.
type recordRead struct {
	done chan struct{}
	err  error
}

// doubted is asOf of a view that must be read again whatever its age.
const doubted = -1 << 62

// needsBroadcast reports whether a change of a record is of interest elsewhere. A confirmed digest is not: whoever begins the next
// standalone stream has the newest record then.
func needsBroadcast(was, now *session.Record) bool {
	return was.Level != now.Level || was.Standalone != now.Standalone || !slices.Equal(was.Subscribed, now.Subscribed) ||
		!maps.EqualFunc(was.Values, now.Values, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })
}

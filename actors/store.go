package actors

import (
	"context"
	"crypto/subtle"
	"errors"
	"time"

	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/store"
)

// Conn is the client's side of one HTTP request: the transport's exchange. Its methods
// never block, except Room.
type Conn interface {
	SetSession(id string)
	Answer(status int, body []byte) bool
	Accepted()
	Reject(no *refusal.Refusal)
	Open() bool
	Event(id string, retryMS int, data []byte)
	Comment()
	Flush()
	Finish()
	Cut()
	Room(ctx context.Context) error
	Gone(f func())
}

// heldBy returns who has a connection, nil for nobody that is known, and the first moment at which it may not be served any more, the zero time if there is none. The
// principal says so, if it has a method Until.
func heldBy(conn any) (holder any, until time.Time) {
	if c, ok := conn.(interface{ Holder() any }); ok {
		holder = c.Holder()
	}
	if h, ok := holder.(interface{ Until() time.Time }); ok {
		until = h.Until()
	}
	return holder, until
}

// momentPassed reports whether a moment of heldBy has come.
func momentPassed(until, now time.Time) bool { return !until.IsZero() && !now.Before(until) }

// Exchange is the Conn of a stateless request over HTTP. Its client cancels the request by
// closing the connection.
type Exchange interface {
	Conn
	// Context is done when the client is gone.
	Context() context.Context
	// WhenGone calls f once when Context would be done, and costs less. It takes one f at a
	// time; stop cancels that and reports whether f will not be called.
	WhenGone(f func()) (stop func() bool)
	// AnswerLast is Answer while the goroutine that read the request is still in use.
	AnswerLast(status int, body []byte) bool
}

// Unavailable is the error of a request that cannot be served now because the store does
// not answer, and that may be sent again. A Handler returns this very pointer. A stateless
// request then gets status 503. It must not be changed.
var Unavailable = refusal.Unavailable.MCP()

// SessionGone is the error of a request whose session ended meanwhile. A Handler returns this very pointer.
// A request of a session over HTTP then gets status 404. It must not be changed.
var SessionGone = refusal.SessionEnded.MCP()

// answerer takes the response or the refusal of a request.
type answerer interface {
	Answer(status int, body []byte) bool
	Reject(no *refusal.Refusal)
}

// replier takes the response to a request of a bound session.
type replier interface {
	answerer
	// skipResponse says that no response follows.
	skipResponse()
}

// errBadEvent stands for every event id that cannot be resumed from; the client learns no
// more than that.
var errBadEvent = errors.New("actors: bad event id")

// SessionKey names a session. Every look-up, subject and cache uses the whole key.
type SessionKey struct{ Tenant, Server, ID string }

func (k SessionKey) recordKey() string { return "session." + k.keyPath() }

func (k SessionKey) keyPath() string { return k.Tenant + "." + k.Server + "." + k.ID }

// tagLength is the number of characters that the tag of a session id has.
const tagLength = 13

// taggedID is the id of the session as its client gets it: with a tag, if the node has a key for
// tags. The tag shows without a look into the store that the id is no guess.
func (k SessionKey) taggedID(keys store.Keys) string {
	if keys == nil {
		return k.ID
	}
	tag := keys.Tag([]byte(k.recordKey()))
	if tag == nil {
		return k.ID
	}
	return k.ID + idEncoding.EncodeToString(tag)
}

// sessionKey is the key of the session that a client names by id, with a tag or without. ok is false
// for what cannot be an id.
func sessionKey(tenant, server, id string) (k SessionKey, ok bool) {
	k = SessionKey{Tenant: tenant, Server: server, ID: id[:min(len(id), stream.IDLength)]}
	return k, stream.ValidID(k.ID) && (len(id) == stream.IDLength || len(id) == stream.IDLength+tagLength)
}

// hasTag reports whether id is the key's with its tag, if the node makes tags. An id of an earlier
// release has none, and when the store has lost its keys, no tag is right: so a wrong tag proves nothing.
func (k SessionKey) hasTag(id string, keys store.Keys) bool {
	named := k.taggedID(keys)
	return named == k.ID || subtle.ConstantTimeCompare([]byte(id), []byte(named)) == 1
}

func unknownSession(c Conn, id []byte) {
	refusal.UnknownSession.Tell(c, id)
}

// StreamKey names a stream of a session.
type StreamKey struct {
	Session SessionKey
	ID      string
}

func (k StreamKey) streamPath() string { return k.Session.keyPath() + "." + k.ID }

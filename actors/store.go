package actors

import (
	"context"
	"crypto/subtle"
	"errors"
	"time"

	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/stream"
)

// The errors of a Store. Each says whether the write was done.
var (
	ErrNotFound    = errors.New("actors: not found")             // nothing is stored there
	ErrConflict    = errors.New("actors: changed meanwhile")     // not done: another revision is stored
	ErrFenced      = errors.New("actors: another writer has it") // not done, and never will be
	ErrAgain       = errors.New("actors: not done, try again")   // not done
	ErrFull        = errors.New("actors: store full")            // not done
	ErrUnavailable = errors.New("actors: store unavailable")     // unknown
)

// Store keeps the data that must survive a crash: records and the event log. Its methods
// are safe for concurrent use and return the errors above, wrapped.
type Store interface {
	// Get reads a record, which may be older than the last write by 20 s. ErrNotFound is certain, which may cost a write. Peek is for keys
	// that may be made up, on which none is spent.
	Get(ctx context.Context, key string) (data []byte, rev uint64, err error)
	Peek(ctx context.Context, key string) (data []byte, rev uint64, err error)
	Create(ctx context.Context, key string, data []byte, ttl time.Duration) (rev uint64, err error)
	Update(ctx context.Context, key string, data []byte, rev uint64, ttl time.Duration) (uint64, error)
	Delete(ctx context.Context, key string, rev uint64) error

	// OpenStream creates the writer record of a stream and, beside it, the body of a call
	// that may run again.
	OpenStream(ctx context.Context, stream string, rec, body []byte, ttl time.Duration) (rev uint64, err error)
	// Writer reads the writer record as Get does. Holds returns nil if it has revision rev for certain, which may cost a write, and ErrFenced if it
	// has not.
	Writer(ctx context.Context, stream string) (rec []byte, rev uint64, err error)
	Holds(ctx context.Context, stream string, rev uint64) error
	Body(ctx context.Context, stream string) ([]byte, error)
	// Rewrite rewrites the writer record if its revision is still rev. KeepBody then gives
	// the body the same lifetime; a nil body keeps the stored one.
	Rewrite(ctx context.Context, stream string, rec []byte, rev uint64, ttl time.Duration) (uint64, error)
	KeepBody(ctx context.Context, stream string, body []byte, rev uint64, ttl time.Duration) error
	// Append stores append num if the writer record still has revision rev. It calls done
	// once, from another goroutine, and does not keep data.
	Append(stream string, rev, num uint64, data []byte, done func(error))
	// Read calls f with the stored appends from..to in order; missing ones have been
	// evicted.
	Read(ctx context.Context, stream string, from, to uint64, f func(num uint64, data []byte)) error
	// Tail is the number of the last append, found forward from hint.
	Tail(ctx context.Context, stream string, hint uint64) (uint64, error)
	EndStream(ctx context.Context, stream string) error

	// Now is the clock by which the store counts lifetimes. It is a machine's clock and may
	// jump; it has no monotonic reading.
	Now() time.Time
	// Use returns how many bytes of a budget are in use, and its limit; both are 0 if
	// unknown.
	Use(b Budget) (used, limit int64)
	// Suspended reports whether this node's lease is uncertain now.
	Suspended() bool
	// Lapsed reports whether the lease has been over for as long as it lasts: by then others have what this node had, if they live.
	Lapsed() bool
	// MarkTaken notes for a time that a boot is gone, before the first of its streams is taken over.
	MarkTaken(ctx context.Context, boot string, ttl time.Duration) error
	// Taken reports whether some node has noted that of this one. False is certain, which may cost a write.
	Taken(ctx context.Context) (bool, error)
}

// Budget names a part of the store that has a limit of its own.
type Budget uint8

// The budgets.
const (
	SessionBudget Budget = iota
	EventBudget          // of the event log, with the records and bodies of calls
	TaskBudget           // of tasks, with their requests, steps and outcomes
	budgets
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

// past reports whether a moment of heldBy has come.
func past(until, now time.Time) bool { return !until.IsZero() && !now.Before(until) }

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

// Later reports whether err says that the store did not do the operation, or may not have
// done it, and that a retry may succeed.
func Later(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrAgain) || errors.Is(err, ErrFull)
}

// answerer takes the response or the refusal of a request.
type answerer interface {
	Answer(status int, body []byte) bool
	Reject(no *refusal.Refusal)
}

// replier takes the response to a request of a bound session.
type replier interface {
	answerer
	// over says that no response follows.
	over()
}

// Keys seal data that clients carry for a node. Any node can open it, and nobody else can
// read or change it. aad must be the same for both. ErrUnavailable, wrapped, reports that
// the keys cannot be read now, so that it is unknown whether sealed is good. Any other
// error of Open says that sealed is not good and never will be.
type Keys interface {
	Seal(plain, aad []byte) ([]byte, error)
	Open(sealed, aad []byte) ([]byte, error)

	// Tag returns a code of 8 bytes that only nodes of the store can make for data, nil if there
	// is none. It must not read the store.
	Tag(data []byte) []byte
}

// errBadEvent stands for every event id that cannot be resumed from; the client learns no
// more than that.
var errBadEvent = errors.New("actors: bad event id")

// SessionKey names a session. Every look-up, subject and cache uses the whole key.
type SessionKey struct{ Tenant, Server, ID string }

func (k SessionKey) record() string { return "session." + k.path() }

func (k SessionKey) path() string { return k.Tenant + "." + k.Server + "." + k.ID }

// tagLength is the number of characters that the tag of a session id has.
const tagLength = 13

// named is the id of the session as its client gets it: with a tag, if the node has a key for
// tags. The tag shows without a look into the store that the id is no guess.
func (k SessionKey) named(keys Keys) string {
	if keys == nil {
		return k.ID
	}
	tag := keys.Tag([]byte(k.record()))
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

// tagged reports whether id is the key's with its tag, if the node makes tags. An id of an earlier
// release has none, and when the store has lost its keys, no tag is right: so a wrong tag proves nothing.
func (k SessionKey) tagged(id string, keys Keys) bool {
	named := k.named(keys)
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

func (k StreamKey) path() string { return k.Session.path() + "." + k.ID }

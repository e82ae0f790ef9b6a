package actors

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base32"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	replaying "github.com/troupe-run/troupe/actors/internal/replay"
	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/actors/internal/takeover"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/store"
)

// site is what the owners and the actors of a node have in common. It knows none of them, and a
// node has one.
type site struct {
	k     *kernel.Kernel
	log   *slog.Logger
	name  string
	boot  string
	store store.Store
	keys  store.Keys // seal the data that clients carry
	clock clock
	base  context.Context // parent of the contexts of the node's own work

	accounts accounts
	refusals refusals
	cache    *replaying.Cache // of what this node has stored lately
	drain    draining
	fleet    fleet
}

// expireViews has sessions read their records again before they are served: others may have changed
// them.
func (n *site) expireViews() { n.fleet.lettersLost.Store(int64(n.clock.sinceStart())) }

// The kinds of actors of a node.
const (
	KindNode kernel.Kind = iota
	KindSession
	KindRequest
	KindStream
	KindSubscription
	KindTask     // of package worker
	KindQueue    // of package worker
	KindPool     // of package backend
	KindInstance // of package backend
)

// kinds are the names of the kinds in metrics and logs.
var kinds = []string{KindNode: "node", KindSession: "session", KindRequest: "request", KindStream: "stream", KindSubscription: "subscription", KindTask: "task", KindQueue: "queue", KindPool: "pool", KindInstance: "instance"}

// ErrClosing is the cause that ends handlers when the node stops.
var ErrClosing = errors.New("the node is shutting down")

// ErrCalledOff is the cause that ends handlers whose calls an operator has ended.
var ErrCalledOff = errors.New("an operator has ended the call")

// ErrRevoked is the cause that ends handlers whose principals may not come any more.
var ErrRevoked = errors.New("the access of the caller was revoked")

// pause waits for d, or until ctx is done.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// clock compares the store's clock, which is a machine's and may jump, with a monotonic
// one.
type clock struct {
	now         func() time.Time // the store's
	store, here time.Time        // both clocks when this was made
	seen        time.Duration    // aheadBy at the last look for a jump; belongs to the heart's turn
}

// aheadBy is how much further the store's clock has gone than the monotonic one.
func (c *clock) aheadBy() time.Duration { return c.now().Sub(c.store) - time.Since(c.here) }

// sinceStart is the time since the clock was made, whatever jumped meanwhile.
func (c *clock) sinceStart() time.Duration { return time.Since(c.here) }

// dueIn is the time d from now, by sinceStart.
func (c *clock) dueIn(d time.Duration) int64 { return int64(c.sinceStart() + d) }

// hasJumped reports whether the store's clock has jumped forward since the last call: what
// must be renewed in time may be about to expire. It belongs to the heart's turn.
func (c *clock) hasJumped() bool {
	before := c.seen
	c.seen = c.aheadBy()
	return c.seen-before > maxBack
}

func newClock(now func() time.Time) clock { return clock{now: now, store: now(), here: time.Now()} }

// maxBack is how far the store's clock may have gone back since the writer record was
// stored. It is less than the time that events outlive records (RecordTTL).
const maxBack = time.Second

// draining is the progress of a node's end.
type draining struct {
	alone       bool // no other process can go on with anything
	closing     atomic.Bool
	over        atomic.Bool  // the node takes nothing any more
	handingOver atomic.Bool  // the node hands over what it has
	sending     atomic.Bool  // new requests of stateless clients are sent to other nodes
	sparing     atomic.Bool  // the node takes no calls that only it can end
	handedOver  atomic.Int64 // requests in flight that were handed over: see requestActor.handedOver
}

// endsStore reports whether nothing will go on with what still runs: the node ends, and its store
// with it.
func (d *draining) endsStore() bool { return d.alone && d.over.Load() }

// awaitLease waits while the lease is uncertain. It reports whether the lease is certain
// again.
func (n *site) awaitLease(wait time.Duration) bool {
	for end := time.Now().Add(wait); n.store.Suspended(); {
		if time.Now().After(end) || n.drain.over.Load() {
			return false
		}
		time.Sleep(20 * time.Millisecond)
	}
	return true
}

// selfWriter is this boot as the writer in a record, without an epoch.
func (n *site) selfWriter() takeover.Writer { return takeover.Writer{Node: n.name, Boot: n.boot} }

var errInternal = errors.New("actors: internal error")

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

// heldBy returns who has a connection, nil for nobody that is known, and the first moment at which
// it may not be served any more, the zero time if there is none. The principal says so, if it has a
// method Until.
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

// SessionGone is the error of a request whose session ended meanwhile. A Handler returns this very
// pointer. A request of a session over HTTP then gets status 404. It must not be changed.
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

// errMayReturn says that the store does not have a stream's record, and that this node cannot tell
// whether somebody has the stream.
var errMayReturn = fmt.Errorf("actors: whoever has the stream may be about to store it again: %w", store.ErrUnavailable)

// SessionKey names a session. Every look-up, subject and cache uses the whole key.
type SessionKey struct{ Tenant, Server, ID string }

func (k SessionKey) recordKey() string { return "session." + k.keyPath() }
func (k SessionKey) keyPath() string   { return k.Tenant + "." + k.Server + "." + k.ID }

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

// hasTag reports whether id is the key's with its tag, if the node makes tags. An id of an earlier
// release has none, and when the store has lost its keys, no tag is right: so a wrong tag proves
// nothing.
func (k SessionKey) hasTag(id string, keys store.Keys) bool {
	named := k.taggedID(keys)
	return named == k.ID || subtle.ConstantTimeCompare([]byte(id), []byte(named)) == 1
}

// tagLength is the number of characters that the tag of a session id has.
const tagLength = 13

// sessionKey is the key of the session that a client names by id, with a tag or without. ok is
// false for what cannot be an id.
func sessionKey(tenant, server, id string) (k SessionKey, ok bool) {
	k = SessionKey{Tenant: tenant, Server: server, ID: id[:min(len(id), stream.IDLength)]}
	return k, stream.ValidID(k.ID) && (len(id) == stream.IDLength || len(id) == stream.IDLength+tagLength)
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

var idEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// newID returns an id of a session or stream: 16 random bytes.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return idEncoding.EncodeToString(b[:])
}

// sendInternalError sends the error for a request that a contained panic left without a response. A
// request of a session has status 200: see refuseInSession.
func sendInternalError(c answerer, id []byte, status int) {
	f := *refusal.Internal
	f.Status = status
	f.Tell(c, id)
}

// internalError is the response to the request id when a panic cut its own short.
func internalError(id []byte) []byte {
	return codec.AppendError(nil, id, refusal.Internal.Code, refusal.Internal.Text, nil)
}

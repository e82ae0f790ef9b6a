package actors

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/attachment"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/pulse"
	"github.com/troupe-run/troupe/internal/quota"
	replaying "github.com/troupe-run/troupe/internal/replay"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/subscription"
)

// Config is the configuration of a node.
type Config struct {
	Name   string // of the node, [a-z0-9-]
	Boot   string // nonce of this start, [a-z0-9]
	Store  store.Store
	Limits NodeLimits
	Keys   store.Keys    // seal the data that clients carry
	Mail   store.Mail    // to the other nodes of the store; nil: there are none
	Lease  time.Duration // after which they take this node for gone, at the earliest; 0 means 5 s
	News   News          // gets what other nodes tell; nil drops it
	Log    *slog.Logger  // nil discards
	Hits   *limits.Log   // gets the limits that are hit; nil logs nothing
	Alone  bool          // the store ends with the process: nothing that runs here goes on in another one
	// Replayed gets how long a client waited until it was sent all that was stored of a stream, and one of the Writer constants; nil
	// drops it. It must not block.
	Replayed func(writer string, took time.Duration)
}

// Node serves sessions in one process. Make one with NewNode; its methods are safe for
// concurrent use.
type Node struct {
	k     *kernel.Kernel
	heart heart
	log   *slog.Logger
	name  string
	boot  string
	store store.Store
	clock clock

	base    context.Context // parent of the contexts of the node's own work
	stopAll context.CancelCauseFunc

	sessions       sessions
	streams        streams
	pending        pendingRequests
	attachments    attachment.Set[StreamKey]
	bound          boundSessions
	statelessCalls statelessCalls
	listeners      listeners
	talking        liveStreams
	mrtr           parkedCalls
	accounts       accounts
	fleet          fleet
	relays         relays
	refusals       refusals
	calls          requestPool
	subs           *subscription.Table
	drain          draining

	cache *replaying.Cache // of what this node has stored lately

	lostPings atomic.Int64
	appends   atomic.Int64
	resumes   atomic.Int64
	listened  atomic.Uint64 // standalone streams begun
	takeover  atomic.Int64
	takings   atomic.Int64 // nanoseconds that takeovers took
	attaches  atomic.Int64 // clients that came here for streams that other nodes write
	replaying atomic.Int64 // clients that wait for what is stored
	replayed  func(writer string, took time.Duration)
	timer     *time.Timer
}

// The kinds of actors of a node.
const (
	KindNode kernel.Kind = iota
	KindSession
	KindRequest
	KindStream
	KindSubscription
	KindTask  // of package worker
	KindQueue // of package worker
)

// kinds are the names of the kinds in metrics and logs.
var kinds = []string{KindNode: "node", KindSession: "session", KindRequest: "request", KindStream: "stream", KindSubscription: "subscription", KindTask: "task", KindQueue: "queue"}

// ErrClosing is the cause that ends handlers when the node stops.
var ErrClosing = errors.New("the node is shutting down")

// ErrRevoked is the cause that ends handlers whose principals may not come any more.
var ErrRevoked = errors.New("the access of the caller was revoked")

// NewNode starts a node. Close ends it.
func NewNode(c Config) *Node {
	if c.Replayed == nil {
		c.Replayed = func(string, time.Duration) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if c.Hits == nil {
		c.Hits = limits.NewLog(slog.New(slog.DiscardHandler))
	}
	n := &Node{k: kernel.New(kernel.Config{Log: c.Log, Kinds: kinds}), log: c.Log, name: c.Name, boot: c.Boot, store: c.Store, clock: newClock(c.Store.Now), replayed: c.Replayed}
	n.sessions = sessions{kernel.NewDirectory[SessionKey, *sessionActor](), n, make(chan struct{}, maxLookups(c.Limits.Defaults().Calls)), make(chan struct{}, limits.GuessReads.Value())}
	n.streams = streams{kernel.NewDirectory[StreamKey, *streamActor](), n}
	n.base, n.stopAll = context.WithCancelCause(context.Background())
	n.bound = boundSessions{kernel.NewDirectory[SessionKey, *boundConn](), n}
	n.talking.all = make(map[*liveStream]struct{})
	n.listeners = listeners{kernel.NewDirectory[SessionKey, *listenActor](), n}
	n.mrtr = parkedCalls{Directory: kernel.NewDirectory[string, *requestActor](), keys: c.Keys}
	n.pending.node, n.drain.node, n.calls.node, n.mrtr.node = n, n, n, n
	n.drain.alone = c.Alone
	n.fleet.forwardedMessages.life = repeatedFor
	n.fleet.node, n.fleet.mail, n.fleet.news, n.fleet.looking = n, c.Mail, c.News, make(chan struct{}, maxLooks)
	n.fleet.sureFor = cmp.Or(c.Lease, limits.Lease.Value()) * 4 / 5 // it is renewed each fifth
	n.fleet.marks = marks{make(chan struct{}, 1), make(map[string]time.Time)}
	n.relays.initRelays(n)
	n.pending.open = make(map[string]*pendingRequest)
	n.subs = subscription.NewTable(n.k, KindSubscription)
	n.refusals = refusals{c.Hits}
	n.accounts = newAccounts(c.Limits, n.refusals, c.Store)
	n.cache = replaying.NewCache(replayCache(c.Limits.Bytes))
	n.heart.node = n
	n.k.Start(&n.heart.Actor, KindNode, "heart", &n.heart)
	n.timer = time.AfterFunc(time.Hour, func() { _ = n.heart.Post(tick{}) })
	n.timer.Reset(time.Second) // after the assignment, since the tick uses the field
	if n.fleet.mail != nil {
		n.fleet.pulse = pulse.New(n.fleet.expireViews)
		n.fleet.mail.Listen(n.fleet.receiveLetter, n.fleet.onLettersMissed)
	}
	return n
}

// Kernel is the node's actor system.
func (n *Node) Kernel() *kernel.Kernel { return n.k }

// Accounts has what the node's clients have in use.
func (n *Node) Accounts() *quota.Accounts { return n.accounts.Accounts }

// StoredMost is how many bytes of a budget the principal has stored lately that has stored most. It looks
// at all principals.
func (n *Node) StoredMost(b store.Budget) int64 {
	return n.accounts.Most(func(a *quota.Account) int64 { return storedFor(a, b) })
}

// Stats are counts of what a node does, for metrics.
type Stats struct {
	InFlight, Streams, Sessions, Connections, Pending, Parked, Accounts int
	Appends, Resumes, Takeovers, Overflowed, LostPings                  int64
	TakeoverTime                                                        time.Duration
	Attaches                                                            int64 // clients that came here for streams that other nodes write
	Readings                                                            int   // those that read at the moment
	Replaying                                                           int64 // clients that do not have yet what is stored of their streams
	Forwarded, Broken                                                   int64 // requests that were forwarded to other nodes, and exchanges with them that were given up
	Recent, Pacing                                                      int64 // bytes appended lately, and appends that wait for their turn
	Cached, Cache                                                       int64 // appends that were replayed from memory, and bytes that are kept for that
}

// Stats returns the node's counts.
func (n *Node) Stats() Stats {
	kept, cached := n.cache.Use()
	return Stats{InFlight: int(n.accounts.InFlight()), Streams: n.streams.Len(), Sessions: n.sessions.Len() + n.bound.Len(), Connections: n.attachments.Len() + n.bound.Len() + n.talking.len(),
		Pending: n.pending.len(), Parked: int(n.mrtr.waiting.Load()), Accounts: n.accounts.Len(), Appends: n.appends.Load(), Resumes: n.resumes.Load(),
		Takeovers: n.takeover.Load(), Overflowed: n.accounts.Overflowed(), LostPings: n.lostPings.Load(),
		TakeoverTime: time.Duration(n.takings.Load()), Attaches: n.attaches.Load(), Readings: n.fleet.readings.len(), Replaying: n.replaying.Load(),
		Forwarded: n.relays.forwarded.Load(), Broken: n.relays.broken.Load(),
		Recent: n.accounts.pace.Taken(time.Now()), Pacing: int64(n.accounts.pace.Waiting()), Cached: cached, Cache: kept}
}

var idEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// newID returns an id of a session or stream: 16 random bytes.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return idEncoding.EncodeToString(b[:])
}

// awaitLease waits while the lease is uncertain. It reports whether the lease is certain
// again.
func (n *Node) awaitLease(wait time.Duration) bool {
	for end := time.Now().Add(wait); n.store.Suspended(); {
		if time.Now().After(end) || n.drain.over.Load() {
			return false
		}
		time.Sleep(20 * time.Millisecond)
	}
	return true
}

// maxToken bounds a request's id and its progress token, in bytes as they were sent: all
// requests of a batch must fit one record.
var maxToken = limits.Token.Value()

func tooLong(m *codec.Message) bool { return len(m.ID) > maxToken || len(m.ProgressToken) > maxToken }

// ResourceUpdated sends an update to every session, on any node, that subscribed to the
// resource or, with below, to a resource above it.
func (n *Node) ResourceUpdated(svc *Service, uri string, below bool) {
	n.subs.Updated(svc.ID, uri, below)
	n.fleet.broadcastUpdate(svc.ID, uri, below)
}

// draining is the progress of a node's end.
type draining struct {
	node        *Node
	alone       bool // no other process can go on with anything
	closing     atomic.Bool
	over        atomic.Bool  // the node takes nothing any more
	handingOver atomic.Bool  // the node hands over what it has
	sending     atomic.Bool  // new requests of stateless clients are sent to other nodes
	sparing     atomic.Bool  // the node takes no calls that only it can end
	handedOver  atomic.Int64 // requests in flight that were handed over: see requestActor.handedOver
}

// endsStore reports whether nothing will go on with what still runs: the node ends, and its store with it.
func (d *draining) endsStore() bool { return d.alone && d.over.Load() }

// refusesRequest reports whether the end of the node refuses a request. stored is the size of the message if
// another process would need it to run the request again.
func (d *draining) refusesRequest(svc *Service, principal any, m *codec.Message, stored int) bool {
	return d.over.Load() || d.sparing.Load() && (d.alone || !svc.mayRerun(m, stored)) && (svc.Known == nil || svc.Known(principal, m.Method, m.Name))
}

// redirectsRequest reports whether a request of a stateless client is one for another node, as this one is about to end. A request that brings answers
// goes on where its call is. The client of a connection that carries others has no other node.
func (d *draining) redirectsRequest(a *statelessRequest) bool {
	return d.sending.Load() && a.sess == nil && !(a.m.State != nil && Asks(a.m.Method))
}

// clock compares the store's clock, which is a machine's and may jump, with a monotonic
// one.
type clock struct {
	now         func() time.Time // the store's
	store, here time.Time        // both clocks when this was made
	seen        time.Duration    // aheadBy at the last look for a jump; belongs to the heart's turn
}

func newClock(now func() time.Time) clock { return clock{now: now, store: now(), here: time.Now()} }

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

// maxBack is how far the store's clock may have gone back since the writer record was
// stored. It is less than the time that events outlive records (RecordTTL).
const maxBack = time.Second

// TaskAccounts charges clients of a node for what their tasks store. Make it with TasksOf.
type TaskAccounts struct{ a *accounts }

// TasksOf returns the accounts of a node as far as tasks go.
func TasksOf(n *Node) TaskAccounts { return TaskAccounts{&n.accounts} }

// TaskCharge is what a task of a client stores, and for how long from when it was made.
type TaskCharge struct {
	Tenant, Address string
	Bytes           int
	Made            time.Time
	Kept            time.Duration
}

func (t TaskAccounts) chargeOf(c TaskCharge) storeCharge {
	return storeCharge{of: t.a.Of(c.Tenant, c.Address), in: store.TaskBudget, bytes: int64(c.Bytes), life: c.Kept}
}

// Charge charges a client for what a task of it is about to store. It returns the limit that leaves no room, and charges nothing then; with
// must it charges it all the same. The caller calls Settle.
func (t TaskAccounts) Charge(of TaskCharge, must bool) (no *limits.Row) {
	c := t.chargeOf(of)
	if !must {
		return t.a.chargeStore(c)
	}
	t.a.storing[c.in].Add(c.bytes)
	c.addBytes(c.bytes)
	return nil
}

// Settle says that what was charged is stored, or that it certainly is not, which gives it back.
func (t TaskAccounts) Settle(of TaskCharge, stored bool) {
	var err error
	if !stored {
		err = store.ErrRetry
	}
	t.a.settleCharge(t.chargeOf(of), err)
}

// Return gives back the charge for what is stored no more.
func (t TaskAccounts) Return(of TaskCharge) {
	t.a.Of(of.Tenant, of.Address).Lasting.TakeBack(time.Now(), of.Made, int64(of.Bytes), of.Kept)
}

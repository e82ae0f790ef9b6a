package actors

import (
	"cmp"
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors/internal/session"
	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/mcp"
)

// Handler is a mounted server as the actors see it. The actors decide who runs it and where
// its response goes; the Handler decides what the response is. Its methods may be called
// from any goroutine.
type Handler interface {
	// Initialize settles a session: it returns the revision to speak, and the result.
	Initialize(ctx context.Context, params []byte) (Settled, []byte, *mcp.Error)
	// Serve appends the result of c to dst. It runs on the goroutine that read
	// the request; ctx ends when the client cancels or the node gives up.
	Serve(ctx context.Context, c *Call, dst []byte) ([]byte, *mcp.Error)
	// Notified gets a client's notification; params are valid only until it returns.
	Notified(p *Peer, method string, params []byte)
	// Safe reports whether a call may be run again after its node was lost.
	Safe(method, name []byte) bool
	// Listening decides which part of a listener's filter is honoured (2026-07-28). c
	// cannot send.
	Listening(ctx context.Context, c *Call) (Listening, *mcp.Error)
	// MayAsk reports whether a call may ask its client for input.
	MayAsk(method, name []byte) bool
	// Opened is called when a client has begun to listen to its standalone stream; gap
	// means that the client may have missed notifications before.
	Opened(p *Peer, gap bool)
}

// hasFeature reports whether a revision, by its date, has a feature.
func hasFeature(revision string, f protocol.Feature) bool {
	r, _ := mcp.ParseRevision(revision)
	return protocol.Has(r, f)
}

// Settled is what initialize settles for a session.
type Settled struct {
	Revision     string
	Client       []byte // what is kept of clientInfo, raw
	Capabilities []byte // what is kept of them, raw
	Announced    string // digest of the catalogues as the client will see them
}

// Service is one mounted server as the actors see it. Make it with NewService; its fields
// must not change after the first request.
type Service struct {
	ID      string
	Handler Handler
	Limits  Limits
	// ResultMeta is the raw `_meta` of the results that the actors make, since 2026-07-28;
	// nil for none.
	ResultMeta []byte
	// Began, if not nil, is called when initialize has begun a session, before the client
	// has its response. Ended, if not nil, is called once on a goroutine of its own when a
	// session that has begun is gone for good, as far as this node learns of it, and not
	// before Began has returned.
	Began func(ctx context.Context, p *Peer)
	Ended func(p *Peer, how Ending)
	// Hears reports whether a session may learn of an update of a resource; it is asked for
	// each update. Other actors call it in their turns, several at once: it must be quick
	// and not panic. If nil, the session learns of all resources that it has subscribed to,
	// and of those below.
	Hears func(p *Peer, uri string) bool
	// Withholds reports whether a message of a session's standalone stream is not for holder, who has the stream's connection: it is an update of the resource at uri,
	// which needs a scope that holder lacks. It must be quick and not panic. If nil, nothing is withheld.
	Withholds func(holder any, message []byte) (uri string, withheld bool)
	// Insists reports whether the program itself says that a call may run again. Only then a
	// message of more than limits.RerunBody is stored for that. If nil, it is not.
	Insists func(method, name []byte) bool
	// Lacks returns why a principal may not have what needs some scopes, nil if it may. If nil, every principal may have everything. It is called only
	// with scopes.
	Lacks func(principal any, needs []string) *refusal.Refusal
	// AnswersPing says that the handler answers ping in bound sessions, too, where it is a
	// request like any other then. If not, the node answers it at once. Before initialize it
	// always does.
	AnswersPing bool
	// Known reports whether what a call is of exists for its caller. A drain does not refuse
	// other calls: they fail at once, and a refusal does not reveal a hidden item. If
	// nil, everything is known.
	Known func(principal any, method, name []byte) bool
	// Carried returns the principal of a message that another node has taken, from the form that it has on the way, and the
	// Input.Principal; see the type Carried. If nil, the principal is that form, and Peer.Owner stays as it is.
	Carried func(form []byte) (principal, owner any)
	life    lifetime
}

// Ending is how a session ended.
type Ending uint8

// The ways in which sessions end.
const (
	Deleted      Ending = iota // by its client
	Expired                    // by its own clock
	Disconnected               // with its connection: a bound session
)

// A beginning is how far the begin of a session has come. The session may end at any time:
// Ended is called after Began has returned, and only if Began was called. The zero value is a
// session that has not begun.
type beginning struct {
	at  atomic.Uint32
	how Ending // of endedEarly
}

const (
	notBegun   uint32 = iota
	begins            // Began runs
	hasBegun          // Began has returned, perhaps in another process
	endedFirst        // the session has ended before Began was called, which it is not any more
	endedEarly        // the session has ended while Began runs
)

// markBegun says that Began has run before, when the session was not in memory.
func (b *beginning) markBegun() { b.at.Store(hasBegun) }

// startBegan reports whether Began is to be called: the session has not ended before.
func (b *beginning) startBegan() bool { return b.at.CompareAndSwap(notBegun, begins) }

// beganReturned says that Began has returned. It reports whether the session has ended meanwhile, and
// how, so that Ended is to be called.
func (b *beginning) beganReturned() (how Ending, ended bool) {
	if b.at.CompareAndSwap(begins, hasBegun) {
		return 0, false
	}
	return b.how, true
}

// noteEnd says that the session has ended. It reports whether Ended is to be called now; if not,
// beganReturned reports it, or Began is not called. Only the first end of a session may be reported.
func (b *beginning) noteEnd(how Ending) (now bool) {
	b.how = how
	return !b.at.CompareAndSwap(notBegun, endedFirst) && !b.at.CompareAndSwap(begins, endedEarly)
}

// NewService returns a service that may be served until Node.Unmount. Zero limits take
// their defaults.
func NewService(id string, h Handler, l Limits) *Service {
	return &Service{ID: id, Handler: h, Limits: l.Defaults(), life: lifetime{done: make(chan struct{})}}
}

// Input is one HTTP request as the actors see it.
type Input struct {
	Tenant      string         // of the authenticated principal
	Address     string         // of the client if the tenant is anonymous; otherwise ""
	Account     *quota.Account // of both; nil if it is not known yet
	Session     string         // Mcp-Session-Id, or the id that Connect gave; "" if absent
	Version     string         // MCP-Protocol-Version, "" if absent
	LastEventID string
	Trace       Trace
	Conn        Conn
	Needs       *[]string // scopes that the request needs, and its caller has; never changed
	Principal   any       // the new value of Peer.Owner; nil keeps the old one

	// Stateless says that the request has no session (2026-07-28): Session and LastEventID
	// mean nothing. Over HTTP, Exchange is set and is the same value as Conn.
	Stateless bool
	Exchange  Exchange

	// Patient says that the client of a bound session waits at the limit of its requests in
	// flight: a request is refused only after Limits.StoreWait.
	Patient bool
}

// neededScopes are what Needs points to, nil without.
func (in *Input) neededScopes() []string {
	if in.Needs == nil {
		return nil
	}
	return *in.Needs
}

// scopeRefusal is Lacks, for scopes of a record.
func (svc *Service) scopeRefusal(principal any, needs []string) *refusal.Refusal {
	if len(needs) == 0 || svc.Lacks == nil {
		return nil
	}
	return svc.Lacks(principal, needs)
}

// Trace is the W3C trace context of a request, "" where absent.
type Trace struct{ Parent, State string }

// Lifetime is how long a session lives.
type Lifetime = session.Lifetime

// StreamLimits bound what the log keeps of a stream.
type StreamLimits = stream.Limits

// Limits bound what one service takes on. A field with the name of an option has its value: package
// limits takes it along. Zero fields get their values from Defaults, negative ones are no limit where
// docs/limits.md allows that.
type Limits struct {
	Grace          time.Duration `option:"Limits.Grace"`          // time until the response becomes a stream
	StatelessGrace time.Duration `option:"Limits.StatelessGrace"` // Grace of stateless requests, whose status waits for the handler
	MaxCall        time.Duration `option:"Limits.MaxCall"`        // time that a call may run
	PingEvery      time.Duration `option:"Limits.PingEvery"`      // interval of pings to clients; 0 for none
	MaxAsk         time.Duration `option:"Limits.MaxAsk"`         // time that a client may take to answer
	Retry          time.Duration `option:"Limits.Retry"`          // time that clients wait before they reconnect to a call; twice that for a standalone stream
	Session        Lifetime
	ReplayAge      time.Duration `option:"Store.ReplayAge"` // age up to which events can be replayed
	Stream         StreamLimits
	Queue          int     `option:"Limits.MaxQueued"`               // bytes per stream that may wait for the log
	Depth          int     `option:"Limits.MaxDepth"`                // depth of JSON in requests
	PerSession     int     `option:"Limits.CallsPerSession"`         // calls in flight per session
	Rate           float64 `option:"Limits.CallRate"`                // calls per second and session
	Burst          int     `option:"Limits.CallBurst"`               // calls at once after an idle time
	LogRate        float64 `option:"Limits.LogRate"`                 // log messages per second and session, twice as many at once
	Streams        int     `option:"Limits.StreamsPerSession"`       // streams with a connection per session
	Pending        int     `option:"Limits.PendingPerSession"`       // questions per session that wait for the client
	Subscriptions  int     `option:"Limits.SubscriptionsPerSession"` // resources that a session may subscribe to

	SessionDrop time.Duration // time until an unused session leaves memory
	KeepAlive   time.Duration // silence after which a stream gets a comment
	StoreWait   time.Duration // time that a POST waits for the store
	ResumeWait  time.Duration // time that a resume is held open
}

// Defaults fills the zero fields of l, but for Session.Fresh, which may be none.
func (l Limits) Defaults() Limits {
	fresh := l.Session.Fresh
	limits.Default(&l)
	l.Session.Fresh = fresh
	l.SessionDrop, l.KeepAlive = cmp.Or(l.SessionDrop, time.Minute), cmp.Or(l.KeepAlive, 15*time.Second)
	l.StoreWait, l.ResumeWait = cmp.Or(l.StoreWait, 5*time.Second), cmp.Or(l.ResumeWait, time.Minute)
	l.Burst = quota.Burst(l.Rate, l.Burst)
	return l
}

// mostMemory is the most that appends from..to take in memory, of a log that holds about all bytes; 0 means unknown.
func (l *Limits) mostMemory(from, to uint64, all int) int {
	n, kept, part := int(to-from)+1, cmp.Or(l.Stream.Bytes, int(limits.ReplayBytes.Value())), cmp.Or(l.Stream.Part, 256<<10)
	return min(n*part, cmp.Or(all, kept+part)) + n*appendBytes
}

// NodeLimits bound what a node takes on for all its services together. Fields are as those of
// [Limits]; negative ones are no limit.
type NodeLimits struct {
	Calls     int   `option:"Shared.CallsPerNode"` // requests in flight
	Bytes     int64 // held in memory for clients; 0 means no limit
	Principal PrincipalLimits
	Accounts  int // principals with an account of their own
	Weights   quota.Weights

	AuthFailures float64 // access tokens that are looked at in vain, per second, of an address; 0 and less count none
}

// PrincipalLimits bound one principal, or one address of anonymous clients, per node.
type PrincipalLimits struct {
	Rate     float64 `option:"Shared.PrincipalRate"`        // calls per second
	Burst    int     `option:"Shared.PrincipalBurst"`       // calls at once after an idle time
	Calls    int     `option:"Shared.CallsPerPrincipal"`    // requests in flight
	Streams  int     `option:"Shared.StreamsPerPrincipal"`  // event streams with a connection
	Pending  int     `option:"Shared.PendingPerPrincipal"`  // questions that wait for the client
	Sessions int     `option:"Shared.SessionsPerPrincipal"` // new sessions at once, and within an hour
}

// Defaults fills the zero fields of l.
func (l NodeLimits) Defaults() NodeLimits {
	limits.Default(&l)
	l.Accounts, l.Bytes = cmp.Or(l.Accounts, limits.Accounts.Value()), cmp.Or(l.Bytes, -1)
	l.Principal.Burst = quota.Burst(l.Principal.Rate, l.Principal.Burst)
	return l
}

// maxRerunBody is the largest message that is stored so that its calls may run again though
// nobody insists on it.
var maxRerunBody = limits.RerunBody.Value()

// mayRerun reports whether another process can run a call again. size is that of the message,
// or batch, that it came in and that is stored for that.
func (svc *Service) mayRerun(m *codec.Message, size int) bool {
	return svc.Handler.Safe(m.Method, m.Name) && svc.storesMessage(m, size)
}

// storesMessage reports whether a message is stored for the sake of a call that may run again.
func (svc *Service) storesMessage(m *codec.Message, size int) bool {
	return size <= maxRerunBody || svc.Insists != nil && svc.Insists(m.Method, m.Name)
}

// ErrUnmounted is the cause that ends handlers when their service is unmounted. Afterwards
// it is the error of the service's sessions.
var ErrUnmounted = errors.New("the server has been unmounted")

// lifetime is how long a service is mounted on this node.
type lifetime struct {
	over atomic.Bool
	done chan struct{} // closed when over is set
}

// endedError is the error that says why a session of the service ended.
func (svc *Service) endedError() error {
	if svc.life.over.Load() {
		return ErrUnmounted
	}
	return ErrSessionEnded
}

// recordTTL is the lifetime of a writer record. It is rewritten every quarter of that, so
// that never less than ReplayAge remains.
func (svc *Service) recordTTL() time.Duration { return RecordTTL(svc.Limits.ReplayAge) }

// callLifetime is for how long a process may have something to say of a call: it runs, and then its record lives.
func (svc *Service) callLifetime() time.Duration { return svc.Limits.MaxCall + svc.recordTTL() }

// retryTime is how long a client has to send a request again.
func (svc *Service) retryTime() time.Duration { return min(svc.Limits.MaxAsk, maxStateAge) }

// unmountSession ends a session's calls like the end of a drain, and removes the session
// from memory; its record stays.
type unmountSession struct{}

// ErrTooManyPending reports that as many calls as may be wait for the client. The question
// was not asked.
var ErrTooManyPending = errors.New("too many calls wait for the client")

// Question is a request to the client.
type Question struct {
	Key    string // names the question within its call, so that a re-run finds its answer
	Method string
	Params []byte
	// Keep, if not nil, says that all calls of the session share this question. Its answer
	// is kept if Keep returns true for it, until Peer.Forget. If nil, each call asks for
	// itself.
	Keep func(result []byte) bool
	// Valid reports whether raw, any JSON, answers the question; nil accepts everything. It
	// is used for answers that come with a request that is sent again.
	Valid func(raw []byte) bool
	// Part says that the request is a part of a question that has a place of its own: see
	// Call.Place. It counts toward no limit.
	Part bool
	// Passing says that a second run has no use for the answer, which is not stored.
	Passing bool
	// Late, if not nil, gets an answer that comes within lateWait after Ask has failed. The
	// client is not told then that the question needs no answer.
	Late func(Answer)
}

// Answer is the client's answer: either Result or Err is set. Both are copies.
type Answer struct {
	Result []byte
	Err    *mcp.Error
}

// Listening is the part of a listener's filter that the server honours.
type Listening struct {
	Tools, Prompts, Resources bool     // changes of the lists
	URIs                      []string // resources whose updates the listener gets, which owns the slice
	Accepted                  []byte   // the acknowledged filter, raw
	// Changed reports whether a list has changed for this listener since the last call;
	// method is that of the list's notification. It is called in the listener's turn. If
	// nil, every change counts.
	Changed func(method string) bool
	// Hears reports whether the listener may learn of an update of a resource; it is asked
	// for each update. Other actors call it in their turns, several at once: it must be
	// quick and not panic. If nil, the listener learns of URIs and of resources below them.
	Hears func(uri string) bool
	// Uncovered returns why nothing of the filter is for the client any more, one of TokenRevoked and TokenInsufficient, and "" if something is. It is called in the listener's
	// turn, like Hears, when that may have changed. If nil, there is always something.
	Uncovered func() (reason string)
	// Others begins to send what else the client asked for, with send, which does not wait, until ctx ends. If nil, there is nothing else.
	// again is called when some of it was lost on the way.
	Others func(ctx context.Context, send func(method string, params []byte)) (again func())
}

// memorySize is what a listener with this filter holds in memory.
func (l *Listening) memorySize() int64 {
	n := int64(listenerBytes + len(l.Accepted))
	for _, uri := range l.URIs {
		n += uriBytes + int64(len(uri))
	}
	return n
}

// wantsMethod reports whether the client has asked for the notification.
func (l *Listening) wantsMethod(method string) bool {
	switch method {
	case mcp.NotifyToolsListChanged:
		return l.Tools
	case mcp.NotifyPromptsListChanged:
		return l.Prompts
	case mcp.NotifyResourcesListChanged:
		return l.Resources
	}
	return true
}

// ErrSessionEnded is the cause when the client deleted the session.
var ErrSessionEnded = errors.New("the session has ended")

// quotaLimits returns the limits of l as internal/quota takes them.
func (l NodeLimits) quotaLimits() quota.Limits {
	p := &l.Principal
	return quota.Limits{Weights: l.Weights, Places: l.Calls, Each: p.Calls, Accounts: l.Accounts, Bytes: l.Bytes, Held: [quota.Counts]int{heldStreams: p.Streams, heldPending: p.Pending}, Rates: [quota.Rates]quota.Rate{
		rateOfCalls:    {PerSecond: p.Rate, Burst: p.Burst},
		rateOfSessions: {PerSecond: perSession * float64(p.Sessions) / time.Hour.Seconds(), Burst: timesCapped(perSession, p.Sessions)},
		rateOfMessages: {PerSecond: perCall * p.Rate, Burst: timesCapped(perCall, p.Burst)},
		rateOfFailures: l.failureRate(),
	}}
}

// rateOfFailures is of access tokens that were looked at in vain.
const rateOfFailures = rateOfMessages + 1

// Failures is the bucket of a for access tokens that were looked at in vain.
func Failures(a *quota.Account) quota.Bucket { return a.Buckets[rateOfFailures] }

// failureRate is the rate of access tokens that are looked at in vain: ten seconds' worth may come at once. Without one no account has a bucket.
func (l NodeLimits) failureRate() quota.Rate {
	if l.AuthFailures <= 0 {
		return quota.Rate{}
	}
	return quota.Rate{PerSecond: l.AuthFailures, Burst: max(1, int(10*l.AuthFailures))}
}

// timesCapped is by * n, or the most that an int holds.
func timesCapped(by, n int) int { return by * min(n, math.MaxInt/by) }

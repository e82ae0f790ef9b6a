package actors

import (
	"cmp"
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

// Terms are what a mounted server says of itself, and grants its clients, without a word of what it
// does.
type Terms struct {
	ID     string
	Limits Limits
	// ResultMeta is the raw `_meta` of the results that the actors make, since 2026-07-28;
	// nil for none.
	ResultMeta []byte
	// Withholds reports whether a message of a session's standalone stream is not for holder, who
	// has the stream's connection: it is an update of the resource at uri, which needs a scope that
	// holder lacks. It must be quick and not panic. If nil, nothing is withheld.
	Withholds func(holder any, message []byte) (uri string, withheld bool)
	// Insists reports whether the program itself says that a call may run again. Only then a
	// message of more than limits.RerunBody is stored for that. If nil, it is not.
	Insists func(method, name []byte) bool
	// Resumes reports whether a second run of a call goes on with what the first one has begun, and does nothing twice. Such a call runs again where
	// its client comes back for it, though it may not be sent again. If nil, no call does that by itself.
	Resumes func(method, name []byte) bool
	// Lacks returns why a principal may not have what needs some scopes, nil if it may. If nil,
	// every principal may have everything. It is called only with scopes.
	Lacks func(principal any, needs []string) *refusal.Refusal
	// AnswersPing says that the handler answers ping in bound sessions, too, where it is a
	// request like any other then. If not, the node answers it at once. Before initialize it
	// always does.
	AnswersPing bool
	// Known reports whether what a call is of exists for its caller. A drain does not refuse
	// other calls: they fail at once, and a refusal does not reveal a hidden item. If
	// nil, everything is known.
	Known func(principal any, method, name []byte) bool
	// Carried returns the principal of a message that another node has taken, from the form that it
	// has on the way, and the Input.Principal; see the type Carried. passed is what Passes has returned there. If Carried is nil, the
	// principal is that form, and Peer.Owner stays as it is.
	Carried func(form []byte, passed map[string][]string) (principal, owner any)
	// Passes returns the headers of the principal's request that go with its message to another node. If nil, none do.
	Passes  func(principal any) map[string][]string
	life    lifetime
	service any // the Service that has these terms: what does not handle requests knows no more of it
}

// scopeRefusal is Lacks, for scopes of a record.
func (svc *Terms) scopeRefusal(principal any, needs []string) *refusal.Refusal {
	if len(needs) == 0 || svc.Lacks == nil {
		return nil
	}
	return svc.Lacks(principal, needs)
}

// storesMessage reports whether a message is stored for the sake of a call that may run again.
func (svc *Terms) storesMessage(m *codec.Message, size int) bool {
	return size <= maxRerunBody || svc.Insists != nil && svc.Insists(m.Method, m.Name)
}

// endedError is the error that says why a session of the service ended.
func (svc *Terms) endedError() error {
	if svc.life.over.Load() {
		return ErrUnmounted
	}
	return ErrSessionEnded
}

// recordTTL is the lifetime of a writer record. It is rewritten every quarter of that, so
// that never less than ReplayAge remains.
func (svc *Terms) recordTTL() time.Duration { return RecordTTL(svc.Limits.ReplayAge) }

// callLifetime is for how long a process may have something to say of a call: it runs, and then its
// record lives.
func (svc *Terms) callLifetime() time.Duration { return svc.Limits.MaxCall + svc.recordTTL() }

// retryTime is how long a client has to send a request again.
func (svc *Terms) retryTime() time.Duration { return min(svc.Limits.MaxAsk, maxStateAge) }

// lifetime is how long a service is mounted on this node.
type lifetime struct {
	over atomic.Bool
	done chan struct{} // closed when over is set
}

// maxRerunBody is the largest message that is stored so that its calls may run again though
// nobody insists on it.
var maxRerunBody = limits.RerunBody.Value()

// RecordTTL is the lifetime of the record of a stream whose events can be replayed for
// replayAge. Stores must keep events longer than that.
func RecordTTL(replayAge time.Duration) time.Duration { return replayAge * 4 / 3 }

// maxStateAge bounds the time that a client may take to send a request again.
var maxStateAge = limits.RetryWait.Value()

// ErrUnmounted is the cause that ends handlers when their service is unmounted. Afterwards
// it is the error of the service's sessions.
var ErrUnmounted = errors.New("the server has been unmounted")

// ErrSessionEnded is the cause when the client deleted the session.
var ErrSessionEnded = errors.New("the session has ended")

// Lifetime is how long a session lives.
type Lifetime = session.Lifetime

// StreamLimits bound what the log keeps of a stream.
type StreamLimits = stream.Limits

// Limits bound what one service takes on. A field with an option's name as its tag has its value: package
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
	limits.FillDefaults(&l)
	l.Session.Fresh = fresh
	l.SessionDrop, l.KeepAlive = cmp.Or(l.SessionDrop, time.Minute), cmp.Or(l.KeepAlive, 15*time.Second)
	l.StoreWait, l.ResumeWait = cmp.Or(l.StoreWait, 5*time.Second), cmp.Or(l.ResumeWait, time.Minute)
	l.Burst = quota.Burst(l.Rate, l.Burst)
	return l
}

// mostMemory is the most that appends from..to take in memory, of a log that holds about all bytes;
// 0 means unknown.
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

// Defaults fills the zero fields of l.
func (l NodeLimits) Defaults() NodeLimits {
	limits.FillDefaults(&l)
	l.Accounts, l.Bytes = cmp.Or(l.Accounts, limits.Accounts.Value()), cmp.Or(l.Bytes, -1)
	l.Principal.Burst = quota.Burst(l.Principal.Rate, l.Principal.Burst)
	return l
}

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

// failureRate is the rate of access tokens that are looked at in vain: ten seconds' worth may come
// at once. Without one no account has a bucket.
func (l NodeLimits) failureRate() quota.Rate {
	if l.AuthFailures <= 0 {
		return quota.Rate{}
	}
	return quota.Rate{PerSecond: l.AuthFailures, Burst: max(1, int(10*l.AuthFailures))}
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

// rateOfFailures is of access tokens that were looked at in vain.
const rateOfFailures = rateOfMessages + 1

// Failures is the bucket of a for access tokens that were looked at in vain.
func Failures(a *quota.Account) quota.Bucket { return a.Buckets[rateOfFailures] }

// timesCapped is by * n, or the most that an int holds.
func timesCapped(by, n int) int { return by * min(n, math.MaxInt/by) }

// revisionOf is the revision of a date, 0 if there is none.
func revisionOf(date string) mcp.Revision {
	r, _ := mcp.ParseRevision(date)
	return r
}

// hasFeature reports whether a revision, by its date, has a feature.
func hasFeature(revision string, f protocol.Feature) bool {
	return protocol.Has(revisionOf(revision), f)
}

// Trace is the W3C trace context of a request and its baggage, "" where absent. Nothing is read of them
// where nobody traces.
type Trace struct {
	Parent  string `json:",omitempty"`
	State   string `json:",omitempty"`
	Baggage string `json:",omitempty"`
}

// Via is how a request came.
type Via struct {
	Client string `json:",omitempty"` // its address and port; "" if there is none
	HTTP   uint8  `json:",omitempty"` // the major version, or one of OverHTTP and OverPipe; 0 if it is not known
}

// What else Via.HTTP may be.
const (
	OverHTTP uint8 = 254 // of a version that is not known
	OverPipe uint8 = 255
)

// Origin is where a message comes from, as far as telemetry tells of it.
type Origin struct {
	Trace  Trace
	Via    Via
	Caller any // see Input
}

func (in *Input) origin() Origin { return Origin{in.Trace, in.Via, in.Caller} }

// Input is one HTTP request as the actors see it.
type Input struct {
	Tenant      string         // of the authenticated principal
	Address     string         // of the client if the tenant is anonymous; otherwise ""
	Account     *quota.Account // of both; nil if it is not known yet
	Session     string         // Mcp-Session-Id, or the id that Connect gave; "" if absent
	Version     string         // MCP-Protocol-Version, "" if absent
	LastEventID string
	Trace       Trace
	Via         Via
	Conn        Conn
	Needs       *[]string // scopes that the request needs, and its caller has; never changed
	Principal   any       // the new value of Peer.Owner; nil keeps the old one
	Routed      bool      // another node has taken it, for this one
	Caller      any       // who makes the request, as the transport's authentication says, for Handler.Observe

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

// The counts of an account besides its requests in flight.
const (
	heldStreams = iota // event streams with a connection
	heldGets           // GETs that are being handled
	heldPending        // questions that wait for the client
)

// The token buckets of an account.
const (
	rateOfCalls = iota
	rateOfSessions
	rateOfMessages // that are no calls
)

const (
	// perSession is how many tokens of rateOfSessions a session takes when it begins. It returns
	// all but one when its client deletes it: then nothing stays of it, but it was stored.
	perSession = 10
	// perCall is how many tokens of rateOfMessages stand for one of rateOfCalls.
	perCall = 10
)

// appendBytes is what an append takes in memory beside its bytes.
const appendBytes = 512

// ErrTooManyPending reports that as many calls as may be wait for the client. The question
// was not asked.
var ErrTooManyPending = errors.New("too many calls wait for the client")

// payer is a session as far as what is done for it is counted: on the account of its last request.
type payer interface{ billedAccount() *quota.Account }

// maxToken bounds a request's id and its progress token, in bytes as they were sent: all
// requests of a batch must fit one record.
var maxToken = limits.Token.Value()

func tooLong(m *codec.Message) bool { return len(m.ID) > maxToken || len(m.ProgressToken) > maxToken }

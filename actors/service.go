package actors

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/session"
	"github.com/troupe-run/troupe/internal/stream"
	"github.com/troupe-run/troupe/mcp"
)

// Handler is what a mounted server does with requests. The actors decide who
// runs it and where its answer goes; it decides what the answer is.
type Handler interface {
	// Initialize settles a session: it returns the revision to speak, and the
	// result.
	Initialize(ctx context.Context, params []byte) (Settled, []byte, *mcp.Error)
	// Serve appends the result of c to dst. It runs on the goroutine that read
	// the request; ctx ends when the client cancels or the node gives up.
	Serve(ctx context.Context, c *Call, dst []byte) ([]byte, *mcp.Error)
	// Notified is told of a client's notification; params are valid only until
	// it returns.
	Notified(p *Peer, method string, params []byte)
	// Safe reports whether a call may be run again after its node was lost.
	Safe(method, name []byte) bool
	// Listening decides what of a listener's filter is honoured (2026-07-28).
	// Nothing can be sent by c.
	Listening(ctx context.Context, c *Call) (Listening, *mcp.Error)
	// MayAsk reports whether a call may ask its client for input.
	MayAsk(method, name []byte) bool
	// Opened is told that a client has begun to listen to its standalone stream;
	// gap means that it may have missed something before.
	Opened(p *Peer, gap bool)
	// Closed is told that a session was deleted or has left this node.
	Closed(p *Peer)
}

// Settled is what initialize settles for a session.
type Settled struct {
	Revision     string
	Client       []byte // clientInfo, raw
	Capabilities []byte // raw
	Announced    string // digest of the catalogues as the client will see them
}

// Service is one mounted server as the actors see it. Make it with NewService;
// its fields are not changed afterwards.
type Service struct {
	ID      string
	Handler Handler
	Limits  Limits
	// ResultMeta is the raw `_meta` of results that the actors make, since
	// 2026-07-28; nil is none.
	ResultMeta []byte
	// Began is called when initialize has begun a session, before its client knows. Ended
	// is called once, on a goroutine of its own, when a session that has begun is gone for
	// good, as far as this node learns of it. Nil is nobody.
	Began func(ctx context.Context, p *Peer)
	Ended func(p *Peer, how Ending)
	// Hears reports whether a session may hear of updates of a resource, at the time of
	// each. It is called in other actors' turns, by several at once, and must be quick and
	// not panic. Nil: it may hear of all that it has subscribed to, and of what lies below.
	Hears func(p *Peer, uri string) bool
	life  lifetime
}

// Ending is how a session has ended.
type Ending uint8

// The ways in which sessions end.
const (
	Deleted      Ending = iota // by its client
	Expired                    // by its own clock
	Disconnected               // with the connection that it lives on
)

// began tells who wants to know that a session has begun.
func (svc *Service) began(ctx context.Context, p *Peer) {
	if svc.Began != nil {
		svc.Began(ctx, p)
	}
}

// NewService returns a service that may be served until Node.Unmount. Limits that
// are zero take their defaults.
func NewService(id string, h Handler, l Limits) *Service {
	return &Service{ID: id, Handler: h, Limits: l.Defaults(), life: lifetime{done: make(chan struct{})}}
}

// Input is one HTTP request as the actors see it.
type Input struct {
	Tenant      string // of the authenticated principal
	Address     string // of the client, where the tenant is nobody in particular; "" else
	Session     string // Mcp-Session-Id or the name that Connect gave, "" if absent
	Version     string // MCP-Protocol-Version, "" if absent
	LastEventID string
	Trace       Trace
	Conn        Conn
	Principal   any // what Peer.Owner is to return from now on; nil changes nothing

	// Stateless says that the request is one without a session (2026-07-28): Session and
	// LastEventID mean nothing. Over HTTP it has Exchange, which is Conn then.
	Stateless bool
	Exchange  Exchange

	// Patient says of a connection that carries a whole session that its client
	// waits when it has as many requests in flight as it may, and is refused only
	// after Limits.StoreWait.
	Patient bool
}

// Trace is the W3C trace context of a request, "" where absent.
type Trace struct{ Parent, State string }

// Limits bound what one service takes on. Zero fields take the defaults of
// Defaults, which are those of internal/limits.
type Limits struct {
	Grace          time.Duration // a plain answer may take this long
	StatelessGrace time.Duration // the same since 2026-07-28, where the status waits for the handler
	MaxCall        time.Duration // a call may run this long
	PingEvery      time.Duration // clients are pinged this often; 0 never
	MaxAsk         time.Duration // an answer of the client may take this long
	Session        session.Lifetime
	SessionDrop    time.Duration // an unused session leaves memory after this
	ReplayAge      time.Duration // events can be replayed for this long
	Stream         stream.Limits
	Queue          int           // bytes that may wait for the log per stream
	KeepAlive      time.Duration // a silent stream gets a comment this often
	StoreWait      time.Duration // a POST waits this long for the store
	ResumeWait     time.Duration // a resume is held this long
	PerSession     int           // calls in flight per session; negative is no limit
	Rate           float64       // calls per second and session; negative is no limit
	Burst          int           // calls at once after a silence
	LogRate        float64       // log messages per second and session, twice as many at once; negative is no limit
	Streams        int           // streams with a connection per session; negative is no limit
	Pending        int           // questions per session that wait for the client; negative is no limit
	Depth          int           // JSON depth
	// Subscriptions bounds the resources that a session may subscribe to; negative
	// is no limit.
	Subscriptions int
	Retry         time.Duration // what clients are told to wait before they reconnect to a call; twice that for a standalone stream
}

// Defaults fills the zero fields of l.
func (l Limits) Defaults() Limits {
	d := func(p *time.Duration, v time.Duration) {
		if *p <= 0 {
			*p = v
		}
	}
	n := func(p *int, v int) {
		if *p <= 0 {
			*p = v
		}
	}
	d(&l.Grace, limits.Grace.Value())
	d(&l.StatelessGrace, limits.StatelessGrace.Value())
	d(&l.MaxCall, limits.MaxCall.Value())
	d(&l.MaxAsk, limits.MaxAsk.Value())
	d(&l.Session.Idle, limits.SessionIdle.Value())
	d(&l.Session.Absolute, limits.SessionMax.Value())
	d(&l.SessionDrop, time.Minute)
	d(&l.ReplayAge, limits.ReplayAge.Value())
	d(&l.KeepAlive, 15*time.Second)
	d(&l.StoreWait, 5*time.Second)
	d(&l.ResumeWait, time.Minute)
	d(&l.Retry, limits.Retry.Value())
	l.Retry = max(l.Retry, time.Millisecond)
	count := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	n(&l.Queue, limits.MaxQueued.Value())
	count(&l.PerSession, limits.CallsPerSession.Value())
	count(&l.Streams, limits.StreamsPerSession.Value())
	count(&l.Pending, limits.PendingPerSession.Value())
	count(&l.Subscriptions, limits.SubscriptionsPerSession.Value())
	l.Rate = limits.CallRate.Or(l.Rate)
	l.Burst = quota.Burst(l.Rate, l.Burst)
	l.LogRate = limits.LogRate.Or(l.LogRate)
	return l
}

// NodeLimits bound what a node takes on, of all its services together. Zero
// fields take the defaults of Defaults; negative ones are no limit.
type NodeLimits struct {
	Calls     int // requests in flight
	Principal PrincipalLimits
	Accounts  int // principals that are told apart
}

// PrincipalLimits bound one principal, or one address of those who are nobody in
// particular. They are per node.
type PrincipalLimits struct {
	Rate     float64 // calls per second
	Burst    int     // calls at once after a silence
	Calls    int     // requests in flight
	Streams  int     // event streams with a connection
	Pending  int     // questions that wait for the client
	Sessions int     // new sessions per SessionIdle
	// SessionIdle is how long it takes until a new session no longer counts.
	SessionIdle time.Duration
}

// Defaults fills the zero fields of l.
func (l NodeLimits) Defaults() NodeLimits {
	n := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	n(&l.Calls, limits.CallsPerNode.Value())
	n(&l.Accounts, limits.Accounts.Value())
	p := &l.Principal
	p.Rate = limits.PrincipalRate.Or(p.Rate)
	p.Burst = quota.Burst(p.Rate, p.Burst)
	n(&p.Calls, limits.CallsPerPrincipal.Value())
	n(&p.Streams, limits.StreamsPerPrincipal.Value())
	n(&p.Pending, limits.PendingPerPrincipal.Value())
	n(&p.Sessions, limits.SessionsPerPrincipal.Value())
	p.SessionIdle = limits.SessionIdle.Or(p.SessionIdle)
	return l
}

// ErrUnmounted is the cause that ends handlers when their service is taken off the
// node, and what is reported of its sessions from then on.
var ErrUnmounted = errors.New("the server has been unmounted")

// lifetime is that of a service on this node.
type lifetime struct {
	over atomic.Bool
	done chan struct{} // closed with it
}

// ended says why a session of the service has ended.
func (svc *Service) ended() error {
	if svc.life.over.Load() {
		return ErrUnmounted
	}
	return ErrSessionEnded
}

// unmountSession ends a session's calls as at the end of a drain, and takes the
// session out of memory; its record stays.
type unmountSession struct{}

// ErrTooManyPending reports that the session has as many calls waiting for its client
// as it may: the question was not asked.
var ErrTooManyPending = errors.New("too many calls wait for the client")

// Question is a request to the client.
type Question struct {
	Key    string // names the question within its call, so that a re-run finds its answer
	Method string
	Params []byte
	// Keep says that all calls of the session ask this alike: they share one
	// question, and the answer is kept if Keep returns true for it, until
	// Peer.Forget. nil asks each time.
	Keep func(result []byte) bool
	// Valid reports whether raw, any JSON, is an answer to the question; nil takes
	// everything. It is asked of what comes with a request that is sent again.
	Valid func(raw []byte) bool
}

// Answer is what the client answered: one of the two is set. Both are copies.
type Answer struct {
	Result []byte
	Err    *mcp.Error
}

// Listening is what a client gets to hear of those things that it has asked for.
type Listening struct {
	Tools, Prompts, Resources bool     // changes of the lists
	URIs                      []string // resources whose updates it gets
	Accepted                  []byte   // the filter as it is acknowledged, raw
	// Changed reports whether a list has changed for this listener since it was asked
	// last, by the method of its notification. It is called in the listener's turn.
	// Nil: every change is one.
	Changed func(method string) bool
	// Hears reports whether the listener may hear of updates of a resource, at the time of
	// each. It is called in other actors' turns, by several at once, and must be quick and
	// not panic. Nil: it may hear of URIs and of what lies below.
	Hears func(uri string) bool
}

// wants reports whether a notification is one that the client has asked for.
func (l *Listening) wants(method string) bool {
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

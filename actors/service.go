package actors

import (
	"context"
	"time"

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
	Told         string // digest of the catalogues as the client will see them
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
	life       lifetime
}

// NewService returns a service that may be served until Node.Retire. Limits that
// are zero take their defaults.
func NewService(id string, h Handler, l Limits) *Service {
	return &Service{ID: id, Handler: h, Limits: l.Defaults(), life: lifetime{done: make(chan struct{})}}
}

// Limits bound what one service takes on. Zero fields take the defaults of
// Defaults.
type Limits struct {
	Grace       time.Duration // a plain answer may take this long
	GraceAlone  time.Duration // the same since 2026-07-28, where the status waits for the handler
	MaxCall     time.Duration // a call may run this long
	PingEvery   time.Duration // clients are pinged this often; 0 never
	MaxAsk      time.Duration // an answer of the client may take this long
	Session     session.Lifetime
	SessionDrop time.Duration // an unused session leaves memory after this
	ReplayAge   time.Duration // events can be replayed for this long
	Stream      stream.Limits
	Queue       int           // bytes that may wait for the log per stream
	KeepAlive   time.Duration // a silent stream gets a comment this often
	StoreWait   time.Duration // a POST waits this long for the store
	ResumeWait  time.Duration // a resume is held this long
	PerSession  int           // calls in flight per session; negative is no limit
	Rate        float64       // calls per second and session; negative is no limit
	Burst       int           // calls at once after a silence
	LogRate     float64       // log messages per second and session, twice as many at once; negative is no limit
	Streams     int           // streams with a connection per session; negative is no limit
	Parked      int           // questions per session that wait for the client; negative is no limit
	Depth       int           // JSON depth
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
	d(&l.Grace, 250*time.Millisecond)
	d(&l.GraceAlone, 10*time.Second)
	d(&l.MaxCall, time.Hour)
	d(&l.MaxAsk, 10*time.Minute)
	d(&l.Session.Idle, 72*time.Hour)
	d(&l.Session.Absolute, 30*24*time.Hour)
	d(&l.SessionDrop, time.Minute)
	d(&l.ReplayAge, 10*time.Minute)
	d(&l.KeepAlive, 15*time.Second)
	d(&l.StoreWait, 5*time.Second)
	d(&l.ResumeWait, time.Minute)
	d(&l.Retry, 4*time.Second)
	l.Retry = max(l.Retry, time.Millisecond)
	count := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	n(&l.Queue, 1<<20)
	count(&l.PerSession, 256)
	count(&l.Streams, 64)
	count(&l.Parked, 64)
	count(&l.Subscriptions, 1000)
	if l.Rate == 0 {
		l.Rate = 100
	}
	l.Burst = quota.Burst(l.Rate, l.Burst)
	if l.LogRate == 0 {
		l.LogRate = 500
	}
	return l
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

	// Alone says that the request stands for itself (2026-07-28): Session and
	// LastEventID mean nothing.
	Alone bool

	// Patient says of a connection that carries a whole session that its client
	// waits when it has as many requests in flight as it may, and is refused only
	// after Limits.StoreWait.
	Patient bool
}

// Trace is the W3C trace context of a request, "" where absent.
type Trace struct{ Parent, State string }

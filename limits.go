package troupe

import (
	"cmp"
	"errors"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/session"
	"github.com/troupe-run/troupe/internal/stream"
)

// Limits are those of one server: Options.Limits of each that sets none of its own, and
// ServerOptions.Limits of that server. 0 is the default, which in ServerOptions is what
// Options have; a negative number or rate is no limit. Sizes and times have to be bounded.
type Limits struct {
	// MaxBody is the largest body of a request in bytes. 0 means 4 MiB. A larger one
	// is answered with 413.
	MaxBody int64
	// MaxDepth is how deep JSON may nest. 0 means 128, 1024 is the most.
	MaxDepth int
	// MaxBatch is how many messages a batch may hold. 0 means 100.
	MaxBatch int
	// MaxURI is how long the URI of a resource may be in bytes that a client reads or
	// subscribes to. 0 means 8 KiB. A longer one is answered with error -32602.
	MaxURI int
	// BodyTimeout is how long the body of a request may take to arrive. 0 means 30
	// seconds. A slower one is answered with 408.
	BodyTimeout time.Duration
	// WriteTimeout is how long a write may wait for a client that does not read. 0
	// means 30 seconds. Then the connection is cut; an event stream can be resumed.
	WriteTimeout time.Duration
	// MaxQueued is how many bytes of an event stream may wait for its connection,
	// and as many for the log. 0 means 1 MiB. A connection whose client reads more
	// slowly is cut, and resumes; a handler that is faster than the log waits.
	MaxQueued int

	// Grace is how long a call may take and still be answered as plain JSON. 0
	// means 250 ms.
	Grace time.Duration
	// StatelessGrace is the same for requests that stand for themselves (2026-07-28),
	// where the status of the response waits for the handler's verdict. 0 means 10
	// seconds.
	StatelessGrace time.Duration
	// MaxCall is how long a call may run. 0 means 1 hour.
	MaxCall time.Duration
	// MaxAsk is how long a question may wait for the client's answer. 0 means 10
	// minutes.
	MaxAsk time.Duration
	// Retry is how long clients of 2025-11-25 are told to wait before they come back
	// to the stream of a call whose connection broke, and half of how long before they
	// come back to the standalone stream. The official SDK for TypeScript tries twice
	// and then gives up, so that it outlasts a restart that takes a little less than
	// twice Retry; docs/decisions.md, 10, has figures. 0 means 4 seconds, a millisecond is the
	// least. A client that is told to come back at once, see [Call.Disconnect],
	// waits a second at most.
	Retry time.Duration
	// PingEvery is how often clients are pinged that listen to a standalone stream, or
	// whose session lives on one connection (HTTP+SSE, stdio). 0 means never, and a
	// second is the least. A connection on which two pings in a row have not
	// been answered is closed, and what lives on it ends.
	PingEvery time.Duration

	// CallRate bounds the calls of a session per second: tools/call,
	// completion/complete, and methods that the specification does not have. CallBurst
	// bounds those that may come at once after a silence. 0 means 100, and twice the
	// rate; a server with a CallRate and no CallBurst has the CallBurst of Options, if
	// that is set. What exceeds it is refused, with the time to come back.
	CallRate  float64
	CallBurst int
	// LogRate bounds the log messages to a client per second, of all calls of a
	// session together; twice as many may come at once after a silence. 0 means 500.
	// What exceeds it is dropped, and the client is told how many messages that were.
	LogRate float64
	// CallsPerSession bounds the requests of a session in flight. 0 means 256. Beyond it
	// the answer is an error with the time to come back.
	CallsPerSession int
	// StreamsPerSession bounds the event streams of a session with a connection. 0 means
	// 64. Beyond it a GET is refused with 429; calls are still answered.
	StreamsPerSession int
	// SubscriptionsPerSession bounds the resources that a session subscribes to. 0
	// means 1,000. Beyond it the answer is error -32600.
	SubscriptionsPerSession int
	// PendingPerSession bounds the questions of a session that wait for its client. 0
	// means 64. Beyond it they fail with ErrTooManyPending.
	PendingPerSession int
}

// settle sets what is 0 to its default, and reports every limit that is out of bounds.
func (l *Limits) settle() error {
	return errors.Join(
		limits.MaxBody.Settle(&l.MaxBody), limits.MaxDepth.Settle(&l.MaxDepth), limits.MaxBatch.Settle(&l.MaxBatch),
		limits.MaxURI.Settle(&l.MaxURI), limits.BodyTimeout.Settle(&l.BodyTimeout), limits.WriteTimeout.Settle(&l.WriteTimeout),
		limits.MaxQueued.Settle(&l.MaxQueued), limits.MaxCall.Settle(&l.MaxCall), limits.MaxAsk.Settle(&l.MaxAsk),
		limits.Retry.Settle(&l.Retry), limits.CallRate.Settle(&l.CallRate), limits.CallBurst.Settle(&l.CallBurst),
		limits.LogRate.Settle(&l.LogRate), limits.CallsPerSession.Settle(&l.CallsPerSession),
		limits.StreamsPerSession.Settle(&l.StreamsPerSession), limits.SubscriptionsPerSession.Settle(&l.SubscriptionsPerSession),
		limits.PendingPerSession.Settle(&l.PendingPerSession), limits.Grace.Settle(&l.Grace),
		limits.StatelessGrace.Settle(&l.StatelessGrace), limits.PingEvery.Settle(&l.PingEvery),
	)
}

// over returns the limits of a server with limits l of its own, where o has what is 0.
func (l Limits) over(o Limits) Limits {
	return Limits{
		MaxBody: cmp.Or(l.MaxBody, o.MaxBody), MaxDepth: cmp.Or(l.MaxDepth, o.MaxDepth), MaxBatch: cmp.Or(l.MaxBatch, o.MaxBatch),
		MaxURI: cmp.Or(l.MaxURI, o.MaxURI), BodyTimeout: cmp.Or(l.BodyTimeout, o.BodyTimeout),
		WriteTimeout: cmp.Or(l.WriteTimeout, o.WriteTimeout), MaxQueued: cmp.Or(l.MaxQueued, o.MaxQueued),
		Grace: cmp.Or(l.Grace, o.Grace), StatelessGrace: cmp.Or(l.StatelessGrace, o.StatelessGrace), MaxCall: cmp.Or(l.MaxCall, o.MaxCall),
		MaxAsk: cmp.Or(l.MaxAsk, o.MaxAsk), Retry: cmp.Or(l.Retry, o.Retry), PingEvery: cmp.Or(l.PingEvery, o.PingEvery),
		CallRate: cmp.Or(l.CallRate, o.CallRate), CallBurst: cmp.Or(l.CallBurst, o.CallBurst), LogRate: cmp.Or(l.LogRate, o.LogRate),
		CallsPerSession:         cmp.Or(l.CallsPerSession, o.CallsPerSession),
		StreamsPerSession:       cmp.Or(l.StreamsPerSession, o.StreamsPerSession),
		SubscriptionsPerSession: cmp.Or(l.SubscriptionsPerSession, o.SubscriptionsPerSession),
		PendingPerSession:       cmp.Or(l.PendingPerSession, o.PendingPerSession),
	}
}

// SharedLimits are those of all servers of a Runtime together. 0 is the default, a negative
// number no limit.
//
// A principal is who Authenticate says, or, without a name, what http.Request.RemoteAddr
// says: an IPv4 address, or an IPv6 network of 64 bits. Behind a proxy all clients without a
// name share its address, unless HTTPOptions.TrustedProxies has it, or Middleware sets
// RemoteAddr. The limits of a principal are per node.
type SharedLimits struct {
	// CallsPerNode and CallsPerPrincipal bound the requests in flight. 0 means 10,000 and
	// 1,024. Beyond them the answer is an error with the time to come back. Once
	// three quarters of CallsPerNode are in flight, a principal that has more than
	// an equal share of it gets such an error, too.
	CallsPerNode, CallsPerPrincipal int
	// PrincipalRate and PrincipalBurst are Limits.CallRate and CallBurst for all sessions
	// of a principal together. 0 means 1,000, and twice the rate.
	PrincipalRate  float64
	PrincipalBurst int
	// SessionsPerPrincipal bounds the sessions that a principal may begin within
	// StoreOptions.SessionIdle; one that it deletes does not count. 0 means 100,000.
	// Beyond it the answer is 429.
	SessionsPerPrincipal int
	// StreamsPerPrincipal bounds the event streams with a connection. 0 means 1,024.
	// Beyond it a GET is refused with 429; calls are still answered.
	StreamsPerPrincipal int
	// PendingPerPrincipal bounds the questions that wait for a client. 0 means 1,024.
	// Beyond it they fail with ErrTooManyPending.
	PendingPerPrincipal int
}

// settle sets what is 0 to its default, and reports every limit that is out of bounds.
func (l *SharedLimits) settle() error {
	return errors.Join(
		limits.CallsPerNode.Settle(&l.CallsPerNode), limits.CallsPerPrincipal.Settle(&l.CallsPerPrincipal),
		limits.PrincipalRate.Settle(&l.PrincipalRate), limits.PrincipalBurst.Settle(&l.PrincipalBurst),
		limits.SessionsPerPrincipal.Settle(&l.SessionsPerPrincipal), limits.StreamsPerPrincipal.Settle(&l.StreamsPerPrincipal),
		limits.PendingPerPrincipal.Settle(&l.PendingPerPrincipal),
	)
}

// limits are those of a server as the actors have them.
func (rt *Runtime) limits(l *Limits) actors.Limits {
	s := &rt.opts.Store
	return actors.Limits{
		Grace: l.Grace, StatelessGrace: l.StatelessGrace, MaxCall: l.MaxCall, MaxAsk: l.MaxAsk, PingEvery: l.PingEvery, Retry: l.Retry,
		Rate: l.CallRate, Burst: l.CallBurst, LogRate: l.LogRate, PerSession: l.CallsPerSession, Pending: l.PendingPerSession,
		Streams: l.StreamsPerSession, Subscriptions: l.SubscriptionsPerSession,
		Session: session.Lifetime{Idle: s.SessionIdle, Absolute: s.SessionMax}, ReplayAge: s.ReplayAge,
		Stream: stream.Limits{Appends: s.ReplayEvents, Bytes: int(s.ReplayBytes)}, Queue: l.MaxQueued, Depth: l.MaxDepth,
	}
}

// nodeLimits are those of all servers together, as the actors have them.
func (rt *Runtime) nodeLimits() actors.NodeLimits {
	l := &rt.opts.Shared
	return actors.NodeLimits{Calls: l.CallsPerNode, Principal: actors.PrincipalLimits{
		Rate: l.PrincipalRate, Burst: l.PrincipalBurst, Calls: l.CallsPerPrincipal, Streams: l.StreamsPerPrincipal,
		Pending: l.PendingPerPrincipal, Sessions: l.SessionsPerPrincipal, SessionIdle: rt.opts.Store.SessionIdle,
	}}
}

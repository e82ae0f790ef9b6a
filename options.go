package troupe

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/troupe-run/troupe/internal/limits"
)

// Options are the settings of a Runtime. The zero value keeps everything in
// memory and lets everyone in as nobody in particular.
//
// One rule holds for every number, size and time: 0 is the default, and a negative
// value is none, which is no limit, no delay or never. What must be bounded has no
// such value: New fails, and names every option that is out of bounds. docs/limits.md has all bounds.
type Options struct {
	// Dir is the data directory: what is acknowledged there survives a crash of
	// the process. Empty keeps everything in memory.
	Dir string
	// Node names this node among those on one store: [a-z0-9-]. Empty keeps the
	// name that the data directory has.
	Node string
	// MaxStore bounds the store in bytes. 0 means 8 GiB, in memory 1 GiB. When nine
	// tenths of it are in use, new sessions and streams are refused with 503.
	MaxStore int64
	// Sync is how often the store is flushed to the disk, which is what a power
	// cut may cost; a crash of the process costs nothing. 0 means 1 second;
	// negative means that nothing is acknowledged before it is on the disk, with
	// one flush for all that wait.
	Sync time.Duration
	// Lease is how long the store takes a node that is silent for alive. 0 means
	// 5 seconds.
	Lease time.Duration

	// Listen is where Serve listens. Empty means 127.0.0.1:8080.
	Listen string
	// AllowAnonymous lets Serve listen beyond the loopback interface without
	// Authenticate.
	AllowAnonymous bool
	// TLSCert and TLSKey are files for Serve; both empty means no TLS.
	TLSCert, TLSKey string
	// AllowOrigins are the origins that browsers may call from, beside the
	// server's own.
	AllowOrigins []string
	// AllowHosts are the host names that the server answers to. Empty means any,
	// but only loopback names on a loopback listener.
	AllowHosts []string
	// TrustedProxies are the addresses of proxies that say who a client is. A request
	// that one of them delivers has the client's address in http.Request.RemoteAddr,
	// for Authenticate, Middleware, limits and logs, as Forwarded (RFC 7239) or
	// X-Forwarded-For has it: the first from the right that is no trusted proxy. What
	// cannot be read, or differs between the two, is not believed: the request is the
	// proxy's own then. A proxy has to set one of the two itself, as it would pass on
	// what its clients say. Empty means that neither is read.
	TrustedProxies []netip.Prefix
	// NoSSE leaves out the endpoints of HTTP+SSE, the transport of 2024-11-05.
	NoSSE bool
	// DrainDelay is how long Serve and Drain serve on once they are to end, not ready
	// any more, so that load balancers notice. 0 means 3 seconds, negative none. Where
	// nobody is there to notice it ends sooner: no connection is open, and nobody has
	// ever asked for /readyz or /healthz, or called Ready.
	DrainDelay time.Duration
	// DrainWait is how long Serve and Drain wait after that for calls that only this
	// process can end. In the second half of it new ones of tools that may not run again are
	// refused with 503. 0 means 30 seconds.
	DrainWait time.Duration

	// Authenticate returns who makes a request. nil lets everyone in as nobody in
	// particular. An error is answered with 401, or as an [*AuthError] says, and not
	// told to the client. Handlers get the Principal from [Call.Principal], and the
	// values of the request's context from their own.
	Authenticate func(*http.Request) (Principal, error)
	// StoredHeaders names headers of requests that are stored with a call that may run
	// again, so that [Call.Header] has them there, too. Together they may have 8 KiB in
	// a request; those that are too much are left out. nil stores none. New refuses
	// those that hold secrets: Authorization, Proxy-Authorization, Cookie, Set-Cookie
	// and Mcp-Session-Id are never stored.
	StoredHeaders []string
	// Redact sees every log message before it is encoded for a client, to keep secrets
	// and what would help an attacker from it. It may change the message, and returns
	// false to drop it. Several run at once. nil lets all through.
	Redact func(*LogMessage) bool
	// Middleware wraps every handler of the Runtime. It sees requests as those of
	// their clients: see TrustedProxies. What it puts into the context of a request
	// reaches the handlers of its calls. nil is none.
	Middleware func(http.Handler) http.Handler

	// MethodMiddleware wraps the handlers of the requests of every server, outside of that
	// of ServerOptions. The first one is outermost: it sees a request first and its
	// result last.
	MethodMiddleware []MethodMiddleware

	// MaxBody is the largest body of a request in bytes. 0 means 4 MiB. A larger one
	// is answered with 413.
	MaxBody int64
	// MaxHeader is the largest header of a request in bytes, where Serve listens. 0
	// means 32 KiB. A larger one is answered with 431.
	MaxHeader int
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
	// to the stream of a call whose connection broke; to the standalone stream they
	// are to come back after twice that. The official SDK for TypeScript tries twice
	// and then gives up, so that it outlasts a restart that takes a little less than
	// twice Retry; docs/decisions.md, 10, has figures. 0 means 4 seconds, a millisecond is the
	// least. A client that is told to come back at once, see [Call.Disconnect],
	// waits a second at most.
	Retry time.Duration
	// PingEvery is how often clients are pinged that listen to a standalone stream, or
	// whose session lives on one connection (HTTP+SSE, stdio). 0 means never; less
	// than a second means a second. A connection on which two pings in a row have not
	// been answered is closed, and what lives on it ends.
	PingEvery time.Duration
	// SessionIdle is how long an unused session is kept. 0 means 72 hours.
	SessionIdle time.Duration
	// SessionMax is how long any session is kept. 0 means 30 days.
	SessionMax time.Duration
	// ReplayAge is how long events can be replayed. 0 means 10 minutes.
	ReplayAge time.Duration
	// ReplayEvents is how many appends to a stream can be replayed, ReplayBytes how
	// many bytes. An append holds one event, or several that came at once. 0 means
	// 1,000, which is the most there can be, and 4 MiB.
	ReplayEvents int
	ReplayBytes  int64

	// The limits below are on numbers: 0 means the default, a negative number no
	// limit. A principal is who Authenticate says, or, of those who are nobody in
	// particular, what http.Request.RemoteAddr says: an IPv4 address, or an IPv6
	// network of 64 bits. Behind a proxy all of them share its address, unless
	// TrustedProxies has it, or Middleware sets RemoteAddr. The limits of a principal
	// are per node, for all servers together.

	// CallRate bounds the calls of a session per second (tools/call and
	// completion/complete), CallBurst those that may come at once after a silence. 0
	// means 100, and twice the rate. What exceeds it is refused, with the time
	// to come back.
	CallRate  float64
	CallBurst int
	// PrincipalRate and PrincipalBurst are that for all sessions of a principal
	// together. 0 means 1,000, and twice the rate.
	PrincipalRate  float64
	PrincipalBurst int
	// LogRate bounds the log messages to a client per second, of all calls of a
	// session together; twice as many may come at once after a silence. 0 means 500.
	// What exceeds it is dropped, and the client is told how many messages that were.
	LogRate float64
	// CallsPerSession, CallsPerPrincipal and CallsPerNode bound the requests in
	// flight. 0 means 256, 1,024 and 10,000; CallsPerNode is for all servers
	// together. Beyond them the answer is an error with the time to come back. Once
	// three quarters of CallsPerNode are in flight, a principal that has more than
	// an equal share of it gets such an error, too.
	CallsPerSession, CallsPerPrincipal, CallsPerNode int
	// SessionsPerPrincipal bounds the sessions that a principal may begin within
	// SessionIdle; one that it deletes does not count. 0 means 100,000. Beyond it
	// the answer is 429.
	SessionsPerPrincipal int
	// StreamsPerSession and StreamsPerPrincipal bound the event streams with a
	// connection. 0 means 64 and 1,024. Beyond it a GET is refused with 429; calls
	// are still answered.
	StreamsPerSession, StreamsPerPrincipal int
	// SubscriptionsPerSession bounds the resources that a session subscribes to. 0
	// means 1,000. Beyond it the answer is error -32600.
	SubscriptionsPerSession int
	// PendingPerSession and PendingPerPrincipal bound the questions that wait for a
	// client. 0 means 64 and 1,024. Beyond it they fail with ErrTooManyPending.
	PendingPerSession, PendingPerPrincipal int

	// Log gets what is worth an operator's attention. nil discards it.
	Log *slog.Logger
	// MeterProvider gets metrics, TracerProvider spans. nil: none are made.
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider
	// Metrics is what Serve answers /metrics with. nil: nothing is there.
	Metrics http.Handler
}

// settle sets what is 0 to its default, and reports every option that is out of bounds.
// MaxStore has a default that depends on where the store is.
func (o *Options) settle() error {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return errors.Join(
		limits.MaxBody.Settle(&o.MaxBody), limits.MaxHeader.Settle(&o.MaxHeader), limits.BodyTimeout.Settle(&o.BodyTimeout),
		limits.MaxDepth.Settle(&o.MaxDepth), limits.MaxBatch.Settle(&o.MaxBatch), limits.MaxURI.Settle(&o.MaxURI),
		limits.MaxCall.Settle(&o.MaxCall), limits.MaxAsk.Settle(&o.MaxAsk),
		limits.CallRate.Settle(&o.CallRate), limits.CallBurst.Settle(&o.CallBurst), limits.LogRate.Settle(&o.LogRate),
		limits.CallsPerSession.Settle(&o.CallsPerSession), limits.StreamsPerSession.Settle(&o.StreamsPerSession),
		limits.PendingPerSession.Settle(&o.PendingPerSession), limits.Retry.Settle(&o.Retry),
		limits.SubscriptionsPerSession.Settle(&o.SubscriptionsPerSession),
		limits.SessionIdle.Settle(&o.SessionIdle), limits.SessionMax.Settle(&o.SessionMax),
		limits.PrincipalRate.Settle(&o.PrincipalRate), limits.PrincipalBurst.Settle(&o.PrincipalBurst),
		limits.CallsPerPrincipal.Settle(&o.CallsPerPrincipal), limits.SessionsPerPrincipal.Settle(&o.SessionsPerPrincipal),
		limits.StreamsPerPrincipal.Settle(&o.StreamsPerPrincipal), limits.PendingPerPrincipal.Settle(&o.PendingPerPrincipal),
		limits.ReplayAge.Settle(&o.ReplayAge), limits.ReplayEvents.Settle(&o.ReplayEvents), limits.ReplayBytes.Settle(&o.ReplayBytes),
		limits.MaxQueued.Settle(&o.MaxQueued), limits.WriteTimeout.Settle(&o.WriteTimeout),
		limits.CallsPerNode.Settle(&o.CallsPerNode), limits.MaxStore.Settle(&o.MaxStore),
		limits.DrainDelay.Settle(&o.DrainDelay), limits.DrainWait.Settle(&o.DrainWait),
		needed("Grace", o.Grace), needed("StatelessGrace", o.StatelessGrace), needed("Lease", o.Lease),
	)
}

// needed refuses a negative time where there is none.
func needed(option string, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("%s is %v: it must not be negative", option, d)
	}
	return nil
}

package troupe

import (
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Options are the settings of a Runtime. The zero value keeps everything in
// memory and lets everyone in as nobody in particular.
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
	// cut may cost; a crash of the process costs nothing. 0 means 2 minutes,
	// negative means every write.
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
	// NoSSE leaves out the endpoints of HTTP+SSE, the transport of 2024-11-05.
	NoSSE bool
	// DrainDelay is how long Serve serves on, not ready any more, before it
	// drains. 0 means 3 seconds, negative none.
	DrainDelay time.Duration
	// DrainWait is how long Serve waits for calls to end after that. 0 means 30
	// seconds.
	DrainWait time.Duration

	// Authenticate returns who makes a request. nil lets everyone in as nobody in
	// particular. An error is answered with 401, and not told to the client.
	Authenticate func(*http.Request) (Principal, error)
	// Middleware wraps every handler of the Runtime. nil is none.
	Middleware func(http.Handler) http.Handler

	// MaxBody is the largest body of a request in bytes. 0 means 4 MiB.
	MaxBody int64
	// MaxDepth is how deep JSON may nest. 0 means 128.
	MaxDepth int
	// Grace is how long a call may take and still be answered as plain JSON. 0
	// means 250 ms.
	Grace time.Duration
	// MaxCall is how long a call may run. 0 means 1 hour.
	MaxCall time.Duration
	// MaxAsk is how long a question may wait for the client's answer. 0 means 10
	// minutes.
	MaxAsk time.Duration
	// SessionIdle is how long an unused session is kept. 0 means 72 hours.
	SessionIdle time.Duration
	// SessionMax is how long any session is kept. 0 means 30 days.
	SessionMax time.Duration
	// ReplayAge is how long events can be replayed. 0 means 10 minutes.
	ReplayAge time.Duration
	// CallsPerSession bounds the calls of a session that run at once. 0 means 256.
	CallsPerSession int
	// CallsPerNode bounds the calls that run at once on this node, of all its servers
	// together. 0
	// means 10,000.
	CallsPerNode int
	// ParkedPerSession bounds the questions of a session that wait for its client.
	// 0 means 64.
	ParkedPerSession int
	// StreamsPerSession bounds the open event streams of a session. 0 means 64.
	StreamsPerSession int

	// Log gets what is worth an operator's attention. nil discards it.
	Log *slog.Logger
	// MeterProvider gets metrics, TracerProvider spans. nil: none are made.
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider
	// Metrics is what Serve answers /metrics with. nil: nothing is there.
	Metrics http.Handler
}

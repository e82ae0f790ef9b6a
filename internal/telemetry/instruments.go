package telemetry

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

const scope = "github.com/troupe-run/troupe"

// Config is what [New] makes instruments of. A nil provider records nothing.
type Config struct {
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider
	Detail         Detail
	Log            *slog.Logger // learns once of each detail that there was no room for; nil for none
	// Cuts are reasons of troupe.stream.cut that are counted from 0: of a series that begins with its first count Prometheus sees no
	// increase, and often many connections are cut at once.
	Cuts []string
}

// Instruments record what a runtime does. The zero value and nil record nothing.
type Instruments struct {
	duration metric.Float64Histogram
	asked    metric.Float64Histogram
	session  metric.Float64Histogram
	refused  metric.Int64Counter
	cut      metric.Int64Counter
	tlsReads metric.Int64Counter
	replays  metric.Float64Histogram
	backends backends
	tracer   trace.Tracer
	series   *series
}

// seconds are the bounds of durations: those that the convention asks for, and finer ones below
// 10 ms, where nearly all of ours are.
var seconds = metric.WithExplicitBucketBoundaries(.0001, .0005, .001, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 120, 300)

// New returns instruments.
func New(c Config) (*Instruments, error) {
	i := &Instruments{}
	if c.TracerProvider != nil {
		i.tracer = c.TracerProvider.Tracer(scope)
	}
	if c.MeterProvider == nil {
		return i, nil
	}
	m := c.MeterProvider.Meter(scope)
	histogram := func(to *metric.Float64Histogram, name, doc string, bounds metric.HistogramOption) (err error) {
		*to, err = m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(doc), bounds)
		return err
	}
	counter := func(to *metric.Int64Counter, name, doc string) (err error) {
		*to, err = m.Int64Counter(name, metric.WithDescription(doc))
		return err
	}
	var coarse metric.Int64Counter
	for _, err := range []error{
		histogram(&i.duration, "mcp.server.operation.duration", "Duration of an MCP request or notification as the server sees it.", seconds),
		histogram(&i.asked, "mcp.client.operation.duration", "Duration of a request to a client, until it has answered.", seconds),
		histogram(&i.session, "mcp.server.session.duration", "Duration of a session that has ended.", metric.WithExplicitBucketBoundaries(1, 5, 10, 30, 60, 120, 300, 900, 3600, 14400, 86400, 604800)),
		histogram(&i.replays, "troupe.stream.replay.duration", "Time from when a client came back, or was left behind, until it was sent all that was stored.", metric.WithExplicitBucketBoundaries(.005, .01, .05, .1, .5, 1, 2.5, 5, 10, 20, 60, 300)),
		counter(&i.refused, "troupe.http.refused", "HTTP requests refused before dispatch, by status and reason."),
		counter(&i.cut, "troupe.stream.cut", "Event streams whose connection was cut, by reason."),
		counter(&i.tlsReads, "troupe.tls.reloads", "Times that the files with the TLS certificate had changed and were read again, by outcome."),
		histogram(&i.backends.starts, "troupe.backend.start.duration", "Time that an instance of a backend took to start, or until it had not, by outcome.", seconds),
		histogram(&i.backends.waits, "troupe.backend.wait.duration", "Time that a call waited until it got an instance of a backend, or was refused, by outcome.", seconds),
		counter(&i.backends.adopted, "troupe.backend.adopted", "Instances of backends that an earlier process has left and that went on here."),
		counter(&i.backends.ends, "troupe.backend.ends", "Instances of backends that have ended after they had started, by reason."),
		counter(&coarse, "troupe.metrics.coarse", "Operations that were counted without the name of their tool, or of their server, because there is no room for more names."),
	} {
		if err != nil {
			return nil, err
		}
	}
	for _, reason := range c.Cuts {
		i.cut.Add(context.Background(), 0, metric.WithAttributes(attribute.String("reason", reason)))
	}
	i.series = newSeries(c.Detail, coarse, c.Log)
	return i, nil
}

// Active reports whether the instruments record anything.
func (i *Instruments) Active() bool { return i.tracer != nil || i.duration != nil }

// Tracing reports whether the instruments make spans.
func (i *Instruments) Tracing() bool { return i.tracer != nil }

// Rejected counts a request that was refused before dispatch. A connection, or its handshake, has the status 0.
func (i *Instruments) Rejected(status int, reason string) {
	if i.refused != nil {
		i.refused.Add(context.Background(), 1, metric.WithAttributes(attribute.Int("http.response.status_code", status), attribute.String("reason", reason)))
	}
}

// Cut counts an event stream whose connection was cut.
func (i *Instruments) Cut(reason string) {
	if i.cut != nil {
		i.cut.Add(context.Background(), 1, metric.WithAttributes(attribute.String("reason", reason)))
	}
}

// TLSReloaded counts that the files with the TLS certificate were read again.
func (i *Instruments) TLSReloaded(outcome string) {
	if i.tlsReads != nil {
		i.tlsReads.Add(context.Background(), 1, metric.WithAttributes(attribute.String("outcome", outcome)))
	}
}

// Replayed records how long a client waited until it was sent all that was stored of a stream. writer says who wrote the stream.
func (i *Instruments) Replayed(writer string, took time.Duration) {
	if i.replays != nil {
		i.replays.Record(context.Background(), took.Seconds(), metric.WithAttributes(attribute.String("writer", writer)))
	}
}

// SessionEnded records how long a session has lasted.
func (i *Instruments) SessionEnded(v Via, lasted time.Duration) {
	if i.session != nil {
		i.session.Record(context.Background(), lasted.Seconds(), metric.WithAttributes(v.attrs()...))
	}
}

// NewOperations returns an empty table for a server.
func (i *Instruments) NewOperations(server string) *Operations {
	return &Operations{in: i, server: server, all: make(map[opKey]*Operation)}
}

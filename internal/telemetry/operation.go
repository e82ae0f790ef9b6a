package telemetry

import (
	"context"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

const scope = "github.com/troupe-run/troupe"

// Instruments record what a runtime does. The zero value and nil record nothing.
type Instruments struct {
	duration metric.Float64Histogram
	refused  metric.Int64Counter
	cut      metric.Int64Counter
	replays  metric.Float64Histogram
	tracer   trace.Tracer
}

// New returns instruments over the providers. A nil provider records nothing.
func New(mp metric.MeterProvider, tp trace.TracerProvider) (*Instruments, error) {
	i := &Instruments{}
	if tp != nil {
		i.tracer = tp.Tracer(scope)
	}
	if mp == nil {
		return i, nil
	}
	m := mp.Meter(scope)
	var err error
	if i.duration, err = m.Float64Histogram("mcp.server.operation.duration", metric.WithUnit("s"),
		metric.WithDescription("Duration of an MCP request or notification as the server sees it."),
		metric.WithExplicitBucketBoundaries(.0001, .0005, .001, .005, .01, .05, .1, .5, 1, 5, 10, 60, 300)); err != nil {
		return nil, err
	}
	if i.refused, err = m.Int64Counter("troupe.http.refused", metric.WithDescription("HTTP requests refused before dispatch, by status and reason.")); err != nil {
		return nil, err
	}
	if i.cut, err = m.Int64Counter("troupe.stream.cut", metric.WithDescription("Event streams whose connection was cut, by reason.")); err != nil {
		return nil, err
	}
	if i.replays, err = m.Float64Histogram("troupe.stream.replay.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from when a client came back, or was left behind, until it was sent all that was stored."),
		metric.WithExplicitBucketBoundaries(.005, .01, .05, .1, .5, 1, 2.5, 5, 10, 20, 60, 300)); err != nil {
		return nil, err
	}
	return i, nil
}

// Operations are the operations of one server. Make them with Instruments.Operations; they live
// as long as the server.
type Operations struct {
	in     *Instruments
	server string

	mu  sync.RWMutex // guards all
	all map[opKey]*Operation
}

type opKey struct{ method, name string }

// Operations returns an empty table for a server.
func (i *Instruments) Operations(server string) *Operations {
	return &Operations{in: i, server: server, all: make(map[opKey]*Operation)}
}

// Operation is one method, of one tool or prompt if it has a name. Names that a client made up
// must not become operations: each is kept forever.
type Operation struct {
	of    *Operations
	in    *Instruments
	span  string
	attrs []attribute.KeyValue
	ok    metric.MeasurementOption

	mu     sync.Mutex // guards failed
	failed map[int]metric.MeasurementOption
}

// Operation returns the operation, making it at its first use.
func (s *Operations) Operation(method, name string) *Operation {
	key := opKey{method, name}
	s.mu.RLock()
	o := s.all[key]
	s.mu.RUnlock()
	if o != nil {
		return o
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.all[key]; o != nil {
		return o
	}
	o = &Operation{of: s, in: s.in, span: method, failed: make(map[int]metric.MeasurementOption)}
	o.attrs = []attribute.KeyValue{attribute.String("mcp.method.name", method), attribute.String("troupe.server", s.server)}
	switch {
	case name == "":
	case method == "prompts/get":
		o.span += " " + name
		o.attrs = append(o.attrs, attribute.String("gen_ai.prompt.name", name))
	default:
		o.span += " " + name
		o.attrs = append(o.attrs, attribute.String("gen_ai.tool.name", name), attribute.String("gen_ai.operation.name", "execute_tool"))
	}
	o.ok = metric.WithAttributeSet(attribute.NewSet(o.attrs...))
	s.all[key] = o
	return o
}

// Of reports whether o belongs to s.
func (o *Operation) Of(s *Operations) bool { return o.of == s }

// toolError is the code under which Failed counts a result with isError.
const toolError = 1

// End records one run; code 0 is success, 1 a tool's own error, and any other the code of the
// error response.
func (o *Operation) End(ctx context.Context, start time.Time, code int) {
	if o.in.duration == nil {
		return
	}
	opt := o.ok
	if code != 0 {
		opt = o.failure(code)
	}
	o.in.duration.Record(ctx, time.Since(start).Seconds(), opt)
}

func (o *Operation) failure(code int) metric.MeasurementOption {
	o.mu.Lock()
	defer o.mu.Unlock()
	opt, ok := o.failed[code]
	if !ok {
		kind := strconv.Itoa(code)
		switch {
		case code == toolError:
			kind = "tool_error"
		case len(o.failed) >= 32: // handlers make up codes of their own
			kind = "_OTHER"
		}
		opt = metric.WithAttributeSet(attribute.NewSet(append(o.attrs[:len(o.attrs):len(o.attrs)], attribute.String("error.type", kind))...))
		if len(o.failed) < 64 {
			o.failed[code] = opt
		}
	}
	return opt
}

// Trace is the trace context of a request; fields are "" if absent.
type Trace struct{ Parent, State string }

var propagator = propagation.TraceContext{}

type carrier Trace

func (c carrier) Get(key string) string {
	switch key {
	case "traceparent":
		return c.Parent
	case "tracestate":
		return c.State
	}
	return ""
}
func (c carrier) Set(string, string) {}
func (c carrier) Keys() []string     { return []string{"traceparent", "tracestate"} }

// Start begins a span, with the [Hash] of the session's id, if there is a tracer. The returned function ends the span; it is nil if
// there is none.
func (o *Operation) Start(ctx context.Context, t Trace, id, session, revision string) (context.Context, func(code int, message string)) {
	if o.in.tracer == nil {
		return ctx, nil
	}
	if t.Parent != "" {
		ctx = propagator.Extract(ctx, carrier(t))
	}
	ctx, span := o.in.tracer.Start(ctx, o.span, trace.WithSpanKind(trace.SpanKindServer))
	if span.IsRecording() {
		span.SetAttributes(o.attrs...)
		span.SetAttributes(attribute.String("jsonrpc.request.id", id), attribute.String("mcp.session.id", Hash(session)),
			attribute.String("mcp.protocol.version", revision), attribute.String("network.transport", "tcp"))
	}
	return ctx, func(code int, message string) {
		if code != 0 && span.IsRecording() {
			span.SetStatus(codes.Error, message)
			span.SetAttributes(attribute.String("error.type", strconv.Itoa(code)))
		}
		span.End()
	}
}

// Task says on the span of ctx, if there is one, which task a call is a run of, by the [Hash] of its id.
func Task(ctx context.Context, id string, attempt int) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(attribute.String("troupe.task.id", Hash(id)), attribute.Int("troupe.task.attempt", attempt))
	}
}

// Step notes on the span of ctx, if there is one, a step of a handler that has its result: stored by this run, or by an earlier one.
func Step(ctx context.Context, name string, took time.Duration, earlier bool) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.AddEvent("troupe.step", trace.WithAttributes(attribute.String("troupe.step.name", name), attribute.Int64("troupe.step.took_ms", took.Milliseconds()), attribute.Bool("troupe.step.earlier", earlier)))
	}
}

// Tracing reports whether the instruments make spans.
func (i *Instruments) Tracing() bool { return i.tracer != nil }

// Rejected counts an HTTP request refused before dispatch.
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

// Replayed records how long a client waited until it was sent all that was stored of a stream. writer says who wrote the stream.
func (i *Instruments) Replayed(writer string, took time.Duration) {
	if i.replays != nil {
		i.replays.Record(context.Background(), took.Seconds(), metric.WithAttributes(attribute.String("writer", writer)))
	}
}

// Gauge is a value that is read when metrics are collected.
type Gauge struct {
	Name, Unit, Doc string
	Counter         bool // it only rises
	Label           string
	Read            func(observe func(label string, v int64))
}

// Observe registers gauges with the provider. remove removes them.
func Observe(mp metric.MeterProvider, gauges []Gauge) (remove func() error, err error) {
	if mp == nil {
		return func() error { return nil }, nil
	}
	m := mp.Meter(scope)
	var regs []metric.Registration
	for _, g := range gauges {
		var obs metric.Int64Observable
		if g.Counter {
			obs, err = m.Int64ObservableCounter(g.Name, metric.WithUnit(g.Unit), metric.WithDescription(g.Doc))
		} else {
			obs, err = m.Int64ObservableGauge(g.Name, metric.WithUnit(g.Unit), metric.WithDescription(g.Doc))
		}
		if err != nil {
			return nil, err
		}
		reg, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
			g.Read(func(label string, v int64) {
				if g.Label == "" {
					o.ObserveInt64(obs, v)
					return
				}
				o.ObserveInt64(obs, v, metric.WithAttributes(attribute.String(g.Label, label)))
			})
			return nil
		}, obs)
		if err != nil {
			return nil, err
		}
		regs = append(regs, reg)
	}
	return func() error {
		for _, r := range regs {
			if err := r.Unregister(); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

package telemetry

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/troupe-run/troupe/mcp"
)

// Trace is a trace context with its baggage (W3C Trace Context, W3C Baggage); fields are "" if
// absent. What is malformed, or longer than the standards allow, counts as absent.
type Trace struct{ Parent, State, Baggage string }

// Bounds of what is read of a trace context, in bytes.
const (
	maxParent  = 256
	maxState   = 512 // which must be passed on at least
	maxBaggage = 8192
)

// Bounded returns t without what is longer than the standards allow.
func (t Trace) Bounded() Trace {
	c := carrier(t)
	return Trace{Parent: c.Get("traceparent"), State: c.Get("tracestate"), Baggage: c.Get("baggage")}
}

var (
	traces  = propagation.TraceContext{}
	baggage = propagation.Baggage{}
)

type carrier Trace

func (c carrier) Get(key string) string {
	switch {
	case key == "traceparent" && len(c.Parent) <= maxParent:
		return c.Parent
	case key == "tracestate" && len(c.State) <= maxState:
		return c.State
	case key == "baggage" && len(c.Baggage) <= maxBaggage:
		return c.Baggage
	}
	return ""
}
func (c carrier) Set(string, string) {}
func (c carrier) Keys() []string     { return []string{"traceparent", "tracestate", "baggage"} }

// spanContext is that of the span that t names; it is not valid if t names none.
func (t Trace) spanContext() trace.SpanContext {
	if t.Parent == "" {
		return trace.SpanContext{}
	}
	return trace.SpanContextFromContext(traces.Extract(context.Background(), carrier(t)))
}

// TraceOf returns the trace context of the span of ctx, zero if there is none. It leaves the baggage out: that of
// who calls, and of the program, is for no client.
func TraceOf(ctx context.Context) (t Trace) {
	c := propagation.MapCarrier{}
	traces.Inject(ctx, c)
	return Trace{Parent: c["traceparent"], State: c["tracestate"]}
}

// Request is what a span says of its request.
type Request struct {
	Via     Via
	ID      []byte // raw; nil for a notification
	Session string // "" without one
	URI     string // of the resource, "" if the request is about none
	Run     int    // 1, or 0, for the first run of a call
	// Message is the trace context of the message, which is the parent. Carrier is that of what the
	// message came in: the parent if the message has none, and otherwise linked. Earlier is that of the
	// span of the run before this one, which is linked.
	Message, Carrier, Earlier Trace
}

// How much is shown of what clients and handlers write, in bytes: what waits for a collector is counted in
// spans.
const (
	maxID      = 128
	maxURI     = 1 << 10
	maxMessage = 256
)

// shorten returns text that any exporter takes, cut to a number of bytes.
func shorten(text string, most int) string {
	if len(text) > most {
		text = text[:most]
	}
	return strings.ToValidUTF8(text, "")
}

// idText returns the text of a raw id: that in the quotes, if it is a string.
func idText(raw []byte) string {
	text := string(raw)
	if raw[0] == '"' {
		if err := json.Unmarshal(raw, &text); err != nil {
			text = string(raw)
		}
	}
	return shorten(text, maxID)
}

// asServer is what each span begins with.
var asServer = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer)}

func (r *Request) attrs() []attribute.KeyValue {
	attrs := r.Via.spanAttrs()
	if len(r.ID) > 0 && string(r.ID) != "null" {
		attrs = append(attrs, attribute.String("jsonrpc.request.id", idText(r.ID)))
	}
	if r.Session != "" {
		attrs = append(attrs, attribute.String("mcp.session.id", Hash(r.Session)))
	}
	if r.URI != "" {
		attrs = append(attrs, attribute.String("mcp.resource.uri", shorten(r.URI, maxURI)))
	}
	if r.Run > 1 {
		attrs = append(attrs, attribute.Int("troupe.run", r.Run))
	}
	return attrs
}

// Span is the span of an operation. All methods do nothing on the zero value.
type Span struct{ span trace.Span }

// End ends the span as Operation.RecordRun counts the outcome; message is that of an error.
func (s Span) End(code int, message string) {
	if s.span == nil {
		return
	}
	if code != 0 && s.span.IsRecording() {
		s.span.SetStatus(codes.Error, shorten(message, maxMessage))
		s.span.SetAttributes(failureAttrs(failureOf(code))...)
	}
	s.span.End()
}

// SetUser says by whom the request is, by a pseudonym; "" is nobody.
func (s Span) SetUser(pseudonym string) {
	if s.Recording() && pseudonym != "" {
		s.span.SetAttributes(attribute.String("enduser.pseudo.id", pseudonym))
	}
}

// SetRevision says which revision is spoken, where that was not known when the span began.
func (s Span) SetRevision(r mcp.Revision) {
	if s.Recording() && r != 0 {
		s.span.SetAttributes(attribute.String("mcp.protocol.version", r.String()))
	}
}

// Recording reports whether anybody sees what is noted on the span.
func (s Span) Recording() bool { return s.span != nil && s.span.IsRecording() }

// Note adds an event to the span, linked to the span that t names if there is one.
func (s Span) Note(event string, t Trace, attrs ...attribute.KeyValue) {
	if !s.Recording() {
		return
	}
	s.span.AddEvent(event, trace.WithAttributes(attrs...))
	if c := t.spanContext(); c.IsValid() {
		s.span.AddLink(trace.Link{SpanContext: c, Attributes: []attribute.KeyValue{attribute.String("troupe.link", event)}})
	}
}

// NoteTask says on the span of ctx, if there is one, which task a call is a run of, by the [Hash] of its id.
func NoteTask(ctx context.Context, id string, attempt int) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(attribute.String("troupe.task.id", Hash(id)), attribute.Int("troupe.task.attempt", attempt))
	}
}

// NoteStep notes on the span of ctx, if there is one, a step of a handler that has its result: stored by this run, or by an earlier one.
func NoteStep(ctx context.Context, name string, took time.Duration, earlier bool) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.AddEvent("troupe.step", trace.WithAttributes(attribute.String("troupe.step.name", name), attribute.Int64("troupe.step.took_ms", took.Milliseconds()), attribute.Bool("troupe.step.earlier", earlier)))
	}
}
